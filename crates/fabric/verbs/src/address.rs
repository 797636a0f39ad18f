//! Node ids, global addresses, local and remote buffers.

use std::fmt;

/// Bytes in one word.
pub const WORD: usize = 8;

/// Bytes at the head of each line that belong to the memory pool. The user's payload begins behind
/// these bytes.
pub const LINE_HEADER: usize = 32;
const _: () = assert!(LINE_HEADER.is_multiple_of(8), "a payload begins at a word");

/// The id of a memory node. A memory node offers registered memory and runs no protocol code.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct MemoryNodeId(pub u16);

/// The id of a compute node, 1 to 58. A latch word has one bit for each compute node (SELCC 4.3.1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ComputeNodeId(u8);

impl ComputeNodeId {
    /// The largest id, and so the largest number of compute nodes in one cluster.
    pub const MAX: u8 = 58;

    /// The node with this id; `None` unless the id is 1 to 58.
    pub const fn new(id: u8) -> Option<Self> {
        if id >= 1 && id <= Self::MAX { Some(ComputeNodeId(id)) } else { None }
    }

    /// The id, 1 to 58.
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The id minus one, for use as an index.
    pub const fn index(self) -> usize {
        self.0 as usize - 1
    }
    const _CHECK: () = assert!((Self::MAX as u32) < u64::BITS, "a node has one bit of a word");
}

impl fmt::Debug for ComputeNodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "C{}", self.0)
    }
}

/// An address in the memory pool: the memory node (16 bits) and the byte offset on that node (48
/// bits).
///
/// At offset 0 of node 0 the pool keeps its superblock, never a line. So the value zero is free for
/// a null address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GlobalAddr(u64);

impl GlobalAddr {
    /// The null address.
    pub const NULL: GlobalAddr = GlobalAddr(0);
    /// The low bits of an address, which are the byte offset.
    const OFFSET_BITS: u32 = 48;
    const _CHECK: () =
        assert!(Self::OFFSET_BITS + u16::BITS == 64, "an address is a node and an offset");

    /// The address of byte `offset` (below 2^48) on `node`.
    ///
    /// # Panics
    /// When the offset is 2^48 or more.
    pub const fn new(node: MemoryNodeId, offset: u64) -> Self {
        assert!(offset < 1 << Self::OFFSET_BITS, "offset needs more than 48 bits");
        GlobalAddr((node.0 as u64) << Self::OFFSET_BITS | offset)
    }

    /// The address whose 64-bit form is `bits`.
    pub const fn from_bits(bits: u64) -> Self {
        GlobalAddr(bits)
    }

    /// The 64-bit form.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The memory node.
    pub const fn node(self) -> MemoryNodeId {
        MemoryNodeId((self.0 >> Self::OFFSET_BITS) as u16)
    }

    /// The byte offset on the memory node.
    pub const fn offset(self) -> u64 {
        self.0 & ((1 << Self::OFFSET_BITS) - 1)
    }

    /// Whether this is [`GlobalAddr::NULL`].
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for GlobalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_null() {
            f.write_str("null")
        } else {
            write!(f, "M{}+{:#x}", self.node().0, self.offset())
        }
    }
}

impl fmt::Display for GlobalAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// The offset on a memory node at which the on-chip memory of its NIC begins, if the NIC has any.
/// Requests address it like the other memory, and a batch may have requests for both.
///
/// A NIC executes the atomics of its own memory without a round trip over PCIe (Sherman 4.3). On a
/// fabric without such NICs this memory is memory like any other.
pub const CHIP_BASE: u64 = 1 << (GlobalAddr::OFFSET_BITS - 1);

/// The key of a region that a compute node registered with its fabric. Keys count from 0 per node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RegionKey(pub u16);

/// A range of memory that the posting node registered: the source or destination of a verb.
///
/// `offset` and `len` are bytes, multiples of 8.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LocalBuffer {
    /// The registered region.
    pub region: RegionKey,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub len: u32,
}

/// The node that a batch is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Target {
    /// A memory node. Its memory starts at offset 0, and the on-chip memory of its NIC at
    /// [`CHIP_BASE`].
    Memory(MemoryNodeId),
    /// A compute node, and the key of a region that the node registered. The verbs of the batch act
    /// on this region; messages go to the node's inbox.
    Compute(ComputeNodeId, u16),
}
