//! The page: everything a tree stores, in the payload of one line.
//!
//! Nothing here knows of memory protocols, latches or other pages: a page is a view of words
//! ([`Words`]), its tag and nothing else, and none of it is generic.
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
//! A page holds keys `low <= key < high`. An empty low fence is minus infinity and an empty high
//! fence plus infinity, since no key is empty. What the two fences have in common, all keys between
//! them have in common too: it is the page's *prefix*, and an entry stores only the *suffix* behind
//! it. So heads are compared where keys differ, which for integers and for keys like `user0001234`
//! is nearly always enough to leave the rest of the page alone. The heads stand side by side, eight
//! in a cache line.
//!
//! **Shapes.** Where no suffix is longer than its head and all values have one length, the page is
//! *fixed*: values are cells, and there are no entries in a heap. The suffixes' lengths are either
//! all the same (*constant*, the length is in the shape), or none ends in a zero byte, so that a
//! head tells how long it is (*derived*: separators, which are cut as short as can be). Everything
//! else is *slotted*. Whoever writes a page anew chooses the shape, fixed whenever possible, and
//! how many entries the arrays have room for: in a fixed page as many as go in, in a slotted one so
//! many that the arrays and the heap will be full together if the entries to come are like those
//! that are there. What does not fit the shape, or the arrays although bytes are free, causes a
//! page to be written anew.
//!
//! In an inner page the value of a slot is the address of a child, and slot `i` leads to the keys
//! from its own key up to that of slot `i + 1`. Slot 0 has an empty suffix, below everything; the
//! key that it stands for is the low fence.
//!
//! **Reads are safe on any bytes.** An optimistic reader may look at a page while it is rewritten,
//! or at a line that is no page at all. Loops are bounded by the view's length, offsets out of
//! bounds read as zero, nothing panics; the reader's validation throws the result away.

mod build;
mod check;
mod edit;
mod glance;
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
pub(crate) use glance::Glance;
pub(crate) use header::{Entry, HEADER, Header, Shape, Span};
pub(crate) use read::{Page, Place, Seek};
pub(crate) use snapshot::Snapshot;
pub(crate) use split::{plan_split, shortest_between, write_halves};
pub(crate) use tally::Tally;

use latchwork_verbs::GlobalAddr;

/// Bytes of a head and the cell of a slotted page.
pub(crate) const SLOT: usize = 16;
/// The longest values of a fixed page. What it saves is 8 bytes an entry, and what it costs is that
/// an insert moves values: with these it still saves 5 %.
pub(crate) const FIXED_VALUE_MAX: usize = 128;
/// Bytes of a child address.
pub(crate) const CHILD: usize = 8;
/// Bytes of a suffix that its head holds.
pub(crate) const HEAD: usize = 8;
/// Levels are numbered from 0 (leaves); more than this is not a page.
pub(crate) const LEVEL_MAX: u8 = 63;

/// What is wrong with a page; becomes [`TreeError::Corrupt`](crate::TreeError::Corrupt) if the read
/// of the page validates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken(pub(crate) &'static str);

/// Rounds up to whole words.
pub(crate) const fn align(bytes: usize) -> usize {
    bytes.next_multiple_of(8)
}

/// Bytes that an entry takes in the heap.
pub(crate) const fn entry_size(suffix: usize, value: usize) -> usize {
    align(value + suffix.saturating_sub(HEAD))
}

/// The first 8 bytes of `suffix` as a number that orders like they do.
#[inline]
pub(crate) fn head_of(suffix: &[u8]) -> u64 {
    if let Some(bytes) = suffix.first_chunk() {
        return u64::from_be_bytes(*bytes);
    }
    // Two loads that overlap, or one, instead of a copy of unknown length.
    let end = 64 - 8 * suffix.len();
    if let (Some(first), Some(last)) = (suffix.first_chunk(), suffix.last_chunk()) {
        u64::from(u32::from_be_bytes(*first)) << 32 | u64::from(u32::from_be_bytes(*last)) << end
    } else if let (Some(first), Some(last)) = (suffix.first_chunk(), suffix.last_chunk()) {
        u64::from(u16::from_be_bytes(*first)) << 48 | u64::from(u16::from_be_bytes(*last)) << end
    } else {
        suffix.first().map_or(0, |&byte| u64::from(byte) << 56)
    }
}

/// The head of what stands behind the first `prefix` bytes of `key`.
#[inline]
pub(crate) fn head_behind(key: &[u8], prefix: usize) -> u64 {
    let head = |at: usize, bytes: u64| bytes.checked_shl(8 * (prefix - at) as u32).unwrap_or(0);
    match key.len().checked_sub(HEAD) {
        // The last 8 bytes of the key, if there are no 8 behind the prefix: what is too much falls
        // out.
        Some(last) => {
            let at = prefix.min(last);
            key.get(at..)
                .and_then(<[u8]>::first_chunk)
                .map_or(0, |&bytes| head(at, u64::from_be_bytes(bytes)))
        }
        None => head(0, head_of(key)),
    }
}

/// How many bytes `a` and `b` have in common at their start.
pub(crate) fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The mark that all pages of the tree with this root carry, so that a foreign line is noticed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Tag(u64);

impl Tag {
    const BITS: u32 = 48;

    pub(crate) fn of(root: GlobalAddr) -> Tag {
        // Multiplicative hashing keeps zeroed memory from being a page, and spreads the address
        // over the 48 bits that the header has room for.
        Tag((root.bits() ^ 0xb11f).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - Self::BITS))
    }

    /// That of a tree with stamps, whose pages stand elsewhere in their lines.
    pub(crate) fn stamped(self) -> Tag {
        Tag(!self.0 & (u64::MAX >> (64 - Self::BITS)))
    }
}
