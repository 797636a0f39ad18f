//! What can end the program.

use latchwork_harness::FlagError;
use latchwork_workload::WorkloadError;

/// Why the program ended without a good result. Each is one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AppError {
    /// The command line asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// The run came to nothing.
    #[error("{0}")]
    Failed(String),
}

impl From<FlagError> for AppError {
    fn from(error: FlagError) -> AppError {
        AppError::Usage(error.0)
    }
}

impl From<WorkloadError> for AppError {
    fn from(error: WorkloadError) -> AppError {
        match error {
            WorkloadError::Unwritable { .. } => AppError::Failed(error.to_string()),
            error => AppError::Usage(error.to_string()),
        }
    }
}

impl AppError {
    /// The program's exit status: 2 for what the caller can mend in the command line, 1 for the rest.
    pub(crate) fn status(&self) -> u8 {
        match self {
            AppError::Usage(_) => 2,
            AppError::Failed(_) => 1,
        }
    }
}
