//! Errors of a batch, and errors of building a fabric.

use thiserror::Error;

use crate::address::{CHIP_BASE, ComputeNodeId, MemoryNodeId, RegionKey, Target};
use crate::limits::{BATCH_ATOMICS_MAX, BATCH_MAX};
use crate::region::RegionError;

/// Why a batch was refused when it was posted, or failed later.
///
/// [`VerbError::Disconnected`], [`VerbError::Unreachable`], [`VerbError::Ambiguous`] and
/// [`VerbError::SelfFenced`] can come after the post. All other errors are found when the batch is
/// posted. A batch that the post refuses has no effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum VerbError {
    /// A request reaches beyond the target's memory, or beyond its on-chip memory.
    #[error(
        "bytes {}+{len} are beyond the {size} bytes of {}{target:?}",
        offset.checked_sub(CHIP_BASE).unwrap_or(*offset),
        if *offset < CHIP_BASE { "" } else { "on-chip memory of " }
    )]
    OutOfBounds {
        /// The target.
        target: Target,
        /// First byte of the request there.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Bytes that the target has in the addressed range.
        size: u64,
    },
    /// A request reaches beyond the local region.
    #[error("bytes {offset}+{len} are beyond the {size} bytes of local region {}", region.0)]
    LocalOutOfBounds {
        /// The local region.
        region: RegionKey,
        /// First byte of the buffer.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Bytes that the region has.
        size: u64,
    },
    /// An offset or a length is not a multiple of 8.
    #[error("bytes {offset}+{len}: offset and length must be multiples of 8")]
    Misaligned {
        /// The offset, local or remote.
        offset: u64,
        /// The length in bytes.
        len: u64,
    },
    /// The node does not exist, or the node has no such region.
    #[error("no such target: {target:?}")]
    UnknownTarget {
        /// The target.
        target: Target,
    },
    /// The posting node has no such registered region.
    #[error("local region {} is not registered", region.0)]
    UnknownRegion {
        /// The local region.
        region: RegionKey,
    },
    /// A batch has no request, or more than [`BATCH_MAX`].
    #[error("a batch of {len} requests: 1 to {BATCH_MAX} are possible")]
    BatchLength {
        /// The number of requests in the batch.
        len: usize,
    },
    /// A batch has more than [`BATCH_ATOMICS_MAX`] atomics.
    #[error("a batch with {count} atomics: at most {BATCH_ATOMICS_MAX} are possible")]
    TooManyAtomics {
        /// The number of atomics in the batch.
        count: usize,
    },
    /// A message to a memory node. Memory nodes run no code that could receive the message.
    #[error("a message cannot be sent to {target:?}")]
    SendToMemory {
        /// The target.
        target: Target,
    },
    /// The connection failed under the batch, and new batches can be sent. The requests of the
    /// batch took effect wholly, in part or not at all. The requests without an effect so far never
    /// take effect.
    #[error("the connection to {target:?} failed: whether the batch took effect is unknown")]
    Ambiguous {
        /// The target.
        target: Target,
    },
    /// The target was cut off, died or cannot be reached. The batch may have taken effect wholly,
    /// in part or not at all.
    #[error("{target:?} is disconnected")]
    Disconnected {
        /// The target.
        target: Target,
    },
    /// The target was cut off, died or cannot be reached now, and no part of the batch has left the
    /// posting node. A fabric that cannot be certain of this reports [`VerbError::Disconnected`].
    #[error("{target:?} cannot be reached")]
    Unreachable {
        /// The target.
        target: Target,
    },
    /// The posting node has fenced itself, because its lease has ended or may have ended. Batches
    /// that were submitted before may have taken effect wholly, in part or not at all. The node
    /// submits nothing any more.
    #[error(
        "this node's lease has ended, so that it touches memory no more and the cluster goes on without it: \
         start it again"
    )]
    SelfFenced,
}

impl VerbError {
    /// Whether it is certain that no part of the batch has reached its target, because the target
    /// does not exist or cannot be reached.
    pub fn is_unsent(self) -> bool {
        matches!(self, VerbError::Unreachable { .. } | VerbError::UnknownTarget { .. })
    }

    /// Whether the target or the connection to it is the reason, so that other targets may still be
    /// reached.
    pub fn is_of_target(self) -> bool {
        self.is_unsent()
            || matches!(self, VerbError::Ambiguous { .. } | VerbError::Disconnected { .. })
    }
}

/// Why a fabric could not be extended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SetupError {
    /// The compute node was added before.
    #[error("compute node {} exists already", .0.get())]
    DuplicateNode(ComputeNodeId),
    /// The memory node was added before.
    #[error("memory node {} exists already", .0.0)]
    DuplicateMemoryNode(MemoryNodeId),
    /// The compute node was not added.
    #[error("compute node {} does not exist", .0.get())]
    UnknownNode(ComputeNodeId),
    /// There is no such memory node.
    #[error("memory node {} does not exist", .0.0)]
    UnknownMemoryNode(MemoryNodeId),
    /// All 65536 memory node ids are taken.
    #[error("the fabric has as many memory nodes as there are ids")]
    TooManyMemoryNodes,
    /// The node has no free region key, or the fabric cannot publish more regions of the node.
    #[error("compute node {} has as many regions as there are keys", .0.get())]
    TooManyRegions(ComputeNodeId),
    /// The memory could not be allocated.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// Less memory is free than was requested. Only fabrics whose memory is in files report this
    /// error.
    #[error(
        "room for {free} bytes, and {bytes} are needed: enlarge the directory, or ask for less"
    )]
    NoRoom {
        /// The bytes that were requested.
        bytes: u64,
        /// The bytes that are free.
        free: u64,
    },
    /// The node's NIC has less on-chip memory than was requested. Only RDMA devices report this
    /// error.
    #[error("the NIC has no {bytes} bytes of free on-chip memory: ask for less, or for none")]
    NoChip {
        /// The bytes that were requested.
        bytes: u64,
    },
    /// The node's agent found no address to listen on. Only the socket fabric has agents.
    #[error("the node's agent cannot listen: {0}")]
    Listen(std::io::ErrorKind),
    /// The operating system or the NIC refused a call.
    #[error("{call}: {}{}", std::io::Error::from_raw_os_error(*errno), hint(*errno))]
    System {
        /// The call that was refused.
        call: &'static str,
        /// The error number.
        errno: i32,
    },
}

/// Advice for the user about an error of the operating system; empty for most errors.
fn hint(errno: i32) -> &'static str {
    #[cfg(target_os = "linux")]
    if errno == libc::ENOMEM {
        return " (registered memory is locked: see `ulimit -l`)";
    }
    let _ = errno;
    ""
}
