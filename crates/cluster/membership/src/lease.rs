//! [`Lease`]: the right of this node to touch memory, until a time on the node's clock.

use std::fmt;
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicU64, Ordering};
use latchwork_strict::strict_assert;

use crate::time::{nanos, since_boot};

/// The deadline in the word of a lease that has ended.
const OVER: u64 = 0;
/// The unused part of a lease: a node stops using its lease when 1/`MARGIN` of the lease is left.
/// This part covers clocks that run at different rates, and operations that began just before the
/// end.
const MARGIN: u32 = 5;
const _: () = assert!(OVER == 0 && MARGIN > 1, "a lease is trusted to its very end");

/// A node's own view of its lease; copies are the same lease. A check costs a load and a read of
/// the clock.
///
/// By [`Lease::is_valid`], the lease ends at this node before any other node can find it ended:
///
/// 1. The time of the lease counts from before the renewal was sent.
/// 2. The node does not use the last fifth of the lease.
///
/// A lease that a check has found ended never becomes valid again.
#[derive(Clone)]
pub struct Lease(Arc<Inner>);

struct Inner {
    /// The end of the usable time, in nanoseconds since the boot. All accesses are relaxed, because
    /// the word orders no other memory. A thread that reads a value from before a renewal only
    /// stops too early. A thread that reads a value from before [`Lease::end`] continues until the
    /// new value reaches its core.
    deadline: AtomicU64,
}

impl Lease {
    /// A lease of length `ttl`, whose request was sent at `sent` (time since the boot).
    pub(crate) fn new(sent: Duration, ttl: Duration) -> Self {
        strict_assert!(ttl > Duration::ZERO, "a lease of no length");
        let deadline = AtomicU64::new(trusted_until(sent, ttl));
        Lease(Arc::new(Inner { deadline }))
    }

    /// Whether the lease is certainly valid. A port checks it before every doorbell.
    #[inline]
    pub fn is_valid(&self) -> bool {
        self.is_valid_since_boot(nanos(since_boot()))
    }

    /// The time for which the lease stays valid without a renewal, or zero.
    pub fn left(&self) -> Duration {
        let deadline = self.0.deadline.load(Ordering::Relaxed);
        Duration::from_nanos(deadline.saturating_sub(nanos(since_boot())))
    }

    #[inline]
    fn is_valid_since_boot(&self, now: u64) -> bool {
        now < self.0.deadline.load(Ordering::Relaxed) || self.expired(now)
    }

    /// The slow path of a check after the deadline. It ends the lease, so that no later renewal
    /// makes the lease valid again.
    #[cold]
    fn expired(&self, now: u64) -> bool {
        let end = |deadline| if now < deadline { None } else { Some(OVER) };
        self.0.deadline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).is_err()
    }

    /// Records a successful renewal that was sent at `sent`. Returns false if the lease had ended
    /// before.
    pub(crate) fn extend(&self, sent: Duration, ttl: Duration) -> bool {
        let new = trusted_until(sent, ttl);
        strict_assert!(new >= nanos(sent), "a lease is trusted until before it was asked for");
        let extend = |deadline: u64| {
            let in_time = nanos(since_boot()) < deadline;
            Some(if in_time { deadline.max(new) } else { OVER })
        };
        let update = self.0.deadline.fetch_update(Ordering::Relaxed, Ordering::Relaxed, extend);
        update.is_ok() && self.is_valid()
    }

    /// Ends the lease now.
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

/// The interval between renewals of a lease of `ttl`. Four attempts fit into the usable time.
pub(crate) fn interval(ttl: Duration) -> Duration {
    ttl / MARGIN
}

#[cfg(test)]
mod tests {
    use super::*;

    const TTL: Duration = Duration::from_secs(100);

    #[test]
    fn a_lease_is_trusted_for_less_than_it_lasts() {
        let lease = Lease::new(since_boot(), TTL);
        let is_valid_in =
            |seconds| lease.is_valid_since_boot(nanos(since_boot() + Duration::from_secs(seconds)));
        assert!(lease.is_valid());
        assert!(lease.left() <= Duration::from_secs(80));
        assert!(is_valid_in(79));
        assert!(!is_valid_in(81));
    }

    #[test]
    fn a_lease_that_was_found_ended_stays_so() {
        let lease = Lease::new(since_boot(), TTL);
        assert!(!lease.is_valid_since_boot(nanos(since_boot() + TTL)));
        assert!(!lease.is_valid(), "although that time has not come yet");
        assert!(!lease.extend(since_boot(), TTL));
        assert!(!lease.is_valid());
    }

    #[test]
    fn a_renewal_counts_from_when_it_was_sent_and_only_in_time() {
        let long_ago = since_boot() - Duration::from_secs(40);
        let lease = Lease::new(long_ago, TTL);
        assert!(lease.left() <= Duration::from_secs(40));
        assert!(lease.extend(since_boot() - Duration::from_secs(20), TTL));
        assert!(lease.left() <= Duration::from_secs(60));
        // A renewal that was sent before the last one does not shorten the lease.
        assert!(lease.extend(long_ago, TTL));
        assert!(lease.left() > Duration::from_secs(50));
        let late = Lease::new(since_boot() - Duration::from_secs(90), TTL);
        assert!(!late.extend(since_boot(), TTL) && !late.is_valid());
    }
}
