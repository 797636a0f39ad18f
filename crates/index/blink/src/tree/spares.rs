//! The allocated lines that a handle keeps for future pages, and those of pages that left the tree.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use super::spare::Spare;
use crate::TreeError;

impl<M: CoherentMemory> Tree<M> {
    /// Returns a line for a new page.
    pub(super) async fn spare(&self) -> Result<Spare, TreeError> {
        let stored = self.spares.borrow_mut().pop();
        let addr = match stored {
            Some(addr) => addr,
            None => self.memory.allocate().await?,
        };
        strict_assert!(!addr.is_null(), "a spare line has an address");
        strict_assert!(!self.spares.borrow().contains(&addr), "a spare line is given out twice");
        Ok(Spare::new(addr, self.spares.clone()))
    }

    /// Frees the lines that this handle and its clones keep: those for future splits, about as many
    /// as operations were in flight at once, and those of pages that have left the tree. Call this
    /// before the last handle is dropped.
    ///
    /// # Errors
    /// When memory fails. Lines that are not freed yet stay with the handle.
    pub async fn release_spares(&self) -> Result<(), TreeError> {
        self.free_unlinked().await?;
        while self.free_one(&self.spares).await? {}
        Ok(())
    }

    /// Frees the lines of pages that have left the tree.
    pub(super) async fn free_unlinked(&self) -> Result<(), TreeError> {
        while self.free_one(&self.leaving.lines).await? {
            self.leaving.freed.set(self.leaving.freed.get() + 1);
            self.memory.count_leaves(0, 1);
        }
        Ok(())
    }

    /// Frees one of `lines`. Returns false if there is none.
    async fn free_one(&self, lines: &Rc<RefCell<Vec<GlobalAddr>>>) -> Result<bool, TreeError> {
        let stored = lines.borrow_mut().pop();
        let Some(addr) = stored else { return Ok(false) };
        let line = Spare::new(addr, lines.clone());
        match self.memory.free(line.addr()).await {
            // An earlier call was dropped after it had freed the line.
            Ok(()) | Err(MemoryError::NotAllocated { .. }) => line.keep(),
            Err(error) => {
                // Behind all others, which may be on other memory nodes.
                line.keep();
                lines.borrow_mut().insert(0, addr);
                return Err(error.into());
            }
        }
        Ok(true)
    }
}
