//! The encoding of a batch: the requests of a client in one frame.
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

use latchwork_strict::strict_assert;
use latchwork_verbs::{
    BATCH_ATOMICS_MAX, BATCH_MAX, ComputeNodeId, LocalBuffer, Message, WORD, Words, WorkRequest,
};

use super::header::{BATCH, HEADER, REPLY, begin_frame, end_frame};
use super::{Cursor, DATA_MAX, WireError};

// The codes of requests: the field `op`.
const READ: u8 = 1;
const READ_IF: u8 = 2;
const WRITE: u8 = 3;
const COMPARE_SWAP: u8 = 4;
const FETCH_ADD: u8 = 5;
const SEND: u8 = 6;
const _: () = assert!(SEND < REPLY, "a request reads like a frame of an agent");

/// The requests of one batch frame: one to four well-formed requests within the limits of a frame.
/// Parsing does not check whether their memory exists; the agent does.
///
/// The requests are decoded only when they are used. A value with all decoded requests would be ten
/// times as large as most frames, and every move would copy it.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Batch<'a> {
    /// The number of the frame. The reply has the same number.
    pub seq: u32,
    /// The region of the compute node; 0 for a memory node.
    pub region: u16,
    count: u8,
    sends: bool,
    reach: Option<u64>,
    body: &'a [u8],
}

/// A request whose data stays in the frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum WireRequest<'a> {
    /// [`WorkRequest::Read`] and [`WorkRequest::ReadIf`].
    Read {
        /// First byte.
        remote: u64,
        /// Bytes.
        len: u32,
        /// For `ReadIf`: the mask, and the value that the last atomic before this request must have
        /// found.
        condition: Option<(u64, u64)>,
    },
    /// [`WorkRequest::Write`] and [`WorkRequest::WriteWord`].
    Write {
        /// First byte.
        remote: u64,
        /// The bytes to write.
        data: &'a [u8],
    },
    /// [`WorkRequest::CompareSwap`].
    CompareSwap {
        /// The word.
        remote: u64,
        /// The value that lets the swap happen.
        expected: u64,
        /// The value to store.
        desired: u64,
    },
    /// [`WorkRequest::FetchAdd`].
    FetchAdd {
        /// The word.
        remote: u64,
        /// The addend.
        add: u64,
    },
    /// [`WorkRequest::Send`].
    Send(WireMessage<'a>),
}

/// A message whose body stays in the frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WireMessage<'a> {
    from: ComputeNodeId,
    body: &'a [u8; WORD * Message::WORDS],
}

impl WireMessage<'_> {
    /// The message as a value.
    pub fn message(&self) -> Message {
        let (words, _) = self.body.as_chunks::<WORD>();
        Message { from: self.from, body: std::array::from_fn(|i| u64::from_le_bytes(words[i])) }
    }
}

impl WireRequest<'_> {
    /// The bytes of the node that the request touches, as offset and length; `None` for a message.
    #[inline]
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
}

impl<'a> Batch<'a> {
    /// The requests, in order.
    #[inline]
    pub fn requests(&self) -> Requests<'a> {
        strict_assert!((1..=BATCH_MAX).contains(&usize::from(self.count)));
        Requests { left: self.count, rest: Cursor(self.body) }
    }

    /// The offset behind the last byte that the requests touch; `u64::MAX` when this offset would
    /// overflow. `None` when the requests touch no memory.
    #[inline]
    pub fn reach(&self) -> Option<u64> {
        self.reach
    }

    /// Whether there is a message among the requests.
    #[inline]
    pub fn sends(&self) -> bool {
        self.sends
    }

    #[inline]
    pub(super) fn parse(
        count: u8,
        region: u16,
        seq: u32,
        body: &'a [u8],
    ) -> Result<Self, WireError> {
        if !(1..=BATCH_MAX).contains(&usize::from(count)) {
            return Err(WireError::Field { field: "requests" });
        }
        let (mut cursor, mut batch) =
            (Cursor(body), Batch { seq, region, count, sends: false, reach: None, body });
        let (mut read, mut atomics) = (0, 0);
        for _ in 0..count {
            let request = take_request(&mut cursor)?;
            match request {
                WireRequest::Read { len, .. } => read += u64::from(len),
                WireRequest::CompareSwap { .. } | WireRequest::FetchAdd { .. } => atomics += 1,
                WireRequest::Write { .. } => {}
                WireRequest::Send(_) => batch.sends = true,
            }
            if let Some((offset, len)) = request.remote() {
                batch.reach = batch.reach.max(Some(offset.saturating_add(len)));
            }
        }
        cursor.end()?;
        // The data of WRITEs needs no check, because it is in the frame, whose length is limited.
        if read > DATA_MAX as u64 {
            return Err(WireError::Field { field: "length of READs" });
        }
        if atomics > BATCH_ATOMICS_MAX {
            return Err(WireError::Field { field: "atomics" });
        }
        strict_assert!(
            batch.reach.is_some() || batch.sends,
            "a request that neither reaches memory nor sends"
        );
        strict_assert!(cursor.0.is_empty(), "bytes behind the last request");
        Ok(batch)
    }
}

/// The requests of a [`Batch`], in order.
#[derive(Clone, Debug)]
pub struct Requests<'a> {
    left: u8,
    rest: Cursor<'a>,
}

impl<'a> Iterator for Requests<'a> {
    type Item = WireRequest<'a>;

    #[inline]
    fn next(&mut self) -> Option<WireRequest<'a>> {
        self.left = self.left.checked_sub(1)?;
        // `Batch::parse` has already decoded each request once, so this does not fail.
        take_request(&mut self.rest).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left.into(), Some(self.left.into()))
    }
}

impl ExactSizeIterator for Requests<'_> {}

#[inline]
fn take_request<'a>(cursor: &mut Cursor<'a>) -> Result<WireRequest<'a>, WireError> {
    let (head, remote) = (cursor.u64()?, cursor.u64()?);
    let (op, len) = (head as u8, (head >> 32) as u32);
    if op == SEND {
        let from = ComputeNodeId::new((head >> 8) as u8);
        let from = from.ok_or(WireError::Field { field: "sender" })?;
        if (head >> 16, remote) != (0, 0) {
            return Err(WireError::Field { field: "reserved" });
        }
        return Ok(WireRequest::Send(WireMessage { from, body: cursor.chunk()? }));
    }
    if head & 0xffff_ff00 != 0 {
        return Err(WireError::Field { field: "reserved" });
    }
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

/// Looks into the first frame of `bytes` before its execution, for prefetches. Calls `place` with
/// the region, offset and length of the first request, and of the second request if the first is an
/// atomic. The values are not checked, so they are good only for hints. Returns the length of the
/// frame in bytes; `None` when the header is incomplete or has an impossible length.
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

/// Begins a batch frame with `count` requests. Returns the position where the frame starts.
#[inline]
pub fn begin_batch(out: &mut Vec<u8>, count: usize, region: u16, seq: u32) -> usize {
    strict_assert!((1..=BATCH_MAX).contains(&count), "a batch of {count} requests");
    begin_frame(out, BATCH, count as u8, region, seq)
}

/// Ends the batch frame that starts at `start`.
#[inline]
pub fn end_batch(out: &mut [u8], start: usize) {
    end_frame(out, start);
}

/// Appends a request. `words` returns the local memory from which a WRITE takes its data.
#[inline]
pub fn put_request<'a>(
    out: &mut Vec<u8>,
    request: &WorkRequest,
    words: impl FnOnce(LocalBuffer) -> Words<'a>,
) {
    let prefix = |out: &mut Vec<u8>, op: u8, len: u32, remote: u64| {
        let mut prefix = [0; 16];
        prefix[0] = op;
        prefix[4..8].copy_from_slice(&len.to_le_bytes());
        prefix[8..].copy_from_slice(&remote.to_le_bytes());
        out.extend_from_slice(&prefix);
    };
    strict_assert!(out.len() >= HEADER, "a request before its frame");
    match *request {
        WorkRequest::Read { remote, local } => prefix(out, READ, local.len, remote),
        WorkRequest::ReadIf { remote, local, mask, value } => {
            prefix(out, READ_IF, local.len, remote);
            out.extend_from_slice(&mask.to_le_bytes());
            out.extend_from_slice(&value.to_le_bytes());
        }
        WorkRequest::Write { remote, local } => {
            prefix(out, WRITE, local.len, remote);
            words(local).append_to(0, local.len as usize, out);
        }
        WorkRequest::WriteWord { remote, value } => {
            prefix(out, WRITE, WORD as u32, remote);
            out.extend_from_slice(&value.to_le_bytes());
        }
        WorkRequest::CompareSwap { remote, expected, desired } => {
            prefix(out, COMPARE_SWAP, WORD as u32, remote);
            out.extend_from_slice(&expected.to_le_bytes());
            out.extend_from_slice(&desired.to_le_bytes());
        }
        WorkRequest::FetchAdd { remote, add } => {
            prefix(out, FETCH_ADD, WORD as u32, remote);
            out.extend_from_slice(&add.to_le_bytes());
        }
        WorkRequest::Send(Message { from, body }) => {
            let mut prefix = [0; 16];
            (prefix[0], prefix[1]) = (SEND, from.get());
            out.extend_from_slice(&prefix);
            body.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        }
    }
}
