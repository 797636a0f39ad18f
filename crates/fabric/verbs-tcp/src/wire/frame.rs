//! Frames: the units that follow the greetings of a connection, in both directions.

use latchwork_strict::strict_assert_eq;

use super::batch::Batch;
use super::header::{
    BATCH, FRAME_MAX, HEADER, LEASE, PING, PONG, REPLY, TIME, begin_frame, end_frame,
};
use super::reply::BatchReply;
use super::{Cursor, WireError};

/// A frame from a client to an agent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum FromClient<'a> {
    /// Requests for the node of this connection.
    Batch(Batch<'a>),
    /// The end of a batch lease, on the agent's clock in nanoseconds. After this end, the agent
    /// refuses the batches behind this frame. The agent reads its clock once per chunk of frames.
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

/// The header and the body of a frame. The meaning of `a` and `b` depends on the kind.
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
    // The length is checked as soon as its four bytes have arrived. So no side waits for a frame of
    // more than `FRAME_MAX` bytes.
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
