//! Which lines other nodes take away before they are used here again, for adaptive release.
//!
//! Lazy release (SELCC 4.1) bets that a line is used again before another node asks for it. Where
//! nodes write the same lines in turn the bet is lost each time, and the next writer pays for it: a
//! refused atomic, a question and a forward, where a line that had been given back would have cost
//! one round trip. So the node remembers how its bets ended, and gives lines back by itself where
//! it keeps losing them.
//!
//! ```text
//!   obtained ──► lingers ──► watched ──┬── used again here ────────────► the bet is won
//!    (miss)      (the next   (no hit   └── taken away, used no more ───► the bet is lost
//!                 few misses) since)
//! ```
//!
//! What is used again at once, as long as the line lingers, is no part of the bet: a line that is
//! given back a few misses later has served these uses as well. A line that others take away even
//! while it lingers, before it is used again, shall not linger. Of lines that are given back nobody
//! learns whether keeping them would have been better, so one in [`TRIAL`] or more is kept in spite
//! of all, and one in [`LOOK`] lingers.

use latchwork_cache::Ownership;
use latchwork_runtime::sync::{AtomicU16, Ordering};
use latchwork_verbs::GlobalAddr;

/// Of so many contested lines one is kept; of twice as many for each step that it is surer.
pub(crate) const TRIAL: u64 = 64;
/// Of so many lines that shall not linger one does, to see whether that is still so.
pub(crate) const LOOK: u64 = 64;

/// After so many misses a bet on a copy to read is over.
pub(crate) const BET_MISSES: usize = 256;

/// A count between bounds, in some bits of a cell: how often one thing came rather than the other,
/// of late.
#[derive(Clone, Copy)]
struct Count {
    shift: u8,
    /// The bits, shifted down. They hold one more than the count, and zero as long as there is
    /// none.
    bits: u16,
    /// The count after the first news, if the one came; one less if the other.
    first: u8,
    most: u8,
    /// Taken for the other; one is added for the one.
    undo: u8,
}

/// Bets lost. Won ones weigh as much: each saves a miss, and a lost one costs about as much.
const LOST: Count = Count { shift: 0, bits: 0xf, first: 4, most: 7, undo: 1 };
const LOST_ENOUGH: u8 = 4;
/// As [`LOST`], of copies to read.
const LOST_SHARED: Count = Count { shift: 8, bits: 0xff, first: 8, most: 15, undo: 1 };
/// Of the line's count and that of all lines together. Each copy is used or lost by chance, and one
/// that is given back by mistake is missed by all workers of the node for long, since few bets are
/// made on it then: so the line's own bets alone do not decide where those of all say otherwise.
const LOST_SHARED_ENOUGH: u8 = 18;
/// Lines taken away while they lingered, before they were used.
const HURRIED: Count = Count { shift: 4, bits: 0xf, first: 2, most: 7, undo: 2 };
const HURRIED_ENOUGH: u8 = 2;

impl Count {
    /// The count, if there ever was one.
    fn of(self, cell: u16) -> Option<u8> {
        ((cell >> self.shift & self.bits) as u8).checked_sub(1)
    }

    /// The cell after one more.
    fn counted(self, cell: u16, yes: bool) -> u16 {
        let after = match (self.of(cell), yes) {
            (None, true) => self.first,
            (None, false) => self.first - 1,
            (Some(before), true) => (before + 1).min(self.most),
            (Some(before), false) => before.saturating_sub(self.undo),
        };
        cell & !(self.bits << self.shift) | u16::from(after + 1) << self.shift
    }
}

/// What became of lines that were kept. Lines share cells, as branches share those of a branch
/// predictor; what is used most has its cell for itself most of the time. A line that was not here
/// before is taken for one like all.
pub(crate) struct History {
    // Relaxed throughout: a count that is lost in a race is a bet forgotten.
    cells: Box<[AtomicU16]>,
    all: AtomicU16,
}

impl History {
    /// For a node with so many frames: several cells for each, since the lines that it had are
    /// more.
    pub(crate) fn new(frames: usize) -> History {
        let cells = (frames * 8).next_power_of_two().clamp(1 << 10, 1 << 24);
        History { cells: (0..cells).map(|_| AtomicU16::new(0)).collect(), all: AtomicU16::new(0) }
    }

    fn cell(&self, addr: GlobalAddr) -> &AtomicU16 {
        let hash = addr.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.cells[hash as usize & (self.cells.len() - 1)]
    }

    /// The counts of the line and of all lines.
    fn counts(&self, addr: GlobalAddr, count: Count) -> (Option<u8>, Option<u8>) {
        let of = |cell: &AtomicU16| count.of(cell.load(Ordering::Relaxed));
        (of(self.cell(addr)), of(&self.all))
    }

    fn count(&self, addr: GlobalAddr, count: Count, yes: bool) {
        for cell in [self.cell(addr), &self.all] {
            let before = cell.load(Ordering::Relaxed);
            let after = count.counted(before, yes);
            if after != before {
                cell.store(after, Ordering::Relaxed);
            }
        }
    }

    /// Whether the line, held so, is better given back, and how sure that is: 0 to 3.
    pub(crate) fn contested(&self, addr: GlobalAddr, hold: Ownership) -> Option<u8> {
        if hold == Ownership::Exclusive {
            let (own, all) = self.counts(addr, LOST);
            own.or(all)?.checked_sub(LOST_ENOUGH)
        } else {
            let (own, all) = self.counts(addr, LOST_SHARED);
            let sum = own.unwrap_or(LOST_SHARED.first) + all?;
            Some(sum.checked_sub(LOST_SHARED_ENOUGH)? / 4)
        }
    }

    /// Whether the line would be gone before it is used again at once.
    pub(crate) fn is_hurried(&self, addr: GlobalAddr) -> bool {
        let (own, all) = self.counts(addr, HURRIED);
        own.or(all).is_some_and(|n| n >= HURRIED_ENOUGH)
    }

    /// The line was `used` while it lingered, or was taken away before.
    pub(crate) fn lingered(&self, addr: GlobalAddr, used: bool) {
        self.count(addr, HURRIED, !used);
    }

    /// The bet on a line that was held so is over: won, if the line was `used` before it was taken
    /// away.
    pub(crate) fn taken(&self, addr: GlobalAddr, hold: Ownership, used: bool) {
        self.count(addr, bets(hold), !used);
    }
}

fn bets(hold: Ownership) -> Count {
    if hold == Ownership::Exclusive { LOST } else { LOST_SHARED }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use latchwork_verbs::MemoryNodeId;

    const X: Ownership = Ownership::Exclusive;
    const S: Ownership = Ownership::Shared;

    fn is_contested(history: &History, addr: GlobalAddr) -> bool {
        history.contested(addr, X).is_some()
    }

    fn line(n: u64) -> GlobalAddr {
        GlobalAddr::new(MemoryNodeId(0), n << 11)
    }

    #[test]
    fn a_line_that_is_lost_is_contested_until_it_is_used_again() {
        let history = History::new(1 << 10);
        assert!(!is_contested(&history, line(1)));
        (0..100).for_each(|_| history.taken(line(1), X, false));
        assert!(is_contested(&history, line(1)));
        (0..4).for_each(|_| history.taken(line(1), X, true));
        assert!(!is_contested(&history, line(1)), "a few uses outweigh whatever was before");
    }

    #[test]
    fn lines_without_history_are_taken_for_lines_like_all() {
        let history = History::new(1 << 16);
        history.taken(line(7), X, true);
        (0..1000).for_each(|n| history.taken(line(n), X, false));
        assert!(is_contested(&history, line(5000)));
        (0..4).for_each(|_| history.taken(line(5000), X, true));
        assert!(!is_contested(&history, line(5000)), "its own history counts for more");
        (0..100).for_each(|n| history.taken(line(n), X, true));
        assert!(!is_contested(&history, line(6000)));
    }

    #[test]
    fn lines_linger_unless_they_are_taken_meanwhile_and_bets_are_counted_apart() {
        let history = History::new(1 << 10);
        assert!(!history.is_hurried(line(1)));
        (0..8).for_each(|_| history.taken(line(1), X, false));
        assert!(!history.is_hurried(line(1)) && is_contested(&history, line(1)));
        (0..8).for_each(|_| history.lingered(line(1), false));
        assert!(history.is_hurried(line(1)));
        (0..4).for_each(|_| history.lingered(line(1), true));
        assert!(!history.is_hurried(line(1)) && is_contested(&history, line(1)));
    }

    #[test]
    fn copies_to_read_are_counted_apart() {
        let history = History::new(1 << 10);
        (0..100).for_each(|_| history.taken(line(1), X, false));
        assert_eq!(history.contested(line(1), S), None);
        (0..3).for_each(|_| history.taken(line(1), S, false));
        assert_eq!(history.contested(line(1), S), Some(0));
        (0..100).for_each(|_| history.taken(line(1), S, false));
        assert_eq!(history.contested(line(1), S), Some(3), "as sure as can be");
        (0..100).for_each(|_| history.taken(line(1), X, true));
        assert_eq!(history.contested(line(1), S), Some(3));
        (0..7).for_each(|_| history.taken(line(1), S, true));
        assert_eq!(history.contested(line(1), S), None);
    }

    #[test]
    fn copies_that_are_mostly_read_stay_although_three_in_ten_are_lost() {
        let history = History::new(1 << 10);
        for n in 0..1000 {
            history.taken(line(1), S, ![0, 3, 7].contains(&(n % 10)));
            assert_eq!(history.contested(line(1), S), None);
        }
    }

    #[test]
    fn a_copy_is_judged_by_its_own_bets_and_by_those_of_all() {
        let history = History::new(1 << 16);
        (0..1000).for_each(|n| history.taken(line(n), S, false));
        assert!(history.contested(line(5000), S).is_some(), "as all are");
        (0..8).for_each(|_| history.taken(line(5000), S, true));
        (0..100).for_each(|n| history.taken(line(n), S, false));
        assert_eq!(history.contested(line(5000), S), None, "its own count for more");
        (0..100).for_each(|n| history.taken(line(n), S, true));
        (0..7).for_each(|_| history.taken(line(5001), S, false));
        (0..7).for_each(|n| history.taken(line(n), S, true));
        assert_eq!(history.contested(line(5001), S), None, "that is chance");
    }
}
