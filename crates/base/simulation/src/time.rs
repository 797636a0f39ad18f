//! [`Time`]: an instant, real or virtual.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// An instant in nanoseconds: since the start of the world (virtual time), or since the zero of a
/// clock (real time).
///
/// Arithmetic saturates. [`Time::MAX`] plus a duration is [`Time::MAX`], and an earlier time minus
/// a later time is a zero duration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Time(u64);

impl Time {
    /// The start of the world, or the zero of the clock.
    pub const ZERO: Time = Time(0);
    /// The last instant, about 585 years after the start.
    pub const MAX: Time = Time(u64::MAX);

    /// The instant `nanos` nanoseconds after the start.
    pub const fn from_nanos(nanos: u64) -> Self {
        Time(nanos)
    }

    /// Nanoseconds since the start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
}

// Own code, because `Duration::as_nanos` computes with 128 bits and takes several times as long.
#[inline]
fn nanos(duration: Duration) -> u64 {
    let seconds = duration.as_secs().saturating_mul(1_000_000_000);
    seconds.saturating_add(u64::from(duration.subsec_nanos()))
}

impl Add<Duration> for Time {
    type Output = Time;

    #[inline]
    fn add(self, duration: Duration) -> Time {
        Time(self.0.saturating_add(nanos(duration)))
    }
}

impl AddAssign<Duration> for Time {
    #[inline]
    fn add_assign(&mut self, duration: Duration) {
        *self = *self + duration;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    #[inline]
    fn sub(self, duration: Duration) -> Time {
        Time(self.0.saturating_sub(nanos(duration)))
    }
}

impl Sub for Time {
    type Output = Duration;

    #[inline]
    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t+{:?}", Duration::from_nanos(self.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_saturates_at_both_ends() {
        let t = Time::from_nanos(5);
        assert_eq!(t + Duration::from_nanos(7), Time::from_nanos(12));
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(t - Duration::from_secs(1), Time::ZERO);
        assert_eq!(Time::ZERO - t, Duration::ZERO);
        assert_eq!(Time::from_nanos(12) - t, Duration::from_nanos(7));
        assert_eq!(t + Duration::MAX, Time::MAX);
        assert_eq!(Time::ZERO + Duration::new(18_446_744_073, 709_551_615), Time::MAX);
        assert_eq!(Time::ZERO + Duration::new(2, 3), Time::from_nanos(2_000_000_003));
    }
}
