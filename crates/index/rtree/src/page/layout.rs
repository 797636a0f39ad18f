//! [`Layout`]: the positions of all parts of the pages of one tree.

use latchwork_verbs::{GlobalAddr, WORD};

use crate::{RTreeConfig, RTreeError};

/// The words of the header.
pub(super) const HEADER: usize = 6;
/// The fewest entries of a full page that can be split into two halves with an entry each, of which
/// one can be filled again.
const LEAST: usize = 3;

/// The positions of all parts of the pages of one tree, in words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    /// Detects a line of another user.
    pub(super) tag: u64,
    pub(super) dimensions: usize,
    /// The words of an entry's payload.
    pub(super) payload_words: usize,
    /// The words of a page.
    pub(super) words: usize,
    /// The capacity of a leaf.
    cap_leaf: usize,
    /// The capacity of an inner page.
    cap_inner: usize,
}

impl Layout {
    pub(super) const TAG_BITS: u32 = 40;

    /// The layout of the tree with this root, in lines with `payload` usable bytes.
    pub(crate) fn new(
        root: GlobalAddr,
        payload: usize,
        dimensions: usize,
        config: &RTreeConfig,
    ) -> Result<Layout, RTreeError> {
        let entry = config.payload_len;
        let too_small = || RTreeError::LineTooSmall { payload, dimensions, entry };
        let words = payload / WORD;
        let payload_words = entry.div_ceil(WORD);
        if dimensions == 0 || dimensions > usize::from(u8::MAX) || payload_words > words {
            return Err(too_small());
        }
        let room = words.saturating_sub(HEADER + 2 * dimensions);
        let cap = |per_entry: usize| (room / per_entry).min(usize::from(u16::MAX));
        let (cap_leaf, cap_inner) =
            (cap(2 * dimensions + 1 + payload_words), cap(2 * dimensions + 2));
        if cap_leaf < LEAST || cap_inner < LEAST {
            return Err(too_small());
        }
        // By multiplicative hashing, zeroed memory is not a page.
        let hash = (root.bits() ^ 0x7233).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let tag = hash >> (64 - Self::TAG_BITS);
        Ok(Layout { tag, dimensions, payload_words, words, cap_leaf, cap_inner })
    }

    /// The entries for which a page of `level` has room.
    #[inline]
    pub(crate) fn cap(&self, level: u8) -> usize {
        if level == 0 { self.cap_leaf } else { self.cap_inner }
    }

    /// The entries with which a page of `level` is full for this handle.
    pub(crate) fn max(&self, level: u8, config: &RTreeConfig) -> usize {
        let max = if level == 0 { config.max_entries_leaf } else { config.max_entries_inner };
        max.map_or(usize::MAX, |max| usize::from(max).max(LEAST)).min(self.cap(level))
    }

    /// The bytes of a page.
    pub(crate) fn bytes(&self) -> usize {
        self.words * WORD
    }

    /// The end of the header and the cover, in bytes.
    #[inline]
    pub(crate) fn cover_end(&self) -> usize {
        self.columns() * WORD
    }

    /// The end of the boxes and the ids of a full page, in bytes. It is about the same on all
    /// levels.
    #[inline]
    pub(crate) fn ids_end(&self) -> usize {
        self.column(0, 2 * self.dimensions + 1) * WORD
    }

    /// The end of the boxes of a full page, in bytes. It is about the same on all levels.
    #[inline]
    pub(crate) fn boxes_end(&self) -> usize {
        self.column(0, 2 * self.dimensions) * WORD
    }

    /// The first word of the columns.
    #[inline]
    pub(super) fn columns(&self) -> usize {
        HEADER + 2 * self.dimensions
    }

    /// The first word of a column.
    #[inline]
    pub(super) fn column(&self, level: u8, column: usize) -> usize {
        self.columns() + column * self.cap(level)
    }

    /// The first word of the payload in `slot` of a leaf.
    #[inline]
    pub(super) fn row(&self, slot: usize) -> usize {
        self.column(0, 2 * self.dimensions + 1) + slot * self.payload_words
    }
}
