//! The cost of a peer in another process: round trips between two processes, compared with round
//! trips between two threads of one process, in turns.
//!
//! `cargo run --release -p latchwork-verbs-shm --example between -- [ROUNDS [TRIPS [DIRECTORY]]]`
//!
//! - `message`: a message and its answer, with both sides polling.
//! - `forward`: a WRITE of a 2 KiB line into the peer's region with a message after it, and the
//!   answer.
//! - `parked`: a message and its answer, with both sides parked until the message comes.
//! - `verb`: a fetch-and-add and a READ of 2 KiB, on a memory node of the same process and of the
//!   other process.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::env;
use std::error::Error;
use std::future::poll_fn;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::thread;

use latchwork_runtime::{Clock, Executor, ExecutorConfig, Poller, RealDriver, Time};
use latchwork_verbs::{
    ComputeNodeId, Endpoint as _, Inbox as _, LocalBuffer, MemoryNodeId, Message, RegionKey,
    Subscription as _, Target, WorkRequest,
};
use latchwork_verbs_shm::{
    ShmConfig, ShmEndpoint, ShmFabric, ShmInbox, ShmNodeName, ShmSubscription,
};

type Done<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

const LINE: u32 = 2048;
const LOCAL: LocalBuffer = LocalBuffer { region: RegionKey(0), offset: 0, len: LINE };
const MEMORY: MemoryNodeId = MemoryNodeId(0);
/// Set in a child process, to the directory.
const CHILD: &str = "LATCHWORK_BETWEEN";

/// The values with a meaning of their own: the end of the run, and the switch of the answering side
/// to polling. A larger value is a round trip, and the other side answers it.
const END: u64 = 0;
const POLL: u64 = 1;
const FIRST: u64 = 2;

fn node(id: u8) -> ComputeNodeId {
    ComputeNodeId::new(id).expect("a small id")
}

/// One side of a pair of nodes. While it waits for a message, a side polls or parks.
struct Side {
    own: u8,
    peer: u8,
    answers: Cell<bool>,
    endpoint: RefCell<ShmEndpoint>,
    inbox: ShmInbox,
    subscription: ShmSubscription,
    /// The received messages. Several may arrive at once.
    received: RefCell<VecDeque<u64>>,
    waiter: Cell<Option<Waker>>,
}

impl Side {
    fn send(&self, value: u64, line: bool) {
        let mut body = [0; Message::WORDS];
        body[0] = value;
        let send = WorkRequest::Send(Message { from: node(self.own), body });
        let both = [WorkRequest::Write { remote: 0, local: LOCAL }, send];
        let batch = if line { &both[..] } else { &both[1..] };
        let mut endpoint = self.endpoint.borrow_mut();
        let target = Target::Compute(node(self.peer), 0);
        endpoint.post(target, 0, batch).expect("a peer that is there");
        endpoint.ring();
        endpoint.poll(&mut |_| {});
    }

    fn poll_for(&self) -> u64 {
        loop {
            if let Some(value) = self.received.borrow_mut().pop_front() {
                return value;
            }
            if !self.receive() {
                std::hint::spin_loop();
            }
        }
    }

    fn receive(&self) -> bool {
        self.inbox.receive(&mut |message| self.received.borrow_mut().push_back(message.body[0]))
    }

    /// The next message that needs more than an immediate answer.
    fn next(&self) -> Option<u64> {
        loop {
            let value = self.received.borrow_mut().pop_front()?;
            if !self.answers.get() || value < FIRST {
                return Some(value);
            }
            self.send(value, false);
        }
    }
}

impl Poller for Side {
    fn poll(&self, _now: Time) -> bool {
        let some = self.receive();
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

/// A side, with the executor with which it parks.
struct Worker {
    side: Rc<Side>,
    executor: Executor<RealDriver>,
}

impl Worker {
    fn new(fabric: &ShmFabric, own: u8, peer: u8) -> Done<Worker> {
        let config =
            ExecutorConfig { spin_sweeps: 0, yield_sweeps: 0, ..ExecutorConfig::default() };
        let executor = Executor::new(RealDriver::new(), config);
        let inbox = fabric.inbox(node(own))?;
        let side = Rc::new(Side {
            own,
            peer,
            answers: Cell::new(false),
            endpoint: RefCell::new(fabric.endpoint(node(own))?),
            subscription: inbox.subscribe(executor.handle().notifier()),
            inbox,
            received: RefCell::default(),
            waiter: Cell::new(None),
        });
        executor.handle().add_poller(side.clone());
        Ok(Worker { side, executor })
    }

    fn park_for(&mut self) -> u64 {
        let side = &self.side;
        self.executor.block_on(poll_fn(|cx| match side.next() {
            Some(value) => Poll::Ready(value),
            None => {
                side.waiter.set(Some(cx.waker().clone()));
                Poll::Pending
            }
        }))
    }

    /// Answers the messages of all round trips.
    fn answer(mut self) {
        self.side.answers.set(true);
        while self.park_for() == POLL {
            loop {
                match self.side.poll_for() {
                    POLL => break,
                    value => self.side.send(value, false),
                }
            }
        }
    }

    /// The nanoseconds of a round trip, with both sides polling.
    fn polled(&self, trips: u64, line: bool) -> f64 {
        self.side.send(POLL, false);
        let clock = Clock::start();
        for trip in 0..trips {
            self.side.send(FIRST + trip, line);
            self.side.poll_for();
        }
        let time = clock.now() - Time::ZERO;
        self.side.send(POLL, false);
        time.as_nanos() as f64 / trips as f64
    }

    /// The nanoseconds of a round trip, with both sides parked.
    fn parked(&mut self, trips: u64) -> f64 {
        let clock = Clock::start();
        for trip in 0..trips {
            self.side.send(FIRST + trip, false);
            self.park_for();
        }
        (clock.now() - Time::ZERO).as_nanos() as f64 / trips as f64
    }

    /// The nanoseconds of a fetch-and-add with a READ.
    fn verbs(&self, trips: u64) -> f64 {
        let mut endpoint = self.side.endpoint.borrow_mut();
        let batch = [
            WorkRequest::FetchAdd { remote: 512, add: 8 },
            WorkRequest::Read { remote: 4096, local: LOCAL },
        ];
        let clock = Clock::start();
        for _ in 0..trips {
            endpoint.post(Target::Memory(MEMORY), 0, &batch).expect("a memory node");
            endpoint.ring();
            endpoint.poll(&mut |_| {});
        }
        (clock.now() - Time::ZERO).as_nanos() as f64 / trips as f64
    }
}

fn add_node(fabric: &ShmFabric, id: u8) -> Done {
    fabric.add_compute_node(node(id))?;
    fabric.register(node(id), fabric.new_region(1 << 16)?)?;
    Ok(())
}

fn child(directory: &str) -> Done {
    let fabric = ShmFabric::in_directory(directory, ShmConfig::default())?;
    fabric.serve_memory_as(MEMORY, 1 << 20)?;
    add_node(&fabric, 2)?;
    println!("{}", fabric.contact(ShmNodeName::Memory(MEMORY))?);
    println!("{}", fabric.contact(ShmNodeName::Compute(node(2)))?);
    let mut contact = String::new();
    std::io::stdin().read_line(&mut contact)?;
    fabric.add_peer(ShmNodeName::Compute(node(1)), contact.trim_end())?;
    let worker = Worker::new(&fabric, 2, 1)?;
    println!("ready");
    worker.answer();
    Ok(())
}

fn start_child(fabric: &ShmFabric, directory: &str) -> Done<Child> {
    let mut command = Command::new(env::current_exe()?);
    command.env(CHILD, directory).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn()?;
    let output = child.stdout.take().ok_or("no output of the other process")?;
    let mut lines = BufReader::new(output).lines();
    let mut line = || lines.next().unwrap_or_else(|| Err(std::io::ErrorKind::UnexpectedEof.into()));
    fabric.add_peer(ShmNodeName::Memory(MEMORY), &line()?)?;
    fabric.add_peer(ShmNodeName::Compute(node(2)), &line()?)?;
    let mut input = child.stdin.take().ok_or("no input of the other process")?;
    writeln!(input, "{}", fabric.contact(ShmNodeName::Compute(node(1)))?)?;
    line()?;
    Ok(child)
}

/// The minimum, the lower quartile and the median. On a busy machine the minimum and the lower
/// quartile are more reliable than the median.
fn ranks(values: &mut [f64]) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [0, values.len() / 4, values.len() / 2].map(|rank| values[rank])
}

fn main() -> Done {
    if let Ok(directory) = env::var(CHILD) {
        return child(&directory);
    }
    let mut args = env::args().skip(1);
    let rounds: usize = args.next().map_or(Ok(41), |rounds| rounds.parse())?;
    let trips: u64 = args.next().map_or(Ok(4_000), |trips| trips.parse())?;
    let directory =
        args.next().unwrap_or_else(|| format!("/dev/shm/latchwork-between-{}", std::process::id()));
    let here = ShmFabric::new(ShmConfig::default());
    here.add_memory_node(1 << 20)?;
    add_node(&here, 1)?;
    add_node(&here, 2)?;
    let there = ShmFabric::in_directory(directory.as_str(), ShmConfig::default())?;
    add_node(&there, 1)?;
    let mut process = start_child(&there, &directory)?;
    let thread = thread::spawn({
        let here = here.clone();
        move || Worker::new(&here, 2, 1).map(Worker::answer)
    });
    // A thread has one parking spot only. So each of the two fabrics gets a new thread for this
    // side.
    let names = ["message", "forward", "parked", "verb"];
    let mut times = [0; 4].map(|_| [Vec::new(), Vec::new()]);
    for _ in 0..rounds {
        for (fabric, place) in [(&here, 0), (&there, 1)] {
            let measured: Done<[f64; 4]> = thread::scope(|scope| {
                let run = || {
                    let mut worker = Worker::new(fabric, 1, 2)?;
                    worker.polled(trips / 10, true);
                    Ok([
                        worker.polled(trips, false),
                        worker.polled(trips, true),
                        worker.parked(trips / 10),
                        worker.verbs(trips),
                    ])
                };
                scope.spawn(run).join().unwrap_or_else(|_| Err("a worker panicked".into()))
            });
            for (time, measured) in times.iter_mut().zip(measured?) {
                time[place].push(measured);
            }
        }
    }
    for fabric in [&here, &there] {
        Worker::new(fabric, 1, 2)?.side.send(END, false);
    }
    thread.join().map_err(|_| "the other thread panicked")??;
    process.wait()?;
    drop(there);
    let _ = std::fs::remove_dir(&directory);
    println!("nanoseconds, of {rounds} rounds of {trips} trips");
    println!("{:8} {:10} {:>10} {:>10} {:>7}", "", "", "threads", "processes", "ratio");
    for (name, [mut threads, mut processes]) in names.into_iter().zip(times) {
        let (threads, processes) = (ranks(&mut threads), ranks(&mut processes));
        for (rank, (threads, processes)) in threads.into_iter().zip(processes).enumerate() {
            let (name, rank) =
                (if rank == 0 { name } else { "" }, ["best", "quartile", "median"][rank]);
            let ratio = processes / threads;
            println!("{name:8} {rank:10} {threads:10.0} {processes:10.0} {ratio:7.2}");
        }
    }
    Ok(())
}
