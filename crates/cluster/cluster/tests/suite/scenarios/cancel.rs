//! Futures that are dropped between any two events. No line stays reserved, no line is lost, and
//! each operation takes effect once or not at all.

use latchwork_cache::Ownership;
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need, Upgrade};
use latchwork_memnode::LineAllocator;
use latchwork_runtime::JoinHandle;
use latchwork_verbs::GlobalAddr;

use crate::scenarios::stage::*;

/// Runs the same access repeatedly, and drops it one event later each time, until the access ends
/// before the drop. `after` gets the result of an access that has ended. Returns the number of
/// drops.
fn cut_at_every_event<P, T: 'static>(
    (seed, worker): (u64, usize),
    before: impl Fn(&Stage) -> P,
    access: impl Fn(&Stage, &P) -> JoinHandle<T>,
    after: impl Fn(&Stage, P, Option<T>),
) -> usize {
    const EVENTS_MAX: usize = 100_000;
    for events in 0..EVENTS_MAX {
        let stage = Stage::with(3, 8, seed);
        let parts = before(&stage);
        let task = access(&stage, &parts);
        stage.steps(events, || task.is_finished());
        // A task of the same worker drops the access, as in a program.
        let end = stage.run(worker, async move |_| {
            task.abort();
            task.take()
        });
        let result = end.expect("ended or aborted").ok();
        let ended = result.is_some();
        after(&stage, parts, result);
        stage.finish();
        if ended {
            return events;
        }
    }
    panic!("seed {seed}: the access does not end");
}

fn in_some_worlds(scenario: impl Fn(u64)) {
    (0..4).for_each(scenario);
}

/// A line that B has changed to 1 and owns.
fn owned_by_b(stage: &Stage) -> GlobalAddr {
    let line = stage.line();
    stage.write(B, line, 1);
    line
}

/// A line of zeros that B and C share.
fn shared_by_b_and_c(stage: &Stage) -> GlobalAddr {
    let line = stage.line();
    assert_eq!((stage.read(B, line), stage.read(C, line)), (0, 0));
    line
}

#[test]
fn a_dropped_read_leaves_nothing_behind() {
    in_some_worlds(|seed| {
        let read = |stage: &Stage, line: &GlobalAddr| stage.reads(A, *line);
        let cuts = cut_at_every_event((seed, A), owned_by_b, read, |stage, line, read| {
            assert!(read.is_none_or(|value| value == 1));
            assert_eq!(stage.write(C, line, 2), 1, "others get the line");
            assert_eq!(stage.read(A, line), 2);
        });
        assert!(cuts > 10, "{cuts} cuts");
    });
}

#[test]
fn a_dropped_write_is_done_or_not() {
    in_some_worlds(|seed| {
        let write = |stage: &Stage, line: &GlobalAddr| stage.writes(A, *line, 5);
        let cuts = cut_at_every_event((seed, A), shared_by_b_and_c, write, |stage, line, old| {
            let written = old.is_some();
            assert_eq!(stage.write(B, line, 6), if written { 5 } else { 0 });
            assert_eq!(stage.read(A, line), 6);
        });
        assert!(cuts > 10, "{cuts} cuts");
    });
}

#[test]
fn a_dropped_upgrade_is_done_or_not() {
    in_some_worlds(|seed| {
        let seen = |stage: &Stage| {
            let line = shared_by_b_and_c(stage);
            (line, stage.sees(A, line).1)
        };
        let upgrade = |stage: &Stage, &(line, seen): &(GlobalAddr, _)| {
            stage.start(A, async move |member| {
                let (end, _ticket) = member.memory.upgrade(seen, None).await.expect("no error");
                if let Ok(mut guard) = member.memory.try_write(line) {
                    fill(&mut guard, 5);
                }
                end
            })
        };
        let cuts = cut_at_every_event((seed, A), seen, upgrade, |stage, (line, _), end| {
            assert!(end.is_none_or(|end| end == Upgrade::Kept));
            assert_eq!(stage.write(C, line, 6), if end.is_some() { 5 } else { 0 });
        });
        assert!(cuts > 10, "{cuts} cuts");
    });
}

/// The ticket of a dropped task is dropped too, so no node waits until the ticket expires.
#[test]
fn a_dropped_holder_releases_at_once() {
    in_some_worlds(|seed| {
        let hold = |stage: &Stage, line: &GlobalAddr| {
            let need = Need { addr: *line, mode: AccessMode::Exclusive };
            stage.start(A, async move |member| {
                let _ticket = member.memory.ensure(need).await.expect("no error");
                member.handle.sleep(A_WHILE / 2).await;
            })
        };
        let cuts = cut_at_every_event((seed, A), owned_by_b, hold, |stage, line, _| {
            let since = stage.now();
            assert_eq!(stage.write(C, line, 2), 1);
            let (waited, lapse) = (stage.now() - since, stage.cluster.config().node.lapse);
            assert!(waited < lapse, "seed {seed}: {waited:?}");
        });
        assert!(cuts > 10, "{cuts} cuts");
    });
}

/// An access waits for a frame, because all frames are reserved. Then the access is dropped.
#[test]
fn a_dropped_wait_for_a_frame_is_forgotten() {
    in_some_worlds(|seed| {
        let stage = Stage::with(2, 4, seed);
        let frames = stage.node(A).cache().capacity();
        let lines: Vec<_> = (0..frames + 2).map(|_| stage.line()).collect();
        let mut tickets: Vec<_> =
            lines[..frames].iter().map(|line| stage.take(A, *line, AccessMode::Shared)).collect();
        let (dropped, stays) = (stage.reads(A, lines[frames]), stage.reads(A, lines[frames + 1]));
        stage.pass(A_WHILE);
        assert!(!dropped.is_finished() && !stays.is_finished(), "no frame is free");
        assert_eq!(stage.node(A).cache().free_frames(), 0);
        dropped.abort();
        stage.drop_on(A, tickets.pop());
        assert_eq!(stage.end(stays), 0, "one frame is enough, since the other wait is gone");
        assert_eq!(stage.owns(A, lines[frames]), Ownership::Invalid);
        stage.drop_on(A, tickets);
        for line in lines {
            assert_eq!(stage.write(B, line, 1), 0);
        }
        stage.finish();
    });
}

fn lines_at_hand(allocator: &LineAllocator) -> usize {
    allocator.available() + allocator.resting()
}

/// C has no free line yet, so the allocation first claims a chunk.
#[test]
fn a_dropped_allocation_loses_no_line() {
    in_some_worlds(|seed| {
        let allocate = |stage: &Stage, (): &()| {
            stage.start(C, async |member| member.memory.allocate().await.expect("a pool with room"))
        };
        let cuts = cut_at_every_event(
            (seed, C),
            |_| (),
            allocate,
            |stage, (), line| {
                stage.pass(A_WHILE);
                let second = stage.end(allocate(stage, &()));
                assert_ne!(line, Some(second), "no line is handed out twice");
                let allocator = stage.node(C).allocator();
                let chunk = stage.geometry().lines_per_chunk() as usize;
                assert_eq!(allocator.chunks_taken(), Some(1), "seed {seed}: no chunk is lost");
                let live = 1 + usize::from(line.is_some());
                assert_eq!(lines_at_hand(allocator) + live, chunk, "seed {seed}: no line is lost");
            },
        );
        assert!(cuts > 20, "{cuts} cuts");
    });
}

/// A has free lines, so the allocation waits only for the line itself. B read the line before the
/// line was freed.
#[test]
fn a_dropped_allocation_of_a_line_at_hand_loses_no_line() {
    in_some_worlds(|seed| {
        let freed = |stage: &Stage| {
            let line = stage.line();
            stage.run(A, async move |member| {
                member.memory.free(line).await.expect("a live line");
                // Epochs advance only while a worker is active.
                while member.memory.node().allocator().resting() > 0 {
                    drop(member.memory.enter().await.expect("no error"));
                    member.handle.sleep(A_WHILE).await;
                }
            });
            assert_eq!(stage.read(B, line), 0);
            (line, lines_at_hand(stage.node(A).allocator()))
        };
        let allocate = |stage: &Stage, _: &(GlobalAddr, usize)| {
            stage.start(A, async |member| member.memory.allocate().await.expect("a pool with room"))
        };
        let cuts = cut_at_every_event((seed, A), freed, allocate, |stage, (freed, lines), line| {
            stage.pass(A_WHILE);
            assert!(line.is_none_or(|line| line == freed));
            let taken = usize::from(line.is_some());
            assert_eq!(lines_at_hand(stage.node(A).allocator()) + taken, lines, "seed {seed}");
        });
        assert!(cuts > 5, "{cuts} cuts");
    });
}

#[test]
fn a_dropped_free_is_done_once_or_not() {
    in_some_worlds(|seed| {
        let before = |stage: &Stage| {
            let line = owned_by_b(stage);
            (line, lines_at_hand(stage.node(A).allocator()))
        };
        let free = |stage: &Stage, &(line, _): &(GlobalAddr, usize)| {
            stage.start(A, async move |member| member.memory.free(line).await)
        };
        let cuts = cut_at_every_event((seed, A), before, free, |stage, (line, lines), end| {
            let first = end.is_some_and(|end| end.is_ok());
            let second = stage.end(free(stage, &(line, lines)));
            match second {
                Ok(()) => assert!(!first, "seed {seed}: freed twice"),
                Err(MemoryError::NotAllocated { addr }) => assert!(first && addr == line),
                Err(other) => panic!("seed {seed}: {other}"),
            }
            assert_eq!(lines_at_hand(stage.node(A).allocator()), lines + 1, "seed {seed}");
        });
        assert!(cuts > 10, "{cuts} cuts");
    });
}

#[test]
fn a_dropped_global_atomic_is_done_once_or_not() {
    in_some_worlds(|seed| {
        let add = |stage: &Stage, &line: &GlobalAddr| {
            stage.start(A, async move |member| {
                let old = member.memory.fetch_add(line, 8, 3).await.expect("no error");
                let memory = &member.memory;
                memory.compare_swap(line, 16, old, 7).await.expect("no error")
            })
        };
        let mut results = Vec::new();
        let seen = std::cell::RefCell::new(&mut results);
        let cuts = cut_at_every_event(
            (seed, A),
            |stage| stage.line(),
            add,
            |stage, line, end| {
                stage.pass(A_WHILE);
                let words = stage.memory(line);
                assert!([0, 3].contains(&words[1]) && [0, 7].contains(&words[2]), "seed {seed}");
                assert!(end.is_none() || (words[1], words[2]) == (3, 7));
                seen.borrow_mut().push((words[1], words[2]));
            },
        );
        assert!(cuts > 5, "{cuts} cuts");
        results.dedup();
        assert!(results.ends_with(&[(3, 0), (3, 7)]), "seed {seed}: one, and both: {results:?}");
    });
}

/// The begin of an operation may have to publish an epoch. A drop at that point leaves the node
/// able to begin operations.
#[test]
fn a_dropped_beginning_of_an_operation_is_forgotten() {
    in_some_worlds(|seed| {
        let enter = |stage: &Stage, (): &()| {
            stage.start(A, async |member| member.memory.enter().await.is_ok())
        };
        let idle = |stage: &Stage| {
            let config = stage.cluster.config().pool;
            stage.pass(3 * config.idle_after);
            assert!(stage.member(A).memory.try_enter().is_none(), "A has announced that it rests");
        };
        let cuts = cut_at_every_event((seed, A), idle, enter, |stage, (), entered| {
            assert!(entered.unwrap_or(true));
            assert!(stage.end(enter(stage, &())), "the next one begins");
            stage.pass(3 * stage.cluster.config().pool.idle_after);
        });
        assert!(cuts > 2, "{cuts} cuts");
    });
}
