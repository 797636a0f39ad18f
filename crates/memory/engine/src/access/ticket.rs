//! [`Ticket`]: keeps a line at this node for one local access.

use std::fmt;

use latchwork_cache::FrameId;
use latchwork_verbs::GlobalAddr;

use crate::lines::Worker;

/// Keeps a line at this node for one local access; see
/// [`CoherentMemory::ensure`](latchwork_coherence::CoherentMemory::ensure).
///
/// A request of another node for the line is not granted until the ticket is dropped, or until
/// [`NodeSettings::lapse`](crate::NodeSettings::lapse) has passed since the request began to wait.
pub struct Ticket {
    pub(super) worker: Worker,
    pub(super) addr: GlobalAddr,
    pub(super) frame: FrameId,
    /// Whether the drop reports the end of the access. Then the node decides whether to keep the
    /// line. An upgrade or a lock clears the flag of the ticket that it replaces.
    pub(crate) ends_access: bool,
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.addr).finish()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let core = &*self.worker.core;
        core.node.cache.frame(self.frame).unreserve();
        core.let_go.set(true);
        if self.ends_access {
            self.worker.lines().accessed(self.addr);
        }
    }
}
