//! Worlds in which nodes die or lose their lease, and the others are told: those who live go on, with all their frames, and what they
//! free is used again.

use latchwork_hunt::scenario::WorkloadKind;
use latchwork_hunt::{Choice, Report, Scenario, run};

/// A drawn world in which somebody departs and the others are told of it.
fn told(seed: u64, kind: WorkloadKind) -> Option<Scenario> {
    let choice = Choice { workloads: vec![kind], ..Choice::default() };
    let scenario = Scenario::from_seed(seed, &choice);
    (scenario.faults.told_us > 0).then_some(scenario)
}

fn clean(kind: WorkloadKind, count: usize) -> Vec<Report> {
    let from = std::env::var("FROM").ok().and_then(|n| n.parse().ok()).unwrap_or(0);
    let count = std::env::var("WORLDS").ok().and_then(|n| n.parse().ok()).unwrap_or(count);
    let worlds = (from..).filter_map(|seed| told(seed, kind));
    let reports = worlds.take(count).map(|scenario| {
        let report = run(&scenario);
        if let Some(failure) = &report.failure {
            if std::env::var("ALL").is_ok() {
                println!("FAILED {} {failure}", scenario.seed);
            } else {
                panic!("{failure}\n{}", scenario.to_toml());
            }
        }
        report
    });
    reports.collect()
}

#[test]
fn lines() {
    clean(WorkloadKind::Lines, 60);
}
#[test]
fn memory() {
    clean(WorkloadKind::Memory, 60);
}
#[test]
fn trees() {
    clean(WorkloadKind::Tree, 60);
}
#[test]
fn locks() {
    clean(WorkloadKind::Locks, 60);
}
#[test]
fn buffered() {
    clean(WorkloadKind::Buffered, 60);
}
#[test]
fn ycsb() {
    clean(WorkloadKind::Ycsb, 60);
}
