//! [`Unused`]: an allocated line that has no user yet.

use latchwork_coherence::MemoryError;
use latchwork_memnode::LineAllocator;
use latchwork_verbs::{GlobalAddr, Target, VerbError};

/// An allocated line that is not yet returned to the caller. Dropping it frees the line.
pub(super) struct Unused<'a> {
    pub(super) allocator: &'a LineAllocator,
    pub(super) addr: GlobalAddr,
}

impl Unused<'_> {
    pub(super) fn keep(self) -> GlobalAddr {
        let addr = self.addr;
        std::mem::forget(self);
        addr
    }

    /// Frees the line after its first write has failed. If the memory node is gone, its lines are
    /// allocated again after all other lines.
    pub(super) fn failed(self, error: &MemoryError) {
        if is_memory_node_gone(error) {
            // Cannot fail: the address came from this allocator.
            let _ = self.allocator.set_aside(self.keep());
        }
    }
}

impl Drop for Unused<'_> {
    fn drop(&mut self) {
        // Cannot fail: the address came from this allocator.
        let _ = self.allocator.give_back(self.addr);
    }
}

/// Whether another line of the same memory node would fail, too.
fn is_memory_node_gone(error: &MemoryError) -> bool {
    use VerbError::{Disconnected, Unreachable};
    matches!(
        error,
        MemoryError::Fabric(
            Disconnected { target: Target::Memory(_) } | Unreachable { target: Target::Memory(_) }
        )
    )
}
