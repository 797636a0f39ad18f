//! A copy for tests of single lines.

use crate::{Hold, LocalCopy, Want};

/// A copy that no local code uses. As soon as it is taken away, a transaction of another thread is
/// seen to have locked it to write: the transaction comes too late, and has not yet noticed.
#[derive(Default)]
pub(super) struct Unused {
    is_locked: bool,
}

impl LocalCopy for Unused {
    fn publish(&mut self, _: Hold) {}
    fn promote(&mut self) {}
    fn try_suspend(&mut self) -> bool {
        true
    }
    fn restore(&mut self) {}
    fn lose(&mut self) {}
    fn try_invalidate(&mut self) -> bool {
        self.is_locked = true;
        true
    }
    fn try_demote(&mut self) -> bool {
        self.is_locked = true;
        true
    }
    fn locked(&self) -> Option<Want> {
        self.is_locked.then_some(Want::Exclusive)
    }
}
