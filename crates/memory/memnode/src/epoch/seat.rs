//! [`Seat`]: the bound of one worker.

use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_strict::strict_assert;

use super::Epoch;

/// The bound of one worker, or the value RESTING. A task that publishes for the node reads all
/// seats.
///
/// A seat has CPU cache lines of its own, so that workers do not slow each other down.
#[repr(align(128))]
pub(super) struct Seat(pub(super) AtomicU64);

impl Seat {
    pub(super) const RESTING: Epoch = Epoch::NONE_OLDER;

    pub(super) fn set(&self, bound: Epoch) {
        strict_assert!(bound.0 > 0 && bound <= Self::RESTING, "a bound of {}", bound.0);
        // Release: the accesses of the operations that no longer count come before this store.
        self.0.store(bound.0, Ordering::Release);
    }

    pub(super) fn bound(&self) -> Epoch {
        Epoch(self.0.load(Ordering::Acquire))
    }
}
