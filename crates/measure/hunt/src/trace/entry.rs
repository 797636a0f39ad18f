//! [`Entry`]: one thing that happened, with what a log and a diagram need to know of it.

use std::fmt;

use latchwork_simulation::Time;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId};

/// Somebody who takes part in a world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Party {
    /// A compute node.
    Compute(ComputeNodeId),
    /// A memory node.
    Memory(MemoryNodeId),
}

impl fmt::Display for Party {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Party::Compute(id) => write!(f, "C{}", id.get()),
            Party::Memory(id) => write!(f, "M{}", id.0),
        }
    }
}

/// What kind of thing happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A worker submitted a batch.
    Posted {
        /// Which: batches are numbered as they are submitted.
        batch: u64,
        /// Who posted it.
        from: Party,
        /// Whom it is for.
        to: Party,
    },
    /// An atomic of a batch took effect on a latch word.
    Struck {
        /// The batch.
        batch: u64,
        /// Who posted it.
        from: Party,
        /// Whose memory it is.
        to: Party,
    },
    /// A message came to its inbox.
    Delivered {
        /// The batch that it was in; 0 when it comes once more.
        batch: u64,
        /// Who sent it.
        from: Party,
        /// Who has it now.
        to: Party,
    },
    /// A batch is complete.
    Completed {
        /// The batch.
        batch: u64,
        /// Who posted it.
        from: Party,
        /// Whom it was for.
        to: Party,
        /// Whether it was successful.
        ok: bool,
    },
    /// A fault struck what was under way from here to there.
    Fault {
        /// The batch.
        batch: u64,
        /// Who posted what it struck.
        from: Party,
        /// Whom that was for.
        to: Party,
        /// Whether it will never come, and so is drawn as an arrow that ends nowhere.
        lost: bool,
    },
    /// Something at one node: an operation of the workload, a change of what the node holds, a
    /// fault of the node itself.
    Local {
        /// The node.
        who: Party,
        /// Its worker, counted from 0, when one did it.
        worker: Option<usize>,
    },
    /// Something that belongs to no node.
    World,
}

/// One thing that happened.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// When, in virtual time.
    pub at: Time,
    /// How many events of the world had fired.
    pub event: u64,
    /// What kind of thing.
    pub what: What,
    /// The line that it is about, if it is about one.
    pub line: Option<GlobalAddr>,
    /// What it is, in words.
    pub text: String,
    /// What came of it, in words; empty where there is nothing to say.
    pub result: String,
}

impl Entry {
    /// Who takes part in it.
    pub fn parties(&self) -> impl Iterator<Item = Party> {
        let (first, second) = match self.what {
            What::Posted { from, to, .. }
            | What::Struck { from, to, .. }
            | What::Delivered { from, to, .. }
            | What::Completed { from, to, .. }
            | What::Fault { from, to, .. } => (Some(from), Some(to)),
            What::Local { who, .. } => (Some(who), None),
            What::World => (None, None),
        };
        first.into_iter().chain(second)
    }
}

/// An instant as logs have it: microseconds with three digits behind the point.
pub(crate) fn micros(at: Time) -> String {
    let nanos = at.as_nanos();
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}
