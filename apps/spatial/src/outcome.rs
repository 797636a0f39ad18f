//! The outcome of a run, for people, for scripts, and as a document.

use std::io::{self, Write};
use std::sync::Arc;

use latchwork_engine::Counters;
use latchwork_files::Output;
use latchwork_harness::outcome::{self, RunCheck, WorldEnd, short};
use latchwork_harness::{AppError, Limit, write};
use latchwork_report::conditions::Conditions;
use latchwork_report::histogram::{Latencies, Measured as MeasuredKind, OperationKindSet};
use latchwork_report::result::{ResultDocument, ResultPhase};
use latchwork_report::text;
use latchwork_rtree::RTreeStatistics;

use crate::index::{Contents, Levels};
use crate::picture;
use crate::query::{self, Answer};
use crate::settings::{Settings, Task};

/// What was measured in a phase.
pub(crate) struct Measured<K> {
    pub(crate) phase: ResultPhase,
    pub(crate) latencies: Latencies<K>,
    /// The counters of each compute node in the phase.
    pub(crate) counters: Vec<Counters>,
    pub(crate) limit: Option<Limit>,
    pub(crate) conditions: Option<Conditions>,
    /// Operations of each compute node.
    pub(crate) node_ops: Vec<u64>,
    /// Derived figures by name.
    pub(crate) measures: Vec<(&'static str, f64)>,
    pub(crate) checks: Vec<RunCheck>,
}

/// [`Measured`] of any kinds of operations.
pub(crate) struct Figures {
    phase: ResultPhase,
    latencies: Vec<MeasuredKind>,
    pub(crate) counters: Vec<Counters>,
    limit: Option<Limit>,
    conditions: Option<Conditions>,
    node_ops: Vec<u64>,
    measures: Vec<(&'static str, f64)>,
}

impl Figures {
    /// Takes the checks out.
    pub(crate) fn of<K: OperationKindSet>(measured: Measured<K>) -> (Figures, Vec<RunCheck>) {
        let latencies = measured.latencies.measured();
        let Measured { phase, counters, limit, conditions, node_ops, measures, checks, .. } =
            measured;
        (Figures { phase, latencies, counters, limit, conditions, node_ops, measures }, checks)
    }
}

/// The outcome of all phases.
pub(crate) struct Outcome {
    pub(crate) settings: Arc<Settings>,
    /// The load: entries and seconds.
    pub(crate) load: ResultPhase,
    /// What followed the load.
    pub(crate) run: Option<Figures>,
    /// The counters of each compute node in the reported phase.
    pub(crate) counters: Vec<Counters>,
    pub(crate) tree: RTreeStatistics,
    /// All boxes of the tree, if a picture was asked for.
    pub(crate) levels: Option<Levels>,
    pub(crate) answers: Vec<Answer>,
    pub(crate) checks: Vec<RunCheck>,
    pub(crate) world: Option<WorldEnd>,
    /// Whether this process prints the outcome.
    pub(crate) is_told_here: bool,
}

/// The check of the entries that were seen.
pub(crate) fn contents(contents: &Contents) -> RunCheck {
    match &contents.wrong {
        None => {
            let detail = format!("{} entries as they were inserted", contents.looked_at);
            RunCheck::new("contents", true, detail)
        }
        Some(place) => RunCheck::new("contents", false, format!("{place} is as no worker left it")),
    }
}

impl Outcome {
    /// Prints the outcome: a table for people, lines for scripts, and the files. A failure to write
    /// one of them does not prevent the others.
    pub(crate) fn report(&self) -> Result<(), AppError> {
        let (json, csv) = (self.settings.json.as_ref(), self.csv());
        // A document or answers on standard output replace the lines.
        let svg = self.settings.svg.as_ref();
        let taken = [json, csv, svg].into_iter().flatten().find(|output| output.is_stdout());
        let told = outcome::print_result(|out| self.table(out), |out| self.lines(out), taken);
        let document = || self.document().to_json();
        let written = json.map_or(Ok(()), |output| write(output, document()));
        let answered = match (csv, &self.settings.task) {
            (Some(output), Task::Query(query)) => write(output, query::csv(query, &self.answers)),
            _ => Ok(()),
        };
        let drawn = match (&self.settings.svg, &self.levels) {
            (Some(output), Some(levels)) => {
                write(output, picture::draw(&self.settings.caption(), levels))
            }
            _ => Ok(()),
        };
        told.and(written).and(answered).and(drawn)
    }

    fn csv(&self) -> Option<&Output> {
        match &self.settings.task {
            Task::Query(query) => query.csv.as_ref(),
            _ => None,
        }
    }

    fn lines(&self, mut out: &mut dyn Write) -> io::Result<()> {
        if let Some(run) = &self.run {
            text::write_lines(&mut out, &run.phase, &run.latencies)?;
        } else {
            text::write_lines(&mut out, &self.load, &[])?;
        }
        for (name, value) in self.measures() {
            writeln!(out, "[MEASURE], {name}, {value}")?;
        }
        outcome::write_check_lines(out, &self.checks)
    }

    /// Derived figures by name.
    fn measures(&self) -> Vec<(&'static str, f64)> {
        let tree = &self.tree;
        let mut all = vec![
            ("entries", tree.entries as f64),
            ("levels", tree.pages_per_level.len() as f64),
            ("pages", tree.pages() as f64),
        ];
        let file = match &self.settings.task {
            Task::Load { data, .. } => Some(data),
            Task::Query(query) => Some(&query.data),
            Task::Bench(_) => None,
        };
        if let Some(file) = file {
            all.push(("rows", file.rows_of_file() as f64));
            all.push(("rows_without_coordinates", file.rows_without as f64));
            all.push(("rows_with_a_part", file.rows_partial as f64));
        }
        if let Task::Query(_) = self.settings.task {
            all.push(("answers", self.answers.len() as f64));
            all.push(("answers_digest", query::digest(&self.answers) as f64));
        }
        if let Some(run) = &self.run {
            all.extend(run.measures.iter().copied());
            let total: Counters = self.counters.iter().copied().sum();
            let ops = run.phase.ops.max(1) as f64;
            all.push(("reads_per_op", total.verbs_read as f64 / ops));
            all.push(("messages_per_op", total.messages as f64 / ops));
            all.push(("misses_per_op", total.cache_misses as f64 / ops));
        }
        all
    }

    fn table(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out)?;
        match &self.settings.task {
            Task::Load { data, .. } => self.files(out, &[("file", data)])?,
            Task::Query(query) => {
                let mut files = vec![("file", &query.data)];
                files.extend(query.other.as_ref().map(|other| ("other", other)));
                self.files(out, &files)?;
            }
            Task::Bench(_) => {}
        }
        let (load, tree) = (&self.load, &self.tree);
        let rate = short(load.throughput_ops_s);
        writeln!(out, "load   {} entries in {:.3} s: {rate} entries/s", load.ops, load.elapsed_s)?;
        let levels: Vec<String> = tree.pages_per_level.iter().rev().map(u64::to_string).collect();
        writeln!(
            out,
            "tree   {} entries on {} levels, {} pages: {} from the root down",
            tree.entries,
            tree.pages_per_level.len(),
            tree.pages(),
            levels.join(", ")
        )?;
        if let Some(world) = &self.world {
            world.write(out)?;
        }
        if let Task::Query(query) = &self.settings.task {
            query::table(out, query, &self.answers)?;
            writeln!(out)?;
        }
        if let Some(run) = &self.run {
            let rate = short(run.phase.throughput_ops_s);
            let (ops, elapsed) = (run.phase.ops, run.phase.elapsed_s);
            writeln!(out, "run    {ops} operations in {elapsed:.3} s: {rate} operations/s")?;
            if let Task::Query(_) = self.settings.task {
                let digest = query::digest(&self.answers);
                writeln!(out, "found  {} answers, digest {digest:012x}", self.answers.len())?;
            }
            outcome::write_limit(out, run.limit.as_ref())?;
            outcome::write_conditions(out, run.conditions.as_ref())?;
            outcome::write_latencies(out, &run.latencies)?;
        }
        outcome::write_checks(out, &self.checks)
    }

    fn files(
        &self,
        out: &mut dyn Write,
        files: &[(&str, &crate::file::DataFile)],
    ) -> io::Result<()> {
        for (name, file) in files {
            writeln!(out, "{name:<6} {}", file.path.display())?;
            for line in file.in_words() {
                writeln!(out, "       {line}")?;
            }
            let [longitudes, latitudes] = &file.columns;
            writeln!(out, "       longitude {}", longitudes.join(", "))?;
            writeln!(out, "       latitude {}", latitudes.join(", "))?;
            if let Some(line) = widest(file) {
                writeln!(out, "       {line}")?;
            }
        }
        Ok(())
    }

    fn document(&self) -> ResultDocument {
        let settings = &self.settings;
        let event_hash = self.world.as_ref().map(|world| world.event_hash);
        let mut document = outcome::document(
            "spatial",
            &settings.cluster,
            &self.counters,
            &self.checks,
            event_hash,
        );
        document.config = settings.describe();
        document.load = Some(self.load.clone());
        let measures = self.measures().into_iter();
        document.measures = measures.map(|(name, value)| (name.to_owned(), value)).collect();
        match &self.run {
            None => document.set_measured(&self.load, &[]),
            Some(run) => {
                document.set_measured(&run.phase, &run.latencies);
                document.conditions = run.conditions.clone();
                document.limit = run.limit.as_ref().map(ToString::to_string);
                // Compute nodes come first.
                for (node, ops) in document.nodes.iter_mut().zip(&run.node_ops) {
                    node.counters.insert("ops".to_owned(), *ops);
                }
            }
        }
        document
    }
}

/// The widest box, which is often a mistake in a file.
fn widest(file: &crate::file::DataFile) -> Option<String> {
    let side = |row: &crate::file::Row, axis: usize| row.area.high()[axis] - row.area.low()[axis];
    let wide = |row: &crate::file::Row| side(row, 0).max(side(row, 1));
    let row = file.rows.iter().max_by(|a, b| wide(a).total_cmp(&wide(b)))?;
    let (x, y) = (side(row, 0), side(row, 1));
    (wide(row) > 0.0)
        .then(|| format!("the widest box is {} in line {}: {x:.4} by {y:.4}", row.label, row.line))
}
