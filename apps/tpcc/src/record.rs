//! The history of a run: what its transactions saw and did, and whether they could have run one after another.

use crate::session::Session;
use latchwork_harness::AppError;
use latchwork_harness::outcome::Check;
use latchwork_history::{History, HistoryError, Options, Recorder, Recording, check};
use std::path::Path;

/// Begins to record, if that was asked for.
pub(crate) fn begin(session: &Session) -> Result<Option<Recording>, AppError> {
    let Some(path) = &session.settings.record else { return Ok(None) };
    // What is there already has timestamps up to this one.
    let clocks = session.nodes().into_iter().map(|node| node.clock().now().0);
    let recording = Recording::create(path, clocks.max().unwrap_or(0));
    recording.map(Some).map_err(|error| failed(&error))
}

/// Who records for a worker.
pub(crate) fn recorder(recording: &Option<Recording>) -> Recorder {
    recording.as_ref().map_or_else(Recorder::off, Recording::recorder)
}

/// Ends the recording, and judges it.
pub(crate) fn judge(recording: Recording, path: &Path) -> Result<Check, AppError> {
    recording.finish().map_err(|error| failed(&error))?;
    let history = History::load(path).map_err(|error| failed(&error))?;
    let report = check(&history, Options::default());
    let good = report.is_serializable();
    let detail = match good {
        true => format!(
            "one order explains the {} that committed; {} attempts aborted",
            report.committed, report.aborted
        ),
        false => format!("{} cycles or other faults\n{report}", report.violations_found),
    };
    Ok(Check::new("serializability", good, detail))
}

fn failed(error: &HistoryError) -> AppError {
    AppError::Failed(error.to_string())
}
