//! Lines that are allocated and not in the tree.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use crate::RTreeError;

/// A line that is on a list of the handle again when this value is dropped. So an operation that is
/// cancelled loses nothing.
#[derive(Debug)]
pub(super) struct Listed {
    addr: GlobalAddr,
    list: Rc<RefCell<Vec<GlobalAddr>>>,
}

impl Listed {
    pub(super) fn new(addr: GlobalAddr, list: Rc<RefCell<Vec<GlobalAddr>>>) -> Listed {
        Listed { addr, list }
    }

    pub(super) fn addr(&self) -> GlobalAddr {
        self.addr
    }

    /// Takes the line off the list: it is in the tree, or it is freed.
    pub(super) fn done(mut self) {
        self.addr = GlobalAddr::NULL;
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        if !self.addr.is_null() {
            self.list.borrow_mut().push(self.addr);
        }
    }
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Returns a line for a new page.
    pub(super) async fn spare(&self) -> Result<Listed, RTreeError> {
        let stored = self.spares.borrow_mut().pop();
        let addr = match stored {
            Some(addr) => addr,
            None => self.memory.allocate().await?,
        };
        Ok(Listed { addr, list: self.spares.clone() })
    }

    /// Frees the lines that have left the tree.
    pub(super) async fn free_removed(&self) -> Result<(), RTreeError> {
        self.free_all(&self.removed).await
    }

    /// Frees the lines that this handle and its clones keep: those for future splits, and those
    /// that have left the tree. Call this before the last handle is dropped.
    ///
    /// # Errors
    /// When memory fails. Lines that are not freed yet stay with the handle.
    pub async fn release_spares(&self) -> Result<(), RTreeError> {
        self.tidy_all_left().await?;
        self.free_all(&self.removed).await?;
        self.free_all(&self.spares).await
    }

    async fn free_all(&self, list: &Rc<RefCell<Vec<GlobalAddr>>>) -> Result<(), RTreeError> {
        loop {
            let stored = list.borrow_mut().pop();
            let Some(addr) = stored else { return Ok(()) };
            let line = Listed { addr, list: list.clone() };
            self.memory.free(addr).await?;
            line.done();
        }
    }
}
