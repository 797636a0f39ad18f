//! A clock that continues while the machine is suspended, and deadlines on that clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Time since the boot, including suspended time. All processes of the machine read the same clock,
/// except processes in a time namespace of their own. No process can set the clock.
pub(crate) fn since_boot() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    // Neither field is negative, because the clock starts at zero.
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Nanoseconds; a longer duration than 64 bits hold (584 years) gives the maximum.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A point in time by which a call must end.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadline {
    at: Duration,
    /// The length at the start, for messages.
    pub(crate) limit: Duration,
}

impl Deadline {
    /// A deadline `limit` from now.
    pub(crate) fn after(limit: Duration) -> Self {
        Deadline { at: since_boot().saturating_add(limit), limit }
    }

    /// The time left, or `None` after the deadline.
    pub(crate) fn left(&self) -> Option<Duration> {
        self.at.checked_sub(since_boot()).filter(|left| !left.is_zero())
    }
}
