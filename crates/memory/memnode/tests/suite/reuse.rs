//! Random clusters with a checker that sees all state. The checker tests the invariant of the
//! epochs after every event. Readers would notice the reuse of a line that they read.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use latchwork_memnode::{EpochGuard, EpochWorker, PoolSettings};
use latchwork_simulation::RunEnd;
use latchwork_verbs::GlobalAddr;

use crate::common;
use crate::common::{Node, Worker, World};

const EPOCH: u64 = 256;
const SLOTS: u64 = 512;
const IDLE: u64 = (1 << 44) - 1;
/// Words of memory node 0 that no other code uses: each points to a line.
const POINTERS: u64 = 1536;
const POINTER_COUNT: u64 = 4;

const SETTINGS: PoolSettings = PoolSettings {
    stripes: 1,
    tick_interval: Duration::from_micros(10),
    idle_after: Duration::from_micros(30),
    reuse_wait: Duration::from_millis(5),
    deadline: Duration::from_secs(1),
};

/// The operations in progress, with the epoch in which each began. Keyed by node and a serial
/// number.
#[derive(Default)]
struct Observed {
    began: BTreeMap<(u8, u64), u64>,
    serial: u64,
    operations: u64,
    dropped: u64,
}

type Shared = Rc<RefCell<Observed>>;

struct Actor {
    node: Node,
    worker: Worker,
    seat: Rc<EpochWorker>,
    observed: Shared,
    memory: std::sync::Arc<latchwork_verbs::Region>,
}

/// An operation that the checker knows.
struct Operation {
    _guard: EpochGuard,
    key: (u8, u64),
    observed: Shared,
}

impl Drop for Operation {
    fn drop(&mut self) {
        self.observed.borrow_mut().began.remove(&self.key);
    }
}

impl Actor {
    fn observe(&self, guard: EpochGuard) -> Operation {
        let mut observed = self.observed.borrow_mut();
        observed.serial += 1;
        observed.operations += 1;
        let key = (self.worker.port.node().get(), observed.serial);
        observed.began.insert(key, self.memory.words().u64(EPOCH as usize));
        Operation { _guard: guard, key, observed: self.observed.clone() }
    }

    /// Begins an operation. Now and then drops the future before its end, at any await.
    async fn enter(&self) -> Operation {
        loop {
            let handle = &self.worker.handle;
            let patience = Duration::from_nanos(match self.worker.below(4) {
                0 => self.worker.below(4_000),
                _ => 1_000_000_000,
            });
            match handle.timeout(handle.now() + patience, self.seat.enter(handle)).await {
                Ok(guard) => return self.observe(guard.unwrap()),
                Err(_) => self.observed.borrow_mut().dropped += 1,
            }
        }
    }

    /// Calls a function that the poller also calls, and drops the future before its end.
    async fn disturb(&self) {
        let (handle, port) = (&self.worker.handle, &self.worker.port);
        let epochs = &self.node.epochs;
        let deadline = handle.now() + Duration::from_nanos(self.worker.below(4_000));
        let done = match self.worker.below(3) {
            0 => handle.timeout(deadline, epochs.set_idle(port)).await.is_ok(),
            1 => handle.timeout(deadline, self.seat.enter(handle)).await.is_ok(),
            _ => handle.timeout(deadline, epochs.tick(port, handle.now())).await.is_ok(),
        };
        self.observed.borrow_mut().dropped += u64::from(!done);
    }

    /// Reads a pointer, waits a while, and reads the line that the pointer names. The line's first
    /// word states for which pointer value the line was written.
    async fn read(&self) -> Result<(), String> {
        let operation = self.enter().await;
        let port = &self.worker.port;
        let pointer = pointer(self.worker.below(POINTER_COUNT));
        let pointed = port.read_word(pointer).await.unwrap();
        if pointed == 0 {
            return Ok(());
        }
        let (line, life) = unpack(pointed);
        for _ in 0..self.worker.below(4) {
            self.worker.pause(Duration::from_micros(20)).await;
            let found = port.read_word(line).await.unwrap();
            if found != life {
                return Err(format!("{:?}: {line} has life {found}, not {life}", operation.key));
            }
        }
        Ok(())
    }

    /// Lets a pointer name a new line, and frees the old line.
    async fn write(&self, life: u64, protect: bool) {
        let _operation = self.enter().await;
        let (port, handle) = (&self.worker.port, &self.worker.handle);
        let line = self.node.lines.allocate(port, handle).await.unwrap();
        port.write_word(line, life).await.unwrap();
        let pointer = pointer(self.worker.below(POINTER_COUNT));
        let mut expected = port.read_word(pointer).await.unwrap();
        loop {
            let old = port.compare_swap(pointer, expected, pack(line, life)).await.unwrap();
            if old == expected {
                break;
            }
            expected = old;
        }
        if expected != 0 {
            let (old, _) = unpack(expected);
            if protect {
                self.node.lines.retire(old).unwrap();
            } else {
                self.node.lines.give_back(old).unwrap();
            }
        }
    }
}

fn pointer(index: u64) -> GlobalAddr {
    GlobalAddr::from_bits(POINTERS + 8 * index)
}

fn pack(line: GlobalAddr, life: u64) -> u64 {
    (line.bits() / 512) | (life << 32)
}

fn unpack(pointed: u64) -> (GlobalAddr, u64) {
    (GlobalAddr::from_bits((pointed & 0xffff_ffff) * 512), pointed >> 32)
}

/// The invariant (I) of the crate's `epoch` page, for all nodes.
fn check(world: &World, nodes: u8, observed: &Observed) {
    for id in 1..=nodes {
        let slot = world.word(SLOTS + 8 * u64::from(id - 1)) & IDLE;
        let first = observed.began.range((id, 0)..(id + 1, 0)).map(|(_, &epoch)| epoch).min();
        if let Some(first) = first {
            assert!(
                slot != 0 && slot <= first,
                "C{id} published {slot}, an operation began at {first}"
            );
        }
    }
}

/// Runs a cluster, and returns the error that the readers found, if any.
fn run(seed: u64, protect: bool) -> (Result<(), String>, Shared, Vec<Node>, u64) {
    let nodes = 2 + (seed % 3) as u8;
    let world = World::new(seed, &[8], nodes, 2);
    let pool = world.format();
    let observed = Shared::default();
    let mut members = Vec::new();
    let mut tasks = Vec::new();
    let mut life = 0;
    for id in 1..=nodes {
        let node = world.register(id, &pool, SETTINGS);
        members.push(node.clone());
        for worker in world.workers[usize::from(id) - 1].iter().cloned() {
            let seat = node.worker(&worker);
            for role in 0..3 {
                life += 1;
                let (first_life, step) = (life, u64::from(nodes) * 6);
                let actor = Actor {
                    node: node.clone(),
                    worker: worker.clone(),
                    seat: seat.clone(),
                    observed: observed.clone(),
                    memory: world.fabric.memory(latchwork_verbs::MemoryNodeId(0)).unwrap(),
                };
                tasks.push(worker.handle.clone().spawn(async move {
                    for turn in 0..25 {
                        match role {
                            0 => actor.write(first_life + turn * step, protect).await,
                            1 => actor.disturb().await,
                            _ => actor.read().await?,
                        }
                        // Long pauses let workers and nodes rest.
                        let most = if actor.worker.below(5) == 0 { 200 } else { 10 };
                        actor.worker.pause(Duration::from_micros(most)).await;
                    }
                    Ok(())
                }));
            }
        }
    }
    let deadline = world.kernel.now() + common::LIMIT;
    let mut ended = 0;
    world.kernel.run_until(deadline, || {
        check(&world, nodes, &observed.borrow());
        while tasks.get(ended).is_some_and(|task| task.is_finished()) {
            ended += 1;
        }
        ended == tasks.len()
    });
    // No operation is in progress any more, so no node may delay the reuse of lines.
    assert_eq!(world.kernel.run_until(deadline, || false), RunEnd::Quiet);
    for id in 1..=nodes {
        assert_eq!(world.word(SLOTS + 8 * u64::from(id - 1)) & IDLE, IDLE, "C{id}, seed {seed}");
    }
    let results = tasks.iter().map(|task| task.take().expect("ended").expect("not aborted"));
    let result = results.collect();
    (result, observed, members, world.kernel.event_hash())
}

#[test]
fn no_reader_meets_a_reused_line_and_the_invariant_holds_at_every_event() {
    let (mut operations, mut dropped, mut reused, mut fresh) = (0, 0, 0, 0);
    for seed in 0..150 {
        let (result, observed, nodes, _) = run(seed, true);
        assert_eq!(result, Ok(()), "seed {seed}");
        operations += observed.borrow().operations;
        dropped += observed.borrow().dropped;
        for node in &nodes {
            let taken = node.lines.chunks_taken().unwrap() as usize * 126 - node.lines.available();
            fresh += taken;
            reused += 50usize.saturating_sub(taken);
        }
    }
    // The test proves something only if many operations ran, many futures were dropped and many
    // lines were reused.
    assert!(operations > 10_000 && dropped > 1_000, "{operations} {dropped}");
    assert!(reused > fresh / 2, "{reused} {fresh}");
}

#[test]
fn without_epochs_the_readers_do_meet_reused_lines() {
    let caught = (0..20).filter(|&seed| run(seed, false).0.is_err()).count();
    assert!(caught > 10, "{caught} of 20 seeds");
}

#[test]
fn the_same_seed_is_the_same_run() {
    for seed in [3, 4] {
        assert_eq!(run(seed, true).3, run(seed, true).3);
    }
}
