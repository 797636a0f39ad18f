//! [`Sight`]: one step of a batch, as a watcher of the fabric sees it.
//!
//! ```text
//!   Posted ──► Struck (its atomics) ──► Delivered (its message) ──► Completed
//!      └── Fault: delayed, cut off            └── Fault: lost, repeated
//! ```

use std::time::Duration;

use latchwork_verbs::{AtomicOutcome, ComputeNodeId, Message, Target, VerbError, WorkRequest};

/// A step of a batch in flight, for logs; see [`SimFabric::watch`](crate::SimFabric::watch).
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The key of the batch. The key is unique among the batches in flight, and is reused later.
    /// `None` for the second copy of a message, because its batch may be complete.
    pub flight: Option<u32>,
    /// The node that posted the batch.
    pub from: ComputeNodeId,
    /// The target of the batch.
    pub target: Target,
    /// The requests of the batch.
    pub requests: &'a [WorkRequest],
    /// The step.
    pub what: BatchStep<'a>,
}

/// A step of a batch.
#[derive(Clone, Copy, Debug)]
pub enum BatchStep<'a> {
    /// The endpoint submits the batch, or the batch ends because it cannot be sent.
    Posted,
    /// An atomic has taken effect.
    Struck {
        /// The position of the atomic in the batch.
        request: usize,
        /// The word before the atomic.
        old: u64,
        /// The word after the atomic.
        new: u64,
    },
    /// The message of the batch arrives at the inbox.
    Delivered(&'a Message),
    /// The completion of the batch arrives at the poster.
    Completed(&'a Result<AtomicOutcome, VerbError>),
    /// A fault happens to the batch.
    Fault(Strike),
}

/// A fault of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Strike {
    /// The batch takes this much longer.
    Delayed(Duration),
    /// The message of the batch never arrives.
    Lost,
    /// The message of the batch arrives a second time, this much later.
    Duplicated(Duration),
    /// The batch will fail, and is cut off behind this many of its requests.
    CutOff(usize),
}

pub(crate) type Watcher = dyn FnMut(&Sight<'_>);
