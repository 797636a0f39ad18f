//! [`MemoryHost`]: one memory node of a cluster whose nodes are processes.

use std::time::Duration;

use crate::JoinError;
use crate::joined::{Introductions, Mortal, lost_memory};
use crate::transport::Transport;
use latchwork_membership::{Membership, NodeName, Role};

/// A memory node: memory of this process, which compute nodes of other processes use. It keeps out
/// those that died, and otherwise does nothing.
///
/// [`leave`](MemoryHost::leave) is its end in order. When it is dropped without, it is dead; what
/// it held is lost either way.
pub struct MemoryHost {
    address: String,
    _introductions: Introductions,
    // Last: whoever is dead must not be found holding memory that others share.
    membership: Mortal,
}

impl MemoryHost {
    /// Serves zeroed memory as the memory node that membership says, of the length that it was
    /// joined with. With `prefault` all of it is taken now, and otherwise at the first touch. A
    /// node that cannot start leaves again.
    ///
    /// # Errors
    /// When membership knows this node as a compute node; what the machine refused.
    pub fn start(
        transport: &Transport,
        membership: Membership,
        prefault: bool,
    ) -> Result<MemoryHost, JoinError> {
        let mortal = Mortal(membership);
        match serve(transport, &mortal.0, prefault) {
            Ok((address, introductions)) => {
                Ok(MemoryHost { membership: mortal, address, _introductions: introductions })
            }
            Err(error) => {
                // It has served nobody, so nothing is lost with it. Where even that cannot be said,
                // it is dead.
                let _ = mortal.0.leave();
                Err(error)
            }
        }
    }

    /// This node's membership.
    pub fn membership(&self) -> &Membership {
        &self.membership.0
    }

    /// Where others reach it, as the transport has it.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Compute nodes that are members at the moment.
    pub fn users(&self) -> usize {
        self.membership.0.view().compute().count()
    }

    /// Leaves in order: waits up to `patience` until no compute node is a member any more. Whether
    /// that was so; with the node goes its memory in any case.
    ///
    /// # Errors
    /// When membership's store does not answer.
    pub fn leave(self, patience: Duration) -> Result<bool, JoinError> {
        let alone =
            self.membership.0.wait(patience, |view| view.compute().next().is_none()).is_ok();
        self.membership.0.leave()?;
        Ok(alone)
    }
}

/// Where the node is reached from now on, and how it meets others.
fn serve(
    transport: &Transport,
    membership: &Membership,
    prefault: bool,
) -> Result<(String, Introductions), JoinError> {
    let me = membership.me();
    let (NodeName::Memory(id), Role::Memory { bytes }) = (me.node, &me.role) else {
        return Err(JoinError::NotMemory { node: me.node });
    };
    let bytes = usize::try_from(*bytes).unwrap_or(usize::MAX);
    let link = transport.open(membership)?;
    let view = membership.view();
    // A restarted one has another id, and would not be what was lost.
    if let Some(error) = lost_memory(&view).or_else(|| link.stranger(&view)) {
        return Err(error);
    }
    link.add_memory(id, bytes)?;
    if prefault {
        link.threaded().prefault();
    }
    let contact = link.contact(me.node)?;
    let introductions = Introductions::start(membership, &link)?;
    membership.contact(link.key(), &contact)?;
    Ok((contact, introductions))
}
