//! [`Reclaims`]: empties the epoch slots of dead compute nodes.
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
//! member epoch it belongs. So a reclaim is correct only because the membership gives the id of a
//! dead node to no other node.

use std::rc::Rc;

use latchwork_fabric::Port;
use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
use latchwork_strict::{strict_assert_eq, strict_assert_ne};
use latchwork_verbs::{ComputeNodeId, SetupError};

use crate::ports::Ports;
use crate::reclaim::empty_slot;

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
        self.try_to(own, ports, dead).unwrap_or(false)
    }

    fn try_to(
        &mut self,
        own: ComputeNodeId,
        ports: &Ports,
        dead: ComputeNodeId,
    ) -> Result<bool, SetupError> {
        strict_assert_ne!(own, dead, "a node empties its own epoch slot");
        let (executor, port) = match &mut self.worker {
            Some(worker) => worker,
            none => {
                let executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
                let port = ports.port(own, &executor.handle())?;
                executor.handle().add_poller(port.poller());
                none.insert((executor, port))
            }
        };
        strict_assert_eq!(port.node(), own, "the port is one of an earlier node of the process");
        let handle = executor.handle();
        Ok(executor.block_on(empty_slot(port, &handle, dead)))
    }
}
