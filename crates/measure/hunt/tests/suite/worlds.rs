//! Runs worlds of many seeds, of each workload, with a few faults each. No world may fail.

use latchwork_cluster::Protocol;
use latchwork_hunt::scenario::{Workload, WorkloadKind, YcsbLoad};
use latchwork_hunt::{Scenario, SwarmChoice, WorldReport, run};

/// Runs `count` worlds of one kind of workload. No world may fail.
fn clean(kind: WorkloadKind, count: u64) -> Vec<WorldReport> {
    let choice = SwarmChoice { workloads: vec![kind], ..SwarmChoice::default() };
    let world = |seed| {
        let scenario = Scenario::from_seed(seed, &choice);
        let report = run(&scenario);
        if let Some(failure) = &report.failure {
            panic!("{failure}\n{}", scenario.to_toml());
        }
        report
    };
    let reports: Vec<_> = (0..count).map(world).collect();
    assert!(reports.iter().all(|report| report.verbs > 0));
    assert!(reports.iter().map(|report| report.operations).sum::<u64>() > 50 * count);
    reports
}

/// Checks that each kind of fault was injected in some world.
fn all_struck(reports: &[WorldReport]) {
    let sum = |count: fn(&WorldReport) -> u64| reports.iter().map(count).sum::<u64>();
    let counts = [
        ("delayed", sum(|r| r.faults.delayed)),
        ("lost", sum(|r| r.faults.lost)),
        ("repeated", sum(|r| r.faults.repeated)),
        ("failed, applied", sum(|r| r.faults.failed_applied)),
        ("failed, not applied", sum(|r| r.faults.failed_unapplied)),
        ("pauses", sum(|r| r.node_faults.pauses)),
        ("deaths", sum(|r| r.node_faults.deaths)),
        ("lapses", sum(|r| r.node_faults.lapses)),
        ("reclaims", sum(|r| r.node_faults.reclaims)),
        ("lost memory", sum(|r| r.node_faults.lost_memory)),
        ("slow", sum(|r| r.node_faults.slow)),
        ("clean errors", sum(|r| r.clean_errors)),
    ];
    assert!(counts.iter().all(|(_, count)| *count > 0), "{counts:?}");
}

/// Worlds of all kinds with homes at compute nodes. In half of them nodes die, most of them with
/// notices, and the nodes are homes.
#[test]
fn homes_at_compute_nodes() {
    let world = |seed| {
        let mut scenario = Scenario::from_seed(seed, &SwarmChoice::default());
        scenario.protocol = if seed % 2 == 0 { Protocol::Gam } else { Protocol::ScaleStore };
        scenario.settings = [("home".to_owned(), "compute".to_owned())].into();
        let plan = &mut scenario.faults;
        plan.lost_memory = 0;
        if seed % 4 > 1 && plan.departures() == 0 {
            (plan.deaths, plan.told_us) = (1, [0, 200, 1_000][seed as usize % 3]);
        }
        let report = run(&scenario);
        if let Some(failure) = &report.failure {
            panic!("{failure}\n{}", scenario.to_toml());
        }
        report
    };
    let reports: Vec<_> = (0..240).map(world).collect();
    assert!(reports.iter().filter(|report| report.node_faults.deaths > 0).count() > 100);
    assert!(reports.iter().any(|report| report.clean_errors > 0), "no line was lost");
}

#[test]
fn lines() {
    all_struck(&clean(WorkloadKind::Lines, 200));
}

#[test]
fn write_buffers() {
    all_struck(&clean(WorkloadKind::Buffered, 200));
}

#[test]
fn trees() {
    all_struck(&clean(WorkloadKind::Tree, 200));
}

#[test]
fn memory() {
    all_struck(&clean(WorkloadKind::Memory, 200));
}

#[test]
fn locks() {
    all_struck(&clean(WorkloadKind::Locks, 200));
}

#[test]
fn boxes() {
    all_struck(&clean(WorkloadKind::Rtree, 100));
}

/// The queues move: at the end a world has 14 entries. Draws that ignore the queues leave 23.
#[test]
fn queues() {
    let reports = clean(WorkloadKind::Queue, 300);
    all_struck(&reports);
    let entries = reports.iter().filter_map(|report| Some(report.tree.as_ref()?.entries));
    let (worlds, entries) = (entries.clone().count() as u64, entries.sum::<u64>());
    assert!(worlds > 200 && entries < 18 * worlds, "{entries} entries in {worlds} worlds");
}

#[test]
fn transactions() {
    all_struck(&clean(WorkloadKind::Txn, 150));
}

#[test]
fn ycsb() {
    all_struck(&clean(WorkloadKind::Ycsb, 200));
}

#[test]
fn upserts() {
    let choice = SwarmChoice { workloads: vec![WorkloadKind::Ycsb], ..SwarmChoice::default() };
    for seed in 0..40 {
        let mix = ["write-only", "write-intensive", "range-write"][seed as usize % 3];
        let workload = Workload::Ycsb(YcsbLoad { mix: mix.to_owned(), ..YcsbLoad::default() });
        let scenario = Scenario { workload, ..Scenario::from_seed(seed, &choice) };
        let report = run(&scenario);
        assert_eq!(report.failure, None, "{}", scenario.to_toml());
        assert!(report.operations > 0, "{}", scenario.to_toml());
    }
}

/// Bug: worlds with lines of 8 KiB panicked, and from 16 KiB on their memory pool was full at once.
/// Mechanism: chunks had one size, and the subtraction that counts the lines of a chunk wrapped.
/// Fix: the chunk size follows from the line size.
#[test]
fn worlds_with_lines_of_every_size_are_clean() {
    for kind in WorkloadKind::ALL {
        let choice = SwarmChoice { workloads: vec![kind], ..SwarmChoice::default() };
        for shift in 9..=16 {
            // Where nodes die early, no operation of a world may succeed.
            let mut operations = 0;
            for seed in 0..2 {
                let scenario = Scenario::from_seed(seed, &choice);
                let scenario = Scenario { line_size: 1 << shift, ..scenario };
                let report = run(&scenario);
                if let Some(failure) = &report.failure {
                    panic!("{failure}\n{}", scenario.to_toml());
                }
                operations += report.operations;
            }
            assert!(operations > 0, "{kind:?}, lines of {} bytes", 1 << shift);
        }
    }
}

#[test]
fn the_same_scenario_is_the_same_world() {
    for kind in WorkloadKind::ALL {
        let choice = SwarmChoice { workloads: vec![kind], ..SwarmChoice::default() };
        let scenario = Scenario::from_seed(11, &choice);
        let again = Scenario::parse(&scenario.to_toml()).expect("what was written");
        assert_eq!(run(&scenario), run(&again), "{kind:?}");
        let other = Scenario { seed: 12, ..scenario.clone() };
        assert_ne!(run(&scenario).hash, run(&other).hash, "other seeds, other worlds");
    }
}
