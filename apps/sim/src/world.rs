//! The choice of a world on the command line.

use std::path::Path;

use latchwork_harness::AppError;
use latchwork_hunt::scenario::in_words;
use latchwork_hunt::{Scenario, SwarmChoice, Vary, Workload, WorkloadKind};

use crate::args::WorldArgs;
use crate::faults;
use crate::names::{Kind, seeded_bug_name, workload_name};

const FILE: latchwork_files::InputKind =
    latchwork_files::InputKind { name: "a scenario", bytes_max: 1 << 20 };

impl WorldArgs {
    /// The world of a seed, changed by the flags.
    pub(crate) fn scenario(&self, seed: u64) -> Scenario {
        let choice = SwarmChoice {
            workloads: match (&self.workload, self.index) {
                (None, Some(_)) => vec![WorkloadKind::Tree],
                (workload, _) => workload.iter().map(|Kind(workload)| workload.kind()).collect(),
            },
            networks: self.nic.iter().cloned().collect(),
            vary: if self.default_settings { Vary::Nothing } else { Vary::Settings },
            recoveries: self.recoveries,
            ..SwarmChoice::default()
        };
        let mut scenario = self.changed(Scenario::from_seed(seed, &choice));
        scenario.settle_deaths();
        if choice.vary == Vary::Settings {
            scenario.vary_ways_of_conflict();
        }
        scenario
    }

    /// The world of a scenario file, changed by the flags.
    pub(crate) fn file(&self, path: &Path, seed: Option<u64>) -> Result<Scenario, AppError> {
        let wrong = |error: &dyn std::fmt::Display| {
            AppError::Usage(format!("scenario {}: {error}", path.display()))
        };
        let text = latchwork_files::read_text(path, FILE).map_err(|error| wrong(&error))?;
        let mut scenario = Scenario::parse(&text).map_err(|error| wrong(&error))?;
        scenario.seed = seed.unwrap_or(scenario.seed);
        if let Some(Kind(workload)) = &self.workload
            && workload.kind() != scenario.workload.kind()
        {
            scenario.workload = workload.clone();
        }
        Ok(self.changed(scenario))
    }

    /// The world of a file if one is named, else of the seed.
    ///
    /// # Errors
    /// A mistake in the file, or in its combination with the flags.
    pub(crate) fn chosen(
        &self,
        file: Option<&Path>,
        seed: Option<u64>,
    ) -> Result<Scenario, AppError> {
        let scenario = match file {
            Some(path) => self.file(path, seed)?,
            None => self.scenario(seed.unwrap_or(1)),
        };
        self.check_index(&scenario)?;
        check(&scenario)?;
        Ok(scenario)
    }

    /// Refuses an index for another workload than the tree.
    fn check_index(&self, scenario: &Scenario) -> Result<(), AppError> {
        if self.index.is_some() && !matches!(scenario.workload, Workload::Tree(_)) {
            return Err(AppError::Usage(format!(
                "--index: the workload {} has no such setting; use --workload tree",
                workload_name(&scenario.workload)
            )));
        }
        Ok(())
    }

    fn changed(&self, mut scenario: Scenario) -> Scenario {
        fn set<T: Clone>(place: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                *place = value.clone();
            }
        }
        set(&mut scenario.operations, &self.operations);
        set(&mut scenario.compute_nodes, &self.nodes);
        set(&mut scenario.memory_nodes, &self.memory_nodes);
        set(&mut scenario.workers, &self.workers);
        set(&mut scenario.tasks, &self.tasks);
        set(&mut scenario.frames, &self.frames);
        set(&mut scenario.line_size, &self.line_size);
        set(&mut scenario.protocol, &self.protocol);
        set(&mut scenario.network, &self.nic);
        set(&mut scenario.faults, &self.faults);
        set(&mut scenario.checks, &self.checks);
        if let Workload::Tree(load) = &mut scenario.workload
            && let Some(index) = self.index
        {
            // Few locks, so that nodes share them, and in some worlds as many as nodes.
            (load.index, load.locks) = (index, scenario.seed % 6);
        }
        // The seed drew the place of the homes for another protocol and for other faults.
        if !scenario.protocol.has_homes() || scenario.faults.lost_memory > 0 {
            scenario.settings.remove("home");
        }
        scenario.settings.extend(self.settings.iter().cloned());
        scenario.elide_payloads |= self.elide_payloads;
        scenario.plant = self.plant.or(scenario.plant);
        if self.faults.is_none() {
            // The seed drew the faults for other numbers of nodes, so the counts are limited here.
            let (nodes, memory) = (scenario.compute_nodes as u32, scenario.memory_nodes as u32);
            let plan = &mut scenario.faults;
            plan.deaths = plan.deaths.min(nodes - 1);
            plan.lapses = plan.lapses.min(nodes - 1 - plan.deaths);
            plan.slow = plan.slow.min(nodes);
            plan.lost_memory = plan.lost_memory.min(memory);
        }
        scenario
    }
}

/// Refuses settings that contradict each other. The error is one line.
pub(crate) fn check(scenario: &Scenario) -> Result<(), AppError> {
    scenario.check().map_err(|error| AppError::Usage(error.to_string()))
}

/// A world in one line.
pub(crate) fn in_a_line(scenario: &Scenario) -> String {
    let Scenario { compute_nodes, memory_nodes, workers, tasks, operations, .. } = scenario;
    let many = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    let plant = scenario.plant.map(|plant| format!(", planted: {}", seeded_bug_name(plant)));
    format!(
        "seed {}: {} on {} ({}), {} x {} x {} x {operations} operations, {}, {} frames of {} bytes, {} network, faults {}{}",
        scenario.seed,
        workload_name(&scenario.workload),
        scenario.protocol,
        in_words(&scenario.settings),
        many(*compute_nodes, "node"),
        many(*workers, "worker"),
        many(*tasks, "task"),
        many(*memory_nodes, "memory node"),
        scenario.frames,
        scenario.line_size,
        scenario.network,
        // The comma and the space let a terminal fold the list; --faults accepts the list without
        // spaces.
        faults::list(&scenario.faults).replace(',', ", "),
        plant.unwrap_or_default(),
    )
}

#[cfg(test)]
mod tests {
    use latchwork_hunt::SeededBug;

    use super::*;

    #[test]
    fn flags_win_over_the_seed() {
        let flags = WorldArgs {
            nodes: Some(2),
            operations: Some(9),
            plant: Some(SeededBug::Forgets),
            ..WorldArgs::default()
        };
        for seed in 0..50 {
            let scenario = flags.scenario(seed);
            assert_eq!((scenario.seed, scenario.compute_nodes), (seed, 2));
            assert_eq!((scenario.operations, scenario.plant), (9, Some(SeededBug::Forgets)));
            check(&scenario).expect("flags and seed fit");
        }
    }
}
