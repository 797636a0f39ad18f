//! The outcome of a run, for people, for scripts, and as a document.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::Arc;

use latchwork_files::Output;
use latchwork_harness::outcome::{self, RunCheck};
use latchwork_harness::{AppError, write};
use latchwork_report::result::ResultDocument;
use latchwork_report::text;

use crate::figures::Figures;
use crate::settings::Settings;

/// The outcome.
pub(crate) struct Outcome {
    pub(crate) settings: Arc<Settings>,
    pub(crate) figures: Figures,
    pub(crate) checks: Vec<RunCheck>,
    pub(crate) event_hash: Option<u64>,
    /// Whether this process prints the outcome.
    pub(crate) is_told_here: bool,
}

impl Outcome {
    /// Prints the outcome: a table for people, lines for scripts, and the document at its
    /// destination. A document on standard output replaces the lines. A failure to write one of
    /// them does not prevent the others.
    pub(crate) fn report(&self) -> Result<(), AppError> {
        let json = self.settings.json.as_ref();
        let told = match json.is_some_and(Output::is_stdout) {
            true => {
                outcome::print_for_people(|out| self.table(out));
                Ok(())
            }
            false => outcome::print_result(|out| self.table(out), |out| self.lines(out), json),
        };
        let written = json.map_or(Ok(()), |output| write(output, self.document().to_json()));
        told.and(written)
    }

    fn lines(&self, mut out: &mut dyn Write) -> io::Result<()> {
        text::write_lines(&mut out, &self.figures.phase, &self.figures.latencies.measured())?;
        for (name, value) in self.figures.measures() {
            writeln!(out, "[MEASURE], {name}, {value}")?;
        }
        outcome::write_check_lines(out, &self.checks)
    }

    fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        let (figures, phase) = (&self.figures, &self.figures.phase);
        writeln!(out, "\nwarm-up   {} operations", figures.warm_ups)?;
        writeln!(
            out,
            "measured  {} operations in {:.6} s: {:.3} M operations/s",
            phase.ops,
            phase.elapsed_s,
            phase.throughput_ops_s / 1e6
        )?;
        outcome::write_limit(out, figures.limit.as_ref())?;
        outcome::write_conditions(out, figures.conditions.as_ref())?;
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
        outcome::write_latencies(out, &figures.latencies.measured())?;
        outcome::write_checks(out, &self.checks)
    }

    fn document(&self) -> ResultDocument {
        let (figures, cluster) = (&self.figures, &self.settings.cluster);
        let (counters, checks) = (&figures.counters, &self.checks);
        let mut document =
            outcome::document("microbench", cluster, counters, checks, self.event_hash);
        document.config = self.settings.describe();
        document.conditions = figures.conditions.clone();
        document.limit = figures.limit.as_ref().map(ToString::to_string);
        document.set_measured(&figures.phase, &figures.latencies.measured());
        document.measures =
            figures.measures().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        // Compute nodes come first.
        for (node, ops) in document.nodes.iter_mut().zip(&figures.node_ops) {
            node.counters.insert("ops".to_owned(), *ops);
        }
        for (node, series) in document.nodes.iter_mut().zip(&figures.series) {
            node.series.clone_from(series);
        }
        document
    }
}
