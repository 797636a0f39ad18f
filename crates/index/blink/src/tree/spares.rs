//! The allocated lines that a handle keeps for future pages.

use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;

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

    /// Frees the lines that this handle and its clones keep for future splits. There are about as
    /// many lines as operations were in flight at once. Call this before the last handle is
    /// dropped.
    ///
    /// # Errors
    /// When memory fails. Lines that are not freed yet stay with the handle.
    pub async fn release_spares(&self) -> Result<(), TreeError> {
        loop {
            let stored = self.spares.borrow_mut().pop();
            let Some(addr) = stored else { return Ok(()) };
            let spare = Spare::new(addr, self.spares.clone());
            self.memory.free(spare.addr()).await?;
            spare.keep();
        }
    }
}
