//! Dirty bounds: the range to write back is known, even if the line has moved between nodes.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_cluster::Member;
use latchwork_coherence::CoherentMemory;
use latchwork_latch::WordOp;
use latchwork_runtime::JoinHandle;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::Leg;

use crate::scenarios::stage::*;

const WORDS: usize = (512 - latchwork_cache::LINE_HEADER) / 8;

/// Changes one word, and marks only that word as dirty.
fn pokes(stage: &Stage, node: usize, line: GlobalAddr, at: usize, value: u64) -> JoinHandle<()> {
    stage.start(node, async move |member| poke(&member, line, at..at + 1, value).await)
}

async fn poke(member: &Member, line: GlobalAddr, range: std::ops::Range<usize>, value: u64) {
    let write = member.memory.write(line, |guard| {
        range.clone().for_each(|at| guard.words().set_word(at, value));
        guard.mark_dirty(range.start * 8..range.end * 8);
    });
    write.await.expect("no error");
}

/// All words of the line, as a node reads them.
fn all_words(stage: &Stage, node: usize, line: GlobalAddr) -> Vec<u64> {
    stage.run(node, async move |member| {
        let read = member
            .memory
            .read(line, |words| (0..words.len() / 8).map(|i| words.word(i)).collect::<Vec<_>>());
        read.await.expect("no error")
    })
}

fn expected(pokes: &[(usize, u64)]) -> Vec<u64> {
    let mut words = vec![0; WORDS];
    pokes.iter().for_each(|&(at, value)| words[at] = value);
    words
}

/// Bug: a hand-over moves the bytes but not the bounds, so the last owner writes back only its own
/// changes. Mechanism: three nodes change one word each, at both ends and in the middle, without a
/// write-back in between. Fix: the bounds travel with the line.
#[test]
fn the_last_of_a_chain_of_owners_writes_back_what_all_of_them_changed() {
    in_every_world(|seed| {
        let stage = Stage::new(4, seed);
        let line = stage.line();
        let changes = [(A, 40, 1), (B, 3, 2), (C, 59, 3)];
        for (node, at, value) in changes {
            stage.end(pokes(&stage, node, line, at, value));
        }
        assert_eq!(stage.count(line, grant(A, B)) + stage.count(line, grant(B, C)), 2);
        assert_eq!(stage.memory(line), expected(&[]), "nothing was written back on the way");
        stage.until("the chain has settled", || stage.count(line, settled(B, C)) == 1);
        stage.pass(A_WHILE);
        stage.evict_now(C, line);
        let all = expected(&[(40, 1), (3, 2), (59, 3)]);
        assert_eq!(stage.memory(line), all, "seed {seed}");
        assert_eq!(all_words(&stage, D, line), all);
        stage.finish();
    });
}

/// With `survive`, memory has the line as its present holder got it, and the holder writes back
/// only what it wrote itself.
#[test]
fn memory_has_what_each_owner_of_a_chain_got() {
    in_every_world(|seed| {
        let stage = Stage::surviving(4, seed);
        let line = stage.line();
        let before = stage.cluster.counters().bytes_written_back;
        stage.end(pokes(&stage, A, line, 40, 1));
        assert_eq!(stage.memory(line), expected(&[]), "A's change is A's alone");
        stage.end(pokes(&stage, B, line, 3, 2));
        stage.until("A is done", || stage.count(line, settled(A, B)) == 1);
        assert_eq!(stage.memory(line), expected(&[(40, 1)]));
        stage.end(pokes(&stage, C, line, 59, 3));
        stage.until("B is done", || stage.count(line, settled(B, C)) == 1);
        assert_eq!(stage.memory(line), expected(&[(40, 1), (3, 2)]));
        stage.pass(A_WHILE);
        stage.evict_now(C, line);
        let written = stage.cluster.counters().bytes_written_back - before;
        assert_eq!(written, 3 * 8, "one word of each");
        let all = expected(&[(40, 1), (3, 2), (59, 3)]);
        assert_eq!(stage.memory(line), all);
        assert_eq!(all_words(&stage, D, line), all);
        stage.finish();
    });
}

/// A line that moves on without another change still has earlier changes to write back.
#[test]
fn an_owner_that_changed_nothing_writes_back_what_came_with_the_line() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.end(pokes(&stage, A, line, 7, 1));
        let ticket = stage.take(B, line, latchwork_coherence::AccessMode::Exclusive);
        stage.drop_on(B, ticket);
        stage.pass(A_WHILE);
        stage.evict_now(B, line);
        assert_eq!(stage.memory(line), expected(&[(7, 1)]));
        assert_eq!(all_words(&stage, A, line), expected(&[(7, 1)]));
        stage.finish();
    });
}

/// Changes, a write-back, then changes by the same node and by another node. The bounds start anew
/// after the write-back, and no change is lost.
#[test]
fn bounds_start_anew_after_a_flush_and_travel_afterwards() {
    in_every_world(|seed| {
        let stage = Stage::releasing(3, seed);
        let line = stage.line();
        stage.end(pokes(&stage, A, line, 5, 1));
        assert_eq!(all_words(&stage, B, line), expected(&[(5, 1)]));
        stage.until("A has flushed", || stage.memory(line) == expected(&[(5, 1)]));
        stage.end(pokes(&stage, A, line, 50, 2));
        assert_eq!(stage.count(line, op(A, WordOp::Upgrade)), 2, "past B's copy");
        stage.end(pokes(&stage, C, line, 20, 3));
        assert_eq!(stage.memory(line), expected(&[(5, 1)]), "handed over, not flushed");
        stage.pass(A_WHILE);
        stage.evict_now(C, line);
        let all = expected(&[(5, 1), (50, 2), (20, 3)]);
        assert_eq!(stage.memory(line), all);
        assert_eq!((all_words(&stage, A, line), all_words(&stage, B, line)), (all.clone(), all));
        stage.finish();
    });
}

/// Bug: the giver's write-back takes effect after the receiver's, and overwrites new bytes by old
/// ones. Mechanism: A admits reader B, and the write-back of that downgrade is held; B wants to
/// write. Fix: the copy is settled only when the downgrade is complete, and B cannot change it
/// earlier.
#[test]
fn a_late_flush_does_not_overwrite_what_the_next_owner_wrote() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.end(pokes(&stage, A, line, 5, 1));
        let flush = stage.hold(Leg::There, line, op(A, WordOp::Downgrade));
        assert_eq!(all_words(&stage, B, line), expected(&[(5, 1)]), "forwarded before the flush");
        assert_eq!((flush.held(), stage.memory(line)), (1, expected(&[])));
        let change = pokes(&stage, B, line, 5, 2);
        let third = stage.start(C, async move |member| {
            member.memory.read(line, |words| words.word(5)).await.expect("no error")
        });
        stage.pass(A_WHILE);
        assert!(!change.is_finished() && !third.is_finished());
        drop(flush);
        stage.end(change);
        assert!([1, 2].contains(&stage.end(third)));
        assert_eq!(all_words(&stage, A, line), expected(&[(5, 2)]));
        stage.until("flushed", || stage.memory(line) == expected(&[(5, 2)]));
        stage.finish();
    });
}

/// A dirty line is evicted, and another node reads all of its bytes, changed and unchanged ones.
#[test]
fn an_evicted_line_is_read_elsewhere_with_all_its_bytes() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.run(A, async move |member| {
            let write = member.memory.write(line, |guard| {
                (0..WORDS).for_each(|at| guard.words().set_word(at, 100 + at as u64));
                guard.mark_dirty(0..WORDS * 8);
            });
            write.await.expect("no error");
        });
        stage.evict_now(A, line);
        stage.end(pokes(&stage, A, line, 30, 1));
        let late = stage.hold(Leg::There, line, op(A, WordOp::ReleaseExclusive));
        assert!(stage.evict(A, line));
        let reader = stage.start(B, async move |member| {
            let all =
                member.memory.read(line, |w| (0..WORDS).map(|i| w.word(i)).collect::<Vec<_>>());
            all.await.expect("no error")
        });
        stage.until("B waits", || stage.word(line) == xs(A, &[B]));
        drop(late);
        let mut all: Vec<u64> = (0..WORDS as u64).map(|at| 100 + at).collect();
        all[30] = 1;
        assert_eq!(stage.end(reader), all);
        assert_eq!(stage.memory(line), all);
        stage.finish();
    });
}

/// A write-back covers the changes, from the first changed byte to the last. Without bounds it
/// covers the whole line. An unchanged line is not written back in either case.
#[test]
fn only_what_changed_is_written_back() {
    in_every_world(|seed| {
        for (bounds, whole) in [(true, None), (false, Some(512))] {
            let mut config = crate::common::small(2, 1, 16, seed);
            config.node.dirty_bounds = bounds;
            let stage = Stage::on(config);
            let line = stage.line();
            let written = |act: &dyn Fn()| {
                let before = stage.cluster.counters().bytes_written_back;
                act();
                stage.cluster.counters().bytes_written_back - before
            };
            let poke = |at: usize| stage.end(pokes(&stage, A, line, at, at as u64));
            assert_eq!(
                written(&|| {
                    poke(7);
                    stage.evict_now(A, line)
                }),
                whole.unwrap_or(8)
            );
            assert_eq!(
                written(&|| {
                    poke(9);
                    poke(11);
                    stage.evict_now(A, line)
                }),
                whole.unwrap_or(24)
            );
            let downgrade = || {
                poke(20);
                assert_eq!(all_words(&stage, B, line)[20], 20);
                stage.pass(A_WHILE);
            };
            assert_eq!(written(&downgrade), whole.unwrap_or(8));
            let unchanged = || {
                let ticket = stage.take(A, line, latchwork_coherence::AccessMode::Exclusive);
                stage.drop_on(A, ticket);
                stage.evict_now(A, line);
            };
            assert_eq!(written(&unchanged), 0);
            assert_eq!(
                stage.memory(line),
                expected(&[(7, 7), (9, 9), (11, 11), (20, 20)]),
                "seed {seed}"
            );
            stage.finish();
        }
    });
}

/// All nodes change random ranges of a line, with evictions in between. The test compares with a
/// copy of its own. Each reader finds the last value, and at the end the memory has it too.
#[test]
fn random_changes_by_all_nodes_add_up_to_the_same_bytes_everywhere() {
    in_every_world(|seed| {
        let stage = Stage::new(4, seed);
        let line = stage.line();
        let truth = Rc::new(RefCell::new(vec![0; WORDS]));
        let tasks: Vec<_> = (A..=D)
            .map(|node| stage.start(node, |member| scribble(member, line, Rc::clone(&truth))))
            .collect();
        tasks.into_iter().for_each(|task| stage.end(task));
        for node in A..=D {
            assert_eq!(all_words(&stage, node, line), *truth.borrow(), "seed {seed}: node {node}");
        }
        stage.pass(A_WHILE);
        for node in A..=D {
            stage.evict(node, line);
        }
        stage.until("nobody has it", || stage.word(line) == s(&[]));
        assert_eq!(stage.memory(line), *truth.borrow(), "seed {seed}: the memory");
        stage.finish();
    });
}

async fn scribble(member: Member, line: GlobalAddr, truth: Rc<RefCell<Vec<u64>>>) {
    let below = |n: usize| member.handle.random_below(n as u64) as usize;
    for _ in 0..60 {
        match below(8) {
            0 => _ = member.memory.evict(line),
            1..4 => {
                let read = member.memory.read(line, |words| {
                    (0..WORDS).map(|i| words.word(i)).collect::<Vec<_>>() == *truth.borrow()
                });
                assert!(read.await.expect("no error"), "a reader found other bytes");
            }
            _ => {
                let (start, value) = (below(WORDS), member.handle.random());
                let end = start + 1 + below(WORDS - start);
                let write = member.memory.write(line, |guard| {
                    (start..end).for_each(|at| guard.words().set_word(at, value));
                    truth.borrow_mut()[start..end].fill(value);
                    guard.mark_dirty(start * 8..end * 8);
                });
                write.await.expect("no error");
            }
        }
        member.handle.sleep(std::time::Duration::from_nanos(below(2000) as u64)).await;
    }
}
