//! [`Hunt`]: runs the worlds of consecutive seeds in parallel, until a world fails or the caller
//! ends the hunt.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use latchwork_verbs_sim::FaultCounts;

use crate::scenario::Overrides;
use crate::{NodeFaults, Scenario, Workload, WorldReport};

/// The totals of all worlds of a hunt.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// The number of worlds.
    pub worlds: u64,
    /// The number of worlds for each kind of workload.
    pub by_workload: BTreeMap<String, u64>,
    /// The number of worlds for each combination of settings that differ from the defaults.
    pub by_settings: BTreeMap<Overrides, u64>,
    /// The number of worlds with at least one injected fault.
    pub with_faults: u64,
    /// Events of all kernels.
    pub events: u64,
    /// Work requests that took effect.
    pub verbs: u64,
    /// The virtual time of all worlds.
    pub virtual_time: Duration,
    /// Operations that ended with an answer.
    pub operations: u64,
    /// Operations that ended with an error that the world's faults permit.
    pub clean_errors: u64,
    /// Keys for which the check of linearizability gave up.
    pub undecided: u64,
    /// Faults injected by chance.
    pub faults: FaultCounts,
    /// Injected faults of whole nodes.
    pub node_faults: NodeFaults,
}

impl Totals {
    /// Adds one world.
    pub fn add(&mut self, scenario: &Scenario, report: &WorldReport) {
        self.worlds += 1;
        *self.by_workload.entry(name_of(&scenario.workload)).or_default() += 1;
        *self.by_settings.entry(scenario.settings.clone()).or_default() += 1;
        let before = (self.faults, self.node_faults);
        self.events += report.events;
        self.verbs += report.verbs;
        self.virtual_time += report.virtual_time;
        self.operations += report.operations;
        self.clean_errors += report.clean_errors;
        self.undecided += report.undecided;
        let (faults, struck) = (&mut self.faults, &report.faults);
        faults.delayed += struck.delayed;
        faults.lost += struck.lost;
        faults.repeated += struck.repeated;
        faults.failed_applied += struck.failed_applied;
        faults.failed_unapplied += struck.failed_unapplied;
        let (nodes, struck) = (&mut self.node_faults, &report.node_faults);
        nodes.pauses += struck.pauses;
        nodes.deaths += struck.deaths;
        nodes.lapses += struck.lapses;
        nodes.reclaims += struck.reclaims;
        nodes.replacements += struck.replacements;
        nodes.lost_memory += struck.lost_memory;
        nodes.slow += struck.slow;
        self.with_faults += u64::from(before != (self.faults, self.node_faults));
    }

    /// The number of injected faults of each kind, by name.
    pub fn struck(&self) -> [(&'static str, u64); 12] {
        let (faults, nodes) = (&self.faults, &self.node_faults);
        [
            ("delayed", faults.delayed),
            ("lost", faults.lost),
            ("repeated", faults.repeated),
            ("failed, all applied", faults.failed_applied),
            ("failed, cut off", faults.failed_unapplied),
            ("pauses", nodes.pauses),
            ("deaths", nodes.deaths),
            ("lapses", nodes.lapses),
            ("reclaims", nodes.reclaims),
            ("replacements", nodes.replacements),
            ("memory nodes lost", nodes.lost_memory),
            ("slow nodes", nodes.slow),
        ]
    }
}

/// The name of a workload in scenario files.
fn name_of(workload: &Workload) -> String {
    let table = toml::Table::try_from(workload).unwrap_or_default();
    table.into_iter().next().map_or_else(|| "unknown".to_owned(), |(name, _)| name)
}

/// The settings of a hunt.
pub struct Hunt<'a> {
    /// The first seed. The hunt continues with the seeds after it.
    pub from_seed: u64,
    /// The number of worlds that run in parallel, at least 1, each on a thread.
    pub jobs: usize,
    /// Whether the hunt goes on after a failure.
    pub keep_going: bool,
    /// The scenario of a seed.
    pub scenario: &'a (dyn Fn(u64) -> Scenario + Sync),
    /// Runs a world. The function must not panic.
    pub run: &'a (dyn Fn(&Scenario) -> WorldReport + Sync),
}

impl Hunt<'_> {
    /// Runs worlds while `go_on` returns true. Unless `keep_going` is set, no world starts after
    /// the first failure, and the worlds in progress run to their ends. The hunt calls `seen` after
    /// each world, with the totals so far. Returns the totals, and the failed worlds in the order
    /// of their seeds.
    ///
    /// The duration of the hunt decides how many seeds run, and does not change the result of a
    /// seed.
    pub fn run(
        &self,
        go_on: &(dyn Fn() -> bool + Sync),
        seen: &(dyn Fn(&Totals) + Sync),
    ) -> (Totals, Vec<(Scenario, WorldReport)>) {
        let next = AtomicU64::new(self.from_seed);
        let over = AtomicBool::new(false);
        let shared: Mutex<(Totals, Vec<(Scenario, WorldReport)>)> = Mutex::default();
        let worker = || {
            // Relaxed: no other data depends on the seeds and the flag. A lock protects the
            // results.
            while !over.load(Ordering::Relaxed) && go_on() {
                let scenario = (self.scenario)(next.fetch_add(1, Ordering::Relaxed));
                let report = (self.run)(&scenario);
                // If `seen` has panicked on another thread, the lock is poisoned, and this thread
                // goes on.
                let mut shared = shared.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                let (totals, failed) = &mut *shared;
                totals.add(&scenario, &report);
                seen(totals);
                if report.failure.is_some() {
                    failed.push((scenario, report));
                    over.fetch_or(!self.keep_going, Ordering::Relaxed);
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..self.jobs.max(1) {
                scope.spawn(worker);
            }
            worker();
        });
        let (totals, mut failed) =
            shared.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
        failed.sort_by_key(|(scenario, _)| scenario.seed);
        (totals, failed)
    }
}

#[cfg(test)]
mod tests {
    use latchwork_simulation::Time;

    use super::*;
    use crate::{SwarmChoice, WorldCheck, WorldFailure};

    fn report(seed: u64, failed: bool) -> WorldReport {
        let failure =
            WorldFailure { check: WorldCheck::Values, text: "bad".to_owned(), at: Time::ZERO };
        WorldReport {
            seed,
            hash: seed,
            events: 10,
            verbs: 3,
            virtual_time: Duration::from_micros(1),
            operations: 2,
            clean_errors: 1,
            undecided: 1,
            faults: FaultCounts { delayed: seed % 2, ..FaultCounts::default() },
            node_faults: NodeFaults { pauses: 1, ..NodeFaults::default() },
            tree: None,
            failure: failed.then_some(failure),
        }
    }

    fn hunt(keep_going: bool, seeds: u64) -> (Totals, Vec<(Scenario, WorldReport)>) {
        let run = |scenario: &Scenario| report(scenario.seed, scenario.seed % 10 == 7);
        let scenario = |seed| Scenario::from_seed(seed, &SwarmChoice::default());
        let left = AtomicU64::new(seeds);
        let go_on = || {
            left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1)).is_ok()
        };
        Hunt { from_seed: 100, jobs: 3, keep_going, scenario: &scenario, run: &run }
            .run(&go_on, &|_| {})
    }

    #[test]
    fn every_seed_is_run_once_and_all_is_added_up() {
        let (totals, failed) = hunt(true, 40);
        let seeds: Vec<u64> = failed.iter().map(|(scenario, _)| scenario.seed).collect();
        assert_eq!(seeds, [107, 117, 127, 137]);
        assert_eq!((totals.worlds, totals.events, totals.verbs), (40, 400, 120));
        let counts = (totals.operations, totals.clean_errors, totals.undecided);
        assert_eq!(counts, (80, 40, 40));
        assert_eq!(totals.faults.delayed, 20);
        assert_eq!(totals.struck().iter().map(|(_, count)| count).sum::<u64>(), 60);
        assert_eq!(totals.by_workload.values().sum::<u64>(), 40);
        assert_eq!(totals.with_faults, 40);
    }

    #[test]
    fn the_first_failure_ends_a_hunt() {
        let (totals, failed) = hunt(false, 1000);
        assert_eq!(failed[0].0.seed, 107);
        assert!(totals.worlds < 20, "only what was under way is finished: {totals:?}");
    }
}
