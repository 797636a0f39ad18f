//! The errors of waits inside the runtime.

use thiserror::Error;

/// The task ended without a result. The task was aborted, the task panicked, or its executor was
/// dropped before or after the spawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the task was aborted")]
pub struct Aborted;

/// The deadline passed before the future was ready.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("the deadline passed")]
pub struct Elapsed;
