//! `sim shrink`: a smaller world that fails the same check.

use std::path::Path;
use std::time::Duration;

use latchwork_harness::outcome::say;
use latchwork_harness::{AppError, directory_to_write};
use latchwork_hunt::{Scenario, Shrinker, WorldReport, run};
use latchwork_runtime::Clock;

use crate::args::ShrinkArgs;
use crate::evidence::{Evidence, Failed};
use crate::{outcome, panics};

/// Shrinks a world that fails. Returns false, because a failing world is a bad result.
pub(crate) fn shrink(arguments: &ShrinkArgs) -> Result<bool, AppError> {
    let scenario = arguments.world.chosen(arguments.scenario.as_deref(), arguments.seed)?;
    directory_to_write("--out", &arguments.shrink.out)?;
    panics::tell_each_place_once();
    let clock = Clock::start();
    let begin = clock.now();
    let report = run(&scenario);
    if report.failure.is_none() {
        outcome::tell(&outcome::report_lines(&scenario, &report, clock.now() - begin), None)?;
        return Err(AppError::Usage(format!(
            "the world of seed {} fails no check: there is nothing to shrink",
            scenario.seed
        )));
    }
    let budget = arguments.shrink.shrink_seconds;
    let jobs = arguments.jobs.unwrap_or_else(jobs_default);
    let found = (&scenario, &report);
    let evidence = shrink_and_write(found, budget, jobs, &arguments.shrink.out)?;
    outcome::tell(&told(&evidence), None)?;
    Ok(false)
}

pub(crate) fn jobs_default() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// The text about a failed world and its files, for people.
pub(crate) fn told(evidence: &Evidence) -> String {
    let directory = evidence.directory.display();
    format!(
        "{}files       {directory}/{{scenario.toml, report.txt, events.log, diagram.txt, diagram.mmd}}\n",
        evidence.text
    )
}

/// Shrinks for at most `budget` and writes the evidence of the result.
pub(crate) fn shrink_and_write(
    found: (&Scenario, &WorldReport),
    budget: Duration,
    jobs: usize,
    out: &Path,
) -> Result<Evidence, AppError> {
    let clock = Clock::start();
    let (begin, until) = (clock.now(), clock.now() + budget);
    let shrinker = Shrinker { jobs, ..Shrinker::default() };
    let mut told = 0;
    let shrunk = shrinker.shrink(found.0, found.1, &run, |best| {
        let seconds = (clock.now() - begin).as_secs();
        if seconds >= told + 5 {
            told = seconds;
            say(&format!("shrink: {} worlds, smaller {} times", best.worlds, best.steps));
        }
        clock.now() < until
    });
    let (steps, worlds) = (shrunk.steps, shrunk.worlds);
    let seconds = (clock.now() - begin).as_secs_f64();
    let how = format!("{steps} times smaller, {worlds} worlds tried in {seconds:.1} s");
    Failed { found, shrunk: (&shrunk.scenario, &shrunk.report), how }.write(out)
}
