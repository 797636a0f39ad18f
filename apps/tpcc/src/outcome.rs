//! The outcome of a run: lines in go-tpc's form, a table for people, and the result document.

use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;

use latchwork_engine::Counters;
use latchwork_files::Output;
use latchwork_harness::outcome::{self, RunCheck, WorldEnd, short};
use latchwork_harness::{AppError, Limit, write};
use latchwork_report::conditions::Conditions;
use latchwork_report::result::{self, ResultDocument};
use latchwork_txn::Health;
use latchwork_wal::Stats;
use latchwork_workload::tpcc::check::ConsistencyReport;
use latchwork_workload::tpcc::{SUMMARY_PREFIX, Summary, TransactionKind};
use serde::{Deserialize, Serialize};

use crate::session::Session;
use crate::tally::Tally;

/// The outcome of all phases.
pub(crate) struct Outcome {
    session: Arc<Session>,
    pub(crate) load: Option<result::ResultPhase>,
    pub(crate) run: Option<Measured>,
    pub(crate) checks: Vec<RunCheck>,
    /// The reason why the requested history could not be written.
    pub(crate) unrecorded: Option<AppError>,
    /// The consistency conditions one by one, with the rows that break them.
    pub(crate) report: Option<ConsistencyReport>,
    /// The counters of each compute node over the measured part.
    pub(crate) counters: Vec<Counters>,
    /// The checkpoint after loading.
    pub(crate) checkpoint: Option<Saved>,
    /// The statistics of the logs over the run, warm-up included.
    pub(crate) log: Option<Stats>,
    /// The statistics of the partitions over the run, warm-up included.
    pub(crate) partitions: Option<latchwork_partition::Stats>,
    /// Errors outside of transactions during the run, by the number of the compute node.
    pub(crate) health: Vec<(usize, Health)>,
    /// The world, if the cluster was simulated.
    pub(crate) world: Option<WorldEnd>,
    /// Whether this process prints the outcome.
    pub(crate) is_told_here: bool,
}

/// The contents of a checkpoint.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// The measured run.
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    pub(crate) elapsed: Duration,
    /// The resource that limited the run, if it is known.
    pub(crate) limit: Option<Limit>,
    /// How far the figures can be trusted, in real time.
    pub(crate) conditions: Option<Conditions>,
}

impl Outcome {
    pub(crate) fn new(session: &Arc<Session>) -> Outcome {
        Outcome {
            session: session.clone(),
            load: None,
            run: None,
            checks: Vec::new(),
            unrecorded: None,
            report: None,
            counters: Vec::new(),
            checkpoint: None,
            log: None,
            partitions: None,
            health: Vec::new(),
            world: None,
            is_told_here: true,
        }
    }

    /// The mean share of the run's time in which a log was syncing. `None` without a log.
    pub(crate) fn log_sync(&self, elapsed: Duration) -> Option<f64> {
        let logs = self.session.settings.cluster.compute_nodes as f64;
        let log = self.log.as_ref()?;
        Some(log.syncing.as_secs_f64() / (elapsed.as_secs_f64() * logs).max(1e-9))
    }

    fn summary<'a>(&self, run: &'a Measured) -> Summary<'a> {
        let waiting = self.session.settings.waiting();
        Summary { statistics: &run.tally.statistics, elapsed: run.elapsed, waiting }
    }

    /// Prints the outcome: a table for people, lines for scripts, and the document at its
    /// destination. A document on standard output replaces the lines. A failure to write one of
    /// them does not prevent the others.
    pub(crate) fn report(&self) -> Result<(), AppError> {
        let settings = &self.session.settings;
        let told = match settings.document_only() {
            true => {
                outcome::print_for_people(|out| self.table(out));
                Ok(())
            }
            false => outcome::print_result(|out| self.table(out), |out| self.lines(out), None),
        };
        let stdout = Output::stdout();
        let mut outputs = Vec::from_iter(&settings.json);
        if settings.print_json && !settings.json.as_ref().is_some_and(Output::is_stdout) {
            outputs.push(&stdout);
        }
        if outputs.is_empty() {
            return told;
        }
        let document = self.document().to_json();
        outputs.into_iter().map(|output| write(output, &document)).fold(told, Result::and)
    }

    fn lines(&self, mut out: &mut dyn Write) -> io::Result<()> {
        if let Some(run) = &self.run {
            self.summary(run).write_lines(SUMMARY_PREFIX, &mut out)?;
        }
        outcome::write_check_lines(out, &self.checks)
    }

    fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        if let Some(load) = &self.load {
            let (rows, rate) = (load.ops, short(load.throughput_ops_s));
            let name = if self.session.settings.stored.is_some() { "recover" } else { "load" };
            writeln!(out, "{name:<6} {rows} rows in {:.2} s: {rate} rows/s", load.elapsed_s)?;
            let stored = self.session.settings.stored.as_ref();
            if let Some((committed, aborted)) = stored.map(|stored| stored.distributed)
                && committed + aborted > 0
            {
                writeln!(
                    out,
                    "       of transactions over several nodes {committed} had committed since the last checkpoint, \
                     {aborted} had not"
                )?;
            }
        }
        if let Some(Saved { rows, bytes }) = &self.checkpoint {
            writeln!(out, "saved  {rows} rows, {bytes} bytes, in a checkpoint")?;
        }
        if let Some(run) = &self.run {
            self.run_table(run, out)?;
        }
        self.world.iter().try_for_each(|world| world.write(out))?;
        if let Some(run) = &self.run {
            outcome::write_latencies(out, &run.tally.statistics.measured())?;
        }
        outcome::write_checks(out, &self.checks)?;
        match &self.report {
            Some(report) if !report.is_ok() => writeln!(out, "{report}"),
            _ => Ok(()),
        }
    }

    fn run_table(&self, run: &Measured, out: &mut dyn Write) -> io::Result<()> {
        let (summary, statistics) = (self.summary(run), &run.tally.statistics);
        let (total, seconds) = (statistics.total(), run.elapsed.as_secs_f64());
        writeln!(
            out,
            "run    {total} transactions in {seconds:.2} s: {} transactions/s, {} tpmC",
            short(total as f64 / seconds.max(1e-9)),
            short(summary.tpmc())
        )?;
        outcome::write_limit(out, run.limit.as_ref())?;
        outcome::write_conditions(out, run.conditions.as_ref())?;
        let aborts = statistics.all_counts().aborts;
        if aborts > 0 {
            let reasons = run.tally.conflicts().filter(|(_, count)| *count > 0);
            let reason = |(name, count): (&str, u64)| {
                let name = name.trim_start_matches("aborts_").replace('_', " ");
                format!("{count} {name}")
            };
            let reasons: Vec<_> = reasons.map(reason).collect();
            let percent = 100.0 * aborts as f64 / (aborts + total) as f64;
            let reasons = reasons.join(", ");
            writeln!(out, "       {aborts} attempts aborted, {percent:.2} %: {reasons}")?;
        }
        let deliveries = statistics.count(TransactionKind::Delivery);
        if run.tally.skipped > 0 {
            let skipped = run.tally.skipped;
            writeln!(out, "       {skipped} districts had nothing for {deliveries} deliveries")?;
        }
        if let Some(log) = &self.log {
            let (groups, syncs, each) = (log.groups, log.syncs, log.groups_per_sync());
            let mean_us = log.syncing.as_secs_f64() * 1e6 / syncs.max(1) as f64;
            writeln!(
                out,
                "log    {groups} commits of {} bytes in {syncs} syncs, {each:.1} each; a sync takes {mean_us:.0} us in \
                 the mean",
                log.bytes
            )?;
        }
        if let Some(stats) = &self.partitions {
            let latchwork_partition::Stats { distributed, local, messages, repeated, .. } = stats;
            let each = *messages as f64 / (*distributed).max(1) as f64;
            writeln!(
                out,
                "2pc    {distributed} commits over several nodes, with {each:.1} messages each, and {local} over one; \
                 {repeated} messages were sent again"
            )?;
        }
        for (node, health) in &self.health {
            writeln!(out, "health node {node}: {health}")?;
        }
        for (kind, p90) in summary.too_slow() {
            let (flag, limit) = (kind.flag(), kind.response_time_limit());
            writeln!(out, "       {flag} is too slow for the standard: {p90:?}, of {limit:?}")?;
        }
        Ok(())
    }

    fn document(&self) -> ResultDocument {
        let settings = &self.session.settings;
        let event_hash = self.world.as_ref().map(|world| world.event_hash);
        let mut document =
            outcome::document("tpcc", &settings.cluster, &self.counters, &self.checks, event_hash);
        document.config = settings.describe();
        document.load = self.load.clone();
        if let (None, Some(load)) = (&self.run, &self.load) {
            document.set_measured(load, &[]);
        }
        if let Some(run) = &self.run {
            self.summary(run).fill(&mut document);
            document.conditions = run.conditions.clone();
            document.limit = run.limit.as_ref().map(ToString::to_string);
            let conflicts = run.tally.conflicts().map(|(name, count)| (name.to_owned(), count));
            document.counters.extend(conflicts);
            if let Some(log) = &self.log {
                let syncing_us = log.syncing.as_micros() as u64;
                let counts = [
                    ("log_commits", log.groups),
                    ("log_bytes", log.bytes),
                    ("log_syncs", log.syncs),
                    ("log_syncing_us", syncing_us),
                ];
                document.counters.extend(counts.map(|(name, count)| (name.to_owned(), count)));
            }
            if let Some(stats) = &self.partitions {
                let counts = [
                    ("partitions_messages", stats.messages),
                    ("partitions_letters", stats.letters),
                    ("partitions_repeated", stats.repeated),
                    ("partitions_distributed", stats.distributed),
                    ("partitions_shipped", stats.shipped),
                    ("partitions_local", stats.local),
                    ("partitions_prepared", stats.prepared),
                    ("partitions_decided", stats.decided),
                    ("partitions_abandoned", stats.abandoned),
                    ("partitions_asked", stats.asked),
                ];
                document.counters.extend(counts.map(|(name, count)| (name.to_owned(), count)));
            }
            for (_, Health { left_locked, given_up, held_up, retries, .. }) in &self.health {
                let counts = [
                    ("transactions_left_locked", left_locked),
                    ("transactions_not_taken_back", given_up),
                    ("transactions_held_up", held_up),
                    ("transaction_ends_retried", retries),
                ];
                for (name, count) in counts {
                    *document.counters.entry(name.to_owned()).or_default() += *count as u64;
                }
            }
            let skipped = run.tally.skipped;
            document.counters.insert("deliveries_skipped".to_owned(), skipped);
        }
        document
    }
}

#[cfg(test)]
mod tests {
    use latchwork_harness::config::command_line;

    use super::*;
    use crate::settings::Settings;

    #[test]
    fn what_went_wrong_behind_the_backs_of_transactions_is_reported() {
        let cli = command_line("tpcc", ["tpcc", "-w", "1", "--set", "items=100"]).expect("flags");
        let session =
            Arc::new(Session::new(Settings::new(cli).expect("settings"), "test".to_owned()));
        let mut outcome = Outcome::new(&session);
        outcome.run = Some(Measured {
            tally: Tally::default(),
            elapsed: Duration::from_secs(1),
            limit: None,
            conditions: None,
        });
        let told = |outcome: &Outcome| {
            let mut out = Vec::new();
            outcome.table(&mut out).expect("memory");
            (String::from_utf8(out).expect("text"), outcome.document().counters)
        };
        let (table, counters) = told(&outcome);
        assert!(!table.contains("health") && !counters.contains_key("transactions_left_locked"));
        let cause = Some("it was full".to_owned());
        for node in [1, 3] {
            let (left_locked, cause) = (node, cause.clone());
            let health =
                Health { left_locked, given_up: 2, cause, retries: 7, ..Health::default() };
            outcome.health.push((node, health));
        }
        let (table, counters) = told(&outcome);
        let line =
            "health node 3: 3 transactions stay locked until a restart, 2 could not be taken back";
        assert!(table.contains(line) && table.contains("the first error: it was full"), "{table}");
        assert_eq!(counters["transactions_left_locked"], 4);
        assert_eq!(counters["transactions_not_taken_back"], 4);
        assert_eq!(counters["transaction_ends_retried"], 14);
    }
}
