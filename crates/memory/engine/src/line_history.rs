//! The history of lines: which lines other nodes take before their next local use. For adaptive
//! release.
//!
//! Lazy release (SELCC 4.1) predicts that a line is used here again before another node requests
//! the line. Where nodes write the same lines in turn, the prediction is wrong each time. The next
//! writer pays for a wrong prediction: a refused atomic, an invalidation request and a forward. A
//! released line would have cost the next writer one round trip. So the node counts how its
//! predictions ended, and releases a line early where they are mostly wrong.
//!
//! ```text
//!   obtained ──► recent ──► predicted ──┬── used again here ────────────► the prediction was right
//!    (miss)      (the next  (no hit     └── taken away, used no more ───► the prediction was wrong
//!                 few misses) since)
//! ```
//!
//! - A use while the line is recent does not count for the prediction. A release when the line
//!   leaves the recent lines would have served this use as well.
//! - A line is *contested* when its predictions were mostly wrong.
//! - A line that other nodes mostly take while it is recent, before its next use, is *hurried*. A
//!   line that is contested and hurried is released at the end of the access.
//! - The node never learns whether a released line would have been used again. So one contested
//!   line in [`TRIAL`] or more is kept all the same, and one hurried line in [`LOOK`] becomes
//!   recent.

use latchwork_cache::Ownership;
use latchwork_runtime::sync::{AtomicU16, Ordering};
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

/// One in this many contested lines is kept. Each step of certainty doubles the number.
pub(crate) const TRIAL: u64 = 64;
/// One in this many hurried lines becomes recent, to check whether the line is still hurried.
pub(crate) const LOOK: u64 = 64;

/// The prediction for a shared copy ends after this many later predictions of the worker for shared
/// copies.
pub(crate) const PREDICTION_MISSES: usize = 256;

/// A bounded count in some bits of a 16-bit cell of the history. One of two outcomes, the *yes*,
/// raises the count, and the other, the *no*, lowers the count. So the count says which outcome has
/// prevailed lately.
#[derive(Clone, Copy)]
struct Count {
    shift: u8,
    /// The mask of the bits, shifted down. The bits hold the count plus one, and zero as long as
    /// there is no count.
    bits: u16,
    /// The count after a first outcome that is a yes. After a first no, the count is one less.
    first: u8,
    /// The highest count.
    most: u8,
    /// A no subtracts this number. A yes adds one.
    undo: u8,
}

/// A yes is a wrong prediction for an exclusive line. A right prediction weighs as much, because a
/// right prediction saves a miss, and a wrong one costs about as much as a miss. From
/// [`LOST_ENOUGH`] on, the line is contested.
const LOST: Count = Count { shift: 0, bits: 0xf, first: 4, most: 7, undo: 1 };
const LOST_ENOUGH: u8 = 4;
/// As [`LOST`], for shared copies.
const LOST_SHARED: Count = Count { shift: 8, bits: 0xff, first: 8, most: 15, undo: 1 };
/// From this sum of the line's count and the count of all lines on, a shared copy is contested.
///
/// 1. Chance decides whether one shared copy is used again.
/// 2. A copy that is released by mistake costs misses of all workers of the node.
/// 3. The mistake lasts long, since the node then makes few predictions for that copy.
/// 4. So the count of the line alone does not decide, if the count of all lines differs.
const LOST_SHARED_ENOUGH: u8 = 18;
/// A yes is a recent line that another node took before the next use. From [`HURRIED_ENOUGH`] on,
/// the line is hurried.
const HURRIED: Count = Count { shift: 4, bits: 0xf, first: 2, most: 7, undo: 2 };
const HURRIED_ENOUGH: u8 = 2;

const _: () = assert!(LOST.fits() && LOST_SHARED.fits() && HURRIED.fits(), "a count has its bits");
const _: () = assert!(LOST.mask() & HURRIED.mask() == 0, "two counts share a bit");
const _: () = assert!((LOST.mask() | HURRIED.mask()) & LOST_SHARED.mask() == 0);
const _: () = assert!(LOST_ENOUGH <= LOST.most && HURRIED_ENOUGH <= HURRIED.most);
const _: () = assert!(LOST_SHARED_ENOUGH <= 2 * LOST_SHARED.most, "no sum reaches the threshold");

/// The highest certainty that an early release is better.
const SURE: u8 = 3;
const _: () = assert!(LOST.most - LOST_ENOUGH <= SURE, "the certainty of exclusive lines");
const _: () = assert!((2 * LOST_SHARED.most - LOST_SHARED_ENOUGH) / 4 <= SURE, "and of copies");

impl Count {
    /// Whether the count plus one fits the bits, and no outcome goes below zero or above the most.
    const fn fits(self) -> bool {
        (self.most as u16) < self.bits && self.first >= 1 && self.first <= self.most
    }

    /// The bits of the count in a cell.
    const fn mask(self) -> u16 {
        self.bits << self.shift
    }

    /// The count, if an outcome was ever counted.
    fn of(self, cell: u16) -> Option<u8> {
        ((cell >> self.shift & self.bits) as u8).checked_sub(1)
    }

    /// The cell after one more outcome.
    fn counted(self, cell: u16, yes: bool) -> u16 {
        let after = match (self.of(cell), yes) {
            (None, true) => self.first,
            (None, false) => self.first - 1,
            (Some(before), true) => (before + 1).min(self.most),
            (Some(before), false) => before.saturating_sub(self.undo),
        };
        strict_assert!(after <= self.most, "a count of {after} goes beyond {}", self.most);
        cell & !(self.bits << self.shift) | u16::from(after + 1) << self.shift
    }
}

/// The outcomes of predictions. Lines share cells, as branches share cells in a branch predictor.
/// Except in very large caches the cells outnumber the frames, so a line in the cache mostly has a
/// cell for itself. An exclusive line without an outcome uses the count of all lines. For a shared
/// copy, the count of the line and the count of all lines are summed.
pub(crate) struct History {
    // Relaxed throughout: a race loses a few outcomes at most.
    cells: Box<[AtomicU16]>,
    all: AtomicU16,
}

impl History {
    /// A history for a node with `frames` frames. Each frame has at least eight cells, because over
    /// time a node has more lines than frames. Caches of more than 2^21 frames have fewer cells.
    pub(crate) fn new(frames: usize) -> History {
        let cells = (frames * 8).next_power_of_two().clamp(1 << 10, 1 << 24);
        History { cells: (0..cells).map(|_| AtomicU16::new(0)).collect(), all: AtomicU16::new(0) }
    }

    fn cell(&self, addr: GlobalAddr) -> &AtomicU16 {
        strict_assert!(self.cells.len().is_power_of_two(), "a mask chooses the cell");
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

    /// Returns the certainty, 0 to 3, that an early release of the line is better. `None`: the line
    /// is not contested. `hold` is the node's ownership of the line.
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

    /// Whether another node would most likely take the line before its next use, even while the
    /// line is recent.
    pub(crate) fn is_hurried(&self, addr: GlobalAddr) -> bool {
        let (own, all) = self.counts(addr, HURRIED);
        own.or(all).is_some_and(|n| n >= HURRIED_ENOUGH)
    }

    /// Counts how a line's recent time ended: the line was `used`, or another node took it before a
    /// use.
    pub(crate) fn lingered(&self, addr: GlobalAddr, used: bool) {
        self.count(addr, HURRIED, !used);
    }

    /// Counts the end of a prediction for a line with the ownership `hold`. The prediction was
    /// right if the line was `used` before another node took it.
    pub(crate) fn taken(&self, addr: GlobalAddr, hold: Ownership, used: bool) {
        self.count(addr, predictions(hold), !used);
    }
}

fn predictions(hold: Ownership) -> Count {
    if hold == Ownership::Exclusive { LOST } else { LOST_SHARED }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use latchwork_verbs::MemoryNodeId;

    use super::*;

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
