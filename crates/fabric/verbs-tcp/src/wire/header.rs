//! The header of a frame.
//!
//! ```text
//!   0      4      5     6        8      12
//!   │ len  │ kind │  a  │    b   │ seq  │ body ...
//! ```
//! `len` counts the whole frame.

use latchwork_strict::{strict_assert, strict_assert_eq};

use super::DATA_MAX;

/// Bytes of a frame's header.
pub const HEADER: usize = 12;

/// The largest length of a frame in bytes: the data of a batch, and the other fields of four
/// requests.
pub const FRAME_MAX: usize = DATA_MAX + 1024;
const _: () = assert!(FRAME_MAX > DATA_MAX + HEADER && FRAME_MAX <= u32::MAX as usize);

// The kinds of frames. A client sends kinds below 128, and an agent sends kinds above 128.
pub(super) const BATCH: u8 = 1;
pub(super) const LEASE: u8 = 2;
pub(super) const PING: u8 = 3;
pub(super) const REPLY: u8 = 129;
pub(super) const PONG: u8 = 130;
pub(super) const TIME: u8 = 131;
const _: () = assert!(BATCH != REPLY && LEASE != PONG && PING != TIME, "both sides use one number");
const _: () = assert!(
    PING < 128 && REPLY > 128 && PONG > 128 && TIME > 128,
    "a frame's number names its side"
);

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
pub(crate) fn end_frame(out: &mut [u8], start: usize) {
    let len = out.len() - start;
    assert!((HEADER..=FRAME_MAX).contains(&len), "a frame of {len} bytes");
    strict_assert!(out[start..start + 4] == [0; 4], "a frame ends twice");
    out[start..start + 4].copy_from_slice(&(len as u32).to_le_bytes());
}
