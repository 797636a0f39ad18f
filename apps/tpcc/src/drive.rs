//! The phases of a run, one after the other on the same cluster.

use std::collections::BTreeMap;
use std::future::Future;
use std::io::{self, Write};
use std::sync::Arc;

use latchwork_cluster::Member;
use latchwork_files::Output;
use latchwork_harness::driver::{Common, Driver, Figures, Outcome};
use latchwork_harness::outcome::{RunCheck, say};
use latchwork_harness::progress::{Extent, Title};
use latchwork_harness::{AppError, PhaseProgress, Plan, RunCluster, Warmup};
use latchwork_report::result::ResultDocument;
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU32, Mutex};
use latchwork_txn::Health;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::tpcc::TpccTable;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::args::{Cli, Command};
use crate::check::{self, Expected};
use crate::intervals::Progress;
use crate::load::{self, Load};
use crate::log;
use crate::outcome::{Found, Measured, Saved};
use crate::partitions::Partitions;
use crate::record;
use crate::recover::{self, Step};
use crate::run::{self, Begun, Run};
use crate::session::Session;
use crate::settings::Settings;
use crate::tally::Tally;

const LOAD: Title = Title { name: "load", what: "rows" };
const RECOVER: Title = Title { name: "recover", what: "rows" };
const CHECKPOINT: Title = Title { name: "checkpoint", what: "rows" };
const BEGIN: Title = Title { name: "begin", what: "runs" };
const RUN: Title = Title { name: "run", what: "transactions" };
const CHECK: Title = Title { name: "check", what: "rows" };

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
    fn add_to(self, found: &mut Found) {
        let logs = found.log.into_iter().chain(self.log);
        found.log = logs.reduce(|all, one| log::sum([all, one].into_iter()));
        let partitions = found.partitions.into_iter().chain(self.partitions);
        found.partitions = partitions.reduce(|all, one| all + one);
        let health = self.health.into_iter();
        found.health.extend(health.map(|(node, counts, [cause, last])| {
            let [left_locked, given_up, held_up, retries] = counts;
            (node, Health { left_locked, given_up, held_up, cause, retries, last })
        }));
    }
}

/// Whether each transaction ended. A log that refused some for a while and went on is no fault.
fn transactions_check(tally: &Tally) -> RunCheck {
    let Tally { committed, given_up, refused, still_refused, .. } = tally;
    let committed = committed.iter().sum::<u64>();
    let detail = match (still_refused, &given_up.why, &refused.why) {
        (Some(why), ..) => format!("{} were refused, the last ones too; {why}", refused.count),
        (None, Some(why), _) => format!("{} were given up; {why}", given_up.count),
        (None, None, Some(why)) => {
            let refused = refused.count;
            format!("{committed} committed, none was given up, {refused} were refused; {why}")
        }
        (None, None, None) => format!("{committed} committed, none was given up"),
    };
    RunCheck::new("transactions", given_up.count == 0 && still_refused.is_none(), detail)
}

impl Driver for Session {
    const NAME: &'static str = "tpcc";
    type Cli = Cli;
    type Found = Found;

    fn new(cli: Cli) -> Result<Session, AppError> {
        Settings::new(cli).map(Session::new)
    }

    fn common(&self) -> &Common {
        &self.settings.common
    }

    fn common_mut(&mut self) -> &mut Common {
        &mut self.settings.common
    }

    fn describe(&self) -> BTreeMap<String, Value> {
        self.settings.describe()
    }

    fn to_agree_on(&self) -> BTreeMap<String, Value> {
        self.settings.to_agree_on()
    }

    fn join(&mut self, cluster: &RunCluster) -> Result<(), AppError> {
        Session::join(self, cluster)
    }

    fn headline(&self) -> String {
        Session::headline(self)
    }

    fn phases(
        self: &Arc<Self>,
        cluster: &RunCluster,
        outcome: &mut Outcome,
    ) -> Result<Found, AppError> {
        let mut found = Found::default();
        let Settings { command, stored, check, .. } = &self.settings;
        if stored.is_some() {
            outcome.load = Some(self.recover(cluster)?);
        } else {
            outcome.load = Some(self.load(cluster)?);
            // The log does not have the loaded rows.
            found.checkpoint = self.checkpoint(cluster)?;
        }
        if matches!(command, None | Some(Command::Run)) {
            self.run(cluster, outcome, &mut found)?;
        }
        if *check || *command == Some(Command::Check) {
            let tally = found.run.as_ref().map(|run| &run.tally);
            let expected = Expected::new(&self.settings, tally);
            self.check(cluster, &expected, outcome, &mut found)?;
        }
        Ok(found)
    }

    fn close(&self) {
        if let Err(error) = self.close_logs() {
            // All acknowledged commits are durable. But a later loss of the log's end may stay
            // undetected.
            say(&format!("tpcc: the log was not closed in order: {error}"));
        }
    }

    fn table(&self, outcome: &Outcome, found: &Found, out: &mut dyn Write) -> io::Result<()> {
        self.write_table(outcome, found, out)
    }

    fn lines(&self, outcome: &Outcome, found: &Found, out: &mut dyn Write) -> io::Result<()> {
        self.write_lines(outcome, found, out)
    }

    fn complete(&self, _: &Outcome, found: &Found, document: &mut ResultDocument) {
        self.add_counts(found, document);
    }

    fn outputs(&self) -> Vec<Output> {
        let mut outputs = Vec::from_iter(self.settings.common.json.clone());
        if self.settings.print_json && !outputs.iter().any(Output::is_stdout) {
            outputs.push(Output::stdout());
        }
        outputs
    }
}

impl Session {
    /// Runs `body` on every worker in a phase of its own.
    pub(crate) fn on_all<T, F, Fut>(
        self: &Arc<Self>,
        cluster: &RunCluster,
        (title, rows): (Title, u64),
        body: F,
    ) -> Result<Vec<T>, AppError>
    where
        T: Serialize + DeserializeOwned + Send + 'static,
        F: Fn(Arc<Session>, Arc<PhaseProgress>, Member) -> Fut + Sync + 'static,
        Fut: Future<Output = Result<T, AppError>> + 'static,
    {
        self.begin_phase();
        cluster.phase(title, cluster.part_of(rows), self, body)
    }

    /// The rows of the population.
    fn rows(&self) -> u64 {
        let census = self.settings.population.estimate();
        TpccTable::ALL.map(|table| census.table(table).rows).iter().sum()
    }

    pub(crate) fn load(self: &Arc<Self>, cluster: &RunCluster) -> Result<Figures, AppError> {
        let load = Arc::new(Load::new(self, cluster.process()));
        let begin = cluster.now();
        let body = move |_, phase, member| load::load(load.clone(), phase, member);
        let workers = self.on_all(cluster, (LOAD, self.rows()), body)?;
        let rows = workers.iter().map(|worker| worker.rows).sum();
        Ok(Figures::between(rows, begin, workers.iter().map(|worker| worker.end)))
    }

    /// Rebuilds the database from its stored log.
    fn recover(self: &Arc<Self>, cluster: &RunCluster) -> Result<Figures, AppError> {
        let begin = cluster.now();
        let Some(stored) = &self.settings.stored else { return Ok(Figures::default()) };
        let rows = stored.rows.iter().sum();
        for step in [Step::Rows, Step::Indexes] {
            self.on_all(cluster, (RECOVER, 2 * rows), move |session, phase, member| {
                recover::recover(session, phase, step, member)
            })?;
        }
        Ok(Figures::between(rows, begin, [cluster.now() + stored.replay]))
    }

    /// Makes all data durable that no log has, on all nodes, if there is a log in files.
    fn checkpoint(self: &Arc<Self>, cluster: &RunCluster) -> Result<Option<Saved>, AppError> {
        let logs = self.settings.logs.as_ref().filter(|logs| !logs.is_simulated());
        if logs.is_none() || self.settings.is_joined() {
            return Ok(None);
        }
        let saved = self.on_all(cluster, (CHECKPOINT, self.rows()), recover::checkpoint)?;
        Ok(saved.into_iter().flatten().next())
    }

    /// Begins a run of many processes.
    fn begin(self: &Arc<Self>, cluster: &RunCluster) -> Result<Option<Begun>, AppError> {
        let begun = self.on_all(cluster, (BEGIN, 1), run::begin)?;
        Ok(begun.into_iter().flatten().next())
    }

    fn run(
        self: &Arc<Self>,
        cluster: &RunCluster,
        outcome: &mut Outcome,
        found: &mut Found,
    ) -> Result<(), AppError> {
        let settings = &self.settings;
        let begun = if settings.is_joined() { self.begin(cluster)? } else { None };
        let warmup = Warmup::Time(settings.warmup);
        let plan = Plan { warmup, operations: settings.count, time: settings.time };
        let recorded = Mutex::new(record::begin(self, cluster)?);
        let begin = cluster.begin(true)?;
        let log_before = self.log_stats();
        let measured_from = begin + settings.warmup;
        let until = settings.time.map_or(Time::MAX, |time| measured_from + time);
        let (waiting, aside) = (settings.waiting(), settings.document_only());
        // Each process measures its own transactions. Only the first process reports intervals.
        let intervals = settings
            .interval
            .filter(|_| cluster.is_first())
            .map(|every| Progress::new(every, measured_from, cluster.workers(), waiting, aside));
        let line = begun.map(|begun| GlobalAddr::from_bits(begun.line));
        let run = Arc::new(Run {
            session: self.clone(),
            phase: cluster.progress(),
            course: cluster.course(plan, begin),
            begin,
            time: cluster.loop_time(),
            intervals,
            recorded,
            partitions: Partitions::new(settings, &cluster.node_ids(), line),
            number: Run::noted(begun.map(|begun| begun.number)),
            ended: AtomicU32::new(0),
        });
        let operations = settings.count.map(|all| cluster.part_of(all));
        let extent = operations.unwrap_or(Extent::Until(until));
        self.begin_phase();
        let mut ran = cluster.measure(&run, Some((RUN, extent, &run.phase)), run::run)?;
        outcome.failure = run.phase.shortage();
        let recorded = run.recorded.lock().take();
        if let Some(recorded) = recorded {
            let judged = recorded.judge(cluster)?;
            outcome.checks.extend(judged.check);
            outcome.failure = outcome.failure.take().or(judged.unrecorded);
        }
        let log = self.log_stats().zip(log_before);
        let own = Apart {
            log: log.map(|(now, before)| log::since(now, before)),
            partitions: run.partitions.as_ref().map(Partitions::stats),
            health: self.health().into_iter().map(told).collect(),
        };
        cluster.share(own)?.into_iter().for_each(|apart| apart.add_to(found));
        let went = cluster.all_went(run.course.went())?;
        let elapsed = went.last(ran.done.iter().map(|done| done.end)) - went.from;
        outcome.counters = went.counters;
        let mut tally = Tally::default();
        ran.done.drain(..).for_each(|done| tally.merge(done.tally));
        outcome.checks.push(transactions_check(&tally));
        let figures = ran.complete(Figures::default(), self.log_sync(found, elapsed));
        outcome.run = Some(figures);
        found.run = Some(Measured { tally, elapsed });
        Ok(())
    }

    pub(crate) fn check(
        self: &Arc<Self>,
        cluster: &RunCluster,
        expected: &Expected,
        outcome: &mut Outcome,
        found: &mut Found,
    ) -> Result<(), AppError> {
        let population = &self.settings.population;
        let rows = outcome.load.as_ref().map_or(0, |load| load.phase.ops);
        let workers = self.on_all(cluster, (CHECK, rows), check::check)?;
        let all = workers.into_iter().flatten().reduce(|mut all, one| {
            all.merge(one);
            all
        });
        let Some(all) = all else { return Ok(()) };
        let (checks, report) = all.judge(population.scale(), population.warehouses(), expected);
        outcome.checks.extend(checks);
        found.report = report;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
