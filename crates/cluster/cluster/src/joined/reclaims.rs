//! [`Reclaims`]: recovers the lines of dead compute nodes, and empties their epoch slots.
//!
//! ```text
//!   node C3 is dead       each node:  fence C3 ──► contact "fenced-C3 = EPOCH"
//!   (membership)                                        │ of every member
//!                                                       ▼
//!                         each compute node:  C3's epoch slot := empty
//!                                             (the first does it, the others find it done)
//! ```
//!
//! [`Peers`](latchwork_peers::Peers) decides when a reclaim is due. A slot does not say to which
//! member epoch it belongs. So a reclaim is correct only because the id of a dead node is given to
//! no other node, or only when no reclaim is left.

use std::rc::Rc;

use latchwork_engine::Node;
use latchwork_fabric::Port;
use latchwork_peers::RecoveryStep;
use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
use latchwork_strict::{strict_assert_eq, strict_assert_ne};
use latchwork_verbs::{ComputeNodeId, SetupError};

use crate::ports::Ports;
use crate::reclaim::empty_slot;
use crate::recover::{self, Swept};

/// An executor and a port for the reclaims of this process.
#[derive(Default)]
pub(super) struct Reclaims {
    // Made at the first death and kept, because a port's registered region is never removed.
    worker: Option<(Executor<RealDriver>, Rc<Port>)>,
}

impl Reclaims {
    /// Empties the epoch slot of a dead node, as the node `own`. Returns whether the slot is empty.
    /// After a failure the membership thread calls this again.
    pub(super) fn reclaim(
        &mut self,
        own: ComputeNodeId,
        ports: &Ports,
        dead: ComputeNodeId,
    ) -> bool {
        strict_assert_ne!(own, dead, "a node empties its own epoch slot");
        let Ok((executor, port)) = self.worker(own, ports) else { return false };
        let handle = executor.handle();
        executor.block_on(empty_slot(port, &handle, dead))
    }

    /// Takes a step of the recovery from the death of a node, and counts the words of a sweep in
    /// `swept`. Returns whether the step is over. After a failure, and when `goes_on` has returned
    /// false, the membership thread calls this again.
    pub(super) fn recover(
        &mut self,
        own: &Node,
        ports: &Ports,
        (step, dead): (RecoveryStep, ComputeNodeId),
        swept: &Swept,
        goes_on: &dyn Fn() -> bool,
    ) -> bool {
        let Ok((executor, port)) = self.worker(own.id(), ports) else { return false };
        let handle = executor.handle();
        executor.block_on(recover::take(step, own, (port, &handle), dead, swept, goes_on))
    }

    fn worker(
        &mut self,
        own: ComputeNodeId,
        ports: &Ports,
    ) -> Result<&mut (Executor<RealDriver>, Rc<Port>), SetupError> {
        let worker = match &mut self.worker {
            Some(worker) => worker,
            none => {
                let executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
                let port = ports.port(own, &executor.handle())?;
                executor.handle().add_poller(port.poller());
                none.insert((executor, port))
            }
        };
        strict_assert_eq!(
            worker.1.node(),
            own,
            "the port is one of an earlier node of the process"
        );
        Ok(worker)
    }
}
