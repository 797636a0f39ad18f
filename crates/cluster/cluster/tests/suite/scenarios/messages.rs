//! Messages that arrive after the state of the line has changed.

use latchwork_cache::Ownership;
use latchwork_coherence::AccessMode;
use latchwork_latch::{Answer, WordOp};
use latchwork_verbs_sim::Leg;

use crate::scenarios::stage::*;

/// A writer's request finds no copy of the line at the node. The answer is `Dropped`, and the
/// writer reads the word again.
#[test]
fn a_request_that_arrives_after_an_eviction_is_answered() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, request(B, A));
        let writer = stage.writes(B, line, 2);
        stage.until("B asks", || late.held() == 1);
        stage.evict_now(A, line);
        assert_eq!((stage.word(line), stage.node(A).lines_in_flight()), (s(&[]), 0));
        drop(late);
        assert_eq!(stage.end(writer), 1);
        assert_eq!(stage.count(line, answer(A, B, Answer::Dropped)), 1);
        stage.finish();
    });
}

/// A reader's request finds no copy of the line. The reader's registered wait has already become
/// ownership, which the reader does not know yet. A writer that comes now must not ignore the
/// reader's bit.
#[test]
fn a_registered_wait_becomes_ownership_before_its_owner_knows() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, request(B, A));
        let reader = stage.reads(B, line);
        stage.until("B asks", || late.held() == 1);
        stage.evict_now(A, line);
        assert_eq!(stage.word(line), s(&[B]));
        let writer = stage.writes(C, line, 2);
        stage.until("B sends C away", || stage.count(line, answer(B, C, Answer::Dropped)) > 1);
        assert!(!reader.is_finished() && !writer.is_finished());
        assert_eq!(stage.owns(B, line), Ownership::Invalid, "B may not read yet");
        drop(late);
        assert!([1, 2].contains(&stage.end(reader)));
        assert_eq!(stage.end(writer), 1);
        assert_eq!(stage.read(B, line), 2);
        stage.finish();
    });
}

/// A request to a sharer finds an exclusive holder, because the sharer has upgraded. The requester
/// gets the line with the data that the holder wrote.
#[test]
fn a_request_that_arrives_after_an_upgrade_gets_what_was_written() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        assert_eq!(stage.read(A, line), 0);
        let late = stage.hold(Leg::There, line, request(B, A));
        let writer = stage.writes(B, line, 6);
        stage.until("B asks the sharer", || late.held() == 1);
        assert_eq!(stage.word(line), s(&[A]));
        stage.write(A, line, 5);
        assert_eq!((stage.word(line), stage.count(line, op(A, WordOp::Upgrade))), (x(A), 1));
        drop(late);
        assert_eq!(stage.end(writer), 5);
        assert_eq!(stage.count(line, grant(A, B)), 1, "handed over, not given back");
        stage.finish();
    });
}

/// A request reaches a former holder, which has no line to give. The requester finds the new
/// holder.
#[test]
fn a_request_that_arrives_after_a_hand_over_leads_to_the_new_holder() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, request(B, A));
        let writer = stage.writes(B, line, 3);
        stage.until("B asks A", || late.held() == 1);
        assert_eq!(stage.write(C, line, 2), 1);
        stage.until("A is through with it", || stage.node(A).lines_in_flight() == 0);
        assert_eq!(stage.word(line), x(C));
        drop(late);
        assert_eq!(stage.end(writer), 2);
        assert_eq!(stage.count(line, answer(A, B, Answer::Dropped)), 1);
        stage.until("C handed over", || stage.count(line, grant(C, B)) == 1);
        stage.finish();
    });
}

/// Like the test above, but the word operation of the hand-over is still in flight. The former
/// holder queues the request until the operation is complete, and then sends the request on to the
/// new holder. With an earlier answer the requester would read a word that still names the former
/// holder.
#[test]
fn a_request_that_arrives_during_a_hand_over_is_sent_on_after_it() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let landing = stage.hold(Leg::There, line, op(A, WordOp::HandOver(id(C))));
        assert_eq!(stage.write(C, line, 2), 1);
        let writer = stage.writes(B, line, 3);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        stage.pass(A_WHILE);
        assert_eq!(stage.count(line, sent_on(A, C)), 0);
        drop(landing);
        assert_eq!(stage.end(writer), 2);
        assert_eq!(stage.count(line, sent_on(A, C)), 1);
        assert_eq!(stage.count(line, request(B, A)), 1, "B asked once");
        assert_eq!(stage.count(line, grant(C, B)), 1);
        stage.finish();
    });
}

/// A writer sent a request to the exclusive holder. The holder gave the line up meanwhile, and
/// became a reader.
#[test]
fn a_writers_request_that_meets_a_reader_makes_it_leave() {
    in_every_world(|seed| {
        let stage = Stage::releasing(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, request(B, A));
        let writer = stage.writes(B, line, 2);
        stage.until("B asks", || late.held() == 1);
        stage.evict_now(A, line);
        assert_eq!(stage.read(A, line), 1);
        assert_eq!((stage.word(line), stage.owns(A, line)), (s(&[A]), Ownership::Shared));
        drop(late);
        assert_eq!(stage.end(writer), 1);
        assert_eq!(stage.count(line, op(A, WordOp::ReleaseShared)), 1);
        assert_eq!(stage.count(line, answer(A, B, Answer::Released)), 1);
        stage.finish();
    });
}

/// A reader sent a request to the exclusive holder. The holder gave the line up meanwhile, and
/// became a reader too. The request is out of date, and no node loses a copy because of it.
#[test]
fn a_readers_request_that_meets_a_reader_costs_no_node_its_copy() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, request(B, A));
        let reader = stage.reads(B, line);
        stage.until("B asks", || late.held() == 1);
        stage.evict_now(A, line);
        assert_eq!(stage.read(A, line), 1);
        assert_eq!(stage.word(line), s(&[A, B]));
        let copy = stage.frame(A, line);
        drop(late);
        assert_eq!(stage.end(reader), 1);
        assert_eq!(stage.count(line, answer(A, B, Answer::Released)), 1);
        assert_eq!(stage.frame(A, line), copy, "A's copy is untouched");
        stage.finish();
    });
}

/// A request finds the same holder in the same state, but in a later ownership. The holder treats
/// it like a new request.
#[test]
fn a_request_that_meets_a_later_ownership_is_served_from_it() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, request(B, A));
        let writer = stage.writes(B, line, 4);
        stage.until("B asks", || late.held() == 1);
        stage.evict_now(A, line);
        assert_eq!(stage.write(A, line, 3), 1);
        assert_eq!(stage.word(line), x(A));
        drop(late);
        assert_eq!(stage.end(writer), 3);
        assert_eq!(stage.count(line, grant(A, B)), 1);
        stage.finish();
    });
}

/// A writer sent requests to two sharers. One sharer has become the exclusive holder, and hands the
/// line over before the other sharer has answered. The writer has the line, but its second request
/// is still open. The writer serves no node until that request is closed.
#[test]
fn a_grant_that_comes_before_the_other_answers_is_good() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        assert_eq!((stage.read(A, line), stage.read(B, line)), (0, 0));
        let to_a = stage.hold(Leg::There, line, request(C, A));
        let to_b = stage.hold(Leg::There, line, request(C, B));
        let writer = stage.writes(C, line, 6);
        stage.until("C asks both", || to_a.held() + to_b.held() == 2);
        stage.evict_now(B, line);
        assert_eq!(stage.write(A, line, 5), 0);
        assert_eq!(stage.word(line), x(A));
        drop(to_a);
        assert_eq!(stage.end(writer), 5);
        let reader = stage.reads(A, line);
        stage.until("C remembers A", || stage.count(line, answer(C, A, Answer::Queued)) == 1);
        stage.pass(A_WHILE);
        assert!(!reader.is_finished(), "C's question to B is still out");
        assert_eq!(stage.node(C).lines_in_flight(), 1);
        drop(to_b);
        assert_eq!(stage.end(reader), 6);
        stage.finish();
    });
}

/// Bug: a writer that sent requests to two sharers gets the line together with its own second
/// request. The writer waits for an answer to that request, which it must now give itself, so the
/// line never leaves the writer. Mechanism: C sends requests to A and B. C's request to A travels
/// with a hand-over to B, and meets C's request to B there. Fix: a hand-over answers all other
/// requests of its receiver.
#[test]
fn a_hand_over_does_not_bring_a_writer_its_own_requests() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        assert_eq!((stage.read(A, line), stage.read(B, line)), (0, 0));
        let to_a = stage.hold(Leg::There, line, request(C, A));
        let to_b = stage.hold(Leg::There, line, request(C, B));
        let writer = stage.writes(C, line, 9);
        stage.until("C asks both", || to_a.held() + to_b.held() == 2);
        stage.evict_now(A, line);
        stage.evict_now(B, line);
        // B is refused once, so B's next request has a higher priority than C's request.
        assert_eq!(stage.write(A, line, 1), 0);
        let question = stage.hold(Leg::There, line, request(B, A));
        let claims = stage.takes(B, line, AccessMode::Exclusive);
        stage.until("B asks A", || question.held() == 1);
        stage.evict_now(A, line);
        let claim = stage.hold(Leg::There, line, op(B, WordOp::AcquireExclusive));
        drop(question);
        stage.until("B was sent away and tries again", || claim.held() == 1);
        assert_eq!(stage.write(A, line, 2), 1);
        let ticket = stage.take(A, line, AccessMode::Exclusive);
        drop(to_a);
        stage.until("A remembers C", || stage.count(line, answer(A, C, Answer::Queued)) == 1);
        drop(claim);
        stage.until("A remembers B", || stage.count(line, answer(A, B, Answer::Queued)) == 1);
        stage.drop_on(A, ticket);
        let ticket = stage.end(claims).expect("no error");
        assert_eq!(stage.count(line, grant(A, B)), 1, "B first, with C's question to A");
        drop(to_b);
        stage.until("B remembers C twice", || stage.count(line, answer(B, C, Answer::Queued)) == 1);
        stage.drop_on(B, ticket);
        assert_eq!(stage.end(writer), 2);
        assert_eq!(stage.count(line, grant(B, C)), 1);
        assert_eq!(stage.read(A, line), 9, "the line leaves C again");
        stage.finish();
    });
}
