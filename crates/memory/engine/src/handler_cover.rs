//! [`HandlerCover`]: the time until which the handler polls although workers are awake.
//!
//! 1. A message wakes no thread while a worker of its node polls.
//! 2. The kernel may have given that worker's core to another program. Then the message, and the
//!    node that sent it, wait for a time slice of that program.
//! 3. So while other programs want the workers' cores, the handler takes messages every
//!    [`INTERVAL`].
//! 4. The kernel prefers a thread that mostly sleeps to a thread that uses its whole share. So the
//!    handler mostly gets a core in time.

use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Ordering};

/// The time between two polls of the handler: short against a time slice (milliseconds), long
/// against one poll (microseconds).
pub(crate) const INTERVAL: Duration = Duration::from_micros(200);

/// The end of the handler cover, in nanoseconds of the node's clock.
#[derive(Default)]
pub(crate) struct HandlerCover(AtomicU64);

impl HandlerCover {
    /// Extends the cover: a worker's core is contended until `until`. Returns whether no cover was
    /// active at `now`, so that the caller must wake the handler.
    pub(crate) fn extend(&self, now: Time, until: Time) -> bool {
        // Relaxed: the time orders nothing else. The notification of the handler orders the time
        // before the handler's next poll.
        let before = self.0.fetch_max(until.as_nanos(), Ordering::Relaxed);
        before <= now.as_nanos()
    }

    /// The time of the handler's next poll after a poll at `now`. `None` when no cover is active.
    pub(crate) fn next(&self, now: Time) -> Option<Time> {
        (now.as_nanos() < self.0.load(Ordering::Relaxed)).then(|| now + INTERVAL)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn the_handler_is_woken_once_and_looks_until_the_cover_ends() {
        let cover = HandlerCover::default();
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
