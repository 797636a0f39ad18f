//! The phases of a run, one after the other on the same cluster, and what they print.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use latchwork_blink::Tree;
use latchwork_cluster::Worker;
use latchwork_engine::Counters;
use latchwork_harness::driver::Common;
use latchwork_harness::driver::{Driver, Figures, Outcome};
use latchwork_harness::outcome::{self, RunCheck, say, short};
use latchwork_harness::progress::{Extent, Title};
use latchwork_harness::{AppError, ClusterFlags, Plan as CoursePlan, RunCluster, Warmup, stop};
use latchwork_report::histogram::Latencies;
use latchwork_runtime::Time;
use latchwork_workload::ycsb::InsertCounter;
use serde_json::Value;

use crate::args::{Cli, Command, LoadBy};
use crate::check::{self, Expected, Found};
use crate::index::{TableIndex, TableSettings};
use crate::load::{self, Loaded};
use crate::run::{self, Plan, Run, Wrote};
use crate::sample_history::{History, Sample};
use crate::settings::Settings;
use crate::status::Status;

const LOAD: Title = Title { name: "load", what: "records" };
const RUN: Title = Title { name: "run", what: "operations" };
const CHECK: Title = Title { name: "check", what: "records" };

impl Driver for Settings {
    const NAME: &'static str = "ycsb";
    const REPLACES: bool = true;
    type Cli = Cli;
    /// The number of events of the world during the run, and the real time of the run.
    type Found = Option<(u64, Duration)>;

    fn new(cli: Cli) -> Result<Settings, AppError> {
        Settings::new(cli)
    }

    fn common(&self) -> &Common {
        &self.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.common
    }

    fn describe(&self) -> BTreeMap<String, Value> {
        Settings::describe(self)
    }

    fn to_agree_on(&self) -> BTreeMap<String, Value> {
        Settings::to_agree_on(self)
    }

    fn join(&mut self, cluster: &RunCluster) -> Result<(), AppError> {
        self.table = cluster.name(&self.workload.table);
        Ok(())
    }

    fn headline(&self) -> String {
        format!(
            "ycsb {}{}: workload {}, {} records of up to {} bytes, loaded {}, index {}; {}{}",
            self.command.name(),
            self.common.fabric.nic().map_or(String::new(), |nic| format!(" on simulated {nic}")),
            self.sources.join(" "),
            self.workload.record_count(),
            self.workload.layout.len_max(),
            self.load_by.in_words(),
            self.index.name(),
            ClusterFlags::in_words(&self.common.cluster),
            match (self.command, self.warmup_auto) {
                (Command::Load, _) => String::new(),
                (_, true) => "; warm-up until the hit ratio is steady".to_owned(),
                (_, false) => format!("; warm-up of {:?}", self.warmup),
            },
        )
    }

    fn phases(
        self: &Arc<Self>,
        cluster: &RunCluster,
        outcome: &mut Outcome,
    ) -> Result<Self::Found, AppError> {
        match self.index {
            TableSettings::Blink => phases::<Tree<Worker>>(self, cluster, outcome),
            TableSettings::Sherman(_) => phases::<latchwork_sherman::Tree>(self, cluster, outcome),
        }
    }

    fn table(
        &self,
        outcome: &Outcome,
        in_world: &Self::Found,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        writeln!(out)?;
        let phases = [("load", "records", &outcome.load), ("run", "operations", &outcome.run)];
        for (name, what, figures) in phases {
            let Some(Figures { phase, .. }) = figures else { continue };
            let (rate, ops, seconds) = (short(phase.throughput_ops_s), phase.ops, phase.elapsed_s);
            writeln!(out, "{name:<6} {ops} {what} in {seconds:.2} s: {rate} {what}/s")?;
        }
        if let Some(world) = &outcome.world {
            world.write(out)?;
        }
        if let Some((events, time)) = in_world {
            let seconds = time.as_secs_f64();
            let rate = short(*events as f64 / seconds.max(1e-9));
            writeln!(
                out,
                "       the run, warm-up included: {events} events in {seconds:.1} s, {rate} events/s"
            )?;
        }
        let Some(main) = outcome.main() else { return Ok(()) };
        main.write_conditions(out)?;
        outcome::write_latencies(out, &main.latencies)?;
        outcome::write_checks(out, &outcome.checks)
    }
}

fn phases<I: TableIndex>(
    settings: &Arc<Settings>,
    cluster: &RunCluster,
    outcome: &mut Outcome,
) -> Result<Option<(u64, Duration)>, AppError> {
    let mut expected = Expected::default();
    if cluster.replaces().is_none() {
        outcome.load = Some(load::<I>(settings, cluster, &mut expected)?);
    }
    let (mut in_world, mut wrote) = (None, None);
    if settings.command == Command::Load {
        outcome.counters = cluster.counters()?;
    } else {
        let clock = latchwork_runtime::Clock::start();
        let before = cluster.events();
        // Sherman's tree has locks that a death leaves.
        if let TableSettings::Blink = settings.index
            && cluster.replaces().is_none()
        {
            cluster.outlive()?;
        }
        wrote = Some(run::<I>(settings, cluster, &mut expected, outcome)?);
        let after = cluster.events();
        in_world =
            after.zip(before).map(|(after, before)| (after - before, clock.now() - Time::ZERO));
    }
    let found = check::<I>(settings, cluster, &expected)?;
    let dead = cluster.dead();
    if let Some(wrote) = wrote {
        // The compute nodes of processes have the indexes of the processes.
        let is_partial = !dead.is_empty() || cluster.replaces().is_some();
        expected.settle(settings, wrote, &dead, is_partial);
    }
    outcome.checks.extend(found.judge(&expected));
    outcome.checks.extend(expected.history.as_ref().and_then(judge));
    Ok(in_world)
}

fn check<I: TableIndex>(
    settings: &Arc<Settings>,
    cluster: &RunCluster,
    expected: &Expected,
) -> Result<Found, AppError> {
    let extent = cluster.part_of(expected.records);
    let workers = cluster.with_living(|workers| {
        cluster.phase(CHECK, extent, settings, move |settings, phase, member| {
            check::check::<I>(settings, phase, workers.place(&member), member)
        })
    })?;
    let mut found = Found::default();
    workers.into_iter().for_each(|worker| found.merge(worker));
    Ok(found)
}

fn load<I: TableIndex>(
    settings: &Arc<Settings>,
    cluster: &RunCluster,
    expected: &mut Expected,
) -> Result<Figures, AppError> {
    let records = settings.workload.record_count();
    let begin = cluster.now();
    // With other commands the status lines are those of the run.
    let every = settings.status.filter(|_| settings.command == Command::Load);
    let status = Status::new(every, cluster);
    let told = status.clone();
    let inserts =
        move |settings, phase, member| load::inserts::<I>(settings, phase, told.clone(), member);
    let workers: Vec<Loaded> = match settings.load_by {
        LoadBy::Inserts => cluster.phase(LOAD, cluster.part_of(records), settings, inserts),
        LoadBy::Bulk => cluster.phase(LOAD, Extent::Operations(records), settings, load::bulk::<I>),
    }?;
    if let Some(status) = status {
        status.end(cluster.own_end(workers.iter().map(|worker| worker.end)));
    }
    let mut latencies = Latencies::new();
    for worker in &workers {
        latencies.merge(&worker.latencies);
        expected.records += worker.records;
        expected.digest = expected.digest.wrapping_add(worker.digest);
    }
    expected.failed += latencies.failed();
    let ends = workers.iter().map(|worker| worker.end);
    let figures = Figures::between(expected.records, begin, ends);
    Ok(Figures { latencies: latencies.measured(), ..figures })
}

/// The measured run. Returns what the workers of each compute node wrote.
fn run<I: TableIndex>(
    settings: &Arc<Settings>,
    cluster: &RunCluster,
    expected: &mut Expected,
    outcome: &mut Outcome,
) -> Result<Vec<Wrote>, AppError> {
    let workload = &settings.workload;
    let before = cluster.counters()?;
    let mut plan = Plan::new(cluster.begin(true)?, settings.warmup, settings.time);
    let course = settings.warmup_auto.then(|| {
        plan.until = Time::MAX;
        let config = &settings.common.cluster;
        // A window has about as many operations as all caches have lines.
        let lines = config.cache_bytes / config.line_size as usize * config.compute_nodes;
        let warmup = Warmup::Steady { window: (lines as u64).max(10_000) };
        let (operations, time) = (settings.operations, settings.time);
        cluster.course(CoursePlan { warmup, operations, time }, plan.begin)
    });
    let sampled = settings.command == Command::Check
        && workload.layout.keeps_whole_versions()
        && cluster.has_one_clock();
    let seed = settings.common.cluster.seed;
    let sample = sampled.then(|| Sample::new(workload, seed)).transpose()?;
    let (process, of) = cluster.process();
    let inserts = InsertCounter::of_process(workload.first_insert(), process as u64, of as u64);
    let (phase, status) = (cluster.progress(), Status::new(settings.status, cluster));
    if let Some(status) = &status {
        status.accompany(&phase);
    }
    let run = Arc::new(Run {
        settings: settings.clone(),
        phase,
        plan,
        inserts: Arc::new(inserts),
        sample,
        course,
        is_measured: AtomicBool::new(false),
        status,
        time: cluster.loop_time(),
        replaces: cluster.replaces(),
        long_accesses: cluster.long_accesses(),
    });
    let operations = settings.operations.map(|all| cluster.part_of(all));
    let extent = operations.unwrap_or(Extent::Until(plan.until));
    let ran = cluster.measure(&run, Some((RUN, extent, &run.phase)), run::run::<I>)?;
    if let Some(status) = &run.status {
        status.end(cluster.own_end(ran.done.iter().map(|done| done.end)));
    }
    let is_measured = run.course.is_some() || ran.done.iter().any(|done| done.counters.is_some());
    if let Some(signal) = stop::ended_early().filter(|_| !is_measured) {
        return Err(stop::error().unwrap_or(AppError::Stopped(signal)));
    }
    outcome.failure = run.phase.shortage();
    if let Some(error) = outcome.failure.take_if(|_| !is_measured) {
        return Err(error);
    }
    outcome.counters = cluster.counters()?;
    for (node, counted) in outcome.counters.iter_mut().enumerate() {
        // An agent has no workers of the run, nor has a process that has died.
        let first = ran.done.iter().find(|done| done.wrote.node == node);
        let first = first.and_then(|first| first.counters);
        let first = first.unwrap_or_else(|| before.get(node).copied().unwrap_or_default());
        // A process that has died does not tell its counters any more.
        if *counted != Counters::default() {
            *counted = *counted - first;
        }
    }
    if let Some(course) = &run.course {
        let went = cluster.all_went(course.went())?;
        plan.measured_from = went.from;
        outcome.counters = went.counters;
    }
    let mut latencies = Latencies::new();
    ran.done.iter().for_each(|worker| latencies.merge(&worker.latencies));
    expected.failed += latencies.failed();
    let is_cut = run.phase.ended_early()
        || settings.operations.is_some_and(|all| latencies.ok() + latencies.failed() >= all);
    let until = (plan.until < Time::MAX && !is_cut).then_some(plan.until);
    let ends = ran.done.iter().map(|worker| worker.end).chain(until);
    let figures = Figures::between(latencies.ok(), plan.measured_from, ends);
    let latencies = latencies.measured();
    outcome.run = Some(ran.complete(Figures { latencies, ..figures }, None));
    expected.history = run.sample.is_some().then(History::new);
    Ok(ran.done.into_iter().map(|done| done.wrote).collect())
}

fn judge(history: &History) -> Option<RunCheck> {
    let name = "linearizability";
    match Sample::judge(history) {
        Some(Ok(())) => {
            let detail = format!("one order explains {} accesses to popular fields", history.len());
            Some(RunCheck::new(name, true, detail))
        }
        Some(Err(error)) => Some(RunCheck::new(name, false, error)),
        None => {
            say("ycsb: linearizability is undecided: too many accesses to one field overlap");
            None
        }
    }
}
