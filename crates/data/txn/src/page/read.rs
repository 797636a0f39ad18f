//! Page reads, which tolerate any bytes.

use latchwork_verbs::Words;
use latchwork_wal::Timestamp;

use super::header::{Header, Slot};
use super::{Broken, READ_STAMP, State, TUPLE};

/// A page: its words and its header as it was read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) words: Words<'a>,
    pub(crate) header: Header,
}

/// A tuple inside the page. Its content may be inconsistent until the read validates.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TupleRef<'a> {
    pub(super) words: Words<'a>,
    pub(super) slot: Slot,
    pub(crate) cts: Timestamp,
    pub(crate) state: State,
    pub(super) key: usize,
    pub(super) value: usize,
}

/// The read timestamp of the page in `words`.
#[inline]
pub(crate) fn read_timestamp(words: Words<'_>) -> Timestamp {
    Timestamp(words.word(READ_STAMP))
}

impl<'a> Page<'a> {
    #[inline]
    pub(crate) fn open(words: Words<'a>, table: u32) -> Result<Page<'a>, Broken> {
        Ok(Page { words, header: Header::load(words, table)? })
    }

    /// Like [`open`](Page::open), for a reader of one tuple. Checks only that this is a page of the
    /// table.
    #[inline]
    pub(crate) fn glance(words: Words<'a>, table: u32) -> Result<Page<'a>, Broken> {
        Ok(Page { words, header: Header::glance(words, table)? })
    }

    /// The tuple of a slot; `None` for an empty slot or a number beyond the slots.
    #[inline]
    pub(crate) fn tuple(&self, slot: usize) -> Result<Option<TupleRef<'a>>, Broken> {
        TupleRef::find(self.words, (self.header.slots, self.header.heap), slot)
    }
    /// The read timestamp of this page.
    #[inline]
    pub(crate) fn read_stamp(&self) -> Timestamp {
        read_timestamp(self.words)
    }

    /// The size, in bytes, of the largest tuple for which the page has room. A page with `most`
    /// tuples has no room.
    pub(crate) fn room(&self, most: u16) -> usize {
        if self.rows() < most { self.header.room(self.words.len()) } else { 0 }
    }

    /// The number of tuples.
    pub(crate) fn rows(&self) -> u16 {
        self.header.slots.saturating_sub(self.header.free_slots)
    }
}

impl<'a> TupleRef<'a> {
    /// The tuple of a slot of the page in `words`, if that is a page of `table`. The result equals
    /// that of [`Page::glance`] and [`Page::tuple`], without a `Page`.
    #[inline(always)]
    pub(crate) fn glance(
        words: Words<'a>,
        table: u32,
        slot: usize,
    ) -> Result<Option<TupleRef<'a>>, Broken> {
        TupleRef::find(words, Header::extent(words, table)?, slot)
    }

    /// The tuple of a slot of a page with `slots` slots and with tuples from `heap` on.
    #[inline(always)]
    fn find(
        words: Words<'a>,
        (slots, heap): (u16, u16),
        slot: usize,
    ) -> Result<Option<TupleRef<'a>>, Broken> {
        if slot >= usize::from(slots) {
            return Ok(None);
        }
        let slot = Slot::load(words, slot);
        if slot.size == 0 {
            return Ok(None);
        }
        if slot.offset < usize::from(heap)
            || slot.offset + slot.size > words.len()
            || slot.size < super::TUPLE_MIN
        {
            return Err(Broken("a slot leads outside of the tuples"));
        }
        let lengths = words.u64(slot.offset + 8);
        let (value, key) = (lengths as u16 as usize, (lengths >> 16) as u16 as usize);
        let state = State::from_bits((lengths >> 32) as u8);
        let state = state.ok_or(Broken("a tuple is in no state that there is"))?;
        if TUPLE + key + value > slot.size {
            return Err(Broken("a tuple is longer than its place"));
        }
        let cts = Timestamp(words.u64(slot.offset));
        Ok(Some(TupleRef { words, slot, cts, state, key, value }))
    }
}

impl TupleRef<'_> {
    /// Bytes of the value.
    pub(crate) fn value_len(&self) -> usize {
        self.value
    }

    /// The bytes allotted to the tuple.
    #[cfg(test)]
    pub(crate) fn allotted(&self) -> usize {
        self.slot.size
    }

    pub(super) fn value_at(&self) -> usize {
        self.slot.offset + TUPLE + self.key
    }

    #[inline]
    pub(crate) fn key_is(&self, key: &[u8]) -> bool {
        self.words.equals(self.slot.offset + TUPLE, self.key, key)
    }

    pub(crate) fn append_key(&self, to: &mut Vec<u8>) {
        self.words.append_to(self.slot.offset + TUPLE, self.key, to);
    }

    #[inline]
    pub(crate) fn append_value(&self, to: &mut Vec<u8>) {
        self.words.append_to(self.value_at(), self.value, to);
    }

    /// The row location in a stub.
    pub(crate) fn target(&self) -> Result<u64, Broken> {
        if self.state != State::Stub || self.value != 8 {
            return Err(Broken("a stub without an address"));
        }
        let mut bytes = [0; 8];
        self.words.read_bytes(self.value_at(), &mut bytes);
        Ok(u64::from_le_bytes(bytes))
    }
}
