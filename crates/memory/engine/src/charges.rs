//! The charged times of work on cached lines in a world, where work takes no time by itself; and
//! the refusal of hits where the node may not touch memory any more.
//!
//! The clock of a worker advances by the charged time of its work. A critical section is one
//! instant of the world, so no worker ever meets a held latch. Two workers of a node would not wait
//! for each other. Therefore a writer notes in the frame the time until which the writer holds the
//! latch. Every access with an earlier clock finds the line latched:
//!
//! - Local readers and writers come back at that time.
//! - Requests of other nodes are served at that time at the earliest.
//!
//! A writer that finds accesses waiting for the latch comes after them, much as with a fair latch.
//! Otherwise a writer that goes from hit to hit without a break would starve the waiting accesses,
//! because that writer always finds the latch free.
//!
//! The frame keeps only the end of the time for which the writer holds the latch. A worker whose
//! clock is before the begin of that time would find the latch free in reality. Here the worker
//! waits all the same: the bytes are changed already, so the worker cannot read the earlier bytes.

use std::time::Duration;

use latchwork_cache::FrameId;
use latchwork_coherence::AccessMode;
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;

use crate::worker_core::WorkerCore;

impl WorkerCore {
    /// The time until which a local writer holds the frame's line, if that time is in the future.
    #[inline]
    pub fn held(&self, frame: FrameId) -> Option<Time> {
        self.costs?;
        let until = Time::from_nanos(self.node.cache.frame(frame).held_until());
        (until > self.handle.now()).then_some(until)
    }

    /// Whether a new writer has to wait now, or may not write. A local writer holds the line, or
    /// accesses wait for the latch and no access has reserved the line.
    #[cold]
    pub(crate) fn is_held(&self, addr: GlobalAddr) -> bool {
        if self.port.is_barred() {
            return true;
        }
        self.node.cache.find(addr).is_some_and(|id| {
            let frame = self.node.cache.frame(id);
            self.held(id).is_some() || (frame.is_awaited() && !frame.is_reserved())
        })
    }

    /// The time until which an access waits at its first attempt on the line. A writer that finds
    /// other waiters comes directly after them.
    pub(crate) fn held_for_newcomer(&self, frame: FrameId, mode: AccessMode) -> Option<Time> {
        self.held(frame).or_else(|| {
            let behind = self.costs.is_some()
                && mode == AccessMode::Exclusive
                && self.node.cache.frame(frame).is_awaited();
            behind.then(|| self.handle.now() + Duration::from_nanos(1))
        })
    }

    /// Charges for an attempt to lock a line for a transaction. Returns false, without a charge,
    /// when the node may not touch memory.
    #[cold]
    pub(crate) fn charge_attempt(&self) -> bool {
        let may = !self.port.is_barred();
        if may {
            self.charge_lock();
        }
        may
    }

    /// Charges for the end of a lock of a transaction, for its conversion to a node lock, or for an
    /// attempt to lock.
    #[inline]
    pub(crate) fn charge_lock(&self) {
        if let Some(costs) = &self.costs {
            self.handle.charge(costs.hit);
        }
    }

    /// Charges for a copy of bytes by the CPU.
    pub fn charge_copy(&self, bytes: usize) {
        if let Some(costs) = &self.costs {
            self.handle.charge(costs.copy(bytes));
        }
    }

    /// Charges for a read that hit. Returns false, without a charge, when a writer holds the line,
    /// and when the node may not touch memory.
    #[cold]
    pub(crate) fn charge_read(&self, frame: FrameId) -> bool {
        if self.port.is_barred() {
            return false;
        }
        let Some(costs) = &self.costs else { return true };
        let free = self.held(frame).is_none();
        if free {
            self.handle.charge(costs.hit + costs.copy(self.node.cache.line_size()));
        }
        free
    }

    /// Charges for the latch of a line that was read just before, and holds the latch for that
    /// time. Returns false when the node may not touch memory.
    #[cold]
    pub(crate) fn charge_latch(&self, frame: FrameId) -> bool {
        if self.port.is_barred() {
            return false;
        }
        if let Some(costs) = &self.costs {
            self.handle.charge(costs.latch_hold);
            self.node.cache.frame(frame).hold_until(self.handle.now().as_nanos());
        }
        true
    }

    /// Charges for a write that hit, and holds the latch until the end of the charged time.
    #[cold]
    pub(crate) fn charge_write(&self, frame: FrameId) {
        let Some(costs) = &self.costs else { return };
        self.handle.charge(costs.hit + costs.latch_hold + costs.copy(self.node.cache.line_size()));
        self.node.cache.frame(frame).hold_until(self.handle.now().as_nanos());
    }
}
