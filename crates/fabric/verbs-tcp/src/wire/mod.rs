//! The bytes on a connection: see the book, "The wire format of the TCP fabric".
//!
//! Everything here is pure: bytes in, values that borrow from them out, or an error. Nothing is
//! allocated for what a peer says before its length was checked. All numbers are little-endian.

mod batch;
mod frame;
mod greeting;
mod reply;

pub use batch::{
    Batch, Requests, WireMessage, WireRequest, begin_batch, end_batch, peek, put_request,
};
pub use frame::{
    FRAME_MAX, FromAgent, FromClient, HEADER, end_frame, put_lease, put_ping, put_pong, put_time,
};
pub use greeting::{
    ANSWER_LEN, Answer, HELLO_LEN, Hello, INTRODUCTION_LEN, Introduction, MAC_LEN, NONCE_LEN, Node,
    REGIONS_MAX, Refusal, VERSION, WELCOME_LEN, Welcome,
};
pub use reply::{Reply, begin_reply, end_reply};

use thiserror::Error;

/// Bytes of WRITEs, and bytes of READs, in one batch frame at most: larger requests go in pieces.
pub const DATA_MAX: usize = 256 << 10;

/// What is wrong with bytes that came from a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum WireError {
    /// The bytes do not begin as this protocol does.
    #[error("not a Latchwork peer: the greeting begins with other bytes")]
    Magic,
    /// A frame says that it is longer than any frame may be, or shorter than its header.
    #[error("a frame of {len} bytes: {HEADER} to {FRAME_MAX} are possible")]
    FrameLength {
        /// What it says.
        len: u32,
    },
    /// There is no frame of that kind in that direction.
    #[error("a frame of unknown kind {kind}")]
    Kind {
        /// What it says.
        kind: u8,
    },
    /// A frame ends before what it should contain, or goes on behind it.
    #[error("a frame whose length does not fit what is in it")]
    Shape,
    /// A field has a value that it cannot have.
    #[error("a field with an impossible value: {field}")]
    Field {
        /// Which one.
        field: &'static str,
    },
}

/// Takes bytes from the front of a frame.
#[derive(Clone, Debug)]
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], WireError> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(WireError::Shape)?;
        self.0 = rest;
        Ok(head)
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        self.chunk().copied()
    }

    #[inline]
    fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(WireError::Shape)?;
        self.0 = rest;
        Ok(head)
    }

    #[inline]
    fn u8(&mut self) -> Result<u8, WireError> {
        self.take::<1>().map(|[byte]| byte)
    }

    #[inline]
    fn u16(&mut self) -> Result<u16, WireError> {
        self.take().map(u16::from_le_bytes)
    }

    #[inline]
    fn u32(&mut self) -> Result<u32, WireError> {
        self.take().map(u32::from_le_bytes)
    }

    #[inline]
    fn u64(&mut self) -> Result<u64, WireError> {
        self.take().map(u64::from_le_bytes)
    }

    /// Bytes that are reserved.
    fn zeros<const N: usize>(&mut self) -> Result<(), WireError> {
        if self.take::<N>()? == [0; N] {
            Ok(())
        } else {
            Err(WireError::Field { field: "reserved" })
        }
    }

    #[inline]
    fn end(&self) -> Result<(), WireError> {
        if self.0.is_empty() { Ok(()) } else { Err(WireError::Shape) }
    }
}
