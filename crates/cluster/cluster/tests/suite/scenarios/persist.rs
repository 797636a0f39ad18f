//! Changes that are written back in place, with `survive`: by a call, and by the cleaner.

use std::time::Duration;

use latchwork_cache::Ownership;
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_latch::WordOp;
use latchwork_runtime::JoinHandle;
use latchwork_selcc::LatchCount;
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::Leg;

use crate::common::small;
use crate::scenarios::stage::*;

/// The verb of [`WordOp::Persist`], which the log shows as the first operation of this verb.
const PERSIST: WordOp = WordOp::Poll;

fn persists(stage: &Stage, node: usize, line: GlobalAddr) -> JoinHandle<Result<(), MemoryError>> {
    stage.start(node, async move |member| member.memory.persist(line).await)
}

fn count(stage: &Stage) -> u64 {
    LatchCount::Persists.of(&stage.cluster.counters())
}

fn is_in_memory(stage: &Stage, line: GlobalAddr, value: u64) -> bool {
    stage.memory(line).iter().all(|&word| word == value)
}

fn surviving_with(
    clean: Duration,
    change: impl Fn(&mut latchwork_cluster::ClusterConfig),
    seed: u64,
) -> Stage {
    let mut config = small(3, 1, 16, seed);
    (config.selcc.survive, config.selcc.clean_interval) = (true, clean);
    change(&mut config);
    Stage::on(config)
}

#[test]
fn what_was_written_is_in_memory_and_the_line_stays() {
    in_every_world(|seed| {
        let stage = Stage::surviving(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        assert!(!is_in_memory(&stage, line, 1));
        stage.end(persists(&stage, A, line)).expect("it is A's");
        assert!(is_in_memory(&stage, line, 1));
        assert_eq!((stage.word(line), stage.owns(A, line)), (x(A), Ownership::Exclusive));
        assert_eq!(count(&stage), 1);
        for node in [A, B] {
            stage.end(persists(&stage, node, line)).expect("there is nothing to do");
        }
        assert_eq!((count(&stage), stage.count(line, op(A, PERSIST))), (1, 1));
        assert_eq!(stage.write(B, line, 2), 1);
        stage.finish();
    });
}

#[test]
fn nothing_happens_without_survive() {
    let stage = Stage::new(3, 0);
    let line = stage.line();
    stage.write(A, line, 1);
    stage.end(persists(&stage, A, line)).expect("at once");
    stage.pass(Duration::from_secs(3));
    assert!(!is_in_memory(&stage, line, 1));
    assert_eq!(stage.count(line, op(A, PERSIST)), 0);
    stage.finish();
}

/// Local reads and writes go on meanwhile. A request of another node waits until the end, and so
/// does a second call for what was written meanwhile.
#[test]
fn requests_wait_for_a_write_back_in_place_and_local_code_does_not() {
    in_every_world(|seed| {
        let stage = Stage::surviving(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let gate = stage.hold(Leg::There, line, op(A, PERSIST));
        let first = persists(&stage, A, line);
        stage.until("it is posted", || gate.held() == 1);
        assert_eq!((stage.write(A, line, 2), stage.read(A, line)), (1, 2));
        let second = persists(&stage, A, line);
        let writer = stage.writes(B, line, 3);
        stage.pass(A_WHILE);
        assert!(!first.is_finished() && !second.is_finished() && !writer.is_finished());
        drop(gate);
        stage.end(first).expect("it is over");
        assert!(is_in_memory(&stage, line, 1) || is_in_memory(&stage, line, 2));
        assert_eq!(stage.end(writer), 2);
        stage.end(second).expect("with the hand-over");
        assert!(is_in_memory(&stage, line, 2));
        stage.finish();
    });
}

/// The batch is cut off behind any of its requests. The second post has the bytes of the first.
#[test]
fn a_write_back_in_place_that_is_cut_off_is_made_again() {
    in_every_world(|seed| {
        for cut in 0..=2 {
            let stage = Stage::surviving(3, seed);
            let line = stage.line();
            stage.write(A, line, 1);
            let gate = stage.hold(Leg::There, line, op(A, PERSIST));
            let call = persists(&stage, A, line);
            stage.until("it is posted", || gate.held() == 1);
            stage.write(A, line, 2);
            assert!(gate.cut_off(cut));
            drop(gate);
            stage.end(call).expect("at the second post");
            assert!(is_in_memory(&stage, line, 1), "cut {cut}");
            stage.end(persists(&stage, A, line)).expect("the rest");
            assert!(is_in_memory(&stage, line, 2));
            assert_eq!(stage.write(B, line, 3), 2);
            stage.finish();
        }
    });
}

/// The receiver of a grant posts nothing before its giver is done (R4).
#[test]
fn a_line_that_is_not_settled_is_written_back_later() {
    in_every_world(|seed| {
        let stage = Stage::surviving(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let gate = stage.hold(Leg::There, line, op(A, WordOp::HandOver(id(B))));
        stage.write(B, line, 2);
        let call = persists(&stage, B, line);
        stage.pass(A_WHILE);
        assert!(!call.is_finished() && stage.count(line, op(B, PERSIST)) == 0);
        drop(gate);
        stage.end(call).expect("once it is settled");
        assert!(is_in_memory(&stage, line, 2));
        stage.finish();
    });
}

/// A node without write-back slots has one for this.
#[test]
fn a_node_without_slots_writes_back_in_place() {
    let stage = surviving_with(Duration::ZERO, |config| config.node.write_back_ring = 0, 1);
    let line = stage.line();
    stage.write(A, line, 1);
    stage.end(persists(&stage, A, line)).expect("with that slot");
    assert!(is_in_memory(&stage, line, 1));
    stage.evict_now(A, line);
    stage.finish();
}

/// A line that is written once and left alone is in memory within two intervals, with no access of
/// any worker meanwhile. It is not written back before the first interval is over.
#[test]
fn a_line_that_is_left_alone_is_written_back_in_time() {
    const INTERVAL: Duration = Duration::from_millis(100);
    in_every_world(|seed| {
        let stage = surviving_with(INTERVAL, |_| {}, seed);
        let line = stage.line();
        for (turn, value) in (1..4).enumerate() {
            stage.pass(INTERVAL / 3 * turn as u32);
            stage.write(A, line, value);
            stage.pass(INTERVAL * 9 / 10);
            assert!(!is_in_memory(&stage, line, value), "too early");
            stage.pass(INTERVAL * 11 / 10);
            assert!(is_in_memory(&stage, line, value), "seed {seed}");
        }
        assert_eq!(count(&stage), 3);
        assert_eq!(stage.owns(A, line), Ownership::Exclusive);
        stage.finish();
    });
}

#[test]
fn a_line_that_is_left_alone_stays_dirty_without_an_interval() {
    let stage = surviving_with(Duration::ZERO, |_| {}, 0);
    let line = stage.line();
    stage.write(A, line, 1);
    stage.pass(Duration::from_secs(5));
    assert!(!is_in_memory(&stage, line, 1));
    stage.finish();
}
