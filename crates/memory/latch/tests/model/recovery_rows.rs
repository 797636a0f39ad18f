//! What becomes of each state in which a node may die: single runs. Node 3 dies. Nodes 1 and 2
//! live. After each step all properties are checked (`script.rs`). At the end the line is at rest.

use latchwork_latch::{Hold, LatchWord, NodeSet, Want, WordOp};

use crate::frame::Bytes;
use crate::recovery::Stride;
use crate::script::{Script, node};

const DEAD: u8 = 3;

fn three() -> Script {
    Script::new(3).recovering(DEAD)
}

fn die(script: &mut Script) {
    script.die_to_be_recovered(DEAD);
}

/// The recovery up to the end of the round. The field of the dead node still stands.
fn close(script: &mut Script) {
    script.stride(Stride::Fence);
    script.close_all();
}

fn inherit(word: LatchWord) -> WordOp {
    WordOp::Inherit(word)
}

/// The word in which the dead node is the holder, and these nodes wait.
fn of_the_dead(bits: &[u8]) -> LatchWord {
    let bits = bits.iter().map(|&id| LatchWord::shared_by(node(id)).bits()).sum();
    LatchWord::exclusively(node(DEAD)).plus(bits)
}

/// Node `id` owns the line, has written it, and `to` asks for it.
fn owned_and_asked(script: &mut Script, id: u8, to: u8, want: Want) {
    script.obtain(id, Want::Exclusive);
    script.reserve(id);
    script.write(id);
    script.want(to, want);
    let op = match want {
        Want::Shared => WordOp::AcquireShared,
        Want::Exclusive => WordOp::AcquireExclusive,
    };
    script.complete(to, op);
    script.receive_request(id, to);
}

/// The dead node gives the line to node 1, and its operation is in flight.
fn given(script: &mut Script) {
    owned_and_asked(script, DEAD, 1, Want::Exclusive);
    script.access(DEAD);
    assert_eq!(script.flying(DEAD), Some(WordOp::HandOver(node(1))));
}

#[test]
fn the_bit_of_a_dead_sharer_is_cleared_at_once() {
    let mut script = three();
    script.obtain(1, Want::Shared);
    script.obtain(DEAD, Want::Shared);
    die(&mut script);
    script.stride(Stride::Fence);
    script.stride(Stride::MendBit);
    script.expect_word(0, &[1]);
    script.run_down();
}

#[test]
fn the_request_of_a_dead_reader_is_forgotten() {
    let mut script = three();
    owned_and_asked(&mut script, 1, DEAD, Want::Shared);
    assert!(script.is_remembering(1));
    die(&mut script);
    script.stride(Stride::Fence);
    script.stride(Stride::MendBit);
    script.expect_word(1, &[]);
    script.close_all();
    assert!(!script.is_remembering(1));
    script.access(1);
    assert_eq!((script.flying(1), script.hold(1)), (None, Hold::Exclusive));
    script.run_down();
}

/// The write of the dead node is lost, because no other node has seen it.
#[test]
fn the_line_of_a_dead_owner_returns_to_what_others_know() {
    let mut script = three();
    script.obtain(1, Want::Exclusive);
    script.write(1);
    script.evict(1);
    script.complete(1, WordOp::ReleaseExclusive);
    script.obtain(DEAD, Want::Exclusive);
    script.write(DEAD);
    script.want(2, Want::Shared);
    script.complete(2, WordOp::AcquireShared);
    die(&mut script);
    script.stride(Stride::Fence);
    assert!(!script.may(Stride::MendField));
    script.close_all();
    script.stride(Stride::MendField);
    script.expect_word(0, &[2]);
    script.retry(2);
    script.complete(2, WordOp::Poll);
    assert_eq!(script.hold(2), Hold::Shared);
    script.run_down();
}

#[test]
fn an_eviction_that_was_cut_off_is_done_for_the_dead() {
    let mut script = three();
    script.obtain(DEAD, Want::Exclusive);
    script.write(DEAD);
    script.evict(DEAD);
    script.progress(DEAD);
    assert_eq!(script.memory(), Bytes::Latest, "written back");
    die(&mut script);
    close(&mut script);
    script.expect_word(DEAD, &[]);
    script.stride(Stride::MendField);
    script.expect_word(0, &[]);
    script.run_down();
}

#[test]
fn an_eviction_that_took_effect_leaves_nothing_to_do() {
    let mut script = three();
    script.obtain(DEAD, Want::Exclusive);
    script.write(DEAD);
    script.evict(DEAD);
    script.land(DEAD, WordOp::ReleaseExclusive);
    die(&mut script);
    close(&mut script);
    script.stride(Stride::Forget);
    script.expect_word(0, &[]);
    script.run_down();
}

#[test]
fn a_grant_of_the_dead_whose_hand_over_took_effect_is_settled() {
    let mut script = three();
    given(&mut script);
    script.receive_grant(1);
    script.land(DEAD, WordOp::HandOver(node(1)));
    die(&mut script);
    close(&mut script);
    script.complete(1, inherit(of_the_dead(&[])));
    script.expect_word(1, &[]);
    script.run_down();
    assert_eq!(script.hold(1), Hold::Exclusive);
}

#[test]
fn the_receiver_of_a_grant_takes_the_place_of_its_dead_giver() {
    let mut script = three();
    given(&mut script);
    script.receive_grant(1);
    script.access(1);
    script.write(1);
    die(&mut script);
    script.want(2, Want::Shared);
    script.complete(2, WordOp::AcquireShared);
    close(&mut script);
    assert!(!script.may(Stride::MendField), "node 1 has not claimed");
    script.complete(1, inherit(of_the_dead(&[])));
    script.complete(1, inherit(of_the_dead(&[2])));
    script.expect_word(1, &[2]);
    assert_eq!((script.hold(1), script.bytes(1)), (Hold::Exclusive, Bytes::Latest));
    script.run_down();
}

#[test]
fn a_node_whose_grant_is_lost_finds_itself_in_the_word() {
    let mut script = three();
    given(&mut script);
    script.land(DEAD, WordOp::HandOver(node(1)));
    die(&mut script);
    close(&mut script);
    script.expect_word(1, &[]);
    script.complete(1, WordOp::Poll);
    assert_eq!(script.hold(1), Hold::Exclusive);
    script.run_down();
}

#[test]
fn a_node_whose_grant_and_hand_over_are_lost_asks_again() {
    let mut script = three();
    given(&mut script);
    die(&mut script);
    close(&mut script);
    script.expect_word(DEAD, &[]);
    script.complete(1, WordOp::Poll);
    script.stride(Stride::MendField);
    script.complete(1, WordOp::AcquireExclusive);
    assert_eq!(script.hold(1), Hold::Exclusive);
    script.run_down();
}

/// The dead node gave two nodes copies, and its downgrade did not take effect. One of them writes
/// the line back.
#[test]
fn what_readers_have_of_a_dead_owner_stays() {
    let mut script = three();
    owned_and_asked(&mut script, DEAD, 1, Want::Shared);
    script.want(2, Want::Shared);
    script.complete(2, WordOp::AcquireShared);
    script.receive_request(DEAD, 2);
    script.access(DEAD);
    [1, 2].into_iter().for_each(|id| script.receive_grant(id));
    [1, 2].into_iter().for_each(|id| script.access(id));
    die(&mut script);
    close(&mut script);
    assert_eq!(script.memory(), Bytes::Stale);
    let both = of_the_dead(&[1, 2]);
    script.complete(1, inherit(of_the_dead(&[])));
    script.complete(1, inherit(both));
    script.expect_word(1, &[2]);
    script.complete(2, inherit(of_the_dead(&[])));
    assert_eq!(script.flying(2), Some(inherit(of_the_dead(&[]))), "looks again");
    script.complete(1, WordOp::Downgrade);
    script.expect_word(0, &[1, 2]);
    assert_eq!(script.memory(), Bytes::Latest);
    script.run_down();
    assert_eq!([1, 2].map(|id| script.hold(id)), [Hold::Shared; 2]);
}

#[test]
fn what_a_living_giver_gave_to_the_dead_is_in_memory() {
    let mut script = three();
    owned_and_asked(&mut script, 1, DEAD, Want::Exclusive);
    script.access(1);
    die(&mut script);
    script.stride(Stride::Fence);
    script.stride(Stride::LetGo { at: 0 });
    script.stride(Stride::LetGo { at: 1 });
    assert!(!script.may(Stride::Mark { at: 0 }), "the hand-over is in flight");
    script.complete(1, WordOp::HandOver(node(DEAD)));
    script.expect_word(DEAD, &[]);
    assert_ne!(script.memory(), Bytes::Stale);
    [0, 1].into_iter().for_each(|at| script.stride(Stride::Mark { at }));
    [0, 1].into_iter().for_each(|at| script.stride(Stride::Close { at }));
    script.stride(Stride::MendField);
    script.obtain(2, Want::Exclusive);
    script.run_down();
}

fn pledged_to_the_dead() -> Script {
    let mut script = three().with_takeover();
    script.obtain(1, Want::Shared);
    script.want(DEAD, Want::Exclusive);
    script.complete(DEAD, WordOp::AcquireExclusive);
    script.receive_request(1, DEAD);
    script.receive_pledge(DEAD, 1);
    script
}

#[test]
fn a_pledge_that_the_dead_took_is_found_in_the_word() {
    let mut script = pledged_to_the_dead();
    script.land(DEAD, WordOp::TakeOver(NodeSet::of(node(1))));
    die(&mut script);
    close(&mut script);
    script.complete(1, WordOp::Poll);
    assert_eq!((script.hold(1), script.is_pledged(1)), (Hold::Nothing, false));
    script.stride(Stride::MendField);
    script.run_down();
}

#[test]
fn a_pledge_that_the_dead_did_not_take_ends() {
    let mut script = pledged_to_the_dead();
    die(&mut script);
    close(&mut script);
    script.complete(1, WordOp::Poll);
    assert_eq!((script.hold(1), script.is_pledged(1)), (Hold::Shared, false));
    script.run_down();
}

/// Node 1 has the pledge of the dead node, whose bit is cleared, or not.
#[test]
fn a_takeover_that_names_the_dead_works_or_is_refused() {
    for mended in [false, true] {
        let mut script = three().with_takeover();
        script.obtain(DEAD, Want::Shared);
        script.want(1, Want::Exclusive);
        script.complete(1, WordOp::AcquireExclusive);
        script.receive_request(DEAD, 1);
        script.receive_pledge(1, DEAD);
        die(&mut script);
        script.stride(Stride::Fence);
        if mended {
            script.stride(Stride::MendBit);
        }
        script.close_all();
        script.complete(1, WordOp::TakeOver(NodeSet::of(node(DEAD))));
        let hold = if mended { Hold::Nothing } else { Hold::Exclusive };
        assert_eq!(script.hold(1), hold);
        script.run_down();
        assert_eq!(script.hold(1), Hold::Exclusive);
    }
}

/// Node 1 asked node 2, which gave the line to the dead node, with the request.
#[test]
fn a_request_that_travelled_to_the_dead_is_closed_by_the_round() {
    let mut script = three();
    owned_and_asked(&mut script, 2, DEAD, Want::Exclusive);
    script.want(1, Want::Exclusive);
    script.complete(1, WordOp::AcquireExclusive);
    script.receive_request(2, 1);
    script.access(2);
    script.complete(2, WordOp::HandOver(node(DEAD)));
    script.receive_grant(DEAD);
    die(&mut script);
    close(&mut script);
    script.complete(1, WordOp::Poll);
    script.stride(Stride::MendField);
    script.run_down();
    assert_eq!(script.hold(1), Hold::Exclusive);
}
