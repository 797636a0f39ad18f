//! Which lines other nodes take away before they are used here again, for adaptive release.
//!
//! Lazy release (SELCC 4.1) bets that a line is used again before another node asks for it. Where nodes write the
//! same lines in turn the bet is lost each time, and the next writer pays for it: a refused atomic, a question
//! and a forward, where a line that had been given back would have cost one round trip. So the node remembers how
//! its bets ended, and gives lines back by itself where it keeps losing them.
//!
//! ```text
//!   obtained ──► lingers ──► watched ──┬── used again here ────────────► the bet is won
//!    (miss)      (the next   (no hit   └── taken away, used no more ───► the bet is lost
//!                 few misses) since)
//! ```
//!
//! What is used again at once, as long as the line lingers, is no part of the bet: a line that is given back a few
//! misses later has served these uses as well. A line that others take away even while it lingers, before it is
//! used again, shall not linger. Of lines that are given back nobody learns whether keeping them would have been
//! better, so one in [`TRIAL`] is kept in spite of all, and one in [`LOOK`] lingers.

use latchwork_runtime::sync::{AtomicU8, Ordering};
use latchwork_verbs::GlobalAddr;

/// Of so many contested lines one is kept.
pub(crate) const TRIAL: u64 = 64;
/// Of so many lines that shall not linger one does, to see whether that is still so.
pub(crate) const LOOK: u64 = 8;

/// A count between bounds, in four bits of a byte: how often one thing came rather than the other, of late.
#[derive(Clone, Copy)]
struct Count {
    shift: u8,
    /// Added for the one.
    step: u8,
    /// Taken for the other.
    undo: u8,
    /// From here on the one is expected.
    enough: u8,
}

/// Bets lost. Won ones weigh as much: each saves a miss, and a lost one costs about as much.
const LOST: Count = Count { shift: 0, step: 1, undo: 1, enough: 4 };
/// Lines taken away while they lingered, before they were used.
const HURRIED: Count = Count { shift: 4, step: 1, undo: 2, enough: 2 };

impl Count {
    const MOST: u8 = 7;
    const KNOWN: u8 = 8;
    const BITS: u8 = 15;

    /// The count, if there ever was one.
    fn of(self, cell: u8) -> Option<u8> {
        let bits = cell >> self.shift & Self::BITS;
        (bits & Self::KNOWN != 0).then_some(bits & Self::MOST)
    }

    /// The cell after one more. The first news of a line decides.
    fn counted(self, cell: u8, yes: bool) -> u8 {
        let after = match (self.of(cell), yes) {
            (None, true) => self.enough,
            (None, false) => self.enough - 1,
            (Some(before), true) => (before + self.step).min(Self::MOST),
            (Some(before), false) => before.saturating_sub(self.undo),
        };
        cell & !(Self::BITS << self.shift) | (Self::KNOWN | after) << self.shift
    }
}

/// What became of lines that were kept. Lines share cells, as branches share those of a branch predictor; what is used
/// most has its cell for itself most of the time. A line that was not here before is taken for one like all.
pub(crate) struct History {
    // Relaxed throughout: a count that is lost in a race is a bet forgotten.
    cells: Box<[AtomicU8]>,
    all: AtomicU8,
}

impl History {
    /// For a node with so many frames: several cells for each, since the lines that it had are more.
    pub(crate) fn new(frames: usize) -> History {
        let cells = (frames * 8).next_power_of_two().clamp(1 << 10, 1 << 24);
        History { cells: (0..cells).map(|_| AtomicU8::new(0)).collect(), all: AtomicU8::new(0) }
    }

    fn cell(&self, addr: GlobalAddr) -> &AtomicU8 {
        let hash = addr.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.cells[hash as usize & (self.cells.len() - 1)]
    }

    fn expects(&self, addr: GlobalAddr, count: Count) -> bool {
        let of = |cell: &AtomicU8| count.of(cell.load(Ordering::Relaxed));
        of(self.cell(addr)).or_else(|| of(&self.all)).is_some_and(|n| n >= count.enough)
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

    /// Whether the line is better given back.
    pub(crate) fn is_contested(&self, addr: GlobalAddr) -> bool {
        self.expects(addr, LOST)
    }

    /// Whether the line would be gone before it is used again at once.
    pub(crate) fn is_hurried(&self, addr: GlobalAddr) -> bool {
        self.expects(addr, HURRIED)
    }

    /// The line was `used` while it lingered, or was taken away before.
    pub(crate) fn lingered(&self, addr: GlobalAddr, used: bool) {
        self.count(addr, HURRIED, !used);
    }

    /// The line was taken away; `used` since it was watched, or not.
    pub(crate) fn taken(&self, addr: GlobalAddr, used: bool) {
        self.count(addr, LOST, !used);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use latchwork_verbs::MemoryNodeId;

    fn line(n: u64) -> GlobalAddr {
        GlobalAddr::new(MemoryNodeId(0), n << 11)
    }

    #[test]
    fn a_line_that_is_lost_is_contested_until_it_is_used_again() {
        let history = History::new(1 << 10);
        assert!(!history.is_contested(line(1)));
        (0..100).for_each(|_| history.taken(line(1), false));
        assert!(history.is_contested(line(1)));
        (0..4).for_each(|_| history.taken(line(1), true));
        assert!(!history.is_contested(line(1)), "a few uses outweigh whatever was before");
    }

    #[test]
    fn lines_without_history_are_taken_for_lines_like_all() {
        let history = History::new(1 << 16);
        history.taken(line(7), true);
        (0..1000).for_each(|n| history.taken(line(n), false));
        assert!(history.is_contested(line(5000)));
        (0..4).for_each(|_| history.taken(line(5000), true));
        assert!(!history.is_contested(line(5000)), "its own history counts for more");
        (0..100).for_each(|n| history.taken(line(n), true));
        assert!(!history.is_contested(line(6000)));
    }

    #[test]
    fn lines_linger_unless_they_are_taken_meanwhile_and_bets_are_counted_apart() {
        let history = History::new(1 << 10);
        assert!(!history.is_hurried(line(1)));
        (0..8).for_each(|_| history.taken(line(1), false));
        assert!(!history.is_hurried(line(1)) && history.is_contested(line(1)));
        (0..8).for_each(|_| history.lingered(line(1), false));
        assert!(history.is_hurried(line(1)));
        (0..4).for_each(|_| history.lingered(line(1), true));
        assert!(!history.is_hurried(line(1)) && history.is_contested(line(1)));
    }
}
