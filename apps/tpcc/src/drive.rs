//! The phases of a run, one after the other on the same cluster.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::Member;
use latchwork_harness::outcome::{RunCheck, WorldEnd, say};
use latchwork_harness::progress::{Extent, Title};
use latchwork_harness::{
    AppError, Cores, Course, Limit, PhaseProgress, Plan, RunCluster, Warmup, stop,
};
use latchwork_report::result;
use latchwork_runtime::sync::Mutex;
use latchwork_runtime::{Clock, Time};
use latchwork_txn::Health;
use latchwork_verbs::GlobalAddr;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::args::Command;
use crate::check::{self, Expected, Found};
use crate::intervals::Intervals;
use crate::load::{self, Load};
use crate::log;
use crate::outcome::{Measured, Outcome, Saved};
use crate::partitions::Partitions;
use crate::record;
use crate::recover::{self, Step};
use crate::run::{self, Begun, Run};
use crate::session::{self, Session};
use crate::settings::Settings;
use crate::tally::Tally;

const LOAD: Title = Title { name: "load", what: "rows" };
const RECOVER: Title = Title { name: "recover", what: "rows" };
const CHECKPOINT: Title = Title { name: "checkpoint", what: "rows" };
const BEGIN: Title = Title { name: "begin", what: "runs" };
const RUN: Title = Title { name: "run", what: "transactions" };
const CHECK: Title = Title { name: "check", what: "rows" };

/// The time between the call of a run and its begin, so that all workers are ready at the begin.
const LEAD_TIME: Duration = Duration::from_millis(20);

/// A cluster and its session.
pub(crate) struct Driver {
    pub(crate) session: Arc<Session>,
    pub(crate) cluster: RunCluster,
}

/// The results that only the processes of the nodes themselves have after a run.
#[derive(Serialize, Deserialize)]
struct Apart {
    log: Option<latchwork_wal::Stats>,
    partitions: Option<latchwork_partition::Stats>,
    health: Vec<Told>,
}

/// The errors of a node: the node's number, and a [`Health`].
type Told = (usize, [usize; 4], [Option<String>; 2]);

fn told((node, health): (usize, Health)) -> Told {
    let Health { left_locked, given_up, held_up, cause, retries, last } = health;
    (node, [left_locked, given_up, held_up, retries], [cause, last])
}

impl Apart {
    fn add_to(self, outcome: &mut Outcome) {
        let logs = outcome.log.into_iter().chain(self.log);
        outcome.log = logs.reduce(|all, one| log::sum([all, one].into_iter()));
        let partitions = outcome.partitions.into_iter().chain(self.partitions);
        outcome.partitions = partitions.reduce(|all, one| all + one);
        let health = self.health.into_iter();
        outcome.health.extend(health.map(|(node, counts, [cause, last])| {
            let [left_locked, given_up, held_up, retries] = counts;
            (node, Health { left_locked, given_up, held_up, cause, retries, last })
        }));
    }
}

/// Runs all phases with the settings.
pub(crate) fn drive(settings: Settings) -> Result<Outcome, AppError> {
    let clock = Clock::start();
    let driver = Driver::start(settings)?;
    let outcome = driver.phases(clock);
    if let Err(error) = driver.session.close_logs() {
        // All acknowledged commits are durable. But a later loss of the log's end may stay
        // undetected.
        say(&format!("tpcc: the log was not closed in order: {error}"));
    }
    driver.cluster.end(outcome)
}

/// Whether each transaction ended.
fn transactions_check(tally: &Tally) -> RunCheck {
    let detail = match &tally.why {
        None => format!("{} committed, none was given up", tally.committed.iter().sum::<u64>()),
        Some(why) => format!("{} were given up; {why}", tally.given_up),
    };
    RunCheck::new("transactions", tally.given_up == 0, detail)
}

impl Driver {
    pub(crate) fn start(mut settings: Settings) -> Result<Driver, AppError> {
        let cluster = RunCluster::start(settings.cluster.clone(), &settings.fabric)?;
        let agreed = cluster.agree("tpcc", settings.to_agree_on());
        if let Err(error) = agreed.and_then(|()| settings.join(&cluster)) {
            return cluster.end(Err(error));
        }
        let session = Arc::new(Session::new(settings, cluster.name(session::NAME)));
        if cluster.is_first() {
            session.headline();
        }
        Ok(Driver { session, cluster })
    }

    /// All phases, and their outcome.
    fn phases(&self, clock: Clock) -> Result<Outcome, AppError> {
        let session = &self.session;
        let mut outcome = Outcome::new(session);
        let settings = &session.settings;
        let command = settings.command;
        match &settings.stored {
            Some(_) => outcome.load = Some(self.recover()?),
            None => {
                outcome.load = Some(self.load()?);
                // The log does not have the loaded rows.
                outcome.checkpoint = self.checkpoint()?;
            }
        }
        if matches!(command, None | Some(Command::Run)) {
            let measured = self.run(&mut outcome)?;
            outcome.checks.push(transactions_check(&measured.tally));
            outcome.run = Some(measured);
        }
        if settings.check || command == Some(Command::Check) {
            let tally = outcome.run.as_ref().map(|run| &run.tally);
            self.check(&Expected::new(settings, tally), &mut outcome)?;
        }
        outcome.world = WorldEnd::of(&self.cluster, clock.now() - Time::ZERO);
        outcome.is_told_here = self.cluster.is_first();
        Ok(outcome)
    }

    pub(crate) fn phase(&self) -> Arc<PhaseProgress> {
        Arc::new(PhaseProgress::new(self.session.workers()))
    }

    /// Runs `body` on every worker and shows the progress. Fails with the first error of any
    /// worker.
    pub(crate) fn on_all<T, F, Fut>(
        &self,
        title: Title,
        extent: Extent,
        phase: &PhaseProgress,
        body: F,
    ) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Member) -> Fut + Sync + 'static,
        Fut: Future<Output = Option<T>> + 'static,
    {
        self.session.begin_phase();
        self.cluster.run_phase(title, extent, phase, body)
    }

    pub(crate) fn load(&self) -> Result<result::ResultPhase, AppError> {
        let phase = self.phase();
        let census = self.session.settings.population.estimate();
        let rows = latchwork_workload::tpcc::TpccTable::ALL.map(|table| census.table(table).rows);
        let load = Arc::new(Load::new(&self.session, &phase, self.cluster.process()));
        let begin = self.cluster.now();
        let body = move |member| load::load(load.clone(), member);
        let extent = Extent::Operations(rows.iter().sum());
        let workers = self.on_all(LOAD, extent, &phase, body)?;
        let rows = workers.iter().map(|worker| worker.rows).sum();
        let end = workers.iter().map(|worker| worker.end).max().unwrap_or(begin);
        Ok(result::ResultPhase::new(rows, (end - begin).as_secs_f64()))
    }

    /// Rebuilds the database from its stored log.
    fn recover(&self) -> Result<result::ResultPhase, AppError> {
        let (session, begin) = (&self.session, self.cluster.now());
        let Some(stored) = &session.settings.stored else {
            return Ok(result::ResultPhase::default());
        };
        let rows = stored.rows.iter().sum();
        for step in [Step::Rows, Step::Indexes] {
            let phase = self.phase();
            let shared = (session.clone(), phase.clone());
            let body =
                move |member| recover::recover(shared.0.clone(), shared.1.clone(), step, member);
            self.on_all(RECOVER, Extent::Operations(2 * rows), &phase, body)?;
        }
        let elapsed = self.cluster.now() - begin + stored.replay;
        Ok(result::ResultPhase::new(rows, elapsed.as_secs_f64()))
    }

    /// Makes all data durable that no log has, on all nodes, if there is a log in files.
    fn checkpoint(&self) -> Result<Option<Saved>, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let logs = session.settings.logs.as_ref().filter(|logs| !logs.is_simulated());
        if logs.is_none() || session.settings.is_joined() {
            return Ok(None);
        }
        let shared = (session.clone(), phase.clone());
        let body = move |member| recover::checkpoint(shared.0.clone(), shared.1.clone(), member);
        let rows = self.session.settings.population.estimate();
        let rows = latchwork_workload::tpcc::TpccTable::ALL.map(|table| rows.table(table).rows);
        let extent = Extent::Operations(rows.iter().sum());
        Ok(self.on_all(CHECKPOINT, extent, &phase, body)?.into_iter().flatten().next())
    }

    /// Begins a run of many processes.
    fn begin(&self) -> Result<Option<Begun>, AppError> {
        let phase = self.phase();
        let shared = (self.session.clone(), phase.clone());
        let body = move |member| run::begin(shared.0.clone(), shared.1.clone(), member);
        let begun = self.on_all(BEGIN, Extent::Operations(1), &phase, body)?;
        Ok(begun.into_iter().flatten().next())
    }

    fn run(&self, outcome: &mut Outcome) -> Result<Measured, AppError> {
        let (session, phase) = (&self.session, self.phase());
        let settings = &session.settings;
        let begun = if settings.is_joined() { self.begin()? } else { None };
        let plan = Plan {
            warmup: Warmup::Time(settings.warmup),
            operations: settings.count.map(|all| self.cluster.share_of(all)),
            time: settings.time,
        };
        let recorded = Mutex::new(record::begin(session, &self.cluster)?);
        let begin = self.cluster.now_of_all()? + LEAD_TIME;
        let workers = session.workers();
        let time = self.cluster.loop_time();
        let log_before = session.log_stats();
        let course = Course::new(plan, self.cluster.nodes(), workers, time, begin);
        let measured_from = begin + settings.warmup;
        let until = settings.time.map_or(Time::MAX, |time| measured_from + time);
        let aside = settings.document_only();
        // Each process measures its own transactions. Only the first process reports intervals.
        let intervals = settings
            .interval
            .filter(|_| self.cluster.is_first())
            .map(|every| Intervals::new(every, measured_from, workers, settings.waiting(), aside));
        let line = begun.map(|begun| GlobalAddr::from_bits(begun.line));
        let run = Run {
            session: session.clone(),
            phase: phase.clone(),
            course,
            begin,
            time,
            intervals,
            recorded,
            partitions: Partitions::new(settings, &self.cluster.node_ids(), line),
            number: Run::noted(begun.map(|begun| begun.number)),
        };
        let run = Arc::new(run);
        let extent = match plan.operations {
            Some(count) => Extent::Operations(count),
            None => Extent::Until(until),
        };
        let (shared, ending) = (run.clone(), run.clone());
        let measuring = stop::measuring(move |signal| ending.course.stop(signal));
        let cores = Cores::before();
        let body = cores.around(move |member| run::run(shared.clone(), member));
        let metered = run.clone();
        let (done, limit) = self
            .cluster
            .metered(move |_| metered.course.part(), || self.on_all(RUN, extent, &phase, body));
        let done = done?;
        drop(measuring);
        let conditions = cores.after(&self.cluster)?;
        let recorded = run.recorded.lock().take();
        if let Some(recorded) = recorded {
            let judged = recorded.judge(&self.cluster)?;
            outcome.checks.extend(judged.check);
            outcome.unrecorded = judged.unrecorded;
        }
        let log = session.log_stats().zip(log_before);
        let own = Apart {
            log: log.map(|(now, before)| log::since(now, before)),
            partitions: run.partitions.as_ref().map(Partitions::stats),
            health: session.health().into_iter().map(told).collect(),
        };
        self.cluster.share(own)?.into_iter().for_each(|apart| apart.add_to(outcome));
        let went = self.cluster.all_went(run.course.went())?;
        outcome.counters = went.counters;
        let end = done.iter().map(|done| done.end).max().unwrap_or(went.end).max(went.end);
        let mut tally = Tally::default();
        done.into_iter().for_each(|done| tally.merge(done.tally));
        let elapsed = end - went.from;
        let limit = Limit::of_run(limit, conditions.as_ref(), outcome.log_sync(elapsed));
        Ok(Measured { tally, elapsed, limit, conditions })
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
