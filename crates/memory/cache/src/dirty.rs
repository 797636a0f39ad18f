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

    /// Returns these bounds if they are whole words inside a line of `len` bytes. Otherwise returns
    /// the bounds of the whole line. For bounds from a peer: a wrong peer must not make this node
    /// read beyond a frame.
    #[must_use]
    pub fn within(self, len: usize) -> Self {
        let words = (self.low | self.high).is_multiple_of(8);
        match self.is_empty() || (words && self.high as usize <= len) {
            true => self,
            false => DirtyBounds::of(0..len),
        }
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
    fn bounds_that_leave_the_line_become_those_of_the_line() {
        let whole = DirtyBounds::of(0..512);
        for (low, high, bounds) in [
            (16, 24, DirtyBounds::of(16..24)),
            (0, 512, whole),
            (0, 520, whole),
            (504, u64::from(u32::MAX), whole),
            (3, 24, whole),
            (16, 21, whole),
            (24, 16, DirtyBounds::from_bits(24 << 32 | 16)),
        ] {
            assert_eq!(
                DirtyBounds::from_bits(low << 32 | high).within(512),
                bounds,
                "{low}..{high}"
            );
        }
        assert_eq!(DirtyBounds::EMPTY.within(512), DirtyBounds::EMPTY);
    }

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
