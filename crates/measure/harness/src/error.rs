//! [`AppError`] and [`FlagError`]: why a program ends without a result.

use std::path::Path;

use latchwork_files::OutputError;
use latchwork_workload::WorkloadError;

use crate::signal::Signal;

/// What is wrong with flags that are fine one by one: one line that names the flag and says what
/// would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FlagError(pub String);

/// Why a program ended without a result. Each text is one line.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AppError {
    /// The command line, or a file that it names, requests something impossible.
    #[error("{0}")]
    Usage(String),
    /// The program failed, or its result cannot be written.
    #[error("{0}")]
    Failed(String),
    /// A signal ended the program before there was a result.
    #[error("ended by {} before it had a result", .0.name())]
    Stopped(Signal),
    /// As `Stopped`, for a signal to the process of another node.
    #[error("ended by {} at node {} before it had a result", .0.name(), .1)]
    StoppedAt(Signal, String),
}

impl AppError {
    /// The program's exit status: 2 for an error that another command line avoids, 128 plus the
    /// number for a signal, 1 for the rest.
    pub fn status(&self) -> u8 {
        match self {
            AppError::Usage(_) => 2,
            AppError::Failed(_) => 1,
            AppError::Stopped(signal) | AppError::StoppedAt(signal, _) => signal.status(),
        }
    }

    /// An output cannot be written.
    pub fn output(path: &Path, cause: &OutputError) -> AppError {
        AppError::Failed(format!("{}: {cause}", path.display()))
    }

    /// A file or a directory cannot be written.
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
