//! Tests of a B-link tree that several compute nodes share: in worlds and on threads, under both
//! protocols. For each key, one order of the calls explains all answers. The tree is valid, and no
//! line is lost.

mod alarm;
mod cancelled;
mod linearizable;
mod threads;

use latchwork_cluster::Protocol;
use latchwork_hunt::scenario::{Overrides, TreeLoad, WorkloadKind};
use latchwork_hunt::{Network, Scenario, SwarmChoice, Workload, WorldReport, run};

/// The seeds of a test: `count` seeds from `first` on. With `LATCHWORK_WORLDS=100` in the
/// environment there are a hundred times as many, for a long search.
fn seeds(first: u64, count: u64) -> std::ops::Range<u64> {
    let times = std::env::var("LATCHWORK_WORLDS").ok().and_then(|times| times.parse().ok());
    first..first + count * times.unwrap_or(1)
}

/// The scenario of the seed, without faults.
fn drawn(seed: u64, protocol: Protocol) -> Scenario {
    let choice = SwarmChoice {
        workloads: vec![WorkloadKind::Tree],
        faults: false,
        ..SwarmChoice::default()
    };
    let deadline_us = 2_000_000;
    // The seed may have drawn the place of the homes, which not every protocol has.
    let settings = Overrides::new();
    Scenario { protocol, deadline_us, settings, ..Scenario::from_seed(seed, &choice) }
}

/// Many nodes with very small caches on a harsh network. So lines are often handed over and
/// released.
fn crowded(seed: u64, protocol: Protocol) -> Scenario {
    Scenario {
        compute_nodes: 8,
        workers: 1,
        tasks: 2,
        operations: 60,
        frames: 4,
        network: Network::Harsh,
        ..with_load(drawn(seed, protocol), |load| {
            *load = TreeLoad { keys: 30, ..TreeLoad::default() };
        })
    }
}

/// The scenario with a changed workload.
fn with_load(mut scenario: Scenario, change: impl FnOnce(&mut TreeLoad)) -> Scenario {
    match &mut scenario.workload {
        Workload::Tree(load) => change(load),
        other => unreachable!("a tree was chosen, not {other:?}"),
    }
    scenario
}

/// Runs a world that must not fail.
fn clean(scenario: Scenario) -> WorldReport {
    let report = run(&scenario);
    if let Some(failure) = &report.failure {
        panic!("{failure}\n{}", scenario.to_toml());
    }
    report
}
