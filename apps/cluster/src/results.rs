//! The directory of a run's results.
//!
//! | file | |
//! | --- | --- |
//! | `run.json` | the started commands and how they ended; written last |
//! | `document.json` | the program's result document |
//! | `M0.out`, `M0.err`, `C1.out`, .. | the output of each process |

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use latchwork_files::InputKind;
use latchwork_harness::{AppError, write_file};

use crate::archive;
use crate::live::{Live, written};
use crate::outcome::{NodeOutcome, Outcome};
use crate::plan::{Role, document};

const RUN: &str = "run.json";
const BEGUN: &str = "run.begun";
const DOCUMENT: &str = "document.json";
/// The kind of `run.json` and `document.json`, with their maximum size.
pub(crate) const FILE: InputKind = InputKind { name: "a result document", bytes_max: 256 << 20 };
/// The endings of the other files that a run writes.
const OWN: [&str; 3] = ["out", "err", "json"];

/// Creates the directory, and removes the results of an earlier run.
pub(crate) fn prepare(directory: &Path) -> Result<PathBuf, AppError> {
    let unwritable = |error| AppError::unwritable(directory, &error);
    fs::create_dir_all(directory).map_err(unwritable)?;
    let directory = fs::canonicalize(directory).map_err(unwritable)?;
    let entries = fs::read_dir(&directory).map_err(unwritable)?;
    let paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    let is_there = |name: &str| directory.join(name).is_file();
    if !paths.is_empty() && !is_there(RUN) && !is_there(BEGUN) {
        return Err(AppError::Usage(format!(
            "--results {}: something else is there; use a new or an empty directory, or one of an earlier run",
            directory.display()
        )));
    }
    let begun = directory.join(BEGUN);
    write_file(&begun, "")?;
    for path in paths {
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_file() && OWN.contains(&ending) {
            fs::remove_file(&path).map_err(|error| AppError::unwritable(&path, &error))?;
        }
    }
    Ok(directory)
}

/// The outcome of an earlier run, if that run ended.
pub(crate) fn load(directory: &Path) -> Option<Outcome> {
    serde_json::from_str(&latchwork_files::read_text(&directory.join(RUN), FILE).ok()?).ok()
}

/// The file of the program's result document.
pub(crate) fn document_of(directory: &Path) -> PathBuf {
    directory.join(DOCUMENT)
}

/// Unpacks the archives of processes on other machines, and renames the program's document. Returns
/// the error, if any.
pub(crate) fn gather(
    directory: &Path,
    nodes: &[Live],
    outcome: &mut Outcome,
) -> Result<Option<String>, AppError> {
    let mut problem = None;
    for node in nodes {
        let launch = &node.launch;
        outcome.nodes.push(NodeOutcome {
            name: launch.name.clone(),
            host: launch.host.clone(),
            command: launch.line(),
            ended: node.end(),
        });
        if !launch.is_attended && !launch.is_run {
            continue;
        }
        let path = written(directory, &launch.name, "out");
        let bytes = fs::read(&path).map_err(|error| AppError::unwritable(&path, &error))?;
        let entries = match archive::read(&bytes) {
            Ok(entries) => entries,
            // A process that failed may have written no archive. Its end is reported already.
            Err(_) if node.status() != Some(0) => continue,
            Err(error) => {
                problem
                    .get_or_insert(format!("{}: its results did not arrive: {error}", launch.name));
                continue;
            }
        };
        let is_run = launch.is_run;
        let place = |name: &str| match name {
            _ if is_run => directory.join(name),
            "out" => path.clone(),
            DOCUMENT => document(directory, &launch.name),
            name => directory.join(format!("{}.{name}", launch.name)),
        };
        for (name, content) in entries {
            if is_run && name == RUN {
                if let Ok(inner) = serde_json::from_slice::<Outcome>(&content) {
                    // The problem that the second instance reports says more than the end of the
                    // virtual machine.
                    outcome.problem = inner.problem.or(outcome.problem.take());
                    outcome.nodes.extend(inner.nodes);
                }
                continue;
            }
            let place = place(&name);
            write_file(&place, content)?;
        }
        if is_run {
            // The archive is not needed any more, because all its files are unpacked.
            let _ = fs::remove_file(&path);
        }
    }
    let mut written = nodes.iter().filter(|node| node.launch.role == Role::Program);
    if let Some(path) = written
        .find_map(|node| Some(document(directory, &node.launch.name)).filter(|path| path.is_file()))
    {
        let to = directory.join(DOCUMENT);
        fs::rename(&path, &to).map_err(|error| AppError::unwritable(&to, &error))?;
    }
    if !directory.join(DOCUMENT).is_file() {
        problem.get_or_insert_with(|| "no process has left a result document".to_owned());
    }
    Ok(problem)
}

/// Writes `run.json`, in one step.
pub(crate) fn save(directory: &Path, outcome: &Outcome) -> Result<(), AppError> {
    let text = serde_json::to_string_pretty(outcome)
        .map_err(|error| AppError::Failed(format!("{RUN}: {error}")))?;
    write_file(&directory.join(RUN), text + "\n")?;
    match fs::remove_file(directory.join(BEGUN)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(AppError::unwritable(&directory.join(BEGUN), &error))
        }
        _ => Ok(()),
    }
}
