//! What a run found, for people, for scripts, and in files.

use std::io::{self, Write};

use latchwork_engine::Counters;
use latchwork_harness::driver::Outcome;
use latchwork_harness::outcome::{self, RunCheck, short};
use latchwork_rtree::RTreeStatistics;

use crate::file::{DataFile, Row};
use crate::index::{Contents, Levels};
use crate::query::{self, Answer};
use crate::settings::Task;

/// What the phases found.
pub(crate) struct Found {
    pub(crate) tree: RTreeStatistics,
    /// All boxes of the tree, if a picture was asked for.
    pub(crate) levels: Option<Levels>,
    pub(crate) answers: Vec<Answer>,
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

/// Derived figures by name. `outcome` has those of the run alone.
pub(crate) fn measures(
    task: &Task,
    outcome: &Outcome,
    Found { tree, answers, .. }: &Found,
) -> Vec<(&'static str, f64)> {
    let mut all = vec![
        ("entries", tree.entries as f64),
        ("levels", tree.pages_per_level.len() as f64),
        ("pages", tree.pages() as f64),
    ];
    let file = match task {
        Task::Load { data, .. } => Some(data),
        Task::Query(query) => Some(&query.data),
        Task::Bench(_) => None,
    };
    if let Some(file) = file {
        all.push(("rows", file.rows_of_file() as f64));
        all.push(("rows_without_coordinates", file.rows_without as f64));
        all.push(("rows_with_a_part", file.rows_partial as f64));
    }
    if let Task::Query(_) = task {
        all.push(("answers", answers.len() as f64));
        all.push(("answers_digest", query::digest(answers) as f64));
    }
    if let Some(run) = &outcome.run {
        all.extend(outcome.measures.iter().copied());
        let total: Counters = outcome.counters.iter().copied().sum();
        let ops = run.phase.ops.max(1) as f64;
        all.push(("reads_per_op", total.verbs_read as f64 / ops));
        all.push(("messages_per_op", total.messages as f64 / ops));
        all.push(("misses_per_op", total.cache_misses as f64 / ops));
    }
    all
}

/// Writes the table for people.
///
/// # Errors
/// When `out` fails.
pub(crate) fn table(
    task: &Task,
    outcome: &Outcome,
    Found { tree, answers, .. }: &Found,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out)?;
    match task {
        Task::Load { data, .. } => write_files(out, &[("file", data)])?,
        Task::Query(query) => {
            let mut files = vec![("file", &query.data)];
            files.extend(query.other.as_ref().map(|other| ("other", other)));
            write_files(out, &files)?;
        }
        Task::Bench(_) => {}
    }
    if let Some(load) = outcome.load.as_ref().map(|load| &load.phase) {
        let rate = short(load.throughput_ops_s);
        writeln!(out, "load   {} entries in {:.3} s: {rate} entries/s", load.ops, load.elapsed_s)?;
    }
    let levels: Vec<String> = tree.pages_per_level.iter().rev().map(u64::to_string).collect();
    writeln!(
        out,
        "tree   {} entries on {} levels, {} pages: {} from the root down",
        tree.entries,
        tree.pages_per_level.len(),
        tree.pages(),
        levels.join(", ")
    )?;
    if let Some(world) = &outcome.world {
        world.write(out)?;
    }
    if let Task::Query(query) = task {
        query::table(out, query, answers)?;
        writeln!(out)?;
    }
    if let Some(run) = &outcome.run {
        let rate = short(run.phase.throughput_ops_s);
        let (ops, elapsed) = (run.phase.ops, run.phase.elapsed_s);
        writeln!(out, "run    {ops} operations in {elapsed:.3} s: {rate} operations/s")?;
        if let Task::Query(_) = task {
            let digest = query::digest(answers);
            writeln!(out, "found  {} answers, digest {digest:012x}", answers.len())?;
        }
        run.write_conditions(out)?;
        outcome::write_latencies(out, &run.latencies)?;
    }
    outcome::write_checks(out, &outcome.checks)
}

fn write_files(out: &mut dyn Write, files: &[(&str, &DataFile)]) -> io::Result<()> {
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

/// The widest box, which is often a mistake in a file.
fn widest(file: &DataFile) -> Option<String> {
    let side = |row: &Row, axis: usize| row.area.high()[axis] - row.area.low()[axis];
    let wide = |row: &Row| side(row, 0).max(side(row, 1));
    let row = file.rows.iter().max_by(|a, b| wide(a).total_cmp(&wide(b)))?;
    let (x, y) = (side(row, 0), side(row, 1));
    (wide(row) > 0.0)
        .then(|| format!("the widest box is {} in line {}: {x:.4} by {y:.4}", row.label, row.line))
}
