//! What can end the program.

use latchwork_workload::WorkloadError;
use std::path::Path;

/// Why the program ended without having done what it was asked for. Each is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    /// The command line, or a file that it names, asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// A result cannot be written.
    #[error("{0}")]
    Unwritable(String),
    /// A result document cannot be written.
    #[error(transparent)]
    Document(#[from] WorkloadError),
}

impl AppError {
    /// The program's exit status: 2 for what the caller can mend in the command line, 1 for the rest.
    pub(crate) fn status(&self) -> u8 {
        match self {
            AppError::Usage(_) => 2,
            AppError::Unwritable(_) | AppError::Document(_) => 1,
        }
    }

    pub(crate) fn unwritable(path: &Path, cause: &std::io::Error) -> AppError {
        AppError::Unwritable(format!("{} cannot be written: {cause}", path.display()))
    }
}
