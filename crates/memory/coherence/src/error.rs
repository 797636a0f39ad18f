//! Errors of coherent memory.

use std::time::Duration;

use latchwork_verbs::{GlobalAddr, VerbError};
use thiserror::Error;

use crate::mode::AccessMode;

/// Why an access to coherent memory failed.
#[derive(Debug, Clone, Error)]
pub enum MemoryError {
    /// The memory pool has no line left.
    #[error("the memory pool is full: {0}")]
    OutOfMemory(String),
    /// The line could not be obtained in time.
    #[error(
        "line {addr} was not obtained in {mode:?} mode within {waited:?}: its owner does not answer or does not let go"
    )]
    Timeout {
        /// The line.
        addr: GlobalAddr,
        /// The requested mode.
        mode: AccessMode,
        /// The deadline that passed.
        waited: Duration,
    },
    /// The address is not the address of a line, or an atomic is not on an aligned word of the
    /// payload.
    #[error("{addr} is not the address of a line in this pool")]
    BadAddress {
        /// The address.
        addr: GlobalAddr,
    },
    /// The line is free: it was freed before, or never allocated.
    #[error("line {addr} is not allocated")]
    NotAllocated {
        /// The line.
        addr: GlobalAddr,
    },
    /// Transactions of this node hold as many line locks as they may, except for a few that other
    /// workers keep in reserve.
    #[error(
        "line {addr} was not locked: transactions of this node have locked {locked} lines, as many as they may. \
         End some, lock fewer lines in each, or raise the size of the cache or the share of it that may be \
         locked (lock-share)"
    )]
    TooManyLocks {
        /// The line.
        addr: GlobalAddr,
        /// The number of locked lines.
        locked: usize,
    },
    /// A worker or a node could not leave in time. Verbs are in flight, lines stay at the node, or
    /// [operations](crate::CoherentMemory::Operation) of the worker have not ended.
    #[error("a worker could not leave within {waited:?}: {in_flight} of its batches are in flight")]
    Stuck {
        /// The number of batches in flight when a worker leaves, or the number of lines that remain
        /// when a node releases its lines.
        in_flight: usize,
        /// The deadline that passed.
        waited: Duration,
    },
    /// A verb was refused, failed or was lost, or this node has fenced itself.
    #[error("the fabric failed: {0}")]
    Fabric(#[from] VerbError),
    /// The memory pool could not be used: its metadata, its epochs or the fabric under them.
    #[error("the memory pool failed: {0}")]
    Pool(String),
}
