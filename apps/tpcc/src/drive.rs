//! The phases of a run, one after the other on the same cluster.

use crate::args::Command;
use crate::check::{self, Expected, Found};
use crate::intervals::Intervals;
use crate::load::{self, Load};
use crate::log;
use crate::outcome::{Measured, Outcome};
use crate::partitions::Partitions;
use crate::record;
use crate::recover::{self, Step};
use crate::run::{self, Run};
use crate::session::Session;
use crate::settings::Settings;
use crate::tally::Tally;
use latchwork_cluster::Member;
use latchwork_harness::outcome::{Check, World};
use latchwork_harness::progress::{Extent, Title};
use latchwork_harness::{AppError, Cluster, ClusterFlags, Course, Phase, Plan, Warmup, stop};
use latchwork_runtime::sync::{AtomicU32, Mutex};
use latchwork_runtime::{Clock, Time};
use latchwork_txn::Checkpoint;
use latchwork_workload::result;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

const LOAD: Title = Title { name: "load", what: "rows" };
const RECOVER: Title = Title { name: "recover", what: "rows" };
const CHECKPOINT: Title = Title { name: "checkpoint", what: "rows" };
const RUN: Title = Title { name: "run", what: "transactions" };
const CHECK: Title = Title { name: "check", what: "rows" };

/// Between the call of a run and its begin, so that all workers are there.
const LEAD_TIME: Duration = Duration::from_millis(20);

/// A cluster, and what to do with it.
pub(crate) struct Driver {
    pub(crate) session: Arc<Session>,
    pub(crate) cluster: Cluster,
}

/// Does what the settings ask for.
pub(crate) fn drive(settings: Settings) -> Result<Outcome, AppError> {
    let clock = Clock::start();
    let driver = Driver::start(settings)?;
    let session = &driver.session;
    let mut outcome = Outcome::new(session);
    let settings = &session.settings;
    let command = settings.command;
    match &settings.stored {
        Some(_) => outcome.load = Some(driver.recover()?),
        None => {
            outcome.load = Some(driver.load()?);
            // What was loaded is in no log.
            outcome.checkpoint = driver.checkpoint()?;
        }
    }
    if matches!(command, None | Some(Command::Run)) {
        let measured = driver.run(&mut outcome)?;
        outcome.checks.push(transactions_check(&measured.tally));
        outcome.run = Some(measured);
    }
    if settings.check || command == Some(Command::Check) {
        let tally = outcome.run.as_ref().map(|run| &run.tally);
        driver.check(&Expected::new(settings, tally), &mut outcome)?;
    }
    outcome.world = World::of(&driver.cluster, clock.now() - Time::ZERO);
    Ok(outcome)
}

/// Whether each transaction came to an end.
fn transactions_check(tally: &Tally) -> Check {
    let detail = match &tally.why {
        None => format!("{} committed, none was given up", tally.committed.iter().sum::<u64>()),
        Some(why) => format!("{} were given up; {why}", tally.given_up),
    };
    Check::new("transactions", tally.given_up == 0, detail)
}

impl Driver {
    pub(crate) fn start(settings: Settings) -> Result<Driver, AppError> {
        let session = Arc::new(Session::new(settings));
        eprintln!("{}", session.headline());
        let config = session.settings.cluster.clone();
        let cluster = Cluster::start(config, &session.settings.fabric)
            .map_err(|error| ClusterFlags::cluster_error(&session.settings.cluster, &error))?;
        Ok(Driver { session, cluster })
    }

    pub(crate) fn phase(&self) -> Arc<Phase> {
        Arc::new(Phase::new(self.session.workers()))
    }

    /// Runs `body` on every worker and shows how far it is. Fails with the first error of any worker.
    pub(crate) fn on_all<T, F, Fut>(
        &self,
        title: Title,
        extent: Extent,
        phase: &Phase,
        body: F,
    ) -> Result<Vec<T>, AppError>
    where
        T: Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = Option<T>> + 'static,
    {
        self.session.begin_phase();
        self.cluster.run_phase(title, extent, phase, body)
    }

    pub(crate) fn load(&self) -> Result<result::Phase, AppError> {
        let phase = self.phase();
        let census = self.session.settings.population.estimate();
        let rows = latchwork_workload::tpcc::Table::ALL.map(|table| census.table(table).rows);
        let load = Arc::new(Load::new(&self.session, &phase));
        let begin = self.cluster.now();
        let body = move |member| load::load(load.clone(), member);
        let extent = Extent::Operations(rows.iter().sum());
        let workers = self.on_all(LOAD, extent, &phase, body)?;
        let rows = workers.iter().map(|worker| worker.rows).sum();
        let end = workers.iter().map(|worker| worker.end).max().unwrap_or(begin);
        Ok(result::Phase::new(rows, (end - begin).as_secs_f64()))
    }

    /// Makes the database from what was stored of it.
    fn recover(&self) -> Result<result::Phase, AppError> {
        let (session, begin) = (&self.session, self.cluster.now());
        let Some(stored) = &session.settings.stored else { return Ok(result::Phase::default()) };
        let rows = stored.rows.iter().sum();
        for step in [Step::Rows, Step::Indexes] {
            let phase = self.phase();
            let shared = (session.clone(), phase.clone());
            let body =
                move |member| recover::recover(shared.0.clone(), shared.1.clone(), step, member);
            self.on_all(RECOVER, Extent::Operations(2 * rows), &phase, body)?;
        }
        let elapsed = self.cluster.now() - begin + stored.replay;
        Ok(result::Phase::new(rows, elapsed.as_secs_f64()))
    }

    /// Makes lasting what no log has, where there is one in files.
    fn checkpoint(&self) -> Result<Option<Checkpoint>, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let logs = session.settings.logs.as_ref().filter(|logs| !logs.is_simulated());
        if logs.is_none() {
            return Ok(None);
        }
        let shared = (session.clone(), phase.clone());
        let body = move |member| recover::checkpoint(shared.0.clone(), shared.1.clone(), member);
        let rows = self.session.settings.population.estimate();
        let rows = latchwork_workload::tpcc::Table::ALL.map(|table| rows.table(table).rows);
        let extent = Extent::Operations(rows.iter().sum());
        Ok(self.on_all(CHECKPOINT, extent, &phase, body)?.into_iter().flatten().next())
    }

    fn run(&self, outcome: &mut Outcome) -> Result<Measured, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let settings = &session.settings;
        let plan = Plan {
            warmup: Warmup::Time(settings.warmup),
            operations: settings.count,
            time: settings.time,
        };
        let begin = self.cluster.now() + LEAD_TIME;
        let workers = session.workers();
        let simulated = settings.is_simulated();
        let log_before = session.log_stats();
        let course = Course::new(plan, self.cluster.nodes(), workers, simulated, begin);
        let measured_from = begin + settings.warmup;
        let until = settings.time.map_or(Time::MAX, |time| measured_from + time);
        let aside = settings.document_only();
        let intervals = settings
            .interval
            .map(|every| Intervals::new(every, measured_from, workers, settings.waiting(), aside));
        let recording = Mutex::new(record::begin(session)?);
        let session = session.clone();
        let run = Run {
            session,
            phase: phase.clone(),
            course,
            begin,
            intervals,
            recording,
            partitions: Partitions::new(settings),
            number: AtomicU32::new(0),
        };
        let run = Arc::new(run);
        let extent = match settings.count {
            Some(count) => Extent::Operations(count),
            None => Extent::Until(until),
        };
        let (shared, ending) = (run.clone(), run.clone());
        let measuring = stop::measuring(move |signal| ending.course.stop(signal));
        let done =
            self.on_all(RUN, extent, &phase, move |member| run::run(shared.clone(), member))?;
        drop(measuring);
        let recording = run.recording.lock().take();
        if let (Some(recording), Some(path)) = (recording, &self.session.settings.record) {
            outcome.checks.push(record::judge(recording, path)?);
        }
        let log = self.session.log_stats();
        outcome.health = self.session.health();
        outcome.log = log.zip(log_before).map(|(now, before)| log::since(now, before));
        let went = run.course.went()?;
        outcome.counters = went.counters;
        outcome.partitions = run.partitions.as_ref().map(Partitions::stats);
        let end = done.iter().map(|done| done.end).max().unwrap_or(went.end).max(went.end);
        let mut tally = Tally::default();
        done.into_iter().for_each(|done| tally.merge(done.tally));
        Ok(Measured { tally, elapsed: end - went.from })
    }

    pub(crate) fn check(&self, expected: &Expected, outcome: &mut Outcome) -> Result<(), AppError> {
        let (session, phase) = (&self.session, self.phase());
        let population = &session.settings.population;
        let rows = outcome.load.as_ref().map_or(0, |load| load.ops);
        let shared = (session.clone(), phase.clone());
        let workers: Vec<Found> =
            self.on_all(CHECK, Extent::Operations(rows), &phase, move |member| {
                check::check(shared.0.clone(), shared.1.clone(), member)
            })?;
        let found = workers.into_iter().reduce(|mut all, one| {
            all.merge(one);
            all
        });
        let Some(found) = found else { return Ok(()) };
        let (checks, report) = found.judge(population.scale(), population.warehouses(), expected);
        outcome.checks.extend(checks);
        outcome.report = report;
        Ok(())
    }
}
