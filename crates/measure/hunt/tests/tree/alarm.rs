//! Things that are wrong on purpose: if a test here fails, the others would not notice them either.

use std::ops::Range;

use latchwork_cluster::Protocol;
use latchwork_hunt::{Check, Failure, Network, Plant, Scenario, run};

use crate::{crowded, drawn, with_load};

/// What is found wrong in these worlds.
fn noticed(seeds: Range<u64>, scenario: impl Fn(u64) -> Scenario) -> Vec<Failure> {
    seeds.filter_map(|seed| run(&scenario(seed)).failure).collect()
}

fn busy(seed: u64) -> Scenario {
    Scenario {
        compute_nodes: 4,
        workers: 2,
        tasks: 2,
        operations: 20,
        network: Network::Rough,
        ..with_load(drawn(seed, Protocol::Selcc), |load| {
            (load.keys, load.loaded, load.dropped) = (4, 0, 0);
        })
    }
}

fn with_mistake(plant: Option<Plant>) -> Vec<Failure> {
    noticed(0..20, |seed| Scenario { plant, ..busy(seed) })
}

fn assert_explained_by_nothing(failures: &[Failure]) {
    assert!(failures.len() >= 15, "only {} of 20 worlds were found wrong", failures.len());
    for failure in failures {
        assert_eq!(failure.check, Check::Linearizability, "{failure}");
        assert!(failure.text.contains("nothing explains"), "{failure}");
    }
}

#[test]
fn a_lost_update_is_noticed() {
    assert_explained_by_nothing(&with_mistake(Some(Plant::Forgets)));
}

#[test]
fn a_stale_read_is_noticed() {
    assert_explained_by_nothing(&with_mistake(Some(Plant::Remembers)));
}

#[test]
fn clients_without_mistakes_are_not_accused() {
    assert_eq!(with_mistake(None), []);
}

/// Fifteen crowded worlds with a rule switched off.
fn with_rules(plant: Option<Plant>) -> Vec<Failure> {
    let deadline_us = 100_000;
    noticed(0..15, |seed| Scenario { plant, deadline_us, ..crowded(seed, Protocol::Selcc) })
}

/// Bug: the receiver of a hand-over acts on the latch word before the giver's own operation has
/// landed. Mechanism: rule R4 switched off.
#[test]
fn a_protocol_without_settling_is_noticed() {
    assert!(!with_rules(Some(Plant::NoSettling)).is_empty());
}

/// Bug: a refused reader takes its bit back while the holder sets it for the reader. Mechanism:
/// rule R2 switched off, which is the published scheme.
#[test]
fn a_protocol_that_takes_refused_bits_back_is_noticed() {
    assert!(!with_rules(Some(Plant::NoRegisteredWait)).is_empty());
}

#[test]
fn the_whole_discipline_is_not_accused() {
    assert_eq!(with_rules(None), []);
}
