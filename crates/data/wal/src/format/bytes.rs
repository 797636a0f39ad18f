//! Reads and writes numbers in bytes; no input makes the reader panic.

use latchwork_strict::strict_assert;

use super::FILE_HEADER;
use crate::LogEnd;

/// Takes numbers and slices off the front of a byte slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(front)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    pub(crate) fn u8(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// The end of a log. `None` also for an end inside the header of a segment, which no log has.
    pub(crate) fn log_end(&mut self) -> Option<LogEnd> {
        let end = LogEnd { segment: self.u64()?, bytes: self.u64()?, groups: self.u64()? };
        (end.segment == 0 || end.bytes >= FILE_HEADER as u64).then_some(end)
    }
}

/// Writes `bytes` at `at`. The target must have room for them.
pub(crate) fn put<const N: usize>(target: &mut [u8], at: usize, bytes: [u8; N]) {
    target[at..at + N].copy_from_slice(&bytes);
    strict_assert!(at + N <= target.len(), "a field of {N} bytes at {at} does not fit");
}
