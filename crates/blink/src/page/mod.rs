//! The slotted page: everything a tree stores, in the payload of one line.
//!
//! Nothing here knows of memory protocols, latches or other pages: a page is a view of words
//! ([`Words`]), its tag and nothing else, and none of it is generic.
//!
//! ```text
//! byte 0         32                      slots end      heap                       payload length
//! | header       | slot 0 | slot 1 | ... |     free     | entries and fences, grows down |
//!
//! header word 0   level 8 | unused 8 | count 16 | heap 16 | garbage 16     (low bits first)
//!        word 1   right sibling, null for the last page of a level
//!        word 2   low fence: offset 16, length 16 | high fence: offset 16, length 16
//!        word 3   prefix length 16 | tag 48
//! slot   word 0   head: the first 8 bytes of the key's suffix, big-endian, zero padded
//!        word 1   entry offset 16 | suffix length 16 | value length 16 | unused 16
//! entry           value, then the suffix from its 9th byte on; starts at a multiple of 8
//! ```
//!
//! A page holds keys `low <= key < high`. An empty low fence is minus infinity and an empty high
//! fence plus infinity, since no key is empty. What the two fences have in common, all keys between
//! them have in common too: it is the page's *prefix*, and slots store only the *suffix* behind it.
//! So heads are compared where keys differ, which for integers and for keys like `user0001234` is
//! nearly always enough to leave the heap alone.
//!
//! In an inner page the value of a slot is the address of a child, and slot `i` leads to the keys
//! from its own key up to that of slot `i + 1`. Slot 0 has an empty suffix, below everything; the
//! key that it stands for is the low fence.
//!
//! **Reads are safe on any bytes.** An optimistic reader may look at a page while it is rewritten, or
//! at a line that is no page at all. Loops are bounded by header fields that were checked against
//! the view's length, offsets out of bounds read as zero, nothing panics; the reader's validation
//! throws the result away.

mod build;
mod check;
mod edit;
mod glance;
mod read;
mod snapshot;
mod split;
#[cfg(test)]
mod tests;

pub(crate) use build::{Builder, Image};
pub(crate) use check::check;
pub(crate) use edit::{Dirty, Edit};
pub(crate) use glance::Glance;
pub(crate) use read::{Page, Place, Seek};
pub(crate) use snapshot::Snapshot;
pub(crate) use split::{plan_split, shortest_between, write_halves};

use latchwork_verbs::{GlobalAddr, Words};

/// Bytes of the header.
pub(crate) const HEADER: usize = 32;
/// Bytes of one slot.
pub(crate) const SLOT: usize = 16;
/// Bytes of a child address.
pub(crate) const CHILD: usize = 8;
/// Bytes of a suffix that its slot holds.
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
}

/// Where some bytes lie in the page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Span {
    pub(crate) offset: u16,
    pub(crate) len: u16,
}

/// The decoded header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) level: u8,
    pub(crate) count: u16,
    /// First byte of the heap.
    pub(crate) heap: u16,
    /// Bytes of the heap that nobody uses.
    pub(crate) garbage: u16,
    pub(crate) right: GlobalAddr,
    pub(crate) low: Span,
    pub(crate) high: Span,
    pub(crate) prefix: u16,
    pub(crate) tag: Tag,
}

impl Header {
    #[inline]
    pub(crate) fn load(words: Words<'_>) -> Header {
        let (a, b, c) = (words.word(0), words.word(2), words.word(3));
        Header {
            level: a as u8,
            count: (a >> 16) as u16,
            heap: (a >> 32) as u16,
            garbage: (a >> 48) as u16,
            right: GlobalAddr::from_bits(words.word(1)),
            low: Span { offset: b as u16, len: (b >> 16) as u16 },
            high: Span { offset: (b >> 32) as u16, len: (b >> 48) as u16 },
            prefix: c as u16,
            tag: Tag(c >> 16),
        }
    }

    /// Stores word 0: all that inserts and removes change.
    pub(crate) fn store_counts(&self, words: Words<'_>) {
        let value = u64::from(self.level)
            | u64::from(self.count) << 16
            | u64::from(self.heap) << 32
            | u64::from(self.garbage) << 48;
        words.set_word(0, value);
    }

    pub(crate) fn store(&self, words: Words<'_>) {
        self.store_counts(words);
        words.set_word(1, self.right.bits());
        let fences = u64::from(self.low.offset)
            | u64::from(self.low.len) << 16
            | u64::from(self.high.offset) << 32
            | u64::from(self.high.len) << 48;
        words.set_word(2, fences);
        words.set_word(3, u64::from(self.prefix) | self.tag.0 << 16);
    }

    /// Checks everything that later code relies on to stay inside the page.
    #[inline]
    pub(crate) fn verify(&self, len: usize, tag: Tag) -> Result<(), Broken> {
        if self.tag != tag {
            return Err(Broken("not a page of this tree"));
        }
        let inside = |span: Span| {
            span.len == 0
                || span.offset >= self.heap
                    && usize::from(span.offset) + usize::from(span.len) <= len
        };
        if self.level > LEVEL_MAX
            || self.slots_end() > self.heap()
            || self.heap() > len
            || usize::from(self.garbage) > len - self.heap()
            || !inside(self.low)
            || !inside(self.high)
            || self.prefix > self.low.len.min(self.high.len)
        {
            return Err(Broken("the header contradicts itself"));
        }
        if self.level > 0 && self.count == 0 {
            return Err(Broken("an inner page without children"));
        }
        Ok(())
    }

    pub(crate) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    pub(crate) fn heap(&self) -> usize {
        usize::from(self.heap)
    }

    pub(crate) fn prefix(&self) -> usize {
        usize::from(self.prefix)
    }

    pub(crate) fn slots_end(&self) -> usize {
        HEADER + SLOT * self.count()
    }

    /// Free bytes between the slots and the heap.
    pub(crate) fn gap(&self) -> usize {
        self.heap().saturating_sub(self.slots_end())
    }

    /// Free bytes, counting those that compaction would win.
    pub(crate) fn free(&self) -> usize {
        self.gap() + usize::from(self.garbage)
    }
}

/// The second word of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) offset: u16,
    /// Length of the suffix, head included.
    pub(crate) suffix: u16,
    pub(crate) value: u16,
}

impl Entry {
    pub(crate) fn from_bits(bits: u64) -> Entry {
        Entry { offset: bits as u16, suffix: (bits >> 16) as u16, value: (bits >> 32) as u16 }
    }

    pub(crate) fn bits(self) -> u64 {
        u64::from(self.offset) | u64::from(self.suffix) << 16 | u64::from(self.value) << 32
    }

    pub(crate) fn offset(self) -> usize {
        usize::from(self.offset)
    }

    pub(crate) fn suffix_len(self) -> usize {
        usize::from(self.suffix)
    }

    pub(crate) fn value_len(self) -> usize {
        usize::from(self.value)
    }

    /// Where the suffix continues behind its head, and for how long.
    pub(crate) fn rest(self) -> (usize, usize) {
        (self.offset() + self.value_len(), self.suffix_len().saturating_sub(HEAD))
    }

    /// Bytes in the heap.
    pub(crate) fn size(self) -> usize {
        entry_size(self.suffix_len(), self.value_len())
    }
}
