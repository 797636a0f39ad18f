//! [`MemoryHost`]: one memory node of a cluster of processes.

use std::sync::Arc;
use std::time::Duration;

use latchwork_membership::{Membership, NodeName, Role};
use latchwork_verbs::Extent;

use crate::JoinError;
use crate::joined::{Introductions, Mortal, lost_memory};
use crate::memory_agent::MemoryAgent;
use crate::transport::Transport;

/// A memory node: memory of this process for the compute nodes of other processes. The process
/// renews its lease, admits its peers and fences dead nodes. Only if compute nodes run a protocol
/// with homes, it also runs protocol code: the agent of the memory node.
///
/// [`leave`](MemoryHost::leave) ends the node gracefully. A memory node that is dropped without a
/// leave is dead. In both cases the content of its memory is lost.
pub struct MemoryHost {
    address: String,
    _agent: MemoryAgent,
    _introductions: Arc<Introductions>,
    // Dropped last, because other nodes must not share memory of a node that is already dead.
    membership: Mortal,
}

impl MemoryHost {
    /// Serves zeroed memory as the memory node of `membership`. The join gave the size. With
    /// `prefault` the process touches all memory now, otherwise each page at its first access. A
    /// node that cannot start leaves the cluster.
    ///
    /// # Errors
    /// This member is a compute node; a memory node of the cluster has died; a member uses another
    /// fabric; the machine gives no memory or no thread; an error of the store.
    pub fn start(
        transport: &Transport,
        membership: Membership,
        prefault: bool,
    ) -> Result<MemoryHost, JoinError> {
        let mortal = Mortal(membership);
        match serve(transport, &mortal.0, prefault) {
            Ok((address, _introductions, _agent)) => {
                Ok(MemoryHost { membership: mortal, address, _introductions, _agent })
            }
            Err(error) => {
                // The node has served no other node, so no data is lost. If the leave fails too,
                // the drop of `mortal` makes the node dead.
                let _ = mortal.0.leave();
                Err(error)
            }
        }
    }

    /// This node's membership.
    pub fn membership(&self) -> &Membership {
        &self.membership.0
    }

    /// The address for other nodes, in the form of the transport.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The number of compute nodes that are members now.
    pub fn users(&self) -> usize {
        self.membership.0.view().compute().count()
    }

    /// Leaves gracefully. The node first waits up to `patience` until no compute node is a member.
    /// Returns whether no compute node was a member. The content of the memory is lost in any case.
    ///
    /// # Errors
    /// When the lease has ended, or the store does not answer.
    pub fn leave(self, patience: Duration) -> Result<bool, JoinError> {
        let alone =
            self.membership.0.wait(patience, |view| view.compute().next().is_none()).is_ok();
        self.membership.0.leave()?;
        Ok(alone)
    }
}

/// Publishes the node's contact and starts to follow the other nodes.
fn serve(
    transport: &Transport,
    membership: &Membership,
    prefault: bool,
) -> Result<(String, Arc<Introductions>, MemoryAgent), JoinError> {
    let me = membership.me();
    let (NodeName::Memory(id), Role::Memory { bytes, chip_bytes }) = (me.node, &me.role) else {
        return Err(JoinError::NotMemory { node: me.node });
    };
    let extent = Extent { bytes: *bytes, chip_bytes: *chip_bytes };
    let link = transport.open(membership)?;
    let view = membership.view();
    // A memory node with the old id would need the old content. A restarted memory node has another
    // id and none of it.
    if let Some(error) = lost_memory(&view).or_else(|| link.stranger(&view)) {
        return Err(error);
    }
    link.add_memory(id, extent)?;
    if prefault {
        link.threaded().prefault();
    }
    let contact = link.contact(me.node)?;
    let introductions = Arc::new(Introductions::start(membership, &link, None)?);
    membership.contact(link.key(), &contact)?;
    let agent = MemoryAgent::start(id, membership, &link, &introductions)?;
    Ok((contact, introductions, agent))
}
