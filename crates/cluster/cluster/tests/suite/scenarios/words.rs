//! The latch word is true at every instant. A refused reader's bit stays, and additions in flight
//! never collide.

use latchwork_latch::{Answer, WordOp};
use latchwork_verbs_sim::Leg;

use crate::scenarios::stage::*;

/// Bug: a refused reader takes its bit back by a second addition. This addition takes effect after
/// the reader was served, or carries into a neighbouring field. Mechanism: reader B finds holder A
/// in the word, and A hands the line to C before B's request arrives. Fix: the bit stays as a
/// registered wait (rule R2) during the hand-over, and becomes ownership when C admits the readers.
#[test]
fn a_refused_reader_waits_registered_through_a_hand_over() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, request(B, A));
        let reader = stage.reads(B, line);
        stage.until("B was refused and asks", || late.held() == 1);
        assert_eq!(stage.word(line), xs(A, &[B]), "the wait is registered");
        stage.write(C, line, 2);
        stage.until("the hand-over is complete", || stage.count(line, settled(A, C)) == 1);
        assert_eq!(stage.word(line), xs(C, &[B]), "and stays through the hand-over");
        drop(late);
        assert_eq!(stage.end(reader), 2);
        stage.until("B has it", || stage.word(line).exclusive().is_none());
        assert_eq!(stage.count(line, answer(A, B, Answer::Dropped)), 1, "A had nothing to give");
        assert_eq!(
            stage.words(line),
            [s(&[]), x(A), xs(A, &[B]), xs(C, &[B]), s(&[B, C])],
            "each change is one node's own"
        );
        stage.finish();
    });
}

/// Bug: the receiver of a hand-over changes the word before the giver's addition takes effect. Then
/// the exclusive field passes through zero or through another node's number. Mechanism: A's
/// hand-over to B is held on its way to the word. Meanwhile B uses the line, C waits to read and D
/// waits to write. Fix: B posts no word operation and does not hand the line over before A reports
/// *settled* (rule R4).
#[test]
fn the_receiver_of_a_hand_over_leaves_the_word_alone_until_the_giver_has_settled() {
    in_every_world(|seed| {
        let stage = Stage::new(4, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        stage.forget();
        let late = stage.hold(Leg::There, line, op(A, WordOp::HandOver(id(B))));
        stage.write(B, line, 2);
        assert_eq!((late.held(), stage.word(line)), (1, x(A)), "B writes, and the word says A");
        let reader = stage.reads(C, line);
        let writer = stage.writes(D, line, 3);
        stage.until("both were refused", || {
            stage.count(line, request(C, A)) > 0 && stage.count(line, request(D, A)) > 0
        });
        assert!(!stage.evict(B, line), "B cannot even give it up");
        stage.write(B, line, 4);
        stage.pass(A_WHILE);
        assert_eq!(stage.read(B, line), 4, "B alone uses it");
        assert_eq!(stage.count(line, any_op(B)), 1, "after the claim that was refused, nothing");
        assert_eq!(stage.word(line), xs(A, &[C]));
        assert!(!reader.is_finished() && !writer.is_finished());
        drop(late);
        let read = stage.end(reader);
        assert!([3, 4].contains(&read), "seed {seed}: C read {read}");
        stage.end(writer);
        assert_eq!(stage.read(A, line), 3, "D's was the last write");
        stage.finish();
    });
}
