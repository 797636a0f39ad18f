//! Dirty bounds: the smallest byte range, in whole words, that covers every change since memory had
//! the line.

use std::ops::Range;

use latchwork_strict::strict_assert;

/// The dirty bounds of a line (SELCC 5.2.2), in bytes from the start of the line, rounded to words.
///
/// In the paper a pair of zeros means "nothing changed". Here that value differs from every range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct DirtyBounds {
    low: u32,
    high: u32,
}

impl DirtyBounds {
    /// Nothing changed.
    pub const EMPTY: DirtyBounds = DirtyBounds { low: u32::MAX, high: 0 };

    /// The bounds of one change.
    pub fn of(range: Range<usize>) -> Self {
        if range.is_empty() {
            return Self::EMPTY;
        }
        strict_assert!(range.end <= u32::MAX as usize - 8, "a line is shorter than 4 GiB");
        DirtyBounds { low: (range.start & !7) as u32, high: range.end.next_multiple_of(8) as u32 }
    }

    /// The bounds of both changes.
    #[must_use]
    pub fn union(self, other: DirtyBounds) -> Self {
        strict_assert!(self.is_empty() || self.low.is_multiple_of(8), "bounds are whole words");
        strict_assert!(self.is_empty() || self.high.is_multiple_of(8));
        DirtyBounds { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// Whether nothing changed.
    pub fn is_empty(self) -> bool {
        self.low >= self.high
    }

    /// The byte range, empty when nothing changed.
    pub fn range(self) -> Range<usize> {
        if self.is_empty() { 0..0 } else { self.low as usize..self.high as usize }
    }

    /// The bounds packed into a word: low in the upper half, high in the lower half.
    pub fn bits(self) -> u64 {
        u64::from(self.low) << 32 | u64::from(self.high)
    }

    /// The bounds that [`DirtyBounds::bits`] packed.
    pub fn from_bits(bits: u64) -> Self {
        DirtyBounds { low: (bits >> 32) as u32, high: bits as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_differs_from_full_and_ranges_grow_to_words() {
        assert!(DirtyBounds::EMPTY.is_empty());
        assert!(DirtyBounds::of(5..5).is_empty());
        assert_eq!(DirtyBounds::of(0..1).range(), 0..8);
        let both = DirtyBounds::of(9..10).union(DirtyBounds::of(40..48));
        assert_eq!(both.range(), 8..48);
        assert_eq!(both.union(DirtyBounds::EMPTY), both);
        assert_eq!(DirtyBounds::from_bits(both.bits()), both);
        assert_eq!(DirtyBounds::from_bits(DirtyBounds::EMPTY.bits()), DirtyBounds::EMPTY);
    }
}
