//! The history of a run: what its transactions saw and did, and whether they could have run one after another.
//!
//! Each process records its own transactions into a part, a file beside the one that was asked for. After the run the first
//! process judges the parts, which takes one machine, and puts them where the history was asked for. Until then an older
//! history is still there; what a killed process has recorded is in its part.

use crate::session::Session;
use latchwork_files::Output;
use latchwork_harness::outcome::Check;
use latchwork_harness::{AppError, Cluster};
use latchwork_history::{History, HistoryError, Options, Recorder, Recording, check};
use std::path::{Path, PathBuf};

/// A history that is being recorded.
pub(crate) struct Recorded {
    recording: Recording,
    /// This process's part.
    own: PathBuf,
    /// Where the history was asked for.
    output: Output,
}

/// Begins to record, if that was asked for. Called by all processes.
pub(crate) fn begin(session: &Session, cluster: &Cluster) -> Result<Option<Recorded>, AppError> {
    let Some(output) = &session.settings.record else { return Ok(None) };
    if !cluster.has_one_clock() {
        return Err(AppError::Usage(format!(
            "--record {}: the nodes are on several machines, and nobody there could put their histories together; leave it \
             out",
            output.path().display()
        )));
    }
    // What is there already has timestamps up to this one.
    let clocks = session.nodes().into_iter().map(|node| node.clock().now().0);
    let base = cluster.share(clocks.max().unwrap_or(0))?.into_iter().max().unwrap_or(0);
    let own = part_of(output, cluster.process().0);
    let recording = Recording::create(&own, base).map_err(|error| failed(&error));
    let recorded = recording.map(|recording| Recorded { recording, own, output: output.clone() });
    let made = recorded.as_ref().map(|_| ()).map_err(AppError::clone);
    cluster.all(made)?;
    recorded.map(Some)
}

/// The part of the process at this place. A FIFO or a device cannot be read back: beside it is no place for files.
fn part_of(output: &Output, place: usize) -> PathBuf {
    let part = format!(".node-{}", place + 1);
    if !output.is_file() {
        let name = format!("latchwork-history-{}{part}", std::process::id());
        return std::env::temp_dir().join(name);
    }
    let mut name = output.path().as_os_str().to_owned();
    name.push(part);
    PathBuf::from(name)
}

impl Recorded {
    /// Who records for a worker.
    pub(crate) fn recorder(recorded: Option<&Recorded>) -> Recorder {
        recorded.map_or_else(Recorder::off, |recorded| recorded.recording.recorder())
    }

    /// Ends the recording, and judges it. Called by all processes.
    pub(crate) fn judge(self, cluster: &Cluster) -> Result<Check, AppError> {
        let Recorded { recording, own, output } = self;
        let finished = recording.finish().map_err(|error| failed(&error));
        let parts = cluster.all(finished.and_then(|_| absolute(&own)))?;
        let judged = match cluster.is_first() {
            true => gathered(&output, &parts).map(|history| Some(verdict(&history))),
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

/// The history of all parts, which is where it was asked for then.
fn gathered(output: &Output, parts: &[PathBuf]) -> Result<History, AppError> {
    let unwritable = |error| AppError::output(output.path(), &error);
    let mut history = History::default();
    for part in parts {
        // It is this program's own, and as large as the run has made it.
        history.merge(History::load(part, u64::MAX).map_err(|error| failed(&error))?);
    }
    match parts {
        [part] => output.adopt(part).map_err(unwritable)?,
        parts => {
            output.write_with(|out| history.write(out)).map_err(unwritable)?;
            for part in parts {
                std::fs::remove_file(part).map_err(|error| AppError::unwritable(part, &error))?;
            }
        }
    }
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
