//! [`AppError`] and [`FlagError`]: why a program ends without a result.

use std::path::Path;

use latchwork_files::OutputError;
use latchwork_workload::WorkloadError;

use crate::signal::Signal;

/// An error about flags that are valid one by one, but not together or not here. The text is one
/// line that names a flag and says what to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FlagError(pub String);

/// Why a program ended without a result. Each text is one line.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppError {
    /// The command line, or a file that it names, is wrong.
    #[error("{0}")]
    Usage(String),
    /// The program failed, or its result cannot be written.
    #[error("{0}")]
    Failed(String),
    /// A signal to this process ended the program before it had a result.
    #[error("ended by {} before it had a result", .0.name())]
    Stopped(Signal),
    /// A signal to the process of another node ended the program before it had a result. The text
    /// is the name of the node.
    #[error("ended by {} at node {} before it had a result", .0.name(), .1)]
    StoppedAt(Signal, String),
}

impl AppError {
    /// The program's exit status: 2 for a wrong command line, 128 plus the number of a signal, 1
    /// for all other errors.
    pub fn status(&self) -> u8 {
        match self {
            AppError::Usage(_) => 2,
            AppError::Failed(_) => 1,
            AppError::Stopped(signal) | AppError::StoppedAt(signal, _) => signal.status(),
        }
    }

    /// The error for a worker without a result, if nothing says why.
    pub fn lost() -> AppError {
        AppError::Failed("a worker ended without a result".to_owned())
    }

    /// The error for an output that cannot be written.
    pub fn output(path: &Path, cause: &OutputError) -> AppError {
        AppError::Failed(format!("{}: {cause}", path.display()))
    }

    /// The error for a file or a directory that cannot be written.
    pub fn unwritable(path: &Path, cause: &std::io::Error) -> AppError {
        AppError::Failed(format!("{} cannot be written: {cause}", path.display()))
    }
}

impl From<FlagError> for AppError {
    fn from(error: FlagError) -> AppError {
        AppError::Usage(error.0)
    }
}

impl From<WorkloadError> for AppError {
    fn from(error: WorkloadError) -> AppError {
        AppError::Usage(error.to_string())
    }
}

impl From<latchwork_files::SameFile> for AppError {
    fn from(error: latchwork_files::SameFile) -> AppError {
        AppError::Usage(error.to_string())
    }
}
