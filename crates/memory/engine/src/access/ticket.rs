//! [`Ticket`]: keeps a line at this node for one local access.

use std::fmt;

use latchwork_cache::FrameId;
use latchwork_verbs::GlobalAddr;

use crate::protocol::CoherenceProtocol;
use crate::worker::Worker;

/// Keeps a line at this node for one local access; see
/// [`CoherentMemory::ensure`](latchwork_coherence::CoherentMemory::ensure).
///
/// A request of another node for the line is not granted until the ticket is dropped, or until
/// [`NodeSettings::lapse`](crate::NodeSettings::lapse) has passed since the request began to wait.
pub struct Ticket<P: CoherenceProtocol> {
    pub(super) worker: Worker<P>,
    pub(super) addr: GlobalAddr,
    pub(super) frame: FrameId,
    /// Whether the drop reports the end of the access. Then the node decides whether to keep the
    /// line. An upgrade or a lock clears the flag of the ticket that it replaces.
    pub(crate) ends_access: bool,
}

impl<P: CoherenceProtocol> fmt::Debug for Ticket<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ticket").field(&self.addr).finish()
    }
}

impl<P: CoherenceProtocol> Drop for Ticket<P> {
    fn drop(&mut self) {
        let inner = &self.worker.inner;
        inner.core.node.cache.frame(self.frame).unreserve();
        inner.core.let_go.set(true);
        if self.ends_access {
            inner.accessed(self.addr);
        }
    }
}
