//! Hand-overs whose messages and operations arrive late or in another order.

use latchwork_cache::Ownership;
use latchwork_coherence::AccessMode;
use latchwork_latch::{Answer, WordOp};
use latchwork_verbs_sim::Leg;

use crate::scenarios::stage::*;

/// Bug: the giver's report *settled* is handled before its grant and is dropped as unexpected, so
/// the receiver waits for the report forever. Mechanism: the worker that took the grant from the
/// inbox loses its CPU, and another worker takes the report. Fix: the receiver remembers an early
/// report.
#[test]
fn a_grant_that_is_overtaken_by_its_settled_is_settled() {
    in_every_world(|seed| {
        for mode in [AccessMode::Exclusive, AccessMode::Shared] {
            let mut stage = Stage::new(2, seed);
            stage.add_worker(B);
            let line = stage.line();
            stage.write(A, line, 1);
            let late = stage.hold(Leg::Inbox, line, grant(A, B));
            let access = stage.takes(B, line, mode);
            stage.until("the grant is in B's inbox", || late.held() == 1);
            stage.until("A reports", || stage.count(line, settled(A, B)) == 1);
            stage.pass(A_WHILE);
            assert_eq!(stage.node(A).lines_in_flight(), 0, "A is through");
            assert_eq!(stage.owns(B, line), Ownership::Invalid, "B is not");
            drop(late);
            let ticket = stage.end(access).expect("no error");
            assert_eq!(stage.read(B, line), 1);
            stage.drop_on(B, ticket);
            stage.evict_now(B, line);
            assert_eq!(stage.count(line, settled(A, B)), 1, "there is no second report");
            stage.finish();
        }
    });
}

/// Bug: the word says that B holds the line while B has no bytes yet. A node that sends B a request
/// gets a wrong answer, or waits forever. Mechanism: the forward is held, and the word operation is
/// not. Fix: B answers that it has no line, and the requesters read the word again. A reports
/// *settled* only when the forward is complete too.
#[test]
fn a_line_with_a_late_forward_belongs_to_no_other_node_meanwhile() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, grant(A, B));
        let writer = stage.writes(B, line, 2);
        stage.until("the word names B", || stage.word(line) == x(B));
        let (giver, third) = (stage.reads(A, line), stage.writes(C, line, 3));
        stage.until("B sends C away", || stage.count(line, answer(B, C, Answer::Dropped)) > 1);
        stage.pass(A_WHILE);
        assert_eq!(stage.owns(B, line), Ownership::Invalid);
        assert_eq!(stage.count(line, settled(A, B)), 0, "not before the forward is complete");
        assert_eq!(stage.count(line, op(A, WordOp::AcquireShared)), 0, "A's own wish waits");
        assert!(!writer.is_finished() && !giver.is_finished() && !third.is_finished());
        drop(late);
        assert_eq!(stage.end(writer), 1);
        assert_eq!(stage.end(third), 2);
        assert!([2, 3].contains(&stage.end(giver)));
        assert_eq!(stage.read(A, line), 3);
        stage.finish();
    });
}

/// A forward to a reader is late, and the reader's registered wait has already become ownership.
/// The reader refuses a writer's request until the bytes arrive.
#[test]
fn a_readers_forward_that_is_late_is_not_overtaken_by_a_writer() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, grant(A, B));
        let reader = stage.reads(B, line);
        stage.until("the downgrade lands", || stage.word(line) == s(&[A, B]));
        let writer = stage.writes(C, line, 2);
        stage.until("B sends C away, and A remembers it", || {
            stage.count(line, answer(B, C, Answer::Dropped)) == 1
                && stage.count(line, answer(A, C, Answer::Queued)) == 1
        });
        stage.pass(A_WHILE);
        assert!(!reader.is_finished() && !writer.is_finished());
        drop(late);
        assert_eq!(stage.end(reader), 1, "what was forwarded is older than C's write");
        assert_eq!(stage.end(writer), 1);
        assert_eq!(stage.read(B, line), 2);
        stage.finish();
    });
}

/// The report is late. B uses the line meanwhile, and all other nodes wait for B.
#[test]
fn a_line_that_is_not_settled_is_used_but_not_passed_on() {
    in_every_world(|seed| {
        let stage = Stage::new(3, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        stage.forget();
        let late = stage.hold(Leg::There, line, settled(A, B));
        assert_eq!(stage.write(B, line, 2), 1);
        stage.until("A reports", || late.held() == 1);
        assert_eq!(stage.word(line), x(B));
        let (giver, third) = (stage.reads(A, line), stage.writes(C, line, 3));
        stage.until("B remembers both", || {
            stage.count(line, answer(B, A, Answer::Queued)) == 1
                && stage.count(line, answer(B, C, Answer::Queued)) == 1
        });
        stage.pass(A_WHILE);
        assert_eq!(stage.write(B, line, 4), 2, "B goes on");
        assert!(!stage.evict(B, line), "but does not give it up");
        assert_eq!(stage.count(line, any_op(B)), 1, "the claim that was refused");
        drop(late);
        assert!([3, 4].contains(&stage.end(giver)));
        assert_eq!(stage.end(third), 4);
        stage.finish();
    });
}

/// A reader with an unsettled copy wants to write. Its word operation waits for the report too.
#[test]
fn a_copy_that_is_not_settled_is_not_upgraded() {
    in_every_world(|seed| {
        let stage = Stage::new(2, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, settled(A, B));
        assert_eq!(stage.read(B, line), 1);
        stage.until("A reports", || late.held() == 1);
        let writer = stage.writes(B, line, 2);
        stage.pass(A_WHILE);
        assert_eq!(stage.count(line, op(B, WordOp::Upgrade)), 0);
        assert_eq!(stage.read(B, line), 1, "reading goes on");
        drop(late);
        assert_eq!(stage.end(writer), 1);
        assert_eq!(stage.read(A, line), 2);
        stage.finish();
    });
}

/// Four nodes pass a line on, and every report is late. Each node waits for the report of the node
/// before it, and no node waits for a later node.
#[test]
fn a_chain_of_hand_overs_settles_link_by_link() {
    in_every_world(|seed| {
        let stage = Stage::new(4, seed);
        let line = stage.line();
        stage.write(A, line, 1);
        let late = stage.hold(Leg::There, line, |from, act| {
            (A..D).any(|node| settled(node, node + 1)(from, act))
        });
        let mut writers = vec![stage.writes(B, line, 2)];
        stage.until("B has it", || late.held() == 1);
        for node in [C, D] {
            writers.push(stage.writes(node, line, node as u64 + 1));
            stage.until("B remembers it", || {
                stage.count(line, answer(B, node, Answer::Queued)) == 1
            });
        }
        assert!(writers[0].is_finished() && !writers[1].is_finished());
        for next in &writers[1..] {
            stage.until("a report is held", || late.held() == 1);
            stage.pass(A_WHILE);
            assert!(!next.is_finished(), "seed {seed}: the link before it is not settled");
            late.release();
            stage.until("the next writer", || next.is_finished());
        }
        drop(late);
        let found: Vec<u64> = writers.into_iter().map(|writer| stage.end(writer)).collect();
        assert_eq!(found, [1, 2, 3], "seed {seed}: every write was found by the next");
        stage.finish();
    });
}
