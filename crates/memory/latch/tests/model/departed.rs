//! Nodes that die at any time, and requests to them that were not sent. The requester gives its
//! access up, and its line is as before. The file has single runs, and searches of all runs. It
//! also has counterexamples, for nodes that do less than the machine does.
//!
//! For living nodes the same properties hold as without deaths. `deaths.rs` states where a node
//! need not get the line.

use latchwork_latch::{Answer, Hold, Want, WordOp};

use crate::client::Client;
use crate::discipline::{holds, is_live};
use crate::refuted::is_refuted;
use crate::script::Script;
use crate::setting::Setting;
use crate::world::Breach;

fn both(takeover: bool) -> Script {
    let script = Script::new(3);
    if takeover { script.with_takeover() } else { script }
}

/// Nodes 1 to 3 share the line, and node 3 dies. Node 1 wants to write and has sent requests to
/// both.
fn upgrading(takeover: bool) -> Script {
    let mut script = both(takeover);
    (1..=3).for_each(|id| script.obtain(id, Want::Shared));
    script.die(3);
    script.want(1, Want::Exclusive);
    script.complete(1, WordOp::Upgrade);
    script
}

#[test]
fn a_node_that_gives_up_an_upgrade_keeps_its_copy_and_leaves_the_others_theirs() {
    let mut script = upgrading(true);
    script.receive_request(2, 1);
    script.receive_pledge(1, 2);
    script.refuse(3, 1);
    assert_eq!((script.hold(1), script.is_wanted(1)), (Hold::Shared, false));
    script.receive_gave_up(2, 1);
    assert_eq!(script.hold(2), Hold::Shared);
    script.expect_word(0, &[1, 2, 3]);
    script.run_down();
}

#[test]
fn a_pledge_that_comes_after_the_want_was_given_up_goes_back() {
    let mut script = upgrading(true);
    script.refuse(3, 1);
    script.receive_request(2, 1);
    script.receive_pledge(1, 2);
    script.receive_gave_up(2, 1);
    assert_eq!((script.hold(1), script.hold(2)), (Hold::Shared, Hold::Shared));
    script.run_down();
}

/// Bug: both nodes queued the other's request until their own requests were answered, without end.
/// Mechanism: a node that gave up its access counted as one that does not upgrade, though its
/// request was open. Fix: the node keeps its place in the order until it has its answers.
#[test]
fn of_two_nodes_that_give_up_their_upgrades_one_gives_way() {
    for takeover in [false, true] {
        let mut script = upgrading(takeover);
        script.want(2, Want::Exclusive);
        script.complete(2, WordOp::Upgrade);
        script.refuse(3, 1);
        script.refuse(3, 2);
        script.receive_request(2, 1);
        script.receive_answer(1, 2, Answer::Dropped);
        script.receive_request(1, 2);
        script.run_down();
        assert_eq!([1, 2].map(|id| script.is_wanted(id)), [false; 2]);
    }
}

/// A node with a high priority sends a request, gives up, and wants the line again before the
/// answer. It continues with the priority of its request.
#[test]
fn a_node_that_wants_the_line_again_before_its_answers_keeps_its_position_in_the_order() {
    let mut script = both(false);
    [1, 2].into_iter().for_each(|id| script.obtain(id, Want::Shared));
    [1, 2].into_iter().for_each(|id| script.want(id, Want::Exclusive));
    [1, 2].into_iter().for_each(|id| script.complete(id, WordOp::Upgrade));
    script.receive_request(2, 1);
    script.receive_answer(1, 2, Answer::Dropped);
    script.obtain(3, Want::Shared);
    script.die(3);
    script.retry(1);
    script.complete(1, WordOp::Upgrade);
    script.refuse(3, 1);
    script.want(1, Want::Exclusive);
    script.receive_request(1, 2);
    script.receive_answer(2, 1, Answer::Dropped);
    script.receive_request(2, 1);
    script.run_down();
}

/// The node sent requests to two sharers, without a copy. One sharer has died. The other owns the
/// line by now, and hands it over.
#[test]
fn a_line_that_comes_after_the_want_was_given_up_is_kept_and_handed_on() {
    let mut script = both(false);
    [2, 3].into_iter().for_each(|id| script.obtain(id, Want::Shared));
    script.want(1, Want::Exclusive);
    script.complete(1, WordOp::AcquireExclusive);
    script.evict(3);
    script.complete(3, WordOp::ReleaseShared);
    script.die(3);
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::Upgrade);
    script.access(2);
    script.refuse(3, 1);
    script.receive_request(2, 1);
    script.receive_grant(1);
    assert_eq!((script.hold(1), script.is_wanted(1)), (Hold::Exclusive, false));
    script.want(2, Want::Exclusive);
    script.run_down();
}

// ---- what holds ---------------------------------------------------------------------------------

fn one_dies(clients: &[Client], priority_max: u8) -> [(&'static str, Setting); 2] {
    let setting = Setting::discipline(clients, priority_max).dying(1);
    [("releases", setting.clone()), ("takeover", setting.with_takeover())]
}

fn is_live_with(name: &str, clients: &[Client], priority_max: u8) {
    for (how, setting) in one_dies(clients, priority_max) {
        is_live(&format!("{name}, {how}"), &setting);
    }
}

#[test]
fn one_of_two_dies() {
    let clients = [Client::both(1), Client::both(2).mortal()];
    for (how, setting) in one_dies(&clients, 0) {
        holds(&format!("one of two dies, {how}"), &setting);
    }
    is_live_with("one of two dies, priorities", &clients, 1);
}

/// Each of two nodes may have sent the other node a request before both give up.
#[test]
fn a_reader_dies_beside_two_upgrading_nodes() {
    let [_, (how, setting)] = one_dies(&upgraders(), 0);
    is_live(&format!("a reader dies beside two of both, {how}"), &setting);
}

#[test]
#[ignore = "half a million states: seconds"]
fn a_reader_dies_beside_two_nodes_that_upgrade_and_release() {
    let [(how, setting), _] = one_dies(&upgraders(), 0);
    is_live(&format!("a reader dies beside two of both, {how}"), &setting);
}

fn upgraders() -> [Client; 3] {
    let clients = [Client::both(1), Client::both(2), Client::reader(3).mortal()];
    clients.map(|client| client.keeping().patient())
}

#[test]
fn a_reader_dies_beside_two_writers() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3).mortal()];
    is_live_with("a reader dies beside two writers", &clients.map(Client::keeping), 0);
}

#[test]
fn a_writer_dies() {
    let clients = [Client::writer(1).mortal(), Client::writer(2), Client::reader(3)];
    is_live_with("a writer dies", &clients.map(Client::keeping), 0);
}

#[test]
#[ignore = "four million states: minutes"]
fn a_reader_dies_beside_two_upgrading_nodes_with_priorities() {
    is_live_with("a reader dies beside two of both, priorities", &upgraders(), 1);
}

#[test]
#[ignore = "half a million states: seconds"]
fn one_dies_beside_two_evicting_nodes() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3).mortal()];
    is_live_with("a reader dies beside two writers that evict", &clients, 0);
    let clients = [Client::writer(1).mortal(), Client::writer(2), Client::reader(3)];
    is_live_with("a writer that evicts dies", &clients, 0);
    let writers = [Client::writer(1).mortal(), Client::writer(2), Client::writer(3)];
    for (how, setting) in one_dies(&writers, 0) {
        is_live(&format!("one of three writers dies, sent on, {how}"), &setting.passing_on());
    }
}

#[test]
#[ignore = "four million states: minutes"]
fn one_of_three_nodes_that_read_and_write_dies() {
    let clients = [Client::both(1).mortal(), Client::both(2), Client::both(3)];
    let clients = clients.map(|client| client.keeping().patient());
    is_live_with("one of three of both dies", &clients, 0);
}

// ---- what does not hold -------------------------------------------------------------------------

fn breaching(breach: Breach) -> Setting {
    let setting = Setting::discipline(&upgraders(), 0).with_takeover().dying(1);
    Setting { breach: Some(breach), ..setting }
}

/// A node that still waits for the answer keeps its line from rest for ever, and loses its frame.
#[test]
fn a_node_that_keeps_waiting_for_the_answer_waits_permanently() {
    never_rests(Breach::UnasksNobody);
}

#[test]
fn a_node_that_keeps_pledges_for_an_abandoned_want_locks_the_pledgers_out() {
    never_rests(Breach::ForgetsGaveUp);
}

fn never_rests(breach: Breach) {
    let setting = breaching(breach);
    let (property, steps) = crate::graph::search(&setting).wrong.expect("a state without a way on");
    println!("{}", crate::story::tell(&setting, &steps));
    assert_eq!(property, "all wishes can be met");
}

/// A node that waits for no answer gives its frame to another line. Living nodes may still write
/// into this frame, or wait for the node's report.
#[test]
fn a_node_that_forgets_its_requests_to_the_living_is_not_at_rest() {
    is_refuted(&breaching(Breach::UnasksAll), "rest is rest");
}

#[test]
fn a_node_that_forgets_its_copy_leaves_a_bit_that_no_node_clears() {
    is_refuted(&breaching(Breach::ForgetsItsCopy), "the word is true");
}
