//! [`Shrinker`]: searches a smaller world that fails the same check.
//!
//! The search makes the shape of a scenario smaller step by step: fewer operations, nodes, workers,
//! tasks and lines, single faults off, a calmer network. Every change of the shape changes all
//! later random choices. Then the failure appears under another seed. So each smaller shape is
//! tried with the failing seed and with some tens of other seeds. Compare Zeller and Hildebrandt,
//! "Simplifying and isolating failure-inducing input", 2002: there the parts of an input can be
//! left out one by one.
//!
//! ```text
//!   scenario ──► smaller shapes, boldest first ──► each with many seeds, side by side
//!       ▲                                             │ one fails the same check
//!       └─────────────────────────────────────────────┘
//! ```

mod shapes;

use crate::{Scenario, WorldCheck, WorldReport};

/// The settings of a search for a smaller world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shrinker {
    /// The seeds that each shape is tried with at first, at least 1: the failing seed and the
    /// following ones. When no smaller shape fails, the search uses eight times as many seeds.
    pub seeds: u64,
    /// The most seeds that each shape is tried with.
    pub seeds_max: u64,
    /// The number of worlds that run in parallel, at least 1.
    pub jobs: usize,
}

impl Default for Shrinker {
    fn default() -> Self {
        Shrinker { seeds: 16, seeds_max: 1024, jobs: 1 }
    }
}

/// The result of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shrunk {
    /// The smallest scenario that fails.
    pub scenario: Scenario,
    /// The report of its world.
    pub report: WorldReport,
    /// The number of worlds that ran.
    pub worlds: u64,
    /// The number of steps that made the scenario smaller.
    pub steps: u64,
}

impl Shrinker {
    /// Returns the smallest scenario found that fails the same check as `report`. The search goes
    /// on while `go_on` holds, which is called before every few worlds. With `jobs` above 1, worlds
    /// run on threads. The result depends on the scenario and on the duration of the search, not on
    /// the speed of the threads.
    pub fn shrink(
        &self,
        scenario: &Scenario,
        report: &WorldReport,
        run: &(dyn Fn(&Scenario) -> WorldReport + Sync),
        mut go_on: impl FnMut(&Shrunk) -> bool,
    ) -> Shrunk {
        let (scenario, report) = (scenario.clone(), report.clone());
        let mut best = Shrunk { scenario, report, worlds: 0, steps: 0 };
        let Some(check) = best.report.failure.as_ref().map(|failure| failure.check) else {
            return best;
        };
        // The seeds of each shape that have been tried, and the next bound.
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

/// Runs worlds in parallel. Returns the first one, in their order, that fails this check.
fn first_failing(
    worlds: Vec<Scenario>,
    check: WorldCheck,
    run: &(dyn Fn(&Scenario) -> WorldReport + Sync),
) -> Option<(Scenario, WorldReport)> {
    let reports: Vec<Option<WorldReport>> = match &worlds[..] {
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
