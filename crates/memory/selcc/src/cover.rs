//! [`Cover`]: until when the handler polls although workers are awake.
//!
//! A message wakes no thread while a worker of its node polls. The kernel may have taken that
//! worker's core for another program. Then the message waits for a time slice of that program, and
//! with it the node that sent it. So while other programs want the workers' cores, the handler
//! takes messages every [`INTERVAL`]. The kernel lets a thread that mostly sleeps go before one
//! that uses all of its share, so the handler is on time.

use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Ordering};

/// How often the handler looks: short beside a time slice (milliseconds), long beside what a look
/// takes (microseconds).
pub(crate) const INTERVAL: Duration = Duration::from_micros(200);

/// Until when, in nanoseconds of the node's clock.
#[derive(Default)]
pub(crate) struct Cover(AtomicU64);

impl Cover {
    /// A worker's core is contended until this time. Returns whether there was no cover at `now`,
    /// so that the handler has to be woken.
    pub(crate) fn extend(&self, now: Time, until: Time) -> bool {
        // Relaxed: a time and nothing else. Waking the handler orders it before the handler's next
        // look.
        let before = self.0.fetch_max(until.as_nanos(), Ordering::Relaxed);
        before <= now.as_nanos()
    }

    /// When the handler has to look again after a look at `now`.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        (now.as_nanos() < self.0.load(Ordering::Relaxed)).then(|| now + INTERVAL)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_handler_is_woken_once_and_looks_until_the_cover_ends() {
        let cover = Cover::default();
        let at = Time::from_nanos;
        assert_eq!(cover.next(at(5)), None);
        assert!(cover.extend(at(5), at(900)), "there was none");
        assert!(!cover.extend(at(6), at(1_000)), "the handler is awake already");
        assert!(!cover.extend(at(7), at(950)));
        assert_eq!(cover.next(at(999)), Some(at(999) + INTERVAL), "the later end counts");
        assert_eq!(cover.next(at(1_000)), None);
        assert!(cover.extend(at(1_000), at(2_000)), "there was none any more");
    }
}
