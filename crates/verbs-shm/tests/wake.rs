//! Parked workers and messages: no wake is lost, and no worker is woken in vain; in one fabric, and between two
//! that share a directory as two processes do.

mod common;

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use latchwork_runtime::{Executor, ExecutorConfig, Notifier, Poller, RealDriver, Time};
use latchwork_verbs::{Endpoint, Inbox as _, Message, Request, Subscription as _, Target};
use latchwork_verbs_shm::{Config, Fabric, Inbox, Subscription};

use common::{Directory, PATIENCE, compute, introduce, node};

/// Two nodes, each with the fabric of its process.
struct Pair {
    /// Has node 1.
    receiver: Fabric,
    /// Has node 2.
    sender: Fabric,
    _directory: Option<Directory>,
}

/// In one fabric, and across two where there can be two.
fn pairs(inbox_capacity: usize) -> Vec<Pair> {
    let fabric = Fabric::new(Config { inbox_capacity });
    let mut pairs = vec![Pair { receiver: fabric.clone(), sender: fabric, _directory: None }];
    if cfg!(target_os = "linux") {
        let directory = Directory::new();
        let fabric = || Fabric::in_directory(&directory.0, Config { inbox_capacity }).unwrap();
        pairs.push(Pair { receiver: fabric(), sender: fabric(), _directory: Some(directory) });
    }
    for pair in &pairs {
        pair.receiver.add_compute_node(node(1)).unwrap();
        pair.sender.add_compute_node(node(2)).unwrap();
    }
    if let Some(pair) = pairs.get(1) {
        introduce(&[(&pair.receiver, &[compute(1)]), (&pair.sender, &[compute(2)])]);
    }
    pairs
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

    /// Stops all; how often each was parked.
    fn stop(self) -> Vec<u64> {
        self.stop.store(true, Ordering::Release);
        let join = |(notifier, thread): (Notifier, thread::JoinHandle<u64>)| {
            notifier.notify();
            thread.join().unwrap()
        };
        self.threads.into_iter().map(join).collect()
    }
}

fn message(value: u64) -> [Request; 1] {
    [Request::Send(Message { from: node(2), body: [value; Message::WORDS] })]
}

/// Sends bursts; after each, all of it must arrive although nobody sends any more.
fn bursts(fabric: &Fabric, received: &AtomicU64, rounds: u64, burst_max: u64) {
    let mut worker = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = worker.handle();
    let mut endpoint = fabric.endpoint(node(2)).unwrap();
    worker.block_on(async {
        let mut sent = 0;
        for round in 0..rounds {
            for _ in 0..1 + handle.random_below(burst_max) {
                endpoint.post(Target::Compute(node(1), 0), 0, &message(sent)).unwrap();
                sent += 1;
            }
            endpoint.ring();
            let deadline = handle.now() + PATIENCE;
            while received.load(Ordering::Relaxed) < sent || endpoint.in_flight() > 0 {
                assert!(handle.now() < deadline, "round {round}: a message waits for ever");
                endpoint.poll(&mut |completion| assert!(completion.result.is_ok()));
                handle.yield_now().await;
            }
            // Sometimes the receivers have the time to park, sometimes they are just about to.
            for _ in 0..handle.random_below(64) {
                std::hint::spin_loop();
            }
        }
    });
}

#[test]
fn a_message_always_finds_a_parked_worker() {
    for (workers, rounds) in [(1, 4_000), (3, 4_000)] {
        for Pair { receiver, sender, .. } in &pairs(1024) {
            let servers = Servers::start(receiver, workers);
            bursts(sender, &servers.received, rounds, 2);
            servers.stop();
        }
    }
}

#[test]
fn bursts_beyond_the_inbox_arrive_at_parked_workers() {
    for Pair { receiver, sender, .. } in &pairs(4) {
        let servers = Servers::start(receiver, 2);
        bursts(sender, &servers.received, 400, 60);
        servers.stop();
    }
}

#[test]
fn two_senders_and_workers_that_come_and_go_lose_nothing() {
    let pairs = pairs(16);
    for round in 0..40 {
        let Pair { receiver, sender: fabric, .. } = &pairs[round % pairs.len()];
        let servers = Servers::start(receiver, 2);
        let short_lived = Servers::start(receiver, 1);
        let received = Arc::clone(&servers.received);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut endpoint = fabric.endpoint(node(2)).unwrap();
                    for i in 0..200 {
                        endpoint.post(Target::Compute(node(1), 0), i, &message(i)).unwrap();
                        endpoint.ring();
                    }
                    while endpoint.in_flight() > 0 {
                        endpoint.poll(&mut |_| {});
                        thread::yield_now();
                    }
                });
            }
            let leaver = Arc::clone(&short_lived.received);
            short_lived.stop();
            let mut worker = sleepy();
            let handle = worker.handle();
            let deadline = handle.now() + PATIENCE;
            worker.block_on(async {
                while received.load(Ordering::Relaxed) + leaver.load(Ordering::Relaxed) < 400 {
                    assert!(handle.now() < deadline, "a message waits for ever");
                    handle.sleep(Duration::from_micros(50)).await;
                }
            });
        });
        servers.stop();
    }
}

#[test]
fn an_active_worker_that_leaves_hands_its_messages_to_a_parked_one() {
    for pair in &pairs(16) {
        check_that_an_active_worker_that_leaves_hands_on(pair);
    }
}

fn check_that_an_active_worker_that_leaves_hands_on(Pair { receiver, sender, .. }: &Pair) {
    let servers = Servers::start(receiver, 1);
    let mut worker = sleepy();
    let handle = worker.handle();
    // Active, and never polls.
    let idler = receiver.inbox(node(1)).unwrap().subscribe(handle.notifier());
    worker.block_on(handle.sleep(Duration::from_millis(5)));
    let mut endpoint = sender.endpoint(node(2)).unwrap();
    endpoint.post(Target::Compute(node(1), 0), 0, &message(0)).unwrap();
    endpoint.ring();
    worker.block_on(handle.sleep(Duration::from_millis(5)));
    assert_eq!(servers.received.load(Ordering::Relaxed), 0, "an active worker was to do it");
    drop(idler);
    let deadline = handle.now() + PATIENCE;
    worker.block_on(async {
        while servers.received.load(Ordering::Relaxed) == 0 {
            assert!(handle.now() < deadline, "a message waits for ever");
            handle.sleep(Duration::from_micros(50)).await;
        }
    });
    let parks = servers.stop();
    assert!(parks[0] >= 1);
}

#[test]
fn a_worker_with_a_message_in_its_inbox_does_not_park() {
    for pair in &pairs(16) {
        check_that_a_worker_with_a_message_does_not_park(pair);
    }
}

fn check_that_a_worker_with_a_message_does_not_park(Pair { receiver, sender, .. }: &Pair) {
    let worker = sleepy();
    let inbox = receiver.inbox(node(1)).unwrap();
    let subscription = inbox.subscribe(worker.handle().notifier());
    assert!(subscription.park());
    subscription.unparked();
    let mut endpoint = sender.endpoint(node(2)).unwrap();
    endpoint.post(Target::Compute(node(1), 0), 0, &message(0)).unwrap();
    assert!(subscription.park(), "posted is not sent");
    subscription.unparked();
    endpoint.ring();
    assert!(!subscription.park());
    assert!(inbox.receive(&mut |_| {}));
    assert!(subscription.park());
}
