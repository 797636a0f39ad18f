//! [`Spare`]: an allocated line for a future page.

use std::cell::RefCell;
use std::rc::Rc;

use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

/// A line that is allocated but not linked. A dropped spare stays for the next split. So an
/// operation that is cancelled, or that needs no new page, loses nothing.
#[derive(Debug)]
pub(super) struct Spare {
    addr: GlobalAddr,
    home: Rc<RefCell<Vec<GlobalAddr>>>,
}

impl Spare {
    /// A spare that goes back to `home`.
    pub(super) fn new(addr: GlobalAddr, home: Rc<RefCell<Vec<GlobalAddr>>>) -> Spare {
        Spare { addr, home }
    }

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
