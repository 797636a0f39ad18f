//! The heap page: slots and tuples in the payload of one line.
//!
//! A page is a view of words ([`Words`](latchwork_verbs::Words)), with the number of the table to
//! which the page should belong. This module knows no memory protocols, transactions or other
//! pages, and is not generic over the memory.
//!
//! ```text
//! byte 0       24                                heap              payload length
//! | header     | slot 0 | slot 1 | ·· : free      | tuples, each from a multiple of 8 on |
//!
//! header word 0   magic 16 | slots 16 | heap 16 | garbage 16           (low bits first)
//!        word 1   table 32 | free slots 16 | tombstones 16
//!        word 2   read timestamp: at least the highest timestamp of a transaction that has
//!                 read a row of this page, under timestamp ordering
//! slot            tuple's offset / 8, 16 bits | bytes allotted to it / 8, 16 bits
//!                 0: free
//! tuple           commit timestamp 64 | value length 16 | key length 16 | state 8 | key | value
//! ```
//!
//! The number of a slot is a part of the row id while anything leads to the tuple, so slots never
//! move. Tuples move inside the page when it is compacted.
//!
//! A tuple contains its key. A reader reads an index entry first and the tuple later, and between
//! the two the slot may get another row. The key in the tuple reveals the other row. A row takes
//! its key, its value and 17 more bytes: 13 bytes of tuple header and 4 bytes of slot. A value
//! takes at least 8 bytes, and the tuple is rounded up to a multiple of 8 bytes.
//!
//! **Reads are safe on any bytes.** An optimistic reader may read a page while a writer changes the
//! page. A reader may also read a line that is not a page. Loops are bounded by the length of the
//! view, bytes out of bounds read as zero, and no read panics. If the page changed during the read,
//! the validation of the read discards the result.

mod check;
mod edit;
mod header;
mod read;
#[cfg(test)]
mod tests;

pub(crate) use check::check;
pub(crate) use edit::{Dirty, Edit, New, format};
pub(crate) use header::Slot;
pub(crate) use read::{Page, TupleRef, read_timestamp};

/// Bytes of the header.
pub(crate) const HEADER: usize = 24;
/// The header word with the read timestamp.
const READ_STAMP: usize = 2;
/// Bytes of a slot.
pub(crate) const SLOT: usize = 4;
/// Bytes of a tuple before its key.
pub(crate) const TUPLE: usize = 13;
/// The minimum allotment of a tuple: any tuple may have to become a stub, which holds an address.
pub(crate) const TUPLE_MIN: usize = (TUPLE + 8).next_multiple_of(8);
const _: () = assert!(
    HEADER == 3 * 8 && READ_STAMP == 2,
    "a header is three words, of which the last is the read timestamp"
);
const _: () = assert!(
    TUPLE_MIN >= TUPLE + 8 && TUPLE_MIN.is_multiple_of(8),
    "the least tuple has room for a stub"
);
const _: () = assert!(
    slots_max(65504) <= u16::MAX as usize && row_max(480) > 0,
    "the limits fit lines of every size"
);

/// The defect of a page. A defect is an error only if the read of the page validates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken(pub(crate) &'static str);

/// The kind of a tuple.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// A row.
    Live = 1,
    /// A deleted row, without a value.
    Tombstone = 2,
    /// A stub: the row grew and stands elsewhere. The value of a stub is the row location.
    Stub = 3,
    /// The tuple of a row that outgrew its home line. Only a stub leads to such a tuple, apart from
    /// index entries that are out of date.
    Away = 4,
    /// A new row of a transaction that has not ended. Index entries may lead to the row already.
    /// Another transaction that meets the row gets a conflict. In place of a commit timestamp the
    /// tuple has the [signature](latchwork_coherence::CoherentMemory::signature) of the node: when
    /// that node has ended, the row is erased.
    Pending = 5,
}

impl State {
    /// Whether the tuple is a row, a stub or a tombstone, to which a row id leads.
    #[inline]
    pub(crate) fn is_home(self) -> bool {
        matches!(self, State::Live | State::Tombstone | State::Stub)
    }

    #[inline]
    fn from_bits(bits: u8) -> Option<State> {
        Some(match bits {
            1 => State::Live,
            2 => State::Tombstone,
            3 => State::Stub,
            4 => State::Away,
            5 => State::Pending,
            _ => return None,
        })
    }
}

/// The bytes allotted to a tuple, with room for an address in place of its value.
pub(crate) const fn tuple_size(key: usize, value: usize) -> usize {
    let value = if value < 8 { 8 } else { value };
    (TUPLE + key + value).next_multiple_of(8)
}

/// The maximum number of slots: slot numbers fit the bits that are zero in a line address.
pub(crate) const fn slots_max(payload: usize) -> usize {
    payload.next_power_of_two() / 16
}

/// The maximum length of a key and its value together.
pub(crate) const fn row_max(payload: usize) -> usize {
    payload.saturating_sub((HEADER + SLOT).next_multiple_of(8) + TUPLE)
}
