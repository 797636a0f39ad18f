//! Counters of workers. Each worker has its own counters, so that counting shares no memory.

use latchwork_runtime::sync::{AtomicU64, Ordering};

/// One count. Only its worker writes the count; any thread reads it.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the count. Only the worker of the count may call this.
    #[inline]
    pub fn add(&self, n: u64) {
        // Load and store instead of fetch-and-add: there is one writer.
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The most counts that a protocol may have of its own.
pub const OWN_COUNTS_MAX: usize = 16;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of one worker.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct WorkerCounters {
            $($(#[$doc])* pub $name: Count,)*
            /// The counts that only the protocol has, in the order of the protocol.
            pub own: [Count; OWN_COUNTS_MAX],
        }

        /// The counts of all workers of a node, summed.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
            /// The counts that only the protocol has, in the order of the protocol.
            pub own: [u64; OWN_COUNTS_MAX],
        }

        impl Counters {
            pub(crate) fn add_worker(&mut self, worker: &WorkerCounters) {
                $(self.$name += worker.$name.get();)*
                self.own = std::array::from_fn(|at| self.own[at] + worker.own[at].get());
            }

            /// Names and values, in a fixed order. `own`: the names of the protocol's own counts.
            pub fn entries(
                &self,
                own: &'static [&'static str],
            ) -> impl Iterator<Item = (&'static str, u64)> {
                let common = [$((stringify!($name), self.$name),)*].into_iter();
                common.chain(own.iter().copied().zip(self.own))
            }
        }

        impl std::ops::Add for Counters {
            type Output = Counters;
            fn add(self, other: Counters) -> Counters {
                let own = std::array::from_fn(|at| self.own[at] + other.own[at]);
                Counters { $($name: self.$name + other.$name,)* own }
            }
        }

        impl std::ops::Sub for Counters {
            type Output = Counters;
            fn sub(self, other: Counters) -> Counters {
                let own = std::array::from_fn(|at| self.own[at].wrapping_sub(other.own[at]));
                Counters { $($name: self.$name.wrapping_sub(other.$name),)* own }
            }
        }
    };
}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Counters>>(counters: I) -> Counters {
        counters.fold(Counters::default(), |all, one| all + one)
    }
}

counters! {
    /// Reads and writes that found the line in the needed mode, without a wait.
    cache_hits,
    /// Accesses that had to wait for the line in its record.
    cache_misses,
    /// Accesses that waited while this node sent invalidation requests for the line. An access
    /// counts once for any number of requests (SELCC 7.1.1, figure 12).
    accesses_invalidating,
    /// Invalidation requests sent.
    invalidations_sent,
    /// Requests of other nodes that this node answered with `Dropped`.
    invalidations_dropped,
    /// Requests of other nodes that this node answered with `Busy`, because a transaction has
    /// locked the line.
    invalidations_locked_out,
    /// Line locks that transactions took, including upgrades.
    locks,
    /// Locks refused because the line is locked in an incompatible mode, or counts as locked.
    locks_refused,
    /// Lines forwarded into another node's frame.
    forwards,
    /// Hand-overs of exclusive ownership.
    handovers,
    /// Attempts to upgrade from shared to exclusive.
    upgrades,
    /// Lines evicted for any reason: frames run short, release is early, or release is not lazy.
    evictions,
    /// Lines evicted because frames ran short.
    evictions_for_room,
    /// Batches of evictions for room: the lines of one memory node in one sweep, behind one
    /// doorbell.
    eviction_batches,
    /// Lines chosen for eviction that were in use or gone by then.
    victims_in_use,
    /// Released dirty lines copied to a write-back slot, so that their frames could be free at
    /// once.
    write_backs_copied,
    /// Released dirty lines without a free write-back slot.
    write_backs_in_frame,
    /// Accesses that had to wait for a free frame.
    frame_waits,
    /// Lines released early because other nodes would take them anyway.
    early_releases,
    /// Bytes of lines written back.
    bytes_written_back,
    /// READs posted. A READ also counts if the fabric omits it, because the word refused the atomic
    /// before the READ.
    verbs_read,
    /// WRITEs posted, including forwards.
    verbs_write,
    /// Compare-and-swaps posted.
    verbs_cas,
    /// Fetch-and-adds posted.
    verbs_faa,
    /// Messages about lines sent. A message that is sent again counts once.
    messages,
    /// User messages sent: not part of the protocol, and not counted in `messages`.
    letters,
    /// Duplicate messages that arrived.
    repeats,
    /// Messages, some with a line, sent again after an ambiguous completion.
    resent,
    /// Bytes of the READs posted.
    bytes_read,
    /// Bytes written to memory nodes and into other nodes' frames.
    bytes_written,
    /// Lines allocated. `lines_allocated - lines_freed` is the growth of the lines in use.
    lines_allocated,
    /// Lines freed.
    lines_freed,
    /// Empty leaves of B-link trees, and inner pages above them, taken out of their trees.
    leaves_unlinked,
    /// Lines of these pages that were freed.
    leaves_freed,
}
