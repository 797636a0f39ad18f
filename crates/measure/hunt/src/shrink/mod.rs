//! [`Shrinker`]: looks for a smaller world that fails the same check.
//!
//! The shape of a scenario is made smaller step by step: fewer operations, nodes, workers, tasks
//! and lines, faults off one by one, a calmer network. Since any change of the shape changes every
//! draw behind it, the failure is then hidden under another seed: each smaller shape is tried with
//! the seed that failed and with some tens of others (compare Zeller and Hildebrandt, "Simplifying
//! and isolating failure-inducing input", 2002, where the parts of an input can be left out one by
//! one).
//!
//! ```text
//!   scenario ──► smaller shapes, boldest first ──► each with many seeds, side by side
//!       ▲                                             │ one fails the same check
//!       └─────────────────────────────────────────────┘
//! ```

mod shapes;

use crate::{Check, Report, Scenario};

/// How a search for a smaller world goes about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shrinker {
    /// Seeds that each shape is tried with at first, at least 1: the one that failed, and those
    /// after it. When no smaller shape fails with any of them, each is tried with eight times as
    /// many.
    pub seeds: u64,
    /// Seeds that each shape is tried with at most.
    pub seeds_max: u64,
    /// Worlds that run side by side, at least 1.
    pub jobs: usize,
}

impl Default for Shrinker {
    fn default() -> Self {
        Shrinker { seeds: 16, seeds_max: 1024, jobs: 1 }
    }
}

/// What a search found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shrunk {
    /// The smallest scenario that fails.
    pub scenario: Scenario,
    /// What came of its world.
    pub report: Report,
    /// How many worlds were run.
    pub worlds: u64,
    /// How often the scenario became smaller.
    pub steps: u64,
}

impl Shrinker {
    /// The smallest scenario found that fails as `report` says `scenario` does, while `go_on`
    /// holds: it is asked before every few worlds. With `jobs` above 1 worlds run on threads; the
    /// result depends on the scenario and on how long the search may go on, not on which thread is
    /// faster.
    pub fn shrink(
        &self,
        scenario: &Scenario,
        report: &Report,
        run: &(dyn Fn(&Scenario) -> Report + Sync),
        mut go_on: impl FnMut(&Shrunk) -> bool,
    ) -> Shrunk {
        let (scenario, report) = (scenario.clone(), report.clone());
        let mut best = Shrunk { scenario, report, worlds: 0, steps: 0 };
        let Some(check) = best.report.failure.as_ref().map(|failure| failure.check) else {
            return best;
        };
        // Of each shape, the seeds before these have been tried.
        let (mut tried, mut until) = (0, self.seeds.max(1));
        'smaller: loop {
            for shape in shapes::smaller(&best.scenario) {
                let first = best.scenario.seed;
                let seeds: Vec<u64> = (tried..until).map(|k| first.wrapping_add(k)).collect();
                for some in seeds.chunks(self.jobs.max(1)) {
                    if !go_on(&best) {
                        return best;
                    }
                    best.worlds += some.len() as u64;
                    let worlds = some.iter().map(|&seed| Scenario { seed, ..shape.clone() });
                    if let Some((scenario, report)) = first_failing(worlds.collect(), check, run) {
                        best = Shrunk { scenario, report, steps: best.steps + 1, ..best };
                        (tried, until) = (0, self.seeds.max(1));
                        continue 'smaller;
                    }
                }
            }
            if until >= self.seeds_max {
                return best;
            }
            (tried, until) = (until, (8 * until).min(self.seeds_max));
        }
    }
}

/// Runs worlds side by side; the first of them, in their order, that fails this check.
fn first_failing(
    worlds: Vec<Scenario>,
    check: Check,
    run: &(dyn Fn(&Scenario) -> Report + Sync),
) -> Option<(Scenario, Report)> {
    let reports: Vec<Option<Report>> = match &worlds[..] {
        [one] => vec![Some(run(one))],
        many => std::thread::scope(|scope| {
            let running: Vec<_> =
                many.iter().map(|world| scope.spawn(move || run(world))).collect();
            // `run` does not panic.
            running.into_iter().map(|thread| thread.join().ok()).collect()
        }),
    };
    worlds.into_iter().zip(reports).find_map(|(scenario, report)| {
        let report = report?;
        let same = report.failure.as_ref().is_some_and(|failure| failure.check == check);
        same.then_some((scenario, report))
    })
}

#[cfg(test)]
mod tests;
