//! The machine's clock that goes on while it is suspended, and deadlines on it.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the machine was started, the time in which it was suspended included. The same for
/// all its processes, and set by nobody.
pub(crate) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // Neither is ever negative: the clock starts at zero.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Nanoseconds, as many as 64 bits hold: 584 years.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// When something has to be done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Duration,
    /// How long it was at the start, for messages.
    pub(crate) limit: Duration,
}

impl Deadline {
    /// `limit` from now.
    pub(crate) fn after(limit: Duration) -> Self {
        Deadline { at: since_boot().saturating_add(limit), limit }
    }

    /// What is left of it; `None` when it has passed.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.at.checked_sub(since_boot()).filter(|left| !left.is_zero())
    }
}
