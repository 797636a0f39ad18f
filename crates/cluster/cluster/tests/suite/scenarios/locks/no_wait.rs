//! Accesses that may wait for a line, but not for locks.

use latchwork_blink::{Tree, TreeConfig};
use latchwork_coherence::CoherentMemory;

use super::*;

/// A cached line is locked at once. For any other line the attempt sends no request.
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
        // A reads the line again, because without forwarding A has lost its copy.
        stage.read(A, line);
        stage.pass(A_WHILE);
        stage.forget();
        let write = Need { addr: line, mode: AccessMode::Exclusive };
        assert_eq!(tries(&stage, A, line, AccessMode::Exclusive).map(drop_outcome), Err(write));
        let Ok(LockOutcome::Got(held)) = tries(&stage, A, line, AccessMode::Shared) else {
            panic!("seed {}: it is here", stage.seed);
        };
        assert_eq!((held.need().mode, stage.node(A).locked_lines()), (AccessMode::Shared, 1));
        // No request is sent, because a lock at this same node conflicts.
        let refused = tries(&stage, A, line, AccessMode::Exclusive).map(drop_outcome);
        assert_eq!(refused, Ok(LockOutcome::Locked));
        assert_eq!(stage.count(line, |_, _| true), 0, "seed {}: without a message", stage.seed);
        is_refused(&stage, B, line, AccessMode::Exclusive);
        stage.drop_on(A, held);
        stage.write(A, line, 2);
        let Ok(LockOutcome::Got(held)) = tries(&stage, A, line, AccessMode::Exclusive) else {
            panic!("seed {}: it is here", stage.seed);
        };
        is_refused(&stage, B, line, AccessMode::Shared);
        stage.drop_on(A, held);
        stage.finish();
    });
}

/// Such an access waits for the line, but not for the end of a lock.
#[test]
fn an_access_that_does_not_wait_for_locks_fails_at_once() {
    in_every_way(2, |stage| {
        for (lock_mode, mode, passes) in [
            (AccessMode::Shared, AccessMode::Shared, true),
            (AccessMode::Shared, AccessMode::Exclusive, false),
            (AccessMode::Exclusive, AccessMode::Shared, false),
            (AccessMode::Exclusive, AccessMode::Exclusive, false),
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
            // The line is in use, but not locked. So the access waits, and locks nothing.
            stage.drop_on(B, ticket);
            assert_eq!(stage.node(B).locked_lines(), 0);
            stage.finish();
        }
    });
}

/// A waiting access makes its node back off, for a long time by now. An access that does not wait
/// still gets its answer at once, each time. It does not shorten the back-off of the waiting
/// access.
#[test]
fn an_access_without_a_wait_fails_at_once_also_while_its_node_pauses() {
    in_every_way(2, |stage| {
        for write in [false, true] {
            let mut stage = stage();
            let second = stage.add_worker(B);
            let line = stage.line();
            let held = lock(&stage, A, line, AccessMode::Exclusive);
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

/// The node of a refused reader keeps reading the word while its bit is a registered wait. So the
/// node does not back off.
#[test]
fn a_refused_reader_that_tries_again_fails_at_once() {
    in_every_way(2, |stage| {
        let stage = stage();
        let line = stage.line();
        let held = lock(&stage, A, line, AccessMode::Exclusive);
        is_refused(&stage, B, line, AccessMode::Shared);
        for step in 0..40 {
            stage.pass(Duration::from_micros(97 * step));
            is_refused(&stage, B, line, AccessMode::Shared);
            is_refused(&stage, B, line, AccessMode::Exclusive);
        }
        stage.drop_on(A, held);
        stage.pass(Duration::from_millis(1));
        let held = lock(&stage, B, line, AccessMode::Exclusive);
        stage.drop_on(B, held);
        stage.finish();
    });
}

/// The frames of refused readers stay reserved while the line is locked, but never all frames of
/// the node. The node can use other lines, also in transactions.
#[test]
fn lines_that_were_refused_leave_frames_to_others() {
    leave_frames(Protocol::Selcc, AccessMode::Shared);
}

/// With homes, a refused writer keeps its place, too, and so its frame. The node can use other
/// lines.
#[test]
fn lines_that_homes_have_queued_leave_frames_to_others() {
    for protocol in [Protocol::Gam, Protocol::ScaleStore] {
        BOTH.into_iter().for_each(|mode| leave_frames(protocol, mode));
    }
}

fn leave_frames(protocol: Protocol, mode: AccessMode) {
    in_every_world(|seed| {
        let mut config = small(3, 1, 8, seed);
        config.protocol = protocol;
        let stage = Stage::on(config);
        let lines: Vec<_> = (0..8).map(|_| stage.line()).collect();
        let others: Vec<_> = (0..12).map(|_| stage.line()).collect();
        let held: Vec<_> = lines
            .iter()
            .zip([A, C].into_iter().cycle())
            .map(|(line, worker)| (worker, lock(&stage, worker, *line, AccessMode::Exclusive)))
            .collect();
        for _ in 0..3 {
            lines.iter().for_each(|line| is_refused(&stage, B, *line, mode));
        }
        let frames = stage.node(B).cache().capacity();
        let kept = lines.iter().filter(|line| stage.frame(B, **line).is_some()).count();
        assert!((1..=frames / 4).contains(&kept), "seed {seed}: {kept} of {frames}");
        for line in &others {
            // With homes, a writer that might be refused has no frame either, until a lock ends.
            let locks = !protocol.has_homes();
            let mine = locks.then(|| lock(&stage, B, *line, AccessMode::Exclusive));
            assert_eq!(stage.write(B, *line, 1), 0, "seed {seed}");
            stage.drop_on(B, mine);
        }
        for (worker, held) in held {
            stage.drop_on(worker, held);
        }
        stage.pass(Duration::from_millis(2));
        for line in &lines {
            let mine = lock(&stage, B, *line, AccessMode::Shared);
            stage.drop_on(B, mine);
        }
        // With homes, no word names the owners.
        if protocol.has_homes() { stage.abandon() } else { stage.finish() }
    });
}

/// The lock attempt is dropped before its answer comes. The node does not repeat the request.
#[test]
fn a_dropped_lock_attempt_ends_with_the_answer() {
    in_every_way(2, |stage| {
        for mode in BOTH {
            let stage = stage();
            let line = stage.line();
            let held = lock(&stage, A, line, AccessMode::Exclusive);
            let wish = locks(&stage, B, line, mode);
            stage.until("B asks", || stage.count(line, request(B, A)) == 1);
            wish.abort();
            stage.pass(Duration::from_millis(2));
            // The bit of a refused reader stays, so its node may send another request after reading
            // the word.
            let asked = stage.count(line, request(B, A));
            assert!(asked == 1 || mode == AccessMode::Shared, "seed {}: {asked}", stage.seed);
            stage.drop_on(A, held);
            stage.pass(Duration::from_millis(2));
            assert_eq!(stage.node(B).lines_in_flight(), 0, "seed {}", stage.seed);
            stage.finish();
        }
    });
}

/// A leaf has left its tree, and its line is a row's by now, which a transaction has locked. The
/// question whether the leaf is unchanged must not wait for that transaction, because the asking
/// transaction may hold locks, too.
#[test]
fn a_leaf_whose_line_is_locked_as_something_else_has_changed() {
    let config = TreeConfig {
        stamped: true,
        max_entries_leaf: Some(3),
        max_entries_inner: Some(3),
        ..TreeConfig::default()
    };
    in_every_way(2, |stage| {
        let stage = stage();
        let (root, leaf) = stage.run(A, async move |member| {
            let tree = Tree::create(member.memory.clone(), config).await.expect("room");
            for k in 0..12_u64 {
                tree.insert(&k.to_be_bytes(), b"value").await.expect("room");
            }
            let seen = tree.get_stamped(&4_u64.to_be_bytes(), |_| ()).await;
            let (_, leaf) = seen.expect("a key");
            for k in 3..6_u64 {
                assert!(tree.remove(&k.to_be_bytes()).await.expect("a key"));
            }
            // The line is allocated again when its time has come. That comes while a node works.
            for _ in 0..100 {
                drop(member.memory.enter().await.expect("no error"));
                if member.memory.allocate().await.expect("room") == leaf.addr {
                    return (tree.root(), leaf);
                }
                member.handle.sleep(Duration::from_millis(1)).await;
            }
            panic!("the line of an empty leaf is not used again");
        });
        let held = lock(&stage, A, leaf.addr, AccessMode::Exclusive);
        let since = stage.now();
        let answers = stage.run(B, async move |member| {
            let tree = Tree::open(member.memory.clone(), root, config).await.expect("a tree");
            let still = tree.still(&leaf).await.expect("no error");
            (still, tree.raise_read(&leaf, 1).await.expect("no error"))
        });
        assert_eq!(answers, (false, None));
        let took = stage.now() - since;
        assert!(took < Duration::from_millis(2), "seed {}: {took:?}", stage.seed);
        stage.drop_on(A, held);
    });
}
