//! What can be wrong with a batch, and with building a fabric.

use thiserror::Error;

use crate::address::{ComputeNodeId, MemoryNodeId, RegionKey, Target};
use crate::region::RegionError;
use crate::request::{BATCH_ATOMICS_MAX, BATCH_MAX};

/// Why a batch was refused when it was posted, or failed later.
///
/// Everything but [`VerbError::Disconnected`], [`VerbError::Unreachable`], [`VerbError::Ambiguous`]
/// and [`VerbError::Barred`] is found when the batch is posted, and nothing of a batch that was
/// refused then has taken effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum VerbError {
    /// A request reaches beyond the target's memory.
    #[error("bytes {offset}+{len} are beyond the {size} bytes of {target:?}")]
    OutOfBounds {
        /// The target.
        target: Target,
        /// First byte of the request there.
        offset: u64,
        /// Length in bytes.
        len: u64,
        /// Bytes that the target has.
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
    /// There is no such node, or no such region on it.
    #[error("no such target: {target:?}")]
    UnknownTarget {
        /// The target.
        target: Target,
    },
    /// The posting node registered no such region.
    #[error("local region {} is not registered", region.0)]
    UnknownRegion {
        /// The local region.
        region: RegionKey,
    },
    /// A batch has no request, or too many.
    #[error("a batch of {len} requests: 1 to {BATCH_MAX} are possible")]
    BatchLength {
        /// How many it has.
        len: usize,
    },
    /// A batch has too many atomics.
    #[error("a batch with {count} atomics: at most {BATCH_ATOMICS_MAX} are possible")]
    TooManyAtomics {
        /// How many it has.
        count: usize,
    },
    /// A message for a memory node; those run no code that could receive it.
    #[error("a message cannot be sent to {target:?}")]
    SendToMemory {
        /// The target.
        target: Target,
    },
    /// The connection failed under the batch. Its requests took effect up to some point, perhaps
    /// all or none of them, and those behind that point never will. The connection stands again.
    #[error("the connection to {target:?} failed: whether the batch took effect is unknown")]
    Ambiguous {
        /// The target.
        target: Target,
    },
    /// The target is gone. The batch may have taken effect in part, or as a whole.
    #[error("{target:?} is disconnected")]
    Disconnected {
        /// The target.
        target: Target,
    },
    /// The target is gone, or cannot be reached for now, and nothing of the batch has left the
    /// posting node. A fabric that cannot tell says [`VerbError::Disconnected`].
    #[error("{target:?} cannot be reached")]
    Unreachable {
        /// The target.
        target: Target,
    },
    /// The posting node's own lease has ended, or may have. What was rung before may have taken
    /// effect in part, or as a whole; nothing is rung any more.
    #[error(
        "this node's lease has ended, so that it touches memory no more and the cluster goes on without it: \
         start it again"
    )]
    Barred,
}

impl VerbError {
    /// Whether it is certain that nothing of the batch has got to its target, because there is no
    /// such target or none that can be reached.
    pub fn is_unsent(self) -> bool {
        matches!(self, VerbError::Unreachable { .. } | VerbError::UnknownTarget { .. })
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
    /// All 65536 region keys of the node are taken.
    #[error("compute node {} has as many regions as there are keys", .0.get())]
    TooManyRegions(ComputeNodeId),
    /// The memory could not be had.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// There is less room for memory than is asked for; only where memory is in files.
    #[error(
        "room for {free} bytes, and {bytes} are needed: enlarge the directory, or ask for less"
    )]
    NoRoom {
        /// Bytes that were asked for.
        bytes: u64,
        /// Bytes that there are.
        free: u64,
    },
    /// The node's agent found no address to listen at; only where nodes have agents.
    #[error("the node's agent cannot listen: {0}")]
    Listen(std::io::ErrorKind),
    /// The operating system or the NIC refused.
    #[error("{call}: {}{}", std::io::Error::from_raw_os_error(*errno), hint(*errno))]
    System {
        /// What was called.
        call: &'static str,
        /// The error's number.
        errno: i32,
    },
}

/// What to do about an error of the operating system that a fabric meets now and then.
fn hint(errno: i32) -> &'static str {
    #[cfg(target_os = "linux")]
    if errno == libc::ENOMEM {
        return " (registered memory is locked: see `ulimit -l`)";
    }
    let _ = errno;
    ""
}
