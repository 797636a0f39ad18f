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
//! What is used again at once, as long as the line lingers, says nothing: a line that is given back a few
//! misses later has served these uses as well. Of lines that are given back nobody learns whether keeping them would
//! have been better, so one in [`TRIAL`] is kept in spite of all, and watched.

use latchwork_runtime::sync::{AtomicU8, Ordering};
use latchwork_verbs::GlobalAddr;

/// A line without history. From [`LEAST`] on a cell counts.
const UNKNOWN: u8 = 0;
/// Bets were won of late.
const LEAST: u8 = 1;
/// From here on lines are given back.
const CONTESTED: u8 = 4;
/// What is known is forgotten again as quickly as it was learnt.
const MOST: u8 = 7;
/// One won bet weighs as much as so many lost ones: it saves a miss, and a lost one costs about as much.
const WON: u8 = 1;
/// The node's bets together: so many lost ones, each won one weighed as above, until lines without history are given
/// back.
const MOSTLY_LOST: u8 = 128;
/// Of so many contested lines one is kept.
pub(crate) const TRIAL: u64 = 32;

/// How bets on lines ended. Lines share cells, as branches share those of a branch predictor; what is used most
/// has its cell for itself most of the time. A line that was not here before is taken for one like all.
pub(crate) struct History {
    // Relaxed throughout: a count that is lost in a race is a bet forgotten.
    cells: Box<[AtomicU8]>,
    all: AtomicU8,
}

impl History {
    /// For a node with so many frames: several cells for each, since the lines that it had are more.
    pub(crate) fn new(frames: usize) -> History {
        let cells = (frames * 8).next_power_of_two().clamp(1 << 10, 1 << 24);
        History {
            cells: (0..cells).map(|_| AtomicU8::new(UNKNOWN)).collect(),
            all: AtomicU8::new(0),
        }
    }

    fn cell(&self, addr: GlobalAddr) -> &AtomicU8 {
        let hash = addr.bits().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.cells[hash as usize & (self.cells.len() - 1)]
    }

    /// Whether the line is better given back.
    pub(crate) fn is_contested(&self, addr: GlobalAddr) -> bool {
        match self.cell(addr).load(Ordering::Relaxed) {
            UNKNOWN => self.all.load(Ordering::Relaxed) >= MOSTLY_LOST,
            lost => lost >= CONTESTED,
        }
    }

    /// The line was taken away; `used` since it was watched, or not.
    pub(crate) fn taken(&self, addr: GlobalAddr, used: bool) {
        let count = |cell: &AtomicU8, least: u8, most: u8| {
            let before = cell.load(Ordering::Relaxed);
            let after = match before {
                _ if used => before.saturating_sub(WON).max(least),
                UNKNOWN if least > UNKNOWN => CONTESTED,
                _ => before.saturating_add(1).min(most),
            };
            if after != before {
                cell.store(after, Ordering::Relaxed);
            }
        };
        count(self.cell(addr), LEAST, MOST);
        count(&self.all, 0, u8::MAX);
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
        let history = History::new(16);
        assert!(!history.is_contested(line(1)));
        (0..100).for_each(|_| history.taken(line(1), false));
        assert!(history.is_contested(line(1)));
        assert!(!history.is_contested(line(2)), "another line");
        (0..4).for_each(|_| history.taken(line(1), true));
        assert!(!history.is_contested(line(1)), "a few uses outweigh whatever was before");
    }

    #[test]
    fn lines_without_history_are_taken_for_lines_like_all() {
        let history = History::new(1 << 16);
        (0..1000).for_each(|n| history.taken(line(n), false));
        assert!(history.is_contested(line(5000)));
        history.taken(line(5000), true);
        assert!(!history.is_contested(line(5000)), "its own history counts for more");
        (0..200).for_each(|n| history.taken(line(n), true));
        assert!(!history.is_contested(line(6000)));
    }
}
