//! The heap page: slots and tuples in the payload of one line.
//!
//! Nothing here knows of memory protocols, transactions or other pages: a page is a view of words
//! ([`Words`](latchwork_verbs::Words)) and the table that it should belong to. None of it is
//! generic.
//!
//! ```text
//! byte 0       24                                heap              payload length
//! | header     | slot 0 | slot 1 | ·· : free      | tuples, each from a multiple of 8 on |
//!
//! header word 0   magic 16 | slots 16 | heap 16 | garbage 16           (low bits first)
//!        word 1   table 32 | free slots 16 | tombstones 16
//!        word 2   read stamp: the highest timestamp of a transaction that has read a row of this page,
//!                 where timestamps order transactions
//! slot            tuple's offset / 8, 16 bits | bytes allotted to it / 8, 16 bits
//!                 0: free
//! tuple           commit timestamp 64 | value length 16 | key length 16 | state 8 | key | value
//! ```
//!
//! The number of a slot is a part of the tuple's name for as long as anything leads to it, so slots
//! never move; tuples move within the page when it is compacted.
//!
//! A tuple has its key. An index is read before the tuple that it leads to, and in between the slot
//! may have been given to another row: the key tells. With 13 bytes of header, the key and 4 bytes
//! of slot a row of TPC-C takes 17 bytes and its key besides its value.
//!
//! **Reads are safe on any bytes.** An optimistic reader may look at a page while it is rewritten,
//! or at a line that is no page at all. Loops are bounded by the view's length, bytes out of bounds
//! read as zero, nothing panics; the reader's validation throws the result away.

#[cfg(test)]
mod check;
mod edit;
mod header;
mod read;
#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) use check::check;
pub(crate) use edit::{Dirty, Edit, New, format};
pub(crate) use header::Slot;
pub(crate) use read::{Page, TupleRef, read_stamp};

/// Bytes of the header.
pub(crate) const HEADER: usize = 24;
/// The word of the header that has the read stamp.
const READ_STAMP: usize = 2;
/// Bytes of a slot.
pub(crate) const SLOT: usize = 4;
/// Bytes of a tuple in front of its key.
pub(crate) const TUPLE: usize = 13;
/// The least that a tuple is allotted: any may have to become a stub, which is an address.
pub(crate) const TUPLE_MIN: usize = (TUPLE + 8).next_multiple_of(8);

/// What is wrong with a page; an error only if the read of the page validates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Broken(pub(crate) &'static str);

/// What a tuple is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum State {
    /// A row.
    Live = 1,
    /// A row that was deleted. It has no value.
    Tombstone = 2,
    /// A row that grew and lies elsewhere. Its value is the name of the tuple there.
    Stub = 3,
    /// The tuple that a stub leads to, and nothing else does.
    Away = 4,
    /// A row of a transaction that has not ended: indexes lead to it, and nobody may see it or pass
    /// it.
    Pending = 5,
}

impl State {
    /// Whether a row is here, or what is left of it, for those who know its name.
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

/// Bytes that a tuple is allotted: with room for an address instead of its value.
pub(crate) const fn tuple_size(key: usize, value: usize) -> usize {
    let value = if value < 8 { 8 } else { value };
    (TUPLE + key + value).next_multiple_of(8)
}

/// The most slots of a page: a slot's number fits the bits of an address that are zero for a line.
pub(crate) const fn slots_max(payload: usize) -> usize {
    payload.next_power_of_two() / 16
}

/// The longest key and value together.
pub(crate) const fn row_max(payload: usize) -> usize {
    payload.saturating_sub((HEADER + SLOT).next_multiple_of(8) + TUPLE)
}
