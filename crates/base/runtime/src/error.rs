//! How a wait inside the runtime can end other than well.

use thiserror::Error;

/// The task ended without a result: it was aborted, or its executor is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the task was aborted")]
pub struct Aborted;

/// The deadline passed before the future was ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the deadline passed")]
pub struct Elapsed;
