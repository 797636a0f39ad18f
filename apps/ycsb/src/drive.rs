//! The phases of a run, one after the other on the same cluster.

use crate::args::{Command, LoadBy};
use crate::check::{self, Check, Expected, Found};
use crate::error::AppError;
use crate::load::{self, Loaded};
use crate::outcome::Outcome;
use crate::progress::{self, Extent, Title};
use crate::run::{self, Done, Plan, Run};
use crate::session::Session;
use crate::settings::Settings;
use crate::shared::Phase;
use crate::witness::{Sample, Witness};
use latchwork_cluster::{Embedded, Member};
use latchwork_runtime::Time;
use latchwork_selcc::Counters;
use latchwork_workload::histogram::Latencies;
use latchwork_workload::result;
use latchwork_workload::ycsb::{InsertCounter, OperationKind};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

const LOAD: Title = Title { name: "load", what: "records" };
const RUN: Title = Title { name: "run", what: "operations" };
const CHECK: Title = Title { name: "check", what: "records" };

/// A cluster, and what to do with it.
struct Driver {
    session: Arc<Session>,
    cluster: Embedded,
}

/// A phase that was measured.
pub(crate) struct Measured {
    pub(crate) phase: result::Phase,
    pub(crate) latencies: Latencies<OperationKind>,
}

/// Does what the settings ask for.
pub(crate) fn drive(settings: Settings) -> Result<Outcome, AppError> {
    let session = Arc::new(Session::new(settings));
    eprintln!("{}", session.headline());
    let cluster = Embedded::start(session.settings.cluster.clone())
        .map_err(|error| session.cluster_error(&error))?;
    let driver = Driver { session, cluster };
    let mut expected = Expected::default();
    let mut outcome = Outcome::new(&driver.session);
    outcome.load = Some(driver.load(&mut expected)?);
    if driver.session.settings.command != Command::Load {
        let mut witness = None;
        outcome.run = Some(driver.run(&mut expected, &mut witness, &mut outcome.counters)?);
        outcome.checks.extend(witness.and_then(|witness| judge(&witness)));
    } else {
        outcome.counters = driver.counters();
    }
    outcome.checks.splice(0..0, driver.check(&expected)?);
    Ok(outcome)
}

fn judge(witness: &Witness) -> Option<Check> {
    let name = "linearizability";
    match witness.judge() {
        Some(Ok(())) => {
            let detail = format!("one order explains {} accesses to popular fields", witness.len());
            Some(Check::new(name, true, detail))
        }
        Some(Err(error)) => Some(Check::new(name, false, error)),
        None => {
            eprintln!("ycsb: linearizability is undecided: too many accesses to one field overlap");
            None
        }
    }
}

impl Driver {
    /// Runs `body` on every worker and shows how far it is. Fails with the first error of any worker.
    fn on_all<T, F, Fut>(
        &self,
        title: Title,
        extent: Extent,
        phase: &Arc<Phase>,
        body: F,
    ) -> Result<Vec<T>, AppError>
    where
        T: Send,
        F: Fn(Member) -> Fut + Sync,
        Fut: Future<Output = Option<T>>,
    {
        let clock = self.cluster.clock();
        let ran = progress::show(title, extent, clock, phase, || self.cluster.run(body));
        phase.end()?;
        let workers = ran.map_err(|error| self.session.cluster_error(&error))?;
        workers.into_iter().map(|worker| worker.ok_or_else(lost)).collect()
    }

    fn phase(&self) -> Arc<Phase> {
        Arc::new(Phase::new(self.session.workers()))
    }

    fn load(&self, expected: &mut Expected) -> Result<Measured, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let extent = Extent::Operations(session.workload.record_count());
        let begin = self.cluster.clock().now();
        let workers: Vec<Loaded> = match session.settings.load_by {
            LoadBy::Inserts => self.on_all(LOAD, extent, &phase, |member| {
                load::inserts(session.clone(), phase.clone(), member)
            }),
            LoadBy::Bulk => self.on_all(LOAD, extent, &phase, |member| {
                load::bulk(session.clone(), phase.clone(), member)
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
        Ok(Measured { phase: phase_result(expected.records, begin, ends), latencies })
    }

    fn run(
        &self,
        expected: &mut Expected,
        witness: &mut Option<Witness>,
        counters: &mut Vec<Counters>,
    ) -> Result<Measured, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let settings = &session.settings;
        let before = self.counters();
        let plan = Plan::new(self.cluster.clock().now(), settings.warmup, settings.time);
        let sampled =
            settings.command == Command::Check && session.workload.layout.keeps_whole_versions();
        let sample = sampled.then(|| Sample::new(&session.workload, settings.seed)).transpose()?;
        let run = Arc::new(Run {
            session: session.clone(),
            phase: phase.clone(),
            plan,
            inserts: Arc::new(InsertCounter::new(session.workload.first_insert())),
            sample: sample.map(Arc::new),
        });
        let extent = match settings.operations {
            Some(operations) => Extent::Operations(operations),
            None => Extent::Until(plan.until),
        };
        let workers: Vec<Done> =
            self.on_all(RUN, extent, &phase, |member| run::run(run.clone(), member))?;
        *counters = self.counters();
        for (node, counted) in counters.iter_mut().enumerate() {
            let first = &workers[node * settings.cluster.workers];
            *counted = *counted - first.counters.unwrap_or(before[node]);
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
        Ok(Measured { phase, latencies })
    }

    fn check(&self, expected: &Expected) -> Result<Vec<Check>, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let extent = Extent::Operations(expected.records);
        let workers: Vec<Found> = self.on_all(CHECK, extent, &phase, |member| {
            check::check(session.clone(), phase.clone(), member)
        })?;
        let mut found = Found::default();
        workers.into_iter().for_each(|worker| found.merge(worker));
        Ok(found.judge(expected))
    }

    /// What each compute node has counted so far.
    fn counters(&self) -> Vec<Counters> {
        self.cluster.nodes().iter().map(|node| node.counters()).collect()
    }
}

fn lost() -> AppError {
    AppError::Failed("a worker ended without a result".to_owned())
}

fn phase_result(ops: u64, begin: Time, ends: impl Iterator<Item = Time>) -> result::Phase {
    let elapsed: Duration = ends.max().map_or(Duration::ZERO, |end| end - begin);
    result::Phase::new(ops, elapsed.as_secs_f64())
}
