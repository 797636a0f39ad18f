//! [`Words`]: a view of memory that others may be writing.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering as Order};

use crate::copy::copy_words;

/// Bytes in one word.
pub const WORD: usize = 8;

/// A view of shared memory, made of 8-byte little-endian words.
///
/// Every access is a relaxed atomic access of whole words, so that a reader racing with a writer
/// (another worker, or a verb) is no data race: it reads some mix of old and new *words*, and the
/// version check around the read throws the result away. For the same reason a **read out of
/// bounds yields zero** instead of panicking: an optimistic reader may follow an offset that is
/// garbage. Writes are for the one holder of the exclusive latch; a write out of bounds is a bug and
/// panics.
///
/// Offsets and lengths are in bytes. Scalars must be aligned to their own size.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(&'a [AtomicU64]);

impl<'a> Words<'a> {
    /// Views `words`.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Words(words)
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.0.len() * WORD
    }

    /// Whether the view is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words themselves.
    pub fn as_atomics(&self) -> &'a [AtomicU64] {
        self.0
    }

    /// The part of the view at byte range `range`, whose ends are multiples of 8.
    ///
    /// # Panics
    /// When the range is not aligned or not inside the view.
    pub fn slice(&self, range: Range<usize>) -> Words<'a> {
        assert!(
            range.start.is_multiple_of(WORD) && range.end.is_multiple_of(WORD),
            "unaligned range {range:?}"
        );
        Words(&self.0[range.start / WORD..range.end / WORD])
    }

    /// Loads the word with index `word` (not byte offset); zero when out of bounds.
    #[inline]
    pub fn word(&self, word: usize) -> u64 {
        match self.0.get(word) {
            Some(w) => w.load(Order::Relaxed),
            None => 0,
        }
    }

    /// Stores the word with index `word` (not byte offset).
    #[inline]
    pub fn set_word(&self, word: usize, value: u64) {
        self.0[word].store(value, Order::Relaxed);
    }

    /// Loads a `u64` at byte `offset`, a multiple of 8.
    #[inline]
    pub fn u64(&self, offset: usize) -> u64 {
        self.word(offset / WORD)
    }

    /// Loads a `u32` at byte `offset`, a multiple of 4.
    #[inline]
    pub fn u32(&self, offset: usize) -> u32 {
        (self.word(offset / WORD) >> (8 * (offset & 4))) as u32
    }

    /// Loads a `u16` at byte `offset`, a multiple of 2.
    #[inline]
    pub fn u16(&self, offset: usize) -> u16 {
        (self.word(offset / WORD) >> (8 * (offset & 6))) as u16
    }

    /// Loads the byte at `offset`.
    #[inline]
    pub fn u8(&self, offset: usize) -> u8 {
        (self.word(offset / WORD) >> (8 * (offset & 7))) as u8
    }

    /// Stores a `u64` at byte `offset`, a multiple of 8.
    #[inline]
    pub fn set_u64(&self, offset: usize, value: u64) {
        self.set_word(offset / WORD, value);
    }

    /// Stores a `u32` at byte `offset`, a multiple of 4.
    #[inline]
    pub fn set_u32(&self, offset: usize, value: u32) {
        self.set_bits(offset, offset & 4, u64::from(u32::MAX), u64::from(value));
    }

    /// Stores a `u16` at byte `offset`, a multiple of 2.
    #[inline]
    pub fn set_u16(&self, offset: usize, value: u16) {
        self.set_bits(offset, offset & 6, u64::from(u16::MAX), u64::from(value));
    }

    /// Stores the byte at `offset`.
    #[inline]
    pub fn set_u8(&self, offset: usize, value: u8) {
        self.set_bits(offset, offset & 7, u64::from(u8::MAX), u64::from(value));
    }

    // Load and store instead of a read-modify-write: only the exclusive holder writes, so nobody can
    // change the word in between.
    #[inline]
    fn set_bits(&self, offset: usize, byte: usize, mask: u64, value: u64) {
        let cell = &self.0[offset / WORD];
        let shift = 8 * byte;
        let old = cell.load(Order::Relaxed);
        cell.store(old & !(mask << shift) | value << shift, Order::Relaxed);
    }

    /// Copies bytes from byte `offset` into `to`; bytes out of bounds read as zero.
    pub fn read_bytes(&self, offset: usize, to: &mut [u8]) {
        let mut at = offset;
        let mut rest = to;
        while !rest.is_empty() {
            let bytes = self.word(at / WORD).to_le_bytes();
            let within = at % WORD;
            let n = rest.len().min(WORD - within);
            rest[..n].copy_from_slice(&bytes[within..within + n]);
            rest = &mut rest[n..];
            at += n;
        }
    }

    /// Appends `len` bytes from byte `offset` to `to`. A `len` beyond the view is cut to its end.
    pub fn append_to(&self, offset: usize, len: usize, to: &mut Vec<u8>) {
        let len = len.min(self.len().saturating_sub(offset));
        let start = to.len();
        to.resize(start + len, 0);
        self.read_bytes(offset, &mut to[start..]);
    }

    /// Writes `from` at byte `offset`.
    ///
    /// # Panics
    /// When it does not fit.
    pub fn write_bytes(&self, offset: usize, from: &[u8]) {
        let mut at = offset;
        let mut rest = from;
        while !rest.is_empty() {
            let within = at % WORD;
            let n = rest.len().min(WORD - within);
            let cell = &self.0[at / WORD];
            let mut bytes =
                if n == WORD { [0; WORD] } else { cell.load(Order::Relaxed).to_le_bytes() };
            bytes[within..within + n].copy_from_slice(&rest[..n]);
            cell.store(u64::from_le_bytes(bytes), Order::Relaxed);
            rest = &rest[n..];
            at += n;
        }
    }

    /// Moves `len` bytes from byte `from` to byte `to`; the ranges may overlap.
    ///
    /// # Panics
    /// When the target range is not inside the view.
    pub fn move_bytes(&self, from: usize, to: usize, len: usize) {
        const STEP: usize = 64;
        let mut buffer = [0; STEP];
        let mut left = len;
        while left > 0 {
            let n = left.min(STEP);
            // Towards lower addresses copy from the front, towards higher ones from the back, so
            // that no byte is overwritten before it was read.
            let at = if to < from { len - left } else { left - n };
            self.read_bytes(from + at, &mut buffer[..n]);
            self.write_bytes(to + at, &buffer[..n]);
            left -= n;
        }
    }

    /// Compares `len` bytes at byte `offset` with `other`, as byte strings.
    pub fn compare(&self, offset: usize, len: usize, other: &[u8]) -> Ordering {
        let common = len.min(other.len());
        let mut at = 0;
        while at < common {
            let n = (common - at).min(WORD);
            let mut mine = [0; WORD];
            self.read_bytes(offset + at, &mut mine[..n]);
            let order = mine[..n].cmp(&other[at..at + n]);
            if order.is_ne() {
                return order;
            }
            at += n;
        }
        len.cmp(&other.len())
    }

    /// Copies all words of `from`, which has the same length, in any order.
    ///
    /// # Panics
    /// When the lengths differ.
    #[inline]
    pub fn copy_from(&self, from: Words<'_>) {
        copy_words(from.0, self.0);
    }

    /// Sets every byte of the byte range to zero; the ends are multiples of 8.
    pub fn clear(&self, range: Range<usize>) {
        for word in self.slice(range).0 {
            word.store(0, Order::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(words: usize) -> Vec<AtomicU64> {
        (0..words).map(|_| AtomicU64::new(0)).collect()
    }

    #[test]
    fn scalars_are_little_endian_and_do_not_disturb_their_neighbours() {
        let m = memory(2);
        let w = Words::new(&m);
        w.set_u64(0, u64::MAX);
        w.set_u16(2, 0x1234);
        w.set_u8(7, 0x56);
        assert_eq!(w.u64(0), 0x56ff_ffff_1234_ffff);
        w.set_u32(12, 0xdead_beef);
        assert_eq!((w.u32(8), w.u32(12), w.u16(14), w.u8(12)), (0, 0xdead_beef, 0xdead, 0xef));
    }

    #[test]
    fn reads_out_of_bounds_are_zero() {
        let m = memory(1);
        let w = Words::new(&m);
        w.set_u64(0, u64::MAX);
        assert_eq!((w.u64(8), w.u16(1 << 20)), (0, 0));
        let mut out = [1; 4];
        w.read_bytes(6, &mut out);
        assert_eq!(out, [255, 255, 0, 0]);
    }

    #[test]
    fn overlapping_moves_keep_every_byte_in_both_directions() {
        for (from, to) in [(3, 10), (10, 3), (0, 1), (1, 0), (5, 5)] {
            let m = memory(40);
            let w = Words::new(&m);
            let bytes: Vec<u8> = (0..200).map(|i| i as u8).collect();
            w.write_bytes(from, &bytes);
            w.move_bytes(from, to, bytes.len());
            let mut out = vec![0; bytes.len()];
            w.read_bytes(to, &mut out);
            assert_eq!(out, bytes, "from {from} to {to}");
        }
    }

    #[test]
    fn comparison_is_that_of_byte_strings() {
        let m = memory(4);
        let w = Words::new(&m);
        w.write_bytes(3, b"latchwork");
        for other in ["latch", "latchwork", "latchworks", "latchwarp", "", "m"] {
            assert_eq!(w.compare(3, 9, other.as_bytes()), "latchwork".cmp(other), "{other}");
        }
    }
}
