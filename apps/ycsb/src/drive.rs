//! The phases of a run, one after the other on the same cluster.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use latchwork_engine::Counters;
use latchwork_harness::AppError;
use latchwork_harness::PhaseProgress;
use latchwork_harness::outcome::{RunCheck, WorldEnd, say};
use latchwork_harness::progress::{Extent, Title};
use latchwork_harness::{Cores, Course, Limit, Plan as CoursePlan, RunCluster, Warmup, stop};
use latchwork_report::histogram::Latencies;
use latchwork_report::result;
use latchwork_runtime::{Clock, Time};
use latchwork_workload::ycsb::InsertCounter;

use crate::args::{Command, LoadBy};
use crate::check::{self, Expected, Found};
use crate::load::{self, Loaded};
use crate::outcome::{Measured, Outcome};
use crate::run::{self, Done, Plan, Run};
use crate::sample_history::{Sample, Witness};
use crate::session::Session;
use crate::settings::Settings;

const LOAD: Title = Title { name: "load", what: "records" };
const RUN: Title = Title { name: "run", what: "operations" };
const CHECK: Title = Title { name: "check", what: "records" };

/// A cluster and its session.
struct Driver {
    session: Arc<Session>,
    cluster: RunCluster,
}

/// Runs all phases with the settings.
pub(crate) fn drive(mut settings: Settings) -> Result<Outcome, AppError> {
    let clock = Clock::start();
    let cluster = RunCluster::start(settings.cluster.clone(), &settings.fabric)?;
    // The memory nodes of other processes have said their size by now.
    settings.cluster = cluster.config().clone();
    let table = cluster.name(&settings.workload.table);
    let session = Arc::new(Session::new(settings, table));
    let driver = Driver { session, cluster };
    let outcome = driver.phases(clock);
    driver.cluster.end(outcome)
}

fn judge(witness: &Witness) -> Option<RunCheck> {
    let name = "linearizability";
    match witness.judge() {
        Some(Ok(())) => {
            let detail = format!("one order explains {} accesses to popular fields", witness.len());
            Some(RunCheck::new(name, true, detail))
        }
        Some(Err(error)) => Some(RunCheck::new(name, false, error)),
        None => {
            say("ycsb: linearizability is undecided: too many accesses to one field overlap");
            None
        }
    }
}

impl Driver {
    /// All phases, and their outcome.
    fn phases(&self, clock: Clock) -> Result<Outcome, AppError> {
        let (session, cluster) = (&self.session, &self.cluster);
        cluster.agree("ycsb", session.settings.to_agree_on())?;
        if cluster.is_first() {
            session.headline();
        }
        let mut expected = Expected::default();
        let mut outcome = Outcome::new(session);
        outcome.load = Some(self.load(&mut expected)?);
        if session.settings.command != Command::Load {
            let mut witness = None;
            let before = (self.events(), clock.now());
            outcome.run = Some(self.run(&mut expected, &mut witness, &mut outcome.counters)?);
            outcome.run_in_world = (self.events() - before.0, clock.now() - before.1);
            outcome.checks.extend(witness.and_then(|witness| judge(&witness)));
        } else {
            outcome.counters = cluster.counters()?;
        }
        outcome.checks.splice(0..0, self.check(&expected)?);
        outcome.world = WorldEnd::of(cluster, clock.now() - Time::ZERO);
        outcome.is_told_here = cluster.is_first();
        Ok(outcome)
    }

    /// A run that starts at `begin` and warms up until the hit ratio is steady.
    fn course(&self, begin: Time) -> Course {
        let (settings, config) = (&self.session.settings, self.cluster.config());
        // A window has about as many operations as all caches have lines.
        let lines = config.cache_bytes / config.line_size as usize * config.compute_nodes;
        let plan = CoursePlan {
            warmup: Warmup::Steady { window: self.cluster.share_of((lines as u64).max(10_000)) },
            operations: settings.operations.map(|all| self.cluster.share_of(all)),
            time: settings.time,
        };
        let (nodes, workers) = (self.cluster.nodes(), self.session.workers());
        Course::new(plan, nodes, workers, self.cluster.loop_time(), begin)
    }

    /// The number of events of the simulated world so far, or 0 in real time.
    fn events(&self) -> u64 {
        match &self.cluster {
            RunCluster::Embedded(_) | RunCluster::Joined(_) => 0,
            RunCluster::Simulated(cluster) => cluster.kernel().events(),
        }
    }

    fn phase(&self) -> Arc<PhaseProgress> {
        Arc::new(PhaseProgress::new(self.session.workers()))
    }

    fn load(&self, expected: &mut Expected) -> Result<Measured, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let extent = Extent::Operations(session.workload.record_count());
        let begin = self.cluster.now();
        let shared = (session.clone(), phase.clone());
        let workers: Vec<Loaded> = match session.settings.load_by {
            LoadBy::Inserts => self.cluster.run_phase(LOAD, extent, &phase, move |member| {
                load::inserts(shared.0.clone(), shared.1.clone(), member)
            }),
            LoadBy::Bulk => self.cluster.run_phase(LOAD, extent, &phase, move |member| {
                load::bulk(shared.0.clone(), shared.1.clone(), member)
            }),
        }?;
        let mut latencies = Latencies::new();
        for worker in &workers {
            latencies.merge(&worker.latencies);
            expected.records += worker.records;
            expected.digest = expected.digest.wrapping_add(worker.digest);
        }
        expected.failed += latencies.failed();
        let ends = workers.iter().map(|worker| worker.end);
        let phase = phase_result(expected.records, begin, ends);
        Ok(Measured { phase, latencies, limit: None, conditions: None })
    }

    fn run(
        &self,
        expected: &mut Expected,
        witness: &mut Option<Witness>,
        counters: &mut Vec<Counters>,
    ) -> Result<Measured, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let settings = &session.settings;
        let before = self.cluster.counters()?;
        let mut plan = Plan::new(self.cluster.now_of_all()?, settings.warmup, settings.time);
        let course = settings.warmup_auto.then(|| {
            plan.until = Time::MAX;
            self.course(plan.begin)
        });
        let sampled = settings.command == Command::Check
            && session.workload.layout.keeps_whole_versions()
            && self.cluster.has_one_clock();
        let sample = sampled.then(|| Sample::new(&session.workload, settings.seed)).transpose()?;
        let run = Arc::new(Run {
            session: session.clone(),
            phase: phase.clone(),
            plan,
            inserts: Arc::new(self.inserts()),
            sample: sample.map(Arc::new),
            course,
            is_measured: AtomicBool::new(false),
            time: self.cluster.loop_time(),
        });
        let (shared, ending) = (run.clone(), run.clone());
        let extent = match settings.operations {
            Some(operations) => Extent::Operations(operations),
            None => Extent::Until(plan.until),
        };
        let measuring = stop::measuring(move |signal| ending.stop(signal));
        let cores = Cores::before();
        let body = cores.around(move |member| run::run(shared.clone(), member));
        let metered = run.clone();
        let part = move |now| metered.part(now);
        let measured =
            || self.cluster.metered(part, || self.cluster.run_phase(RUN, extent, &phase, body));
        let (workers, limit) = match &run.course {
            Some(course) => self.cluster.together(course, measured),
            None => measured(),
        };
        let workers: Vec<Done> = workers?;
        drop(measuring);
        let conditions = cores.after(&self.cluster)?;
        let limit = limit.or_else(|| Limit::of_threads(conditions.as_ref(), None));
        if let Some(signal) = stop::ended_early()
            && run.course.is_none()
            && workers.iter().all(|worker| worker.counters.is_none())
        {
            return Err(stop::error().unwrap_or(AppError::Stopped(signal)));
        }
        *counters = self.cluster.counters()?;
        for (node, counted) in counters.iter_mut().enumerate() {
            let first = &workers[node * settings.cluster.workers];
            *counted = *counted - first.counters.unwrap_or(before[node]);
        }
        if let Some(course) = &run.course {
            let went = self.cluster.all_went(course.went())?;
            plan.measured_from = went.from;
            *counters = went.counters;
        }
        let mut latencies = Latencies::new();
        let mut modified = 0;
        let ends: Vec<Time> = workers.iter().map(|worker| worker.end).collect();
        for worker in workers {
            latencies.merge(&worker.latencies);
            expected.records += worker.records;
            expected.digest = expected.digest.wrapping_add(worker.digest);
            modified += worker.fields_modified;
            match (&mut *witness, worker.witness) {
                (Some(all), Some(one)) => all.merge(one),
                (none, one) => *none = none.take().or(one),
            }
        }
        expected.failed += latencies.failed();
        let mix = &session.workload.mix;
        let counts = mix.update == 0.0
            && mix.read_modify_write > 0.0
            && session.workload.layout.keeps_whole_versions();
        expected.fields_modified = counts.then_some(modified);
        let phase = phase_result(latencies.ok(), plan.measured_from, ends.into_iter());
        Ok(Measured { phase, latencies, limit, conditions })
    }

    /// The numbers of the records that this process may insert.
    fn inserts(&self) -> InsertCounter {
        let (process, of) = self.cluster.process();
        let first = self.session.workload.first_insert();
        InsertCounter::of_process(first, process as u64, of as u64)
    }

    fn check(&self, expected: &Expected) -> Result<Vec<RunCheck>, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let extent = Extent::Operations(expected.records);
        let shared = (session.clone(), phase.clone());
        let workers: Vec<Found> = self.cluster.run_phase(CHECK, extent, &phase, move |member| {
            check::check(shared.0.clone(), shared.1.clone(), member)
        })?;
        let mut found = Found::default();
        workers.into_iter().for_each(|worker| found.merge(worker));
        Ok(found.judge(expected))
    }
}

fn phase_result(ops: u64, begin: Time, ends: impl Iterator<Item = Time>) -> result::ResultPhase {
    let elapsed: Duration = ends.max().map_or(Duration::ZERO, |end| end - begin);
    result::ResultPhase::new(ops, elapsed.as_secs_f64())
}
