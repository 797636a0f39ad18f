//! Write buffers on threads and shared memory: three nodes with two workers each, with real races.
//!
//! An outcome that a level forbids is never seen, and the end of a worker loses no write without a
//! report. Outcomes that a level allows are checked in worlds (`litmus.rs`), where they follow from
//! the seed. Here they depend on the other load of the machine.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork_cluster::{Embedded, Member, Protocol, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_history::calls::ProcessStep::{Fence, Read, Write};
use latchwork_history::calls::check_store_order;
use latchwork_relaxed::{Consistency, LostWrites, RelaxedError, WriteBuffer, WriteBufferSettings};
use latchwork_verbs::GlobalAddr;

use crate::common::programs::{LOCATIONS, Program, TELLING, all, order, place};
use crate::common::{clear, config};

const NODES: usize = 3;
const PER_NODE: usize = 2;
const WORKERS: usize = NODES * PER_NODE;

/// The time for which a level's programs are repeated.
const TIME: Duration = Duration::from_millis(1500);

/// The additional time for outcomes that distinguish levels and were not seen yet.
const MORE: Duration = Duration::from_secs(1);

/// Longer than any wait for a barrier or for a write to be visible, however busy the machine is.
const LIMIT: Duration = Duration::from_secs(60);

fn cluster(protocol: Protocol) -> Embedded {
    Embedded::start(config(NODES, PER_NODE, 1, protocol)).expect("a good configuration")
}

/// No write is lost while the machine does other work.
fn settings(consistency: Consistency) -> WriteBufferSettings {
    let linger = Duration::from_micros(5);
    WriteBufferSettings {
        consistency,
        deadline: LIMIT,
        linger,
        batch: 4,
        entries: 8,
        ..WriteBufferSettings::default()
    }
}

fn buffer(member: &Member, consistency: Consistency) -> WriteBuffer<Worker> {
    let on_loss = |lost| panic!("{lost}");
    WriteBuffer::new(member.memory.clone(), settings(consistency), on_loss).expect("settings")
}

/// A barrier of all workers. A worker that waits here still serves other nodes.
#[derive(Default)]
struct Meeting {
    came: AtomicUsize,
    lines: Mutex<Vec<GlobalAddr>>,
}

impl Meeting {
    async fn meet(&self, member: &Member, times: &mut usize) {
        *times += 1;
        // Release and acquire: what was written before the barrier is visible after it.
        self.came.fetch_add(1, Ordering::AcqRel);
        let until = member.handle.now() + LIMIT;
        while self.came.load(Ordering::Acquire) < WORKERS * *times {
            assert!(member.handle.now() < until, "somebody did not come");
            member.handle.yield_now().await;
        }
    }

    /// Lines full of zeros, which the first worker makes.
    async fn lines(&self, member: &Member, count: usize, met: &mut usize) -> Vec<GlobalAddr> {
        if member.index == 0 {
            let mut lines = Vec::new();
            for _ in 0..count {
                let line = member.memory.allocate().await.expect("a pool with room");
                clear(&member.memory, line).await;
                lines.push(line);
            }
            *self.lines.lock().expect("nobody panics") = lines;
        }
        self.meet(member, met).await;
        self.lines.lock().expect("nobody panics").clone()
    }
}

/// The state of the running program that all workers share.
struct Round {
    meeting: Meeting,
    /// The program, with the values that were read.
    running: Mutex<Program>,
    /// How often each test's outcome was seen.
    seen: Mutex<Vec<usize>>,
    rounds: AtomicUsize,
    /// The next test; past the end when no test is left.
    next: AtomicUsize,
}

/// Message passing, store buffering, own reads and all the others: an outcome that a level forbids
/// is never seen, and the level's machine can explain every outcome.
#[test]
fn no_thread_sees_what_a_level_forbids() {
    let levels = Consistency::ALL.into_iter();
    for (level, protocol) in levels.flat_map(|l| Protocol::ALL.map(|p| (l, p))) {
        let tests = all();
        let round = Round {
            meeting: Meeting::default(),
            running: Mutex::default(),
            seen: Mutex::new(vec![0; tests.len()]),
            rounds: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
        };
        let cluster = cluster(protocol);
        cluster.run(|member| worker(member, level, &round)).expect("no worker fails");
        let seen = round.seen.into_inner().expect("nobody panics");
        println!("{level}, {protocol}: {} rounds", round.rounds.into_inner());
        for (test, seen) in tests.iter().zip(seen) {
            println!("{:16} {seen}", test.name);
            let allowed = test.from.is_some_and(|from| from as usize <= level as usize);
            assert!(allowed || seen == 0, "{} at {level}: seen {seen} times", test.name);
            if allowed && seen == 0 && TELLING.contains(&test.name) {
                println!("{}: allowed, but not seen on this machine in time", test.name);
            }
        }
    }
}

async fn worker(member: Member, level: Consistency, round: &Round) {
    let (tests, mut met) = (all(), 0);
    let begin = member.handle.now();
    let lines = round.meeting.lines(&member, 4, &mut met).await;
    let buffer = buffer(&member, level);
    loop {
        // Every test in turn, each at least twice. Then the tests that distinguish levels, until
        // their outcomes are seen.
        if member.index == 0 {
            let rounds = round.rounds.fetch_add(1, Ordering::Relaxed);
            let missing = (0..tests.len()).find(|test| {
                let allowed = tests[*test].from.is_some_and(|from| from as usize <= level as usize);
                let telling = TELLING.contains(&tests[*test].name);
                allowed && telling && round.seen.lock().expect("nobody panics")[*test] == 0
            });
            let next = match missing {
                _ if rounds < 2 * tests.len() || member.handle.now() < begin + TIME => {
                    rounds / 2 % tests.len()
                }
                Some(test) if member.handle.now() < begin + TIME + MORE => test,
                _ => usize::MAX,
            };
            round.next.store(next, Ordering::Relaxed);
            for line in &lines {
                clear(&member.memory, *line).await;
            }
            *round.running.lock().expect("nobody panics") =
                tests.get(next).map_or_else(Vec::new, |test| test.program.clone());
        }
        round.meeting.meet(&member, &mut met).await;
        let Some(test) = tests.get(round.next.load(Ordering::Relaxed)) else { break };
        // The ownership of the lines, and the workers of one node, differ from round to round.
        let turn = round.rounds.load(Ordering::Relaxed);
        let process = (member.index + turn / 2 / tests.len()) % WORKERS;
        for (at, line) in lines.iter().enumerate() {
            // In every second round, a process's first write goes to a line at the other process's
            // node, and its first read to a line at its own node. Then an allowed reordering
            // becomes visible.
            let own = turn.is_multiple_of(2) && at < 2 && process == 1 - at;
            match (member.index + at + turn) % WORKERS {
                _ if turn.is_multiple_of(2) && at < 2 && !own => {}
                _ if own => member.memory.write(*line, |_| ()).await.expect("a line"),
                0 => member.memory.write(*line, |_| ()).await.expect("a line"),
                1 | 2 => member.memory.read(*line, |_| ()).await.expect("a line"),
                _ => {}
            }
        }
        round.meeting.meet(&member, &mut met).await;
        let mut own = test.program.get(process).cloned().unwrap_or_default();
        for step in &mut own {
            let mut word = [0; 8];
            match *step {
                Write(location, value) => {
                    let (line, offset) = place(&lines, location);
                    buffer.write(line, offset, &value.to_le_bytes()).await.expect("no loss");
                }
                Read(location, _) => {
                    let (line, offset) = place(&lines, location);
                    buffer.read(line, offset, &mut word).await.expect("no loss");
                    *step = Read(location, u64::from_le_bytes(word));
                }
                Fence => buffer.flush().await.expect("no loss"),
            }
        }
        buffer.flush().await.expect("no loss");
        if let Some(running) = round.running.lock().expect("nobody panics").get_mut(process) {
            *running = own;
        }
        round.meeting.meet(&member, &mut met).await;
        if member.index > 0 {
            continue;
        }
        let mut finals = BTreeMap::new();
        for location in LOCATIONS {
            let (line, offset) = place(&lines, location);
            let value = member.memory.read(line, |w| w.u64(offset)).await.expect("a line");
            finals.insert(location, value);
        }
        let program = round.running.lock().expect("nobody panics").clone();
        let judged = check_store_order(order(level), &program, &finals);
        judged.unwrap_or_else(|error| panic!("{} at {level}, {program:?}: {error}", test.name));
        let is_it = program == test.program && test.finals.iter().all(|(at, v)| finals[at] == *v);
        let mut seen = round.seen.lock().expect("nobody panics");
        seen[round.next.load(Ordering::Relaxed)] += usize::from(is_it);
    }
    buffer.leave().await.expect("no loss");
}

/// The way in which a worker ends.
#[derive(Clone, Copy, PartialEq, Debug)]
enum End {
    /// It awaits `leave`.
    Leaves,
    /// It awaits `leave` while other tasks continue to write.
    LeavesWriters,
    /// It drops its buffer.
    Drops,
}

/// Each write that was taken is visible after the worker's end, or reported as lost; no other write
/// is.
#[test]
fn the_end_of_a_worker_loses_no_write_without_a_report() {
    let ends = [End::Leaves, End::LeavesWriters, End::Drops];
    let kinds =
        [Consistency::Tso, Consistency::Pso].into_iter().flat_map(|l| ends.map(|end| (l, end)));
    for ((level, end), protocol) in kinds.flat_map(|kind| Protocol::ALL.map(|p| (kind, p))) {
        let (meeting, told) = (Meeting::default(), Arc::new(Mutex::new(Vec::new())));
        // Each worker's word in each line: the last value that it wrote.
        let written: Vec<Mutex<[u64; 8]>> = (0..WORKERS).map(|_| Mutex::default()).collect();
        let cluster = cluster(protocol);
        let all = cluster.run(|member| ends_somehow(member, level, end, &meeting, &told, &written));
        all.expect("no worker fails");
        assert!(
            told.lock().expect("nobody panics").is_empty(),
            "{level}, {protocol}, {end:?}: {told:?}"
        );
        let lines = meeting.lines.into_inner().expect("nobody panics");
        let looked = cluster.run_on(1, |member| {
            let (lines, written) = (&lines, &written);
            async move {
                for (worker, last) in written.iter().enumerate() {
                    for (at, line) in lines.iter().enumerate() {
                        let word = member.memory.read(*line, |w| w.u64(8 * worker)).await;
                        let last = last.lock().expect("nobody panics")[at];
                        assert!(last > 0, "{level}, {protocol}, {end:?}: nothing was written");
                        assert_eq!(
                            word.expect("a line"),
                            last,
                            "{level}, {protocol}, {end:?}, line {at}"
                        );
                    }
                }
            }
        });
        looked.expect("no worker fails");
    }
}

async fn ends_somehow(
    member: Member,
    level: Consistency,
    end: End,
    meeting: &Meeting,
    told: &Arc<Mutex<Vec<String>>>,
    written: &[Mutex<[u64; 8]>],
) {
    let lines = meeting.lines(&member, 8, &mut 0).await;
    let on_loss = {
        let told = told.clone();
        move |lost: LostWrites| told.lock().expect("nobody panics").push(lost.to_string())
    };
    let made = WriteBuffer::new(member.memory.clone(), settings(level), on_loss);
    let buffer = made.expect("settings");
    let own = Rc::new(Cell::new([0; 8]));
    let mut writers = Vec::new();
    for task in 0..2 {
        let (buffer, own, lines) = (buffer.clone(), own.clone(), lines.clone());
        let (index, handle) = (member.index, member.handle.clone());
        writers.push(member.handle.spawn(async move {
            for number in 1.. {
                for at in (task..lines.len()).step_by(2) {
                    let bytes = u64::to_le_bytes(number);
                    match buffer.write(lines[at], 8 * index, &bytes).await {
                        Ok(()) => {
                            let mut all = own.get();
                            all[at] = number;
                            own.set(all);
                        }
                        Err(RelaxedError::Closed) => return,
                        Err(error) => panic!("{error}"),
                    }
                }
                if end != End::LeavesWriters && number == 50 {
                    return;
                }
                handle.yield_now().await;
            }
        }));
    }
    if end == End::LeavesWriters {
        while own.get().contains(&0) {
            member.handle.yield_now().await;
        }
        buffer.leave().await.expect("no loss");
        for writer in writers {
            writer.await.expect("no writer fails");
        }
    } else {
        for writer in writers {
            writer.await.expect("no writer fails");
        }
        match end {
            End::Leaves => buffer.leave().await.expect("no loss"),
            _ => drop(buffer),
        }
    }
    *written[member.index].lock().expect("nobody panics") = own.get();
}
