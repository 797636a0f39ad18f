//! The history of a run: what its transactions saw and did, and whether they could have run one after another.
//!
//! Of a cluster of processes each records its own transactions, into a file beside the one that was asked for. The first puts
//! them together, which takes one machine.

use crate::session::Session;
use latchwork_harness::outcome::Check;
use latchwork_harness::{AppError, Cluster};
use latchwork_history::{History, HistoryError, Options, Recorder, Recording, check};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// A history that is being recorded.
pub(crate) struct Recorded {
    recording: Recording,
    /// This process's file.
    own: PathBuf,
    /// The one that was asked for.
    path: PathBuf,
}

/// Begins to record, if that was asked for. Called by all processes.
pub(crate) fn begin(session: &Session, cluster: &Cluster) -> Result<Option<Recorded>, AppError> {
    let Some(path) = &session.settings.record else { return Ok(None) };
    if !cluster.has_one_clock() {
        return Err(AppError::Usage(format!(
            "--record {}: the nodes are on several machines, and nobody there could put their histories together; leave it \
             out",
            path.display()
        )));
    }
    // What is there already has timestamps up to this one.
    let clocks = session.nodes().into_iter().map(|node| node.clock().now().0);
    let base = cluster.share(clocks.max().unwrap_or(0))?.into_iter().max().unwrap_or(0);
    let own = match cluster.process() {
        (_, 1) => path.clone(),
        (place, _) => part_of(path, place),
    };
    let recording = Recording::create(&own, base).map_err(|error| failed(&error));
    let recorded = recording.map(|recording| Recorded { recording, own, path: path.clone() });
    let made = recorded.as_ref().map(|_| ()).map_err(AppError::clone);
    cluster.all(made)?;
    recorded.map(Some)
}

/// The file of the process at this place.
fn part_of(path: &Path, place: usize) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".node-{}", place + 1));
    PathBuf::from(name)
}

impl Recorded {
    /// Who records for a worker.
    pub(crate) fn recorder(recorded: Option<&Recorded>) -> Recorder {
        recorded.map_or_else(Recorder::off, |recorded| recorded.recording.recorder())
    }

    /// Ends the recording, and judges it. Called by all processes.
    pub(crate) fn judge(self, cluster: &Cluster) -> Result<Check, AppError> {
        let Recorded { recording, own, path } = self;
        let finished = recording.finish().map_err(|error| failed(&error));
        let parts = cluster.all(finished.and_then(|_| absolute(&own)))?;
        let judged = match cluster.is_first() {
            true => gathered(&path, &parts).map(|history| Some(verdict(&history))),
            false => Ok(None),
        };
        // It is the first that knows.
        let (good, detail) = cluster.all(judged)?.swap_remove(0).unwrap_or_default();
        Ok(Check::new("serializability", good, detail))
    }
}

fn absolute(path: &Path) -> Result<PathBuf, AppError> {
    std::path::absolute(path).map_err(|error| AppError::unwritable(path, &error))
}

/// The history of all, which is in the file that was asked for then.
fn gathered(path: &Path, parts: &[PathBuf]) -> Result<History, AppError> {
    let load = |part: &PathBuf| History::load(part).map_err(|error| failed(&error));
    let [first, others @ ..] = parts else { return load(&path.to_owned()) };
    let mut history = load(first)?;
    if others.is_empty() {
        return Ok(history);
    }
    for part in others {
        history.merge(load(part)?);
    }
    let write = || {
        let mut file = BufWriter::new(std::fs::File::create(path)?);
        history.write(&mut file)?;
        file.flush()?;
        parts.iter().try_for_each(std::fs::remove_file)
    };
    write().map_err(|error| AppError::unwritable(path, &error))?;
    Ok(history)
}

fn verdict(history: &History) -> (bool, String) {
    let report = check(history, Options::default());
    let good = report.is_serializable();
    let detail = match good {
        true => format!(
            "one order explains the {} that committed; {} attempts aborted",
            report.committed, report.aborted
        ),
        false => format!("{} cycles or other faults\n{report}", report.violations_found),
    };
    (good, detail)
}

fn failed(error: &HistoryError) -> AppError {
    AppError::Failed(error.to_string())
}
