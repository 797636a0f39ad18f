//! The ways in which a wait inside the runtime can fail.

use thiserror::Error;

/// The task ended without a result: it was aborted, it panicked, or its executor was dropped before
/// or after the spawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the task was aborted")]
pub struct Aborted;

/// The deadline passed before the future was ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the deadline passed")]
pub struct Elapsed;
