//! Allocated lines for future pages.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_coherence::CoherentMemory;
use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use crate::TreeError;

/// A line that is allocated but not linked. A dropped spare stays for the next split. So an
/// operation that is cancelled, or that needs no new page, loses nothing.
#[derive(Debug)]
pub(super) struct Spare {
    addr: GlobalAddr,
    home: Rc<RefCell<Vec<GlobalAddr>>>,
}

impl Spare {
    pub(super) fn addr(&self) -> GlobalAddr {
        self.addr
    }

    /// Marks the line as a part of the tree.
    pub(super) fn keep(mut self) {
        self.addr = GlobalAddr::NULL;
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if !self.addr.is_null() {
            strict_assert!(
                !self.home.borrow().contains(&self.addr),
                "a spare line comes back twice"
            );
            self.home.borrow_mut().push(self.addr);
        }
    }
}

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
        Ok(Spare { addr, home: self.spares.clone() })
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
            let spare = Spare { addr, home: self.spares.clone() };
            self.memory.free(spare.addr()).await?;
            spare.keep();
        }
    }
}
