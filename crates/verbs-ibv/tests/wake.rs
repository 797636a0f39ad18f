//! Parked workers: completions and messages wake them, no wake is lost, and nobody is woken while somebody polls. Skipped where there are
//! no RDMA devices.

#![cfg(target_os = "linux")]

mod devices;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use latchwork_runtime::{Clock, Executor, ExecutorConfig, Notifier, Poller, RealDriver, Time};
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, Inbox as _, Message, Request, Subscription as _, Target,
};
use latchwork_verbs_ibv::{Config, Endpoint, Fabric, Inbox, Subscription};

/// Far more than a wake takes, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(30);

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).unwrap()
}

fn cluster(inbox_capacity: usize) -> Option<Fabric> {
    let fabric = devices::open(Config { inbox_capacity, ..devices::patient() })?;
    fabric.add_compute_node(node(1)).unwrap();
    fabric.add_compute_node(node(2)).unwrap();
    Some(fabric)
}

/// Parks as soon as there is nothing to do.
fn sleepy() -> Executor<RealDriver> {
    let config = ExecutorConfig { spin_sweeps: 0, yield_sweeps: 0, ..ExecutorConfig::default() };
    Executor::new(RealDriver::new(), config)
}

struct Serve {
    inbox: Inbox,
    subscription: Subscription,
    received: Arc<AtomicU64>,
}

impl Poller for Serve {
    fn poll(&self, _now: Time) -> bool {
        self.inbox.receive(&mut |_| {
            self.received.fetch_add(1, Ordering::Relaxed);
        })
    }

    fn flush(&self) {}

    fn may_park(&self) -> bool {
        self.subscription.park()
    }

    fn unparked(&self) {
        self.subscription.unparked();
    }
}

/// Threads that serve the inbox of node 1 and park whenever it is empty.
struct Servers {
    stop: Arc<AtomicBool>,
    received: Arc<AtomicU64>,
    threads: Vec<(Notifier, thread::JoinHandle<u64>)>,
}

impl Servers {
    fn start(fabric: &Fabric, count: usize) -> Servers {
        let (stop, received) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let serve = |_| {
            let inbox = fabric.inbox(node(1)).unwrap();
            let (stop, received) = (Arc::clone(&stop), Arc::clone(&received));
            let (ready, started) = mpsc::channel();
            let thread = thread::spawn(move || {
                let mut worker = sleepy();
                let notifier = worker.handle().notifier();
                let subscription = inbox.subscribe(notifier.clone());
                worker.handle().add_poller(Rc::new(Serve { inbox, subscription, received }));
                ready.send(notifier).unwrap();
                worker.run_until_stopped(&stop);
                worker.handle().activity().parks
            });
            (started.recv().unwrap(), thread)
        };
        let threads = (0..count).map(serve).collect();
        Servers { stop, received, threads }
    }

    /// Stops all; how often they were parked.
    fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Release);
        let join = |(notifier, thread): (Notifier, thread::JoinHandle<u64>)| {
            notifier.notify();
            thread.join().unwrap()
        };
        self.threads.into_iter().map(join).sum()
    }
}

fn message(value: u64) -> [Request; 1] {
    [Request::Send(Message { from: node(2), body: [value; Message::WORDS] })]
}

/// Sends bursts; after each, all of it must arrive although nobody sends any more.
fn bursts(fabric: &Fabric, received: &AtomicU64, rounds: u64, burst_max: u64) {
    let mut endpoint = fabric.endpoint(node(2), None).unwrap();
    let clock = Clock::start();
    let mut sent = 0;
    for round in 0..rounds {
        for _ in 0..1 + round % burst_max {
            endpoint.post(Target::Compute(node(1), 0), 0, &message(sent)).unwrap();
            sent += 1;
        }
        endpoint.ring();
        let end = clock.now() + PATIENCE;
        while received.load(Ordering::Relaxed) < sent || endpoint.in_flight() > 0 {
            assert!(clock.now() < end, "round {round}: a message waits for ever");
            endpoint.poll(&mut |completion| assert!(completion.result.is_ok()));
            thread::yield_now();
        }
        // Sometimes the receivers have the time to park, sometimes they are just about to.
        for _ in 0..round * 37 % 4096 {
            std::hint::spin_loop();
        }
    }
}

#[test]
fn a_message_always_finds_a_parked_worker() {
    for workers in [1, 3] {
        let Some(fabric) = cluster(1024) else { return };
        let servers = Servers::start(&fabric, workers);
        bursts(&fabric, &servers.received, 300, 2);
        let parks = servers.stop();
        assert!(parks > 30, "{workers} workers were parked {parks} times only");
    }
}

#[test]
fn bursts_beyond_the_inbox_arrive_at_parked_workers() {
    let Some(fabric) = cluster(4) else { return };
    let servers = Servers::start(&fabric, 2);
    bursts(&fabric, &servers.received, 60, 40);
    servers.stop();
}

#[test]
fn an_active_worker_that_leaves_hands_its_messages_to_a_parked_one() {
    let Some(fabric) = cluster(16) else { return };
    let servers = Servers::start(&fabric, 1);
    let mut worker = sleepy();
    let handle = worker.handle();
    // Active, and never polls.
    let idler = fabric.inbox(node(1)).unwrap().subscribe(handle.notifier());
    worker.block_on(handle.sleep(Duration::from_millis(20)));
    let mut endpoint = fabric.endpoint(node(2), None).unwrap();
    endpoint.post(Target::Compute(node(1), 0), 0, &message(0)).unwrap();
    let end = handle.now() + PATIENCE;
    endpoint.ring();
    while endpoint.in_flight() > 0 {
        endpoint.poll(&mut |completion| assert!(completion.result.is_ok()));
    }
    worker.block_on(handle.sleep(Duration::from_millis(20)));
    assert_eq!(servers.received.load(Ordering::Relaxed), 0, "an active worker was to do it");
    drop(idler);
    worker.block_on(async {
        while servers.received.load(Ordering::Relaxed) == 0 {
            assert!(handle.now() < end, "a message waits for ever");
            handle.sleep(Duration::from_micros(50)).await;
        }
    });
    assert!(servers.stop() >= 1);
}

/// An endpoint that its worker polls, and parks on.
struct Polled {
    endpoint: RefCell<Endpoint>,
    completed: Cell<u64>,
    waiting: Cell<Option<Waker>>,
}

impl Polled {
    async fn wait(&self, count: u64) {
        poll_fn(|context| {
            if self.completed.get() >= count {
                return Poll::Ready(());
            }
            self.waiting.set(Some(context.waker().clone()));
            Poll::Pending
        })
        .await;
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

/// A worker that parks as soon as it waits is woken by each completion. Messages that are pushed back complete late enough.
#[test]
fn completions_wake_parked_workers() {
    const ROUNDS: u64 = 100;
    let Some(fabric) = cluster(1) else { return };
    let mut worker = sleepy();
    let handle = worker.handle();
    let endpoint = fabric.endpoint(node(2), Some(handle.notifier())).unwrap();
    let (completed, waiting) = (Cell::new(0), Cell::new(None));
    let polled = Rc::new(Polled { endpoint: endpoint.into(), completed, waiting });
    handle.add_poller(Rc::clone(&polled) as Rc<dyn Poller>);
    let mut posted = 0;
    let mut post = || {
        let target = Target::Compute(node(1), 0);
        polled.endpoint.borrow_mut().post(target, 0, &message(posted)).unwrap();
        posted += 1;
        posted
    };
    // A timer would end the parking by itself; it is for the failure alone.
    let wait = async |count: u64| {
        let late = handle.now() + PATIENCE;
        handle.timeout(late, polled.wait(count)).await.expect("a completion waits for ever");
        assert!(handle.now() < late, "only the timer has woken the worker");
    };
    let inbox = fabric.inbox(node(1)).unwrap();
    let (go, told) = mpsc::channel::<()>();
    let receiver = thread::spawn(move || {
        let (_never, later) = mpsc::channel::<()>();
        let mut received = 0;
        while told.recv().is_ok() {
            let _ = later.recv_timeout(Duration::from_millis(3));
            let enough = received + 2;
            while received < enough {
                inbox.receive(&mut |_| received += 1);
                thread::yield_now();
            }
        }
        received
    });
    worker.block_on(async {
        for _ in 0..ROUNDS {
            // One has room, the other is pushed back until somebody receives.
            post();
            let count = post();
            go.send(()).unwrap();
            wait(count).await;
        }
    });
    drop(go);
    assert_eq!(receiver.join().unwrap(), 2 * ROUNDS);
    let parks = handle.activity().parks;
    assert!(parks >= ROUNDS / 2, "parked {parks} times only");
}
