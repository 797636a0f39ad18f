//! [`Worker`]: one worker's view of coherent memory, and its poller.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_coherence::MemoryError;
use latchwork_fabric::{Inbox, Port};
use latchwork_runtime::Handle;
use latchwork_verbs::{GlobalAddr, VerbError};

use crate::node::Node;
use crate::poller::Pump;
use crate::worker_core::{Inner, Kept, Role};

/// One worker's view of its node's coherent memory.
///
/// Clones are cheap and stand for the same worker. The worker's executor polls for the node:
/// completions, messages, alarms and eviction. All workers of a node poll, and each worker that
/// polls serves the whole node. The polling ends when no clone exists and nothing that the worker
/// posted is in flight.
#[derive(Clone)]
pub struct Worker {
    pub(crate) inner: Rc<Inner>,
}

// The time between two checks whether all is complete. Mostly the first check succeeds.
pub(crate) const LEAVE_STEP: Duration = Duration::from_micros(5);
/// The same time when leaving takes longer than a hundred times this value. Then the worker waits
/// for something that failed, such as a memory node that does not answer.
const LEAVE_STEP_MAX: Duration = Duration::from_millis(1);

impl Worker {
    /// Starts a worker of `node` on the executor of `handle`. `port` and `inbox` connect the worker
    /// to the fabric.
    pub fn start(node: &Arc<Node>, port: Rc<Port>, inbox: Inbox, handle: &Handle) -> Worker {
        Self::start_as(Role::Worker, node, port, inbox, handle)
    }

    /// Starts the handler, which covers for the other workers. The handler runs no tasks, parks
    /// whenever it can, and is woken for messages that arrive while no other worker polls. Every
    /// node needs a handler.
    pub fn start_handler(
        node: &Arc<Node>,
        port: Rc<Port>,
        inbox: Inbox,
        handle: &Handle,
    ) -> Worker {
        Self::start_as(Role::Handler, node, port, inbox, handle)
    }

    fn start_as(
        role: Role,
        node: &Arc<Node>,
        port: Rc<Port>,
        inbox: Inbox,
        handle: &Handle,
    ) -> Worker {
        let kept = Rc::new(Kept::default());
        let inner = Inner::new(role, node, port, inbox, handle, &kept);
        handle.add_poller(Rc::new(Pump { inner: Rc::downgrade(&inner), kept }));
        Worker { inner }
    }

    /// The node.
    pub fn node(&self) -> &Arc<Node> {
        &self.inner.node
    }

    /// The port that connects the worker to the fabric.
    pub fn port(&self) -> &Rc<Port> {
        &self.inner.port
    }

    /// Evicts a line now, unless the line is in use or has an operation outstanding. Returns
    /// whether its release was posted. For callers that know that the node is finished with the
    /// line.
    pub fn evict(&self, addr: GlobalAddr) -> bool {
        self.inner.node.geometry.is_line(addr) && self.inner.evict(addr)
    }

    /// The number of evicted lines that this worker has copied and not yet written back.
    pub fn write_backs(&self) -> usize {
        self.inner.write_backs.taken()
    }

    /// Ends the worker's part in the node.
    ///
    /// 1. The worker waits for its [finishers](Handle::spawn_finisher), at most until the deadline.
    /// 2. The worker waits until no batch of it is in flight, again at most until the deadline.
    /// 3. The worker gives up its part in the node's epochs.
    ///
    /// Callers await this before the worker's thread ends: no other thread can take the worker's
    /// completions. After the return, the completions of clones are taken as long as the executor
    /// runs, even those of dropped clones.
    ///
    /// # Errors
    /// [`MemoryError::Stuck`] when that takes longer than the deadline; [`MemoryError::Fabric`]
    /// when the node may no longer touch memory, so that the worker cannot give up anything.
    pub async fn leave(self) -> Result<(), MemoryError> {
        let inner = &self.inner;
        let waited = inner.node.settings.deadline;
        let deadline = inner.handle.now() + waited;
        // The code that started the finishers reports what they leave undone.
        while inner.handle.finishers() > 0
            && !inner.port.is_barred()
            && inner.handle.now() < deadline
        {
            inner.handle.sleep(LEAVE_STEP).await;
        }
        let (begin, deadline) = (inner.handle.now(), inner.handle.now() + waited);
        loop {
            let in_flight = inner.unfinished();
            if in_flight == 0 && inner.epochs.stop(&inner.handle) {
                return Ok(());
            }
            if in_flight == 0 && inner.port.is_barred() {
                return Err(VerbError::Barred.into());
            }
            if inner.handle.now() >= deadline {
                return Err(MemoryError::Stuck { in_flight, waited });
            }
            let is_late = inner.handle.now() - begin > 100 * LEAVE_STEP_MAX;
            inner.handle.sleep(if is_late { LEAVE_STEP_MAX } else { LEAVE_STEP }).await;
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("node", &self.inner.node.id).finish_non_exhaustive()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if Rc::strong_count(&self.inner) == 1 {
            self.inner.outlive();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
