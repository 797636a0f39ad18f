//! The CPU times that a world charges for work on cached lines.

use std::time::Duration;

/// CPU times of work on cached lines. Posting and polling verbs are charged by the simulated
/// fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuCosts {
    /// A hit: the search for the frame, and the local latch. Each attempt of a transaction to lock
    /// a line costs the same, and so does each end of a lock and each conversion to a node lock.
    pub hit: Duration,
    /// A read or write of 1 KiB in the cache. Each hit is charged for its whole line.
    pub copy_per_kib: Duration,
    /// The time for which a local writer holds the latch, besides the copying.
    pub latch_hold: Duration,
    /// The service of a message of another node.
    pub message: Duration,
}

impl CpuCosts {
    pub(crate) fn copy(&self, bytes: usize) -> Duration {
        // One division, so the result is rounded down once.
        Duration::from_nanos(
            (self.copy_per_kib.as_nanos() as u64).saturating_mul(bytes as u64) / 1024,
        )
    }
}
