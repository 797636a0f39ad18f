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
//! misses later has served these uses as well. But it is remembered, too: a line that is not used again at once need
//! not linger. Of lines that are given back nobody learns whether keeping them would have been better, so one in
//! [`TRIAL`] is kept in spite of all.

use latchwork_runtime::sync::{AtomicU8, Ordering};
use latchwork_verbs::GlobalAddr;

/// Of so many contested lines one is kept.
pub(crate) const TRIAL: u64 = 32;

/// A count between bounds, in some bits of a byte: how often one thing came rather than the other.
#[derive(Clone, Copy)]
struct Count {
    shift: u8,
    most: u8,
    /// Added for the one; for the other one is taken.
    step: u8,
    /// From here on the one is expected.
    enough: u8,
}

/// Bets lost. Won ones weigh as much: each saves a miss, and a lost one costs about as much.
const LOST: Count = Count { shift: 0, most: 7, step: 1, enough: 4 };
/// Lines used again as long as they lingered. Lingering is cheap, so one use in six is enough.
const AT_ONCE: Count = Count { shift: 3, most: 15, step: 5, enough: 5 };
/// Whether the cell was ever written.
const KNOWN: u8 = 0x80;

impl Count {
    fn of(self, cell: u8) -> u8 {
        cell >> self.shift & self.most
    }

    fn expects(self, cell: u8) -> bool {
        self.of(cell) >= self.enough
    }

    fn with(self, cell: u8, count: u8) -> u8 {
        cell & !(self.most << self.shift) | count << self.shift
    }

    fn counted(self, cell: u8, yes: bool) -> u8 {
        let before = self.of(cell);
        let after = if yes { before + self.step } else { before.saturating_sub(1) };
        self.with(cell, after.min(self.most))
    }

    /// The cell of a line of which nothing else is known than that it is like `all`, and this.
    fn first(self, all: u8, yes: bool) -> u8 {
        self.with(all, if yes { self.enough } else { self.enough - 1 })
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
        History { cells: (0..cells).map(|_| AtomicU8::new(0)).collect(), all: AtomicU8::new(KNOWN) }
    }

    fn cell(&self, addr: GlobalAddr) -> &AtomicU8 {
        let hash = addr.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.cells[hash as usize & (self.cells.len() - 1)]
    }

    fn known(&self, addr: GlobalAddr) -> u8 {
        match self.cell(addr).load(Ordering::Relaxed) {
            0 => self.all.load(Ordering::Relaxed),
            cell => cell,
        }
    }

    fn count(&self, addr: GlobalAddr, count: Count, yes: bool) {
        for cell in [self.cell(addr), &self.all] {
            let before = cell.load(Ordering::Relaxed);
            let after = match before {
                // The first news of a line decides.
                0 => count.first(self.all.load(Ordering::Relaxed), yes),
                _ => count.counted(before, yes),
            };
            if after != before {
                cell.store(after, Ordering::Relaxed);
            }
        }
    }

    /// Whether the line is better given back.
    pub(crate) fn is_contested(&self, addr: GlobalAddr) -> bool {
        LOST.expects(self.known(addr))
    }

    /// Whether the line will be used again at once.
    pub(crate) fn lingers(&self, addr: GlobalAddr) -> bool {
        AT_ONCE.expects(self.known(addr))
    }

    /// The line has lingered, and was `used` meanwhile, or not.
    pub(crate) fn lingered(&self, addr: GlobalAddr, used: bool) {
        self.count(addr, AT_ONCE, used);
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
    fn lines_that_are_used_at_once_linger_and_bets_are_counted_apart() {
        let history = History::new(1 << 10);
        assert!(!history.lingers(line(1)));
        (0..8).for_each(|_| history.taken(line(1), false));
        (0..100).for_each(|n| history.lingered(line(1), n % 4 == 0));
        assert!(history.lingers(line(1)) && history.is_contested(line(1)));
        (0..20).for_each(|_| history.lingered(line(1), false));
        assert!(!history.lingers(line(1)) && history.is_contested(line(1)));
    }
}
