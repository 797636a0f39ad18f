//! [`LineHeader`]: the bytes at the head of every line.

use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};
use latchwork_verbs::{LINE_HEADER, Words};

const LIVE: u32 = 1;
const _: () = assert!(LINE_HEADER >= 24, "the header has room for its three words");

/// The count of a line's allocations, modulo 2^32 and without 0. Two equal addresses mean the same
/// object only if the incarnations are equal too. The number is never 0 on a line that was
/// allocated before.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Incarnation(pub u32);

/// The header of a line, seen through the whole line's words.
///
/// ```text
///  byte 0           4         8                16                 24          32
///  | incarnation u32 | flags u32 | sequence number | commit timestamp | reserved | payload ..
///                      bit 0: live
/// ```
///
/// The allocator never accesses a line. A task that allocates or frees a line holds it exclusively
/// and calls [`begin_life`](LineHeader::begin_life) or [`end_life`](LineHeader::end_life). The
/// reading methods may race with a writer. A value that they return is valid only after the caller
/// has validated the version of the cache frame. The sequence number and the commit timestamp are
/// reserved for recovery. No code uses them yet.
#[derive(Clone, Copy, Debug)]
pub struct LineHeader<'a>(Words<'a>);

impl<'a> LineHeader<'a> {
    /// The header of the line whose words (header and payload) are `line`.
    pub fn of(line: Words<'a>) -> Self {
        LineHeader(line)
    }

    /// The incarnation.
    pub fn incarnation(self) -> Incarnation {
        Incarnation(self.0.u32(0))
    }

    /// Whether the line is allocated: between `begin_life` and `end_life`.
    pub fn is_live(self) -> bool {
        self.0.u32(4) & LIVE != 0
    }

    /// Marks the line as allocated under the next incarnation, and returns that incarnation. The
    /// sequence number and the commit timestamp stay.
    pub fn begin_life(self) -> Incarnation {
        // 0 means a line that was never allocated, even when the counter wraps.
        let next = self.incarnation().0.wrapping_add(1).max(1);
        strict_assert_ne!(next, 0, "0 stands for a line that was never allocated");
        self.0.set_u64(0, u64::from(next) | u64::from(LIVE) << 32);
        strict_assert_eq!(self.incarnation(), Incarnation(next));
        Incarnation(next)
    }

    /// Marks the line as free. Returns `false` and changes nothing when the line was not live: a
    /// double free.
    #[must_use]
    pub fn end_life(self) -> bool {
        let live = self.is_live();
        strict_assert!(!live || self.incarnation().0 > 0, "a live line was never allocated");
        if live {
            self.0.set_u32(4, self.0.u32(4) & !LIVE);
        }
        live
    }

    /// The sequence number.
    pub fn sequence(self) -> u64 {
        self.0.u64(8)
    }

    /// The words after the header.
    ///
    /// # Panics
    /// When the view is shorter than the header.
    pub fn payload(self) -> Words<'a> {
        self.0.slice(LINE_HEADER..self.0.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use super::*;

    #[test]
    fn each_life_has_an_incarnation_of_its_own_and_ends_once() {
        let memory: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let header = LineHeader::of(Words::new(&memory));
        assert!(!header.is_live());
        assert!(!header.end_life(), "never allocated");
        let first = header.begin_life();
        header.0.set_u64(8, 7);
        header.0.set_u64(16, 9);
        assert!(header.is_live() && header.end_life() && !header.is_live());
        assert!(!header.end_life(), "double free");
        let second = header.begin_life();
        assert_ne!(first, second);
        assert_eq!(header.incarnation(), second);
        assert_eq!((header.sequence(), header.0.u64(16)), (7, 9));
    }

    #[test]
    fn a_wrapped_incarnation_skips_the_value_of_lines_that_never_lived() {
        let memory: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let words = Words::new(&memory);
        words.set_u32(0, u32::MAX);
        assert_eq!(LineHeader::of(words).begin_life(), Incarnation(1));
    }

    #[test]
    fn the_payload_starts_behind_the_header() {
        let memory: Vec<AtomicU64> = (0..64).map(|_| AtomicU64::new(0)).collect();
        let header = LineHeader::of(Words::new(&memory));
        header.payload().set_u64(0, 5);
        assert_eq!(header.payload().len(), 512 - LINE_HEADER);
        assert_eq!(memory[LINE_HEADER / 8].load(std::sync::atomic::Ordering::Relaxed), 5);
        assert_eq!((header.sequence(), header.0.u64(16)), (0, 0));
    }
}
