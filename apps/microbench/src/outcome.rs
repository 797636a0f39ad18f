//! What came of a run, for people, for scripts, and as a document.

use crate::error::AppError;
use crate::figures::Figures;
use crate::settings::Settings;
use latchwork_selcc::Counters;
use latchwork_workload::report;
use latchwork_workload::result::{CheckOutcome, Destination, Node, ResultDocument};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

/// A check of the run.
pub(crate) struct Check {
    pub(crate) name: &'static str,
    pub(crate) outcome: CheckOutcome,
    pub(crate) detail: String,
}

impl Check {
    pub(crate) fn new(name: &'static str, is_good: bool, detail: String) -> Check {
        let outcome = if is_good { CheckOutcome::Ok } else { CheckOutcome::Failed };
        Check { name, outcome, detail }
    }

    fn word(&self) -> &'static str {
        match self.outcome {
            CheckOutcome::Ok => "ok",
            CheckOutcome::Failed => "FAILED",
        }
    }
}

/// Everything that is to be told.
pub(crate) struct Outcome {
    pub(crate) settings: Arc<Settings>,
    pub(crate) figures: Figures,
    pub(crate) checks: Vec<Check>,
    pub(crate) event_hash: Option<u64>,
}

impl Outcome {
    /// Tells everything: a table on standard error, lines for scripts on standard output, and the document
    /// where it should go. With the document on standard output, the lines give way to it.
    pub(crate) fn report(&self) -> Result<(), AppError> {
        self.table(&mut io::stderr().lock()).map_err(|error| lost("standard error", &error))?;
        let json = self.settings.json.as_ref();
        if json != Some(&Destination::Stdout) {
            let mut out = io::stdout().lock();
            let lines = self.lines(&mut out).and_then(|()| out.flush());
            match lines {
                // Whoever closes the pipe has read what it wanted.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                lines => lines.map_err(|error| lost("standard output", &error))?,
            }
        }
        if let Some(destination) = json {
            destination.write(&self.document())?;
        }
        Ok(())
    }

    fn lines(&self, out: &mut impl Write) -> io::Result<()> {
        report::write_lines(out, &self.figures.phase, &self.figures.latencies.measured())?;
        for (name, value) in self.figures.measures() {
            writeln!(out, "[MEASURE], {name}, {value}")?;
        }
        for check in &self.checks {
            writeln!(out, "[CHECK], {}, {}", check.name, check.word())?;
        }
        Ok(())
    }

    fn table(&self, out: &mut impl Write) -> io::Result<()> {
        let (figures, phase) = (&self.figures, &self.figures.phase);
        writeln!(out, "\nwarm-up   {} operations", figures.warm_ups)?;
        writeln!(
            out,
            "measured  {} operations in {:.6} s: {:.3} M operations/s",
            phase.ops,
            phase.elapsed_s,
            phase.throughput_ops_s / 1e6
        )?;
        let measures: BTreeMap<_, _> = figures.measures().into_iter().collect();
        let of = |name: &str| measures.get(name).copied().unwrap_or(0.0);
        writeln!(
            out,
            "fairness  operations per node {:.0} to {:.0}, Jain index {:.4}",
            of("node_ops_min"),
            of("node_ops_max"),
            of("jain_index")
        )?;
        writeln!(
            out,
            "cache     {:.2} % hits; {:.2} % needed invalidation messages, {:.3} per operation",
            100.0 * of("hit_ratio"),
            100.0 * of("invalidation_share"),
            of("invalidations_per_op")
        )?;
        writeln!(
            out,
            "verbs     per operation: {:.3} READ, {:.3} WRITE, {:.3} CAS, {:.3} FAA, {:.3} messages; {:.0} bytes read, {:.0} written",
            of("reads_per_op"),
            of("writes_per_op"),
            of("cas_per_op"),
            of("faa_per_op"),
            of("messages_per_op"),
            of("bytes_read_per_op"),
            of("bytes_written_per_op")
        )?;
        writeln!(
            out,
            "\n{:<18} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "latency in us", "count", "mean", "p50", "p95", "p99", "p99.9", "max"
        )?;
        for kind in figures.latencies.measured() {
            let Some(l) = kind.latency else { continue };
            writeln!(
                out,
                "{:<18} {:>10} {:>10.2} {:>10.2} {:>10.2} {:>10.2} {:>10.2} {:>10.2}",
                kind.name, l.count, l.mean, l.p50, l.p95, l.p99, l.p999, l.max
            )?;
        }
        writeln!(out)?;
        for check in &self.checks {
            writeln!(out, "check  {:<16} {:<6} {}", check.name, check.word(), check.detail)?;
        }
        writeln!(out)
    }

    fn document(&self) -> ResultDocument {
        let figures = &self.figures;
        let version = env!("CARGO_PKG_VERSION");
        let mut document = ResultDocument::new("microbench", version, latchwork_harness::GIT);
        document.config = self.settings.describe();
        document.event_hash = self.event_hash.map(|hash| format!("{hash:#018x}"));
        document.set_measured(&figures.phase, &figures.latencies.measured());
        for check in &self.checks {
            document.checks.insert(check.name.to_owned(), check.outcome);
        }
        document.measures =
            figures.measures().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        document.counters = named(figures.total());
        let cluster = &self.settings.cluster;
        let nodes = figures.counters.iter().zip(&figures.node_ops).enumerate();
        let compute = nodes.map(|(index, (counters, ops))| {
            let mut counters = named(*counters);
            counters.insert("ops".to_owned(), *ops);
            let series = figures.series.get(index).cloned().unwrap_or_default();
            Node { role: "compute".to_owned(), id: index as u64 + 1, counters, series }
        });
        let memory = (0..cluster.memory_nodes as u64).map(|id| Node {
            role: "memory".to_owned(),
            id,
            counters: [("bytes".to_owned(), cluster.memory_bytes)].into(),
            series: Vec::new(),
        });
        document.nodes = compute.chain(memory).collect();
        document
    }
}

fn named(counters: Counters) -> BTreeMap<String, u64> {
    counters.entries().map(|(name, count)| (name.to_owned(), count)).collect()
}

fn lost(place: &str, error: &io::Error) -> AppError {
    AppError::Failed(format!("the result cannot be written to {place}: {error}"))
}
