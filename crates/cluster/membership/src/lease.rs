//! [`Lease`]: whether this node may still touch memory.

use std::fmt;
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicU64, Ordering};
use latchwork_runtime::{Clock, Time};

use crate::time::{nanos, since_boot};

/// The deadline of a lease that is over.
const OVER: u64 = 0;
/// A node stops trusting its lease when this part of it is still left: for clocks that do not run
/// alike, and for what was begun just before.
const MARGIN: u32 = 5;

/// A node's own view of its lease; copies are the same lease. Asking costs a load and a look at the
/// clock.
///
/// It ends before anybody else can find it ended: its time is counted from before the renewal was
/// sent, and a fifth of it is not used. Once it was found to have ended, or may have, it is never
/// valid again.
#[derive(Clone)]
pub struct Lease(Arc<Inner>);

struct Inner {
    /// Nanoseconds since the machine was started. It orders nothing else: whoever sees an older
    /// value stops at that one's time, so that all accesses may be relaxed.
    deadline: AtomicU64,
    /// When the clock that the caller's times come from stood at zero.
    origin: u64,
}

impl Lease {
    /// A lease of `ttl` that was asked for at `sent`.
    pub(crate) fn new(sent: Duration, ttl: Duration, clock: &Clock) -> Self {
        let origin = nanos(since_boot()).saturating_sub(clock.now().as_nanos());
        let deadline = AtomicU64::new(trusted_until(sent, ttl));
        Lease(Arc::new(Inner { deadline, origin }))
    }

    /// Whether the lease is certain to last. Ask before every doorbell.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.is_valid_since_boot(nanos(since_boot()))
    }

    /// [`Lease::is_valid`] for a caller who has the time already, from the clock that the node
    /// joined with ([`Joining::clock`](crate::Joining::clock)). That clock stands still while the
    /// machine is suspended; what was missed then shows when the keeper runs again.
    #[inline]
    pub fn is_valid_at(&self, now: Time) -> bool {
        self.is_valid_since_boot(self.0.origin.saturating_add(now.as_nanos()))
    }

    /// How long it stays valid without a renewal.
    pub fn left(&self) -> Duration {
        let deadline = self.0.deadline.load(Ordering::Relaxed);
        Duration::from_nanos(deadline.saturating_sub(nanos(since_boot())))
    }

    #[inline]
    fn is_valid_since_boot(&self, now: u64) -> bool {
        now < self.0.deadline.load(Ordering::Relaxed) || self.expired(now)
    }

    /// The deadline has passed: makes sure that no renewal that comes later changes that.
    #[cold]
    fn expired(&self, now: u64) -> bool {
        let end = |deadline| if now < deadline { None } else { Some(OVER) };
        self.0.deadline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).is_err()
    }

    /// A renewal that was sent at `sent` has succeeded; false when that came too late.
    pub(crate) fn extend(&self, sent: Duration, ttl: Duration) -> bool {
        let new = trusted_until(sent, ttl);
        let extend = |deadline: u64| {
            let in_time = nanos(since_boot()) < deadline;
            Some(if in_time { deadline.max(new) } else { OVER })
        };
        let update = self.0.deadline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, extend);
        update.is_ok() && self.is_valid()
    }

    /// Ends it here and now.
    pub(crate) fn end(&self) {
        self.0.deadline.store(OVER, Ordering::Relaxed);
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease").field("left", &self.left()).finish()
    }
}

fn trusted_until(sent: Duration, ttl: Duration) -> u64 {
    nanos(sent.saturating_add(ttl - ttl / MARGIN))
}

/// How often a lease of `ttl` is renewed: four attempts fit into its trusted time.
pub(crate) fn interval(ttl: Duration) -> Duration {
    ttl / MARGIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(100);

    #[test]
    fn a_lease_is_trusted_for_less_than_it_lasts() {
        let clock = Clock::start();
        let lease = Lease::new(since_boot(), TTL, &clock);
        assert!(lease.is_valid() && lease.is_valid_at(clock.now()));
        assert!(lease.left() <= Duration::from_secs(80));
        assert!(lease.is_valid_at(clock.now() + Duration::from_secs(79)));
        assert!(!lease.is_valid_at(clock.now() + Duration::from_secs(81)));
    }

    #[test]
    fn a_lease_that_was_found_ended_stays_so() {
        let clock = Clock::start();
        let lease = Lease::new(since_boot(), TTL, &clock);
        assert!(!lease.is_valid_at(clock.now() + TTL));
        assert!(!lease.is_valid(), "although that time has not come yet");
        assert!(!lease.extend(since_boot(), TTL));
        assert!(!lease.is_valid());
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent_and_only_in_time() {
        let clock = Clock::start();
        let long_ago = since_boot() - Duration::from_secs(40);
        let lease = Lease::new(long_ago, TTL, &clock);
        assert!(lease.left() <= Duration::from_secs(40));
        assert!(lease.extend(since_boot() - Duration::from_secs(20), TTL));
        assert!(lease.left() <= Duration::from_secs(60));
        // One that was sent before the last one takes nothing away.
        assert!(lease.extend(long_ago, TTL));
        assert!(lease.left() > Duration::from_secs(50));
        let late = Lease::new(since_boot() - Duration::from_secs(90), TTL, &clock);
        assert!(!late.extend(since_boot(), TTL) && !late.is_valid());
    }
}
