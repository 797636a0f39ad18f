//! The output of the results for people and programs.

mod document;
mod names;
mod plot;
mod tables;
mod targets;

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::args::Args;
use crate::error::Failure;
use crate::results::Results;

pub(crate) use names::name;

/// Checks that the outputs can be written, before the measurements and not an hour later.
pub(crate) fn check_outputs(args: &Args) -> Result<(), Failure> {
    for path in [&args.json, &args.markdown, &args.plot].into_iter().flatten() {
        let folder = match path.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => continue,
        };
        if !folder.is_dir() {
            let problem = "there is no such folder";
            return Err(Failure::output(path, io::Error::other(problem)));
        }
    }
    if let Some(path) = &args.markdown
        && path.exists()
    {
        tables::fill(path, &read(path)?, "")?;
    }
    Ok(())
}

/// Writes all requested outputs; the tables go to standard output as well.
pub(crate) fn write(args: &Args, results: &Results) -> Result<(), Failure> {
    let tables = tables::tables(args, results);
    let mut out = io::stdout().lock();
    // A reader that closes standard output needs no more of it.
    let json_alone = args.json.as_deref() == Some(Path::new("-"));
    if !json_alone {
        let _ = writeln!(out, "{tables}");
    }
    if args.check_targets {
        let lines = targets::lines(results);
        if lines.is_empty() {
            return Err(Failure::Usage(
                "no target was measured: --check-targets needs --structure ferntree or scc-tree, or --workload memory".to_owned(),
            ));
        }
        let _ = writeln!(out, "{}", lines.join("\n"));
    }
    if let Some(path) = &args.markdown {
        let text = match path.exists() {
            true => tables::fill(path, &read(path)?, &tables)?,
            false => format!("{}\n{tables}\n{}\n", tables::BEGIN, tables::END),
        };
        save(path, &text)?;
    }
    if let Some(path) = &args.plot {
        let mut sizes: Vec<usize> = results.cells.iter().map(|cell| cell.value_size).collect();
        sizes.sort();
        sizes.dedup();
        for size in sizes {
            let drawn = plot::plot(results, size)
                .map_err(|error| Failure::output(path, io::Error::other(error.to_string())))?;
            save(&with_size(path, size), &drawn)?;
        }
    }
    if let Some(path) = &args.json {
        let document = document::document(args, results);
        if json_alone {
            let _ = writeln!(out, "{document}");
        } else {
            save(path, &format!("{document}\n"))?;
        }
    }
    Ok(())
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
