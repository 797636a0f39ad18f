//! The header of a page, and the positions of all parts of the page.

use std::sync::atomic::Ordering::Relaxed;

use latchwork_verbs::{GlobalAddr, WORD, Words};

use super::{Broken, HEAD, LEVEL_MAX, Tag, align, head_of};

/// The bytes of the header.
pub(crate) const HEADER: usize = 40;
const _: () = assert!(HEADER == 5 * WORD, "a header is five words");

/// The position of some bytes in the page.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Span {
    pub(crate) offset: u16,
    pub(crate) len: u16,
}

/// The layout of the entries of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape(pub(super) u8);

impl Shape {
    /// A cell holds the position of its entry in the heap.
    pub(crate) const SLOTTED: Shape = Shape(0);
    /// A cell is a value. A head is a whole suffix, without the zero bytes at its end.
    pub(crate) const DERIVED: Shape = Shape(1);

    pub(super) const MAX: u8 = 2 + HEAD as u8;
    const _CHECK: () =
        assert!(Self::MAX as usize == 2 + HEAD, "a constant suffix is at most a head");

    /// A cell is a value. The first `suffix` bytes of a head, at most 8, are a whole suffix.
    pub(crate) const fn constant(suffix: usize) -> Shape {
        Shape(2 + suffix as u8)
    }

    #[inline]
    pub(crate) fn is_slotted(self) -> bool {
        self == Shape::SLOTTED
    }

    /// The length of all suffixes, if the shape fixes it.
    #[inline]
    pub(crate) fn constant_len(self) -> Option<usize> {
        self.0.checked_sub(2).map(usize::from)
    }

    /// The length of the suffix with this head, on a page that is not slotted.
    #[inline]
    pub(crate) fn suffix_len(self, head: u64) -> usize {
        self.constant_len().unwrap_or(HEAD - head.trailing_zeros() as usize / 8)
    }

    /// Whether the head holds all of `suffix`. Never true for slotted pages.
    #[inline]
    pub(crate) fn holds(self, suffix: &[u8]) -> bool {
        match self.constant_len() {
            Some(len) => suffix.len() == len,
            None => {
                self == Shape::DERIVED
                    && suffix.len() <= HEAD
                    && suffix.last().is_none_or(|&end| end != 0)
            }
        }
    }

    /// The shape of the same suffixes without their first `cut` bytes, which move to the prefix.
    pub(crate) fn cut(self, cut: usize) -> Shape {
        self.constant_len().map_or(self, |len| Shape::constant(len.saturating_sub(cut)))
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    pub(crate) level: u8,
    pub(crate) shape: Shape,
    pub(crate) count: u16,
    /// The first byte of the heap.
    pub(crate) heap: u16,
    /// The unused bytes inside the heap.
    pub(crate) garbage: u16,
    pub(crate) prefix: u16,
    pub(crate) tag: Tag,
    /// The head of the high fence.
    pub(crate) high_head: u64,
    pub(crate) low: Span,
    pub(crate) high: Span,
    /// The capacity of the arrays in entries.
    pub(crate) cap: u16,
    /// The length of all values. On slotted pages the length of a cell's word.
    pub(crate) width: u16,
    pub(crate) right: GlobalAddr,
}

/// The bit of word 4 that says that an inner page, or the page from which it was split, has lost a
/// child. Lines are aligned to more than a word, so bit 0 of an address is free.
const LOST: u64 = 1;

impl Header {
    #[inline]
    pub(crate) fn load(words: Words<'_>) -> Header {
        let header = words.as_atomics().first_chunk::<{ HEADER / WORD }>();
        let [a, b, high_head, c, right] = header
            .map_or([0; HEADER / WORD], |header| header.each_ref().map(|word| word.load(Relaxed)));
        let (low_len, high_len) = (c as u16, (c >> 16) as u16);
        // The fence keys are the last bytes of the page. The fence keys of a damaged page may be
        // longer than the page.
        let low_at = words.len().saturating_sub(align(low_len.into()));
        let high_at = low_at.saturating_sub(align(high_len.into()));
        Header {
            level: a as u8,
            shape: Shape((a >> 8) as u8),
            count: (a >> 16) as u16,
            heap: (a >> 32) as u16,
            garbage: (a >> 48) as u16,
            prefix: b as u16,
            tag: Tag(b >> 16),
            high_head,
            low: Span { offset: low_at as u16, len: low_len },
            high: Span { offset: high_at as u16, len: high_len },
            cap: (c >> 32) as u16,
            width: (c >> 48) as u16,
            right: GlobalAddr::from_bits(right & !LOST),
        }
    }

    /// The header of a page of `len` bytes without entries, or `None` if the fence keys do not fit.
    /// The caller still has to write both fence keys.
    pub(super) fn new(len: usize, tag: Tag, level: u8, low: &[u8], high: &[u8]) -> Option<Header> {
        let low_at = len.checked_sub(align(low.len()))?;
        let high_at = low_at.checked_sub(align(high.len())).filter(|&at| at >= HEADER)?;
        Some(Header {
            level,
            shape: Shape::SLOTTED,
            count: 0,
            heap: high_at as u16,
            garbage: 0,
            prefix: super::common_prefix(low, high) as u16,
            tag,
            high_head: head_of(high),
            low: Span { offset: low_at as u16, len: low.len() as u16 },
            high: Span { offset: high_at as u16, len: high.len() as u16 },
            cap: 0,
            width: WORD as u16,
            right: GlobalAddr::NULL,
        })
    }

    /// Stores word 0, the only word that inserts and removes change.
    #[inline]
    pub(crate) fn store_counts(&self, words: Words<'_>) {
        let value = u64::from(self.level)
            | u64::from(self.shape.0) << 8
            | u64::from(self.count) << 16
            | u64::from(self.heap) << 32
            | u64::from(self.garbage) << 48;
        words.set_word(0, value);
    }

    pub(crate) fn store(&self, words: Words<'_>) {
        self.store_counts(words);
        words.set_word(1, u64::from(self.prefix) | self.tag.0 << 16);
        words.set_word(2, self.high_head);
        let lengths = u64::from(self.low.len)
            | u64::from(self.high.len) << 16
            | u64::from(self.cap) << 32
            | u64::from(self.width) << 48;
        words.set_word(3, lengths);
        words.set_word(4, self.right.bits());
    }

    /// Notes that an inner page has lost a child.
    pub(super) fn store_lost(words: Words<'_>) {
        words.set_word(4, words.word(4) | LOST);
    }

    /// Whether an inner page has lost a child.
    pub(super) fn has_lost(words: Words<'_>) -> bool {
        words.word(4) & LOST != 0
    }

    /// Checks the tag and all fields on which later code relies to stay inside the page.
    #[inline]
    pub(crate) fn verify(&self, tag: Tag) -> Result<(), Broken> {
        if !self.tag.is_of(tag) {
            return Err(if self.tag == tag.out() { Broken::OUT } else { Broken::FOREIGN });
        }
        // If the fence keys do not fit, this offset is 0, which is inside the header.
        let fences = self.high.offset;
        let heap_is_odd = if self.shape.is_slotted() {
            self.heap > fences
                || self.garbage > fences - self.heap
                || usize::from(self.width) != WORD
        } else {
            self.heap != fences || self.garbage != 0
        };
        // The conditions are combined without branches, because nearly always all of them have to
        // be checked.
        let is_odd = (self.level > LEVEL_MAX)
            | (self.shape.0 > Shape::MAX)
            | (self.count > self.cap)
            | (self.cells_end() > self.heap())
            | heap_is_odd
            | !self.heap.is_multiple_of(WORD as u16)
            | (self.prefix > self.low.len.min(self.high.len))
            // A last page with a right link: a walk along this level would not end.
            | (self.high.len == 0 && !self.right.is_null());
        if is_odd {
            return Err(Broken("the header contradicts itself"));
        }
        if self.level > 0 && self.count == 0 {
            return Err(Broken("an inner page without children"));
        }
        Ok(())
    }

    #[inline]
    pub(crate) fn is_leaf(&self) -> bool {
        self.level == 0
    }

    #[inline]
    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    #[inline]
    pub(crate) fn heap(&self) -> usize {
        usize::from(self.heap)
    }

    #[inline]
    pub(crate) fn prefix(&self) -> usize {
        usize::from(self.prefix)
    }

    /// The bytes from one cell to the next.
    #[inline]
    pub(crate) fn stride(&self) -> usize {
        align(self.width.into())
    }

    /// The bytes of an entry in the two arrays.
    #[inline]
    pub(crate) fn step(&self) -> usize {
        HEAD + self.stride()
    }

    /// The capacity of the two arrays if they reached to the heap.
    pub(crate) fn cap_max(&self) -> usize {
        self.heap().saturating_sub(HEADER) / self.step()
    }

    /// The position of a head.
    #[inline]
    pub(crate) fn head_at(slot: usize) -> usize {
        HEADER + HEAD * slot
    }

    /// The position of a cell.
    #[inline]
    pub(crate) fn cell_at(&self, slot: usize) -> usize {
        Header::head_at(self.cap.into()) + self.stride() * slot
    }

    pub(crate) fn cells_end(&self) -> usize {
        HEADER + self.step() * usize::from(self.cap)
    }

    /// The free bytes between the cells and the heap.
    pub(crate) fn gap(&self) -> usize {
        self.heap().saturating_sub(self.cells_end())
    }

    /// The free bytes after a rebuild.
    pub(crate) fn free(&self) -> usize {
        let taken = HEADER + self.step() * self.count();
        self.heap().saturating_sub(taken) + usize::from(self.garbage)
    }
}

/// The position and the length of an entry: the cell of a slotted page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    /// The first byte of the value.
    pub(crate) offset: u16,
    /// The length of the suffix, including its head.
    pub(crate) suffix: u16,
    pub(crate) value: u16,
}

impl Entry {
    #[inline]
    pub(crate) fn from_bits(bits: u64) -> Entry {
        Entry { offset: bits as u16, suffix: (bits >> 16) as u16, value: (bits >> 32) as u16 }
    }

    pub(crate) fn bits(self) -> u64 {
        u64::from(self.offset) | u64::from(self.suffix) << 16 | u64::from(self.value) << 32
    }

    #[inline]
    pub(crate) fn offset(self) -> usize {
        usize::from(self.offset)
    }

    #[inline]
    pub(crate) fn suffix_len(self) -> usize {
        usize::from(self.suffix)
    }

    #[inline]
    pub(crate) fn value_len(self) -> usize {
        usize::from(self.value)
    }

    /// The position and the length of the part of the suffix behind its head.
    #[inline]
    pub(crate) fn rest(self) -> (usize, usize) {
        (self.offset() + self.value_len(), self.suffix_len().saturating_sub(HEAD))
    }

    /// The bytes in the heap.
    pub(crate) fn size(self) -> usize {
        super::entry_size(self.suffix_len(), self.value_len())
    }
}
