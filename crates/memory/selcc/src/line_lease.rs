//! The line lease: how long local code may use a line that other nodes have requested (SELCC
//! 5.3.1).
//!
//! Local accesses come before requests of other nodes, and so do accesses that wait for the local
//! latch. The reason is that a line moves among the workers of a node much faster than among nodes
//! (SELCC 5.1.1). Where many workers want one line, some access always waits, and the requesting
//! nodes would starve. The line lease bounds their wait:
//!
//! 1. Two counters start when local code has kept a request waiting: the reads and the writes that
//!    had to wait for the local latch.
//! 2. An access that finds the latch free at its first attempt sets both counters to zero: the line
//!    is not used so heavily.
//! 3. When `reads / workers + writes` reaches the [bound](crate::SelccSettings::lease),
//!    the node gives the line up. No further access takes the latch or obtains the line before the
//!    queued requests. Writers see that in the frame, and accesses that obtain the line see it in
//!    the record.
//! 4. These accesses wait until the requests are served, and then for the line as for any other
//!    line.
//! 5. An access with a reservation still uses the line, unless the reservation expires. So each
//!    visit of a line mostly serves one access at least.

use latchwork_coherence::AccessMode;

/// The state of the lease of one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Lease {
    /// Local code keeps no request waiting.
    #[default]
    Off,
    /// Local code keeps a request waiting. So many accesses have waited for the latch since then,
    /// or since the last access that found the latch free.
    Running {
        /// Reads that waited.
        reads: u32,
        /// Writes that waited.
        writes: u32,
    },
    /// The node gives the line up.
    Over,
}

impl Lease {
    /// Starts the counters: local code keeps a request waiting.
    pub(crate) fn begin(&mut self) {
        if *self == Lease::Off {
            *self = Lease::Running { reads: 0, writes: 0 };
        }
    }

    /// Counts a local access that has to wait for the latch.
    pub(crate) fn has_waited(&mut self, mode: AccessMode) {
        if let Lease::Running { reads, writes } = self {
            let count = if mode == AccessMode::Shared { reads } else { writes };
            *count = count.saturating_add(1);
        }
    }

    /// Resets the counters: a local access found the latch free.
    pub(crate) fn has_not_waited(&mut self) {
        if let Lease::Running { reads, writes } = self {
            (*reads, *writes) = (0, 0);
        }
    }

    /// Whether the lease runs and has reached its bound, on a node with so many workers.
    pub(crate) fn is_used_up(self, bound: Option<u32>, workers: u32) -> bool {
        let Lease::Running { reads, writes } = self else { return false };
        bound.is_some_and(|bound| (reads / workers.max(1)).saturating_add(writes) >= bound)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn used_up(bound: Option<u32>, reads: usize, writes: usize, workers: u32) -> bool {
        let mut lease = Lease::Off;
        lease.begin();
        (0..reads).for_each(|_| lease.has_waited(AccessMode::Shared));
        (0..writes).for_each(|_| lease.has_waited(AccessMode::Exclusive));
        lease.is_used_up(bound, workers)
    }

    #[test]
    fn reads_count_as_much_as_the_workers_make_them() {
        assert!(!used_up(Some(4), 0, 3, 8) && used_up(Some(4), 0, 4, 8));
        assert!(!used_up(Some(4), 31, 0, 8) && used_up(Some(4), 32, 0, 8));
        assert!(!used_up(Some(4), 15, 2, 8) && used_up(Some(4), 16, 2, 8));
        assert!(used_up(Some(0), 0, 0, 8), "whoever asks is served at once");
        assert!(!used_up(None, 10_000, 10_000, 8), "never");
    }

    #[test]
    fn counters_run_only_while_a_request_waits_and_begin_anew_when_the_latch_was_free() {
        let mut lease = Lease::Off;
        lease.has_waited(AccessMode::Exclusive);
        assert_eq!(lease, Lease::Off);
        lease.begin();
        lease.has_waited(AccessMode::Exclusive);
        lease.has_waited(AccessMode::Shared);
        lease.begin();
        assert_eq!(lease, Lease::Running { reads: 1, writes: 1 });
        lease.has_not_waited();
        assert_eq!(lease, Lease::Running { reads: 0, writes: 0 });
    }
}
