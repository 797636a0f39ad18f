//! [`Idle`]: decides what a thread does while its executor has no work.
//!
//! ```text
//!              spin_sweeps          yield_sweeps more
//!   at work ──► spin ─────► yield ───────────────────► park
//!                             │  one yield takes longer than yield_limit
//!                             ▼
//!              contended:    spin ──► park             for `hold`; then one yield tries again
//! ```
//!
//! A yield to a thread with little work returns soon. A yield to a thread that computes without end
//! may last for that thread's whole time slice: several milliseconds. A parked thread mostly need
//! not wait for the end of this slice. The reason is that the kernel prefers a thread that wakes to
//! a thread that has used its share. So a thread on a contended core parks where it would have
//! yielded.
//!
//! `hold` begins at [`HOLD_MIN`] and doubles with each yield that is too long, up to [`HOLD_MAX`].
//! So on a core that stays contended, the yields that try again cost a few per mille of the time.
//! One short yield resets `hold`.

use std::time::Duration;

use latchwork_strict::strict_assert;

use crate::{ExecutorConfig, Time};

/// The time for which a core counts as contended after the first of several long yields.
const HOLD_MIN: Duration = Duration::from_millis(20);
/// The longest time for which a core counts as contended, after many long yields in a row.
const HOLD_MAX: Duration = Duration::from_secs(1);
const _: () = assert!(HOLD_MIN.as_nanos() > 0 && HOLD_MIN.as_nanos() <= HOLD_MAX.as_nanos());

/// The step after an idle sweep.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Sweep again at once.
    Spin,
    /// Offer the core to other threads, and pass the begin and the end of the yield to
    /// [`Idle::yielded`].
    Yield,
    /// Park. If the parking is refused, [`Idle::refused`] chooses another step.
    Park,
    /// Doze: the core is contended, the parking was refused, and no poller had something to sleep
    /// on.
    Doze,
}

/// Counts the idle sweeps of one executor, and records whether its core is contended.
#[derive(Debug)]
pub(crate) struct Idle {
    spin: u32,
    /// The number of idle sweeps before parking.
    patience: u32,
    yield_limit: Duration,
    /// The number of idle sweeps in a row.
    sweeps: u32,
    contended_until: Time,
    hold: Duration,
}

impl Idle {
    pub(crate) fn new(config: &ExecutorConfig) -> Self {
        Idle {
            spin: config.spin_sweeps,
            patience: config.spin_sweeps.saturating_add(config.yield_sweeps),
            yield_limit: config.yield_limit,
            sweeps: 0,
            contended_until: Time::ZERO,
            hold: Duration::ZERO,
        }
    }

    /// Called when a sweep made progress, or when a notification ended the parking.
    #[inline]
    pub(crate) fn worked(&mut self) {
        self.sweeps = 0;
    }

    /// The step after a sweep that began at `now` and found no work.
    pub(crate) fn step(&mut self, now: Time) -> Step {
        self.sweeps = self.sweeps.saturating_add(1);
        strict_assert!(self.patience >= self.spin, "spinning is the first part of the patience");
        if self.sweeps <= self.spin {
            Step::Spin
        } else if self.sweeps > self.patience || self.is_contended(now) {
            Step::Park
        } else {
            Step::Yield
        }
    }

    /// The step after a refused parking. The cause is that a task was woken, or that a poller waits
    /// for an event that sends no notification.
    pub(crate) fn refused(&self, now: Time) -> Step {
        strict_assert!(self.sweeps > 0, "a poller refuses after an idle sweep only");
        if !self.is_contended(now) {
            // The poller may wait for a thread that needs this core.
            Step::Yield
        } else if self.sweeps <= self.spin.saturating_mul(2) {
            // One of the next sweeps mostly finds the event for which the poller waits.
            Step::Spin
        } else {
            Step::Doze
        }
    }

    /// Called after a yield that lasted from `began` to `ended`. Returns whether the core is
    /// contended.
    pub(crate) fn yielded(&mut self, began: Time, ended: Time) -> bool {
        strict_assert!(ended >= began, "a yield ended before it began");
        // Under the model checker, other threads run during the yield, and their real time must not
        // influence the model.
        if cfg!(loom) || ended - began <= self.yield_limit {
            self.hold = Duration::ZERO;
            return false;
        }
        self.hold = (self.hold * 2).clamp(HOLD_MIN, HOLD_MAX);
        self.contended_until = ended + self.hold;
        strict_assert!(self.hold >= HOLD_MIN && self.hold <= HOLD_MAX, "a hold of {:?}", self.hold);
        strict_assert!(self.contended_until > ended, "a contended core is contended for a while");
        true
    }

    /// The time until which the core counts as contended.
    pub(crate) fn contended_until(&self) -> Time {
        self.contended_until
    }

    /// Whether the core counts as contended at `now`.
    pub(crate) fn is_contended(&self, now: Time) -> bool {
        now < self.contended_until
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(1);

    fn idle() -> Idle {
        let config = ExecutorConfig {
            spin_sweeps: 2,
            yield_sweeps: 3,
            yield_limit: LIMIT,
            ..ExecutorConfig::default()
        };
        Idle::new(&config)
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    fn steps<const N: usize>(idle: &mut Idle, now: Time) -> [Step; N] {
        idle.worked();
        std::array::from_fn(|_| idle.step(now))
    }

    #[test]
    fn a_thread_on_a_quiet_core_spins_then_yields_then_parks() {
        use Step::{Park, Spin, Yield};
        let mut idle = idle();
        assert_eq!(steps(&mut idle, at(0)), [Spin, Spin, Yield, Yield, Yield, Park, Park]);
        assert_eq!(idle.refused(at(0)), Yield);
        assert!(!idle.yielded(at(0), at(0) + LIMIT), "the limit itself is short");
        assert!(
            self::idle().yielded(at(0), at(0) + LIMIT + Duration::from_nanos(1)),
            "and no more"
        );
        assert_eq!(steps(&mut idle, at(1)), [Spin, Spin, Yield]);
    }

    #[test]
    fn a_thread_on_a_contended_core_parks_instead_of_yielding() {
        use Step::{Doze, Park, Spin, Yield};
        let mut idle = idle();
        assert!(idle.yielded(at(0), at(4)));
        assert_eq!(idle.contended_until(), at(4) + HOLD_MIN);
        assert_eq!(steps(&mut idle, at(5)), [Spin, Spin, Park]);
        assert_eq!(idle.refused(at(5)), Spin);
        assert_eq!([idle.step(at(5)), idle.step(at(5))], [Park, Park]);
        assert_eq!(idle.refused(at(5)), Doze);
        // After the end of the hold, the next idle step is a yield again.
        assert_eq!(steps(&mut idle, at(24)), [Spin, Spin, Yield]);
    }

    #[test]
    fn the_hold_doubles_up_to_its_maximum_and_one_short_yield_sets_it_back() {
        let mut idle = idle();
        let mut now = at(0);
        let mut holds = Vec::new();
        for _ in 0..8 {
            let ended = now + 4 * LIMIT;
            assert!(idle.yielded(now, ended));
            holds.push(idle.contended_until() - ended);
            now = idle.contended_until();
        }
        let expected = [20, 40, 80, 160, 320, 640, 1000, 1000].map(Duration::from_millis);
        assert_eq!(holds, expected);
        assert!(!idle.yielded(now, now));
        assert!(idle.yielded(now, now + 4 * LIMIT));
        assert_eq!(idle.contended_until() - (now + 4 * LIMIT), HOLD_MIN);
    }
}
