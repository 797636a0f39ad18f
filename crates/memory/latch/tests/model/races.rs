//! Scenarios: messages and operations that overtake others.

use latchwork_latch::{Answer, Hold, Want, WordOp};

use crate::script::{Script, node};

/// Node 1 has the line exclusively, and node 2 has requested it.
fn asked(want: Want) -> Script {
    let mut script = Script::new(3);
    script.obtain(1, Want::Exclusive);
    script.want(2, want);
    script.complete(
        2,
        match want {
            Want::Shared => WordOp::AcquireShared,
            Want::Exclusive => WordOp::AcquireExclusive,
        },
    );
    script
}

#[test]
fn a_receiver_neither_releases_nor_hands_over_before_the_giver_is_done() {
    let mut script = asked(Want::Exclusive);
    script.receive_request(1, 2);
    script.receive_grant(2);
    script.access(2);
    script.write(2);
    script.evict(2);
    assert_eq!((script.flying(2), script.hold(2)), (None, Hold::Exclusive));
    script.complete(1, WordOp::HandOver(node(2)));
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.receive_request(2, 3);
    assert_eq!((script.flying(2), script.hold(2)), (None, Hold::Exclusive));
    script.receive_settled(2);
    assert_eq!(script.flying(2), Some(WordOp::HandOver(node(3))));
    script.run_down();
}

#[test]
fn a_settled_notice_may_come_before_its_grant() {
    let mut script = asked(Want::Exclusive);
    script.receive_request(1, 2);
    script.complete(1, WordOp::HandOver(node(2)));
    script.receive_settled(2);
    script.receive_grant(2);
    script.access(2);
    script.evict(2);
    assert_eq!(script.flying(2), Some(WordOp::ReleaseExclusive), "already settled");
    script.run_down();
}

#[test]
fn a_line_that_is_wanted_back_waits_for_its_own_release() {
    let mut script = Script::new(2);
    script.obtain(1, Want::Exclusive);
    script.write(1);
    script.evict(1);
    script.want(1, Want::Exclusive);
    assert_eq!(script.flying(1), Some(WordOp::ReleaseExclusive));
    script.complete(1, WordOp::ReleaseExclusive);
    assert_eq!(script.flying(1), Some(WordOp::AcquireExclusive));
    script.run_down();
    assert_eq!(script.hold(1), Hold::Exclusive);
}

#[test]
fn a_request_that_meets_a_release_is_answered_when_the_release_is_done() {
    let mut script = asked(Want::Exclusive);
    script.evict(1);
    script.receive_request(1, 2);
    assert_eq!(script.messages(), 0);
    script.complete(1, WordOp::ReleaseExclusive);
    script.receive_answer(2, 1, Answer::Released);
    script.complete(2, WordOp::AcquireExclusive);
    assert_eq!(script.hold(2), Hold::Exclusive);
    script.run_down();
}

#[test]
fn a_request_that_comes_after_an_eviction_is_dropped() {
    let mut script = asked(Want::Exclusive);
    script.evict(1);
    script.complete(1, WordOp::ReleaseExclusive);
    script.receive_request(1, 2);
    script.receive_answer(2, 1, Answer::Dropped);
    assert!(script.is_pausing(2));
    script.run_down();
    assert_eq!(script.hold(2), Hold::Exclusive);
}

#[test]
fn a_registered_wait_becomes_ownership_when_the_holder_evicts() {
    let mut script = asked(Want::Shared);
    script.evict(1);
    script.complete(1, WordOp::ReleaseExclusive);
    script.expect_word(0, &[2]);
    script.receive_request(1, 2);
    script.receive_answer(2, 1, Answer::Dropped);
    script.retry(2);
    script.complete(2, WordOp::Poll);
    assert_eq!(script.hold(2), Hold::Shared);
    script.expect_word(0, &[2]);
    script.run_down();
}

#[test]
fn a_request_that_comes_after_a_downgrade_is_answered_at_once() {
    let mut script = asked(Want::Shared);
    script.want(3, Want::Shared);
    script.complete(3, WordOp::AcquireShared);
    script.receive_request(1, 3);
    script.complete(1, WordOp::Downgrade);
    script.receive_request(1, 2);
    script.receive_answer(2, 1, Answer::Released);
    script.complete(2, WordOp::Poll);
    assert_eq!(script.hold(2), Hold::Shared);
    script.run_down();
}

#[test]
fn a_writer_sends_a_request_to_a_waiting_reader_that_does_not_know_yet_that_it_owns() {
    let mut script = asked(Want::Shared);
    script.evict(1);
    script.complete(1, WordOp::ReleaseExclusive);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.receive_request(2, 3);
    script.receive_answer(3, 2, Answer::Dropped);
    script.run_down();
    assert_eq!(script.hold(3), Hold::Exclusive);
}

/// Node 3's request reaches node 1 while node 1 hands the line over to node 2.
fn asked_during_a_hand_over() -> Script {
    let mut script = asked(Want::Exclusive);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.receive_request(1, 2);
    script.receive_request(1, 3);
    script.complete(1, WordOp::HandOver(node(2)));
    script
}

#[test]
fn a_request_that_meets_a_hand_over_is_sent_on_to_the_receiver() {
    let mut script = asked_during_a_hand_over();
    script.receive_grant(2);
    script.receive_settled(2);
    script.receive_request(2, 3);
    script.access(2);
    assert_eq!(script.flying(2), Some(WordOp::HandOver(node(3))));
    script.receive_grant(3);
    assert_eq!(script.hold(3), Hold::Exclusive);
    script.run_down();
}

#[test]
fn a_request_that_is_sent_on_and_overtakes_the_grant_is_dropped() {
    let mut script = asked_during_a_hand_over();
    script.receive_request(2, 3);
    script.receive_answer(3, 1, Answer::Dropped);
    assert!(script.is_pausing(3));
    script.receive_grant(2);
    script.run_down();
    assert_eq!(script.hold(3), Hold::Exclusive);
}

/// The request is late: the receiver has used the line and released it already.
#[test]
fn a_request_that_is_sent_on_and_comes_after_the_release_is_dropped() {
    let mut script = asked_during_a_hand_over();
    script.receive_grant(2);
    script.receive_settled(2);
    script.access(2);
    script.evict(2);
    script.complete(2, WordOp::ReleaseExclusive);
    script.receive_request(2, 3);
    script.receive_answer(3, 1, Answer::Dropped);
    assert_eq!(script.messages(), 0, "it was one question, and has one answer");
    script.run_down();
    assert_eq!(script.hold(3), Hold::Exclusive);
}

/// The request is late: the receiver's release of the line is in flight.
#[test]
fn a_request_that_is_sent_on_and_meets_a_release_is_answered_after_it() {
    let mut script = asked_during_a_hand_over();
    script.receive_grant(2);
    script.receive_settled(2);
    script.access(2);
    script.evict(2);
    script.receive_request(2, 3);
    assert_eq!(script.messages(), 0, "the release is not complete");
    script.complete(2, WordOp::ReleaseExclusive);
    script.receive_answer(3, 1, Answer::Released);
    script.complete(3, WordOp::AcquireExclusive);
    assert_eq!(script.hold(3), Hold::Exclusive);
    script.run_down();
}

/// The request is late: the line is on its way back, and so is the request.
#[test]
fn a_request_that_is_sent_on_twice_in_a_row_is_still_one() {
    let mut script = asked_during_a_hand_over();
    script.receive_grant(2);
    script.receive_settled(2);
    script.access(2);
    script.want(1, Want::Exclusive);
    script.complete(1, WordOp::AcquireExclusive);
    script.receive_request(2, 1);
    assert_eq!(script.flying(2), Some(WordOp::HandOver(node(1))));
    script.receive_request(2, 3);
    script.complete(2, WordOp::HandOver(node(1)));
    script.receive_grant(1);
    script.receive_settled(1);
    script.receive_request(1, 3);
    script.access(1);
    script.complete(1, WordOp::HandOver(node(3)));
    script.receive_grant(3);
    assert_eq!(script.hold(3), Hold::Exclusive);
    script.run_down();
}

#[test]
fn a_request_is_queued_while_local_code_has_the_line_reserved() {
    let mut script = asked(Want::Exclusive);
    script.reserve(1);
    script.receive_request(1, 2);
    assert!(script.is_blocked(1));
    script.evict(1);
    assert_eq!(script.flying(1), None, "what is asked for is not evicted but handed over");
    script.access(1);
    assert_eq!(script.flying(1), Some(WordOp::HandOver(node(2))));
    script.run_down();
}

#[test]
fn queued_requests_travel_with_the_line() {
    let mut script = asked(Want::Exclusive);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.reserve(1);
    script.receive_request(1, 3);
    script.receive_request(1, 2);
    script.access(1);
    assert_eq!(script.flying(1), Some(WordOp::HandOver(node(3))), "the first that came");
    script.complete(1, WordOp::HandOver(node(3)));
    script.receive_grant(3);
    script.receive_settled(3);
    script.access(3);
    // Node 2 gets it from node 3, though its request went to node 1.
    script.complete(3, WordOp::HandOver(node(2)));
    script.receive_grant(2);
    assert_eq!(script.hold(2), Hold::Exclusive);
    script.run_down();
}

/// Bug: all three nodes waited without end. Mechanism: a writer had sent requests to two sharers.
/// One sharer gave the writer the line, and the writer's other request travelled in the grant. The
/// writer serves no request before all its own requests are answered. So its own travelling request
/// was never answered. Fix: the giver of a line answers the receiver's other requests.
#[test]
fn a_receivers_own_requests_do_not_travel_to_it() {
    let mut script = Script::new(3);
    script.obtain(1, Want::Shared);
    script.obtain(2, Want::Shared);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    // Node 1 releases and wants the line again, while node 2 upgrades.
    script.evict(1);
    script.complete(1, WordOp::ReleaseShared);
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::Upgrade);
    script.want(1, Want::Exclusive);
    script.complete(1, WordOp::AcquireExclusive);
    script.receive_request(2, 1);
    script.receive_request(2, 3);
    script.access(2);
    assert_eq!(script.flying(2), Some(WordOp::HandOver(node(1))));
    // Node 3's request to node 1 reaches node 1 while node 3's request to node 2 is there as well.
    script.receive_grant(1);
    script.receive_request(1, 3);
    script.run_down();
    assert_eq!(script.hold(3), Hold::Exclusive);
}

/// Bug: a line came to rest with the priority of a refused request, and its next request had that
/// priority. Mechanism: one owner refused while another gave the line. The last answer raised the
/// priority of a want that had been met. Fix: only the priority of an unmet want rises.
#[test]
fn a_want_that_was_met_and_refused_leaves_no_priority() {
    let mut script = Script::new(3);
    script.obtain(1, Want::Shared);
    script.obtain(2, Want::Shared);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.evict(1);
    script.complete(1, WordOp::ReleaseShared);
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::Upgrade);
    script.access(2);
    script.receive_request(2, 3);
    script.receive_request(1, 3);
    script.receive_grant(3);
    script.receive_answer(3, 1, Answer::Dropped);
    // One of the properties is that the machine can be dropped now.
    script.run_down();
}
