//! The start and the end of a [`Worker`].

use std::fmt;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_coherence::MemoryError;
use latchwork_fabric::{AnyInbox, Port};
use latchwork_runtime::Handle;
use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, VerbError};

use crate::lines::{Node, Worker};
use crate::worker_core::Role;

/// The time between two checks of a leaving worker whether all is complete. Mostly the first check
/// succeeds.
pub(crate) const LEAVE_STEP: Duration = Duration::from_micros(5);
/// The time between two such checks after a hundred times this value (100 ms). By then the worker
/// most likely waits for something that failed, such as a memory node that does not answer.
const LEAVE_STEP_MAX: Duration = Duration::from_millis(1);

impl Worker {
    /// Starts a worker of `node` on the executor of `handle`. `port` and `inbox` connect the worker
    /// to the fabric.
    pub fn start(node: &Arc<Node>, port: Rc<Port>, inbox: AnyInbox, handle: &Handle) -> Worker {
        node.lines.clone().start(Role::Worker, node, port, inbox, handle)
    }

    /// Starts the handler, which covers for the other workers. The handler runs no tasks and parks
    /// whenever it can. The handler wakes for messages that arrive while no other worker polls, for
    /// alarms, and while the cores of awake workers are contended. Every node needs a handler.
    pub fn start_handler(
        node: &Arc<Node>,
        port: Rc<Port>,
        inbox: AnyInbox,
        handle: &Handle,
    ) -> Worker {
        node.lines.clone().start(Role::Handler, node, port, inbox, handle)
    }

    /// The node.
    pub fn node(&self) -> &Arc<Node> {
        &self.core.of
    }

    /// The port that connects the worker to the fabric.
    pub fn port(&self) -> &Rc<Port> {
        &self.core.port
    }

    /// Evicts a line now, unless the line is in use, has failed or has an operation outstanding.
    /// Returns whether the node gave the line up. For callers that know that the node is finished
    /// with the line.
    pub fn evict(&self, addr: GlobalAddr) -> bool {
        self.core.node.geometry.is_line(addr) && self.lines().evict(addr)
    }

    /// Whether the node may touch memory: its lease has not ended. Costs a look at the clock where
    /// there is a lease.
    ///
    /// What was read from the cache before, or written to it, counts when this is true: other nodes
    /// have had no part in these lines until now. An access by itself promises less. It looks at
    /// the lease when its worker begins a sweep, and the process may have been stopped since.
    pub fn still_member(&self) -> bool {
        !self.core.port.is_barred()
    }

    /// The number of evicted lines that this worker has copied and not yet written back.
    pub fn write_backs(&self) -> usize {
        self.core.write_backs.taken()
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
        let core = &*self.core;
        let waited = core.node.settings.deadline;
        let deadline = core.handle.now() + waited;
        // The code that started the finishers reports what they leave undone.
        while core.handle.finishers() > 0 && !core.port.is_barred() && core.handle.now() < deadline
        {
            core.handle.sleep(LEAVE_STEP).await;
        }
        let (begin, deadline) = (core.handle.now(), core.handle.now() + waited);
        loop {
            let in_flight = core.unfinished();
            strict_assert!(
                in_flight > 0 || core.letters.borrow().is_empty(),
                "a worker without a batch in flight waits for the end of a message"
            );
            strict_assert!(
                in_flight > 0 || core.write_backs.taken() == 0,
                "a worker without a batch in flight has a line that is not written back"
            );
            strict_assert!(
                in_flight > 0 || core.journal.as_ref().is_none_or(|own| own.taken() == 0),
                "a worker without a batch in flight has an operation with a journal slot"
            );
            if in_flight == 0 && core.epochs.stop(&core.handle) {
                return Ok(());
            }
            if in_flight == 0 && core.port.is_barred() {
                return Err(VerbError::SelfFenced.into());
            }
            if core.handle.now() >= deadline {
                return Err(MemoryError::Stuck { in_flight, waited });
            }
            let is_late = core.handle.now() - begin > 100 * LEAVE_STEP_MAX;
            core.handle.sleep(if is_late { LEAVE_STEP_MAX } else { LEAVE_STEP }).await;
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("node", &self.core.node.id).finish_non_exhaustive()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The other owner of the core is the state behind the door, which the core owns. So the
        // last handle takes the two apart.
        if Rc::strong_count(&self.core) == 2
            && let Some(lines) = self.core.lines.take()
        {
            lines.outlive();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
