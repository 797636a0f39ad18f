//! Locks of transactions, which keep a line at its node.

use std::time::Duration;

use latchwork_cache::Ownership;
use latchwork_cluster::Protocol;
use latchwork_coherence::{LineLocks, LockOutcome, MemoryError, Mode, Need};
use latchwork_latch::{Answer, WordOp};
use latchwork_runtime::JoinHandle;
use latchwork_selcc::{Lock, Ticket};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::stage::*;

const BOTH: [Mode; 2] = [Mode::Shared, Mode::Exclusive];

/// A look at the word, a question and its answer, in a network in which each may be late. Nobody has waited for
/// anything else by then.
const AT_ONCE: Duration = Duration::from_micros(150);

type Locked = Result<LockOutcome<Lock>, MemoryError>;

/// Starts to lock a line.
fn locks(stage: &Stage, worker: usize, line: GlobalAddr, mode: Mode) -> JoinHandle<Locked> {
    stage.start(worker, async move |member| member.memory.lock(Need { addr: line, mode }).await)
}

/// Locks a line that nobody has locked against it.
#[track_caller]
fn lock(stage: &Stage, worker: usize, line: GlobalAddr, mode: Mode) -> Lock {
    match stage.end(locks(stage, worker, line, mode)).expect("no error") {
        LockOutcome::Got(lock) => lock,
        LockOutcome::Locked => panic!("seed {}: nobody has locked it so", stage.seed),
    }
}

/// Tries to lock a line that is locked: in vain, and at once.
#[track_caller]
fn is_refused(stage: &Stage, worker: usize, line: GlobalAddr, mode: Mode) {
    let since = stage.now();
    let end = stage.end(locks(stage, worker, line, mode)).expect("no error");
    assert!(matches!(end, LockOutcome::Locked), "seed {}: {mode:?} was locked", stage.seed);
    let took = stage.now() - since;
    assert!(took < AT_ONCE, "seed {}: refused after {took:?}", stage.seed);
}

/// Upgrades a lock; whether that was granted.
fn upgrade(stage: &Stage, worker: usize, mut lock: Lock) -> (bool, Lock) {
    stage.run(worker, async move |member| {
        let end = member.memory.upgrade_lock(&mut lock).await.expect("no error");
        (end == LockOutcome::Got(()), lock)
    })
}

/// Every way in which shared lines change hands.
fn in_every_way(nodes: usize, scenario: impl Fn(&dyn Fn() -> Stage)) {
    in_every_world(|seed| {
        for (takeover, forwarding) in [(true, true), (false, true), (true, false)] {
            scenario(&|| {
                let mut config = small(nodes, 1, 16, seed);
                (config.node.takeover, config.node.forwarding) = (takeover, forwarding);
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
        let first = lock(&stage, A, line, Mode::Shared);
        let second = lock(&stage, B, line, Mode::Shared);
        is_refused(&stage, C, line, Mode::Exclusive);
        assert_eq!((stage.read(A, line), stage.read(B, line)), (1, 1));
        stage.drop_on(A, first);
        is_refused(&stage, C, line, Mode::Exclusive);
        stage.drop_on(B, second);
        let third = lock(&stage, C, line, Mode::Exclusive);
        assert_eq!(stage.word(line), x(C));
        stage.drop_on(C, third);
        stage.finish();
    });
}

#[test]
fn a_line_that_is_locked_to_write_is_refused_to_everybody() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let held = lock(&stage, A, line, Mode::Exclusive);
        stage.write(A, line, 7);
        for mode in BOTH {
            is_refused(&stage, B, line, mode);
            is_refused(&stage, A, line, mode);
        }
        assert_eq!(stage.owns(A, line), Ownership::Exclusive);
        stage.drop_on(A, held);
        let held = lock(&stage, B, line, Mode::Shared);
        assert_eq!(stage.read(B, line), 7);
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// Locks a line without waiting, as far as that can be done.
fn tries(
    stage: &Stage,
    worker: usize,
    line: GlobalAddr,
    mode: Mode,
) -> Result<LockOutcome<Lock>, Need> {
    stage.run(worker, async move |member| member.memory.try_lock(Need { addr: line, mode }))
}

/// What is here is locked on the spot; for what is not, nobody is asked.
#[test]
fn a_line_that_is_here_is_locked_without_waiting() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        for mode in BOTH {
            assert_eq!(
                tries(&stage, A, line, mode).map(drop_outcome),
                Err(Need { addr: line, mode })
            );
        }
        stage.write(A, line, 1);
        stage.read(B, line);
        // Without forwarding A has lost it.
        stage.read(A, line);
        stage.pass(A_WHILE);
        stage.forget();
        let write = Need { addr: line, mode: Mode::Exclusive };
        assert_eq!(tries(&stage, A, line, Mode::Exclusive).map(drop_outcome), Err(write));
        let Ok(LockOutcome::Got(held)) = tries(&stage, A, line, Mode::Shared) else {
            panic!("seed {}: it is here", stage.seed);
        };
        assert_eq!((held.need().mode, stage.node(A).locked_lines()), (Mode::Shared, 1));
        // Not even asked for: there is a lock in the way here.
        let refused = tries(&stage, A, line, Mode::Exclusive).map(drop_outcome);
        assert_eq!(refused, Ok(LockOutcome::Locked));
        assert_eq!(stage.count(line, |_, _| true), 0, "seed {}: without a message", stage.seed);
        is_refused(&stage, B, line, Mode::Exclusive);
        stage.drop_on(A, held);
        stage.write(A, line, 2);
        let Ok(LockOutcome::Got(held)) = tries(&stage, A, line, Mode::Exclusive) else {
            panic!("seed {}: it is here", stage.seed);
        };
        is_refused(&stage, B, line, Mode::Shared);
        stage.drop_on(A, held);
        stage.finish();
    });
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
    mode: Mode,
) -> JoinHandle<Option<Ticket>> {
    stage.start(worker, async move |member| {
        match member.memory.ensure_unlocked(Need { addr: line, mode }).await.expect("no error") {
            LockOutcome::Got(ticket) => Some(ticket),
            LockOutcome::Locked => None,
        }
    })
}

/// An access that waits for the line, but not for the end of a lock.
#[test]
fn an_access_that_does_not_wait_for_locks_is_told_at_once() {
    in_every_way(2, |stage| {
        for (lock_mode, mode, passes) in [
            (Mode::Shared, Mode::Shared, true),
            (Mode::Shared, Mode::Exclusive, false),
            (Mode::Exclusive, Mode::Shared, false),
            (Mode::Exclusive, Mode::Exclusive, false),
        ] {
            let stage = stage();
            let line = stage.line();
            let held = lock(&stage, A, line, lock_mode);
            let since = stage.now();
            let ticket = stage.end(looks_in(&stage, B, line, mode));
            let took = stage.now() - since;
            assert!(took < AT_ONCE, "seed {}: told after {took:?}", stage.seed);
            assert_eq!(ticket.is_some(), passes, "seed {}: {mode:?} at {lock_mode:?}", stage.seed);
            stage.drop_on(B, ticket);
            stage.drop_on(A, held);
            let ticket = stage.end(looks_in(&stage, B, line, mode));
            assert!(ticket.is_some(), "seed {}: nobody has locked it", stage.seed);
            // For a line that is only in use it waits, and locks nothing.
            stage.drop_on(B, ticket);
            assert_eq!(stage.node(B).locked_lines(), 0);
            stage.finish();
        }
    });
}

/// Accesses that are no transaction's wait, and get the line when it is unlocked.
#[test]
fn an_access_without_a_lock_waits_for_the_end_of_the_lock() {
    in_every_way(2, |stage| {
        for write in [false, true] {
            let stage = stage();
            let line = stage.line();
            let held = lock(&stage, A, line, Mode::Exclusive);
            let access = if write { stage.writes(B, line, 5) } else { stage.reads(B, line) };
            // Far longer than reservations last.
            stage.pass(Duration::from_millis(5));
            assert!(!access.is_finished(), "seed {}", stage.seed);
            assert!(stage.count(line, answer(A, B, Answer::Busy)) > 0);
            assert_eq!(stage.count(line, answer(A, B, Answer::Queued)), 0, "nobody is remembered");
            stage.write(A, line, 4);
            stage.drop_on(A, held);
            assert_eq!(stage.end(access), 4);
            stage.finish();
        }
    });
}

#[test]
fn a_lock_to_read_is_upgraded_unless_another_reads() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let mine = lock(&stage, A, line, Mode::Shared);
        let theirs = lock(&stage, B, line, Mode::Shared);
        let (granted, mine) = upgrade(&stage, A, mine);
        assert!(!granted, "seed {}: beside a reader", stage.seed);
        assert_eq!(mine.need().mode, Mode::Shared);
        stage.drop_on(B, theirs);
        let (granted, mine) = upgrade(&stage, A, mine);
        assert!(granted, "seed {}: alone", stage.seed);
        is_refused(&stage, B, line, Mode::Shared);
        stage.write(A, line, 2);
        stage.drop_on(A, mine);
        stage.end(stage.reads(B, line));
        stage.finish();
    });
}

/// Race: B also reads the line, has no lock, and has been refused so often when it wanted to write that it comes before
/// everybody. A, whose lock is in its way, cannot give way to it, so B has to give way to A.
#[test]
fn a_lock_is_upgraded_before_those_whom_it_keeps_waiting() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let mine = lock(&stage, A, line, Mode::Shared);
        stage.end(stage.reads(B, line));
        let write = stage.writes(B, line, 5);
        stage.pass(Duration::from_millis(5));
        assert!(!write.is_finished(), "seed {}", stage.seed);
        let since = stage.now();
        let (granted, mine) = upgrade(&stage, A, mine);
        assert!(granted, "seed {}: nobody else has a lock", stage.seed);
        let took = stage.now() - since;
        // B may have to end a pause first.
        assert!(took < Duration::from_millis(2), "seed {}: upgraded after {took:?}", stage.seed);
        stage.write(A, line, 4);
        stage.drop_on(A, mine);
        assert_eq!(stage.end(write), 4);
        stage.finish();
    });
}

#[test]
fn two_that_upgrade_are_not_both_granted() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let held = [A, B].map(|worker| (worker, lock(&stage, worker, line, Mode::Shared)));
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

/// Workers of one node meet the same lock, and the node asks nobody.
#[test]
fn workers_of_one_node_exclude_each_other() {
    in_every_world(|seed| {
        let mut stage = Stage::new(1, seed);
        let second = stage.add_worker(A);
        let line = stage.line();
        let one = lock(&stage, A, line, Mode::Shared);
        let two = lock(&stage, second, line, Mode::Shared);
        is_refused(&stage, second, line, Mode::Exclusive);
        let (granted, one) = upgrade(&stage, A, one);
        assert!(!granted, "seed {seed}: beside the other worker's lock");
        stage.drop_on(second, two);
        let (granted, one) = upgrade(&stage, A, one);
        assert!(granted, "seed {seed}: alone");
        is_refused(&stage, second, line, Mode::Shared);
        assert_eq!(stage.node(A).locked_lines(), 1);
        stage.drop_on(A, one);
        assert_eq!(stage.node(A).locked_lines(), 0);
        stage.finish();
    });
}

/// Race: B has the line by hand-over and locks it while A's operation is late, so the word still names A and so
/// does C's question. It must reach B and be refused there; the lock must not be handed on.
#[test]
fn a_line_is_locked_while_its_hand_over_is_not_settled() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, op(A, WordOp::HandOver(id(B))));
        let held = lock(&stage, B, line, Mode::Exclusive);
        assert_eq!((late.held(), stage.word(line)), (1, x(A)));
        let other = locks(&stage, C, line, Mode::Exclusive);
        stage.until("C asks", || stage.count(line, request(C, A)) > 0);
        stage.pass(Duration::from_micros(10));
        assert!(!other.is_finished(), "seed {seed}: A's operation is in the way");
        drop(late);
        assert!(matches!(stage.end(other), Ok(LockOutcome::Locked)), "seed {seed}");
        assert_eq!(stage.word(line), x(B));
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// Who waits for the line already when it is locked is told.
#[test]
fn a_remembered_request_is_refused_when_the_line_is_locked() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        let ticket = stage.take(A, line, Mode::Exclusive);
        let other = locks(&stage, B, line, Mode::Exclusive);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        let held = lock(&stage, A, line, Mode::Exclusive);
        assert!(matches!(stage.end(other), Ok(LockOutcome::Locked)), "seed {seed}");
        stage.drop_on(A, ticket);
        stage.drop_on(A, held);
        stage.finish();
    });
}

/// Race: C's request comes to B with the line itself, while A's operation is late. C is told in the step in which B locks the
/// line, not when A reports: whether B has obtained it for the lock, or finds it here.
#[test]
fn a_request_that_came_with_the_line_is_refused_when_the_line_is_locked() {
    in_every_world(|seed| {
        for obtained in [false, true] {
            let stage = Stage::new(3, seed);
            let line = stage.line();
            let ticket = stage.take(A, line, Mode::Exclusive);
            let late = stage.hold(Leg::There, line, op(A, WordOp::HandOver(id(B))));
            let waiting = |from| stage.count(line, answer(A, from, Answer::Queued)) == 1;
            let first = obtained.then(|| locks(&stage, B, line, Mode::Exclusive));
            let access = (!obtained).then(|| stage.writes(B, line, 1));
            stage.until("A remembers B", || waiting(B));
            let other = locks(&stage, C, line, Mode::Exclusive);
            stage.until("A remembers C", || waiting(C));
            stage.drop_on(A, ticket);
            access.into_iter().for_each(|access| _ = stage.end(access));
            let held = match first {
                Some(first) => stage.end(first).expect("no error"),
                None => tries(&stage, B, line, Mode::Exclusive).expect("it is here"),
            };
            let LockOutcome::Got(held) = held else { panic!("seed {seed}: nobody has locked it") };
            assert!(matches!(stage.end(other), Ok(LockOutcome::Locked)), "seed {seed}");
            assert_eq!((late.held(), stage.word(line)), (1, x(A)), "A has not reported");
            drop(late);
            stage.drop_on(B, held);
            stage.finish();
        }
    });
}

/// Who has waited until the bound of the lease comes before those who would lock the line that is still here.
#[test]
fn a_line_that_is_being_given_up_is_not_locked() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 16, seed);
        config.node.lease = Some(0);
        let mut stage = Stage::on(config);
        let second = stage.add_worker(A);
        let line = stage.line();
        let ticket = stage.take(A, line, Mode::Exclusive);
        let access = stage.writes(B, line, 1);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        for mode in BOTH {
            let need = Need { addr: line, mode };
            assert_eq!(tries(&stage, second, line, mode).map(drop_outcome), Err(need));
        }
        let late = locks(&stage, second, line, Mode::Exclusive);
        stage.drop_on(A, ticket);
        stage.end(access);
        let LockOutcome::Got(held) = stage.end(late).expect("no error") else {
            panic!("seed {seed}: nobody has locked it");
        };
        assert_eq!(stage.read(A, line), 1, "seed {seed}: B came first");
        stage.drop_on(second, held);
        stage.finish();
    });
}

/// Other lines come and go, as many as the cache has frames and more; the locked ones stay.
#[test]
fn locked_lines_are_not_evicted_and_have_a_bound() {
    in_every_world(|seed| {
        let stage = Stage::with(1, 8, seed);
        let lines: Vec<_> = (0..40).map(|_| stage.line()).collect();
        let most = stage.node(A).cache().capacity() / 2;
        let mut held: Vec<_> =
            lines[..most].iter().map(|line| lock(&stage, A, *line, Mode::Exclusive)).collect();
        for line in &lines {
            stage.write(A, *line, 3);
        }
        for line in &lines[..most] {
            assert_eq!(stage.owns(A, *line), Ownership::Exclusive, "seed {seed}: evicted");
        }
        let error = stage.end(locks(&stage, A, lines[most], Mode::Shared)).map(drop);
        let error = error.expect_err("one too many").to_string();
        assert!(error.contains("lock-share"), "seed {seed}: {error}");
        // A line that is locked already is not one more.
        let (last, again) = (held.pop(), lines[most - 1]);
        stage.drop_on(A, last);
        held.extend([again, again].map(|line| lock(&stage, A, line, Mode::Shared)));
        for _ in 0..2 {
            stage.drop_on(A, held.pop());
        }
        held.push(lock(&stage, A, lines[most], Mode::Shared));
        held.into_iter().for_each(|held| stage.drop_on(A, held));
        stage.finish();
    });
}

/// A worker leaves in the middle of its transaction: what it has locked is free for others.
#[test]
fn a_worker_that_leaves_unlocks() {
    in_every_world(|seed| {
        let mut stage = Stage::new(2, seed);
        let line = stage.line();
        let task = stage.start(A, async move |member| {
            let held = member.memory.lock(Need { addr: line, mode: Mode::Exclusive }).await;
            member.handle.sleep(Duration::from_secs(1000)).await;
            drop(held);
        });
        stage.until("A has locked the line", || stage.node(A).locked_lines() == 1);
        is_refused(&stage, B, line, Mode::Exclusive);
        stage.leave(A);
        assert!(task.is_finished(), "aborted with its worker");
        let held = lock(&stage, B, line, Mode::Exclusive);
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// An owner that says nothing: the wish ends at its deadline, as any access.
#[test]
fn a_lock_of_a_line_whose_owner_does_not_answer_ends_in_time() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 16, seed);
        config.node.deadline = Duration::from_millis(10);
        let stage = Stage::on(config);
        let line = stage.line();
        stage.write(A, line, 1);
        let silent = stage.hold(Leg::Inbox, line, request(B, A));
        let since = stage.now();
        let end = stage.end(locks(&stage, B, line, Mode::Exclusive));
        assert!(matches!(end, Err(MemoryError::Timeout { .. })), "seed {seed}: {end:?}");
        assert!(stage.now() - since < Duration::from_millis(11), "seed {seed}");
        drop(silent);
        stage.pass(A_WHILE);
        let held = lock(&stage, B, line, Mode::Exclusive);
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// An access that waits has its node pause, for long by now. Who does not wait is told at once all the same, again and
/// again, and that makes nobody ask more often for whom it waits.
#[test]
fn who_does_not_wait_is_told_at_once_also_while_its_node_pauses() {
    in_every_way(2, |stage| {
        for write in [false, true] {
            let mut stage = stage();
            let second = stage.add_worker(B);
            let line = stage.line();
            let held = lock(&stage, A, line, Mode::Exclusive);
            let access = if write { stage.writes(B, line, 5) } else { stage.reads(B, line) };
            stage.pass(Duration::from_millis(5));
            for _ in 0..20 {
                BOTH.into_iter().for_each(|mode| is_refused(&stage, second, line, mode));
            }
            stage.forget();
            stage.pass(Duration::from_millis(5));
            let asked = stage.count(line, answer(A, B, Answer::Busy));
            assert!((4..50).contains(&asked), "seed {}: asked {asked} times", stage.seed);
            assert!(!access.is_finished(), "seed {}", stage.seed);
            stage.drop_on(A, held);
            stage.end(access);
            stage.finish();
        }
    });
}

/// A refused reader's node looks at the word for as long as its bit waits there: no reason to pause.
#[test]
fn a_refused_reader_that_tries_again_is_told_at_once() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let held = lock(&stage, A, line, Mode::Exclusive);
        is_refused(&stage, B, line, Mode::Shared);
        for step in 0..40 {
            stage.pass(Duration::from_micros(97 * step));
            is_refused(&stage, B, line, Mode::Shared);
            is_refused(&stage, B, line, Mode::Exclusive);
        }
        stage.drop_on(A, held);
        stage.pass(Duration::from_millis(1));
        let held = lock(&stage, B, line, Mode::Exclusive);
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// What was refused to readers keeps its frames as long as it is locked, but never all: the node goes on with
/// other lines, its transactions among them.
#[test]
fn lines_that_were_refused_leave_frames_to_others() {
    in_every_world(|seed| {
        let stage = Stage::with(3, 8, seed);
        let lines: Vec<_> = (0..8).map(|_| stage.line()).collect();
        let others: Vec<_> = (0..12).map(|_| stage.line()).collect();
        let held: Vec<_> = lines
            .iter()
            .zip([A, C].into_iter().cycle())
            .map(|(line, worker)| (worker, lock(&stage, worker, *line, Mode::Exclusive)))
            .collect();
        for _ in 0..3 {
            lines.iter().for_each(|line| is_refused(&stage, B, *line, Mode::Shared));
        }
        let frames = stage.node(B).cache().capacity();
        let kept = lines.iter().filter(|line| stage.frame(B, **line).is_some()).count();
        assert!((1..=frames / 4).contains(&kept), "seed {seed}: {kept} of {frames}");
        for line in &others {
            let mine = lock(&stage, B, *line, Mode::Exclusive);
            assert_eq!(stage.write(B, *line, 1), 0, "seed {seed}");
            stage.drop_on(B, mine);
        }
        for (worker, held) in held {
            stage.drop_on(worker, held);
        }
        stage.pass(Duration::from_millis(2));
        for line in &lines {
            let mine = lock(&stage, B, *line, Mode::Shared);
            stage.drop_on(B, mine);
        }
        stage.finish();
    });
}

/// Who wished to lock the line has been dropped when the answer comes: nobody asks again.
#[test]
fn a_wish_for_a_lock_that_is_dropped_ends_with_the_answer() {
    in_every_way(2, |stage| {
        for mode in BOTH {
            let stage = stage();
            let line = stage.line();
            let held = lock(&stage, A, line, Mode::Exclusive);
            let wish = locks(&stage, B, line, mode);
            stage.until("B asks", || stage.count(line, request(B, A)) == 1);
            wish.abort();
            stage.pass(Duration::from_millis(2));
            // The bit of a refused reader stays, and so its node looks at the word.
            let asked = stage.count(line, request(B, A));
            assert!(asked == 1 || mode == Mode::Shared, "seed {}: {asked}", stage.seed);
            stage.drop_on(A, held);
            stage.pass(Duration::from_millis(2));
            assert_eq!(stage.node(B).lines_under_way(), 0, "seed {}", stage.seed);
            stage.finish();
        }
    });
}

/// Under SEL the word is held for as long as the lock is.
#[test]
fn under_sel_a_lock_holds_the_word() {
    in_every_world(|seed| {
        let mut config = small(2, 1, 16, seed);
        config.node.policy = Protocol::Sel.policy();
        let stage = Stage::on(config);
        let line = stage.line();
        let first = lock(&stage, A, line, Mode::Shared);
        let second = lock(&stage, B, line, Mode::Shared);
        stage.pass(A_WHILE);
        assert_eq!(stage.word(line), s(&[A, B]));
        let (granted, first) = upgrade(&stage, A, first);
        assert!(!granted, "seed {seed}: beside a reader");
        stage.drop_on(B, second);
        stage.until("B has given its copy back", || stage.word(line) == s(&[A]));
        let (granted, first) = upgrade(&stage, A, first);
        assert!(granted, "seed {seed}: alone");
        is_refused(&stage, B, line, Mode::Shared);
        is_refused(&stage, B, line, Mode::Exclusive);
        assert!(stage.end(looks_in(&stage, B, line, Mode::Shared)).is_none(), "seed {seed}");
        let again = tries(&stage, A, line, Mode::Shared).map(drop_outcome);
        assert_eq!(again, Ok(LockOutcome::Locked), "seed {seed}: a lock of this node");
        stage.write(A, line, 9);
        stage.drop_on(A, first);
        assert_eq!(stage.read(B, line), 9);
        stage.finish();
    });
}
