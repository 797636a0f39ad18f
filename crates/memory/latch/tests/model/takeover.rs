//! Shared lines taken over by pledge: single runs, searches of all runs, and counterexamples for
//! pledges that do not bind.

use latchwork_latch::{Answer, Hold, NodeSet, Want, WordOp};

use crate::client::Client;
use crate::discipline::{holds, is_live};
use crate::frame::Bytes;
use crate::refuted::{is_refuted, refute};
use crate::script::{Script, node};
use crate::setting::{Demand, Setting};
use crate::world::Breach;

fn nodes(ids: &[u8]) -> NodeSet {
    ids.iter().fold(NodeSet::EMPTY, |set, &id| set.with(node(id)))
}

/// Nodes 1 to `sharers` share the line. One more node wants to write it and has sent requests to
/// them.
fn met(sharers: u8) -> (Script, u8) {
    let writer = sharers + 1;
    let mut script = Script::new(writer).with_takeover();
    (1..=sharers).for_each(|id| script.obtain(id, Want::Shared));
    script.want(writer, Want::Exclusive);
    script.complete(writer, WordOp::AcquireExclusive);
    (1..=sharers).for_each(|id| script.receive_request(id, writer));
    (script, writer)
}

#[test]
fn a_writer_takes_the_line_from_all_sharers_with_one_operation() {
    let (mut script, writer) = met(3);
    for sharer in 1..=3 {
        assert_eq!((script.hold(sharer), script.flying(sharer)), (Hold::Nothing, None));
        script.receive_pledge(writer, sharer);
    }
    script.expect_word(0, &[1, 2, 3]);
    script.complete(writer, WordOp::TakeOver(nodes(&[1, 2, 3])));
    script.expect_word(writer, &[]);
    assert_eq!(script.hold(writer), Hold::Exclusive);
    script.write(writer);
    (1..=3).for_each(|sharer| script.receive_taken(sharer, writer));
    assert_eq!(script.messages(), 0);
    script.run_down();
}

#[test]
fn a_node_that_upgrades_keeps_its_copy_and_takes_the_others_over() {
    let mut script = Script::new(3).with_takeover();
    (1..=3).for_each(|id| script.obtain(id, Want::Shared));
    script.want(2, Want::Exclusive);
    script.complete(2, WordOp::Upgrade);
    for sharer in [1, 3] {
        script.receive_request(sharer, 2);
        script.receive_pledge(2, sharer);
    }
    assert_eq!(script.hold(2), Hold::Shared);
    script.complete(2, WordOp::UpgradeOver(nodes(&[1, 3])));
    script.expect_word(2, &[]);
    assert_eq!(script.hold(2), Hold::Exclusive);
    script.run_down();
}

#[test]
fn a_reader_that_joined_gets_a_request_too_and_the_pledges_stand() {
    let (mut script, writer) = {
        let mut script = Script::new(3).with_takeover();
        script.obtain(1, Want::Shared);
        script.want(2, Want::Exclusive);
        script.complete(2, WordOp::AcquireExclusive);
        script.receive_request(1, 2);
        (script, 2)
    };
    script.obtain(3, Want::Shared);
    script.receive_pledge(writer, 1);
    script.complete(writer, WordOp::TakeOver(nodes(&[1])));
    script.expect_word(0, &[1, 3]);
    assert!(script.is_pledged(1) && !script.is_pausing(writer));
    script.receive_request(3, writer);
    script.receive_pledge(writer, 3);
    script.complete(writer, WordOp::TakeOver(nodes(&[1, 3])));
    assert_eq!(script.hold(writer), Hold::Exclusive);
    script.run_down();
}

/// A pledger that wants the line back waits for the report, then sends requests like any other
/// node.
#[test]
fn a_pledger_wants_its_line_back_only_after_the_report() {
    let (mut script, writer) = met(1);
    script.want(1, Want::Shared);
    assert_eq!(script.flying(1), None);
    script.receive_pledge(writer, 1);
    script.complete(writer, WordOp::TakeOver(nodes(&[1])));
    script.write(writer);
    script.access(writer);
    assert_eq!(script.flying(1), None, "the word has its bit no more, and it does not know");
    script.receive_taken(1, writer);
    script.complete(1, WordOp::AcquireShared);
    script.receive_request(writer, 1);
    script.receive_grant(1);
    assert_eq!(script.memory(), Bytes::Stale, "not written back yet");
    script.run_down();
}

/// Node 1 refuses node 3 and obtains the line. Node 3 gives up the pledge of node 2.
#[test]
fn a_writer_that_is_sent_away_gives_its_pledges_up() {
    let mut script = Script::new(3).with_takeover();
    script.obtain(2, Want::Shared);
    script.want(1, Want::Shared);
    script.land(1, WordOp::AcquireShared);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.receive_request(2, 3);
    script.receive_pledge(3, 2);
    script.receive_request(1, 3);
    script.receive_answer(3, 1, Answer::Dropped);
    assert!(script.is_pausing(3) && script.is_pledged(2));
    script.want(2, Want::Shared);
    script.receive_gave_up(2, 3);
    assert_eq!(script.hold(2), Hold::Shared);
    assert_eq!(script.flying(2), None, "no operation on the word");
    script.run_down();
}

/// Nodes 2 and 3 upgrade. Node 1, which is about to read, refuses both. Node 2 backs off, pledges
/// to node 3, and gets its copy back.
fn refused_and_pledged() -> Script {
    let mut script = Script::new(3).with_takeover();
    [2, 3].into_iter().for_each(|id| script.obtain(id, Want::Shared));
    script.want(1, Want::Shared);
    script.land(1, WordOp::AcquireShared);
    for writer in [2, 3] {
        script.want(writer, Want::Exclusive);
        script.complete(writer, WordOp::Upgrade);
    }
    for asked in [1, 3] {
        script.receive_request(asked, 2);
        script.receive_answer(2, asked, Answer::Dropped);
    }
    assert!(script.is_pausing(2));
    script.receive_request(2, 3);
    assert!(script.is_pledged(2));
    script.receive_pledge(3, 2);
    script.receive_request(1, 3);
    script.receive_answer(3, 1, Answer::Dropped);
    script
}

#[test]
fn a_writer_that_gets_its_pledge_back_pauses_on() {
    let mut script = refused_and_pledged();
    script.receive_gave_up(2, 3);
    assert_eq!((script.hold(2), script.flying(2)), (Hold::Shared, None));
    script.retry(2);
    assert_eq!(script.flying(2), Some(WordOp::Upgrade));
    script.run_down();
}

#[test]
fn a_pause_that_ends_under_a_pledge_is_over() {
    let mut script = refused_and_pledged();
    script.retry(2);
    assert_eq!(script.flying(2), None, "pledged");
    script.receive_gave_up(2, 3);
    assert_eq!(script.flying(2), Some(WordOp::Upgrade));
    script.run_down();
}

/// Two writers have the pledge of one sharer each, of two. The first in the order gets the line.
/// The other is refused and gives its pledge up.
#[test]
fn of_two_writers_with_half_of_the_pledges_each_one_gets_the_other_half() {
    let mut script = Script::new(4).with_takeover();
    [1, 2].into_iter().for_each(|id| script.obtain(id, Want::Shared));
    for writer in [3, 4] {
        script.want(writer, Want::Exclusive);
        script.complete(writer, WordOp::AcquireExclusive);
    }
    script.receive_request(1, 3);
    script.receive_request(2, 4);
    script.receive_request(1, 4);
    script.receive_request(2, 3);
    script.receive_pledge(3, 1);
    script.receive_pledge(4, 2);
    script.receive_answer(3, 2, Answer::Dropped);
    assert!(script.is_pausing(3));
    script.receive_gave_up(1, 3);
    assert!(script.is_pledged(1), "to the other now");
    script.receive_pledge(4, 1);
    script.complete(4, WordOp::TakeOver(nodes(&[1, 2])));
    assert_eq!(script.hold(4), Hold::Exclusive);
    script.run_down();
}

/// A writer sends a new request before its report on the last pledge has arrived.
#[test]
fn a_request_that_overtakes_the_report_waits_for_it() {
    let mut script = Script::new(3).with_takeover();
    script.obtain(1, Want::Shared);
    script.want(2, Want::Shared);
    script.land(2, WordOp::AcquireShared);
    script.want(3, Want::Exclusive);
    script.complete(3, WordOp::AcquireExclusive);
    script.receive_request(1, 3);
    script.receive_pledge(3, 1);
    script.receive_request(2, 3);
    script.receive_answer(3, 2, Answer::Dropped);
    script.retry(3);
    script.complete(3, WordOp::AcquireExclusive);
    script.receive_request(1, 3);
    assert!(script.is_pledged(1));
    script.receive_gave_up(1, 3);
    script.receive_pledge(3, 1);
    script.run_down();
}

// ---- what holds ---------------------------------------------------------------------------------

fn both(ids: &[u8]) -> Vec<Client> {
    ids.iter().copied().map(Client::both).collect()
}

fn takeover(clients: &[Client], priority_max: u8) -> Setting {
    Setting::discipline(clients, priority_max).with_takeover()
}

#[test]
fn two_nodes() {
    for priority_max in 0..=2 {
        let name = format!("takeover, two nodes, priorities to {priority_max}");
        holds(&name, &takeover(&both(&[1, 2]), priority_max));
    }
    holds("takeover, two nodes, three numbers", &numbered(0));
}

fn numbered(priority_max: u8) -> Setting {
    let mut setting = takeover(&both(&[1, 2]), priority_max);
    setting.rules.seq_modulus = 3;
    setting
}

#[test]
#[ignore = "half a million states: seconds"]
fn two_nodes_with_priorities_and_numbers() {
    holds("takeover, two nodes, three numbers, priorities", &numbered(1));
}

/// An exclusive holder that releases and does not hand over, beside sharers that pledge.
#[test]
fn two_nodes_without_forwarding() {
    let mut setting = takeover(&both(&[1, 2]), 1);
    setting.rules.forwarding = false;
    holds("takeover, two nodes, no forwarding", &setting);
    let mut equal = takeover(&both(&[1, 2]), 1);
    equal.rules.aging = false;
    holds("takeover, two nodes, no aging", &equal);
}

#[test]
fn two_readers_and_one_reader_that_also_writes() {
    let clients = [Client::both(1), Client::reader(2), Client::reader(3)];
    holds("takeover, two readers and one of both", &takeover(&clients, 1));
}

#[test]
fn one_reader_and_two_writers() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3)];
    holds("takeover, one reader and two writers", &takeover(&clients, 0));
}

#[test]
fn a_reader_that_also_writes_beside_a_writer_and_a_reader() {
    let clients = [Client::both(1), Client::writer(2), Client::reader(3)];
    let clients = clients.map(|client| client.keeping().patient());
    is_live("takeover, one of both, a writer and a reader", &takeover(&clients, 0));
}

#[test]
#[ignore = "two million states: half a minute"]
fn three_nodes_that_read_and_write() {
    let clients = [1, 2, 3].map(|id| Client::both(id).keeping().patient());
    is_live("takeover, three of both", &takeover(&clients, 0));
}

#[test]
fn connections_that_fail_under_takeovers() {
    for (priority_max, failures) in [(1, 1), (0, 3)] {
        let setting = takeover(&both(&[1, 2]), priority_max).failing(failures);
        holds(&format!("takeover, two nodes, {failures} operations fail"), &setting);
    }
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3)].map(Client::keeping);
    holds("takeover, three nodes, an operation fails", &takeover(&clients, 0).failing(1));
}

#[test]
#[ignore = "millions of states: minutes"]
fn three_nodes_that_read_and_write_and_evict() {
    holds("takeover, three of both, evicting", &takeover(&both(&[1, 2, 3]), 0));
}

#[test]
#[ignore = "a million states: half a minute"]
fn one_reader_and_two_writers_with_priorities() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3)];
    holds("takeover, one reader and two writers, priorities", &takeover(&clients, 1));
}

#[test]
#[ignore = "millions of states: minutes"]
fn two_readers_that_also_write_and_a_reader_with_priorities() {
    let clients = [Client::both(1), Client::both(2), Client::reader(3)];
    holds("takeover, one reader and two of both, priorities", &takeover(&clients, 1));
}

#[test]
#[ignore = "millions of states: minutes"]
fn connections_that_fail_under_operations_of_three_nodes() {
    let clients = [Client::writer(1), Client::both(2), Client::reader(3)].map(Client::patient);
    holds("takeover, three nodes, an operation fails", &takeover(&clients, 0).failing(1));
}

#[test]
#[ignore = "millions of states: minutes"]
fn four_nodes() {
    let readers = [Client::writer(1), Client::reader(2), Client::reader(3), Client::reader(4)];
    let readers = readers.map(Client::keeping);
    holds("takeover, three readers and one writer", &takeover(&readers, 0));
}

// ---- what does not ------------------------------------------------------------------------------

fn broken(breach: Breach, clients: &[Client], demand: Demand) -> Setting {
    Setting { breach: Some(breach), demand, ..takeover(clients, 0) }
}

/// The sender of a plain acknowledgement clears its bit, reads the line again, and so sets its bit
/// again before the writer's compare-and-swap. The word is as the writer expects it, so the writer
/// writes beside a reader.
#[test]
fn a_plain_acknowledgement_lets_a_writer_in_beside_a_reader() {
    let clients = [Client::writer(1).keeping(), Client::reader(2).keeping()];
    let setting = broken(Breach::Acknowledges, &clients, Demand::Data);
    let story = is_refuted(&setting, "one writer or many readers");
    assert!(story.contains("C2's AcquireShared: atomic lands"), "the bit came back: {story}");
    assert!(story.contains("C1's TakeOver({C2}): atomic lands"), "{story}");
}

#[test]
fn a_pledger_that_reads_its_copy_before_the_report_reads_beside_a_writer() {
    let clients = [Client::writer(1).keeping(), Client::reader(2).keeping()];
    let mut setting = Setting { demand: Demand::Data, ..takeover(&clients, 0) };
    setting.rules.binding = false;
    is_refuted(&setting, "one writer or many readers");
}

#[test]
fn a_pledger_that_releases_its_bit_itself_makes_the_word_untrue() {
    let clients = [Client::writer(1).keeping(), Client::reader(2).keeping()];
    let mut setting = broken(Breach::ReleasesItself, &clients, Demand::Everything);
    is_refuted(&setting, "no fault");
    setting.demand = Demand::Data;
    setting.clients = vec![Client::writer(1), Client::reader(2), Client::reader(3)];
    assert!(refute(&setting).is_some(), "a user would notice");
}

#[test]
fn a_writer_that_forgets_to_report_locks_its_pledgers_out() {
    let clients = [Client::writer(1), Client::reader(2), Client::reader(3)].map(Client::keeping);
    let setting = broken(Breach::ForgetsGaveUp, &clients, Demand::Everything);
    let (property, steps) = crate::graph::search(&setting).wrong.expect("a state without a way on");
    println!("{}", crate::story::tell(&setting, &steps));
    assert_eq!(property, "all wishes can be met");
}
