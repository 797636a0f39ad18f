//! [`Shrinker`]: searches for a smaller world in which the same check fails.
//!
//! A *shape* is a scenario without its seed. A smaller shape has fewer nodes, workers, tasks or
//! operations, a simpler workload, fewer faults, default settings, or a calmer network. With fewer
//! nodes, each task may get more operations. A larger cache counts as smaller, because a world
//! without evictions is simpler.
//!
//! Another shape has another schedule and other random choices. So the failure may need another
//! seed. Each shape is tried with the failing seed and the seeds after it. The first round has 16
//! seeds, and later rounds have up to 1024. Compare Zeller and Hildebrandt, "Simplifying and
//! isolating failure-inducing input", 2002. Their method removes parts of a fixed input. Here the
//! removal of a part changes the rest of the world.
//!
//! ```text
//!   scenario ──► smaller shapes, in groups ──► each with many seeds, side by side
//!       ▲                                             │ one fails the same check
//!       └─────────────────────────────────────────────┘
//! ```

mod shapes;

use crate::{Scenario, WorldCheck, WorldReport};

/// The settings of a search for a smaller world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shrinker {
    /// The number of seeds per shape in the first round, at least 1: the failing seed and the seeds
    /// after it. Each further round continues to eight times as many seeds, up to `seeds_max`.
    pub seeds: u64,
    /// The maximum number of seeds per shape.
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
    /// The smallest failing scenario that was found. If the given report has no failure, the given
    /// scenario.
    pub scenario: Scenario,
    /// The report of this scenario's world.
    pub report: WorldReport,
    /// The number of worlds that ran.
    pub worlds: u64,
    /// The number of steps that made the scenario smaller.
    pub steps: u64,
}

impl Shrinker {
    /// Searches for a smaller scenario that fails the same check as `report`. The search calls
    /// `go_on` before every chunk of `jobs` worlds, and ends when `go_on` returns false. The worlds
    /// of a chunk run on threads. A chunk of one world runs on the calling thread. If `go_on`
    /// always returns true, the result does not depend on `jobs` or on the timing of threads.
    ///
    /// If `run` panics on a thread of its own, the world counts as one that passes. If `run` panics
    /// on the calling thread, the panic ends the search.
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
        // Seeds are counted from the failing seed. Every shape has been tried with the first
        // `tried` seeds. This round tries the seeds up to `until`.
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

/// Runs worlds in parallel. Returns the first world, in the order of `worlds`, that fails this
/// check.
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
            // [`run`](crate::run) reports a panic inside its world as a failure.
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
