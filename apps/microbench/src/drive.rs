//! The phases of a run, one after the other on the same cluster.

use std::sync::Arc;
use std::time::Duration;

use latchwork_harness::AppError;
use latchwork_harness::outcome::{RunCheck, many, say_folded};
use latchwork_harness::{Cores, Course, Limit, Plan, RunCluster, Warmup, Went, stop};
use latchwork_report::conditions::Conditions;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::micro::WriteKind;

use crate::client::{self, Done, Run};
use crate::figures::Figures;
use crate::lines::{self, Found};
use crate::outcome::Outcome;
use crate::sample_history::{Sample, Witness};
use crate::settings::Settings;

/// The time between the call of a run of several processes and its begin, so that all workers are
/// ready.
const LEAD_TIME: Duration = Duration::from_millis(20);

/// Runs all phases with the settings.
pub(crate) fn drive(mut settings: Settings) -> Result<Outcome, AppError> {
    let cluster = RunCluster::start(settings.cluster.clone(), &settings.fabric)?;
    // The memory nodes of other processes have said their size by now.
    settings.cluster = cluster.config().clone();
    let outcome = phases(Arc::new(settings), &cluster);
    cluster.end(outcome)
}

/// All phases, and their outcome.
fn phases(settings: Arc<Settings>, cluster: &RunCluster) -> Result<Outcome, AppError> {
    cluster.agree("microbench", settings.describe())?;
    if cluster.is_first() {
        say_folded(&headline(&settings));
    }
    let made = {
        let settings = settings.clone();
        let body = move |member| {
            let settings = settings.clone();
            async move { lines::make(&settings, &member).await }
        };
        let made = cluster.try_run(body)?;
        stop::check()?;
        made
    };
    let made = made.into_iter().flatten().map(GlobalAddr::from_bits);
    let lines = Arc::new(lines::spread(made, settings.workload.lines()));
    let Measured { run, went, mut done, limit, conditions } = measure(&settings, cluster, &lines)?;
    let clients = match settings.workload.config().writes {
        WriteKind::Locked => 0,
        WriteKind::Blind => Run::clients(&settings),
    };
    let mut found = Found::default();
    let inspected = {
        let settings = settings.clone();
        let body = move |member| {
            let (settings, lines) = (settings.clone(), lines.clone());
            async move { lines::inspect(&settings, &lines, clients, &member).await }
        };
        cluster.try_run(body)?
    };
    inspected.into_iter().for_each(|part| found.merge(part));
    let mut checks = judge(&settings, &done, &found);
    let mut witness = Witness::default();
    done.iter_mut().for_each(|done| witness.merge(std::mem::take(&mut done.witness)));
    let ends = cluster.share(run.sample.until())?;
    ends.into_iter().for_each(|until| run.sample.ends(until));
    // Buffered writes are not linearizable. Times of different clocks cannot be compared.
    if !settings.relaxed.consistency.buffers() && cluster.has_one_clock() {
        checks.push(match witness.judge(&run.sample) {
            Ok(()) => {
                let detail =
                    format!("one order of each explains {} accesses to items", witness.len());
                RunCheck::new("linearizability", true, detail)
            }
            Err(problem) => RunCheck::new("linearizability", false, problem),
        });
    }
    let figures = Figures::new(&settings, done, went, (limit, conditions));
    let (event_hash, is_told_here) = (cluster.event_hash(), cluster.is_first());
    Ok(Outcome { settings, figures, checks, event_hash, is_told_here })
}

/// The results of the measured run.
struct Measured {
    run: Arc<Run>,
    went: Went,
    /// The results of each worker.
    done: Vec<Done>,
    /// The resource that limited the run, if it is known.
    limit: Option<Limit>,
    /// How far the figures can be trusted, in real time.
    conditions: Option<Conditions>,
}

/// The measured run.
fn measure(
    settings: &Arc<Settings>,
    cluster: &RunCluster,
    lines: &Arc<Vec<GlobalAddr>>,
) -> Result<Measured, AppError> {
    let workers = settings.cluster.compute_nodes * settings.cluster.workers;
    // Each process does its share of the operations of the whole run.
    let Plan { warmup, operations, time } = settings.plan;
    let plan = Plan {
        warmup: match warmup {
            Warmup::Operations(all) => Warmup::Operations(cluster.share_of(all)),
            Warmup::Steady { window } => Warmup::Steady { window: cluster.share_of(window) },
            Warmup::Time(time) => Warmup::Time(time),
        },
        operations: operations.map(|all| cluster.share_of(all)),
        time,
    };
    let now = cluster.now_of_all()?;
    // All processes begin together.
    let begin = if cluster.process().1 > 1 { now + LEAD_TIME } else { now };
    let course = Course::new(plan, cluster.nodes(), workers, cluster.loop_time(), begin);
    let sample = Sample::new(&settings.workload, workers, settings.cluster.seed);
    let (settings, lines) = (settings.clone(), lines.clone());
    let run = Arc::new(Run { settings, lines, begin, course, sample });
    let cores = Cores::before();
    let (done, limit) = {
        let (shared, ending, metered) = (run.clone(), run.clone(), run.clone());
        let _measuring = stop::measuring(move |signal| ending.course.stop(signal));
        let body = cores.around(move |member| client::run(shared.clone(), member));
        let measured = || cluster.run_course(&run.course, body);
        cluster.metered(move |_| metered.course.part(), measured)
    };
    let done: Vec<Option<Done>> = done?;
    let conditions = cores.after(cluster)?;
    let limit = limit.or_else(|| Limit::of_threads(conditions.as_ref(), None));
    // A failure of the run is reported first, because the missing results follow from it.
    let went = cluster.all_went(run.course.went())?;
    let lost = || AppError::Failed("a worker ended without a result".to_owned());
    let done = done.into_iter().collect::<Option<Vec<Done>>>().ok_or_else(lost)?;
    Ok(Measured { run, went, done, limit, conditions })
}

fn judge(settings: &Settings, done: &[Done], found: &Found) -> Vec<RunCheck> {
    let looked_at: u64 = found.items + done.iter().map(|done| done.looked_at).sum::<u64>();
    let garbage = done.iter().find_map(|done| done.garbage.as_ref()).or(found.first.as_ref());
    let contents = match garbage {
        None => {
            RunCheck::new("contents", true, format!("{looked_at} items as some writer left them"))
        }
        Some(place) => RunCheck::new("contents", false, format!("{place} is as no writer left it")),
    };
    let written: u64 = done.iter().flat_map(|done| &done.writes).map(|(_, count)| count).sum();
    let writes = match settings.workload.config().writes {
        WriteKind::Locked => RunCheck::new(
            "writes",
            found.stamps == written,
            format!("{written} writes, and the items say {}", found.stamps),
        ),
        WriteKind::Blind => {
            let ahead = done.iter().flat_map(|done| &done.writes).find(|(client, count)| {
                found.last_of.get(*client).is_some_and(|last| last > count)
            });
            let detail = match ahead {
                None => format!("{written} writes, and each item has one of them"),
                Some((client, count)) => {
                    format!("client {client} wrote {count} times, and an item has a later one")
                }
            };
            RunCheck::new("writes", ahead.is_none(), detail)
        }
    };
    vec![contents, writes]
}

/// A line for people about the coming run.
fn headline(settings: &Settings) -> String {
    let (cluster, micro) = (&settings.cluster, settings.workload.config());
    let popularity = match micro.popularity {
        latchwork_workload::micro::Popularity::Uniform => "uniform".to_owned(),
        latchwork_workload::micro::Popularity::Zipfian { theta } => format!("zipfian {theta}"),
    };
    format!(
        "microbench: {} on {}{}; {} with {} each, {}; {} of {} bytes, \
         {popularity}, {:.0} % reads, {:.0} % shared; cache of {} per compute node",
        cluster.policy.name,
        settings.fabric.name(),
        settings.fabric.nic().map(|nic| format!(" ({nic})")).unwrap_or_default(),
        many(cluster.compute_nodes, "compute node"),
        many(cluster.workers, "worker"),
        many(cluster.memory_nodes, "memory node"),
        many(settings.workload.lines() as usize, "line"),
        cluster.line_size,
        micro.reads * 100.0,
        micro.sharing * 100.0,
        many(crate::settings::frames(cluster) as usize, "line"),
    )
}
