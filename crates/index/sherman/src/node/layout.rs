//! [`Layout`]: the places of a node's parts.

use super::cell::{Cell, Check};
use crate::ShermanError;

/// Bytes of a node's description before its fences: level, flags, count, tag, right sibling.
pub(crate) const FIXED: usize = 16;

/// The places of the parts of a tree's nodes.
///
/// ```text
///  Words      | head | entry | entry | ..
///  Published  | head | entry | entry | .. | RNV |          the head begins with FNV
///  Checksum   | checksum | head | entry | entry | ..
/// ```
///
/// All lengths are words, except those of keys and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) check: Check,
    pub(crate) key_len: usize,
    pub(crate) value_len: usize,
    /// The words of a node.
    pub(crate) words: usize,
    pub(crate) head: Cell,
    pub(crate) leaf: Cell,
    pub(crate) inner: Cell,
}

impl Layout {
    /// The layout of nodes of `bytes` bytes.
    ///
    /// # Errors
    /// [`ShermanError::KeyLength`] or [`ShermanError::ValueLength`] when a node has no room for
    /// four entries, or a value would take more than a quarter of a node.
    pub(crate) fn new(
        check: Check,
        bytes: usize,
        key_len: usize,
        value_len: usize,
    ) -> Result<Layout, ShermanError> {
        let layout = Layout {
            check,
            key_len,
            value_len,
            words: bytes / 8,
            head: Cell::new(check, FIXED + 2 * key_len),
            leaf: Cell::new(check, key_len + value_len),
            inner: Cell::new(check, key_len + 8),
        };
        let max = bytes.next_power_of_two() / 4;
        if value_len > max {
            return Err(ShermanError::ValueLength { len: value_len, max });
        }
        if key_len == 0 || layout.room(1) < 4 {
            return Err(ShermanError::KeyLength { len: key_len, node: bytes });
        }
        if layout.room(0) < 3 {
            return Err(ShermanError::ValueLength { len: value_len, max: layout.value_max() });
        }
        Ok(layout)
    }

    /// The longest value with which three entries fit into a leaf.
    fn value_max(&self) -> usize {
        let fits = |value_len: &usize| {
            Layout { leaf: Cell::new(self.check, self.key_len + value_len), ..*self }.room(0) >= 3
        };
        (0..self.value_len).rev().find(fits).unwrap_or(0)
    }

    /// The word at which the head begins.
    pub(crate) fn head_at(&self) -> usize {
        usize::from(self.check == Check::Checksum)
    }

    /// The cell of an entry on `level`.
    pub(crate) fn entry(&self, level: u8) -> Cell {
        if level == 0 { self.leaf } else { self.inner }
    }

    fn entries_at(&self) -> usize {
        self.head_at() + self.head.words()
    }

    /// The entries for which a node on `level` has room.
    pub(crate) fn room(&self, level: u8) -> usize {
        let rear = usize::from(self.check == Check::Published);
        self.words.saturating_sub(self.entries_at() + rear) / self.entry(level).words()
    }

    /// The words of entry `slot` of a node on `level`.
    pub(crate) fn slot(&self, level: u8, slot: usize) -> std::ops::Range<usize> {
        let words = self.entry(level).words();
        let start = self.entries_at() + slot * words;
        start..start + words
    }

    /// Whether entries of leaves are unsorted and written one by one.
    pub(crate) fn is_slotted(&self, level: u8) -> bool {
        level == 0 && self.check != Check::Checksum
    }
}
