//! The outcome of a run: lines in go-tpc's form, a table for people, and the result document.

use std::io::{self, Write};
use std::time::Duration;

use latchwork_harness::driver::Outcome;
use latchwork_harness::outcome::{self, short};
use latchwork_report::result::ResultDocument;
use latchwork_txn::Health;
use latchwork_wal::Stats;
use latchwork_workload::tpcc::check::ConsistencyReport;
use latchwork_workload::tpcc::{SUMMARY_PREFIX, Summary, TransactionKind};
use serde::{Deserialize, Serialize};

use crate::session::Session;
use crate::tally::Tally;

/// What the phases find, besides the figures that all programs have.
#[derive(Default)]
pub(crate) struct Found {
    /// The results of the transactions of the measured run.
    pub(crate) run: Option<Measured>,
    /// The consistency conditions one by one, with the rows that break them.
    pub(crate) report: Option<ConsistencyReport>,
    /// The checkpoint after loading.
    pub(crate) checkpoint: Option<Saved>,
    /// The statistics of the logs over the run, warm-up included.
    pub(crate) log: Option<Stats>,
    /// The statistics of the partitions over the run, warm-up included.
    pub(crate) partitions: Option<latchwork_partition::Stats>,
    /// Errors outside of transactions during the run, by the number of the compute node.
    pub(crate) health: Vec<(usize, Health)>,
}

/// The contents of a checkpoint.
#[derive(Clone, Copy, Serialize, Deserialize)]
pub(crate) struct Saved {
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// The results of all transactions of the measured run.
pub(crate) struct Measured {
    pub(crate) tally: Tally,
    pub(crate) elapsed: Duration,
}

impl Session {
    /// The mean share of the run's time in which a log was syncing. `None` without a log.
    pub(crate) fn log_sync(&self, found: &Found, elapsed: Duration) -> Option<f64> {
        let logs = self.settings.common.cluster.compute_nodes as f64;
        let log = found.log.as_ref()?;
        Some(log.syncing.as_secs_f64() / (elapsed.as_secs_f64() * logs).max(1e-9))
    }

    fn summary<'a>(&self, run: &'a Measured) -> Summary<'a> {
        let waiting = self.settings.waiting();
        let is_tpmc = self.settings.has_tpmc();
        Summary { statistics: &run.tally.statistics, elapsed: run.elapsed, waiting, is_tpmc }
    }

    /// Writes go-tpc's lines, and those of the checks.
    pub(crate) fn write_lines(
        &self,
        outcome: &Outcome,
        found: &Found,
        mut out: &mut dyn Write,
    ) -> io::Result<()> {
        if let Some(run) = &found.run {
            self.summary(run).write_lines(SUMMARY_PREFIX, &mut out)?;
        }
        outcome::write_check_lines(out, &outcome.checks)
    }

    /// Writes the table for people.
    pub(crate) fn write_table(
        &self,
        outcome: &Outcome,
        found: &Found,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        writeln!(out)?;
        if let Some(load) = outcome.load.as_ref().map(|load| &load.phase) {
            let (rows, rate) = (load.ops, short(load.throughput_ops_s));
            let name = if self.settings.stored.is_some() { "recover" } else { "load" };
            writeln!(out, "{name:<6} {rows} rows in {:.2} s: {rate} rows/s", load.elapsed_s)?;
            let stored = self.settings.stored.as_ref();
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
        if let Some(Saved { rows, bytes }) = &found.checkpoint {
            writeln!(out, "saved  {rows} rows, {bytes} bytes, in a checkpoint")?;
        }
        if let Some(run) = &found.run {
            self.write_run(run, outcome, found, out)?;
        }
        outcome.world.iter().try_for_each(|world| world.write(out))?;
        if let Some(run) = &found.run {
            outcome::write_latencies(out, &run.tally.statistics.measured())?;
        }
        outcome::write_checks(out, &outcome.checks)?;
        match &found.report {
            Some(report) if !report.is_ok() => writeln!(out, "{report}"),
            _ => Ok(()),
        }
    }

    fn write_run(
        &self,
        run: &Measured,
        outcome: &Outcome,
        found: &Found,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let (summary, statistics) = (self.summary(run), &run.tally.statistics);
        let (total, seconds) = (statistics.total(), run.elapsed.as_secs_f64());
        writeln!(
            out,
            "run    {total} transactions in {seconds:.2} s: {} transactions/s, {} {}",
            short(total as f64 / seconds.max(1e-9)),
            short(summary.new_orders_per_min()),
            if summary.is_tpmc { "tpmC, unaudited" } else { "new orders/min" },
        )?;
        writeln!(out, "       of {}", self.settings.in_words())?;
        outcome.run.iter().try_for_each(|figures| figures.write_conditions(out))?;
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
        if let Some(log) = &found.log {
            let (groups, syncs, each) = (log.groups, log.syncs, log.groups_per_sync());
            let mean_us = log.syncing.as_secs_f64() * 1e6 / syncs.max(1) as f64;
            writeln!(
                out,
                "log    {groups} commits of {} bytes in {syncs} syncs, {each:.1} each; a sync takes {mean_us:.0} us in \
                 the mean",
                log.bytes
            )?;
        }
        if let Some(stats) = &found.partitions {
            let latchwork_partition::Stats { distributed, local, messages, repeated, .. } = stats;
            let each = *messages as f64 / (*distributed).max(1) as f64;
            writeln!(
                out,
                "2pc    {distributed} commits over several nodes, with {each:.1} messages each, and {local} over one; \
                 {repeated} messages were sent again"
            )?;
        }
        for (node, health) in &found.health {
            writeln!(out, "health node {node}: {health}")?;
        }
        for (kind, p90) in summary.too_slow() {
            let (flag, limit) = (kind.flag(), kind.response_time_limit());
            writeln!(out, "       {flag} is too slow for the standard: {p90:?}, of {limit:?}")?;
        }
        Ok(())
    }

    /// Adds what is counted besides operations to the result document.
    pub(crate) fn add_counts(&self, found: &Found, document: &mut ResultDocument) {
        let Some(run) = &found.run else { return };
        self.summary(run).fill(document);
        let mut add = |name: &str, count: u64| {
            *document.counters.entry(name.to_owned()).or_default() += count;
        };
        run.tally.conflicts().for_each(|(name, count)| add(name, count));
        add("deliveries_skipped", run.tally.skipped);
        if run.tally.refused.count > 0 {
            add("transactions_refused", run.tally.refused.count);
        }
        if let Some(log) = &found.log {
            add("log_commits", log.groups);
            add("log_bytes", log.bytes);
            add("log_syncs", log.syncs);
            add("log_syncing_us", log.syncing.as_micros() as u64);
        }
        if let Some(stats) = &found.partitions {
            add("partitions_messages", stats.messages);
            add("partitions_letters", stats.letters);
            add("partitions_repeated", stats.repeated);
            add("partitions_distributed", stats.distributed);
            add("partitions_shipped", stats.shipped);
            add("partitions_local", stats.local);
            add("partitions_prepared", stats.prepared);
            add("partitions_decided", stats.decided);
            add("partitions_abandoned", stats.abandoned);
            add("partitions_asked", stats.asked);
        }
        for (_, Health { left_locked, given_up, held_up, retries, .. }) in &found.health {
            add("transactions_left_locked", *left_locked as u64);
            add("transactions_not_taken_back", *given_up as u64);
            add("transactions_held_up", *held_up as u64);
            add("transaction_ends_retried", *retries as u64);
        }
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
        let session = Session::new(Settings::new(cli).expect("settings"));
        let outcome = Outcome::default();
        let (tally, elapsed) = (Tally::default(), Duration::from_secs(1));
        let run = Some(Measured { tally, elapsed });
        let mut found = Found { run, ..Found::default() };
        let told = |found: &Found| {
            let mut out = Vec::new();
            session.write_table(&outcome, found, &mut out).expect("memory");
            let document = latchwork_harness::driver::document(&session, &outcome, found);
            (String::from_utf8(out).expect("text"), document.counters)
        };
        let (table, counters) = told(&found);
        assert!(!table.contains("health") && !counters.contains_key("transactions_left_locked"));
        let cause = Some("it was full".to_owned());
        for node in [1, 3] {
            let (left_locked, cause) = (node, cause.clone());
            let health =
                Health { left_locked, given_up: 2, cause, retries: 7, ..Health::default() };
            found.health.push((node, health));
        }
        let (table, counters) = told(&found);
        let line =
            "health node 3: 3 transactions stay locked until a restart, 2 could not be taken back";
        assert!(table.contains(line) && table.contains("the first error: it was full"), "{table}");
        assert_eq!(counters["transactions_left_locked"], 4);
        assert_eq!(counters["transactions_not_taken_back"], 4);
        assert_eq!(counters["transaction_ends_retried"], 14);
    }
}
