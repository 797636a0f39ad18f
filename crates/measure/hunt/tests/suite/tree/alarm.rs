//! Seeded bugs that the checks must detect. If a test here fails, the other tests would not detect
//! such a bug.

use std::ops::Range;

use latchwork_cluster::Protocol;
use latchwork_hunt::{Network, Scenario, SeededBug, WorldCheck, WorldFailure, run};

use crate::tree::{crowded, drawn, with_load};

/// The failures of the worlds with these seeds.
fn noticed(seeds: Range<u64>, scenario: impl Fn(u64) -> Scenario) -> Vec<WorldFailure> {
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

fn with_mistake(plant: Option<SeededBug>) -> Vec<WorldFailure> {
    noticed(0..20, |seed| Scenario { plant, ..busy(seed) })
}

fn assert_explained_by_nothing(failures: &[WorldFailure]) {
    assert!(failures.len() >= 15, "only {} of 20 worlds were found wrong", failures.len());
    for failure in failures {
        assert_eq!(failure.check, WorldCheck::Linearizability, "{failure}");
        assert!(failure.text.contains("nothing explains"), "{failure}");
    }
}

#[test]
fn a_lost_update_is_noticed() {
    assert_explained_by_nothing(&with_mistake(Some(SeededBug::Forgets)));
}

#[test]
fn a_stale_read_is_noticed() {
    assert_explained_by_nothing(&with_mistake(Some(SeededBug::Remembers)));
}

#[test]
fn clients_without_mistakes_are_not_accused() {
    assert_eq!(with_mistake(None), []);
}

/// The failures of fifteen crowded worlds with a seeded bug.
fn with_rules(plant: Option<SeededBug>) -> Vec<WorldFailure> {
    let deadline_us = 100_000;
    noticed(0..15, |seed| Scenario { plant, deadline_us, ..crowded(seed, Protocol::Selcc) })
}

/// Bug: the receiver of a hand-over acts on the latch word before the giver's operation has taken
/// effect. Mechanism: rule R4 is off.
#[test]
fn a_protocol_without_settling_is_noticed() {
    assert!(!with_rules(Some(SeededBug::NoSettling)).is_empty());
}

/// Bug: a refused reader clears its shared bit while the holder sets the bit for the reader.
/// Mechanism: rule R2 is off, as in the SELCC paper.
#[test]
fn a_protocol_that_takes_refused_bits_back_is_noticed() {
    assert!(!with_rules(Some(SeededBug::NoRegisteredWait)).is_empty());
}

#[test]
fn the_whole_discipline_is_not_accused() {
    assert_eq!(with_rules(None), []);
}
