//! Tests of workers that park while messages come, with the real executor and the model checker
//! loom (`scripts/loom.sh`). No model has a timer, so loom reports a message that waits permanently
//! as a deadlock.

use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use latchwork_runtime::{Driver, Executor, ExecutorConfig, Poller, RealDriver, Time};
use latchwork_verbs::{ComputeNodeId, Inbox as _, Subscription as _};
use loom::thread;

use super::*;

fn message(value: u64) -> Message {
    Message { from: ComputeNodeId::new(1).unwrap(), body: [value; Message::WORDS] }
}

fn mailbox() -> Arc<Mailbox> {
    Arc::new(Mailbox::new(2, None))
}

/// A worker's poller of its inbox.
struct Serve {
    inbox: ShmInbox,
    subscription: ShmSubscription,
    received: RefCell<Vec<u64>>,
    waiter: RefCell<Option<Waker>>,
}

impl Poller for Serve {
    fn poll(&self, _now: Time) -> bool {
        let some = self.inbox.receive(&mut |message| {
            assert!(message.body.iter().all(|word| *word == message.body[0]), "a torn message");
            self.received.borrow_mut().push(message.body[0]);
        });
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

    /// Runs the worker until it has received `count` messages; returns the messages.
    fn receive(mut self, count: usize) -> Vec<u64> {
        let serve = self.serve;
        self.executor.block_on(poll_fn(|cx| {
            serve.waiter.replace(Some(cx.waker().clone()));
            if serve.received.borrow().len() == count { Poll::Ready(()) } else { Poll::Pending }
        }));
        serve.received.take()
    }
}

#[test]
fn a_message_always_finds_a_worker_that_parks() {
    loom::model(|| {
        let mailbox = mailbox();
        let server = Server::new(&mailbox);
        let sender = thread::spawn(move || assert!(mailbox.send(&message(7))));
        assert_eq!(server.receive(1), [7]);
        sender.join().unwrap();
    });
}

#[test]
fn two_senders_leave_no_message_behind() {
    loom::model(|| {
        let mailbox = mailbox();
        let server = Server::new(&mailbox);
        let senders = [1, 2].map(|value| {
            let mailbox = mailbox.clone();
            thread::spawn(move || assert!(mailbox.send(&message(value))))
        });
        let mut received = server.receive(2);
        received.sort_unstable();
        assert_eq!(received, [1, 2]);
        senders.into_iter().for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn an_active_worker_that_leaves_hands_its_messages_to_one_that_parks() {
    loom::model(|| {
        let mailbox = mailbox();
        let server = Server::new(&mailbox);
        // The idler is active and never polls. Another thread drops it at some time.
        let idler = ShmInbox::new(mailbox.clone()).subscribe(RealDriver::new().notifier());
        let leaver = thread::spawn(move || drop(idler));
        let sender = thread::spawn(move || assert!(mailbox.send(&message(7))));
        assert_eq!(server.receive(1), [7]);
        leaver.join().unwrap();
        sender.join().unwrap();
    });
}

#[test]
fn a_worker_that_is_woken_and_leaves_hands_the_message_on() {
    loom::model(|| {
        let mailbox = mailbox();
        let server = Server::new(&mailbox);
        let other = thread::spawn({
            let mailbox = mailbox.clone();
            move || {
                // The idler parks and leaves without a poll of the inbox. A sender may wake it in
                // between.
                let idler = ShmInbox::new(mailbox).subscribe(RealDriver::new().notifier());
                idler.park();
                drop(idler);
            }
        });
        let sender = thread::spawn({
            let mailbox = mailbox.clone();
            move || assert!(mailbox.send(&message(7)))
        });
        assert_eq!(server.receive(1), [7]);
        other.join().unwrap();
        sender.join().unwrap();
        assert_eq!(mailbox.active.0.load(Ordering::Relaxed), 0, "all are gone");
    });
}
