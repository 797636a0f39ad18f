//! What a worker counts. Each worker has its own counters, so that counting shares no memory.

use latchwork_runtime::sync::{AtomicU64, Ordering};

/// One count, written by its worker only and read by anybody.
#[derive(Debug, Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        // Load and store instead of fetch-and-add: there is one writer.
        self.0.store(self.0.load(Ordering::Relaxed) + n, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The counts of one worker.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(crate) struct WorkerCounters { $(pub(crate) $name: Count,)* }

        /// What happened, summed over workers.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
        pub struct Counters { $($(#[$doc])* pub $name: u64,)* }

        impl Counters {
            pub(crate) fn add_worker(&mut self, worker: &WorkerCounters) {
                $(self.$name += worker.$name.get();)*
            }

            /// Names and values, in a fixed order.
            pub fn entries(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }

        impl std::ops::Add for Counters {
            type Output = Counters;
            fn add(self, other: Counters) -> Counters {
                Counters { $($name: self.$name + other.$name,)* }
            }
        }

        impl std::ops::Sub for Counters {
            type Output = Counters;
            fn sub(self, other: Counters) -> Counters {
                Counters { $($name: self.$name.wrapping_sub(other.$name),)* }
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
    /// Accesses that found the line as they needed it.
    cache_hits,
    /// Accesses that had to ask for the line.
    cache_misses,
    /// Accesses that waited while other nodes were asked to give their line up: how many operations
    /// needed invalidation messages, however many (SELCC 7.1.1, figure 12).
    accesses_invalidating,
    /// Invalidation messages sent.
    invalidations_sent,
    /// Invalidation messages answered with `Dropped`.
    invalidations_dropped,
    /// Invalidation messages answered with `Busy`, since a transaction has locked the line.
    invalidations_locked_out,
    /// Lines that transactions locked.
    locks,
    /// Locks refused because another transaction, of this node or of another, has locked the line.
    locks_refused,
    /// Invalidation messages of others sent on behind a grant that had no room for them.
    requests_passed_on,
    /// Times that readers had to hold off, since they gave a line up for a writer that had been
    /// refused.
    holdoffs,
    /// Invalidation messages of readers refused because a starved writer has the line.
    refused_by_priority,
    /// Lines that local code gave up because its lease was over.
    leases_expired,
    /// Lines forwarded into another node's frame.
    forwards,
    /// Exclusive ownership handed over.
    handovers,
    /// Upgrades from shared to exclusive that were tried.
    upgrades,
    /// Shared lines pledged to writers.
    pledges,
    /// Pledges that writers gave back.
    pledges_given_up,
    /// Shared lines taken over by pledge.
    takeovers,
    /// Lines evicted.
    evictions,
    /// Of them, those that went because frames ran short.
    evictions_for_room,
    /// Batches in which these went: lines of one memory node in one sweep, behind one doorbell.
    eviction_batches,
    /// Lines chosen to be evicted that turned out to be in use.
    victims_in_use,
    /// Evicted lines whose changes were copied, so that their frames were free at once.
    write_backs_copied,
    /// Evicted lines with changes for which there was no room to be copied to.
    write_backs_in_frame,
    /// Accesses that had to wait for a free frame.
    frame_waits,
    /// Lines to be given back because other nodes would take them away anyway.
    early_releases,
    /// Bytes of lines that were written back.
    bytes_written_back,
    /// READs posted, those included that a fabric leaves out because their line was refused.
    verbs_read,
    /// WRITEs posted, forwards included.
    verbs_write,
    /// Compare-and-swaps posted.
    verbs_cas,
    /// Fetch-and-adds posted.
    verbs_faa,
    /// Messages sent.
    messages,
    /// Letters of code above sent: not the protocol's, and not among its messages.
    letters,
    /// Messages that had arrived before, and were dropped.
    repeats,
    /// Looks at a word after an operation on it ended ambiguous.
    inspections,
    /// Messages, some with a line, that were sent again after their end was ambiguous.
    resent,
    /// Bytes that these READs are of.
    bytes_read,
    /// Bytes written to memory nodes and into other nodes' frames.
    bytes_written,
}
