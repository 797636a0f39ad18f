//! Changes that their holder writes back in place, at any time. All properties hold. When such a
//! write-back is over, memory has what its node had written when it began, and no death undoes
//! that: from then on the content counts as seen by another node.

use crate::client::Client;
use crate::discipline::is_live;
use crate::recovered::{noticed, recovering};
use crate::refuted::is_refuted;
use crate::setting::Setting;
use crate::world::Breach;

/// Without deaths, and with connections that fail.
fn persist(name: &str, clients: &[Client], priority_max: u8) {
    let clients: Vec<Client> = clients.iter().map(|client| client.persisting()).collect();
    let mut setting = Setting::discipline(&clients, priority_max);
    setting.rules.survive = true;
    for (how, setting) in [("releases", setting.clone()), ("takeover", setting.with_takeover())] {
        is_live(&format!("{name}, {how}"), &setting);
        is_live(&format!("{name}, failing, {how}"), &setting.failing(1));
    }
}

/// With the death of the mortal one, also where a connection fails.
fn persist_and_die(name: &str, clients: &[Client], failures: u8) {
    let clients: Vec<Client> = clients.iter().map(|client| client.persisting()).collect();
    for (how, setting) in recovering(&clients, 0) {
        is_live(&format!("{name}, {how}"), &setting.failing(failures));
    }
}

const TWO: [Client; 2] = [Client::both(1), Client::both(2).mortal()];
const WRITERS: [Client; 3] =
    [Client::writer(1).keeping(), Client::writer(2).keeping(), Client::writer(3).keeping()];

#[test]
fn two_nodes_persist() {
    persist("two that persist", &[Client::both(1), Client::both(2)], 1);
    persist("two that persist and lock", &[1, 2].map(|id| Client::both(id).locking()), 0);
}

#[test]
fn two_nodes_that_do_not_forward_persist() {
    let mut setting = Setting::discipline(&[1, 2].map(|id| Client::both(id).persisting()), 1);
    (setting.rules.survive, setting.rules.forwarding) = (true, false);
    is_live("two that persist and do not forward", &setting);
    setting.rules.invalidate = false;
    is_live("two that persist and never ask", &setting);
}

#[test]
fn three_writers_persist() {
    persist("three writers that persist", &WRITERS, 0);
}

#[test]
fn a_writer_persists_beside_a_writer_and_a_reader() {
    persist("a writer and a reader", &[WRITERS[0], WRITERS[1], Client::reader(3).keeping()], 0);
}

#[test]
fn one_of_two_that_persist_dies() {
    persist_and_die("one of two that persist", &TWO, 0);
    persist_and_die("one of two that persist, failing", &TWO, 1);
    persist_and_die("one of two that persist and lock", &TWO.map(Client::locking), 0);
}

#[test]
fn one_of_three_writers_that_persist_dies() {
    let [one, two, three] = WRITERS;
    persist_and_die("one of three writers that persist", &[one, two, three.mortal()], 0);
}

#[test]
fn a_writer_that_persists_dies_beside_a_writer_and_a_reader() {
    let clients = [WRITERS[0], WRITERS[1].mortal(), Client::reader(3).keeping()];
    persist_and_die("a writer and a reader, one writer dies", &clients, 0);
}

/// The word does not show whether the bytes have landed.
#[test]
fn a_persist_that_is_cut_off_and_counts_as_done_is_undone() {
    let clients = TWO.map(|client| client.keeping().persisting());
    let setting = Setting::discipline(&clients, 0).recovering().failing(1);
    let setting = Setting { breach: Some(Breach::PersistsOnce), ..setting };
    is_refuted(&setting, "no fault");
    is_refuted(&noticed(setting), "no stale copy");
}
