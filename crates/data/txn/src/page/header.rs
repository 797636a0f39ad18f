//! The page header, and the word of a slot.

use latchwork_strict::strict_assert;
use latchwork_verbs::Words;

use super::{Broken, HEADER, SLOT, slots_max};

const MAGIC: u64 = 0x7ea9;
const _: () = assert!(MAGIC != 0 && MAGIC <= 0xffff, "a zeroed line is no heap page");

/// The first two words of a page. The third word is the read timestamp,
/// [`Page::read_stamp`](super::Page::read_stamp).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// The number of slots, those without a tuple included.
    pub(crate) slots: u16,
    /// The offset of the lowest tuple.
    pub(crate) heap: u16,
    /// Bytes above `heap` that belong to no tuple.
    pub(crate) garbage: u16,
    pub(crate) table: u32,
    /// The number of slots without a tuple, which can be reused.
    pub(crate) free_slots: u16,
    pub(crate) tombstones: u16,
}

impl Header {
    /// The header of an empty page of `len` bytes.
    pub(crate) fn empty(len: usize, table: u32) -> Header {
        Header { slots: 0, heap: len as u16, garbage: 0, table, free_slots: 0, tombstones: 0 }
    }

    /// Reads the header of a page of `table`, and checks all of it.
    #[inline]
    pub(crate) fn load(words: Words<'_>, table: u32) -> Result<Header, Broken> {
        let header = Header::glance(words, table)?;
        let heap = usize::from(header.heap);
        if heap > words.len() || !heap.is_multiple_of(8) || header.slots_end() > heap {
            return Err(Broken("slots and tuples overlap"));
        }
        if usize::from(header.slots) > slots_max(words.len())
            || header.free_slots > header.slots
            || header.tombstones > header.slots
            || usize::from(header.garbage) > words.len() - heap
        {
            return Err(Broken("its counts are impossible"));
        }
        Ok(header)
    }

    /// Reads the header of a page of `table`, and checks only the magic number and the table.
    #[inline]
    pub(crate) fn glance(words: Words<'_>, table: u32) -> Result<Header, Broken> {
        let (first, second) = (words.word(0), words.word(1));
        let header = Header {
            slots: (first >> 16) as u16,
            heap: (first >> 32) as u16,
            garbage: (first >> 48) as u16,
            table: second as u32,
            free_slots: (second >> 32) as u16,
            tombstones: (second >> 48) as u16,
        };
        if first & 0xffff != MAGIC {
            return Err(Broken("it is no heap page"));
        }
        if header.table != table {
            return Err(Broken("it belongs to another table"));
        }
        Ok(header)
    }

    /// The number of slots of a page of `table`, and the offset of its lowest tuple.
    #[inline(always)]
    pub(crate) fn extent(words: Words<'_>, table: u32) -> Result<(u16, u16), Broken> {
        let (first, second) = (words.word(0), words.word(1));
        if first & 0xffff != MAGIC {
            return Err(Broken("it is no heap page"));
        }
        if second as u32 != table {
            return Err(Broken("it belongs to another table"));
        }
        Ok(((first >> 16) as u16, (first >> 32) as u16))
    }

    pub(crate) fn store(&self, words: Words<'_>) {
        let Header { slots, heap, garbage, table, free_slots, tombstones } = *self;
        let first =
            MAGIC | u64::from(slots) << 16 | u64::from(heap) << 32 | u64::from(garbage) << 48;
        let second = u64::from(table) | u64::from(free_slots) << 32 | u64::from(tombstones) << 48;
        words.set_word(0, first);
        words.set_word(1, second);
    }

    #[inline]
    pub(crate) fn slots_end(&self) -> usize {
        HEADER + SLOT * usize::from(self.slots)
    }

    /// Bytes between the slots and the tuples.
    pub(crate) fn gap(&self) -> usize {
        usize::from(self.heap).saturating_sub(self.slots_end())
    }

    /// The size, in bytes, of the largest tuple for which the page has room, after a compaction if
    /// necessary. `len` is the length of the page.
    pub(crate) fn room(&self, len: usize) -> usize {
        if self.free_slots > 0 {
            return (self.gap() + usize::from(self.garbage)) / 8 * 8;
        }
        if usize::from(self.slots) >= slots_max(len) {
            return 0;
        }
        (self.gap() + usize::from(self.garbage)).saturating_sub(SLOT) / 8 * 8
    }
}

/// The location of a slot's tuple on the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Slot {
    pub(crate) offset: usize,
    /// The allotted bytes.
    pub(crate) size: usize,
}

impl Slot {
    pub(crate) const FREE: Slot = Slot { offset: 0, size: 0 };

    #[inline]
    pub(crate) fn at(number: usize) -> usize {
        HEADER + SLOT * number
    }

    #[inline]
    pub(crate) fn load(words: Words<'_>, number: usize) -> Slot {
        Slot::from_bits(words.u32(Slot::at(number)))
    }

    #[inline]
    pub(crate) fn from_bits(bits: u32) -> Slot {
        Slot { offset: (bits & 0xffff) as usize * 8, size: (bits >> 16) as usize * 8 }
    }

    pub(crate) fn store(self, words: Words<'_>, number: usize) {
        strict_assert!(
            self.offset.is_multiple_of(8) && self.size.is_multiple_of(8),
            "a slot counts in words"
        );
        strict_assert!(
            self.offset / 8 <= 0xffff && self.size / 8 <= 0xffff,
            "a slot does not fit its 32 bits"
        );
        words.set_u32(Slot::at(number), (self.offset / 8) as u32 | ((self.size / 8) as u32) << 16);
    }
}
