//! [`FrameCopy`]: the node's copy of a line, as a step of the protocol sees it.

use latchwork_cache::{DirtyBounds, Frame, Ownership};
use latchwork_coherence::AccessMode;

use crate::node_core::NodeCore;
use crate::record::LocalSide;
use crate::waiters::Waiters;

#[cfg(all(test, loom))]
mod interleavings;

/// The node's copy of a line, as a step of the protocol sees it: the frame and the waiters. Each
/// call takes effect at once.
pub struct FrameCopy<'a> {
    frame: Option<&'a Frame>,
    waiters: &'a mut Waiters,
    /// The dirty bounds of the copy that is published next.
    dirty: DirtyBounds,
    /// Reservations have expired.
    lapsed: bool,
    /// A local writer holds the latch in virtual time, or local accesses wait for the latch. Both
    /// come before requests of other nodes.
    held: bool,
}

impl LocalSide {
    /// The node's copy of the line, for one step. `dirty`: the dirty bounds of the copy if it is
    /// published. `lapsed`: reservations have expired. `held`: local code comes before requests of
    /// other nodes.
    #[inline]
    pub fn copy<'a>(
        &'a mut self,
        node: &'a NodeCore,
        dirty: DirtyBounds,
        lapsed: bool,
        held: bool,
    ) -> FrameCopy<'a> {
        let frame = self.frame.map(|id| node.cache.frame(id));
        FrameCopy { frame, waiters: &mut self.waiters, dirty, lapsed, held }
    }
}

impl FrameCopy<'_> {
    fn frame(&self) -> &Frame {
        self.frame.expect("a line that is held or being obtained has a frame")
    }

    #[inline]
    fn grant(&mut self, hold: Ownership) {
        let frame = self.frame.expect("a line that is held has a frame");
        self.waiters.grant(frame, hold);
    }

    #[inline]
    fn is_reserved(&self) -> bool {
        !self.lapsed && self.frame().is_reserved()
    }

    /// The number that the protocol keeps with the copy.
    pub fn note(&self) -> u32 {
        self.frame().note()
    }

    /// Sets the number that the protocol keeps with the copy.
    pub fn set_note(&mut self, note: u32) {
        self.frame().set_note(note);
    }

    /// Permits local code to use the bytes in the frame.
    #[inline]
    pub fn publish(&mut self, hold: Ownership) {
        self.frame().set_dirty(self.dirty);
        self.frame().publish(hold);
        self.grant(hold);
    }

    /// Permits local code to write the shared copy.
    #[inline]
    pub fn promote(&mut self) {
        self.frame().promote();
        self.grant(Ownership::Exclusive);
    }

    /// Forbids all use of the shared copy for a while. Fails if local code uses the copy, waits for
    /// its latch, or has it reserved or locked. Returns whether the use is forbidden. Upgrades do
    /// not end.
    pub fn try_suspend(&mut self) -> bool {
        !self.is_reserved() && !self.held && self.frame().try_invalidate()
    }

    /// Discards a suspended copy: upgrades end.
    pub fn lose(&mut self) {
        self.waiters.give_way();
    }

    /// Permits reads of a suspended copy again.
    pub fn restore(&mut self) {
        // No node had the line exclusively in the meantime, so the memory node has all its bytes.
        self.frame().set_dirty(DirtyBounds::EMPTY);
        self.frame().publish(Ownership::Shared);
        self.grant(Ownership::Shared);
    }

    /// Forbids all use of the copy, and ends upgrades. Fails if local code uses the copy, waits for
    /// its latch, or has it reserved or locked. Returns whether the use is forbidden.
    #[inline]
    pub fn try_invalidate(&mut self) -> bool {
        if self.is_reserved() || self.held || !self.frame().try_invalidate() {
            return false;
        }
        self.waiters.give_way();
        true
    }

    /// Forbids writing. Fails if local code is writing, waits for the latch, or has the copy
    /// reserved or locked to write. Returns whether writing is forbidden.
    pub fn try_demote(&mut self) -> bool {
        !self.is_reserved() && !self.held && self.frame().try_demote()
    }

    /// Counts these bytes of the line as changed, too.
    pub fn add_dirty(&mut self, dirty: DirtyBounds) {
        self.frame().set_dirty(self.frame().dirty().union(dirty));
    }

    /// Whether the copy has bytes that are not written back.
    pub fn is_dirty(&self) -> bool {
        !self.frame().dirty().is_empty()
    }

    /// The mode in which transactions of this node keep the copy here. A node lock counts as
    /// exclusive.
    pub fn locked(&self) -> Option<AccessMode> {
        match self.frame?.kept() {
            Ownership::Invalid => None,
            Ownership::Shared => Some(AccessMode::Shared),
            Ownership::Exclusive => Some(AccessMode::Exclusive),
        }
    }

    /// Ends the accesses that do not wait for locks, because another node has locked the line.
    /// Returns the strongest mode that the remaining accesses want; `mode`, if no access has ended.
    pub fn locked_out(&mut self, mode: AccessMode) -> Option<AccessMode> {
        self.waiters.lock_out(mode)
    }
}
