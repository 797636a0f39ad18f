//! Lines that are allocated and not in the tree.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::removed::Removed;
use crate::RTreeError;

/// A line that is on a list of the handle again when this value is dropped. So an operation that is
/// cancelled loses nothing.
#[derive(Debug)]
pub(super) struct Listed<T: Copy = GlobalAddr> {
    line: T,
    is_done: bool,
    list: Rc<RefCell<Vec<T>>>,
}

impl<T: Copy> Listed<T> {
    pub(super) fn new(line: T, list: Rc<RefCell<Vec<T>>>) -> Listed<T> {
        Listed { line, is_done: false, list }
    }

    /// Takes the line off the list: it is in the tree, or it is freed.
    pub(super) fn done(mut self) {
        self.is_done = true;
    }
}

impl Listed {
    pub(super) fn addr(&self) -> GlobalAddr {
        self.line
    }
}

impl<T: Copy> Drop for Listed<T> {
    fn drop(&mut self) {
        if !self.is_done {
            self.list.borrow_mut().push(self.line);
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
        Ok(Listed::new(addr, self.spares.clone()))
    }

    /// Frees the lines that have left the tree.
    pub(super) async fn free_removed(&self) -> Result<(), RTreeError> {
        while let Some(line) = pop(&self.removed) {
            let Removed { page, holder } = line.line;
            // D5.
            self.persist_entry_in(holder).await?;
            self.memory.free(page).await?;
            line.done();
        }
        Ok(())
    }

    /// Frees the lines that this handle and its clones keep: those for future splits, and those
    /// that have left the tree. Call this before the last handle is dropped.
    ///
    /// # Errors
    /// When memory fails. Lines that are not freed yet stay with the handle.
    pub async fn release_spares(&self) -> Result<(), RTreeError> {
        self.tidy_all_left().await?;
        self.free_removed().await?;
        while let Some(line) = pop(&self.spares) {
            self.memory.free(line.addr()).await?;
            line.done();
        }
        Ok(())
    }
}

fn pop<T: Copy>(list: &Rc<RefCell<Vec<T>>>) -> Option<Listed<T>> {
    let stored = list.borrow_mut().pop();
    stored.map(|line| Listed::new(line, list.clone()))
}
