//! [`LatchCount`]: the counts that only the protocols of the latch word have.

use latchwork_engine::{Counters, OWN_COUNTS_MAX, WorkerCore};

macro_rules! counters {
    ($($(#[$doc:meta])* $count:ident $name:literal,)*) => {
        /// A count that only the protocols of the latch word have, among [`Counters::own`].
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum LatchCount { $($(#[$doc])* $count,)* }

        impl LatchCount {
            /// The names of the counts, in their order.
            pub const NAMES: &'static [&'static str] = &[$($name),*];
        }
    };
}

counters! {
    /// Queued requests of other nodes sent on to the new holder after a hand-over.
    RequestsPassedOn "requests_passed_on",
    /// Hold-offs of readers that gave a line up for a writer that was refused before.
    HoldOffs "holdoffs",
    /// Invalidation requests of readers dropped because a starved writer has the line.
    RefusedByPriority "refused_by_priority",
    /// Lines given up because the line lease of local code was over.
    LeasesExpired "leases_expired",
    /// Shared lines pledged to writers.
    Pledges "pledges",
    /// Pledges that writers gave up.
    PledgesGivenUp "pledges_given_up",
    /// Shared lines taken over by pledge.
    Takeovers "takeovers",
    /// Probes of a latch word after an ambiguous completion of an operation.
    Inspections "inspections",
    /// Changes of lines written back in place, with `survive`.
    Persists "persists",
}

const _: () = assert!(LatchCount::NAMES.len() <= OWN_COUNTS_MAX);

impl LatchCount {
    /// The count in the counters of a node or of several.
    pub fn of(self, counters: &Counters) -> u64 {
        counters.own[self as usize]
    }

    /// Counts one at this worker.
    #[inline]
    pub(crate) fn count(self, worker: &WorkerCore) {
        worker.counters.own[self as usize].add(1);
    }
}
