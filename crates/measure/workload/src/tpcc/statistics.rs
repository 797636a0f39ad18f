//! Counts and latencies of a run's transactions, and the figures of the standard that follow from
//! them.

use std::io::{self, Write};
use std::time::Duration;

use latchwork_report::histogram::{
    Latencies, LatencySummary, Measured, OperationFailure, OperationKindSet,
};
use latchwork_report::result::{ResultDocument, ResultPhase};

use super::TransactionKind;
use super::think::TPMC_PER_WAREHOUSE_MAX;

/// Counts of one transaction type. Its latencies are in [`Statistics`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct TransactionCounts {
    /// New orders that ended with the intended rollback (clause 2.4.1.4). Such a new order also
    /// counts as completed.
    pub rollbacks: u64,
    /// Attempts that concurrency control or an error ended.
    pub aborts: u64,
    /// Attempts after an aborted attempt of the same transaction.
    pub retries: u64,
    /// Transactions of which no attempt succeeded, and which are not retried any more.
    pub failed: u64,
}

impl TransactionCounts {
    fn add(&mut self, other: TransactionCounts) {
        self.rollbacks += other.rollbacks;
        self.aborts += other.aborts;
        self.retries += other.retries;
        self.failed += other.failed;
    }
}

/// The transactions of one worker, or of many after [`merge`](Statistics::merge), over a whole run
/// or a part of it.
///
/// ```
/// use latchwork_workload::tpcc::{Statistics, Summary, TransactionKind};
/// use std::time::Duration;
///
/// let mut worker = Statistics::default();
/// worker.aborted(TransactionKind::NewOrder);
/// worker.retried(TransactionKind::NewOrder);
/// worker.completed(TransactionKind::NewOrder, Duration::from_micros(15));
/// worker.completed(TransactionKind::Payment, Duration::from_micros(5));
///
/// let elapsed = Duration::from_secs(2);
/// let summary = Summary { statistics: &worker, elapsed, waiting: None, is_tpmc: false };
/// assert_eq!((summary.new_orders_per_min(), summary.transactions_per_min()), (30.0, 60.0));
/// let mut out = Vec::new();
/// summary.write_lines("[Summary]", &mut out)?;
/// let text = String::from_utf8(out).unwrap();
/// assert!(text.starts_with("[Summary] NEW_ORDER - Takes(s): 2.0, Count: 1, TPM: 30.0, "));
/// assert!(text.ends_with("newOrdersPerMin: 30.0, transactionsPerMin: 60.0\n"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Statistics {
    latencies: Latencies<TransactionKind>,
    counts: [TransactionCounts; 5],
}

impl Statistics {
    /// Records a committed transaction. `latency` is the time since the start of its first attempt.
    #[inline]
    pub fn completed(&mut self, kind: TransactionKind, latency: Duration) {
        self.latencies.record(kind, latency, None);
    }

    /// Records a new order that ended with its intended rollback. The new order counts as
    /// completed.
    #[inline]
    pub fn rolled_back(&mut self, kind: TransactionKind, latency: Duration) {
        self.completed(kind, latency);
        self.counts[kind.index()].rollbacks += 1;
    }

    /// Records an aborted attempt.
    #[inline]
    pub fn aborted(&mut self, kind: TransactionKind) {
        self.counts[kind.index()].aborts += 1;
    }

    /// Records the start of another attempt.
    #[inline]
    pub fn retried(&mut self, kind: TransactionKind) {
        self.counts[kind.index()].retries += 1;
    }

    /// Records a transaction of which no attempt succeeded, and which is not retried any more.
    pub fn failed(&mut self, kind: TransactionKind) {
        self.counts[kind.index()].failed += 1;
        self.latencies.record_failure(kind, OperationFailure::Error);
    }

    /// Adds all counts of `other`.
    pub fn merge(&mut self, other: &Statistics) {
        self.latencies.merge(&other.latencies);
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts) {
            mine.add(theirs);
        }
    }

    /// Completed transactions of a type, rollbacks included.
    pub fn count(&self, kind: TransactionKind) -> u64 {
        self.latency(kind).map_or(0, |latency| latency.count)
    }

    /// The counts of a type other than completions.
    pub fn counts(&self, kind: TransactionKind) -> TransactionCounts {
        self.counts[kind.index()]
    }

    /// The counts of all types together.
    pub fn all_counts(&self) -> TransactionCounts {
        let mut all = TransactionCounts::default();
        self.counts.iter().for_each(|counts| all.add(*counts));
        all
    }

    /// Completed transactions of all types.
    pub fn total(&self) -> u64 {
        self.latencies.ok()
    }

    /// The summaries of the latencies of each type that occurred.
    pub fn measured(&self) -> Vec<Measured> {
        self.latencies.measured()
    }

    fn latency(&self, kind: TransactionKind) -> Option<LatencySummary> {
        let name = TransactionKind::NAMES[kind.index()];
        let measured = self.latencies.measured();
        measured.iter().find(|measured| measured.name == name)?.latency
    }

    /// The 90th percentile of a type's response times.
    pub fn p90(&self, kind: TransactionKind) -> Option<Duration> {
        self.latencies.quantile(kind, 0.9)
    }
}

/// The terminals of a run that kept the standard's keying and think times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TerminalWaiting {
    /// Warehouses in which terminals worked.
    pub warehouses: u32,
}

/// Statistics with the time over which they were collected.
#[derive(Clone, Copy, Debug)]
pub struct Summary<'a> {
    /// The statistics.
    pub statistics: &'a Statistics,
    /// The time.
    pub elapsed: Duration,
    /// The terminals, if the run kept keying and think times. Only such a run has an efficiency.
    pub waiting: Option<TerminalWaiting>,
    /// Whether new orders per minute may be called tpmC, although nothing is audited: terminals
    /// wait, commits are durable, and the mix is the standard's.
    pub is_tpmc: bool,
}

impl Summary<'_> {
    fn per_minute(&self, count: u64) -> f64 {
        let elapsed_s = self.elapsed.as_secs_f64();
        if elapsed_s > 0.0 { count as f64 * 60.0 / elapsed_s } else { 0.0 }
    }

    /// New orders per minute of the elapsed time (clause 5.4), intended rollbacks included.
    pub fn new_orders_per_min(&self) -> f64 {
        self.per_minute(self.statistics.count(TransactionKind::NewOrder))
    }

    /// All transactions per minute of the elapsed time.
    pub fn transactions_per_min(&self) -> f64 {
        self.per_minute(self.statistics.total())
    }

    /// New orders in percent of the maximum of the warehouses. `None` if terminals did not wait.
    pub(crate) fn efficiency_percent(&self) -> Option<f64> {
        let most = TPMC_PER_WAREHOUSE_MAX * f64::from(self.waiting?.warehouses);
        (most > 0.0).then(|| 100.0 * self.new_orders_per_min() / most)
    }

    /// The types with a 90th percentile above the standard's limit (clause 5.2.5.7).
    pub fn too_slow(&self) -> Vec<(TransactionKind, Duration)> {
        let measured = TransactionKind::ALL.map(|kind| (kind, self.statistics.p90(kind)));
        let late = |(kind, p90): (TransactionKind, Option<Duration>)| {
            p90.filter(|p90| *p90 > kind.response_time_limit()).map(|p90| (kind, p90))
        };
        measured.into_iter().filter_map(late).collect()
    }

    /// Writes one line for each type that occurred, in the form of go-tpc, with `prefix` before it:
    /// `[Current]` for an interval, `[Summary]` for a run. Aborts have a line of their own. After
    /// the lines of a `[Summary]`, a line has the rates. Times are in milliseconds with six
    /// decimals.
    ///
    /// # Errors
    ///
    /// Fails when `out` does.
    pub fn write_lines(&self, prefix: &str, out: &mut impl Write) -> io::Result<()> {
        let takes_s = self.elapsed.as_secs_f64();
        for kind in TransactionKind::ALL {
            let name = TransactionKind::NAMES[kind.index()];
            if let Some(latency) = self.statistics.latency(kind) {
                let p90_ms = self.statistics.p90(kind).unwrap_or_default().as_secs_f64() * 1e3;
                let ms = |us: f64| us / 1e3;
                writeln!(
                    out,
                    "{prefix} {name} - Takes(s): {takes_s:.1}, Count: {}, TPM: {:.1}, \
                     Sum(ms): {:.6}, Avg(ms): {:.6}, 50th(ms): {:.6}, 90th(ms): {p90_ms:.6}, \
                     95th(ms): {:.6}, 99th(ms): {:.6}, 99.9th(ms): {:.6}, Max(ms): {:.6}",
                    latency.count,
                    self.per_minute(latency.count),
                    ms(latency.mean) * latency.count as f64,
                    ms(latency.mean),
                    ms(latency.p50),
                    ms(latency.p95),
                    ms(latency.p99),
                    ms(latency.p999),
                    ms(latency.max),
                )?;
            }
            let counts = self.statistics.counts(kind);
            if counts != TransactionCounts::default() {
                let TransactionCounts { rollbacks, aborts, retries, failed } = counts;
                writeln!(
                    out,
                    "{prefix} {name}_ABORT - Takes(s): {takes_s:.1}, Count: {aborts}, TPM: {:.1}, \
                     Retries: {retries}, Failed: {failed}, Rollbacks: {rollbacks}",
                    self.per_minute(aborts),
                )?;
            }
        }
        if prefix != SUMMARY_PREFIX {
            return Ok(());
        }
        let (new_orders, all) = (self.new_orders_per_min(), self.transactions_per_min());
        match self.is_tpmc {
            true => write!(out, "tpmC, unaudited: {new_orders:.1}, tpmTotal: {all:.1}")?,
            false => write!(out, "newOrdersPerMin: {new_orders:.1}, transactionsPerMin: {all:.1}")?,
        }
        match self.efficiency_percent() {
            Some(efficiency) => writeln!(out, ", efficiency: {efficiency:.1}%"),
            None => writeln!(out),
        }
    }

    /// Puts all figures into a result document.
    pub fn fill(&self, document: &mut ResultDocument) {
        let phase = ResultPhase::new(self.statistics.total(), self.elapsed.as_secs_f64());
        document.set_measured(&phase, &self.statistics.latencies.measured());
        document.aborts = Some(self.statistics.all_counts().aborts);
        let measures = &mut document.measures;
        measures.insert("new_orders_per_min".to_owned(), self.new_orders_per_min());
        measures.insert("transactions_per_min".to_owned(), self.transactions_per_min());
        if self.is_tpmc {
            measures.insert("tpmC_unaudited".to_owned(), self.new_orders_per_min());
        }
        if let Some(efficiency) = self.efficiency_percent() {
            measures.insert("efficiency_percent".to_owned(), efficiency);
        }
        for kind in TransactionKind::ALL {
            let name = TransactionKind::NAMES[kind.index()].to_lowercase();
            if let Some(p90) = self.statistics.p90(kind) {
                measures.insert(format!("{name}_p90_us"), p90.as_nanos() as f64 / 1e3);
            }
            let TransactionCounts { rollbacks, aborts, retries, failed } =
                self.statistics.counts(kind);
            let counts = [
                ("rollbacks", rollbacks),
                ("aborts", aborts),
                ("retries", retries),
                ("failed", failed),
            ];
            for (what, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
                document.counters.insert(format!("{name}_{what}"), count);
            }
        }
    }
}

/// The prefix of lines about an interval.
pub const CURRENT_PREFIX: &str = "[Current]";

/// The prefix of lines about a run.
pub const SUMMARY_PREFIX: &str = "[Summary]";

#[cfg(test)]
mod tests {
    use TransactionKind::{NewOrder, Payment, StockLevel};

    use super::*;

    const US: Duration = Duration::from_micros(1);

    fn run() -> Statistics {
        let (mut a, mut b) = (Statistics::default(), Statistics::default());
        (1..=90).for_each(|us| a.completed(NewOrder, us * US));
        (91..=100).for_each(|us| b.rolled_back(NewOrder, us * US));
        (0..50).for_each(|_| b.completed(Payment, Duration::from_nanos(1_234)));
        (0..7).for_each(|_| a.aborted(Payment));
        (0..6).for_each(|_| a.retried(Payment));
        b.failed(Payment);
        a.merge(&b);
        a
    }

    #[test]
    fn figures_follow_from_counts_and_time() {
        let statistics = run();
        let waiting = Some(TerminalWaiting { warehouses: 10 });
        let summary = Summary {
            statistics: &statistics,
            elapsed: 60 * 1_000_000 * US,
            waiting,
            is_tpmc: true,
        };
        assert_eq!((summary.new_orders_per_min(), summary.transactions_per_min()), (100.0, 150.0));
        let efficiency = summary.efficiency_percent().unwrap();
        assert!((efficiency - 100.0 * 100.0 / 128.6).abs() < 1e-9, "{efficiency}");
        let p90 = statistics.p90(NewOrder).unwrap();
        assert!(p90.abs_diff(90 * US) < US / 10, "{p90:?}");
        assert_eq!(statistics.p90(StockLevel), None);
        let none = Summary { elapsed: Duration::ZERO, ..summary };
        assert_eq!(none.new_orders_per_min(), 0.0);
    }

    #[test]
    fn aborts_are_not_completed_transactions() {
        let statistics = run();
        assert_eq!((statistics.count(Payment), statistics.total()), (50, 150));
        let counts = TransactionCounts { rollbacks: 0, aborts: 7, retries: 6, failed: 1 };
        assert_eq!(statistics.counts(Payment), counts);
        assert_eq!(statistics.counts(NewOrder).rollbacks, 10);
    }

    #[test]
    fn lines_are_those_of_go_tpc_with_nanoseconds() {
        let statistics = run();
        let waiting = Some(TerminalWaiting { warehouses: 1 });
        let summary = Summary {
            statistics: &statistics,
            elapsed: Duration::from_secs(600),
            waiting,
            is_tpmc: true,
        };
        let mut out = Vec::new();
        summary.write_lines(SUMMARY_PREFIX, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines[0].starts_with(
            "[Summary] NEW_ORDER - Takes(s): 600.0, Count: 100, TPM: 10.0, Sum(ms): 5.05"
        ));
        assert!(lines[0].contains(", 90th(ms): 0.09"), "{text}");
        assert_eq!(
            lines[1],
            "[Summary] NEW_ORDER_ABORT - Takes(s): 600.0, Count: 0, TPM: 0.0, Retries: 0, Failed: 0, \
             Rollbacks: 10"
        );
        assert!(lines[2].contains("50th(ms): 0.001234, 90th(ms): 0.001234, "), "{text}");
        assert!(lines[3].contains("PAYMENT_ABORT") && lines[3].contains("Count: 7, TPM: 0.7, "));
        assert_eq!(lines[4], "tpmC, unaudited: 10.0, tpmTotal: 15.0, efficiency: 77.8%");

        let mut out = Vec::new();
        summary.write_lines(CURRENT_PREFIX, &mut out).unwrap();
        assert!(!String::from_utf8(out).unwrap().contains("tpmC"));
    }

    #[test]
    fn the_document_has_every_figure() {
        let statistics = run();
        let waiting = Some(TerminalWaiting { warehouses: 1 });
        let summary = Summary {
            statistics: &statistics,
            elapsed: Duration::from_secs(600),
            waiting,
            is_tpmc: true,
        };
        let mut document = ResultDocument::new("tpcc", "0", "unknown");
        summary.fill(&mut document);
        assert_eq!((document.ops, document.aborts), (150, Some(7)));
        assert_eq!(document.measures["new_orders_per_min"], 10.0);
        assert_eq!(document.measures["transactions_per_min"], 15.0);
        assert_eq!(document.measures["tpmC_unaudited"], 10.0);
        assert!((document.measures["efficiency_percent"] - 77.76).abs() < 0.01);
        assert!((document.measures["payment_p90_us"] - 1.234).abs() < 0.002);
        assert_eq!(document.counters["payment_retries"], 6);
        assert_eq!(document.counters["new_order_rollbacks"], 10);
        assert_eq!(document.failures["PAYMENT/ERROR"], 1);
        assert_eq!(document.latency_us["NEW_ORDER"].count, 100);
    }

    #[test]
    fn a_percentile_above_its_limit_is_named() {
        let mut statistics = Statistics::default();
        (0..89).for_each(|_| statistics.completed(StockLevel, US));
        (0..11).for_each(|_| statistics.completed(StockLevel, Duration::from_secs(21)));
        (0..91).for_each(|_| statistics.completed(Payment, US));
        (0..9).for_each(|_| statistics.completed(Payment, Duration::from_secs(21)));
        let summary = Summary {
            statistics: &statistics,
            elapsed: Duration::from_secs(1),
            waiting: None,
            is_tpmc: false,
        };
        let slow: Vec<_> = summary.too_slow().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(slow, [StockLevel]);
    }
}
