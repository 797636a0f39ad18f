//! The bytes on a connection: see "The wire format" in `docs/internals/fabrics.md`.
//!
//! The functions of this module are pure: they parse bytes into values that borrow from the bytes,
//! or append bytes to a buffer. A length that a peer sends is checked before memory is allocated
//! for it. All numbers are little-endian.

mod batch;
mod frame;
mod greeting;
mod header;
mod reply;

pub use batch::{
    Batch, Requests, WireMessage, WireRequest, begin_batch, end_batch, peek, put_request,
};
pub use frame::{FromAgent, FromClient, put_lease, put_ping, put_pong, put_time};
pub use greeting::{
    ANSWER_LEN, AgentGreeting, CLIENT_GREETING_LEN, ClientGreeting, HELLO_LEN, Hello, MAC_LEN,
    NONCE_LEN, REGIONS_MAX, Refusal, TcpNode, VERSION, WELCOME_LEN, Welcome,
};
pub use header::{FRAME_MAX, HEADER};
pub use reply::{BatchReply, begin_reply, end_reply};

use thiserror::Error;

/// The largest number of bytes of all WRITEs, and of all READs, in one batch frame. A larger
/// request is sent in several frames.
pub const DATA_MAX: usize = 256 << 10;

/// An error in the bytes of a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum WireError {
    /// The bytes do not begin like this protocol.
    #[error("not a Latchwork peer: the greeting begins with other bytes")]
    Magic,
    /// A frame has a length above [`FRAME_MAX`], or below [`HEADER`].
    #[error("a frame of {len} bytes: {HEADER} to {FRAME_MAX} are possible")]
    FrameLength {
        /// The length in the frame.
        len: u32,
    },
    /// No frame of this direction has this kind.
    #[error("a frame of unknown kind {kind}")]
    Kind {
        /// The kind in the frame.
        kind: u8,
    },
    /// A frame is shorter or longer than its content.
    #[error("a frame whose length does not fit what is in it")]
    Shape,
    /// A field has an impossible value.
    #[error("a field with an impossible value: {field}")]
    Field {
        /// The name of the field.
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

    /// Takes reserved bytes, which must be zero.
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
