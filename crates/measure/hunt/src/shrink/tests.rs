//! Tests the search with a function in place of a world, which fails for known scenarios.

use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_simulation::Time;

use super::*;
use crate::{FaultPlan, Network, WorldFailure};

fn report(scenario: &Scenario, check: Option<WorldCheck>) -> WorldReport {
    let failure = |check| WorldFailure { check, text: String::new(), at: Time::ZERO };
    WorldReport { failure: check.map(failure), ..WorldReport::of_seed(scenario.seed) }
}

/// Fails with at least three nodes and eleven operations, under one seed in five. On a calm network
/// another check fails.
fn world(scenario: &Scenario) -> WorldReport {
    let big = scenario.compute_nodes >= 3 && scenario.operations >= 11;
    let check = match (scenario.seed % 5, scenario.network == Network::Calm) {
        _ if !big => None,
        (0, false) => Some(WorldCheck::Values),
        (_, true) => Some(WorldCheck::Leak),
        _ => None,
    };
    report(scenario, check)
}

fn start() -> Scenario {
    let faults = FaultPlan { delay_one_in: 3, pauses: 4, ..FaultPlan::default() };
    let network = Network::Harsh;
    Scenario { seed: 35, compute_nodes: 6, operations: 300, network, faults, ..Scenario::default() }
}

#[test]
fn what_is_not_needed_goes_and_what_is_needed_stays() {
    let start = start();
    let mut results = Vec::new();
    for jobs in [1, 3] {
        let shrinker = Shrinker { jobs, ..Shrinker::default() };
        let shrunk = shrinker.shrink(&start, &world(&start), &world, |_| true);
        let found = &shrunk.scenario;
        assert_eq!((found.compute_nodes, found.operations), (3, 11));
        assert_eq!((found.workers, found.tasks, found.faults.any()), (1, 1, false));
        assert_eq!(found.network, Network::Rough, "calm ones fail another check");
        assert_eq!(world(found), shrunk.report);
        results.push(shrunk.scenario);
    }
    assert_eq!(results[0], results[1], "threads change nothing");
}

#[test]
fn a_search_ends_when_it_is_stopped_with_a_world_that_fails() {
    let start = start();
    for worlds in [0, 1, 7, 50] {
        let runs = AtomicU64::new(0);
        let run = |scenario: &Scenario| {
            runs.fetch_add(1, Ordering::Relaxed);
            world(scenario)
        };
        let shrinker = Shrinker::default();
        let shrunk = shrinker.shrink(&start, &world(&start), &run, |best| best.worlds < worlds);
        assert_eq!(shrunk.worlds, worlds);
        assert_eq!(runs.into_inner(), worlds);
        assert!(world(&shrunk.scenario).failure.is_some());
    }
}

#[test]
fn a_world_that_is_clean_stays_as_it_is() {
    let clean = Scenario { operations: 1, ..start() };
    let shrunk = Shrinker::default().shrink(&clean, &world(&clean), &world, |_| true);
    assert_eq!((shrunk.scenario, shrunk.worlds), (clean, 0));
}
