//! [`PoolError`].

use std::time::Duration;

use latchwork_verbs::{GlobalAddr, MemoryNodeId, VerbError};
use thiserror::Error;

use crate::Geometry;
use crate::layout::NAME_MAX;

/// Why an operation on the pool failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The line size is not possible.
    #[error(
        "lines of {line_size} bytes are impossible: a power of two from {} to {} is needed, \
         {would_do} would do",
        Geometry::MIN_LINE,
        Geometry::MAX_LINE
    )]
    LineSize {
        /// The requested size, in bytes.
        line_size: u32,
        /// A possible size near it, in bytes.
        would_do: u32,
    },
    /// The chunk size is not possible.
    #[error(
        "chunks of {chunk_size} bytes are impossible: with lines of {line_size} bytes a power of \
         two from {least} to {} is needed, {would_do} would do",
        Geometry::MAX_CHUNK
    )]
    ChunkSize {
        /// The requested size, in bytes.
        chunk_size: u64,
        /// The size of lines, in bytes.
        line_size: u32,
        /// The smallest chunk for such lines, in bytes.
        least: u64,
        /// A possible size near it, in bytes.
        would_do: u64,
    },
    /// The memory nodes of a pool must be numbered 0, 1, 2 and so on.
    #[error("a pool's memory nodes must be numbered from 0 without gaps, and there must be one")]
    MemoryNodes,
    /// A memory node is too small.
    #[error(
        "memory node {} has {bytes} bytes; with chunks of {chunk_size} bytes it needs at least \
         {least}: give it more memory or use smaller chunks",
        node.0
    )]
    MemoryNodeTooSmall {
        /// The memory node.
        node: MemoryNodeId,
        /// Its number of bytes.
        bytes: u64,
        /// The pool's chunk size in bytes.
        chunk_size: u64,
        /// The least that the memory node needs, in bytes.
        least: u64,
    },
    /// A memory node is too large for chunks of this size.
    #[error(
        "memory node {} has {bytes} bytes, of which chunks of {chunk_size} bytes can cover only \
         {most}: use larger chunks or more memory nodes",
        node.0
    )]
    MemoryNodeTooLarge {
        /// The memory node.
        node: MemoryNodeId,
        /// Its number of bytes.
        bytes: u64,
        /// The pool's chunk size in bytes.
        chunk_size: u64,
        /// The most that chunks of this size can cover, in bytes.
        most: u64,
    },
    /// A memory node is in use, or was not zeroed.
    #[error(
        "memory node {} is not empty (its first word is {found:#x}): only zeroed memory can be \
         formatted, and only once",
        node.0
    )]
    AlreadyFormatted {
        /// The memory node.
        node: MemoryNodeId,
        /// Its first word.
        found: u64,
    },
    /// A memory node has no pool yet.
    #[error(
        "memory node {} holds no pool (its first word is {found:#x}): it was not formatted, or is \
         being formatted now",
        node.0
    )]
    NotFormatted {
        /// The memory node.
        node: MemoryNodeId,
        /// Its first word.
        found: u64,
    },
    /// A memory node has a pool format that this program does not understand.
    #[error(
        "memory node {} has pool format {found}, this program understands {understood}: use the \
         same version on all nodes",
        node.0
    )]
    Version {
        /// The memory node.
        node: MemoryNodeId,
        /// Its format version.
        found: u64,
        /// The version that this program understands.
        understood: u64,
    },
    /// A memory node does not fit the pool that memory node 0 describes.
    #[error(
        "memory node {} does not belong to this pool: its {what} is {found}, that of memory node 0 \
         is {expected}",
        node.0
    )]
    Mismatch {
        /// The memory node.
        node: MemoryNodeId,
        /// The field that differs.
        what: &'static str,
        /// The value of the field on the memory node.
        found: u64,
        /// The value on memory node 0, or the value that follows from it.
        expected: u64,
    },
    /// The pool's own data are not valid.
    #[error("the pool's {what} at {addr} is damaged")]
    Corrupt {
        /// The damaged data.
        what: &'static str,
        /// The address of the damaged data.
        addr: GlobalAddr,
    },
    /// A compute node with this id is registered.
    #[error("compute node id {node} is taken: give every compute node an id of its own")]
    NodeIdTaken {
        /// The id.
        node: u8,
    },
    /// The compute node's registration has ended.
    #[error("compute node {node} is not registered with the pool any more")]
    NotRegistered {
        /// The id.
        node: u8,
    },
    /// A worker of the compute node is online, or its epoch slot changed although the node is dead.
    #[error("compute node {node} still has operations in progress")]
    Busy {
        /// The id.
        node: u8,
    },
    /// The node has no line at hand, found no chunk to claim, and no freed line became ready in
    /// time.
    #[error(
        "no line of {line_size} bytes is left: all {chunks} chunks of the pool ({lines} lines, \
         {bytes} bytes on {memory_nodes} memory nodes) are taken, and {resting} freed lines cannot \
         be reused yet; give the memory nodes more memory, or add memory nodes"
    )]
    OutOfMemory {
        /// Bytes in a line.
        line_size: u32,
        /// Chunks in the pool.
        chunks: u64,
        /// Lines in the pool.
        lines: u64,
        /// Bytes in the pool's chunks.
        bytes: u64,
        /// Memory nodes.
        memory_nodes: usize,
        /// Lines that this compute node freed, and that operations in progress may still see.
        resting: usize,
    },
    /// A memory node has no chunk left for the journal slots of the node.
    #[error(
        "memory node {} has no free chunk for the journal of this node's write-backs: give it more \
         memory, or turn the setting `survive` off",
        node.0
    )]
    NoSlots {
        /// The memory node.
        node: MemoryNodeId,
    },
    /// The address is not the address of a line in the pool.
    #[error("{addr} is not the address of a line in this pool")]
    BadAddress {
        /// The address.
        addr: GlobalAddr,
    },
    /// The name cannot be registered.
    #[error("the name {name:?} is impossible: 1 to {NAME_MAX} bytes of UTF-8 are needed")]
    Name {
        /// The name.
        name: String,
    },
    /// The value is reserved and cannot belong to an object.
    #[error("an object cannot be registered with the value {value:#x}, which stands for none")]
    Value {
        /// The value.
        value: u64,
    },
    /// An object with this name is registered.
    #[error("an object named {name:?} exists already")]
    AlreadyExists {
        /// The name.
        name: String,
    },
    /// The catalogue has no room.
    #[error("the catalogue is full: it has room for {room} {what}")]
    CatalogueFull {
        /// The number of entries for which there is room.
        room: u64,
        /// The kind of entry for which there is no room.
        what: &'static str,
    },
    /// No object with this name was registered in time.
    #[error("no object named {name:?} was registered within {waited:?}")]
    NotFound {
        /// The name.
        name: String,
        /// The time of the wait.
        waited: Duration,
    },
    /// A step took too long.
    #[error("{what} took longer than {waited:?}")]
    Timeout {
        /// The step.
        what: &'static str,
        /// The deadline.
        waited: Duration,
    },
    /// The fabric refused or lost a verb.
    #[error("the fabric failed: {0}")]
    Fabric(#[from] VerbError),
}
