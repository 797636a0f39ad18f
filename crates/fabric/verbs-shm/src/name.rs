//! [`ShmNodeName`]: the name of a memory node or compute node; [`ProcessEnd`]: the result of
//! stopping a process.

use std::fmt;

use latchwork_verbs::{ComputeNodeId, MemoryNodeId};

/// A memory node or a compute node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ShmNodeName {
    /// A memory node.
    Memory(MemoryNodeId),
    /// A compute node.
    Compute(ComputeNodeId),
}

impl fmt::Display for ShmNodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ShmNodeName::Memory(id) => write!(f, "memory node {}", id.0),
            ShmNodeName::Compute(id) => write!(f, "compute node {}", id.get()),
        }
    }
}

/// The result of stopping a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProcessEnd {
    /// The process had already ended.
    WasGone,
    /// The process was killed, or ended by itself just before the kill, and has ended.
    Killed,
}
