//! Single runs: what each protocol does where messages overtake each other.

use latchwork_directory::{Hold, Kind, Message, Party, Rules, Want};

use crate::script::Run;
use crate::setting::{Client, Step};
use crate::world::id;

const NOTHING: Hold = Hold::Nothing;
const SHARED: Hold = Hold::Shared;
const EXCLUSIVE: Hold = Hold::Exclusive;

#[test]
fn an_invalidation_that_arrives_before_its_grant() {
    let mut run = Run::new(Rules::SCALESTORE, 2);
    run.read(0);
    run.at_home(0);
    run.write(1);
    run.at_home(1);
    run.home_answers(1);
    run.directive(0, Kind::Invalidate);
    assert_eq!(run.holds(), [NOTHING, NOTHING], "the writer waits for the reader");
    run.home_answers(0);
    assert_eq!(run.holds(), [SHARED, NOTHING], "the reader uses its copy once");
    run.step(Step::Use(0));
    assert_eq!(run.holds(), [NOTHING, NOTHING]);
    run.settle();
    assert_eq!(run.holds(), [NOTHING, EXCLUSIVE]);
}

#[test]
fn a_node_requests_the_line_again_when_its_eviction_is_answered() {
    let mut run = Run::new(Rules::SCALESTORE, 1);
    run.write(0);
    run.settle();
    run.step(Step::Evict(0));
    run.read(0);
    assert_eq!(run.world.wire.len(), 1, "the request could overtake the eviction");
    run.at_home(0);
    run.home_answers(0);
    run.settle();
    assert_eq!(run.holds(), [SHARED]);
}

#[test]
fn a_holder_that_evicts_while_a_reader_asks_it_for_a_copy() {
    let mut run = Run::new(Rules::SCALESTORE, 2);
    run.write(0);
    run.settle();
    run.read(1);
    run.at_home(1);
    run.step(Step::Evict(0));
    run.home_answers(1);
    run.directive(0, Kind::Copy);
    assert_eq!(run.holds(), [NOTHING, NOTHING], "the answer to the eviction comes first");
    run.at_home(0);
    run.home_answers(0);
    assert_eq!(run.holds(), [SHARED, NOTHING], "the home declined, and the copy is served");
    run.settle();
    assert_eq!(run.holds(), [SHARED, SHARED]);
}

#[test]
fn the_source_of_a_copy_is_taken_by_a_writer_before_the_reader_has_asked() {
    let mut run = Run::new(Rules::SCALESTORE, 3);
    run.write(0);
    run.settle();
    run.read(1);
    run.at_home(1);
    run.write(2);
    run.at_home(2);
    run.home_answers(2);
    run.directive(0, Kind::Move);
    assert_eq!(run.holds(), [EXCLUSIVE, NOTHING, NOTHING], "the reader comes first");
    run.home_answers(1);
    run.directive(0, Kind::Copy);
    run.directive(1, Kind::Invalidate);
    run.line(2);
    assert_eq!(run.holds(), [NOTHING; 3], "the writer waits for the reader, which waits for bytes");
    run.line(1);
    assert_eq!(run.holds(), [NOTHING, SHARED, NOTHING]);
    run.settle();
    assert_eq!(run.holds(), [NOTHING, NOTHING, EXCLUSIVE]);
}

#[test]
fn two_sharers_upgrade_at_one_time() {
    for rules in [Rules::SCALESTORE, Rules::GAM] {
        let mut run = Run::new(rules, 2);
        (0..2).for_each(|node| run.read(node));
        run.settle();
        (0..2).for_each(|node| run.write(node));
        run.at_home(1);
        run.at_home(0);
        run.settle();
        assert_eq!(run.holds(), [EXCLUSIVE, NOTHING], "in the order at the home");
    }
}

#[test]
fn a_source_upgrades_when_it_has_served_the_reader_before() {
    let mut run = Run::new(Rules::SCALESTORE, 3);
    run.write(0);
    run.settle();
    run.read(1);
    run.settle();
    run.read(2);
    run.at_home(2);
    run.write(0);
    run.at_home(0);
    run.home_answers(0);
    run.directive(1, Kind::Invalidate);
    run.deliver(|packet| {
        matches!(packet.message, Message::Done { .. }) && packet.from == Party::Node(id(1))
    });
    run.directive(2, Kind::Invalidate);
    assert_eq!(run.holds(), [SHARED, NOTHING, NOTHING], "the reader 2 has no copy yet");
    run.home_answers(2);
    run.directive(0, Kind::Copy);
    run.line(2);
    run.step(Step::Use(2));
    run.settle();
    assert_eq!(run.holds(), [EXCLUSIVE, NOTHING, NOTHING]);
}

/// The home can no longer be reached, and the node knows that its request was not sent. The line is
/// at rest, also beside a copy, and a later access requests it again.
#[test]
fn a_request_that_was_not_sent_leaves_the_line_at_rest() {
    for rules in [Rules::SCALESTORE, Rules::GAM] {
        let mut run = Run::new(rules, 2);
        run.read(0);
        run.settle();
        for node in 0..2 {
            run.write(node);
            run.is_unsent(node);
            assert!(run.world.nodes[node].line.is_at_rest());
        }
        assert_eq!(run.holds(), [SHARED, NOTHING]);
        run.write(1);
        run.settle();
        assert_eq!(run.holds(), [NOTHING, EXCLUSIVE]);
    }
}

/// Five nodes request the line in turn, and each asks the one before it.
fn chain_of_five(clients: &[Client; 5]) -> Run {
    let mut run = Run::of(Rules::SCALESTORE, clients);
    for node in 0..5 {
        run.write(node);
        run.at_home(node);
    }
    for node in (1..5).rev() {
        run.home_answers(node);
        run.directive(node - 1, Kind::Move);
    }
    run
}

#[test]
fn a_chain_of_five_of_which_one_is_dropped() {
    let mut run = chain_of_five(&[Client::writer().dropping(); 5]);
    run.step(Step::Drop(2));
    run.home_answers(0);
    for node in 0..5 {
        if node > 0 {
            run.line(node);
        }
        if node == 2 {
            assert_eq!(run.holds(), [NOTHING; 5], "passed on at once");
        } else {
            run.step(Step::Use(node));
        }
    }
    assert_eq!(run.holds(), [NOTHING, NOTHING, NOTHING, NOTHING, EXCLUSIVE]);
}

#[test]
fn a_chain_of_five_of_which_one_is_late() {
    let mut run = Run::of(Rules::SCALESTORE, &[Client::writer(); 5]);
    for node in 0..5 {
        run.write(node);
        run.at_home(node);
    }
    for node in [0, 1, 3, 4] {
        run.home_answers(node);
    }
    for node in [0, 2, 3] {
        run.directive(node, Kind::Move);
    }
    run.step(Step::Use(0));
    run.line(1);
    run.step(Step::Use(1));
    assert_eq!(
        run.holds(),
        [NOTHING, EXCLUSIVE, NOTHING, NOTHING, NOTHING],
        "node 2 has not asked"
    );
    run.home_answers(2);
    run.directive(1, Kind::Move);
    for node in 2..5 {
        run.line(node);
        run.step(Step::Use(node));
    }
    assert_eq!(run.holds(), [NOTHING, NOTHING, NOTHING, NOTHING, EXCLUSIVE]);
}

#[test]
fn a_lock_in_the_middle_of_a_chain_ends_the_accesses_behind_it() {
    let (waits, no_wait) = (Client::writer().locking(), Client::writer().no_wait());
    let mut run = chain_of_five(&[waits, waits, waits, no_wait, no_wait]);
    run.home_answers(0);
    run.step(Step::Use(0));
    run.line(1);
    run.step(Step::Lock(1, Want::Exclusive));
    run.step(Step::Use(1));
    run.settle();
    let waiting: Vec<_> = run.world.nodes.iter().map(|node| node.wanted.is_some()).collect();
    assert_eq!(waiting, [false, false, true, false, false], "only node 2 waits for locks");
    assert_eq!(run.holds(), [NOTHING, EXCLUSIVE, NOTHING, NOTHING, NOTHING]);
    run.step(Step::Unlock(1));
    run.settle();
    assert_eq!(
        run.holds(),
        [NOTHING, NOTHING, NOTHING, NOTHING, EXCLUSIVE],
        "all kept their places"
    );
}
