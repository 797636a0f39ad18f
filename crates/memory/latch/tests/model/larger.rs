//! Settings that take gigabytes and up to hours, each by its name:
//!
//! ```text
//! just model-larger                          # their names
//! just model-larger four_writers           # one of them
//! LATCHWORK_MODEL_GIB=12 just model-larger three_nodes_that_read_and_write_with_priorities
//! ```
//!
//! Worlds that differ by node ids alone count as one here (`symmetry.rs`). A search that needs more
//! memory than its limit fails and reports the number of states that it found. Then nothing is
//! proved.

use std::env;
use std::time::Instant;

use crate::client::Client;
use crate::graph::{self, Plan};
use crate::setting::Setting;
use crate::story::tell;

const GIB: u64 = 1 << 30;

fn memory_max() -> u64 {
    let given = env::var("LATCHWORK_MODEL_GIB").ok();
    given.map_or(6, |text| text.parse().expect("LATCHWORK_MODEL_GIB is a number of GiB")) * GIB
}

#[allow(clippy::disallowed_methods, reason = "says how long it took")]
fn search(name: &str, setting: Setting, live: bool) {
    let setting = setting.up_to_names();
    let begin = Instant::now();
    let plan = Plan { live, memory_max: memory_max() };
    let found = graph::search_within(&setting, plan);
    let seconds = begin.elapsed().as_secs();
    let graph = found.unwrap_or_else(|states| {
        panic!(
            "{name}: {states} states in {seconds} s took {} GiB, and there are more: set LATCHWORK_MODEL_GIB \
             to more",
            plan.memory_max / GIB
        )
    });
    let gib = graph.memory_peak as f64 / GIB as f64;
    let what = if live { "and all wishes can be met" } else { "without a look at wishes" };
    println!(
        "{name}: all properties in {} states, {what}; {seconds} s, {gib:.1} GiB",
        graph.states
    );
    if let Some((property, steps)) = graph.wrong {
        panic!(
            "{name}: not \"{property}\" after (names may have changed)\n{}",
            tell(&setting, &steps)
        );
    }
}

#[test]
#[ignore = "larger"]
fn two_nodes_that_read_and_write_many_priorities_and_numbers() {
    let mut setting = Setting::discipline(&[1, 2].map(Client::both), 4);
    setting.rules.seq_modulus = 4;
    search("two of both, priorities to 4, four numbers", setting, true);
}

#[test]
#[ignore = "larger"]
fn three_nodes_that_read_and_write_with_priorities_keeping() {
    let clients = [1, 2, 3].map(|id| Client::both(id).keeping());
    search("three of both, keeping, priorities to 1", Setting::discipline(&clients, 1), false);
}

#[test]
#[ignore = "larger"]
fn three_nodes_that_read_and_write_with_priorities() {
    let clients = [1, 2, 3].map(Client::both);
    search("three of both, evicting, priorities to 1", Setting::discipline(&clients, 1), false);
}

#[test]
#[ignore = "larger"]
fn four_writers() {
    let clients = [1, 2, 3, 4].map(Client::writer);
    search("four writers, evicting, priorities to 1", Setting::discipline(&clients, 1), true);
}

#[test]
#[ignore = "larger"]
fn five_writers() {
    let clients = [1, 2, 3, 4, 5].map(Client::writer);
    search("five writers, evicting", Setting::discipline(&clients, 0), false);
}

#[test]
#[ignore = "larger"]
fn one_reader_that_also_writes_and_three_readers() {
    let mut clients = [1, 2, 3, 4].map(Client::reader);
    clients[0] = Client::both(1);
    search("one of both and three readers, evicting", Setting::discipline(&clients, 0), true);
}

#[test]
#[ignore = "larger"]
fn one_reader_that_also_writes_and_four_readers() {
    let mut clients = [1, 2, 3, 4, 5].map(|id| Client::reader(id).keeping());
    clients[0] = Client::both(1).keeping();
    search("one of both and four readers, keeping", Setting::discipline(&clients, 0), false);
}

#[test]
#[ignore = "larger"]
fn two_writers_and_two_readers() {
    let clients = [Client::writer(1), Client::writer(2), Client::reader(3), Client::reader(4)];
    search("two writers and two readers, evicting", Setting::discipline(&clients, 0), false);
}

#[test]
#[ignore = "larger"]
fn two_readers_that_also_write_and_two_readers_keeping() {
    let clients = [Client::both(1), Client::both(2), Client::reader(3), Client::reader(4)];
    let clients = clients.map(|client| client.keeping().patient());
    search("two of both and two readers, keeping", Setting::discipline(&clients, 0), false);
}
