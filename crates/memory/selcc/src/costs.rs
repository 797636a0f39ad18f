//! What work on cached lines costs in a simulated world, where it takes no time by itself.
//!
//! A worker's clock moves by what its work costs. That alone would not make two workers of a node
//! wait for each other: a critical section is one instant of the world, and nobody ever meets a
//! latch that is held. So a writer leaves in the frame until when it holds the latch, and whoever
//! comes with an earlier clock finds the line latched: local readers and writers, which come back
//! at that time, and requests of other nodes, which are served then.
//!
//! Waiting writers have their turns in the order in which they came, as with a fair latch: a writer
//! that goes from one hit to the next without a pause would else never meet those who wait, since
//! at each of its instants the latch is free.
//!
//! Only the end is kept. A worker whose clock is behind the writer's first instruction would have
//! found the latch free; it waits all the same, because the writes have happened already, and to
//! let it go ahead would let the two overlap.

use std::time::Duration;

use latchwork_cache::FrameId;
use latchwork_coherence::Mode;
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;

use crate::worker::Inner;

/// CPU times of work on cached lines. Posting and polling verbs are charged by the simulated
/// fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuCosts {
    /// A hit: finding the frame, and the local latch. As much for each look whether a line can be
    /// locked by a transaction, and for the end of a lock.
    pub hit: Duration,
    /// Reading or writing 1 KiB in the cache; each hit is charged for its whole line.
    pub copy_per_kib: Duration,
    /// How long a local writer holds the latch besides the copying.
    pub latch_hold: Duration,
    /// Serving a message of another node.
    pub message: Duration,
}

impl CpuCosts {
    pub(crate) fn copy(&self, bytes: usize) -> Duration {
        // In one piece: rounded down once.
        Duration::from_nanos(
            (self.copy_per_kib.as_nanos() as u64).saturating_mul(bytes as u64) / 1024,
        )
    }
}

impl Inner {
    /// Until when the frame's line is held by a local writer, when that is not over yet.
    pub(crate) fn held(&self, frame: FrameId) -> Option<Time> {
        self.costs?;
        let until = Time::from_nanos(self.node.cache.frame(frame).held_until());
        (until > self.handle.now()).then_some(until)
    }

    /// Whether a writer that comes now has to wait for its turn: a local writer holds the line, or
    /// others have waited longer.
    #[cold]
    pub(crate) fn is_held(&self, addr: GlobalAddr) -> bool {
        self.node.cache.find(addr).is_some_and(|id| {
            let frame = self.node.cache.frame(id);
            self.held(id).is_some() || (frame.is_awaited() && !frame.is_reserved())
        })
    }

    /// Until when a writer has to wait that comes to the line for the first time. Where others wait
    /// whose turn is now, it comes right behind them.
    pub(crate) fn held_for_newcomer(&self, frame: FrameId, mode: Mode) -> Option<Time> {
        self.held(frame).or_else(|| {
            let behind = self.costs.is_some()
                && mode == Mode::Exclusive
                && self.node.cache.frame(frame).is_awaited();
            behind.then(|| self.handle.now() + Duration::from_nanos(1))
        })
    }

    /// Charges for a try to lock a line for a transaction, or for the end of a lock.
    #[inline]
    pub(crate) fn charge_lock(&self) {
        if let Some(costs) = &self.costs {
            self.handle.charge(costs.hit);
        }
    }

    /// Charges for a read that hit. False when a writer holds the line.
    #[cold]
    pub(crate) fn charge_read(&self, costs: &CpuCosts, frame: FrameId) -> bool {
        let free = self.held(frame).is_none();
        if free {
            self.handle.charge(costs.hit + costs.copy(self.node.cache.line_size()));
        }
        free
    }

    /// Charges for the latch of a line that was read just before, and holds the line for as long.
    #[cold]
    pub(crate) fn charge_latch(&self, costs: &CpuCosts, frame: FrameId) {
        self.handle.charge(costs.latch_hold);
        self.node.cache.frame(frame).hold_until(self.handle.now().as_nanos());
    }

    /// Charges for a write that hit, and holds the line for as long.
    #[cold]
    pub(crate) fn charge_write(&self, costs: &CpuCosts, frame: FrameId) {
        self.handle.charge(costs.hit + costs.latch_hold + costs.copy(self.node.cache.line_size()));
        self.node.cache.frame(frame).hold_until(self.handle.now().as_nanos());
    }
}
