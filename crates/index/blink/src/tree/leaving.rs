//! [`Leaving`]: what a handle knows of pages on their way out of the tree.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use latchwork_verbs::GlobalAddr;

use crate::page::Page;

/// Pages that have left the tree or may leave it. All clones of a handle share them.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    /// The lines of pages that have left the tree and are not freed yet.
    pub(super) lines: Rc<RefCell<Vec<GlobalAddr>>>,
    /// The low fence of an empty leaf that a scan has met, until a removal takes it out.
    met: RefCell<Option<Vec<u8>>>,
    /// The low fence of an empty leaf that had to stay. A scan that meets it again is silent.
    stays: RefCell<Vec<u8>>,
    /// Whether this handle has met a page in a line that was used before.
    pub(super) has_used: Cell<bool>,
    pub(super) unlinked: Cell<u64>,
    pub(super) freed: Cell<u64>,
}

impl Leaving {
    /// Notes an empty leaf: its removal was dropped before the leaf left the tree, or the node of
    /// the removal has died, or the left sibling had no room. The read may be inconsistent; the
    /// removal looks again.
    #[cold]
    pub(super) fn meet(&self, leaf: &Page<'_>) {
        let low = leaf.low();
        // The first leaf of the tree always stays.
        if !low.is_empty() && *self.stays.borrow() != low {
            *self.met.borrow_mut() = Some(low);
        }
    }

    #[inline]
    pub(super) fn has_met(&self) -> bool {
        self.met.borrow().is_some()
    }

    pub(super) fn take_met(&self) -> Option<Vec<u8>> {
        self.met.take()
    }

    pub(super) fn stays(&self, low: Vec<u8>) {
        *self.stays.borrow_mut() = low;
    }
}
