//! The description of a node, and its entries, as values.

use latchwork_verbs::GlobalAddr;
use smallvec::SmallVec;

/// The description of a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// 0 for a leaf.
    pub(crate) level: u8,
    /// The entries of a sorted node. Leaves with entries in slots do not count them.
    pub(crate) count: u16,
    /// The tag of the node's tree.
    pub(crate) tag: u32,
    /// The next node of the level, or null.
    pub(crate) right: GlobalAddr,
    /// Rewritings of the node, in 15 bits.
    pub(crate) version: u16,
    pub(crate) is_last: bool,
}

/// Flag of a head: the node has no high fence.
pub(super) const LAST: u8 = 1;

/// A key, with its value or child behind it.
pub(crate) type Entry = SmallVec<[u8; 32]>;

/// The entry of `key` with the value or child `rest`.
pub(crate) fn entry(key: &[u8], rest: &[u8]) -> Entry {
    let mut entry = Entry::from_slice(key);
    entry.extend_from_slice(rest);
    entry
}

/// The checksum of a node's words.
pub(super) fn checksum(words: &[u64]) -> u64 {
    let mut hasher = crc32fast::Hasher::new();
    let mut bytes = [0; 512];
    for words in words.chunks(bytes.len() / 8) {
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        hasher.update(&bytes[..words.len() * 8]);
    }
    // Never 0: a node of zero bytes is no node.
    u64::from(hasher.finalize()) | 1 << 32
}
