//! Errors of a tree.

use std::time::Duration;

use latchwork_memnode::PoolError;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, SetupError, VerbError};
use thiserror::Error;

/// The reason why an operation on a tree failed.
#[derive(Debug, Error)]
pub enum ShermanError {
    /// The key has another length than the tree's keys.
    #[error("a key of {len} bytes: the keys of this tree have {expected}")]
    Key {
        /// Its length in bytes.
        len: usize,
        /// The length of the tree's keys.
        expected: usize,
    },
    /// The value has another length than the tree's values.
    #[error("a value of {len} bytes: the values of this tree have {expected}")]
    Value {
        /// Its length in bytes.
        len: usize,
        /// The length of the tree's values.
        expected: usize,
    },
    /// A tree cannot have keys of this length.
    #[error(
        "keys of {len} bytes do not fit into nodes of {node} bytes: shorten them, or enlarge the nodes"
    )]
    KeyLength {
        /// The length in bytes.
        len: usize,
        /// The bytes of a node.
        node: usize,
    },
    /// A tree cannot have values of this length.
    #[error("values of {len} bytes are too long: with this node size at most {max} bytes fit")]
    ValueLength {
        /// The length in bytes.
        len: usize,
        /// The longest possible value, in bytes.
        max: usize,
    },
    /// The tree was made with another setting than the one that it is opened with.
    #[error("the tree has {what} {found}, and is opened with {wanted}")]
    Mismatch {
        /// The setting.
        what: &'static str,
        /// The tree's.
        found: u64,
        /// The opener's.
        wanted: u64,
    },
    /// Bytes of a change are outside the value.
    #[error("bytes {offset} to {} are not all inside a value of {value_len} bytes", .offset + .len)]
    OutsideValue {
        /// The first byte of the change.
        offset: usize,
        /// The length of the change in bytes.
        len: usize,
        /// The length of the value in bytes.
        value_len: usize,
    },
    /// The key to insert exists already.
    #[error("the key exists already")]
    Exists,
    /// The key does not exist.
    #[error("no such key")]
    NotFound,
    /// Bulk loading needs an empty tree.
    #[error("the tree is not empty: bulk loading fills a new tree only")]
    NotEmpty,
    /// Bulk loading needs keys in strictly ascending order.
    #[error("key number {index} of the bulk load is not above the one before it")]
    Unsorted {
        /// The position of the key in the input, from 0.
        index: u64,
    },
    /// The fill factor is not between 0.1 and 1.
    #[error("a fill factor of {0} is not between 0.1 and 1")]
    FillFactor(f64),
    /// The locks are to be on chip, and the memory nodes have no on-chip memory.
    #[error("memory node {node} has no on-chip memory for locks: keep them in host memory")]
    NoChip {
        /// The memory node.
        node: u16,
    },
    /// A lock stayed taken until the deadline: its holder died or is slow, or others took it each
    /// time. All nodes of the tree with this lock wait for it.
    #[error("lock {lock} stayed taken for {waited:?}, at last by compute node {}", .holder.map_or(0, ComputeNodeId::get))]
    Locked {
        /// The lock word.
        lock: GlobalAddr,
        /// The compute node that has it.
        holder: Option<ComputeNodeId>,
        /// The time waited.
        waited: Duration,
    },
    /// A node does not have the content that the tree expects.
    #[error("node {node} is corrupt: {what}")]
    Corrupt {
        /// The node.
        node: GlobalAddr,
        /// Its damage.
        what: &'static str,
    },
    /// The memory pool failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The fabric failed.
    #[error(transparent)]
    Verb(#[from] VerbError),
    /// No buffers could be registered.
    #[error(transparent)]
    Setup(#[from] SetupError),
}
