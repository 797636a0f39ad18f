//! The layout of chunk space 0 of every memory node.
//!
//! ```text
//!  offset
//!  0        superblock      8 words, see `pool`
//!  256      cluster epoch   1 word           node 0 only
//!  512      epoch slots     64 words         node 0 only, one per compute node
//!  1024     record counter  1 word           node 0 only
//!  2048     directory       256 words        node 0 only, one per name
//!  4096     records         384 of 64 bytes  node 0 only
//!  32768    owners          1 word per chunk, up to the end of the chunk space
//! ```
//!
//! The whole chunk space is zero before the memory node is formatted.

use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId, WORD};

/// The memory node with the pool's epochs and catalogue.
pub(crate) const FIRST: MemoryNodeId = MemoryNodeId(0);

/// The word with the cluster's epoch.
pub(crate) const EPOCH: GlobalAddr = GlobalAddr::new(FIRST, 256);

/// The word that counts the catalogue records that were taken.
pub(crate) const RECORD_COUNTER: GlobalAddr = GlobalAddr::new(FIRST, 1024);

/// The number of names for which the catalogue has room.
pub(crate) const NAMES: usize = 256;

/// The number of catalogue records. It is above the number of names, because registrations that
/// lose a race take records too.
pub(crate) const RECORDS: u64 = 384;

/// Words in a catalogue record.
pub(crate) const RECORD_WORDS: usize = 8;

/// The maximum length of a name in bytes.
pub(crate) const NAME_MAX: usize = (RECORD_WORDS - 2) * WORD;

const SLOTS: u64 = 512;
const DIRECTORY: u64 = 2048;
const RECORD_TABLE: u64 = 4096;
const OWNERS: u64 = 32 << 10;

const _: () = assert!(DIRECTORY + (NAMES * WORD) as u64 <= RECORD_TABLE);
const _: () = assert!(RECORD_TABLE + RECORDS * (RECORD_WORDS * WORD) as u64 <= OWNERS);
const _: () = assert!(
    SLOTS + ComputeNodeId::MAX as u64 * WORD as u64 <= RECORD_COUNTER.offset(),
    "each node has a slot"
);
const _: () = assert!(
    EPOCH.offset() + WORD as u64 <= SLOTS && EPOCH.offset() >= 64,
    "the epoch is behind the superblock"
);
const _: () = assert!(RECORD_COUNTER.offset() + WORD as u64 <= DIRECTORY);
const _: () = assert!(
    EPOCH.offset().is_multiple_of(64)
        && SLOTS.is_multiple_of(64)
        && RECORD_COUNTER.offset().is_multiple_of(64),
    "hot words share no cache line"
);

pub(crate) fn superblock(node: MemoryNodeId) -> GlobalAddr {
    GlobalAddr::new(node, 0)
}

/// The epoch slot with this index (compute node id minus one).
pub(crate) fn epoch_slot(index: usize) -> GlobalAddr {
    strict_assert!(index < ComputeNodeId::MAX as usize, "no compute node has slot {index}");
    GlobalAddr::new(FIRST, SLOTS + (index * WORD) as u64)
}

/// The directory word with this index.
pub(crate) fn directory(index: usize) -> GlobalAddr {
    debug_assert!(index < NAMES);
    GlobalAddr::new(FIRST, DIRECTORY + (index * WORD) as u64)
}

/// The catalogue record with this index.
pub(crate) fn record(index: u64) -> GlobalAddr {
    debug_assert!(index < RECORDS);
    GlobalAddr::new(FIRST, RECORD_TABLE + index * (RECORD_WORDS * WORD) as u64)
}

/// The value in the catalogue record with this index.
pub(crate) fn record_value(index: u64) -> GlobalAddr {
    let record = record(index);
    GlobalAddr::new(record.node(), record.offset() + WORD as u64)
}

/// The word that names the owner of chunk `index` of `node`.
pub(crate) fn owner(node: MemoryNodeId, index: u32) -> GlobalAddr {
    GlobalAddr::new(node, OWNERS + u64::from(index) * WORD as u64)
}

/// The number of owner words that fit.
pub(crate) fn owners_max(chunk_size: u64) -> u64 {
    (chunk_size - OWNERS) / WORD as u64
}
