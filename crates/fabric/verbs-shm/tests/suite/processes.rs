//! Several processes that share memory. No message is lost or doubled, and parked workers are
//! woken. A process that is killed at any instruction blocks no other process and leaves no files.
#![cfg(target_os = "linux")]

use std::cell::{Cell, RefCell};
use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Duration;

use latchwork_runtime::{Executor, ExecutorConfig, Handle, Notifier, Poller, RealDriver, Time};
use latchwork_verbs::{
    Endpoint as _, Inbox as _, LocalBuffer, MemoryNodeId, Message, RegionKey, Subscription as _,
    Target, WorkRequest,
};
use latchwork_verbs_shm::{
    ProcessEnd, ShmConfig, ShmEndpoint, ShmFabric, ShmInbox, ShmSubscription,
};

use crate::common::{Directory, PATIENCE, Process, compute, hear, memory, node, role, say};

const CONFIG: ShmConfig = ShmConfig { inbox_capacity: 64 };
const MEMORY: Target = Target::Memory(MemoryNodeId(0));
const BYTES: usize = 1 << 20;

fn target(id: u8) -> Target {
    Target::Compute(node(id), 0)
}

fn message(from: u8, kind: u64, value: u64) -> WorkRequest {
    let mut body = [value; Message::WORDS];
    body[0] = kind;
    WorkRequest::Send(Message { from: node(from), body })
}

/// The entry point of the child processes of the tests.
#[test]
fn child() {
    let Some(role) = role() else { return };
    let (id, directory) = (role[1].parse().unwrap(), role[2].as_str());
    match role[0].as_str() {
        "memory" => serve_memory(directory),
        "counter" => count(id, directory),
        "echo" => echo(id, directory),
        "victim" => suffer(id, directory, role[3].parse().unwrap()),
        other => panic!("no such role: {other}"),
    }
}

/// A compute node of this process, with the peers that the parent process names.
fn join(id: u8, directory: &str) -> ShmFabric {
    let fabric = ShmFabric::in_directory(directory, CONFIG).unwrap();
    fabric.add_compute_node(node(id)).unwrap();
    let region = fabric.new_region(4096).unwrap();
    fabric.register(node(id), region).unwrap();
    say(&fabric.contact(compute(id)).unwrap());
    while let Some((name, contact)) = hear().as_deref().expect("somebody to tell").split_once(' ') {
        let name = match name {
            "memory" => memory(0),
            id => compute(id.parse().unwrap()),
        };
        fabric.add_peer(name, contact).unwrap();
    }
    say("ready");
    hear();
    fabric
}

fn serve_memory(directory: &str) {
    let fabric = ShmFabric::in_directory(directory, CONFIG).unwrap();
    fabric.serve_memory_as(MemoryNodeId(0), BYTES).unwrap();
    say(&fabric.contact(memory(0)).unwrap());
    while hear().is_some() {}
}

// ---- counts -------------------------------------------------------------------------------------

const COUNTERS: u8 = 3;
const ADDITIONS: u64 = 20_000;
const MESSAGES: u64 = 20_000;

/// Adds to a word of a memory node, and sends numbered messages to the other counters.
fn count(id: u8, directory: &str) {
    let fabric = join(id, directory);
    let (mut endpoint, inbox) =
        (fabric.endpoint(node(id)).unwrap(), fabric.inbox(node(id)).unwrap());
    let mut seen = [(); COUNTERS as usize + 1].map(|()| vec![false; MESSAGES as usize]);
    let expected = MESSAGES * u64::from(COUNTERS - 1);
    let (mut received, mut added, mut sent, mut completed) = (0, 0, 0, 0);
    let total = ADDITIONS + expected;
    while received < expected || completed < total {
        if added < ADDITIONS && endpoint.in_flight() < 64 {
            endpoint.post(MEMORY, 0, &[WorkRequest::FetchAdd { remote: 8, add: 1 }]).unwrap();
            added += 1;
        }
        if sent < MESSAGES && endpoint.in_flight() < 64 {
            for to in (1..=COUNTERS).filter(|&to| to != id) {
                endpoint.post(target(to), 0, &[message(id, 0, sent)]).unwrap();
            }
            sent += 1;
        }
        endpoint.ring();
        endpoint.poll(&mut |completion| {
            assert!(completion.result.is_ok());
            completed += 1;
        });
        let some = inbox.receive(&mut |message| {
            let value = message.body[1];
            assert_eq!(message.body[1..], [value; Message::WORDS - 1], "torn");
            // Messages come in any order, because a later message may overtake a message that waits
            // for room in a full ring.
            let seen = &mut seen[usize::from(message.from.get())][value as usize];
            assert!(!std::mem::replace(seen, true), "message {value} came twice");
            received += 1;
        });
        if !some {
            thread::yield_now();
        }
    }
    say(&format!("received {received}"));
    // The other processes may still read messages of this process, and the end of this process
    // removes the rings.
    hear();
}

#[test]
fn additions_and_messages_of_several_processes_are_exactly_as_many_as_were_made() {
    let directory = Directory::new();
    let path = directory.0.to_str().unwrap();
    let mut server = Process::start("processes::child", &["memory", "0", path]);
    let memory_contact = server.hear();
    let mut counters: Vec<_> = (1..=COUNTERS)
        .map(|id| Process::start("processes::child", &["counter", &id.to_string(), path]))
        .collect();
    let contacts: Vec<_> = counters.iter_mut().map(Process::hear).collect();
    for (i, counter) in counters.iter_mut().enumerate() {
        counter.say(&format!("memory {memory_contact}"));
        for (j, contact) in contacts.iter().enumerate().filter(|(j, _)| *j != i) {
            counter.say(&format!("{} {contact}", j + 1));
        }
        counter.say("all");
    }
    counters.iter_mut().for_each(|counter| assert_eq!(counter.hear(), "ready"));
    counters.iter_mut().for_each(|counter| counter.say("go"));
    for counter in &mut counters {
        let expected = MESSAGES * u64::from(COUNTERS - 1);
        assert_eq!(counter.hear(), format!("received {expected}"));
    }
    counters.into_iter().for_each(Process::finish);
    let fabric = ShmFabric::in_directory(path, CONFIG).unwrap();
    fabric.add_peer(memory(0), &memory_contact).unwrap();
    let sum = fabric.memory(MemoryNodeId(0)).unwrap().words().u64(8);
    assert_eq!(sum, ADDITIONS * u64::from(COUNTERS));
    server.finish();
    drop(fabric);
    assert_eq!(directory.files(), Vec::<String>::new());
}

// ---- workers that park --------------------------------------------------------------------------

const PING: u64 = 1;
const PONG: u64 = 2;
const FLOOD: u64 = 3;
/// The bits that mark a ping whose answer is not counted.
const UNHEEDED: u64 = u64::MAX << 40;

/// Answers pings, and counts answers and floods.
struct Serve {
    id: u8,
    inbox: ShmInbox,
    subscription: ShmSubscription,
    endpoint: RefCell<ShmEndpoint>,
    pongs: Cell<u64>,
    floods: Cell<u64>,
    waiter: RefCell<Option<Waker>>,
}

impl Poller for Serve {
    fn poll(&self, _now: Time) -> bool {
        let mut endpoint = self.endpoint.borrow_mut();
        let mut some = self.inbox.receive(&mut |got| {
            let value = got.body[1];
            assert!(got.body[1..].iter().all(|word| *word == value), "a torn message");
            match got.body[0] {
                PING => {
                    let pong = message(self.id, PONG, value);
                    endpoint.post(target(got.from.get()), 0, &[pong]).unwrap();
                }
                // Answers to unheeded pings arrive as well, and do not count.
                PONG => self.pongs.set(self.pongs.get().max(value & !UNHEEDED)),
                FLOOD => self.floods.set(self.floods.get() + 1),
                other => panic!("no such message: {other}"),
            }
        });
        // Batches to dead nodes fail.
        some |= endpoint.poll(&mut |_| {});
        if some {
            self.waiter.take().into_iter().for_each(Waker::wake);
        }
        some
    }

    fn flush(&self) {
        self.endpoint.borrow_mut().ring();
    }

    fn may_park(&self) -> bool {
        self.endpoint.borrow().may_park() && self.subscription.park()
    }

    fn unparked(&self) {
        self.subscription.unparked();
    }
}

/// A worker of a node, which parks as soon as it has nothing to do.
fn worker(fabric: &ShmFabric, id: u8) -> (Executor<RealDriver>, Handle, Rc<Serve>) {
    let config = ExecutorConfig { spin_sweeps: 0, yield_sweeps: 0, ..ExecutorConfig::default() };
    let executor = Executor::new(RealDriver::new(), config);
    let (handle, inbox) = (executor.handle(), fabric.inbox(node(id)).unwrap());
    let serve = Rc::new(Serve {
        id,
        subscription: inbox.subscribe(handle.notifier()),
        inbox,
        endpoint: RefCell::new(fabric.endpoint(node(id)).unwrap()),
        pongs: Cell::new(0),
        floods: Cell::new(0),
        waiter: RefCell::default(),
    });
    handle.add_poller(serve.clone());
    (executor, handle, serve)
}

/// Answers pings until the parent process has ended.
fn echo(id: u8, directory: &str) {
    let fabric = join(id, directory);
    let stop = Arc::new(AtomicBool::new(false));
    let (mut executor, handle, _) = worker(&fabric, id);
    thread::spawn({
        let (stop, notifier) = (stop.clone(), handle.notifier());
        move || {
            while hear().is_some() {}
            stop.store(true, Ordering::Release);
            notifier.notify();
        }
    });
    say("serving");
    executor.run_until_stopped(&stop);
    say(&format!("parked {}", handle.activity().parks));
}

/// A worker that pings another node and parks until the answer comes.
struct Pinger {
    executor: Executor<RealDriver>,
    handle: Handle,
    serve: Rc<Serve>,
    pings: u64,
}

impl Pinger {
    fn new(fabric: &ShmFabric, id: u8) -> Pinger {
        let (executor, handle, serve) = worker(fabric, id);
        Pinger { executor, handle, serve, pings: 0 }
    }

    fn send(&self, to: u8, kind: u64, value: u64) {
        let sent = self.serve.endpoint.borrow_mut().post(
            target(to),
            0,
            &[message(self.serve.id, kind, value)],
        );
        sent.unwrap();
    }

    fn ping(&mut self, to: u8) {
        self.pings += 1;
        self.send(to, PING, self.pings);
        let (serve, handle, ping) = (self.serve.clone(), self.handle.clone(), self.pings);
        self.executor.block_on(async move {
            let mut overdue = pin!(handle.sleep(PATIENCE));
            poll_fn(|cx| {
                if serve.pongs.get() == ping {
                    return Poll::Ready(());
                }
                serve.waiter.replace(Some(cx.waker().clone()));
                assert!(overdue.as_mut().poll(cx).is_pending(), "ping {ping} is never answered");
                Poll::Pending
            })
            .await;
        });
    }

    fn pause(&mut self, pause: Duration) {
        self.executor.block_on(self.handle.sleep(pause));
    }
}

#[test]
fn every_one_of_100_000_messages_wakes_the_parked_worker_of_another_process() {
    const PINGS: u64 = 100_000 / 2;
    let directory = Directory::new();
    let path = directory.0.to_str().unwrap();
    let mut echo = Process::start("processes::child", &["echo", "2", path]);
    let fabric = ShmFabric::in_directory(path, CONFIG).unwrap();
    fabric.add_compute_node(node(1)).unwrap();
    fabric.add_peer(compute(2), &echo.hear()).unwrap();
    echo.say(&format!("1 {}", fabric.contact(compute(1)).unwrap()));
    echo.say("all");
    assert_eq!(echo.hear(), "ready");
    echo.say("go");
    assert_eq!(echo.hear(), "serving");
    let mut pinger = Pinger::new(&fabric, 1);
    for _ in 0..PINGS {
        pinger.ping(2);
    }
    // The machine decides how often the two workers parked, so the numbers are printed and not
    // checked.
    let parks = pinger.handle.activity().parks;
    echo.close();
    let parked = echo.hear();
    let there: u64 = parked.strip_prefix("parked ").unwrap().parse().unwrap();
    println!("{PINGS} round trips: parked {parks} times here, {there} times there");
    assert!(parks > PINGS / 10 && there > PINGS / 10, "parked {parks} and {there} times");
    echo.finish();
}

// ---- deaths -------------------------------------------------------------------------------------

/// Repeats four actions: a flood of messages to other nodes, pings, a park, and WRITEs into their
/// regions. The test kills this process at a random moment, and during none of these actions may
/// the kill block other nodes.
fn suffer(id: u8, directory: &str, seed: u64) {
    let fabric = join(id, directory);
    let (executor, handle, serve) = worker(&fabric, id);
    let mut pinger = Pinger { executor, handle, serve, pings: 0 };
    let local = LocalBuffer { region: RegionKey(0), offset: 0, len: 4096 };
    for turn in seed.. {
        match turn % 4 {
            0 => {
                for _ in 0..100 {
                    for to in [1, 2] {
                        let write = WorkRequest::Write { remote: 0, local };
                        let flood = message(id, FLOOD, turn);
                        let mut endpoint = pinger.serve.endpoint.borrow_mut();
                        if endpoint.in_flight() < 64 {
                            endpoint.post(target(to), 0, &[write, flood]).unwrap();
                        }
                    }
                    pinger.pause(Duration::ZERO);
                }
            }
            1 => pinger.ping(1),
            2 => pinger.ping(2),
            // Parked, and woken by pings.
            _ => pinger.pause(Duration::from_micros(200)),
        }
    }
}

/// A node of this process that answers pings, on a thread of its own.
struct Steady {
    fabric: ShmFabric,
    stop: Arc<AtomicBool>,
    notifier: Notifier,
    thread: Option<thread::JoinHandle<u64>>,
}

impl Steady {
    fn start(path: &str, id: u8) -> Steady {
        let fabric = ShmFabric::in_directory(path, CONFIG).unwrap();
        fabric.add_compute_node(node(id)).unwrap();
        let region = fabric.new_region(4096).unwrap();
        fabric.register(node(id), region).unwrap();
        let (stop, own) = (Arc::new(AtomicBool::new(false)), fabric.clone());
        let (ready, started) = mpsc::channel();
        let thread = thread::spawn({
            let stop = stop.clone();
            move || {
                let (mut executor, handle, serve) = worker(&own, id);
                ready.send(handle.notifier()).unwrap();
                executor.run_until_stopped(&stop);
                serve.floods.get()
            }
        });
        Steady { fabric, stop, notifier: started.recv().unwrap(), thread: Some(thread) }
    }

    /// Stops the node; returns the number of floods that it received.
    fn stop(mut self) -> u64 {
        self.stop.store(true, Ordering::Release);
        self.notifier.notify();
        self.thread.take().unwrap().join().unwrap()
    }
}

/// The incarnation of the process that made this contact.
fn incarnation(contact: &str) -> &str {
    contact.split(':').nth(1).unwrap()
}

#[test]
fn a_process_that_is_killed_at_any_moment_delays_no_other_and_leaves_nothing() {
    const KILLS: u64 = 200;
    let directory = Directory::new();
    let path = directory.0.to_str().unwrap();
    std::fs::write(directory.0.join("notes"), "of somebody else").unwrap();
    let steady = Steady::start(path, 2);
    let own = ShmFabric::in_directory(path, CONFIG).unwrap();
    own.add_compute_node(node(1)).unwrap();
    let region = own.new_region(4096).unwrap();
    own.register(node(1), region).unwrap();
    own.add_peer(compute(2), &steady.fabric.contact(compute(2)).unwrap()).unwrap();
    steady.fabric.add_peer(compute(1), &own.contact(compute(1)).unwrap()).unwrap();
    let mut pinger = Pinger::new(&own, 1);
    pinger.ping(2);
    let (mut stopped, mut early) = (0, 0);
    for kill in 0..KILLS {
        let mut victim =
            Process::start("processes::child", &["victim", "3", path, &kill.to_string()]);
        if kill % 8 == 0 {
            // The kill comes during the start of the process, when its files may be incomplete.
            let pause = pinger.handle.random_below(8_000);
            pinger.pause(Duration::from_micros(pause));
            victim.kill();
            early += 1;
            continue;
        }
        let contact = victim.hear();
        own.add_peer(compute(3), &contact).unwrap();
        steady.fabric.add_peer(compute(3), &contact).unwrap();
        for (id, fabric) in [(1, &own), (2, &steady.fabric)] {
            victim.say(&format!("{id} {}", fabric.contact(compute(id)).unwrap()));
        }
        victim.say("all");
        assert_eq!(victim.hear(), "ready");
        victim.say("go");
        for _ in 0..pinger.handle.random_below(4) {
            // The receiver may be parked, or may die before it takes the message.
            pinger.send(3, PING, UNHEEDED);
            pinger.ping(2);
        }
        let pause = pinger.handle.random_below(3_000);
        pinger.pause(Duration::from_micros(pause));
        if kill % 2 == 0 {
            assert_eq!(own.stop(compute(3), &contact, PATIENCE).unwrap(), ProcessEnd::Killed);
            stopped += 1;
        }
        victim.kill();
        assert!(!own.lives(compute(3), &contact).unwrap());
        // One message is sent before this process learns of the death, and one after.
        pinger.send(3, PING, UNHEEDED);
        pinger.ping(2);
        own.disconnect(node(3)).unwrap();
        steady.fabric.disconnect(node(3)).unwrap();
        pinger.send(3, PING, UNHEEDED);
        pinger.ping(2);
    }
    assert!(stopped > KILLS / 4 && early == KILLS / 8);
    let floods = pinger.serve.floods.get();
    assert!(floods > 0, "no message of a victim arrived");
    // The next start of any process removes the files that are left.
    let next = ShmFabric::in_directory(path, CONFIG).unwrap();
    next.add_compute_node(node(4)).unwrap();
    let contacts = [&own, &steady.fabric, &next].map(|fabric| {
        let id = [1, 2, 4].into_iter().find(|&id| fabric.contact(compute(id)).is_ok());
        fabric.contact(compute(id.unwrap())).unwrap()
    });
    for file in directory.files() {
        let known = contacts.iter().any(|contact| file.contains(incarnation(contact)));
        assert!(known || file == "notes", "{file} is of a process that is gone");
    }
    let total = floods + steady.stop();
    println!(
        "{KILLS} kills: {early} of them early, {stopped} by handle; {total} messages of victims"
    );
    drop((next, pinger, own));
    assert_eq!(directory.files(), ["notes"]);
}
