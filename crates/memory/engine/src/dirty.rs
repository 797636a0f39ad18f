//! The dirty bytes of a line, on their way to memory.

use latchwork_cache::{DirtyBounds, FrameId};
use latchwork_verbs::{GlobalAddr, VerbError, Words, WorkRequest};

use crate::journal::{JournalSlot, Journaled};
use crate::worker_core::WorkerCore;
use crate::write_back::Slot;

impl WorkerCore {
    /// Takes the dirty bounds of a frame. Writers are shut out already, so the bounds cannot grow
    /// any more. With the setting `dirty_bounds` off, the bounds of a dirty line are the whole
    /// line.
    #[inline]
    pub fn take_dirty(&self, id: FrameId) -> DirtyBounds {
        let frame = self.node.cache.frame(id);
        let dirty = frame.dirty();
        frame.set_dirty(DirtyBounds::EMPTY);
        if dirty.is_empty() || self.node.settings.dirty_bounds {
            dirty
        } else {
            DirtyBounds::of(0..self.node.cache.line_size())
        }
    }

    /// Copies the dirty bytes of a line whose writers are shut out. `None` when the line is clean,
    /// no slot is free, or the node has no slots.
    #[inline]
    pub fn copy_out(&self, addr: GlobalAddr, id: FrameId, dirty: &DirtyBounds) -> Option<Slot> {
        let range = dirty.range();
        if range.is_empty() {
            return None;
        }
        let (len, line) = (range.len(), self.node.cache.line(id));
        let Some(slot) = self.write_backs.copy_out(addr.node(), &self.port, line, range) else {
            self.counters.write_backs_in_frame.add(1);
            return None;
        };
        if let Some(costs) = &self.costs {
            self.handle.charge(costs.copy(len));
        }
        self.counters.write_backs_copied.add(1);
        Some(slot)
    }

    /// Takes a journal slot for the write-back of these dirty bytes, if its WRITE can be torn, and
    /// copies them: from `copy`, or from frame `id`, of which writers are shut out.
    ///
    /// # Errors
    /// [`VerbError::Unreachable`] when the worker has no slot on the memory node, and no operation
    /// will return one. Nothing was sent.
    pub fn journal(
        &self,
        addr: GlobalAddr,
        id: FrameId,
        copy: Option<&Slot>,
        dirty: DirtyBounds,
    ) -> Result<Journaled, VerbError> {
        let Some(own) = &self.journal else { return Ok(Journaled::Whole) };
        let take = |words: Words<'_>| own.take(&self.port, addr, words, dirty.range());
        let journaled = match copy {
            Some(slot) => self.write_backs.with(slot, take),
            None => take(self.node.cache.line(id)),
        }?;
        if let (Journaled::Slot(_), Some(costs)) = (&journaled, &self.costs) {
            self.handle.charge(costs.copy(dirty.range().len()));
        }
        Ok(journaled)
    }

    /// The requests of a write-back of these dirty bytes through their journal slot.
    pub fn journal_requests(
        &self,
        slot: JournalSlot,
        addr: GlobalAddr,
        dirty: DirtyBounds,
    ) -> [WorkRequest; 3] {
        let own = self.journal.as_ref().expect("a worker whose operation has a journal slot");
        own.requests(slot, addr, dirty.range())
    }

    /// Returns the journal slot of an operation that is over. `ended`: the operation was applied or
    /// never will be. Otherwise its line may be torn, and only the slot has all bytes: it is never
    /// used again.
    pub fn give_journal_back(&self, slot: JournalSlot, ended: bool) {
        if let Some(own) = &self.journal {
            own.give_back(slot, ended);
        }
    }

    /// Returns the slot, if any, of an operation that is over.
    #[inline]
    pub fn give_slot_back(&self, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.write_backs.give_back(&slot);
        }
    }
}
