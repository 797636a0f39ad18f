//! Eviction, against all other operations on the line or on the line's frame.

use latchwork_cache::{FrameId, Ownership};
use latchwork_coherence::AccessMode;
use latchwork_latch::{Answer, WordOp};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::Leg;

use crate::scenarios::stage::*;

/// Bug: a node that evicts a line and wants it again has two word operations in flight. The claim
/// overtakes the release, so the claim finds the node's own ownership in the word. Mechanism: A's
/// release is held in flight. Fix: the record exists longer than the ownership of the frame, and
/// the new claim waits for the release (rule R1).
#[test]
fn a_line_that_is_wanted_again_waits_for_its_own_release() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        stage.forget();
        let late = stage.hold(Leg::There, line, op(A, WordOp::ReleaseExclusive));
        assert!(stage.evict(A, line));
        let again = stage.writes(A, line, 2);
        let other = stage.reads(B, line);
        stage.until("B asks A", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        stage.pass(A_WHILE);
        assert_eq!(stage.count(line, any_op(A)), 1, "one operation at a time");
        assert_eq!((stage.word(line), stage.owns(A, line)), (xs(A, &[B]), Ownership::Invalid));
        assert!(
            stage.memory(line).iter().all(|&word| word == 0),
            "the change is still in the frame"
        );
        drop(late);
        assert_eq!(stage.end(again), 1, "A finds its own change");
        assert!([1, 2].contains(&stage.end(other)));
        assert_eq!(stage.read(B, line), 2);
        stage.finish();
    });
}

/// Like the test above, but the release has taken effect and only its completion is late. Before A
/// may read the word again, another node has owned and changed the line.
#[test]
fn a_line_that_is_wanted_again_is_not_the_one_that_was_released() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        stage.forget();
        let late = stage.hold(Leg::Back, line, op(A, WordOp::ReleaseExclusive));
        assert!(stage.evict(A, line));
        let again = stage.reads(A, line);
        stage.until("the release has landed", || late.held() == 1);
        assert_eq!(stage.write(B, line, 2), 1, "B finds what A wrote back");
        stage.pass(A_WHILE);
        assert_eq!((stage.count(line, any_op(A)), stage.word(line)), (1, x(B)));
        assert!(!again.is_finished(), "A does not know yet whether its release has landed");
        drop(late);
        assert_eq!(stage.end(again), 2);
        stage.finish();
    });
}

/// The same for a shared line: its bit must be cleared before it is set again. A writer that
/// requests the line meanwhile gets a message when the bit is cleared.
#[test]
fn a_shared_line_that_is_wanted_again_waits_for_its_own_release() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        assert_eq!((stage.read(A, line), stage.read(B, line)), (0, 0));
        stage.forget();
        let late = stage.hold(Leg::There, line, op(A, WordOp::ReleaseShared));
        assert!(stage.evict(A, line));
        let again = stage.reads(A, line);
        let writer = stage.writes(B, line, 5);
        stage.until("B's upgrade meets A's bit", || {
            stage.count(line, answer(A, B, Answer::Queued)) == 1
        });
        stage.pass(A_WHILE);
        assert_eq!((stage.count(line, any_op(A)), stage.word(line)), (1, s(&[A, B])));
        drop(late);
        assert_eq!(stage.end(writer), 0);
        assert!([0, 5].contains(&stage.end(again)));
        assert_eq!(stage.read(A, line), 5);
        stage.finish();
    });
}

/// An access waits for the node's own release and is dropped. The record ends without the access.
#[test]
fn an_access_dropped_behind_its_own_release_leaves_nothing_behind() {
    in_every_world(|seed| {
        for leg in [Leg::There, Leg::Back] {
            let stage = Stage::new(2, seed);
            let line = stage.line();
            stage.write(A, line, 1);
            let late = stage.hold(leg, line, op(A, WordOp::ReleaseExclusive));
            assert!(stage.evict(A, line));
            let again = stage.reads(A, line);
            stage.until("the release is held", || late.held() == 1);
            stage.pass(A_WHILE);
            again.abort();
            drop(late);
            assert_eq!(stage.read(B, line), 1);
            stage.finish();
        }
    });
}

/// Lines that no node owns. Their number is twice the number of frames of a cache.
fn crowd(stage: &Stage) -> Vec<GlobalAddr> {
    let frames = stage.node(A).cache().capacity();
    (0..2 * frames).map(|_| stage.line()).collect()
}

/// Reads all these lines through the cache of `node`, twice. So every frame that can be reused is
/// reused.
fn turn_over(stage: &Stage, node: usize, crowd: &[GlobalAddr]) {
    for line in crowd.iter().chain(crowd) {
        assert_eq!(stage.read(node, *line), 0);
    }
}

fn frame_of(stage: &Stage, node: usize, line: GlobalAddr) -> FrameId {
    stage.node(node).cache().find(line).expect("the line has a frame")
}

/// Bug: the frame from which a line is forwarded is reused before the forward has read it, and the
/// receiver gets bytes of another line. Mechanism: the forward, or its completion, is held while
/// the giver replaces all lines of its cache. Fix: the record keeps the frame until the operation
/// and its forwards are complete.
#[test]
fn a_frame_that_is_being_forwarded_is_not_used_for_another_line() {
    in_every_world(|seed| {
        for (leg, mode) in [
            (Leg::There, AccessMode::Exclusive),
            (Leg::Back, AccessMode::Exclusive),
            (Leg::There, AccessMode::Shared),
            (Leg::Back, AccessMode::Shared),
        ] {
            let stage = Stage::with(2, 4, seed);
            let (line, crowd) = (stage.line(), crowd(&stage));
            stage.write(A, line, 1);
            let late = stage.hold(leg, line, grant(A, B));
            let other = stage.takes(B, line, mode);
            stage.until("A forwards", || late.held() == 1);
            let frame = frame_of(&stage, A, line);
            turn_over(&stage, A, &crowd);
            assert_eq!(frame_of(&stage, A, line), frame, "seed {seed}: {leg:?} {mode:?}");
            assert_eq!(value(stage.node(A).cache().line(frame).slice(32..512)), 1);
            assert_eq!(other.is_finished(), leg == Leg::Back);
            drop(late);
            let ticket = stage.end(other).expect("no error");
            assert_eq!(stage.read(B, line), 1, "seed {seed}: {leg:?} {mode:?}");
            stage.drop_on(B, ticket);
            turn_over(&stage, A, &crowd);
            stage.finish();
        }
    });
}

/// Bug: the frame for a forwarded line is given to another line, and the forward overwrites that
/// line. Mechanism: the forward is held while the requester replaces all lines of its cache. In
/// every second world the access that requested the line is dropped as well. Fix: the requester
/// keeps the frame until the answer has come (rule R5), even if no task waits for the line any
/// more.
#[test]
fn a_frame_that_awaits_a_forward_is_not_used_for_another_line() {
    in_every_world(|seed| {
        for drops in [false, true] {
            let stage = Stage::with(2, 4, seed);
            let (line, crowd) = (stage.line(), crowd(&stage));
            stage.write(A, line, 1);
            let late = stage.hold(Leg::There, line, grant(A, B));
            let access = stage.takes(B, line, AccessMode::Exclusive);
            stage.until("A forwards", || late.held() == 1);
            let frame = frame_of(&stage, B, line);
            if drops {
                access.abort();
            }
            turn_over(&stage, B, &crowd);
            assert_eq!(frame_of(&stage, B, line), frame);
            drop(late);
            stage.until("the grant arrives", || stage.owns(B, line) == Ownership::Exclusive);
            turn_over(&stage, B, &crowd);
            assert_eq!(stage.read(B, line), 1);
            if !drops {
                let ticket = stage.end(access).expect("no error");
                stage.drop_on(B, ticket);
            }
            stage.finish();
        }
    });
}

/// Bug: a frame is reused while the write-back of its last line still reads from it. Mechanism: the
/// write-back is held while the node replaces all lines of its cache. Fix: the record keeps the
/// frame, as in the test above.
#[test]
fn a_frame_that_is_being_written_back_is_not_used_for_another_line() {
    in_every_world(|seed| {
        let stage = Stage::with(2, 4, seed);
        let (line, crowd) = (stage.line(), crowd(&stage));
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, op(A, WordOp::ReleaseExclusive));
        // No hint names the line. Only the other lines make the node evict it.
        turn_over(&stage, A, &crowd);
        assert_eq!(late.held(), 1, "eviction took the line");
        assert!(stage.memory(line).iter().all(|&word| word == 0));
        drop(late);
        stage.until("the release lands", || stage.word(line) == s(&[]));
        assert!(stage.memory(line).iter().all(|&word| word == 1), "seed {seed}: other bytes");
        assert_eq!(stage.read(B, line), 1);
        stage.finish();
    });
}

/// A handler is about to serve a request for a line that eviction takes at the same moment.
/// Whichever is first gives the line up, and only once. The test holds the request until the
/// eviction has begun but has not taken effect.
#[test]
fn a_request_for_a_line_that_is_being_evicted_is_answered_when_that_is_over() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        stage.forget();
        let release = stage.hold(Leg::There, line, op(A, WordOp::ReleaseExclusive));
        let question = stage.hold(Leg::There, line, request(B, A));
        let writer = stage.writes(B, line, 2);
        stage.until("B asks", || question.held() == 1);
        assert!(stage.evict(A, line));
        drop(question);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        assert_eq!(stage.count(line, answer(A, B, Answer::Released)), 0);
        drop(release);
        assert_eq!(stage.end(writer), 1);
        assert_eq!(stage.count(line, answer(A, B, Answer::Released)), 1, "one final answer");
        assert_eq!(stage.count(line, grant(A, B)), 0, "there was nothing left to forward");
        assert_eq!(stage.words(line), [x(A), s(&[]), x(B)]);
        stage.finish();
    });
}
