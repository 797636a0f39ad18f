//! RDMA between processes. Two nodes exchange connection data in control messages of membership.
//! The access control of the store protects these messages.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use latchwork_membership::{ControlMessages, Membership, MembershipError, NodeName};
use latchwork_verbs_ibv as ibv;

use super::limits::CONNECT;
use crate::JoinError;

/// Opens a fabric on the devices of this process, for the node of `membership`.
pub(super) fn open(
    config: &ibv::IbvConfig,
    membership: &Membership,
) -> Result<ibv::IbvFabric, JoinError> {
    let me = membership.me();
    let own = peer(me.node);
    let fabric: Arc<OnceLock<ibv::WeakFabric>> = Arc::default();
    let place = Arc::clone(&fabric);
    // No node sends a message before this node has published its contact, so the fabric is set by
    // then.
    let handler = move |from, epoch, letter: &[u8]| {
        let fabric = place.get().and_then(ibv::WeakFabric::upgrade);
        fabric.map_or(Vec::new(), |fabric| fabric.deliver(own, peer(from), epoch, letter))
    };
    let mail = membership.messages(Box::new(handler))?;
    let connect_timeout = config.connect_timeout.max(CONNECT);
    let config = ibv::IbvConfig { epoch: me.epoch, connect_timeout, ..config.clone() };
    let opened = ibv::IbvFabric::join(config, Arc::new(Letters(mail)))?;
    // This is the only call of `set`.
    let _ = fabric.set(opened.downgrade());
    Ok(opened)
}

/// Carries control messages of the fabric to other nodes.
struct Letters(ControlMessages);

impl ibv::Courier for Letters {
    fn carry(
        &self,
        peer: ibv::Peer,
        epoch: u64,
        bytes: Vec<u8>,
        limit: Duration,
        reply: ibv::ContactReply,
    ) {
        let answer = move |answer: Result<Vec<u8>, MembershipError>| {
            reply(answer.map_err(|error| match error {
                MembershipError::NotThere { .. }
                | MembershipError::Left
                | MembershipError::LeaseEnded => ibv::ConnectError::Gone,
                error => {
                    tracing::debug!(%error, "no answer to connection data");
                    ibv::ConnectError::Unreachable
                }
            }));
        };
        self.0.send(name(peer), epoch, bytes, limit, Box::new(answer));
    }
}

pub(super) fn peer(name: NodeName) -> ibv::Peer {
    match name {
        NodeName::Memory(id) => ibv::Peer::Memory(id),
        NodeName::Compute(id) => ibv::Peer::Compute(id),
    }
}

fn name(peer: ibv::Peer) -> NodeName {
    match peer {
        ibv::Peer::Memory(id) => NodeName::Memory(id),
        ibv::Peer::Compute(id) => NodeName::Compute(id),
    }
}
