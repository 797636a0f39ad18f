//! `sim hunt`: many worlds, until one fails.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use latchwork_harness::outcome::{say, short};
use latchwork_harness::{AppError, directory_to_write, folded, stop, write};
use latchwork_hunt::scenario::variants;
use latchwork_hunt::{Hunt, Scenario, Totals, run};
use latchwork_report::result::CheckOutcome;
use latchwork_runtime::Clock;

use crate::args::HuntArgs;
use crate::outcome;
use crate::shrink::{jobs_default, shrink_and_write, told};
use crate::{names, panics, progress, world};

const MINUTE: Duration = Duration::from_secs(60);

/// Hunts; returns whether no world failed.
pub(crate) fn hunt(arguments: &HuntArgs) -> Result<bool, AppError> {
    let length = arguments.minutes.or(arguments.seconds).unwrap_or(MINUTE);
    let from_seed = arguments.from_seed.unwrap_or_else(fresh_seed);
    let jobs = arguments.jobs.unwrap_or_else(jobs_default);
    let scenario = |seed: u64| arguments.world.scenario(seed);
    // An error that every seed has is reported before any world runs. Twenty seeds are tried.
    (from_seed..from_seed.saturating_add(20)).try_for_each(|seed| world::check(&scenario(seed)))?;
    let json = arguments.output.destination()?;
    directory_to_write("--out", &arguments.shrink.out)?;
    panics::tell_each_place_once();

    let clock = Clock::start();
    let (begin, until) = (clock.now(), clock.now() + length);
    let left = AtomicU64::new(arguments.worlds.unwrap_or(u64::MAX));
    let take = |n: u64| n.checked_sub(1);
    if let Err(error) = stop::install("sim") {
        say(&format!("hunt: a signal ends the program without results: {error}"));
    }
    let is_stopped = Arc::new(AtomicBool::new(false));
    let measuring = stop::measuring({
        let is_stopped = Arc::clone(&is_stopped);
        move |_| {
            is_stopped.store(true, Ordering::Relaxed);
            true
        }
    });
    // The signals are handled by now: what starts the hunt may stop it once it reads this line.
    let many = if jobs == 1 { "world" } else { "worlds" };
    say(&format!("hunt: from seed {from_seed}, {jobs} {many} at a time, {length:?}"));

    let go_on = || {
        // Relaxed: no other memory depends on the flag and on the count.
        let goes_on = clock.now() < until && !is_stopped.load(Ordering::Relaxed);
        goes_on && left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    };
    let shown = Mutex::new(Totals::default());
    let seen = |totals: &Totals| {
        *shown.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = totals.clone();
    };
    let hunt =
        Hunt { from_seed, jobs, keep_going: arguments.keep_going, scenario: &scenario, run: &run };
    let (totals, failed) = progress::show(length, clock, &shown, || hunt.run(&go_on, &seen));
    drop(measuring);
    let real = clock.now() - begin;

    let mut text = summary(&totals, from_seed, real);
    if let Some(signal) = stop::ended_early() {
        let next = from_seed.saturating_add(totals.worlds);
        let _ = writeln!(text, "stopped     by {}; go on with --from-seed {next}", signal.name());
    }
    let good = failed.is_empty();
    let _ = match good {
        true => writeln!(text, "checks      ok: no world failed"),
        false => {
            let seeds: Vec<String> = failed.iter().map(|(s, _)| s.seed.to_string()).collect();
            writeln!(text, "checks      FAILED: seed {}", seeds.join(", "))
        }
    };
    // A failure to write one output does not prevent the others.
    let mut summary = outcome::tell(&folded(&text), json.as_ref());
    if let Some(output) = &json {
        let mut document = outcome::document(&totals, real);
        document.config = describe(arguments, from_seed, jobs, &failed);
        let outcome = if good { CheckOutcome::Ok } else { CheckOutcome::Failed };
        document.checks.insert("worlds".to_owned(), outcome);
        summary = summary.and(write(output, document.to_json()));
    }
    // Without --keep-going several worlds may fail before the hunt stops. Their seeds are printed
    // above, and only the first gets evidence.
    let kept = if arguments.keep_going { failed.len() } else { 1 };
    // Several failures share the time for shrinking.
    let share = u32::try_from(failed.len().min(kept).max(1)).unwrap_or(u32::MAX);
    for (scenario, report) in failed.iter().take(kept) {
        let budget = arguments.shrink.shrink_seconds / share;
        let evidence = shrink_and_write((scenario, report), budget, jobs, &arguments.shrink.out)?;
        summary = summary.and(outcome::tell(&format!("\n{}", told(&evidence)), json.as_ref()));
    }
    summary?;
    Ok(good)
}

/// A start seed that differs from those of other hunts.
fn fresh_seed() -> u64 {
    // The hasher's keys are the only source of randomness in the standard library. The seeds are
    // short. A first seed is a multiple of 10,000, so short hunts seldom overlap.
    RandomState::new().hash_one(0_u8) % 1_000_000_000 * 10_000
}

fn summary(totals: &Totals, from_seed: u64, real: Duration) -> String {
    let mut text = String::new();
    let per_s = totals.worlds as f64 / real.as_secs_f64().max(1e-9);
    let last = from_seed.saturating_add(totals.worlds.saturating_sub(1));
    let _ = writeln!(
        text,
        "worlds      {}: {}/s, seeds {from_seed} to {last}; faults struck in {}",
        totals.worlds,
        short(per_s),
        totals.with_faults
    );
    let kinds = totals.by_workload.iter().map(|(name, count)| format!("{name} {count}"));
    let _ = writeln!(text, "workloads   {}", kinds.collect::<Vec<_>>().join(", "));
    let _ = writeln!(text, "settings    {}", settings(totals));
    text += &outcome::counts(totals, real);
    text
}

/// The number of worlds with changed settings of the protocol, and how many of all possible changes
/// these worlds had.
fn settings(totals: &Totals) -> String {
    let variants = variants();
    let is_tried = |name: &String| variants.iter().any(|variant| variant.contains_key(name));
    let mut by_settings: BTreeMap<Vec<_>, u64> = BTreeMap::new();
    for (overrides, worlds) in &totals.by_settings {
        // Settings that only one protocol has are drawn besides.
        let tried = overrides.iter().filter(|(name, _)| is_tried(name)).collect();
        *by_settings.entry(tried).or_default() += worlds;
    }
    let mut words = Vec::new();
    for (changed, what) in [(0, "as they are"), (1, "one changed"), (2, "two")] {
        let met = by_settings.iter().filter(|(tried, _)| tried.len() == changed);
        let (ways, worlds) = met.fold((0, 0), |(ways, all), (_, worlds)| (ways + 1, all + worlds));
        let there_are = variants.iter().filter(|variant| variant.len() == changed).count();
        words.push(match changed {
            0 => format!("{what} {worlds}"),
            _ => format!("{what} {worlds} ({ways} of {there_are} ways)"),
        });
    }
    words.join(", ")
}

fn describe(
    arguments: &HuntArgs,
    from_seed: u64,
    jobs: usize,
    failed: &[(Scenario, latchwork_hunt::WorldReport)],
) -> std::collections::BTreeMap<String, serde_json::Value> {
    let seeds: Vec<u64> = failed.iter().map(|(scenario, _)| scenario.seed).collect();
    let plant = arguments.world.plant.map(names::seeded_bug_name);
    let entries = [
        ("from_seed", from_seed.into()),
        ("jobs", jobs.into()),
        ("keep_going", arguments.keep_going.into()),
        ("failed_seeds", seeds.into()),
        ("plant", plant.into()),
    ];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
