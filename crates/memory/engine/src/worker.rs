//! [`Worker`]: one worker's view of coherent memory, and its poller.

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_coherence::MemoryError;
use latchwork_fabric::{AnyInbox, Port};
use latchwork_runtime::Handle;
use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, VerbError};

use crate::inner::{Inner, Kept, Role};
use crate::node::CoherenceNode;
use crate::poller::Pump;
use crate::protocol::CoherenceProtocol;

/// One worker's view of its node's coherent memory.
///
/// Clones are cheap and stand for the same worker. The worker's executor polls for the node:
/// completions, messages, alarms and eviction. All workers of a node poll, and each worker that
/// polls serves the whole node. The polling ends when no clone exists and nothing that the worker
/// posted is in flight.
pub struct Worker<P: CoherenceProtocol> {
    pub(crate) inner: Rc<Inner<P>>,
}

impl<P: CoherenceProtocol> Clone for Worker<P> {
    fn clone(&self) -> Self {
        Worker { inner: self.inner.clone() }
    }
}

/// The time between two checks of a leaving worker whether all is complete. Mostly the first check
/// succeeds.
pub(crate) const LEAVE_STEP: Duration = Duration::from_micros(5);
/// The time between two such checks after a hundred times this value (100 ms). By then the worker
/// most likely waits for something that failed, such as a memory node that does not answer.
const LEAVE_STEP_MAX: Duration = Duration::from_millis(1);

impl<P: CoherenceProtocol> Worker<P> {
    /// Starts a worker of `node` on the executor of `handle`. `port` and `inbox` connect the worker
    /// to the fabric.
    pub fn start(
        node: &Arc<CoherenceNode<P>>,
        port: Rc<Port>,
        inbox: AnyInbox,
        handle: &Handle,
    ) -> Worker<P> {
        Self::start_as(Role::Worker, node, port, inbox, handle)
    }

    /// Starts the handler, which covers for the other workers. The handler runs no tasks and parks
    /// whenever it can. The handler wakes for messages that arrive while no other worker polls, for
    /// alarms, and while the cores of awake workers are contended. Every node needs a handler.
    pub fn start_handler(
        node: &Arc<CoherenceNode<P>>,
        port: Rc<Port>,
        inbox: AnyInbox,
        handle: &Handle,
    ) -> Worker<P> {
        Self::start_as(Role::Handler, node, port, inbox, handle)
    }

    fn start_as(
        role: Role,
        node: &Arc<CoherenceNode<P>>,
        port: Rc<Port>,
        inbox: AnyInbox,
        handle: &Handle,
    ) -> Worker<P> {
        let kept = Rc::new(Kept::<P>::default());
        let inner = Inner::new(role, node, port, inbox, handle, &kept);
        handle.add_poller(Rc::new(Pump { inner: Rc::downgrade(&inner), kept }));
        Worker { inner }
    }

    /// The node.
    pub fn node(&self) -> &Arc<CoherenceNode<P>> {
        &self.inner.node
    }

    /// The port that connects the worker to the fabric.
    pub fn port(&self) -> &Rc<Port> {
        &self.inner.core.port
    }

    /// Evicts a line now, unless the line is in use, has failed or has an operation outstanding.
    /// Returns whether the node gave the line up. For callers that know that the node is finished
    /// with the line.
    pub fn evict(&self, addr: GlobalAddr) -> bool {
        self.inner.core.node.geometry.is_line(addr) && self.inner.evict(addr)
    }

    /// The number of evicted lines that this worker has copied and not yet written back.
    pub fn write_backs(&self) -> usize {
        self.inner.core.write_backs.taken()
    }

    /// Ends the worker's part in the node.
    ///
    /// 1. The worker waits for its [finishers](Handle::spawn_finisher), at most until the deadline.
    /// 2. The worker waits until no batch of it is in flight. It waits again at most until the
    ///    deadline, for this step and the next.
    /// 3. The worker gives up its part in the node's epochs. That needs the end of its operations
    ///    in progress.
    ///
    /// Callers await this before the worker's thread ends: no other thread can take the worker's
    /// completions. After the return, the completions of clones are taken as long as the executor
    /// runs, even those of dropped clones.
    ///
    /// # Errors
    /// [`MemoryError::Stuck`] when the steps 2 and 3 take longer than the deadline;
    /// [`MemoryError::Fabric`] when the node may no longer touch memory, so that the worker cannot
    /// give up anything.
    pub async fn leave(self) -> Result<(), MemoryError> {
        let inner = &self.inner;
        let waited = inner.core.node.settings.deadline;
        let deadline = inner.core.handle.now() + waited;
        // The code that started the finishers reports what they leave undone.
        while inner.core.handle.finishers() > 0
            && !inner.core.port.is_barred()
            && inner.core.handle.now() < deadline
        {
            inner.core.handle.sleep(LEAVE_STEP).await;
        }
        let (begin, deadline) = (inner.core.handle.now(), inner.core.handle.now() + waited);
        loop {
            let in_flight = inner.unfinished();
            strict_assert!(
                in_flight > 0 || inner.core.letters.borrow().is_empty(),
                "a worker without a batch in flight waits for the end of a message"
            );
            strict_assert!(
                in_flight > 0 || inner.core.write_backs.taken() == 0,
                "a worker without a batch in flight has a line that is not written back"
            );
            if in_flight == 0 && inner.epochs.stop(&inner.core.handle) {
                return Ok(());
            }
            if in_flight == 0 && inner.core.port.is_barred() {
                return Err(VerbError::SelfFenced.into());
            }
            if inner.core.handle.now() >= deadline {
                return Err(MemoryError::Stuck { in_flight, waited });
            }
            let is_late = inner.core.handle.now() - begin > 100 * LEAVE_STEP_MAX;
            inner.core.handle.sleep(if is_late { LEAVE_STEP_MAX } else { LEAVE_STEP }).await;
        }
    }
}

impl<P: CoherenceProtocol> fmt::Debug for Worker<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("node", &self.inner.core.node.id).finish_non_exhaustive()
    }
}

impl<P: CoherenceProtocol> Drop for Worker<P> {
    fn drop(&mut self) {
        if Rc::strong_count(&self.inner) == 1 {
            self.inner.outlive();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
