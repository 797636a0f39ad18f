//! Recovery from the death of one node. Every state has all properties, what a living node has read
//! or written is never undone, and from every state each living node gets the line again. Without
//! one of the rules that does not hold.

use crate::client::Client;
use crate::discipline::{holds, is_live};
use crate::refuted::is_refuted;
use crate::setting::{Demand, Setting};
use crate::world::Breach;

// ---- what holds ---------------------------------------------------------------------------------

pub(crate) fn recovering(clients: &[Client], priority_max: u8) -> [(&'static str, Setting); 2] {
    let setting = Setting::discipline(clients, priority_max).recovering();
    [("releases", setting.clone()), ("takeover", setting.with_takeover())]
}

fn recovers(name: &str, clients: &[Client], priority_max: u8) {
    for (how, setting) in recovering(clients, priority_max) {
        is_live(&format!("{name}, {how}"), &setting.up_to_names());
    }
}

const TWO: [Client; 2] = [Client::both(1), Client::both(2).mortal()];

#[test]
fn one_of_two_dies() {
    for (how, setting) in recovering(&TWO, 0) {
        holds(&format!("one of two, {how}"), &setting);
        is_live(&format!("one of two, failing, {how}"), &setting.failing(1));
    }
    recovers("one of two, priorities", &TWO, 1);
}

#[test]
fn one_of_two_that_do_not_forward_dies() {
    for (how, mut setting) in recovering(&TWO, 0) {
        setting.rules.forwarding = false;
        is_live(&format!("one of two, not forwarding, {how}"), &setting);
    }
}

#[test]
fn one_of_two_that_lock_dies() {
    let clients = TWO.map(Client::locking);
    recovers("one of two that lock", &clients, 0);
    recovers("one of two that lock and do not wait", &clients.map(Client::no_wait), 0);
}

#[test]
fn one_of_two_that_give_back_dies() {
    for (how, mut setting) in recovering(&TWO, 1) {
        setting.rules.gives_back = true;
        is_live(&format!("one of two that give back, {how}"), &setting);
    }
}

#[test]
fn one_of_three_writers_dies() {
    let writers = [Client::writer(1), Client::writer(2), Client::writer(3).mortal()];
    for (how, setting) in recovering(&writers.map(Client::keeping), 0) {
        is_live(&format!("one of three writers, {how}"), &setting.clone().up_to_names());
        is_live(&format!("the same, sent on, {how}"), &setting.passing_on().up_to_names());
    }
}

#[test]
fn an_owner_dies_beside_two_readers() {
    recovers("an owner beside two readers", &READERS, 0);
}

#[test]
fn a_reader_dies_beside_an_owner_and_a_reader() {
    let clients = [Client::both(1), Client::reader(2), Client::reader(3).mortal()];
    recovers("a reader beside an owner and a reader", &clients.map(Client::keeping), 0);
}

#[test]
fn a_writer_dies_beside_a_writer_and_a_reader() {
    let clients = [Client::writer(1), Client::writer(2).mortal(), Client::reader(3)];
    recovers("a writer beside a writer and a reader", &clients.map(Client::keeping), 0);
}

#[test]
fn a_reader_dies_beside_two_writers() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3).mortal()];
    recovers("a reader beside two writers", &clients.map(Client::keeping), 0);
}

#[test]
#[ignore = "half a million states: seconds"]
fn one_of_three_that_evict_dies() {
    let writers = [Client::writer(1), Client::writer(2), Client::writer(3).mortal()];
    recovers("one of three writers that evict", &writers, 0);
    let clients = [Client::writer(1), Client::writer(2).mortal(), Client::reader(3)];
    recovers("a writer that evicts beside a writer and a reader", &clients, 0);
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3).mortal()];
    recovers("a reader that evicts beside two writers", &clients, 0);
    recovers("an owner that evicts beside two readers", &READERS_THAT_EVICT, 0);
}

#[test]
#[ignore = "twelve million states: minutes"]
fn one_of_three_that_read_and_write_dies() {
    let clients = [Client::both(1), Client::both(2), Client::both(3).mortal()];
    let clients = clients.map(|client| client.keeping().patient());
    recovers("one of three of both", &clients, 0);
}

#[test]
#[ignore = "a million states: half a minute"]
fn one_of_three_dies_with_priorities() {
    let writers = [Client::writer(1), Client::writer(2), Client::writer(3).mortal()];
    recovers("one of three writers, priorities", &writers.map(Client::keeping), 1);
    let clients = [Client::writer(1), Client::writer(2).mortal(), Client::reader(3)];
    recovers("a writer beside a writer and a reader, priorities", &clients.map(Client::keeping), 1);
}

#[test]
#[ignore = "half a million states: seconds"]
fn one_of_three_dies_and_a_connection_fails() {
    let clients = [Client::writer(1), Client::writer(2).mortal(), Client::reader(3)];
    for (how, setting) in recovering(&clients.map(Client::keeping), 0) {
        is_live(
            &format!("a writer beside a writer and a reader, failing, {how}"),
            &setting.failing(1),
        );
    }
}

// ---- what does not hold -------------------------------------------------------------------------

const READERS_THAT_EVICT: [Client; 3] =
    [Client::both(1).mortal(), Client::reader(2), Client::reader(3)];
const READERS: [Client; 3] = [
    READERS_THAT_EVICT[0].keeping(),
    READERS_THAT_EVICT[1].keeping(),
    READERS_THAT_EVICT[2].keeping(),
];

fn breaching(clients: &[Client], breach: Breach) -> Setting {
    let clients: Vec<Client> = clients.iter().map(|client| client.keeping()).collect();
    Setting { breach: Some(breach), ..Setting::discipline(&clients, 0).recovering() }
}

/// The same with only those properties that a user would notice.
pub(crate) fn noticed(setting: Setting) -> Setting {
    Setting { demand: Demand::Data, ..setting }
}

#[test]
fn a_hand_over_without_a_write_back_loses_what_the_giver_wrote() {
    let clients = [Client::writer(1), Client::writer(2).mortal()].map(Client::keeping);
    let mut setting = Setting::discipline(&clients, 0).recovering();
    setting.rules.survive = false;
    is_refuted(&setting, "memory has what the holder got");
    is_refuted(&noticed(setting), "no stale copy");
}

#[test]
fn a_field_that_is_cleared_before_all_have_claimed_lets_a_writer_in_beside_a_writer() {
    let clients = [Client::writer(1), Client::writer(2).mortal(), Client::writer(3)];
    let setting = breaching(&clients, Breach::MendsBeforeClaims);
    is_refuted(&noticed(setting), "one writer or many readers");
}

#[test]
fn one_round_of_marks_takes_a_question_for_lost_that_is_not() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3).mortal()];
    let setting = breaching(&clients, Breach::OneRound);
    is_refuted(&setting, "each question is one");
}

/// The model has one request number. So a late answer counts for the question that was asked again.
#[test]
fn one_round_of_marks_lets_a_reader_in_beside_a_writer_if_numbers_repeat() {
    let clients = [Client::writer(1), Client::writer(2).mortal(), Client::reader(3)];
    let setting = breaching(&clients, Breach::OneRound);
    is_refuted(&noticed(setting), "one writer or many readers");
}

/// A giver's report that comes after the round would settle a later grant.
#[test]
fn a_second_mark_beside_a_forward_in_doubt_leaves_a_report_behind() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3).mortal()];
    let setting = breaching(&clients, Breach::MarksInDoubt);
    is_refuted(&setting, "no fault");
}

#[test]
fn a_reader_that_drops_its_unsettled_copy_reads_older_bytes_later() {
    is_refuted(&noticed(breaching(&READERS, Breach::DropsUnsettledCopy)), "no stale copy");
}

#[test]
fn a_receiver_that_forgets_what_came_with_the_line_loses_it_with_its_release() {
    let clients = [Client::writer(1), Client::writer(2).mortal()];
    let setting = Setting::discipline(&clients, 0).recovering();
    let setting = Setting { breach: Some(Breach::InheritsClean), ..setting };
    is_refuted(&noticed(setting), "no stale copy");
}

#[test]
fn a_pledger_that_takes_its_copy_back_without_a_look_reads_beside_a_writer() {
    let clients = [Client::reader(1), Client::writer(2).mortal(), Client::writer(3)];
    let setting = breaching(&clients, Breach::RestoresBlindly).with_takeover();
    is_refuted(&noticed(setting), "one writer or many readers");
}

/// A takeover clears the bit between the look and the addition.
#[test]
fn an_addition_that_mends_carries() {
    let clients = [Client::writer(1), Client::reader(2).mortal()];
    let setting = breaching(&clients, Breach::MendsByAddition).with_takeover();
    is_refuted(&setting, "the word is true");
}

/// An operation of a node that has claimed may have found the word before it was mended.
#[test]
fn a_node_that_is_forgotten_right_after_the_mending_is_asked_once_more() {
    let clients = [Client::both(1), Client::reader(2).mortal()];
    is_refuted(&breaching(&clients, Breach::ForgetsAtOnce), "nothing of the dead is left");
}
