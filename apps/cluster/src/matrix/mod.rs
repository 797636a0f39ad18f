//! Many runs, and one table of their results.

#[cfg(test)]
mod fuzz;
mod ran;
mod spec;
mod table;

use std::fs;
use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use latchwork_files::{Named, Output};
use latchwork_harness::{AppError, write, write_file};

use crate::args::Matrix;
use crate::outcome::Outcome;
use crate::signals::Signals;
use crate::{results, run, tell};
use ran::Ran;
use spec::Case;

/// The files of the table.
const TABLES: [&str; 3] = ["table.md", "table.csv", "table.json"];

/// Runs the matrix. Returns 0 when all runs succeeded, 1 when a run failed, and 128 plus the number
/// of a signal that ended it.
pub(crate) fn command(matrix: &Matrix, signals: &Signals) -> Result<u8, AppError> {
    let path =
        |file: &Path| std::path::absolute(file).unwrap_or(file.to_owned()).display().to_string();
    let given = [("bin", &matrix.bin), ("vm-script", &matrix.vm_script)];
    let given = given.into_iter().filter_map(|(flag, file)| Some((flag, path(file.as_deref()?))));
    let mut spec = spec::load(&matrix.file, &given.collect::<Vec<_>>())?;
    if let Some(text) = &matrix.only {
        spec.cases.retain(|case| case.name.contains(text.as_str()));
        if spec.cases.is_empty() {
            return Err(AppError::Usage(format!("--only {text}: there is no such case")));
        }
    }
    let stem = matrix.file.file_stem().unwrap_or_default();
    let results = matrix.results.clone().unwrap_or_else(|| Path::new("cluster-results").join(stem));
    let mut files = vec![Named::read("FILE", &matrix.file)];
    files.extend(TABLES.map(|name| Named::written("--results", results.join(name))));
    latchwork_files::distinct(&files).map_err(AppError::from)?;
    if matrix.dry_run {
        return dry(&spec.cases, &results);
    }
    let mut rows = Vec::new();
    for case in &spec.cases {
        let place = |number: u32| results.join(case.directory()).join(number.to_string());
        rows.push((case, (1..=case.repeat).map(place).collect::<Vec<PathBuf>>()));
    }
    if !matrix.table {
        run_all(&rows, matrix.again, signals)?;
    }
    let ran = |directories: &Vec<PathBuf>| directories.iter().map(|place| Ran::of(place)).collect();
    let rows: Vec<(&Case, Vec<Ran>)> =
        rows.iter().map(|(case, directories)| (*case, ran(directories))).collect();
    fs::create_dir_all(&results).map_err(|error| AppError::unwritable(&results, &error))?;
    let markdown = table::markdown(&spec.title, &spec.cases, &rows);
    let texts = [&markdown, &table::csv(&spec.cases, &rows), &table::json(&spec.title, &rows)];
    for (name, text) in TABLES.into_iter().zip(texts) {
        write_file(&results.join(name), text)?;
    }
    let is_list = io::stdout().is_terminal() && !table::fits(&markdown);
    let shown = if is_list { table::list(&spec.title, &rows) } else { markdown };
    write(&Output::stdout(), shown)?;
    if let Some(signal) = signals.first() {
        return Ok(128 + signal as u8);
    }
    let bad = rows.iter().flat_map(|(_, runs)| runs).filter(|ran| !ran.is_good()).count();
    if bad > 0 {
        let all: usize = rows.iter().map(|(_, runs)| runs.len()).sum();
        tell(&format!(
            "cluster: {bad} of {all} runs have no good result; all of it is in {}",
            results.display()
        ));
    }
    Ok(u8::from(bad > 0))
}

/// Runs all cases. The outer loop counts repetitions, so that a drift of the machine affects all
/// cases alike.
fn run_all(rows: &[(&Case, Vec<PathBuf>)], again: bool, signals: &Signals) -> Result<(), AppError> {
    let most = rows.iter().map(|(case, _)| case.repeat).max().unwrap_or_default();
    let all: usize = rows.iter().map(|(_, places)| places.len()).sum();
    let mut number = 0;
    for repetition in 0..most as usize {
        for (case, places) in rows {
            let Some(directory) = places.get(repetition) else { continue };
            number += 1;
            let head = match case.repeat {
                1 => format!("[{number}/{all}] {}", case.name),
                of => format!("[{number}/{all}] {}, {} of {of}", case.name, repetition + 1),
            };
            if !again && Ran::of(directory).is_good() {
                tell(&format!("{head}: is there"));
                continue;
            }
            if signals.first().is_some() {
                return Ok(());
            }
            tell(&format!("{head}: .."));
            one(case, directory, signals)?;
            let ran = Ran::of(directory);
            tell(&match (&ran.document, ran.is_good()) {
                (Some(document), true) => format!("{head}: {:.0} /s", document.throughput_ops_s),
                _ => format!("{head}: FAILED: {}", ran.problem()),
            });
        }
    }
    Ok(())
}

/// Runs one case. A run that could not begin counts as failed.
fn one(case: &Case, directory: &Path, signals: &Signals) -> Result<(), AppError> {
    let mut run = case.run.clone();
    run.results = directory.to_owned();
    let Err(error) = run::run(&run, signals, false) else { return Ok(()) };
    let directory = results::prepare(directory)?;
    let failed = Outcome::of(&run, error.status(), Some(error.to_string()), Duration::ZERO);
    results::save(&directory, &failed)
}

fn dry(cases: &[Case], results: &Path) -> Result<u8, AppError> {
    let mut text = String::new();
    for case in cases {
        let mut run = case.run.clone();
        run.results = results.join(case.directory()).join("1");
        text += &format!("# {}\n", case.name);
        match run::dry(&run) {
            Ok(lines) => text += &lines.join("\n"),
            Err(error) => text += &format!("# it cannot be run: {error}\n"),
        }
        text.push('\n');
    }
    write(&Output::stdout(), &text)?;
    Ok(0)
}
