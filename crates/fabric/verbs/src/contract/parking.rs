//! The promises on workers that park, for fabrics that run in real time. No wake is lost. A sender
//! that finds an active worker (subscribed and not parked) wakes no worker. These tests do not use
//! [`Harness`](super::Harness), because they need executors and their notifiers.
//!
//! ```text
//!   node 2: endpoint ── messages ──► inbox of node 1 ◄── servers, which park whenever it is empty
//! ```

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::task::{Poll, Waker};
use std::thread::{self, Scope, ScopedJoinHandle};
use std::time::Duration;

use latchwork_runtime::sync::AtomicBool;
use latchwork_runtime::{
    Clock, Executor, ExecutorConfig, Handle, Notifier, Poller, RealDriver, Time,
};

use super::node;
use super::threads::PATIENCE;
use crate::address::Target;
use crate::endpoint::{Endpoint, Inbox, Subscription};
use crate::request::{Message, WorkRequest};

/// One worker's access to the inbox that it serves.
pub type Served = (Box<dyn Inbox>, Box<dyn Subscription>);

/// The compute nodes 1 and 2 of a backend under test. The two nodes share one fabric, or each has a
/// fabric of its own, as in two processes.
pub trait Parking: Sync {
    /// Makes an endpoint of node 2. On fabrics whose completions notify, a completion wakes the
    /// worker through `notifier`.
    fn endpoint(&self, notifier: Option<Notifier>) -> Box<dyn Endpoint>;

    /// Makes an inbox of node 1, with a subscription to it.
    fn serve(&self, notifier: Notifier) -> Served;

    /// The number of rounds of the cheapest test. A more expensive test runs a fraction of this
    /// number.
    fn rounds(&self) -> u64;
}

/// Tests a backend with one test per promise. `$make` takes the capacity of an inbox in messages,
/// and returns an iterator over fresh [`Parking`]s.
#[macro_export]
macro_rules! parking_tests {
    ($make:expr) => {
        $crate::parking_tests! { @ $make =>
            a_message_always_finds_a_parked_worker(1024)
            bursts_beyond_the_inbox_arrive_at_parked_workers(4)
            two_senders_and_workers_that_come_and_go_lose_nothing(16)
            an_active_worker_that_leaves_hands_its_messages_to_a_parked_one(16)
            a_worker_with_a_message_in_its_inbox_does_not_park(16)
            completions_reach_a_worker_that_wants_to_park(1)
        }
    };
    (@ $make:expr => $($promise:ident($capacity:expr))*) => {$(
        #[test]
        fn $promise() {
            for nodes in $make($capacity) {
                $crate::contract::parking::$promise(&nodes);
            }
        }
    )*};
}

/// An executor that parks as soon as it has nothing to do.
fn sleepy() -> Executor<RealDriver> {
    let config = ExecutorConfig { spin_sweeps: 0, yield_sweeps: 0, ..ExecutorConfig::default() };
    Executor::new(RealDriver::new(), config)
}

fn message(value: u64) -> [WorkRequest; 1] {
    [WorkRequest::Send(Message { from: node(2), body: [value; Message::WORDS] })]
}

fn target() -> Target {
    super::compute(1)
}

/// Counters of the workers that serve an inbox.
#[derive(Default)]
pub struct Counts {
    /// Messages received.
    pub received: AtomicU64,
    /// Subscriptions that are parked. The thread of a parked subscription may still be awake,
    /// because it sleeps a moment later.
    pub parked: AtomicU64,
}

/// A poller that counts the messages of an inbox. The poller permits the worker to park when the
/// inbox is empty.
pub struct Serve {
    inbox: Box<dyn Inbox>,
    subscription: Box<dyn Subscription>,
    counts: Arc<Counts>,
}

impl Serve {
    /// Makes a poller that counts in `counts`.
    pub fn new((inbox, subscription): Served, counts: &Arc<Counts>) -> Serve {
        Serve { inbox, subscription, counts: Arc::clone(counts) }
    }
}

impl Poller for Serve {
    fn poll(&self, _now: Time) -> bool {
        self.inbox.receive(&mut |_| {
            self.counts.received.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn flush(&self) {}

    fn may_park(&self) -> bool {
        let may = self.subscription.park();
        self.counts.parked.fetch_add(u64::from(may), Ordering::Relaxed);
        may
    }

    fn unparked(&self) {
        self.subscription.unparked();
        self.counts.parked.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Threads that serve the inbox of node 1 until this value is dropped. A thread parks whenever the
/// inbox is empty.
pub struct Servers<'scope> {
    stop: Arc<AtomicBool>,
    counts: Arc<Counts>,
    threads: Vec<(Notifier, ScopedJoinHandle<'scope, u64>)>,
}

impl<'scope> Servers<'scope> {
    /// Starts `count` threads, each with the name `server`.
    ///
    /// # Panics
    /// When the machine has no thread left, or when a thread panics at its start.
    pub fn start<'a>(
        scope: &'scope Scope<'scope, 'a>,
        nodes: &'a impl Parking,
        count: usize,
    ) -> Self {
        let (stop, counts) = (Arc::<AtomicBool>::default(), Arc::<Counts>::default());
        let serve = |_| {
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            let (ready, started) = channel();
            let body = move || {
                let mut worker = sleepy();
                let notifier = worker.handle().notifier();
                let served = nodes.serve(notifier.clone());
                worker.handle().add_poller(Rc::new(Serve::new(served, &counts)));
                ready.send(notifier).expect("somebody waits for it");
                worker.run_until_stopped(&stop);
                worker.handle().activity().parks
            };
            let thread = thread::Builder::new().name("server".to_owned());
            let thread = thread.spawn_scoped(scope, body).expect("a thread");
            (started.recv().expect("it has begun"), thread)
        };
        let threads = (0..count).map(serve).collect();
        Servers { stop, counts, threads }
    }

    /// The messages received so far.
    pub fn received(&self) -> u64 {
        self.counts.received.load(Ordering::Relaxed)
    }

    /// Stops all threads. Returns how often the threads parked.
    ///
    /// # Panics
    /// When one of the threads panicked.
    pub fn stop(mut self) -> u64 {
        self.tell();
        let threads = std::mem::take(&mut self.threads);
        threads.into_iter().map(|(_, thread)| thread.join().expect("no panic")).sum()
    }

    fn tell(&self) {
        self.stop.store(true, Ordering::Release);
        self.threads.iter().for_each(|(notifier, _)| notifier.notify());
    }
}

impl Drop for Servers<'_> {
    fn drop(&mut self) {
        // The scope joins the threads also when the test fails. Without this call the threads would
        // never end.
        self.tell();
    }
}

/// Rings once, and polls until nothing is in flight and `is_done` returns true.
fn finish(endpoint: &mut dyn Endpoint, is_done: impl Fn() -> bool) {
    let clock = Clock::start();
    let deadline = clock.now() + PATIENCE;
    endpoint.ring();
    while endpoint.in_flight() > 0 || !is_done() {
        assert!(clock.now() < deadline, "a message waits for ever");
        endpoint.poll(&mut |completion| assert!(completion.result.is_ok()));
        thread::yield_now();
    }
}

/// Sends `rounds` bursts of up to `burst_max` messages. All messages of a burst must arrive before
/// the next message is sent.
fn bursts(nodes: &impl Parking, servers: &Servers<'_>, rounds: u64, burst_max: u64) {
    let handle = sleepy().handle();
    let mut endpoint = nodes.endpoint(None);
    let mut sent = 0;
    for _ in 0..rounds {
        for _ in 0..1 + handle.random_below(burst_max) {
            endpoint.post(target(), 0, &message(sent)).expect("a batch that is right");
            sent += 1;
        }
        finish(&mut *endpoint, || servers.received() == sent);
        // The pause is random. In some rounds the receivers park during the pause, in other rounds
        // they are about to park at its end.
        for _ in 0..handle.random_below(4096) {
            std::hint::spin_loop();
        }
    }
}

/// A message wakes a parked worker, at whatever moment the message comes.
pub fn a_message_always_finds_a_parked_worker(nodes: &impl Parking) {
    for workers in [1, 3] {
        thread::scope(|scope| {
            let servers = Servers::start(scope, nodes, workers);
            bursts(nodes, &servers, nodes.rounds(), 2);
            assert!(servers.stop() > 0, "nobody was ever parked");
        });
    }
}

/// Messages that find a full inbox wait at the sender and arrive later. The receivers park whenever
/// the inbox is empty.
pub fn bursts_beyond_the_inbox_arrive_at_parked_workers(nodes: &impl Parking) {
    thread::scope(|scope| {
        let servers = Servers::start(scope, nodes, 2);
        bursts(nodes, &servers, nodes.rounds() / 8, 60);
        servers.stop();
    });
}

/// Two endpoints send to three workers, and one of the workers leaves during the sends. No message
/// is lost.
pub fn two_senders_and_workers_that_come_and_go_lose_nothing(nodes: &impl Parking) {
    const EACH: u64 = 200;
    for _ in 0..nodes.rounds() / 150 {
        thread::scope(|scope| {
            let servers = Servers::start(scope, nodes, 2);
            let short_lived = Servers::start(scope, nodes, 1);
            let leaver = Arc::clone(&short_lived.counts);
            let send = || {
                let mut endpoint = nodes.endpoint(None);
                for i in 0..EACH {
                    endpoint.post(target(), i, &message(i)).expect("a batch that is right");
                    endpoint.ring();
                }
                finish(&mut *endpoint, || true);
            };
            let senders = [(); 2].map(|()| scope.spawn(send));
            short_lived.stop();
            senders.into_iter().for_each(|sender| sender.join().expect("no panic"));
            let all = || servers.received() + leaver.received.load(Ordering::Relaxed) == 2 * EACH;
            wait_until(all);
            servers.stop();
        });
    }
}

fn wait_until(is_done: impl Fn() -> bool) {
    let mut worker = sleepy();
    let handle = worker.handle();
    let deadline = handle.now() + PATIENCE;
    worker.block_on(async {
        while !is_done() {
            assert!(handle.now() < deadline, "it does not come to that");
            handle.sleep(Duration::from_micros(50)).await;
        }
    });
}

/// A sender wakes no worker while some worker is active. If the active worker leaves without a
/// poll, another worker receives the message.
pub fn an_active_worker_that_leaves_hands_its_messages_to_a_parked_one(nodes: &impl Parking) {
    // The time in which a wrong wake would show. A wake is usually far shorter; a slower wake
    // escapes the test.
    const MOMENT: Duration = Duration::from_millis(20);
    thread::scope(|scope| {
        let servers = Servers::start(scope, nodes, 1);
        let mut worker = sleepy();
        let handle = worker.handle();
        // The idler is active and never polls.
        let idler = nodes.serve(handle.notifier());
        wait_until(|| servers.counts.parked.load(Ordering::Relaxed) == 1);
        let mut endpoint = nodes.endpoint(None);
        endpoint.post(target(), 0, &message(0)).expect("a batch that is right");
        finish(&mut *endpoint, || true);
        worker.block_on(handle.sleep(MOMENT));
        assert_eq!(servers.received(), 0, "an active worker was to do it");
        drop(idler);
        wait_until(|| servers.received() == 1);
        servers.stop();
    });
}

/// Parking checks the inbox once more, so a worker whose inbox has a message stays active.
pub fn a_worker_with_a_message_in_its_inbox_does_not_park(nodes: &impl Parking) {
    let worker = sleepy();
    let (inbox, subscription) = nodes.serve(worker.handle().notifier());
    assert!(subscription.park());
    subscription.unparked();
    let mut endpoint = nodes.endpoint(None);
    endpoint.post(target(), 0, &message(0)).expect("a batch that is right");
    assert!(subscription.park(), "posted is not sent");
    subscription.unparked();
    finish(&mut *endpoint, || true);
    assert!(!subscription.park());
    assert!(inbox.receive(&mut |_| {}));
    assert!(subscription.park());
    subscription.unparked();
}

/// An endpoint that its worker polls, and that decides whether the worker may park.
struct Polled {
    endpoint: RefCell<Box<dyn Endpoint>>,
    completed: Cell<u64>,
    waiting: Cell<Option<Waker>>,
}

impl Polled {
    async fn post_and_wait(&self, handle: &Handle, count: u64) {
        let end = self.completed.get() + count;
        for i in 0..count {
            let posted = self.endpoint.borrow_mut().post(target(), i, &message(i));
            posted.expect("a batch that is right");
        }
        let all = poll_fn(|context| {
            if self.completed.get() >= end {
                return Poll::Ready(());
            }
            self.waiting.set(Some(context.waker().clone()));
            Poll::Pending
        });
        // The timer also wakes the worker. The assertion below fails when only the timer did.
        let late = handle.now() + PATIENCE;
        handle.timeout(late, all).await.expect("a completion waits for ever");
        assert!(handle.now() < late, "only the timer has woken the worker");
    }
}

impl Poller for Polled {
    fn poll(&self, _now: Time) -> bool {
        let some = self.endpoint.borrow_mut().poll(&mut |completion| {
            assert!(completion.result.is_ok());
            self.completed.set(self.completed.get() + 1);
        });
        if some && let Some(waker) = self.waiting.take() {
            waker.wake();
        }
        some
    }

    fn flush(&self) {
        self.endpoint.borrow_mut().ring();
    }

    fn may_park(&self) -> bool {
        self.endpoint.borrow().may_park()
    }
}

/// A worker waits for completions and parks whenever its endpoint permits. On fabrics whose
/// completions notify, a completion wakes the worker; on the others the worker polls. On a fabric
/// whose inbox has room for only one message, the second message waits at the sender. The second
/// completion comes after a receive on node 1, which is usually late enough for the worker to park.
pub fn completions_reach_a_worker_that_wants_to_park(nodes: &impl Parking) {
    let (go, told) = channel::<()>();
    thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            let (_never, later) = channel::<()>();
            let (inbox, _subscription) = nodes.serve(sleepy().handle().notifier());
            let (mut received, mut enough) = (0, 0);
            while told.recv().is_ok() {
                let _ = later.recv_timeout(Duration::from_millis(3));
                enough += 2;
                while received < enough {
                    inbox.receive(&mut |_| received += 1);
                    thread::yield_now();
                }
            }
            received
        });
        let mut worker = sleepy();
        let handle = worker.handle();
        let endpoint = nodes.endpoint(Some(handle.notifier()));
        let polled = Rc::new(Polled {
            endpoint: RefCell::new(endpoint),
            completed: Cell::new(0),
            waiting: Cell::new(None),
        });
        handle.add_poller(Rc::clone(&polled) as Rc<dyn Poller>);
        let rounds = nodes.rounds() / 10;
        worker.block_on(async {
            for _ in 0..rounds {
                go.send(()).expect("it lives");
                polled.post_and_wait(&handle, 2).await;
            }
        });
        drop(go);
        assert_eq!(receiver.join().expect("no panic"), 2 * rounds);
    });
}
