//! The output of the results for people and programs.

pub(crate) mod chart;
mod document;
mod names;
mod plot;
pub(crate) mod tables;
pub(crate) mod targets;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::error::Failure;
use crate::results::Results;

pub(crate) use names::name;

/// The files that a run writes, if any.
#[derive(Clone, Copy)]
pub(crate) struct Outputs<'a> {
    pub(crate) json: Option<&'a Path>,
    pub(crate) markdown: Option<&'a Path>,
    pub(crate) plot: Option<&'a Path>,
    /// The lines around the tables in a page.
    pub(crate) marks: tables::Marks,
}

impl<'a> Outputs<'a> {
    /// Checks that the outputs can be written, before the measurements and not an hour later.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        for path in [self.json, self.markdown, self.plot].into_iter().flatten() {
            let folder = match path.parent() {
                Some(folder) if !folder.as_os_str().is_empty() => folder,
                _ => continue,
            };
            if !folder.is_dir() {
                let problem = "there is no such folder";
                return Err(Failure::output(path, io::Error::other(problem)));
            }
        }
        if let Some(path) = self.markdown
            && path.exists()
        {
            self.marks.fill(path, &read(path)?, "")?;
        }
        Ok(())
    }

    /// Whether standard output is for the document alone.
    fn is_json_alone(&self) -> bool {
        self.json == Some(Path::new("-"))
    }

    /// Prints the tables and the lines of the targets.
    pub(crate) fn print(&self, tables: &str, targets: &[String]) {
        let mut out = io::stdout().lock();
        // A reader that closes standard output needs no more of it.
        if !self.is_json_alone() {
            let _ = writeln!(out, "{tables}");
        }
        if !targets.is_empty() {
            let _ = writeln!(out, "{}", targets.join("\n"));
        }
    }

    /// Writes the tables into their page.
    pub(crate) fn save_tables(&self, tables: &str) -> Result<(), Failure> {
        let Some(path) = self.markdown else { return Ok(()) };
        let text = match path.exists() {
            true => self.marks.fill(path, &read(path)?, tables)?,
            false => self.marks.page(tables),
        };
        save(path, &text)
    }

    pub(crate) fn save_document(&self, document: &str) -> Result<(), Failure> {
        match self.json {
            Some(_) if self.is_json_alone() => {
                let _ = writeln!(io::stdout().lock(), "{document}");
                Ok(())
            }
            Some(path) => save(path, &format!("{document}\n")),
            None => Ok(()),
        }
    }
}

fn outputs(args: &Args) -> Outputs<'_> {
    let (json, markdown, plot) =
        (args.json.as_deref(), args.markdown.as_deref(), args.plot.as_deref());
    Outputs { json, markdown, plot, marks: tables::MARKS }
}

/// Checks that the outputs can be written.
pub(crate) fn check_outputs(args: &Args) -> Result<(), Failure> {
    outputs(args).check()
}

/// Writes all requested outputs; the tables go to standard output as well.
pub(crate) fn write(args: &Args, results: &Results) -> Result<(), Failure> {
    let outputs = outputs(args);
    let tables = tables::tables(args, results);
    let lines = if args.check_targets { targets::lines(results) } else { Vec::new() };
    outputs.print(&tables, &lines);
    if args.check_targets && lines.is_empty() {
        return Err(Failure::Usage(
            "no target was measured: --check-targets needs --structure ferntree or scc-tree, or --workload memory".to_owned(),
        ));
    }
    outputs.save_tables(&tables)?;
    if let Some(path) = outputs.plot {
        let mut sizes: Vec<usize> = results.cells.iter().map(|cell| cell.value_size).collect();
        sizes.sort();
        sizes.dedup();
        for size in sizes {
            save_plot(&with_size(path, size), plot::plot(results, size))?;
        }
    }
    outputs.save_document(&document::document(args, results))
}

/// Writes a picture that was drawn.
pub(crate) fn save_plot(path: &Path, drawn: chart::Drawn<String>) -> Result<(), Failure> {
    let drawn =
        drawn.map_err(|error| Failure::output(path, io::Error::other(error.to_string())))?;
    save(path, &drawn)
}

/// `plot.svg` becomes `plot-8.svg`.
fn with_size(path: &Path, size: usize) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map_or("svg".into(), |extension| extension.to_string_lossy());
    path.with_file_name(format!("{stem}-{size}.{extension}"))
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::output(path, error))
}

/// Writes a file whole or not at all.
fn save(path: &Path, text: &str) -> Result<(), Failure> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let write = || {
        let mut file = File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)
    };
    write().map_err(|error| Failure::output(path, error))
}
