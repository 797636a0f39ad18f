//! A lost peer: an operation that needs the peer fails in time with a clear error, and all other
//! operations succeed.

use std::time::Duration;

use latchwork_cache::Ownership;
use latchwork_cluster::{ClusterConfig, Lock};
use latchwork_coherence::{AccessMode, CoherentMemory, LineLocks, LockOutcome, MemoryError, Need};
use latchwork_latch::WordOp;
use latchwork_verbs::{GlobalAddr, MemoryNodeId, VerbError};
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::scenarios::stage::*;

const DEADLINE: Duration = Duration::from_millis(20);

fn stage(seed: u64) -> Stage {
    let mut config: ClusterConfig = small(3, 1, 16, seed);
    config.node.deadline = DEADLINE;
    Stage::on(config)
}

/// Disconnects B. Each scenario has ended B's own operations before this call.
fn lose_b(stage: &Stage) {
    stage.sim().disconnect(id(B)).expect("it was there");
}

/// The error of an access that cannot succeed. The access must fail before its deadline.
fn fails(stage: &Stage, worker: usize, line: GlobalAddr, mode: AccessMode) -> MemoryError {
    let since = stage.now();
    let end = stage.end(stage.takes(worker, line, mode));
    let took = stage.now() - since;
    assert!(took <= DEADLINE + Duration::from_millis(1), "it took {took:?}");
    end.expect_err("an access that needs a node that is gone")
}

fn is_disconnected(error: &MemoryError) -> bool {
    matches!(error, MemoryError::Fabric(VerbError::Disconnected { .. }))
}

/// Checks that all nodes except B can use other lines.
fn others_go_on(stage: &Stage) {
    let line = stage.line();
    assert_eq!(stage.write(A, line, 1), 0);
    assert_eq!(stage.write(C, line, 2), 1);
    assert_eq!(stage.read(A, line), 2);
}

/// The exclusive owner is lost. Readers and writers get an error at once, at each attempt.
#[test]
fn a_line_of_a_lost_owner_fails_and_others_do_not() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = stage.line();
        stage.write(B, line, 1);
        lose_b(&stage);
        for mode in [AccessMode::Shared, AccessMode::Exclusive, AccessMode::Shared] {
            for node in [A, C] {
                let error = fails(&stage, node, line, mode);
                assert!(is_disconnected(&error), "seed {seed}: {error}");
            }
        }
        others_go_on(&stage);
        stage.abandon();
    });
}

/// A sharer is lost. Present and new sharers can still read the line. Only writes fail.
#[test]
fn a_line_with_a_lost_reader_can_still_be_read() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = stage.line();
        assert_eq!((stage.read(A, line), stage.read(B, line)), (0, 0));
        lose_b(&stage);
        let error = fails(&stage, A, line, AccessMode::Exclusive);
        assert!(is_disconnected(&error), "seed {seed}: {error}");
        assert_eq!(stage.read(A, line), 0, "the copy is still good");
        assert_eq!(stage.read(C, line), 0);
        others_go_on(&stage);
        stage.abandon();
    });
}

/// The receiver of a hand-over is lost before the line arrives. The word names the receiver
/// already. The giver has no more part in the line and sends other requesters on. They learn of the
/// loss themselves.
#[test]
fn a_hand_over_to_a_lost_node_ends_for_the_giver() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let forward = stage.hold(Leg::There, line, grant(A, B));
        let access = stage.takes(B, line, AccessMode::Exclusive);
        stage.until("the word names B", || stage.word(line) == x(B));
        access.abort();
        lose_b(&stage);
        drop(forward);
        for node in [A, C] {
            let error = fails(&stage, node, line, AccessMode::Shared);
            assert!(is_disconnected(&error), "seed {seed}: {error}");
        }
        others_go_on(&stage);
        stage.abandon();
    });
}

/// A reader is lost before the line that it requested arrives. The giver keeps its copy, which is
/// written back, and other nodes can read the line.
#[test]
fn a_downgrade_for_a_lost_reader_loses_nothing() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let forward = stage.hold(Leg::There, line, grant(A, B));
        let access = stage.takes(B, line, AccessMode::Shared);
        stage.until("the downgrade lands", || stage.word(line) == s(&[A, B]));
        access.abort();
        lose_b(&stage);
        drop(forward);
        stage.until("A is through", || stage.node(A).lines_in_flight() == 0);
        assert_eq!(stage.owns(A, line), Ownership::Shared);
        assert_eq!((stage.read(A, line), stage.read(C, line)), (1, 1));
        assert!(stage.memory(line).iter().all(|&word| word == 1));
        // C sends a request to A as well. A gives its copy up in vain, and can obtain the line
        // again.
        let error = fails(&stage, C, line, AccessMode::Exclusive);
        assert!(is_disconnected(&error), "seed {seed}: {error}");
        assert_eq!(stage.read(A, line), 1);
        others_go_on(&stage);
        stage.abandon();
    });
}

/// A node waits for a lost node, because its request travelled there with the line. The deadline
/// ends the wait.
#[test]
fn a_request_that_travelled_to_a_lost_node_ends_at_the_deadline() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let ticket = stage.take(A, line, AccessMode::Exclusive);
        let access = stage.takes(B, line, AccessMode::Exclusive);
        stage.until("A remembers B", || {
            stage.count(line, answer(A, B, latchwork_latch::Answer::Queued)) == 1
        });
        let late = stage.takes(C, line, AccessMode::Exclusive);
        stage.until("A remembers C", || {
            stage.count(line, answer(A, C, latchwork_latch::Answer::Queued)) == 1
        });
        let forward = stage.hold(Leg::There, line, grant(A, B));
        stage.drop_on(A, ticket);
        stage.until("A hands over", || forward.held() == 1);
        access.abort();
        lose_b(&stage);
        drop(forward);
        let end = stage.end(late);
        assert!(matches!(end, Err(MemoryError::Timeout { .. })), "seed {seed}: {end:?}");
        assert!(is_disconnected(&fails(&stage, A, line, AccessMode::Shared)));
        others_go_on(&stage);
        stage.abandon();
    });
}

/// A memory node is lost with more lines than the cache has frames. Each access to such a line
/// fails at once, in whatever state the node had the line. The line's frame becomes free for other
/// lines.
#[test]
fn lines_on_a_lost_memory_node_take_no_frames_with_them() {
    in_every_world(|seed| {
        let mut config: ClusterConfig = small(2, 1, 4, seed);
        config.node.deadline = DEADLINE;
        let stage = Stage::on(config);
        let lost: Vec<GlobalAddr> = (0..12).map(|_| stage.line()).collect();
        // Node B begins with the other memory node.
        let mut kept = Vec::new();
        for _ in 0..12 {
            kept.push(stage.run(B, async |member| {
                let line = member.memory.allocate().await.expect("a pool with room");
                member.memory.write(line, |guard| fill(guard, 0)).await.expect("a new line");
                line
            }));
        }
        assert!(lost.iter().all(|line| line.node().0 == 1));
        assert!(kept.iter().all(|line| line.node().0 == 0));
        // A reads one line, whose upgrade fails later. A writes another line, which it must drop
        // later.
        let (_, seen) = stage.sees(A, lost[0]);
        stage.write(A, lost[1], 1);
        stage.sim().lose_memory_node(MemoryNodeId(1)).expect("it was there");
        let upgrade =
            stage.run(A, async move |member| member.memory.upgrade(seen, None).await.map(drop));
        assert!(is_disconnected(&upgrade.expect_err("the word is gone")), "seed {seed}");
        for line in &lost[2..] {
            let error = fails(&stage, A, *line, AccessMode::Shared);
            assert!(is_disconnected(&error), "seed {seed}: {error}");
        }
        for (i, line) in (1..).zip(&kept) {
            assert_eq!((stage.write(A, *line, i), stage.read(B, *line)), (0, i));
        }
        for line in &lost[..2] {
            let error = fails(&stage, A, *line, AccessMode::Exclusive);
            assert!(is_disconnected(&error), "seed {seed}: {error}");
        }
        stage.abandon();
    });
}

/// The nodes know that two nodes are lost, with more lines than the cache has frames. So no node
/// sends requests to the lost nodes. Each access to such a line fails at once, and its frame
/// becomes free.
#[test]
fn lines_of_nodes_that_are_known_to_be_lost_take_no_frames_with_them() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let frames = stage.node(A).cache().capacity();
        let mut lost = Vec::new();
        for node in [B, C] {
            let lines: Vec<_> = (0..frames - 4).map(|_| stage.line()).collect();
            lines.iter().for_each(|line| _ = stage.write(node, *line, 1));
            let held = lines.iter().filter(|line| stage.owns(node, **line) == Ownership::Exclusive);
            lost.extend(held.copied());
        }
        assert!(lost.len() > frames, "{} lines", lost.len());
        let kept: Vec<_> = (0..frames).map(|_| stage.line()).collect();
        for node in [B, C] {
            stage.sim().disconnect(id(node)).expect("it was there");
            stage.node(A).miss(id(node));
        }
        stage.until("A has seen to it", || {
            [B, C].iter().all(|node| !stage.node(A).minds(id(*node)))
        });
        for line in &lost {
            let error = fails(&stage, A, *line, AccessMode::Exclusive);
            let gone = matches!(error, MemoryError::Fabric(VerbError::Unreachable { .. }));
            assert!(gone, "seed {seed}: {error}");
        }
        for (i, line) in (1..).zip(&kept) {
            assert_eq!((stage.write(A, *line, i), stage.read(A, *line)), (0, i));
        }
        stage.abandon();
    });
}

/// The error of a lock attempt that cannot succeed. Like an access, it must fail before its
/// deadline.
fn lock_fails(stage: &Stage, worker: usize, line: GlobalAddr, mode: AccessMode) -> MemoryError {
    let since = stage.now();
    let need = Need { addr: line, mode };
    let end = stage.run(worker, async move |member| member.memory.lock(need).await.map(drop));
    let took = stage.now() - since;
    assert!(took <= DEADLINE + Duration::from_millis(1), "it took {took:?}");
    end.expect_err("a lock that needs a node that is gone")
}

#[track_caller]
fn lock(stage: &Stage, worker: usize, line: GlobalAddr, mode: AccessMode) -> Lock {
    let need = Need { addr: line, mode };
    match stage.run(worker, async move |member| member.memory.lock(need).await) {
        Ok(LockOutcome::Got(lock)) => lock,
        end => panic!("seed {}: {end:?}", stage.seed),
    }
}

/// A node is lost in the middle of a transaction. Lines that it had locked to write are lost, and
/// other nodes get an error that says so. Lines that it had locked to read can still be read, and
/// be locked to read.
#[test]
fn locks_of_a_lost_node_are_errors_and_not_locks() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let (written, read) = (stage.line(), stage.line());
        let held = [(written, AccessMode::Exclusive), (read, AccessMode::Shared)]
            .map(|(line, mode)| lock(&stage, B, line, mode));
        lose_b(&stage);
        for node in [A, C] {
            for mode in [AccessMode::Shared, AccessMode::Exclusive] {
                let error = lock_fails(&stage, node, written, mode);
                assert!(is_disconnected(&error), "seed {seed}: {error}");
                let error = fails(&stage, node, written, mode);
                assert!(is_disconnected(&error), "seed {seed}: {error}");
            }
        }
        let theirs = [A, C].map(|node| (node, lock(&stage, node, read, AccessMode::Shared)));
        for (node, lock) in theirs {
            stage.drop_on(node, lock);
        }
        let error = lock_fails(&stage, A, read, AccessMode::Exclusive);
        assert!(is_disconnected(&error), "seed {seed}: {error}");
        assert_eq!(stage.node(A).locked_lines() + stage.node(C).locked_lines(), 0);
        others_go_on(&stage);
        // When B drops its locks later, other nodes notice no effect.
        held.into_iter().for_each(|lock| stage.drop_on(B, lock));
        stage.abandon();
    });
}

/// A node whose lease has ended locks no line, also none that its cache has, and it upgrades no
/// lock: other nodes may own the line.
#[test]
fn a_node_without_its_lease_locks_nothing() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let (read, written) = (stage.line(), stage.line());
        stage.write(B, written, 1);
        let mut held = lock(&stage, B, read, AccessMode::Shared);
        stage.cluster.lapse(B);
        let fenced =
            |error: MemoryError| matches!(error, MemoryError::Fabric(VerbError::SelfFenced));
        for mode in [AccessMode::Shared, AccessMode::Exclusive] {
            assert!(fenced(lock_fails(&stage, B, written, mode)), "seed {seed}");
            let need = Need { addr: written, mode };
            let end = stage.run(B, async move |member| member.memory.try_lock(need).map(drop));
            assert_eq!(end.unwrap_err(), need, "seed {seed}");
        }
        let upgraded =
            stage.run(B, async move |member| member.memory.upgrade_lock(&mut held).await);
        assert!(fenced(upgraded.unwrap_err()), "seed {seed}");
        stage.abandon();
    });
}

/// A line is lost with its memory node while the line is locked. The frame stays reserved until the
/// lock ends.
#[test]
fn the_frame_of_a_locked_line_that_is_lost_comes_back_with_the_end_of_the_lock() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let lines: Vec<_> = (0..24).map(|_| stage.line()).collect();
        let lost = *lines.iter().find(|line| line.node().0 == 1).expect("two memory nodes");
        let mut held = lock(&stage, A, lost, AccessMode::Shared);
        stage.sim().lose_memory_node(MemoryNodeId(1)).expect("it was there");
        let (end, held) = stage.run(A, async move |member| {
            let end = member.memory.upgrade_lock(&mut held).await;
            (end, held)
        });
        assert!(is_disconnected(&end.expect_err("the word is gone")), "seed {seed}");
        assert_eq!(held.need().mode, AccessMode::Shared, "what it was");
        assert_eq!(stage.owns(A, lost), Ownership::Shared, "the copy is good under the lock");
        assert!(is_disconnected(&lock_fails(&stage, A, lost, AccessMode::Shared)), "seed {seed}");
        let free = stage.node(A).cache().free_frames();
        stage.drop_on(A, held);
        assert_eq!(stage.node(A).cache().free_frames(), free + 1, "seed {seed}");
        assert_eq!((stage.frame(A, lost), stage.node(A).locked_lines()), (None, 0));
        assert!(is_disconnected(&fails(&stage, A, lost, AccessMode::Shared)), "seed {seed}");
        stage.abandon();
    });
}

/// A requester is lost before the answer. The line in the answer is lost with the requester. The
/// holder continues with other lines.
#[test]
fn an_answer_to_a_lost_node_disturbs_no_other() {
    in_every_world(|seed| {
        let stage = stage(seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let question = stage.hold(Leg::There, line, request(B, A));
        let access = stage.takes(B, line, AccessMode::Exclusive);
        stage.until("B asks", || question.held() == 1);
        stage.evict_now(A, line);
        access.abort();
        lose_b(&stage);
        drop(question);
        stage.until("A answers", || {
            stage.count(line, answer(A, B, latchwork_latch::Answer::Dropped)) == 1
        });
        assert_eq!(stage.count(line, op(B, WordOp::Upgrade)), 0);
        assert_eq!(
            stage.run(A, async move |member| {
                member.memory.read(line, |words| words.word(0)).await.map_err(|e| e.to_string())
            }),
            Ok(1),
            "nobody had it"
        );
        others_go_on(&stage);
        stage.abandon();
    });
}
