//! Lines for pages to come.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use crate::TreeError;

/// A line that is allocated but linked nowhere. Dropped, it waits for the next split: so an
/// operation that is cancelled, or finds that it needs no new page, loses nothing.
#[derive(Debug)]
pub(super) struct Spare {
    addr: GlobalAddr,
    home: Rc<RefCell<Vec<GlobalAddr>>>,
}

impl Spare {
    pub(super) fn addr(&self) -> GlobalAddr {
        self.addr
    }

    /// The line is part of the tree from now on.
    pub(super) fn keep(mut self) {
        self.addr = GlobalAddr::NULL;
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if !self.addr.is_null() {
            self.home.borrow_mut().push(self.addr);
        }
    }
}

impl<M: CoherentMemory> Tree<M> {
    /// A line for a new page.
    pub(super) async fn spare(&self) -> Result<Spare, TreeError> {
        let stored = self.spares.borrow_mut().pop();
        let addr = match stored {
            Some(addr) => addr,
            None => self.memory.allocate().await?,
        };
        Ok(Spare { addr, home: self.spares.clone() })
    }

    /// Frees the lines that this handle and its clones hold for splits to come. They are few, about
    /// as many as operations were in flight at once; call it before the last handle is dropped.
    ///
    /// # Errors
    /// When memory fails; lines not freed yet stay with the handle.
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
