//! Locks of transactions, which keep a line at its node.
//!
//! This file tests how locks are granted and how they end. `others` tests requests for locked
//! lines. `no_wait` tests accesses that do not wait for locks. `detained` tests lines that other
//! transactions of the node may lock again.

mod detained;
mod no_wait;
mod others;

use std::time::Duration;

use latchwork_cache::Ownership;
use latchwork_cluster::{Lock, Protocol, Ticket};
use latchwork_coherence::{AccessMode, LineLocks, LockOutcome, MemoryError, Need};
use latchwork_latch::{Answer, WordOp};
use latchwork_runtime::JoinHandle;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::scenarios::stage::*;

const BOTH: [AccessMode; 2] = [AccessMode::Shared, AccessMode::Exclusive];

/// A time for one read of the word, one request and its answer, in a network in which each may be
/// late. An attempt that takes longer has waited for another event.
const AT_ONCE: Duration = Duration::from_micros(150);

type Locked = Result<LockOutcome<Lock>, MemoryError>;

/// Starts to lock a line.
fn locks(stage: &Stage, worker: usize, line: GlobalAddr, mode: AccessMode) -> JoinHandle<Locked> {
    stage.start(worker, async move |member| member.memory.lock(Need { addr: line, mode }).await)
}

/// Locks a line without a conflicting lock.
#[track_caller]
fn lock(stage: &Stage, worker: usize, line: GlobalAddr, mode: AccessMode) -> Lock {
    match stage.end(locks(stage, worker, line, mode)).expect("no error") {
        LockOutcome::Got(lock) => lock,
        LockOutcome::Locked => panic!("seed {}: nobody has locked it so", stage.seed),
    }
}

/// Tries to lock a locked line: the attempt fails at once.
#[track_caller]
fn is_refused(stage: &Stage, worker: usize, line: GlobalAddr, mode: AccessMode) {
    let since = stage.now();
    let end = stage.end(locks(stage, worker, line, mode)).expect("no error");
    assert!(matches!(end, LockOutcome::Locked), "seed {}: {mode:?} was locked", stage.seed);
    let took = stage.now() - since;
    assert!(took < AT_ONCE, "seed {}: refused after {took:?}", stage.seed);
}

/// Upgrades a lock. Returns whether the upgrade was granted.
fn upgrade(stage: &Stage, worker: usize, mut lock: Lock) -> (bool, Lock) {
    stage.run(worker, async move |member| {
        let end = member.memory.upgrade_lock(&mut lock).await.expect("no error");
        (end == LockOutcome::Got(()), lock)
    })
}

/// Locks a line without waiting, if possible.
fn tries(
    stage: &Stage,
    worker: usize,
    line: GlobalAddr,
    mode: AccessMode,
) -> Result<LockOutcome<Lock>, Need> {
    stage.run(worker, async move |member| member.memory.try_lock(Need { addr: line, mode }))
}

fn drop_outcome(outcome: LockOutcome<Lock>) -> LockOutcome<()> {
    match outcome {
        LockOutcome::Got(_) => LockOutcome::Got(()),
        LockOutcome::Locked => LockOutcome::Locked,
    }
}

/// Starts an access that does not wait for locks, and keeps its ticket.
fn looks_in(
    stage: &Stage,
    worker: usize,
    line: GlobalAddr,
    mode: AccessMode,
) -> JoinHandle<Option<Ticket>> {
    stage.start(worker, async move |member| {
        match member.memory.ensure_unlocked(Need { addr: line, mode }).await.expect("no error") {
            LockOutcome::Got(ticket) => Some(ticket),
            LockOutcome::Locked => None,
        }
    })
}

/// Runs the scenario with each combination of settings by which shared lines change their owner.
fn in_every_way(nodes: usize, scenario: impl Fn(&dyn Fn() -> Stage)) {
    in_every_world(|seed| {
        for (takeover, forwarding) in [(true, true), (false, true), (true, false)] {
            scenario(&|| {
                let mut config = small(nodes, 1, 16, seed);
                (config.selcc.takeover, config.selcc.forwarding) = (takeover, forwarding);
                Stage::on(config)
            });
        }
    });
}

#[test]
fn many_lock_a_line_to_read_and_none_to_write_beside_them() {
    in_every_way(3, |stage| {
        let stage = stage();
        let line = stage.line();
        stage.write(C, line, 1);
        let first = lock(&stage, A, line, AccessMode::Shared);
        let second = lock(&stage, B, line, AccessMode::Shared);
        is_refused(&stage, C, line, AccessMode::Exclusive);
        assert_eq!((stage.read(A, line), stage.read(B, line)), (1, 1));
        stage.drop_on(A, first);
        is_refused(&stage, C, line, AccessMode::Exclusive);
        stage.drop_on(B, second);
        let third = lock(&stage, C, line, AccessMode::Exclusive);
        assert_eq!(stage.word(line), x(C));
        stage.drop_on(C, third);
        stage.finish();
    });
}

#[test]
fn a_line_that_is_locked_to_write_is_refused_to_all() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let held = lock(&stage, A, line, AccessMode::Exclusive);
        stage.write(A, line, 7);
        for mode in BOTH {
            is_refused(&stage, B, line, mode);
            is_refused(&stage, A, line, mode);
        }
        assert_eq!(stage.owns(A, line), Ownership::Exclusive);
        stage.drop_on(A, held);
        let held = lock(&stage, B, line, AccessMode::Shared);
        assert_eq!(stage.read(B, line), 7);
        stage.drop_on(B, held);
        stage.finish();
    });
}

#[test]
fn a_lock_to_read_is_upgraded_unless_another_reads() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let mine = lock(&stage, A, line, AccessMode::Shared);
        let theirs = lock(&stage, B, line, AccessMode::Shared);
        let (granted, mine) = upgrade(&stage, A, mine);
        assert!(!granted, "seed {}: beside a reader", stage.seed);
        assert_eq!(mine.need().mode, AccessMode::Shared);
        stage.drop_on(B, theirs);
        let (granted, mine) = upgrade(&stage, A, mine);
        assert!(granted, "seed {}: alone", stage.seed);
        is_refused(&stage, B, line, AccessMode::Shared);
        stage.write(A, line, 2);
        stage.drop_on(A, mine);
        stage.end(stage.reads(B, line));
        stage.finish();
    });
}

#[test]
fn two_that_upgrade_are_not_both_granted() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let held = [A, B].map(|worker| (worker, lock(&stage, worker, line, AccessMode::Shared)));
        let tasks = held.map(|(worker, mut held)| {
            stage.start(worker, async move |member| {
                let end = member.memory.upgrade_lock(&mut held).await.expect("no error");
                (end == LockOutcome::Got(()), held)
            })
        });
        let ends = tasks.map(|task| stage.end(task));
        let granted = ends.iter().filter(|(granted, _)| *granted).count();
        assert_eq!(granted, 0, "seed {}: each still reads", stage.seed);
        for (worker, (_, held)) in [A, B].into_iter().zip(ends) {
            stage.drop_on(worker, held);
        }
        stage.finish();
    });
}

/// Two workers of one node want the same line. The second is refused, and the node sends no
/// request.
#[test]
fn workers_of_one_node_exclude_each_other() {
    in_every_world(|seed| {
        let mut stage = Stage::new(1, seed);
        let second = stage.add_worker(A);
        let line = stage.line();
        let one = lock(&stage, A, line, AccessMode::Shared);
        let two = lock(&stage, second, line, AccessMode::Shared);
        is_refused(&stage, second, line, AccessMode::Exclusive);
        let (granted, one) = upgrade(&stage, A, one);
        assert!(!granted, "seed {seed}: beside the other worker's lock");
        stage.drop_on(second, two);
        let (granted, one) = upgrade(&stage, A, one);
        assert!(granted, "seed {seed}: alone");
        is_refused(&stage, second, line, AccessMode::Shared);
        assert_eq!(stage.node(A).locked_lines(), 1);
        stage.drop_on(A, one);
        assert_eq!(stage.node(A).locked_lines(), 0);
        stage.finish();
    });
}

/// More lines than the cache has frames are read. The locked lines stay in the cache.
#[test]
fn locked_lines_are_not_evicted_and_have_a_bound() {
    in_every_world(|seed| {
        let stage = Stage::with(1, 8, seed);
        let lines: Vec<_> = (0..40).map(|_| stage.line()).collect();
        let most = stage.node(A).cache().capacity() / 2;
        let mut held: Vec<_> = lines[..most]
            .iter()
            .map(|line| lock(&stage, A, *line, AccessMode::Exclusive))
            .collect();
        for line in &lines {
            stage.write(A, *line, 3);
        }
        for line in &lines[..most] {
            assert_eq!(stage.owns(A, *line), Ownership::Exclusive, "seed {seed}: evicted");
        }
        let error = stage.end(locks(&stage, A, lines[most], AccessMode::Shared)).map(drop);
        let error = error.expect_err("one too many").to_string();
        assert!(error.contains("lock-share"), "seed {seed}: {error}");
        // A line that is already locked is not counted twice.
        let (last, again) = (held.pop(), lines[most - 1]);
        stage.drop_on(A, last);
        held.extend([again, again].map(|line| lock(&stage, A, line, AccessMode::Shared)));
        for _ in 0..2 {
            stage.drop_on(A, held.pop());
        }
        held.push(lock(&stage, A, lines[most], AccessMode::Shared));
        held.into_iter().for_each(|held| stage.drop_on(A, held));
        stage.finish();
    });
}

/// A worker leaves in the middle of its transaction. Other nodes can then lock its lines.
#[test]
fn a_worker_that_leaves_unlocks() {
    in_every_world(|seed| {
        let mut stage = Stage::new(2, seed);
        let line = stage.line();
        let task = stage.start(A, async move |member| {
            let held = member.memory.lock(Need { addr: line, mode: AccessMode::Exclusive }).await;
            member.handle.sleep(Duration::from_secs(1000)).await;
            drop(held);
        });
        stage.until("A has locked the line", || stage.node(A).locked_lines() == 1);
        is_refused(&stage, B, line, AccessMode::Exclusive);
        stage.leave(A);
        assert!(task.is_finished(), "aborted with its worker");
        let held = lock(&stage, B, line, AccessMode::Exclusive);
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// The owner does not answer. The lock attempt ends at its deadline, as any access does.
#[test]
fn a_lock_attempt_ends_in_time_when_the_owner_does_not_answer() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 16, seed);
        config.node.deadline = Duration::from_millis(10);
        let stage = Stage::on(config);
        let line = stage.line();
        stage.write(A, line, 1);
        let silent = stage.hold(Leg::Inbox, line, request(B, A));
        let since = stage.now();
        let end = stage.end(locks(&stage, B, line, AccessMode::Exclusive));
        assert!(matches!(end, Err(MemoryError::Timeout { .. })), "seed {seed}: {end:?}");
        assert!(stage.now() - since < Duration::from_millis(11), "seed {seed}");
        drop(silent);
        stage.pass(A_WHILE);
        let held = lock(&stage, B, line, AccessMode::Exclusive);
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// Under SEL the node keeps the latch word as long as the lock.
#[test]
fn under_sel_a_lock_holds_the_word() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 16, seed);
        config.protocol = Protocol::Sel;
        let stage = Stage::on(config);
        let line = stage.line();
        let first = lock(&stage, A, line, AccessMode::Shared);
        let second = lock(&stage, B, line, AccessMode::Shared);
        stage.pass(A_WHILE);
        assert_eq!(stage.word(line), s(&[A, B]));
        let (granted, first) = upgrade(&stage, A, first);
        assert!(!granted, "seed {seed}: beside a reader");
        stage.drop_on(B, second);
        stage.until("B has given its copy back", || stage.word(line) == s(&[A]));
        let (granted, first) = upgrade(&stage, A, first);
        assert!(granted, "seed {seed}: alone");
        is_refused(&stage, B, line, AccessMode::Shared);
        is_refused(&stage, B, line, AccessMode::Exclusive);
        assert!(stage.end(looks_in(&stage, B, line, AccessMode::Shared)).is_none(), "seed {seed}");
        let again = tries(&stage, A, line, AccessMode::Shared).map(drop_outcome);
        assert_eq!(again, Ok(LockOutcome::Locked), "seed {seed}: a lock of this node");
        stage.write(A, line, 9);
        stage.drop_on(A, first);
        assert_eq!(stage.read(B, line), 9);
        stage.finish();
    });
}
