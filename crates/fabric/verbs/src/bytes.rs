//! [`Words`] as byte strings, at any offset and of any length.
//!
//! A byte string is the end of a word, then whole words, then the start of a word. Each of the
//! three parts may be missing. A string inside one word is a part of that word. Whole words are
//! copied in bulk. The two partial words are copied by shifts and masks, without a loop over bytes.

use std::cmp::Ordering;
use std::ops::Range;

use latchwork_strict::strict_assert;

use crate::address::WORD;
use crate::atomic::Ordering as Order;
use crate::copy::{append_words, load_words, shift_words, store_words};
use crate::words::Words;

impl Words<'_> {
    /// Copies bytes from byte `offset` into `to`. Bytes out of bounds read as zero.
    #[inline]
    pub fn read_bytes(&self, offset: usize, to: &mut [u8]) {
        let (first, within) = (offset / WORD, offset % WORD);
        let (head, rest) = to.split_at_mut(head_len(within, to.len()));
        if !head.is_empty() {
            store_part(head, self.word(first) >> (8 * within));
        }
        let first = first + usize::from(!head.is_empty());
        let (whole, tail) = rest.as_chunks_mut();
        let there = self.words_from(first, whole.len());
        let (inside, outside) = whole.split_at_mut(there.len());
        load_words(there, inside);
        outside.fill([0; WORD]);
        if !tail.is_empty() {
            store_part(tail, self.word(first + whole.len()));
        }
    }

    /// Appends `len` bytes from byte `offset` to `to`. Bytes beyond the end of the view are not
    /// appended.
    #[inline]
    pub fn append_to(&self, offset: usize, len: usize, to: &mut Vec<u8>) {
        let len = len.min(self.len().saturating_sub(offset));
        let (first, within) = (offset / WORD, offset % WORD);
        let head = head_len(within, len);
        // The extra word is room for `append_part`, which stores a whole word and then truncates.
        to.reserve(len + WORD);
        if head > 0 {
            append_part(to, self.word(first) >> (8 * within), head);
        }
        let (first, count) = (first + usize::from(head > 0), (len - head) / WORD);
        append_words(self.words_from(first, count), to);
        let tail = (len - head) % WORD;
        if tail > 0 {
            append_part(to, self.word(first + count), tail);
        }
    }

    /// Writes `from` at byte `offset`.
    ///
    /// # Panics
    /// When `from` does not fit.
    #[inline]
    pub fn write_bytes(&self, offset: usize, from: &[u8]) {
        let (first, within) = (offset / WORD, offset % WORD);
        if let (0, Ok(word)) = (within, from.try_into()) {
            // A fast path for one aligned word.
            self.set_word(first, u64::from_le_bytes(word));
            return;
        }
        let (head, rest) = from.split_at(head_len(within, from.len()));
        if !head.is_empty() {
            self.set_part(first, within, head);
        }
        let first = first + usize::from(!head.is_empty());
        let (whole, tail) = rest.as_chunks();
        if !whole.is_empty() {
            store_words(whole, &self.as_atomics()[first..first + whole.len()]);
        }
        if !tail.is_empty() {
            self.set_part(first + whole.len(), 0, tail);
        }
    }

    /// Moves the byte range `from` to byte `to`. All ends are multiples of 8, and the ranges may
    /// overlap.
    ///
    /// # Panics
    /// When a range is not aligned or not inside the view.
    #[inline]
    pub fn move_words(&self, from: Range<usize>, to: usize) {
        let aligned = (from.start | from.end | to).is_multiple_of(WORD);
        assert!(aligned, "unaligned move of {from:?} to {to}");
        let source = &self.as_atomics()[from.start / WORD..from.end / WORD];
        let target = &self.as_atomics()[to / WORD..][..source.len()];
        shift_words(source, target, to < from.start);
    }

    /// Compares `len` bytes at byte `offset` with `other`, as byte strings. Bytes out of bounds
    /// read as zero.
    #[inline]
    pub fn compare(&self, offset: usize, len: usize, other: &[u8]) -> Ordering {
        let common = &other[..len.min(other.len())];
        let (first, within) = (offset / WORD, offset % WORD);
        let (head, rest) = common.split_at(head_len(within, common.len()));
        if !head.is_empty() {
            let order = compare_part(self.word(first) >> (8 * within), head);
            if order.is_ne() {
                return order;
            }
        }
        let first = first + usize::from(!head.is_empty());
        let (whole, tail) = rest.as_chunks::<WORD>();
        for (i, theirs) in whole.iter().enumerate() {
            // Big-endian numbers have the order of their byte strings.
            let mine = self.word(first + i).swap_bytes();
            let theirs = u64::from_be_bytes(*theirs);
            if mine != theirs {
                return mine.cmp(&theirs);
            }
        }
        if !tail.is_empty() {
            let order = compare_part(self.word(first + whole.len()), tail);
            if order.is_ne() {
                return order;
            }
        }
        len.cmp(&other.len())
    }

    /// Whether the `len` bytes at byte `offset` equal `other`. Bytes out of bounds read as zero.
    #[inline]
    pub fn equals(&self, offset: usize, len: usize, other: &[u8]) -> bool {
        if len != other.len() {
            return false;
        }
        let (mut word, shift) = (offset / WORD, 8 * (offset % WORD) as u32);
        // The word of the view at the position of one word of `other`. That position may span two
        // words.
        let here = |word: usize| match shift {
            0 => self.word(word),
            _ => self.word(word) >> shift | self.word(word + 1) << (64 - shift),
        };
        let (whole, tail) = other.as_chunks::<WORD>();
        for theirs in whole {
            if here(word) != u64::from_le_bytes(*theirs) {
                return false;
            }
            word += 1;
        }
        tail.is_empty() || (here(word) ^ load_part(tail)) << (64 - 8 * tail.len()) == 0
    }

    // A load and a store instead of a read-modify-write: the caller is the only writer, as in
    // `Words::set_bits`.
    #[inline]
    fn set_part(&self, word: usize, within: usize, part: &[u8]) {
        strict_assert!(within + part.len() <= WORD, "a part crosses the end of its word");
        let cell = &self.as_atomics()[word];
        let mask = (1 << (8 * part.len())) - 1;
        let old = cell.load(Order::Relaxed) & !(mask << (8 * within));
        cell.store(old | load_part(part) << (8 * within), Order::Relaxed);
    }
}

/// The number of bytes in the first word, of `len` bytes that begin `within` bytes behind the start
/// of this word. The result is 0 if the bytes start at a word boundary.
#[inline]
fn head_len(within: usize, len: usize) -> usize {
    if within == 0 { 0 } else { len.min(WORD - within) }
}

/// Loads 1 to 7 bytes as the low bytes of a word, in memory order: two overlapping loads, or one
/// load.
#[inline]
fn load_part(part: &[u8]) -> u64 {
    let n = part.len();
    strict_assert!(n > 0 && n < WORD, "a part of {n} bytes");
    if let (Some(low), Some(high)) = (part.first_chunk(), part.last_chunk()) {
        u64::from(u32::from_le_bytes(*low)) | u64::from(u32::from_le_bytes(*high)) << (8 * (n - 4))
    } else if let (Some(low), Some(high)) = (part.first_chunk(), part.last_chunk()) {
        u64::from(u16::from_le_bytes(*low)) | u64::from(u16::from_le_bytes(*high)) << (8 * (n - 2))
    } else {
        part.first().map_or(0, |&byte| u64::from(byte))
    }
}

/// Stores the low bytes of `bits` into 1 to 7 bytes. The counterpart of [`load_part`].
#[inline]
fn store_part(part: &mut [u8], bits: u64) {
    let n = part.len();
    strict_assert!(n > 0 && n < WORD, "a part of {n} bytes");
    if n >= 4 {
        part[..4].copy_from_slice(&(bits as u32).to_le_bytes());
        part[n - 4..].copy_from_slice(&((bits >> (8 * (n - 4))) as u32).to_le_bytes());
    } else if n >= 2 {
        part[..2].copy_from_slice(&(bits as u16).to_le_bytes());
        part[n - 2..].copy_from_slice(&((bits >> (8 * (n - 2))) as u16).to_le_bytes());
    } else if let Some(byte) = part.first_mut() {
        *byte = bits as u8;
    }
}

/// Appends the low `len` bytes of `bits`, fewer than 8.
#[inline]
fn append_part(to: &mut Vec<u8>, bits: u64, len: usize) {
    strict_assert!(len < WORD, "a part of {len} bytes");
    let end = to.len() + len;
    strict_assert!(to.capacity() >= to.len() + WORD, "no room for a whole word");
    // A store of the whole word and a truncation cost less than a copy of the part.
    to.extend_from_slice(&bits.to_le_bytes());
    to.truncate(end);
}

/// Compares the low bytes of `bits` with `part`, 1 to 7 bytes, as byte strings.
#[inline]
fn compare_part(bits: u64, part: &[u8]) -> Ordering {
    let unused = 64 - 8 * part.len();
    // The shift drops the bytes that are not compared.
    (bits << unused).swap_bytes().cmp(&(load_part(part) << unused).swap_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::atomic::AtomicU64;

    const LEN: usize = 1200;

    fn memory(bytes: usize) -> Vec<AtomicU64> {
        let byte = |i: usize| (i as u8).wrapping_mul(37) ^ (i >> 8) as u8;
        let word = |w: usize| u64::from_le_bytes(std::array::from_fn(|i| byte(w * WORD + i)));
        (0..bytes / WORD).map(|w| AtomicU64::new(word(w))).collect()
    }

    fn bytes(words: &Words<'_>) -> Vec<u8> {
        (0..words.len()).map(|i| words.u8(i)).collect()
    }

    // Spans that start and end at every place within a word. Their lengths lie on both sides of the
    // bounds at which the code changes its method.
    fn spans() -> impl Iterator<Item = (usize, usize)> {
        let lens = (0..40).chain([64, 77, 500, 511, 512, 513, 519, 520, 600, 1000]);
        lens.flat_map(|len| (0..20).map(move |offset| (offset, len)))
    }

    #[test]
    fn strings_are_read_and_appended_from_any_offset_at_any_length() {
        let memory = memory(LEN);
        let words = Words::new(&memory);
        let all = bytes(&words);
        for (offset, len) in spans() {
            let mut read = vec![0xee; len + 2];
            words.read_bytes(offset, &mut read[1..=len]);
            assert_eq!(read[1..=len], all[offset..offset + len], "{len} bytes at {offset}");
            assert_eq!((read[0], read[len + 1]), (0xee, 0xee), "{len} bytes at {offset}");
            let mut appended = vec![0xee];
            words.append_to(offset, len, &mut appended);
            assert_eq!(appended[1..], all[offset..offset + len], "{len} bytes at {offset}");
        }
    }

    #[test]
    fn reading_beyond_the_end_gives_zeros_and_appending_stops_there() {
        for words in [0, 1, 2, 80] {
            let memory = memory(words * WORD);
            let words = Words::new(&memory);
            let mut all = bytes(&words);
            all.resize(4 * LEN, 0);
            for (offset, len) in spans() {
                let mut read = vec![0xee; len];
                words.read_bytes(offset, &mut read);
                assert_eq!(read, all[offset..offset + len], "{len} bytes at {offset}");
                let mut appended = Vec::new();
                words.append_to(offset, len, &mut appended);
                let end = (offset + len).min(words.len()).max(offset);
                assert_eq!(appended, all[offset..end], "{len} bytes at {offset}");
            }
            let mut far = [1; 20];
            words.read_bytes(usize::MAX - 30, &mut far);
            assert_eq!(far, [0; 20]);
            assert!(words.equals(usize::MAX - 30, 20, &far));
        }
    }

    #[test]
    fn strings_are_written_without_disturbing_their_neighbours() {
        for (offset, len) in spans() {
            let memory = memory(LEN);
            let words = Words::new(&memory);
            let mut expected = bytes(&words);
            let from: Vec<u8> = (0..len).map(|i| 255 - i as u8).collect();
            expected[offset..offset + len].copy_from_slice(&from);
            words.write_bytes(offset, &from);
            assert_eq!(bytes(&words), expected, "{len} bytes at {offset}");
        }
    }

    #[test]
    fn overlapping_moves_keep_every_word_in_both_directions() {
        for (from, to) in [(8, 24), (24, 8), (0, 8), (8, 0), (16, 16), (0, 640)] {
            for len in [0, 8, 16, 200, 520] {
                let memory = memory(LEN);
                let words = Words::new(&memory);
                let mut expected = bytes(&words);
                expected.copy_within(from..from + len, to);
                words.move_words(from..from + len, to);
                assert_eq!(bytes(&words), expected, "{len} bytes from {from} to {to}");
            }
        }
    }

    #[test]
    fn comparison_is_that_of_byte_strings() {
        let memory = memory(LEN);
        let words = Words::new(&memory);
        let all = bytes(&words);
        for (offset, len) in spans() {
            let mine = &all[offset..offset + len];
            let compare = |other: &[u8]| {
                let order = words.compare(offset, len, other);
                assert_eq!(order, mine.cmp(other), "{len} bytes at {offset}");
                let equals = words.equals(offset, len, other);
                assert_eq!(equals, mine == other, "{len} bytes at {offset}");
            };
            compare(mine);
            compare(&all[offset..offset + len + 1]);
            compare(&mine[..len / 2]);
            compare(&[]);
            for changed in [0, 1, 6, 7, 8, 9, len / 2, len.saturating_sub(1)] {
                let mut other = mine.to_vec();
                for add in [1, 0x80, 0xff] {
                    if let Some(byte) = other.get_mut(changed) {
                        *byte = byte.wrapping_add(add);
                        compare(&other);
                    }
                }
            }
        }
    }
}
