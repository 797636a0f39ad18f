//! Frames: the bytes behind the greetings, in both directions.
//!
//! ```text
//!   0      4      5     6        8      12
//!   │ len  │ kind │  a  │    b   │ seq  │ body ...
//! ```
//! `len` counts the whole frame.
//! `len` counts the whole frame.

use latchwork_strict::{strict_assert, strict_assert_eq};

use super::batch::Batch;
use super::reply::BatchReply;
use super::{Cursor, DATA_MAX, WireError};

/// Bytes of a frame's header.
pub const HEADER: usize = 12;

/// The most bytes of a frame: the data of a batch, and the other fields of four requests.
pub const FRAME_MAX: usize = DATA_MAX + 1024;
const _: () = assert!(FRAME_MAX > DATA_MAX + HEADER && FRAME_MAX <= u32::MAX as usize);

pub(super) const BATCH: u8 = 1;
const LEASE: u8 = 2;
const PING: u8 = 3;
pub(super) const REPLY: u8 = 129;
const PONG: u8 = 130;
const TIME: u8 = 131;
const _: () = assert!(BATCH != REPLY && LEASE != PONG && PING != TIME, "both sides use one number");
const _: () = assert!(
    PING < 128 && REPLY > 128 && PONG > 128 && TIME > 128,
    "a frame's number names its side"
);

/// A frame from a client to an agent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FromClient<'a> {
    /// Requests for the node of this connection.
    Batch(Batch<'a>),
    /// A lease: the agent does not begin later batches after this time of its clock, in
    /// nanoseconds.
    Lease(u64),
    /// A request for a pong with the same number.
    Ping(u32),
}

/// A frame from an agent to a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FromAgent<'a> {
    /// The outcome of a batch frame.
    Reply(BatchReply<'a>),
    /// The number of the ping, and the agent's clock in nanoseconds.
    Pong(u32, u64),
    /// The agent's clock in nanoseconds.
    Time(u64),
}

/// The fields of a header, with the body of the frame.
struct Raw<'a> {
    kind: u8,
    a: u8,
    b: u16,
    seq: u32,
    body: &'a [u8],
    len: usize,
}

/// The frame at the start of `bytes`; `None` when it is incomplete.
#[inline]
fn raw(bytes: &[u8]) -> Result<Option<Raw<'_>>, WireError> {
    // The length is checked as soon as it is there, so that no side waits for an impossible frame.
    let Some(len) = bytes.first_chunk().copied().map(u32::from_le_bytes) else { return Ok(None) };
    if !(HEADER..=FRAME_MAX).contains(&(len as usize)) {
        return Err(WireError::FrameLength { len });
    }
    let Some(frame) = bytes.get(..len as usize) else { return Ok(None) };
    let mut cursor = Cursor(frame);
    cursor.u32()?;
    let (kind, a, b, seq) = (cursor.u8()?, cursor.u8()?, cursor.u16()?, cursor.u32()?);
    strict_assert_eq!(cursor.0.len() + HEADER, len as usize);
    Ok(Some(Raw { kind, a, b, seq, body: cursor.0, len: len as usize }))
}

impl Raw<'_> {
    /// The word of a frame that has one word and no flags.
    fn word(&self) -> Result<u64, WireError> {
        self.no_flags()?;
        let mut cursor = Cursor(self.body);
        let word = cursor.u64()?;
        cursor.end().map(|()| word)
    }

    fn no_flags(&self) -> Result<(), WireError> {
        if (self.a, self.b) == (0, 0) { Ok(()) } else { Err(WireError::Field { field: "flags" }) }
    }

    fn no_seq(&self) -> Result<(), WireError> {
        if self.seq == 0 { Ok(()) } else { Err(WireError::Field { field: "seq" }) }
    }
}

impl<'a> FromClient<'a> {
    /// The frame at the start of `bytes` and its length; `None` when it is incomplete.
    ///
    /// # Errors
    /// The bytes cannot be the start of a frame, whatever follows them.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, WireError> {
        let Some(raw) = raw(bytes)? else { return Ok(None) };
        let frame = match raw.kind {
            BATCH => FromClient::Batch(Batch::parse(raw.a, raw.b, raw.seq, raw.body)?),
            LEASE => {
                raw.no_seq()?;
                FromClient::Lease(raw.word()?)
            }
            PING => {
                raw.no_flags()?;
                Cursor(raw.body).end()?;
                FromClient::Ping(raw.seq)
            }
            kind => return Err(WireError::Kind { kind }),
        };
        Ok(Some((frame, raw.len)))
    }
}

impl<'a> FromAgent<'a> {
    /// The frame at the start of `bytes` and its length; `None` when it is incomplete.
    ///
    /// # Errors
    /// The bytes cannot be the start of a frame, whatever follows them.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Option<(Self, usize)>, WireError> {
        let Some(raw) = raw(bytes)? else { return Ok(None) };
        let frame = match raw.kind {
            REPLY => FromAgent::Reply(BatchReply::parse(raw.a, raw.b, raw.seq, raw.body)?),
            PONG => FromAgent::Pong(raw.seq, raw.word()?),
            TIME => {
                raw.no_seq()?;
                FromAgent::Time(raw.word()?)
            }
            kind => return Err(WireError::Kind { kind }),
        };
        Ok(Some((frame, raw.len)))
    }
}

/// Appends a header without a length, which [`end_frame`] fills in. Returns the position where the
/// frame starts.
#[inline]
pub(super) fn begin_frame(out: &mut Vec<u8>, kind: u8, a: u8, b: u16, seq: u32) -> usize {
    strict_assert!(kind != 0, "a frame without a kind");
    let start = out.len();
    let mut header = [0; HEADER];
    header[4] = kind;
    header[5] = a;
    header[6..8].copy_from_slice(&b.to_le_bytes());
    header[8..].copy_from_slice(&seq.to_le_bytes());
    out.extend_from_slice(&header);
    strict_assert_eq!(out.len(), start + HEADER);
    start
}

/// Fills in the length of the frame that starts at `start` and ends with `out`.
///
/// # Panics
/// When the frame is longer than [`FRAME_MAX`], which is a bug of the caller.
#[inline]
pub fn end_frame(out: &mut [u8], start: usize) {
    let len = out.len() - start;
    assert!((HEADER..=FRAME_MAX).contains(&len), "a frame of {len} bytes");
    strict_assert!(out[start..start + 4] == [0; 4], "a frame ends twice");
    out[start..start + 4].copy_from_slice(&(len as u32).to_le_bytes());
}

fn put_word(out: &mut Vec<u8>, kind: u8, seq: u32, word: u64) {
    let start = begin_frame(out, kind, 0, 0, seq);
    out.extend_from_slice(&word.to_le_bytes());
    end_frame(out, start);
}

/// Appends [`FromClient::Lease`].
pub fn put_lease(out: &mut Vec<u8>, until: u64) {
    put_word(out, LEASE, 0, until);
}

/// Appends [`FromClient::Ping`].
pub fn put_ping(out: &mut Vec<u8>, number: u32) {
    let start = begin_frame(out, PING, 0, 0, number);
    end_frame(out, start);
}

/// Appends [`FromAgent::Pong`].
pub fn put_pong(out: &mut Vec<u8>, number: u32, clock: u64) {
    put_word(out, PONG, number, clock);
}

/// Appends [`FromAgent::Time`].
pub fn put_time(out: &mut Vec<u8>, clock: u64) {
    put_word(out, TIME, 0, clock);
}
