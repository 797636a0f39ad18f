//! Replies: the outcome of a batch frame.
//!
//! The body has eight bytes for each atomic, and the data of each executed READ, in the order of
//! the requests. Only a client that knows the requests can parse the body.

use latchwork_strict::strict_assert;

use super::WireError;
use super::header::{HEADER, REPLY, begin_frame, end_frame};

// The states of a reply: executed, or refused after the end of the batch lease.
const DONE: u8 = 0;
const EXPIRED: u8 = 1;

/// The outcome of a batch frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BatchReply<'a> {
    /// The number of the batch frame.
    pub seq: u32,
    /// Whether the batch came after the end of its batch lease. If true, no request of the batch
    /// took effect.
    pub expired: bool,
    /// One bit per request, from the lowest bit. The bit is set for a `ReadIf` with a false
    /// condition, and for a message that found a full inbox. All other requests took effect.
    pub undone: u8,
    /// The old values of atomics, and the data of READs.
    pub body: &'a [u8],
}

impl<'a> BatchReply<'a> {
    pub(super) fn parse(
        status: u8,
        undone: u16,
        seq: u32,
        body: &'a [u8],
    ) -> Result<Self, WireError> {
        let expired = match status {
            DONE => false,
            EXPIRED if body.is_empty() && undone == 0 => true,
            _ => return Err(WireError::Field { field: "status" }),
        };
        if undone > 0b1111 {
            return Err(WireError::Field { field: "undone" });
        }
        Ok(BatchReply { seq, expired, undone: undone as u8, body })
    }
}

/// Begins a reply; the caller appends the body. Returns the position where the reply starts.
#[inline]
pub fn begin_reply(out: &mut Vec<u8>, seq: u32, expired: bool) -> usize {
    begin_frame(out, REPLY, if expired { EXPIRED } else { DONE }, 0, seq)
}

/// Ends the reply that starts at `start`.
#[inline]
pub fn end_reply(out: &mut [u8], start: usize, undone: u8) {
    strict_assert!(undone <= 0b1111, "a reply to more requests than a batch has");
    out[start + 6] = undone;
    strict_assert!(out.len() >= start + HEADER, "a reply ends before it begins");
    end_frame(out, start);
}
