//! [`Words`]: a view of memory that other threads and verbs may write.

use std::ops::Range;

use crate::address::WORD;
use crate::atomic::{AtomicU64, Ordering as Order};
use crate::copy::{copy_words, prefetch_words};

/// A view of shared memory, made of 8-byte little-endian words.
///
/// Every access is a relaxed atomic access of whole words. So a race of a reader with a writer
/// (another worker, or a verb) is no data race. The reader may get a mix of old and new *words*. An
/// optimistic read compares the frame's version afterwards, and discards the mix.
///
/// A **read out of bounds yields zero** and does not panic, because an optimistic reader may follow
/// an offset from such a mix. A write out of bounds is a bug and panics. A write of less than a
/// word loads the word and stores it. So the caller must be the only writer of that word: in a
/// frame, the holder of the local latch.
///
/// Offsets and lengths are in bytes. The offset of a scalar must be a multiple of the scalar's
/// size; no function checks this.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a>(&'a [AtomicU64]);

impl<'a> Words<'a> {
    /// Views `words`.
    #[inline]
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Words(words)
    }

    /// Length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.0.len() * WORD
    }

    /// Whether the view is empty.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The words of the view.
    #[inline]
    pub fn as_atomics(&self) -> &'a [AtomicU64] {
        self.0
    }

    /// The `count` words from word `first` on, or as many of them as exist.
    #[inline]
    pub(crate) fn words_from(&self, first: usize, count: usize) -> &'a [AtomicU64] {
        let behind = self.0.get(first..).unwrap_or(&[]);
        &behind[..count.min(behind.len())]
    }

    /// The part of the view at byte range `range`. Both ends are multiples of 8.
    ///
    /// # Panics
    /// When the range is not aligned or not inside the view.
    #[inline]
    pub fn slice(&self, range: Range<usize>) -> Words<'a> {
        assert!(
            range.start.is_multiple_of(WORD) && range.end.is_multiple_of(WORD),
            "unaligned range {range:?}"
        );
        Words(&self.0[range.start / WORD..range.end / WORD])
    }

    /// The view without its first `words` words (not bytes); empty when the view has no more words.
    #[inline]
    pub fn skip(&self, words: usize) -> Words<'a> {
        Words(self.0.get(words..).unwrap_or(&[]))
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

    /// Stores the byte at `offset`.
    #[inline]
    pub fn set_u8(&self, offset: usize, value: u8) {
        self.set_bits(offset, offset & 7, u64::from(u8::MAX), u64::from(value));
    }

    // A load and a store instead of a read-modify-write: the caller is the only writer, so the word
    // does not change in between.
    #[inline]
    fn set_bits(&self, offset: usize, byte: usize, mask: u64, value: u64) {
        let cell = &self.0[offset / WORD];
        let shift = 8 * byte;
        let old = cell.load(Order::Relaxed);
        cell.store(old & !(mask << shift) | value << shift, Order::Relaxed);
    }

    /// Prefetches the CPU cache lines of the byte range, as far as the range is inside the view. A
    /// hint without effect on results. Useful before reads in an order that the processor cannot
    /// predict.
    #[inline]
    pub fn prefetch(&self, bytes: Range<usize>) {
        prefetch_words(self.words_from(bytes.start / WORD, bytes.len().div_ceil(WORD)));
    }

    /// Copies all words of `from`, which has the same length, in any order.
    ///
    /// # Panics
    /// When the lengths differ.
    #[inline]
    pub fn copy_from(&self, from: Words<'_>) {
        copy_words(from.0, self.0);
    }

    /// Sets every byte of the byte range to zero. Both ends are multiples of 8.
    ///
    /// # Panics
    /// When the range is not aligned or not inside the view.
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
        w.set_u8(3, 0x12);
        w.set_u8(7, 0x56);
        assert_eq!(w.u64(0), 0x56ff_ffff_12ff_ffff);
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
}
