//! [`Activity`]: counters of the work that an executor has done.

/// Counters of the work that an executor has done since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Activity {
    /// Sweeps begun.
    pub sweeps: u64,
    /// Polls of spawned tasks.
    pub polls: u64,
    /// Times that the executor parked.
    pub parks: u64,
    /// Late starts: tasks that started beyond the depth, because no waiting task had started for
    /// long.
    pub late_starts: u64,
}
