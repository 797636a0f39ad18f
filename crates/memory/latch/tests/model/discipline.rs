//! The discipline holds: every reachable state has all properties, and every node gets the line.
//!
//! A client that reads and writes takes all steps of a client that only reads or only writes. So a
//! setting includes all settings with lesser clients. To stay small, a setting leaves some steps
//! out: voluntary evictions, a want to write during a wait to read, or a second priority. Other
//! settings contain these steps.

use std::thread::available_parallelism;

use latchwork_latch::Rules;
use stateright::{Checker, HasDiscoveries, Model};

use crate::client::Client;
use crate::graph;
use crate::setting::Setting;
use crate::story::tell;

const TWO: [Client; 2] = [Client::both(1), Client::both(2)];
const THREE: [Client; 3] = [Client::both(1), Client::both(2), Client::both(3)];

/// All properties, in every state.
fn is_safe(name: &str, setting: &Setting) {
    let threads = available_parallelism().map_or(1, usize::from);
    let checker = setting.clone().checker();
    let checker = checker.threads(threads).finish_when(HasDiscoveries::Any).spawn_bfs().join();
    println!(
        "{name}: {} states, {} steps, depth {}",
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        let steps = path.into_actions();
        panic!("{name}: not \"{property}\" after\n{}", tell(setting, &steps));
    }
}

/// From every state, all wants can be met. Also checks all properties, by another search than that
/// of the checker.
pub(crate) fn is_live(name: &str, setting: &Setting) {
    let graph = graph::search(setting);
    println!("{name}: all wishes can be met from each of {} states", graph.states);
    if let Some((property, steps)) = graph.wrong {
        panic!("{name}: not \"{property}\" after\n{}", tell(setting, &steps));
    }
}

pub(crate) fn holds(name: &str, setting: &Setting) {
    is_safe(name, setting);
    is_live(name, setting);
}

#[test]
fn two_nodes() {
    for priority_max in 0..=2 {
        let name = format!("two nodes, priorities to {priority_max}");
        holds(&name, &Setting::discipline(&TWO, priority_max));
    }
}

#[test]
fn two_nodes_with_numbered_requests() {
    let mut setting = Setting::discipline(&TWO, 0);
    setting.rules.seq_modulus = 3;
    holds("two nodes, three numbers", &setting);
}

#[test]
fn two_readers_and_one_reader_that_also_writes() {
    let clients = [Client::both(1), Client::reader(2), Client::reader(3)];
    holds("two readers and one of both", &Setting::discipline(&clients, 1));
}

#[test]
fn one_reader_and_two_writers() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3)];
    is_live("one reader and two writers", &Setting::discipline(&clients, 0));
}

#[test]
fn one_reader_and_two_readers_that_also_write() {
    let clients = [Client::both(1), Client::both(2), Client::reader(3)];
    let clients = clients.map(|client| client.keeping().patient());
    is_live("one reader and two of both", &Setting::discipline(&clients, 0));
}

/// Requests without room in a grant are sent on after the hand-over, and may overtake the grant.
#[test]
fn requests_that_are_sent_on() {
    let writers = [1, 2, 3].map(Client::writer);
    is_live("three writers, sent on", &Setting::discipline(&writers, 0).passing_on());
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3)].map(Client::keeping);
    is_live("one reader and two writers, sent on", &Setting::discipline(&clients, 1).passing_on());
}

/// Without aging, all requests are equal. `switches.rs` has smaller settings without aging.
#[test]
#[ignore = "more than half a million states: seconds"]
fn requests_without_priorities() {
    let clients = [Client::both(1), Client::writer(2), Client::reader(3)].map(Client::keeping);
    let mut setting = Setting::discipline(&clients.map(Client::patient), 1);
    setting.rules.aging = false;
    is_live("one of both, a writer and a reader, no priorities", &setting);
}

/// Without forwarding, an owner that gets a request writes back and releases.
#[test]
fn owners_that_only_release() {
    let clients = [Client::both(1), Client::writer(2), Client::reader(3)].map(Client::keeping);
    let mut setting = Setting::discipline(&clients, 1);
    setting.rules.forwarding = false;
    is_live("one of both, a writer and a reader, nothing forwarded", &setting);
}

/// A connection may fail at any point of an operation. The node then probes the word, and repeats
/// an operation that was not applied.
#[test]
fn connections_that_fail_under_operations() {
    for (priority_max, failures) in [(1, 1), (0, 3)] {
        let setting = Setting::discipline(&TWO, priority_max).failing(failures);
        holds(&format!("two nodes, {failures} operations fail"), &setting);
    }
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3)].map(Client::keeping);
    holds("three nodes, an operation fails", &Setting::discipline(&clients, 0).failing(1));
}

#[test]
#[ignore = "two million states: a minute"]
fn connections_that_fail_under_operations_of_three_nodes() {
    let clients = [Client::writer(1), Client::both(2), Client::reader(3)].map(Client::patient);
    holds(
        "three nodes, one upgrades, an operation fails",
        &Setting::discipline(&clients, 0).failing(1),
    );
}

#[test]
fn the_latch_alone() {
    let rules = Rules { seq_modulus: 1, priority_max: 0, ..Rules::LATCH_ONLY };
    let two = Setting { rules, ..Setting::discipline(&TWO, 0) };
    holds("two nodes that never ask", &two);
    let three = Setting { rules, ..Setting::discipline(&THREE, 0) };
    holds("three nodes that never ask", &three);
}

#[test]
#[ignore = "a million states: half a minute"]
fn one_reader_and_two_writers_that_evict() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3)];
    let setting = Setting::discipline(&clients, 1);
    holds("one reader and two writers, evicting, priorities", &setting);
    is_live("the same, sent on", &setting.passing_on());
    let writers = [1, 2, 3].map(Client::writer);
    is_live("three writers, evicting, sent on", &Setting::discipline(&writers, 1).passing_on());
}

#[test]
#[ignore = "a million states: half a minute"]
fn one_reader_and_two_readers_that_also_write_and_evict() {
    let clients = [Client::both(1), Client::both(2), Client::reader(3)];
    holds("one reader and two of both, evicting", &Setting::discipline(&clients, 0));
}

#[test]
#[ignore = "two million states: half a minute"]
fn three_nodes_that_read_and_write() {
    let clients = THREE.map(|client| client.keeping().patient());
    is_live("three of both", &Setting::discipline(&clients, 0));
}

#[test]
#[ignore = "ten million states: minutes"]
fn three_nodes_that_read_and_write_and_evict() {
    holds("three of both, evicting", &Setting::discipline(&THREE, 0));
}

#[test]
#[ignore = "five million states: minutes"]
fn two_readers_that_also_write_and_a_reader_with_priorities() {
    let clients = [Client::both(1), Client::both(2), Client::reader(3)];
    holds("one reader and two of both, priorities", &Setting::discipline(&clients, 1));
}

#[test]
#[ignore = "two million states: a minute"]
fn four_nodes() {
    let readers = [Client::writer(1), Client::reader(2), Client::reader(3), Client::reader(4)];
    let readers = readers.map(Client::keeping);
    holds("three readers and one writer", &Setting::discipline(&readers, 0));
    let writers = [1, 2, 3, 4].map(Client::writer);
    holds("four writers", &Setting::discipline(&writers, 0));
}
