//! The page: all data of a tree, in the payloads of lines.
//!
//! The code here knows no memory protocol, no latch and no other page. A page is a view of words
//! ([`Words`]) and a tag. No type here is generic.
//!
//! ```text
//! byte 0       40              cap heads            cap cells           heap        payload length
//! | header     | head 0 | 1 | ·· : free | cell 0 | 1 | ·· : free | free | entries | high | low |
//!
//! header word 0   level 8 | shape 8 | count 16 | heap 16 | garbage 16     (low bits first)
//!        word 1   prefix length 16 | tag 48
//!        word 2   head of the high fence: its first 8 bytes, big-endian, zero padded
//!        word 3   low fence's length 16 | high fence's length 16 | cap 16 | width 16
//!        word 4   right sibling, null for the last page of a level
//! head            the first 8 bytes of the key's suffix, big-endian, zero padded
//! cell, slotted   entry offset 16 | suffix length 16 | value length 16 | unused 16      (width 8)
//!       fixed     a value of `width` bytes, padded to a multiple of 8
//! entry           value, then the suffix from its 9th byte on; starts at a multiple of 8
//! high, low       the fences, each padded to a multiple of 8
//! ```
//!
//! A page holds keys `low <= key < high`. No key is empty. So an empty low fence means minus
//! infinity, and an empty high fence means plus infinity.
//!
//! The common prefix of both fence keys is also a prefix of all keys between them. This prefix is
//! the *prefix* of the page. An entry stores only the *suffix* of its key, the part behind the
//! prefix. The *head* is the first 8 bytes of the suffix. So heads begin where the keys of a page
//! differ. For integers and for keys like `user0001234`, a search therefore almost never reads
//! beyond the heads. The heads are adjacent, eight in one line of the CPU cache.
//!
//! **Shapes.** The writer of a new page chooses its shape: fixed if the entries allow that and the
//! values are short ([`FIXED_VALUE_MAX`]).
//!
//! - A *fixed* page has values of one length, and no suffix is longer than its head. Its cells are
//!   values, and it has no heap. If all suffixes have one length, the page is *constant*, and its
//!   shape contains the length. If no suffix ends in a zero byte, the page is *derived*, and a head
//!   implies the length of its suffix. Separators are derived, because they are cut as short as
//!   possible.
//! - Every other page is *slotted*.
//!
//! The writer also chooses the capacity of the arrays of heads and cells. A fixed page gets as many
//! cells as have room. A slotted page gets so many that the arrays and the heap become full
//! together, if later entries are like the present entries. If a new entry does not fit the shape,
//! or the arrays are full although bytes are free, the page is rebuilt.
//!
//! **Marks.** The two low bits of a tag can be inverted: see [`Tag`]. Bit 0 of word 4 says that an
//! inner page has *lost* a child: then a late post must look whether its page is still there.
//!
//! In an inner page the value of a slot is the address of a child. Slot `i` leads to the keys from
//! its own key up to the key of slot `i + 1`. Slot 0 has an empty suffix, which is below all other
//! suffixes. Slot 0 stands for the low fence.
//!
//! **Reads are safe on any bytes.** An optimistic reader may read a page during a change, or a line
//! that is not a page. Loops are bounded by the length of the view, offsets out of bounds read as
//! zero, and nothing panics. The validation of the read discards a result that comes from such
//! bytes.

use latchwork_strict::strict_assert;

mod build;
mod check;
mod edit;
mod fast_check;
mod header;
mod read;
mod snapshot;
mod split;
mod tally;
#[cfg(test)]
mod tests;

pub(crate) use build::{Builder, Image};
pub(crate) use check::check;
pub(crate) use edit::{Dirty, Edit};
pub(crate) use fast_check::Glance;
pub(crate) use header::{Entry, HEADER, Header, Shape, Span};
pub(crate) use read::{Page, Place, Seek};
pub(crate) use snapshot::Snapshot;
pub(crate) use split::{plan_split, shortest_between, write_halves, write_joined};
pub(crate) use tally::Tally;

use latchwork_verbs::{GlobalAddr, Words};

/// The bytes of a head and the cell of a slotted page.
pub(crate) const SLOT: usize = 16;
/// The maximum length of the values of a fixed page, in bytes. A fixed page saves 8 bytes per
/// entry, but an insert moves the values behind it. With values of this length the saving is still
/// 5 %.
pub(crate) const FIXED_VALUE_MAX: usize = 128;
/// The bytes of a child address.
pub(crate) const CHILD: usize = 8;
/// The bytes of a suffix that its head holds.
pub(crate) const HEAD: usize = 8;
/// The highest level of a valid page. Level 0 holds the leaves.
pub(crate) const LEVEL_MAX: u8 = 63;
const _: () = assert!(SLOT == HEAD + 8 && CHILD == 8, "a slot is a head and a cell");
const _: () = assert!(
    FIXED_VALUE_MAX >= CHILD && FIXED_VALUE_MAX.is_multiple_of(8),
    "an inner page can be fixed"
);
const _: () = assert!(LEVEL_MAX < u8::MAX, "a level above all fits into a byte");

/// The damage of a page, as a text. It becomes [`TreeError::Corrupt`](crate::TreeError::Corrupt) if
/// the read of the page validates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken(pub(crate) &'static str);

impl Broken {
    pub(crate) const FOREIGN: Broken = Broken("not a page of this tree");
    pub(crate) const OUT: Broken = Broken("a page that has left the tree");

    /// Whether the line is no page of the tree now. It may have been one.
    pub(crate) fn is_no_page(self) -> bool {
        self == Broken::FOREIGN || self == Broken::OUT
    }
}

/// Rounds up to whole words.
pub(crate) const fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

/// The bytes of an entry in the heap.
pub(crate) const fn entry_size(suffix: usize, value: usize) -> usize {
    align(value + suffix.saturating_sub(HEAD))
}

/// The first 8 bytes of `suffix` as a number with the same order.
#[inline]
pub(crate) fn head_of(suffix: &[u8]) -> u64 {
    if let Some(bytes) = suffix.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    // One load, or two loads that overlap, instead of a copy of unknown length.
    let end = 64 - 8 * suffix.len();
    strict_assert!(suffix.len() < HEAD, "a long suffix has a whole head");
    if let (Some(first), Some(last)) = (suffix.first_chunk(), suffix.last_chunk()) {
        u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << end
    } else if let (Some(first), Some(last)) = (suffix.first_chunk(), suffix.last_chunk()) {
        u64::from(u16::from_be_bytes(*first)) << 48 | u64::from(u16::from_be_bytes(*last)) << end
    } else {
        suffix.first().map_or(0, |&byte| u64::from(byte) << 56)
    }
}

/// The head of the part of `key` behind its first `prefix` bytes.
#[inline]
pub(crate) fn head_behind(key: &[u8], prefix: usize) -> u64 {
    let head = |at: usize, bytes: u64| bytes.checked_shl(8 * (prefix - at) as u32).unwrap_or(0);
    match key.len().checked_sub(HEAD) {
        // Fewer than 8 bytes are behind the prefix: load the last 8 bytes of the key. The shift
        // then removes the bytes of the prefix.
        Some(last) => {
            let at = prefix.min(last);
            key.get(at..)
                .and_then(<[u8]>::first_chunk)
                .map_or(0, |&bytes| head(at, u64::from_be_bytes(bytes)))
        }
        None => head(0, head_of(key)),
    }
}

/// The length of the common prefix of `a` and `b`.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The tag in all pages of the tree with this root. By the tag, a reader detects a line that is not
/// a page of this tree.
///
/// A page has one of three marks, as inverted bits of its tag:
///
/// - none: the page is the first one in its line;
/// - *later*: the line had another life before, perhaps as a page of this tree. An address from
///   that life may still be in use, so every reader of the page checks both fence keys;
/// - *out*: the page has left the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(u64);

impl Tag {
    const BITS: u32 = 48;
    const LATER: u64 = 1;
    const OUT: u64 = 2;

    /// The tag of a page in a line that was used before.
    pub(crate) fn later(self) -> Tag {
        Tag(self.0 ^ Tag::LATER)
    }

    /// The tag of a page that has left the tree.
    pub(crate) fn out(self) -> Tag {
        Tag(self.0 ^ Tag::OUT)
    }

    /// Whether a page with the tag `other` is in the tree of this tag, with or without the mark
    /// *later*.
    #[inline]
    fn is_of(self, other: Tag) -> bool {
        (self.0 ^ other.0) & !Tag::LATER == 0
    }

    /// Replaces the tag of a page.
    pub(crate) fn store(self, page: Words<'_>) {
        page.set_word(1, page.word(1) & u64::from(u16::MAX) | self.0 << 16);
    }

    pub(crate) fn of(root: GlobalAddr) -> Tag {
        // A multiplicative hash spreads the address over the 48 bits of the tag. A tag is
        // practically never zero, so zeroed memory is not a page.
        Tag((root.bits() ^ 0xb11f).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::BITS))
    }

    /// The tag of a tree with leaf stamps. Its pages start elsewhere in their lines.
    pub(crate) fn stamped(self) -> Tag {
        Tag(!self.0 & (u64::MAX >> (64 - Self::BITS)))
    }
}
