//! Batches: the requests of a client.
//!
//! ```text
//!   0    1      4      8        16
//!   │ op │ zero │ len  │ remote │ ...     READ       nothing follows
//!                                         READ IF    mask, value
//!                                         WRITE      len bytes
//!                                         CAS        expected, desired
//!                                         FAA        summand
//!   │ op │ from │ zero                    SEND       112 bytes
//! ```

use latchwork_verbs::{
    BATCH_ATOMICS_MAX, BATCH_MAX, ComputeNodeId, Kind, LocalBuffer, Message, Request, WORD, Words,
};

use super::frame::{BATCH, HEADER, begin_frame, end_frame};
use super::{Cursor, DATA_MAX, WireError};

const READ: u8 = 1;
const READ_IF: u8 = 2;
const WRITE: u8 = 3;
const COMPARE_SWAP: u8 = 4;
const FETCH_ADD: u8 = 5;
const SEND: u8 = 6;

/// The requests of one batch frame: one to four, well formed, within the limits of a frame. Whether the
/// memory that they touch exists, the agent has to see.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Batch<'a> {
    /// The frame's number, which the reply repeats.
    pub seq: u32,
    /// The region of the compute node; 0 for a memory node.
    pub region: u16,
    requests: [WireRequest<'a>; BATCH_MAX],
    len: usize,
}

/// A request whose data stands in the frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WireRequest<'a> {
    /// [`Request::Read`] and [`Request::ReadIf`].
    Read {
        /// First byte.
        remote: u64,
        /// Bytes.
        len: u32,
        /// Mask and value of the last atomic before it in the frame.
        condition: Option<(u64, u64)>,
    },
    /// [`Request::Write`] and [`Request::WriteWord`].
    Write {
        /// First byte.
        remote: u64,
        /// What to write.
        data: &'a [u8],
    },
    /// [`Request::CompareSwap`].
    CompareSwap {
        /// The word.
        remote: u64,
        /// The value that lets the swap happen.
        expected: u64,
        /// The value to store.
        desired: u64,
    },
    /// [`Request::FetchAdd`].
    FetchAdd {
        /// The word.
        remote: u64,
        /// The summand.
        add: u64,
    },
    /// [`Request::Send`].
    Send(Message),
}

impl WireRequest<'_> {
    /// The bytes that it touches on the node, as offset and length; none for a message.
    pub fn remote(&self) -> Option<(u64, u64)> {
        match *self {
            WireRequest::Read { remote, len, .. } => Some((remote, u64::from(len))),
            WireRequest::Write { remote, data } => Some((remote, data.len() as u64)),
            WireRequest::CompareSwap { remote, .. } | WireRequest::FetchAdd { remote, .. } => {
                Some((remote, WORD as u64))
            }
            WireRequest::Send(_) => None,
        }
    }

    /// What kind of verb it is.
    pub fn kind(&self) -> Kind {
        match self {
            WireRequest::Read { .. } => Kind::Read,
            WireRequest::Write { .. } => Kind::Write,
            WireRequest::CompareSwap { .. } | WireRequest::FetchAdd { .. } => Kind::Atomic,
            WireRequest::Send(_) => Kind::Send,
        }
    }
}

impl<'a> Batch<'a> {
    /// The requests, in order.
    pub fn requests(&self) -> &[WireRequest<'a>] {
        &self.requests[..self.len]
    }

    pub(super) fn parse(
        count: u8,
        region: u16,
        seq: u32,
        body: &'a [u8],
    ) -> Result<Self, WireError> {
        let len = usize::from(count);
        if !(1..=BATCH_MAX).contains(&len) {
            return Err(WireError::Field { field: "requests" });
        }
        let mut cursor = Cursor(body);
        let mut requests = [WireRequest::FetchAdd { remote: 0, add: 0 }; BATCH_MAX];
        let (mut read, mut atomics) = (0, 0);
        for request in &mut requests[..len] {
            *request = parse_request(&mut cursor)?;
            match request.kind() {
                Kind::Read => read += request.remote().map_or(0, |(_, len)| len),
                Kind::Atomic => atomics += 1,
                Kind::Write | Kind::Send => {}
            }
        }
        cursor.end()?;
        // What is written stands in the frame and is limited with it.
        if read > DATA_MAX as u64 {
            return Err(WireError::Field { field: "length of READs" });
        }
        if atomics > BATCH_ATOMICS_MAX {
            return Err(WireError::Field { field: "atomics" });
        }
        Ok(Batch { seq, region, requests, len })
    }
}

#[inline]
fn parse_request<'a>(cursor: &mut Cursor<'a>) -> Result<WireRequest<'a>, WireError> {
    let op = cursor.u8()?;
    if op == SEND {
        let from = ComputeNodeId::new(cursor.u8()?).ok_or(WireError::Field { field: "sender" })?;
        cursor.zeros::<14>()?;
        let mut body = [0; Message::WORDS];
        for word in &mut body {
            *word = cursor.u64()?;
        }
        return Ok(WireRequest::Send(Message { from, body }));
    }
    cursor.zeros::<3>()?;
    let (len, remote) = (cursor.u32()?, cursor.u64()?);
    if !(u64::from(len) | remote).is_multiple_of(WORD as u64) {
        return Err(WireError::Field { field: "alignment" });
    }
    if matches!(op, COMPARE_SWAP | FETCH_ADD) && len as usize != WORD {
        return Err(WireError::Field { field: "length of an atomic" });
    }
    match op {
        READ => Ok(WireRequest::Read { remote, len, condition: None }),
        READ_IF => {
            let condition = Some((cursor.u64()?, cursor.u64()?));
            Ok(WireRequest::Read { remote, len, condition })
        }
        WRITE => Ok(WireRequest::Write { remote, data: cursor.bytes(len as usize)? }),
        COMPARE_SWAP => {
            let (expected, desired) = (cursor.u64()?, cursor.u64()?);
            Ok(WireRequest::CompareSwap { remote, expected, desired })
        }
        FETCH_ADD => Ok(WireRequest::FetchAdd { remote, add: cursor.u64()? }),
        _ => Err(WireError::Field { field: "request" }),
    }
}

/// Looks at a frame that is not due yet: tells `place` which bytes of which region its first request touches, and
/// its second where the first is an atomic, as offset and length; returns the frame's length. Nothing is checked:
/// what it tells is good for hints only. None when too little of the frame is there, or it is none.
#[inline]
pub fn peek(bytes: &[u8], mut place: impl FnMut(u16, u64, u32)) -> Option<usize> {
    let header: &[u8; HEADER] = bytes.first_chunk()?;
    let number = |at: usize| header[at..at + 4].try_into().map(u32::from_le_bytes);
    let len = usize::try_from(number(0).ok()?).ok().filter(|len| *len >= HEADER)?;
    if header[4] != BATCH {
        return Some(len);
    }
    let region = u16::from_le_bytes([header[6], header[7]]);
    let mut at = HEADER;
    for _ in 0..2 {
        let Some(prefix) = bytes.get(at..).and_then(|rest| rest.first_chunk::<16>()) else { break };
        let mut cursor = Cursor(prefix);
        let (Ok(head), Ok(count), Ok(remote)) = (cursor.u32(), cursor.u32(), cursor.u64()) else {
            break;
        };
        let op = head as u8;
        if op == SEND {
            break;
        }
        place(region, remote, count);
        at += match op {
            COMPARE_SWAP => 32,
            FETCH_ADD => 24,
            _ => break,
        };
    }
    Some(len)
}

/// Begins a batch frame with `count` requests; where it starts.
#[inline]
pub fn begin_batch(out: &mut Vec<u8>, count: usize, region: u16, seq: u32) -> usize {
    begin_frame(out, BATCH, count as u8, region, seq)
}

/// Ends the batch frame that starts at `start`.
#[inline]
pub fn end_batch(out: &mut [u8], start: usize) {
    end_frame(out, start);
}

/// Appends a request. `words` gives the local memory that a WRITE takes its data from.
#[inline]
pub fn put_request<'a>(
    out: &mut Vec<u8>,
    request: &Request,
    words: impl FnOnce(LocalBuffer) -> Words<'a>,
) {
    let prefix = |out: &mut Vec<u8>, op: u8, len: u32, remote: u64| {
        let mut prefix = [0; 16];
        prefix[0] = op;
        prefix[4..8].copy_from_slice(&len.to_le_bytes());
        prefix[8..].copy_from_slice(&remote.to_le_bytes());
        out.extend_from_slice(&prefix);
    };
    match *request {
        Request::Read { remote, local } => prefix(out, READ, local.len, remote),
        Request::ReadIf { remote, local, mask, value } => {
            prefix(out, READ_IF, local.len, remote);
            out.extend_from_slice(&mask.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        Request::Write { remote, local } => {
            prefix(out, WRITE, local.len, remote);
            words(local).append_to(0, local.len as usize, out);
        }
        Request::WriteWord { remote, value } => {
            prefix(out, WRITE, WORD as u32, remote);
            out.extend_from_slice(&value.to_le_bytes());
        }
        Request::CompareSwap { remote, expected, desired } => {
            prefix(out, COMPARE_SWAP, WORD as u32, remote);
            out.extend_from_slice(&expected.to_le_bytes());
            out.extend_from_slice(&desired.to_le_bytes());
        }
        Request::FetchAdd { remote, add } => {
            prefix(out, FETCH_ADD, WORD as u32, remote);
            out.extend_from_slice(&add.to_le_bytes());
        }
        Request::Send(Message { from, body }) => {
            let mut prefix = [0; 16];
            (prefix[0], prefix[1]) = (SEND, from.get());
            out.extend_from_slice(&prefix);
            body.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
    }
}
