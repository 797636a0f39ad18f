//! Nodes that learn of a lost node at the worst moments: while a request to that node is in flight
//! or waits to be sent, or while a lease ends.

use std::time::Duration;

use latchwork_cache::Ownership;
use latchwork_cluster::{ClusterConfig, Protocol, SimulatedNode};
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need};
use latchwork_latch::WordOp;
use latchwork_verbs::{BATCH_MAX, GlobalAddr, MemoryNodeId, Target, VerbError};
use latchwork_verbs_sim::{Leg, SimConfig};

use crate::common::small;
use crate::scenarios::stage::*;

const DEADLINE: Duration = Duration::from_millis(20);

fn config(seed: u64) -> ClusterConfig {
    let mut config: ClusterConfig = small(3, 1, 16, seed);
    config.node.deadline = DEADLINE;
    config
}

/// Makes every living node fence and forget a dead node.
fn tell_all(stage: &Stage, dead: usize) {
    for node in [A, B, C].into_iter().filter(|node| *node != dead && stage.cluster.lives(*node)) {
        stage.cluster.fence(SimulatedNode::Compute(node), dead);
        stage.cluster.forget(node, dead);
    }
    for memory in 0..stage.cluster.config().memory_nodes {
        stage.cluster.fence(SimulatedNode::Memory(MemoryNodeId(memory as u16)), dead);
    }
    let seen = |node: usize| !stage.cluster.lives(node) || !stage.node(node).minds(id(dead));
    stage.until("all have seen to it", || [A, B, C].into_iter().all(seen));
}

/// The error of an access that cannot succeed. The access must fail before its deadline.
fn fails(stage: &Stage, worker: usize, line: GlobalAddr, mode: AccessMode) -> VerbError {
    let since = stage.now();
    let end = stage.end(stage.takes(worker, line, mode));
    assert!(stage.now() - since < DEADLINE / 2, "seed {}: it waits", stage.seed);
    match end {
        Err(MemoryError::Fabric(error)) => error,
        end => panic!("seed {}: {end:?}", stage.seed),
    }
}

/// Checks that node A can use all its frames except `lost`.
fn a_cache_without(stage: &Stage, lost: usize) {
    assert_eq!(stage.node(A).lost_frames(), lost, "seed {}", stage.seed);
    let kept: Vec<_> = (0..stage.node(A).cache().capacity()).map(|_| stage.line()).collect();
    for (i, line) in (1..).zip(&kept) {
        assert_eq!((stage.write(A, *line, i), stage.read(A, *line)), (0, i));
    }
    assert_eq!(stage.node(A).lost_frames(), lost, "seed {}", stage.seed);
}

/// A reads lines that a dead node shares, more lines than its cache has frames, and cannot write
/// them. Its copies stay valid, and are evicted when room is needed.
#[test]
fn copies_that_the_dead_share_take_no_frames_with_them() {
    in_every_world(|seed| {
        let stage = Stage::on(config(seed));
        let lines: Vec<_> = (0..24).map(|_| stage.line()).collect();
        // B shares the first lines and C the other lines. C lives. For some lines A has to send
        // requests to both.
        let (first, last) = lines.split_at(12);
        for line in first {
            assert_eq!(stage.read(B, *line), 0);
        }
        for line in last.iter().chain(&first[..4]) {
            assert_eq!(stage.read(C, *line), 0);
        }
        stage.cluster.silence(B);
        tell_all(&stage, B);
        let named = |line: GlobalAddr| stage.word(line).shared().contains(id(B));
        let dead: Vec<_> = lines.iter().copied().filter(|line| named(*line)).collect();
        assert!(dead.len() >= 8, "seed {seed}: {}", dead.len());
        // Repeated attempts lose no further frames.
        for line in dead.iter().cycle().take(40) {
            assert_eq!(stage.read(A, *line), 0);
            assert!(matches!(
                fails(&stage, A, *line, AccessMode::Exclusive),
                VerbError::Unreachable { .. }
            ));
            assert_eq!((stage.read(A, *line), stage.owns(A, *line)), (0, Ownership::Shared));
        }
        // The same holds for lines that A has not cached. C got a request too, and has its copies
        // again.
        for line in &dead {
            let error = fails(&stage, A, *line, AccessMode::Exclusive);
            assert!(matches!(error, VerbError::Unreachable { .. }), "seed {seed}: {error}");
        }
        for line in lines.iter().filter(|line| stage.owns(C, **line) == Ownership::Shared) {
            assert_eq!(stage.read(C, *line), 0, "seed {seed}");
        }
        a_cache_without(&stage, 0);
        stage.abandon();
    });
}

/// A and C share lines with a dead node, and both try to write them at once. Each has a request to
/// the other in flight when it learns that the dead node cannot answer. Each gives its upgrade up,
/// and must still answer the other's request.
///
/// Bug: both queued the other's request, answered neither, and the line never came to rest at
/// either node. Mechanism: a node that gave its upgrade up left the order of upgrading nodes,
/// though its request was still open. Fix: the node stays in that order until it has its answers.
#[test]
fn two_nodes_that_cannot_reach_the_dead_one_answer_each_other() {
    in_every_world(|seed| {
        for takeover in [false, true] {
            let mut config = config(seed);
            config.selcc.takeover = takeover;
            let stage = Stage::on(config);
            let lines: Vec<_> = (0..8).map(|_| stage.line()).collect();
            for line in &lines {
                [A, B, C].into_iter().for_each(|node| assert_eq!(stage.read(node, *line), 0));
            }
            stage.cluster.silence(B);
            tell_all(&stage, B);
            for line in lines.iter().cycle().take(24) {
                let accesses = [A, C].map(|node| stage.takes(node, *line, AccessMode::Exclusive));
                for access in accesses {
                    let end = stage.end(access);
                    let unsent =
                        matches!(end, Err(MemoryError::Fabric(VerbError::Unreachable { .. })));
                    assert!(unsent, "seed {seed}: {end:?}");
                }
                for node in [A, C] {
                    stage.until("the line is at rest", || stage.node(node).lines_in_flight() == 0);
                    assert_eq!(stage.read(node, *line), 0, "seed {seed}");
                }
            }
            a_cache_without(&stage, 0);
            stage.abandon();
        }
    });
}

/// Some requests of a node to another node are in flight, and one more waits at the sender for room
/// in the send queue. Then the sender learns that the other node is dead. The requests in flight
/// may have arrived, so each costs a frame. The waiting request was never sent, so it costs no
/// frame, although its line was given up before the sender knew that.
#[test]
fn a_request_that_was_not_sent_yet_when_its_node_was_found_dead_costs_no_frame() {
    in_every_world(|seed| {
        let network =
            if seed.is_multiple_of(2) { SimConfig::default() } else { SimConfig::rough() };
        let network = SimConfig { requests_max: BATCH_MAX, tells_unsent: true, ..network };
        let stage = Stage::over(config(seed), network);
        let lines: Vec<_> = (0..BATCH_MAX + 1).map(|_| stage.line()).collect();
        lines.iter().for_each(|line| _ = stage.write(B, *line, 1));
        let on_the_way: Vec<_> =
            lines.iter().map(|line| stage.hold(Leg::There, *line, request(A, B))).collect();
        let sent = || on_the_way.iter().map(|gate| gate.held()).sum::<usize>();
        let accesses: Vec<_> =
            lines.iter().map(|line| stage.takes(A, *line, AccessMode::Exclusive)).collect();
        stage.until("there is no room for more", || sent() == BATCH_MAX);
        stage.until("A asks for all of them", || {
            stage.node(A).counters().invalidations_sent > BATCH_MAX as u64
        });
        stage.cluster.silence(B);
        tell_all(&stage, B);
        for access in accesses {
            let end = stage.end(access);
            let lost = matches!(end, Err(MemoryError::Fabric(VerbError::Disconnected { .. })));
            assert!(lost, "seed {seed}: {end:?}");
        }
        assert_eq!(stage.node(A).lost_frames(), BATCH_MAX + 1, "nothing is known of any of them");
        drop(on_the_way);
        stage.until("the last one ends", || stage.node(A).lost_frames() == BATCH_MAX);
        a_cache_without(&stage, BATCH_MAX);
        stage.abandon();
    });
}

/// A node learns that another node is dead. Its fabric removes the peer before its workers know. A
/// request that is posted in between fails as if it had not been posted.
#[test]
fn a_request_posted_between_the_fabric_and_the_node_learning_of_a_death_costs_no_frame() {
    in_every_world(|seed| {
        let network = SimConfig { tells_unsent: true, ..SimConfig::default() };
        let stage = Stage::over(config(seed), network);
        let lines: Vec<_> = (0..8).map(|_| stage.line()).collect();
        lines.iter().for_each(|line| _ = stage.write(B, *line, 1));
        stage.cluster.silence(B);
        stage.sim().remove_peer(id(A), id(B)).expect("nodes of this fabric");
        for line in &lines {
            for mode in [AccessMode::Exclusive, AccessMode::Shared] {
                let error = fails(&stage, A, *line, mode);
                assert!(matches!(error, VerbError::Unreachable { .. }), "seed {seed}: {error}");
            }
        }
        tell_all(&stage, B);
        for line in &lines {
            let error = fails(&stage, A, *line, AccessMode::Exclusive);
            assert!(matches!(error, VerbError::Unreachable { .. }), "seed {seed}: {error}");
        }
        a_cache_without(&stage, 0);
        stage.abandon();
    });
}

/// B checks its lease and rings the doorbell. Then the lease ends, and all nodes fence B before its
/// requests take effect. B learns at once that it is self-fenced. Its submitted requests take no
/// effect, and any node can get the line.
#[test]
fn a_batch_rung_as_the_lease_ended_takes_no_effect_where_its_node_is_fenced() {
    in_every_world(|seed| {
        let stage = Stage::on(config(seed));
        let line = stage.line();
        let rung = stage.hold(Leg::There, line, op(B, WordOp::AcquireExclusive));
        let access = stage.takes(B, line, AccessMode::Exclusive);
        stage.until("B has rung", || rung.held() == 1);
        stage.cluster.lapse(B);
        // B rings no doorbell any more, and gets no completion. So B checks its lease only when
        // another event makes it run.
        let other = stage.line();
        let end = stage.end(stage.takes(B, other, AccessMode::Shared));
        let barred = |end| matches!(end, Err(MemoryError::Fabric(VerbError::SelfFenced)));
        assert!(barred(end), "seed {seed}");
        assert!(barred(stage.end(access)), "seed {seed}");
        tell_all(&stage, B);
        drop(rung);
        stage.pass(A_WHILE);
        assert_eq!((stage.write(A, line, 1), stage.write(C, line, 2)), (0, 1), "seed {seed}");
        let buried = stage.cluster.reclaim(A, B).expect("room for a port");
        assert!(stage.end(buried), "seed {seed}: it is kept out, so its slot stands still");
        stage.abandon();
    });
}

/// Like the test above, but the nodes fence B too late: B's last operation takes effect after B
/// learned that it is self-fenced. The word names B, and a node that wants the line gets an error
/// that says so. A line that B wrote back arrives with its original bytes, although its frame has
/// other data by then.
#[test]
fn what_was_rung_as_the_lease_ended_is_the_dead_nodes_where_it_took_effect() {
    in_every_world(|seed| {
        let stage = Stage::on(config(seed));
        let (line, written) = (stage.line(), stage.line());
        stage.write(B, written, 7);
        let rung = stage.hold(Leg::There, line, op(B, WordOp::AcquireExclusive));
        let back = stage.hold(Leg::There, written, op(B, WordOp::ReleaseExclusive));
        let access = stage.takes(B, line, AccessMode::Exclusive);
        stage.until("B has rung", || rung.held() == 1);
        assert!(stage.evict(B, written));
        stage.until("B has rung again", || back.held() == 1);
        stage.cluster.lapse(B);
        let other = stage.line();
        stage.end(stage.takes(B, other, AccessMode::Shared)).expect_err("it is barred");
        stage.end(access).expect_err("it is barred");
        // All frames of B are free, so other data can overwrite them.
        for frame in 0..stage.node(B).cache().capacity() {
            let frame = latchwork_cache::FrameId(frame as u32);
            stage
                .node(B)
                .cache()
                .line(frame)
                .copy_from(latchwork_verbs::Region::zeroed(512).expect("a page").words());
        }
        drop((rung, back));
        stage.until("it takes effect", || stage.word(line) == x(B));
        stage.until("that, too", || stage.word(written) == latchwork_latch::LatchWord::FREE);
        tell_all(&stage, B);
        for node in [A, C] {
            let error = fails(&stage, node, line, AccessMode::Shared);
            assert!(matches!(error, VerbError::Unreachable { .. }), "seed {seed}: {error}");
        }
        assert_eq!((stage.write(A, written, 8), stage.read(C, written)), (7, 8), "seed {seed}");
        stage.abandon();
    });
}

/// Under a directory protocol, the death of a node costs only the lines that it alone had newest.
/// Their accesses fail at once. The survivors read and write all other lines, also those that the
/// dead node shared, or whose changes it had given copies of.
#[test]
fn a_home_gives_the_lines_of_a_dead_node_to_others() {
    for protocol in [Protocol::Gam, Protocol::ScaleStore] {
        in_every_world(|seed| {
            let mut config = config(seed);
            config.protocol = protocol;
            let stage = Stage::on(config);
            let [kept, shared, given, lost] = std::array::from_fn(|_| stage.line());
            // A has the changes, and C a copy of them.
            assert_eq!((stage.write(A, kept, 1), stage.read(C, kept)), (0, 1));
            // Only the memory has changes.
            assert_eq!((stage.read(C, shared), stage.read(A, shared)), (0, 0));
            // C has the changes, and A a copy of them.
            assert_eq!((stage.write(C, given, 3), stage.read(A, given)), (0, 3));
            assert_eq!(stage.write(C, lost, 4), 0);
            stage.cluster.silence(C);
            tell_all(&stage, C);
            for (line, value) in [(kept, 1), (shared, 0), (given, 3)] {
                assert_eq!(stage.read(B, line), value, "seed {seed}");
                assert_eq!(stage.write(B, line, value + 10), value, "seed {seed}");
                assert_eq!(stage.write(A, line, value + 20), value + 10, "seed {seed}");
            }
            for node in [A, B, A] {
                for mode in [AccessMode::Shared, AccessMode::Exclusive] {
                    let error = fails(&stage, node, lost, mode);
                    let named = matches!(error, VerbError::Disconnected { target }
                        if target == Target::Compute(id(C), stage.node(node).arena().0));
                    assert!(named, "seed {seed}: {error}");
                }
            }
            a_cache_without(&stage, 0);
            stage.abandon();
        });
    }
}

/// Five writers wait for a line, one behind the other, and the third dies before it has the line.
#[test]
fn a_dead_node_in_a_chain_is_skipped() {
    in_every_world(|seed| {
        let mut config: ClusterConfig = small(6, 1, 16, seed);
        (config.node.deadline, config.protocol) = (DEADLINE, Protocol::ScaleStore);
        let stage = Stage::on(config);
        let line = stage.line();
        assert_eq!(stage.write(A, line, 1), 0);
        let held = stage.end(stage.takes(A, line, AccessMode::Exclusive)).expect("at node A");
        let need = Need { addr: line, mode: AccessMode::Exclusive };
        let take = |node| {
            stage.start(
                node,
                move |member| async move { member.memory.ensure(need).await.map(drop) },
            )
        };
        let waiting: Vec<_> = (1..6).map(take).collect();
        stage.pass(A_WHILE);
        stage.cluster.silence(3);
        for node in (0..6).filter(|node| *node != 3) {
            stage.cluster.fence(SimulatedNode::Compute(node), 3);
            stage.cluster.forget(node, 3);
        }
        for memory in 0..stage.cluster.config().memory_nodes {
            stage.cluster.fence(SimulatedNode::Memory(MemoryNodeId(memory as u16)), 3);
        }
        drop(held);
        for (node, waits) in (1..6).zip(waiting).filter(|(node, _)| *node != 3) {
            let got = stage.end(waits);
            assert!(got.is_ok(), "seed {seed}: node {node}: {got:?}");
        }
        assert_eq!(stage.write(B, line, 2), 1, "seed {seed}");
        stage.abandon();
    });
}

/// A home that waits for a dead node declines the evictions of the living until it knows of the
/// death.
///
/// Bug: a node whose frames ran short evicted the same line again as fast as the home could
/// decline. Mechanism: a declined eviction left no trace. Fix: a back-off, as after a refused
/// request.
#[test]
fn a_declined_eviction_is_tried_again_after_a_back_off() {
    in_every_world(|seed| {
        let mut config = config(seed);
        config.protocol = Protocol::ScaleStore;
        config.set("chaining", "fifo").expect("a way");
        let stage = Stage::on(config);
        let line = stage.line();
        // B is the source of the next copy, and dies.
        assert_eq!((stage.write(B, line, 1), stage.read(A, line)), (0, 1));
        stage.cluster.silence(B);
        let need = Need { addr: line, mode: AccessMode::Shared };
        let waits = stage.start(C, async move |member| member.memory.ensure(need).await.map(drop));
        stage.pass(A_WHILE);
        let before = stage.node(A).counters().evictions;
        for _ in 0..1000 {
            stage.evict(A, line);
            stage.pass(Duration::from_micros(10));
        }
        let tries = stage.node(A).counters().evictions - before;
        assert!((10..200).contains(&tries), "seed {seed}: {tries}");
        assert!(!waits.is_finished(), "seed {seed}");
        tell_all(&stage, B);
        stage.end(waits).expect("A has a copy");
        stage.until("A can evict the line", || stage.evict(A, line));
        stage.abandon();
    });
}

/// A home is lost with its memory node. The first request to it may have arrived, so it costs a
/// frame. A later one was certainly not sent, and costs none.
#[test]
fn requests_that_do_not_reach_a_lost_home_cost_no_frames() {
    for protocol in [Protocol::Gam, Protocol::ScaleStore] {
        in_every_world(|seed| {
            let mut config = config(seed);
            (config.protocol, config.memory_nodes) = (protocol, 2);
            let network = SimConfig { tells_unsent: true, ..SimConfig::default() };
            let stage = Stage::over(config, network);
            let lines: Vec<_> = (0..24).map(|_| stage.line()).collect();
            let lost: Vec<_> = lines.into_iter().filter(|line| line.node().0 == 1).collect();
            assert!(lost.len() > 4, "seed {seed}: {}", lost.len());
            stage.sim().lose_memory_node(MemoryNodeId(1)).expect("it was there");
            for line in lost.iter().cycle().take(40) {
                fails(&stage, A, *line, AccessMode::Exclusive);
            }
            assert_eq!(stage.node(A).lost_frames(), 1, "seed {seed}");
            stage.abandon();
        });
    }
}
