//! Evicted lines whose frames are reused while copies of their changes are written back.

use latchwork_cache::Ownership;
use latchwork_coherence::CoherentMemory;
use latchwork_latch::{Answer, LatchWord, WordOp};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{Gate, Leg};

use crate::common::small;
use crate::scenarios::stage::*;

/// Two nodes whose workers have `slots` write-back slots for each memory node.
fn stage_of(slots: usize, frames: usize, seed: u64) -> Stage {
    let mut config = small(2, 1, frames, seed);
    config.node.write_back_ring = slots;
    // Lines are evicted only when a scenario says so.
    config.node.evict_batch = 1;
    Stage::on(config)
}

fn all_are(words: &[u64], value: u64) -> bool {
    words.iter().all(|&word| word == value)
}

/// Evicts the line, and holds its release at the gate.
fn evict_into(stage: &Stage, gate: &Gate, line: GlobalAddr) {
    let held = gate.held();
    assert!(stage.evict(A, line));
    stage.until("the release is held", || gate.held() == held + 1);
}

/// Writes into `line`, which gets the frame that became free last.
fn write_into(stage: &Stage, frame: latchwork_cache::FrameId, line: GlobalAddr, value: u64) {
    stage.write(A, line, value);
    assert_eq!(stage.node(A).cache().find(line), Some(frame), "another frame than was freed last");
}

/// Lines of one chunk, and so of one memory node.
fn neighbours<const N: usize>(stage: &Stage) -> [GlobalAddr; N] {
    let lines = [(); N].map(|()| stage.line());
    assert!(lines.iter().all(|line| line.node() == lines[0].node()), "of one chunk");
    lines
}

fn copies(stage: &Stage) -> usize {
    stage.member(A).memory.write_backs()
}

/// Bug: the frame of an evicted line is reused while its changes are in flight, and the bytes of
/// the new line are written back instead. Mechanism: the release is held, and another line is
/// written in the same frame. Fix: the changes are copied first. Without write-back slots nothing
/// is copied, and the frame stays reserved.
#[test]
fn the_frame_of_an_evicted_line_is_used_at_once_and_its_changes_arrive() {
    in_every_world(|seed| {
        for slots in [0, 1, 32] {
            let stage = stage_of(slots, 6, seed);
            let [line, other] = neighbours(&stage);
            stage.write(A, line, 1);
            let frame = stage.node(A).cache().find(line).expect("just written");
            let late = stage.hold(Leg::There, line, op(A, WordOp::ReleaseExclusive));
            evict_into(&stage, &late, line);
            if slots == 0 {
                assert_eq!((stage.owns(A, line), copies(&stage)), (Ownership::Invalid, 0));
                assert_eq!(
                    stage.node(A).cache().find(line),
                    Some(frame),
                    "it is written from there"
                );
                drop(late);
                stage.until("the release is complete", || stage.frame(A, line).is_none());
            } else {
                assert_eq!((stage.node(A).cache().find(line), copies(&stage)), (None, 1));
                write_into(&stage, frame, other, 2);
                assert_eq!((stage.word(line), all_are(&stage.memory(line), 0)), (x(A), true));
                drop(late);
                stage.until("the release is complete", || copies(&stage) == 0);
                assert_eq!(stage.read(B, other), 2);
            }
            assert!(all_are(&stage.memory(line), 1), "seed {seed}: other bytes");
            assert_eq!(stage.read(B, line), 1);
            stage.finish();
        }
    });
}

/// A clean line has no changes to copy. Its frame is free at once, whether the line was shared or
/// exclusively owned.
#[test]
fn the_frame_of_a_clean_line_is_free_at_once() {
    in_every_world(|seed| {
        for which in [WordOp::ReleaseShared, WordOp::ReleaseExclusive] {
            for slots in [0, 1] {
                let stage = stage_of(slots, 6, seed);
                let line = stage.line();
                if which == WordOp::ReleaseShared {
                    stage.read(A, line);
                } else {
                    let ticket = stage.take(A, line, latchwork_coherence::AccessMode::Exclusive);
                    stage.drop_on(A, ticket);
                }
                let late = stage.hold(Leg::Back, line, op(A, which));
                evict_into(&stage, &late, line);
                assert_eq!(stage.frame(A, line).is_none(), slots == 1, "{slots} {which:?}");
                assert_eq!(copies(&stage), 0, "there is nothing to copy");
                drop(late);
                stage.finish();
            }
        }
    });
}

/// Bug: a release that was cut off is posted again, with the later content of the frame or the
/// slot. Mechanism: the release is cut off at each possible point, another line takes the frame,
/// and a third line needs a slot. Fix: the slot stays with the operation until the operation has
/// ended, so the third line finds no slot.
#[test]
fn a_release_that_was_cut_off_is_written_back_again_from_its_copy() {
    in_every_world(|seed| {
        for cut in 0..=2 {
            let stage = stage_of(1, 6, seed);
            let [line, second, third] = neighbours(&stage);
            stage.write(A, second, 2);
            stage.write(A, line, 1);
            let frame = stage.node(A).cache().find(line).expect("just written");
            let late = stage.hold(Leg::There, line, op(A, WordOp::ReleaseExclusive));
            evict_into(&stage, &late, line);
            write_into(&stage, frame, third, 3);
            let look = stage.hold(Leg::There, line, op(A, WordOp::Poll));
            assert!(late.cut_off(cut));
            drop(late);
            stage.until("A looks", || look.held() == 1);
            // The operation has not ended, so no other line can have its slot.
            let before = stage.cluster.counters();
            assert_eq!(copies(&stage), 1);
            stage.evict_now_beside(second);
            let after = stage.cluster.counters() - before;
            assert_eq!((after.write_backs_in_frame, after.write_backs_copied), (1, 0));
            drop(look);
            stage.until("the release is complete", || copies(&stage) == 0);
            assert_eq!(stage.word(line), LatchWord::FREE);
            assert!(all_are(&stage.memory(line), 1), "seed {seed}: cut {cut}");
            assert!(all_are(&stage.memory(second), 2), "seed {seed}: cut {cut}");
            assert_eq!((stage.read(B, line), stage.read(B, third)), (1, 3));
            // The slot is free now, so the changes of the next line are copied.
            let before = stage.cluster.counters();
            stage.write(A, second, 5);
            stage.evict_now(A, second);
            assert_eq!((stage.cluster.counters() - before).write_backs_copied, 1);
            assert!(all_are(&stage.memory(second), 5));
            stage.finish();
        }
    });
}

/// Bug: a slot is reused as soon as its release was posted or has taken effect, before the release
/// is complete. Mechanism: one slot, and two lines whose releases are held. Fix: the second line is
/// written back from its frame, and the frame stays reserved.
#[test]
fn without_a_slot_a_line_is_written_back_from_its_frame() {
    in_every_world(|seed| {
        for leg in [Leg::There, Leg::Back] {
            let stage = stage_of(1, 6, seed);
            let [first, second, third] = neighbours(&stage);
            stage.write(A, first, 1);
            stage.write(A, second, 2);
            let (frame, kept) = {
                let cache = stage.node(A).cache();
                (cache.find(first).expect("written"), cache.find(second).expect("written"))
            };
            let late = stage.hold(leg, first, op(A, WordOp::ReleaseExclusive));
            evict_into(&stage, &late, first);
            let later = stage.hold(leg, second, op(A, WordOp::ReleaseExclusive));
            evict_into(&stage, &later, second);
            assert_eq!((stage.node(A).cache().find(first), copies(&stage)), (None, 1));
            assert_eq!(stage.node(A).cache().find(second), Some(kept), "nowhere to copy it to");
            write_into(&stage, frame, third, 3);
            drop((late, later));
            stage.until("both are complete", || stage.node(A).lines_in_flight() == 0);
            assert_eq!((stage.frame(A, second), copies(&stage)), (None, 0));
            assert!(all_are(&stage.memory(first), 1) && all_are(&stage.memory(second), 2));
            stage.finish();
        }
    });
}

/// Rule R1 for a line without a frame. While a release is in flight, an access wants the line
/// again. The access gets another frame, waits for the release, and finds its own changes. A
/// request that comes meanwhile is queued in the record, and answered when the release is complete.
#[test]
fn a_line_without_a_frame_waits_for_its_own_release_and_queues_requests() {
    in_every_world(|seed| {
        let stage = stage_of(1, 6, seed);
        let [line, other] = neighbours(&stage);
        stage.write(A, line, 1);
        let frame = stage.node(A).cache().find(line).expect("just written");
        stage.forget();
        let late = stage.hold(Leg::There, line, op(A, WordOp::ReleaseExclusive));
        evict_into(&stage, &late, line);
        let writer = stage.writes(B, line, 7);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        write_into(&stage, frame, other, 2);
        let again = stage.reads(A, line);
        stage.pass(A_WHILE);
        let second = stage.node(A).cache().find(line).expect("a frame to wait in");
        assert_ne!(second, frame);
        assert_eq!((stage.count(line, any_op(A)), stage.owns(A, line)), (1, Ownership::Invalid));
        assert_eq!(stage.count(line, answer(A, B, Answer::Released)), 0);
        drop(late);
        assert_eq!(stage.end(writer), 1, "B finds what A wrote back");
        assert!(stage.count(line, answer(A, B, Answer::Released)) >= 1, "the one that waited");
        assert!([1, 7].contains(&stage.end(again)));
        assert_eq!((stage.read(A, line), stage.read(A, other)), (7, 2));
        stage.finish();
    });
}

/// A worker does not leave while an operation that uses its copy is in flight.
#[test]
fn a_worker_leaves_when_its_copies_have_arrived() {
    in_every_world(|seed| {
        let mut stage = stage_of(4, 6, seed);
        let line = stage.line();
        let leaver = stage.add_worker(A);
        stage.write(leaver, line, 1);
        assert!(stage.evict(leaver, line));
        assert_eq!(stage.member(leaver).memory.write_backs(), 1);
        stage.leave(leaver);
        assert!(all_are(&stage.memory(line), 1), "seed {seed}");
        assert_eq!(stage.read(B, line), 1);
        stage.finish();
    });
}

/// A write-back slot with changes for a lost memory node becomes free.
#[test]
fn the_copy_of_a_line_on_a_lost_memory_node_is_released() {
    in_every_world(|seed| {
        let stage = stage_of(1, 6, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, op(A, WordOp::ReleaseExclusive));
        evict_into(&stage, &late, line);
        assert_eq!(copies(&stage), 1);
        stage.sim().lose_memory_node(line.node()).expect("there");
        drop(late);
        stage.until("the release has failed", || copies(&stage) == 0);
        let read = stage.run(A, async move |member| member.memory.read(line, value).await);
        assert!(read.is_err(), "nobody knows what is there");
        stage.abandon();
    });
}
