//! The discipline holds in every position of the switches of `Rules`: each switch alone, and each
//! two switches together.

use latchwork_latch::Rules;

use crate::client::Client;
use crate::discipline::is_live;
use crate::setting::Setting;

/// A switch in its other position.
struct Switch {
    name: &'static str,
    turn: fn(&mut Rules),
}

/// All switches of the rules that a user can turn. The rest of [`Rules`] are numbers, and the rules
/// that must not be broken (`refuted.rs`, `takeover.rs`).
const SWITCHES: [Switch; 7] = [
    Switch { name: "nobody is asked", turn: |rules| rules.invalidate = false },
    Switch { name: "no forwarding", turn: |rules| rules.forwarding = false },
    Switch { name: "takeover", turn: |rules| rules.takeover ^= true },
    Switch { name: "no aging", turn: |rules| rules.aging = false },
    Switch { name: "no priority matching", turn: |rules| rules.starved_at = 0 },
    Switch { name: "lines are given back", turn: |rules| rules.gives_back = true },
    Switch { name: "nothing travels", turn: |rules| rules.travelling_max = 0 },
];

/// Each switch alone, and each two.
fn turned() -> impl Iterator<Item = (String, Vec<&'static Switch>)> {
    let alone = SWITCHES.iter().map(|one| vec![one]);
    let pairs = SWITCHES
        .iter()
        .enumerate()
        .flat_map(|(at, one)| SWITCHES[at + 1..].iter().map(move |other| vec![one, other]));
    alone.chain(pairs).map(|switches| {
        let names: Vec<_> = switches.iter().map(|switch| switch.name).collect();
        (names.join(", "), switches)
    })
}

/// The clients under each position of the switches that `takes` accepts.
fn hold(clients: &[Client], priority_max: u8, takes: impl Fn(&[&Switch]) -> bool) {
    for (name, switches) in turned().filter(|(_, switches)| takes(switches)) {
        let mut setting = Setting::discipline(clients, priority_max);
        switches.iter().for_each(|switch| (switch.turn)(&mut setting.rules));
        is_live(&name, &setting);
    }
}

fn one(switches: &[&Switch]) -> bool {
    switches.len() == 1
}

fn two(switches: &[&Switch]) -> bool {
    switches.len() == 2
}

/// Where no node sends requests, lines become free only by evictions.
fn asks(switches: &[&Switch]) -> bool {
    switches.iter().all(|switch| switch.name != SWITCHES[0].name)
}

fn writers_and_a_reader() -> [Client; 3] {
    [Client::writer(1), Client::writer(2), Client::reader(3)].map(Client::keeping)
}

fn one_of_both_a_writer_and_a_reader() -> [Client; 3] {
    [Client::both(1), Client::writer(2), Client::reader(3)].map(Client::keeping)
}

#[test]
fn two_nodes() {
    hold(&[1, 2].map(Client::both), 1, |_| true);
}

#[test]
fn two_writers_and_a_reader_one_switch() {
    hold(&writers_and_a_reader(), 0, |switches| one(switches) && asks(switches));
}

#[test]
fn two_writers_and_a_reader_two_switches() {
    hold(&writers_and_a_reader(), 0, |switches| two(switches) && asks(switches));
}

#[test]
fn one_of_both_a_writer_and_a_reader_one_switch() {
    let clients = one_of_both_a_writer_and_a_reader().map(Client::patient);
    hold(&clients, 0, |switches| one(switches) && asks(switches));
}

#[test]
fn three_writers() {
    hold(&[1, 2, 3].map(|id| Client::writer(id).keeping()), 1, asks);
}

#[test]
#[ignore = "more priorities, and each two switches: a minute"]
fn two_nodes_more_priorities() {
    hold(&[1, 2].map(Client::both), 3, |_| true);
}

#[test]
#[ignore = "millions of states: minutes"]
fn two_writers_and_a_reader_with_priorities() {
    hold(&writers_and_a_reader(), 1, asks);
}

#[test]
#[ignore = "millions of states: minutes"]
fn one_of_both_a_writer_and_a_reader_two_switches() {
    hold(&one_of_both_a_writer_and_a_reader(), 0, |switches| two(switches) && asks(switches));
}

#[test]
#[ignore = "millions of states: minutes"]
fn three_writers_that_evict() {
    hold(&[1, 2, 3].map(Client::writer), 1, |_| true);
}
