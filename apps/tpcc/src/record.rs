//! The history of a run: what its transactions read and wrote, and whether the history is
//! serializable.
//!
//! Each process records its own transactions into a part: a file beside the requested file. After
//! the run the first process checks all parts, so they must be on one machine, and moves them to
//! the requested file. Until then the requested file may have an older history. The part of a
//! killed process keeps its records.

use std::path::{Path, PathBuf};

use latchwork_files::Output;
use latchwork_harness::outcome::RunCheck;
use latchwork_harness::{AppError, RunCluster};
use latchwork_history::{
    CheckOptions, HistoryError, Recorder, Recording, TransactionHistory, check,
};

use crate::session::Session;

/// A history during the recording.
pub(crate) struct Recorded {
    recording: Recording,
    /// This process's part.
    own: Part,
    /// The requested file of the history.
    output: Output,
}

/// The result of a history.
pub(crate) struct Judged {
    /// The result of the check, or `None` if the history could not be read back.
    pub(crate) check: Option<RunCheck>,
    /// The reason why the history is not in the requested file.
    pub(crate) unrecorded: Option<AppError>,
}

/// A file into which one process records. A part in the directory for temporary files is removed at
/// the end of the run. A part beside the requested file remains when the run fails, because it has
/// the records.
struct Part {
    path: PathBuf,
    is_temporary: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.is_temporary {
            // The call fails if the file has moved already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Begins to record, if that was requested. All processes call this.
pub(crate) fn begin(session: &Session, cluster: &RunCluster) -> Result<Option<Recorded>, AppError> {
    let Some(output) = &session.settings.record else { return Ok(None) };
    if !cluster.has_one_clock() {
        return Err(AppError::Usage(format!(
            "--record {}: the nodes are on several machines, and nobody there could put their histories together; leave it \
             out",
            output.path().display()
        )));
    }
    // Rows from before the run have timestamps up to this one.
    let clocks = session.nodes().into_iter().map(|node| node.clock().now().0);
    let base = cluster.share(clocks.max().unwrap_or(0))?.into_iter().max().unwrap_or(0);
    let own = part_of(output, cluster.process().0);
    let recording = Recording::create(&own.path, base).map_err(|error| failed(&error));
    let recorded = recording.map(|recording| Recorded { recording, own, output: output.clone() });
    let made = recorded.as_ref().map(|_| ()).map_err(AppError::clone);
    cluster.all(made)?;
    recorded.map(Some)
}

/// The part of the process with this index. If the output is a FIFO or a device, the part is a
/// temporary file, because the program could not read the output back.
fn part_of(output: &Output, place: usize) -> Part {
    let part = format!(".node-{}", place + 1);
    if !output.is_file() {
        let name = format!("latchwork-history-{}{part}", std::process::id());
        return Part { path: std::env::temp_dir().join(name), is_temporary: true };
    }
    let mut name = output.path().as_os_str().to_owned();
    name.push(part);
    Part { path: PathBuf::from(name), is_temporary: false }
}

impl Recorded {
    /// The recorder for a worker.
    pub(crate) fn recorder(recorded: Option<&Recorded>) -> Recorder {
        recorded.map_or_else(Recorder::off, |recorded| recorded.recording.recorder())
    }

    /// Ends the recording, and checks the history. All processes call this. If the history cannot
    /// be written, the result says so, and the other results of the run remain.
    ///
    /// # Errors
    /// When another process died or left.
    pub(crate) fn judge(self, cluster: &RunCluster) -> Result<Judged, AppError> {
        let Recorded { recording, own, output } = self;
        let finished = recording.finish().map_err(|error| failed(&error));
        let part = finished.and_then(|_| absolute(&own.path)).map_err(|error| error.to_string());
        let parts: Result<Vec<PathBuf>, String> = cluster.share(part)?.into_iter().collect();
        let judged = match (parts, cluster.is_first()) {
            (Ok(parts), true) => gathered(&output, &parts),
            (Ok(_), false) => (None, None),
            (Err(problem), _) => (None, Some(problem)),
        };
        // The first process distributes the result. Until then it may read the parts of the others.
        let (verdict, problem) = cluster.share(judged)?.swap_remove(0);
        let check = verdict.map(|(good, detail)| RunCheck::new("serializability", good, detail));
        Ok(Judged { check, unrecorded: problem.map(AppError::Failed) })
    }
}

fn absolute(path: &Path) -> Result<PathBuf, AppError> {
    std::path::absolute(path).map_err(|error| AppError::unwritable(path, &error))
}

/// Whether the history is serializable, with the details.
type Verdict = (bool, String);

/// Checks the history of all parts, and moves it to the requested file. Also returns the error, if
/// any.
fn gathered(output: &Output, parts: &[PathBuf]) -> (Option<Verdict>, Option<String>) {
    // This program wrote the parts, so their size has no bound here.
    match TransactionHistory::load_all(parts, u64::MAX) {
        Ok(history) => {
            let problem = place(output, parts, &history).err();
            (Some(verdict(&history)), problem.map(|error| error.to_string()))
        }
        Err(error) => (None, Some(error.to_string())),
    }
}

/// Writes the history of all parts to the requested file.
fn place(output: &Output, parts: &[PathBuf], history: &TransactionHistory) -> Result<(), AppError> {
    let unwritable = |error| {
        let path = output.path().display();
        AppError::Failed(format!("the history is not written: {path}: {error}"))
    };
    match parts {
        [part] => output.adopt(part).map_err(unwritable),
        parts => {
            output.write_with(|out| history.write(out)).map_err(unwritable)?;
            parts.iter().try_for_each(|part| {
                std::fs::remove_file(part).map_err(|error| AppError::unwritable(part, &error))
            })
        }
    }
}

fn verdict(history: &TransactionHistory) -> Verdict {
    let report = check(history, CheckOptions::default());
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
