//! Views of values inside a page, for reads and for changes in place.

use std::ops::Range;

use latchwork_strict::strict_assert;
use latchwork_verbs::Words;

/// A value inside a page, as an optimistic reader sees it.
///
/// Until the read is validated, the bytes may be torn and the length may be wrong. The validation
/// comes after the visitor of the value has returned. So a visitor must accept any bytes, must have
/// no effect but its result, and may be called again. Bytes beyond the end of the value or of the
/// page read as zero.
#[derive(Clone, Copy, Debug)]
pub struct TreeValue<'a> {
    words: Words<'a>,
    offset: usize,
    len: usize,
}

impl<'a> TreeValue<'a> {
    pub(crate) fn new(words: Words<'a>, offset: usize, len: usize) -> TreeValue<'a> {
        TreeValue { words, offset, len }
    }

    /// The length in bytes. Even a wrong length is at most that of the page.
    pub fn len(&self) -> usize {
        self.len.min(self.words.len())
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes from `offset` on into `to`.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        let there = to.len().min(self.len().saturating_sub(offset));
        let (inside, outside) = to.split_at_mut(there);
        self.words.read_bytes(self.offset + offset, inside);
        outside.fill(0);
    }

    /// The little-endian `u64` at byte `offset`, a multiple of 8. It is zero beyond the end of the
    /// value. The read is one load, so it is never torn.
    pub fn u64(&self, offset: usize) -> u64 {
        if offset + 8 <= self.len() { self.words.u64(self.offset + offset) } else { 0 }
    }

    /// Appends all bytes to `to`.
    pub fn append_to(&self, to: &mut Vec<u8>) {
        self.words.append_to(self.offset, self.len, to);
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.append_to(&mut bytes);
        bytes
    }
}

/// A value that may be changed in place, under the page's write guard. Its length cannot change.
///
/// Only the written bytes become dirty. In a leaf with a leaf stamp, the range from the stamp to
/// the last written byte becomes dirty.
#[derive(Debug)]
pub struct ValueMut<'a> {
    words: Words<'a>,
    range: Range<usize>,
    dirty: Range<usize>,
}

impl<'a> ValueMut<'a> {
    pub(crate) fn new(words: Words<'a>, range: Range<usize>) -> ValueMut<'a> {
        strict_assert!(range.start <= range.end, "a value ends before it begins");
        ValueMut { words, dirty: range.end..range.start, range }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether the value has no bytes.
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// Copies bytes from `offset` on into `to`. Bytes beyond the end of the value read as zero.
    pub fn read(&self, offset: usize, to: &mut [u8]) {
        self.view().read(offset, to);
    }

    /// The little-endian `u64` at byte `offset`, a multiple of 8. Zero beyond the end of the value.
    pub fn u64(&self, offset: usize) -> u64 {
        self.view().u64(offset)
    }

    /// All bytes.
    pub fn to_vec(&self) -> Vec<u8> {
        self.view().to_vec()
    }

    /// Writes `from` at byte `offset`.
    ///
    /// # Panics
    /// When `from` does not fit into the value.
    pub fn write(&mut self, offset: usize, from: &[u8]) {
        let end = offset.checked_add(from.len());
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "writing {} bytes at {offset} of a value of {} bytes",
            from.len(),
            self.len()
        );
        if from.is_empty() {
            return;
        }
        let at = self.range.start + offset;
        self.words.write_bytes(at, from);
        self.dirty = self.dirty.start.min(at)..self.dirty.end.max(at + from.len());
    }

    /// Writes a little-endian `u64` at byte `offset`.
    ///
    /// # Panics
    /// When the `u64` does not fit into the value.
    pub fn set_u64(&mut self, offset: usize, value: u64) {
        self.write(offset, &value.to_le_bytes());
    }

    fn view(&self) -> TreeValue<'a> {
        TreeValue::new(self.words, self.range.start, self.range.len())
    }

    /// The written bytes. Empty if no byte was written.
    pub(crate) fn dirty(&self) -> Range<usize> {
        self.dirty.clone()
    }
}
