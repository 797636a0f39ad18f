//! Tests of rings, and of workers that park while other processes send, under the interleavings
//! that the model checker loom explores. `scripts/loom.sh` runs them.
//!
//! A thread stands for a process. The shared memory of the processes is in regions, as in real
//! processes, and everything else is private to a thread. No model has a timer, so loom reports a
//! message that waits permanently as a deadlock.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use latchwork_runtime::sync::{Arc, AtomicBool, Ordering, yield_now};
use latchwork_runtime::{Driver, Executor, ExecutorConfig, Poller, RealDriver, Time};
use latchwork_verbs::{ComputeNodeId, Inbox as _, Message, Region, Subscription as _};
use loom::thread;

use super::page::Page;
use super::peer_ring::Lane;
use super::ring::{Ends, Ring};
use crate::inbox::{Across, Mailbox, ShmInbox};

const CAPACITY: usize = 2;

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

fn ends(sender: u8) -> Ends {
    Ends { receiver: (1, node(1)), sender: (u64::from(sender), node(sender)) }
}

/// A ring to node 1: the sender's value and the receiver's value.
fn ring(sender: u8) -> (Ring, Ring) {
    let region = Region::zeroed(Ring::bytes(CAPACITY)).unwrap();
    Ring::create(&region, CAPACITY, ends(sender));
    let open = || Ring::open(region.clone(), ends(sender)).unwrap();
    (open(), open())
}

fn message(value: u64) -> Message {
    Message { from: node(2), body: [value; Message::WORDS] }
}

fn whole(message: &Message) -> u64 {
    assert!(message.body.iter().all(|word| *word == message.body[0]), "a torn message");
    message.body[0]
}

fn pop(ring: &Ring) -> u64 {
    loop {
        match ring.pop(node(2)) {
            Some(message) => return whole(&message),
            None => yield_now(),
        }
    }
}

/// Explores a model of many steps, with one preemption less than in the other models, to limit the
/// run time.
fn larger(body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = model.preemption_bound.map(|bound| bound.saturating_sub(1).max(1));
    model.check(body);
}

// ---- rings --------------------------------------------------------------------------------------

#[test]
fn every_message_of_two_threads_arrives_whole_and_once() {
    loom::model(|| {
        let (sender, receiver) = ring(2);
        let sender = Arc::new(sender);
        let senders = [1, 2].map(|value| {
            let sender = sender.clone();
            thread::spawn(move || assert!(sender.push(&message(value)), "there is room"))
        });
        let mut received = [pop(&receiver), pop(&receiver)];
        received.sort_unstable();
        assert_eq!(received, [1, 2]);
        assert_eq!(receiver.pop(node(2)), None);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn two_threads_share_the_messages() {
    loom::model(|| {
        let (sender, receiver) = ring(2);
        assert!(sender.push(&message(1)) && sender.push(&message(2)));
        let receiver = Arc::new(receiver);
        let other = thread::spawn({
            let receiver = receiver.clone();
            move || pop(&receiver)
        });
        let mut received = [pop(&receiver), other.join().unwrap()];
        received.sort_unstable();
        assert_eq!(received, [1, 2]);
    });
}

#[test]
fn a_slot_is_filled_anew_only_when_its_message_was_taken() {
    loom::model(|| {
        let (sender, receiver) = ring(2);
        assert!(sender.push(&message(1)) && sender.push(&message(2)));
        let filler = thread::spawn(move || {
            while !sender.push(&message(3)) {
                yield_now();
            }
        });
        assert_eq!([pop(&receiver), pop(&receiver), pop(&receiver)], [1, 2, 3]);
        filler.join().unwrap();
    });
}

/// A message with two words that are not zero. Each word that a receiver may read during its write
/// doubles the number of interleavings.
fn short(value: u64) -> Message {
    let mut body = [0; Message::WORDS];
    body[..2].fill(value);
    Message { from: node(2), body }
}

fn value_of(message: &Message) -> u64 {
    assert_eq!(*message, short(message.body[0]), "a torn message");
    message.body[0]
}

#[test]
fn a_slot_that_is_filled_anew_while_two_threads_take_its_message_is_taken_once() {
    loom::model(|| {
        let (sender, receiver) = ring(2);
        assert!(sender.push(&short(1)) && sender.push(&short(2)));
        let receiver = Arc::new(receiver);
        let other = thread::spawn({
            let receiver = receiver.clone();
            move || receiver.pop(node(2)).map(|message| value_of(&message))
        });
        let first = receiver.pop(node(2)).map(|message| value_of(&message));
        // The receiver has taken a message, so there is room for a third.
        assert!(sender.push(&short(3)));
        let mut received: Vec<_> = first.into_iter().chain(other.join().unwrap()).collect();
        while let Some(message) = receiver.pop(node(2)) {
            received.push(value_of(&message));
        }
        received.sort_unstable();
        assert_eq!(received, [1, 2, 3]);
    });
}

#[test]
fn the_taker_of_a_message_sees_what_its_sender_did_before() {
    loom::model(|| {
        let (sender, receiver) = ring(2);
        let done = Arc::new(AtomicBool::new(false));
        let sending = thread::spawn({
            let done = done.clone();
            move || {
                done.store(true, Ordering::Relaxed);
                sender.push(&message(1));
            }
        });
        let ready = receiver.has_ready();
        if receiver.pop(node(2)).is_some() {
            assert!(done.load(Ordering::Relaxed));
        } else {
            assert!(!ready, "a message that is ready can be taken by the only receiver");
        }
        sending.join().unwrap();
    });
}

// ---- parking ------------------------------------------------------------------------------------

/// Node 1, and the rings to node 1 from nodes of other processes.
struct Cluster {
    mailbox: Arc<Mailbox>,
    lanes: Vec<Lane>,
    /// The page of node 1 as a process of a peer opens it.
    page: Arc<Page>,
}

fn cluster(senders: &[u8]) -> Cluster {
    let region = Region::zeroed(Page::BYTES).unwrap();
    let page = Arc::new(Page::create(region.clone(), 1, node(1)));
    let mailbox = Arc::new(Mailbox::new(2, Some(Across::new(page))));
    let page = Arc::new(Page::open(region, 1, node(1)).unwrap());
    let lanes = senders
        .iter()
        .map(|&id| {
            let (sender, receiver) = ring(id);
            mailbox.across().unwrap().lanes.add(node(id), receiver);
            Lane::new(sender, page.clone(), node(id))
        })
        .collect();
    Cluster { mailbox, lanes, page }
}

struct Serve {
    inbox: ShmInbox,
    subscription: crate::ShmSubscription,
    received: RefCell<Vec<u64>>,
    waiter: RefCell<Option<Waker>>,
}

impl Poller for Serve {
    fn poll(&self, _now: Time) -> bool {
        let some =
            self.inbox.receive(&mut |message| self.received.borrow_mut().push(whole(&message)));
        if some {
            self.waiter.take().into_iter().for_each(Waker::wake);
        }
        some
    }

    fn flush(&self) {}

    fn may_park(&self) -> bool {
        self.subscription.park()
    }

    fn unparked(&self) {
        self.subscription.unparked();
    }
}

/// A worker that parks as soon as it has nothing to do.
struct Server {
    executor: Executor<RealDriver>,
    serve: Rc<Serve>,
}

impl Server {
    fn new(mailbox: &Arc<Mailbox>) -> Server {
        let config =
            ExecutorConfig { spin_sweeps: 0, yield_sweeps: 0, ..ExecutorConfig::default() };
        let executor = Executor::new(RealDriver::new(), config);
        let inbox = ShmInbox::new(mailbox.clone());
        let subscription = inbox.subscribe(executor.handle().notifier());
        let (received, waiter) = (RefCell::default(), RefCell::default());
        let serve = Rc::new(Serve { inbox, subscription, received, waiter });
        executor.handle().add_poller(serve.clone());
        Server { executor, serve }
    }

    /// Runs the worker until it has received `count` messages; returns the messages in ascending
    /// order.
    fn receive(mut self, count: usize) -> Vec<u64> {
        let serve = self.serve;
        self.executor.block_on(poll_fn(|cx| {
            serve.waiter.replace(Some(cx.waker().clone()));
            if serve.received.borrow().len() == count { Poll::Ready(()) } else { Poll::Pending }
        }));
        let mut received = serve.received.take();
        received.sort_unstable();
        received
    }
}

#[test]
fn a_message_from_elsewhere_always_finds_a_worker_that_parks() {
    loom::model(|| {
        let Cluster { mailbox, mut lanes, .. } = cluster(&[2]);
        let server = Server::new(&mailbox);
        let lane = lanes.remove(0);
        let sender = thread::spawn(move || assert!(lane.send(&message(7))));
        assert_eq!(server.receive(1), [7]);
        sender.join().unwrap();
    });
}

#[test]
fn a_sender_elsewhere_and_one_here_leave_no_message_behind() {
    larger(|| {
        let Cluster { mailbox, mut lanes, .. } = cluster(&[2]);
        let server = Server::new(&mailbox);
        let lane = lanes.remove(0);
        let elsewhere = thread::spawn(move || assert!(lane.send(&message(1))));
        let here = thread::spawn(move || assert!(mailbox.send(&message(2))));
        assert_eq!(server.receive(2), [1, 2]);
        elsewhere.join().unwrap();
        here.join().unwrap();
    });
}

#[test]
fn two_threads_of_one_process_elsewhere_share_the_waking() {
    larger(|| {
        let Cluster { mailbox, mut lanes, .. } = cluster(&[2]);
        let server = Server::new(&mailbox);
        let lane = Arc::new(lanes.remove(0));
        let senders = [1, 2].map(|value| {
            let lane = lane.clone();
            thread::spawn(move || assert!(lane.send(&message(value))))
        });
        assert_eq!(server.receive(2), [1, 2]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_process_that_dies_before_the_wake_keeps_no_other_from_waking() {
    larger(|| {
        let Cluster { mailbox, mut lanes, page } = cluster(&[2, 3]);
        let server = Server::new(&mailbox);
        let living = lanes.remove(0);
        // This sender sets its bit for a parked worker, and dies before the wake.
        let dying = thread::spawn(move || page.ring_and_die(node(3)));
        let sender = thread::spawn(move || assert!(living.send(&message(7))));
        assert_eq!(server.receive(1), [7]);
        dying.join().unwrap();
        sender.join().unwrap();
    });
}

#[test]
fn a_worker_that_is_rung_and_leaves_hands_the_message_on() {
    larger(|| {
        let Cluster { mailbox, mut lanes, .. } = cluster(&[2]);
        // A sender rings the first parking spot, and the idler has it.
        let idler = ShmInbox::new(mailbox.clone()).subscribe(RealDriver::new().notifier());
        let server = Server::new(&mailbox);
        let leaver = thread::spawn(move || {
            // The idler parks and leaves without a poll of the inbox. A sender may ring it in
            // between.
            idler.park();
            drop(idler);
        });
        let lane = lanes.remove(0);
        let sender = thread::spawn(move || assert!(lane.send(&message(7))));
        assert_eq!(server.receive(1), [7]);
        leaver.join().unwrap();
        sender.join().unwrap();
    });
}

#[test]
fn a_bed_that_is_rung_while_something_else_wakes_its_worker_can_be_rung_again() {
    larger(|| {
        let Cluster { mailbox, mut lanes, .. } = cluster(&[2]);
        let server = Server::new(&mailbox);
        let notifier = server.executor.handle().notifier();
        let other = thread::spawn(move || notifier.notify());
        let lane = lanes.remove(0);
        let sender = thread::spawn(move || {
            assert!(lane.send(&message(1)));
            assert!(lane.send(&message(2)));
        });
        assert_eq!(server.receive(2), [1, 2]);
        other.join().unwrap();
        sender.join().unwrap();
    });
}
