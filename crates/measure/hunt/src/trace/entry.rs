//! [`TraceEntry`]: one event of a trace, for logs and diagrams.

use std::fmt;

use latchwork_simulation::Time;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId};

/// A node in a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TraceParty {
    /// A compute node.
    Compute(ComputeNodeId),
    /// A memory node.
    Memory(MemoryNodeId),
}

impl fmt::Display for TraceParty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceParty::Compute(id) => write!(f, "C{}", id.get()),
            TraceParty::Memory(id) => write!(f, "M{}", id.0),
        }
    }
}

/// The kind of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TraceKind {
    /// A worker submitted a batch.
    Posted {
        /// The batch. Batches are numbered in the order of their submission.
        batch: u64,
        /// The sender.
        from: TraceParty,
        /// The target.
        to: TraceParty,
    },
    /// An atomic of a batch took effect on a latch word.
    Struck {
        /// The batch.
        batch: u64,
        /// The sender.
        from: TraceParty,
        /// The memory node.
        to: TraceParty,
    },
    /// A message arrived in the inbox of its receiver.
    Delivered {
        /// The batch of the message; 0 for a duplicate.
        batch: u64,
        /// The sender.
        from: TraceParty,
        /// The receiver.
        to: TraceParty,
    },
    /// A batch is complete.
    Completed {
        /// The batch.
        batch: u64,
        /// The sender.
        from: TraceParty,
        /// The target.
        to: TraceParty,
        /// Whether it was successful.
        ok: bool,
    },
    /// A fault affected a batch in flight.
    Fault {
        /// The batch.
        batch: u64,
        /// The sender of the batch.
        from: TraceParty,
        /// The target of the batch.
        to: TraceParty,
        /// Whether the batch was lost. Diagrams draw a lost batch as an arrow that ends between the
        /// nodes.
        lost: bool,
    },
    /// An event at one node: an operation of the workload, a change of the ownership of a line, or
    /// a fault of the node.
    Local {
        /// The node.
        who: TraceParty,
        /// The worker, counted from 0, if the event is a worker's.
        worker: Option<usize>,
    },
    /// An event without a node.
    World,
}

/// One event of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceEntry {
    /// The virtual time.
    pub at: Time,
    /// The number of the world's events up to this entry.
    pub event: u64,
    /// The kind of the event, with its nodes.
    pub what: TraceKind,
    /// The line of the event, if it has one.
    pub line: Option<GlobalAddr>,
    /// The description.
    pub text: String,
    /// The result as text; empty if there is none.
    pub result: String,
}

impl TraceEntry {
    /// The nodes of the event.
    pub fn parties(&self) -> impl Iterator<Item = TraceParty> {
        let (first, second) = match self.what {
            TraceKind::Posted { from, to, .. }
            | TraceKind::Struck { from, to, .. }
            | TraceKind::Delivered { from, to, .. }
            | TraceKind::Completed { from, to, .. }
            | TraceKind::Fault { from, to, .. } => (Some(from), Some(to)),
            TraceKind::Local { who, .. } => (Some(who), None),
            TraceKind::World => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// A time as text: microseconds with three decimals.
pub(crate) fn micros(at: Time) -> String {
    let nanos = at.as_nanos();
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}
