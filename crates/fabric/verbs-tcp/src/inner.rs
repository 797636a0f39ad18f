//! [`Inner`]: the state that all clones and endpoints of a fabric share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;

use latchwork_runtime::Clock;
use latchwork_runtime::sync::Mutex;
use latchwork_verbs::{ComputeNodeId, SetupError};

use crate::agent::{Content, Counters, Hosted, Threads, Turns, listen};
use crate::client::{Wanted, connect};
use crate::config::TcpConfig;
use crate::error::TcpError;
use crate::peers::{Peer, Peers};
use crate::security::random;
use crate::wire::TcpNode;

/// The settings, nodes, peers and threads of one process's fabric.
pub(crate) struct Inner {
    pub(crate) config: TcpConfig,
    pub(crate) clock: Clock,
    pub(crate) peers: Peers,
    pub(crate) turns: Turns,
    pub(crate) hosted: Mutex<Vec<Arc<Hosted>>>,
    pub(crate) counters: Arc<Counters>,
    // The last field, so that the threads stop after everything that uses them is dropped.
    pub(crate) _threads: Threads,
}

impl Inner {
    pub(crate) fn hosted(&self, node: TcpNode) -> Option<Arc<Hosted>> {
        self.hosted.lock().iter().find(|hosted| hosted.node == node).cloned()
    }

    pub(crate) fn compute(&self, id: ComputeNodeId) -> Result<Arc<Hosted>, SetupError> {
        self.hosted(TcpNode::Compute(id)).ok_or(SetupError::UnknownNode(id))
    }

    /// Requests the regions of a peer from the peer's agent. Blocks the thread until the answer,
    /// for at most twice the time limit of an attempt to connect.
    pub(crate) fn ask(&self, peer: &Peer, own: TcpNode) -> Result<(), TcpError> {
        if peer.is_here() {
            return Ok(());
        }
        let epoch = (self.config.epoch, peer.incarnation());
        let wanted = Wanted::new(peer.addr, (own, peer.node), epoch, random()?);
        let (security, limit) = (self.config.security.clone(), self.config.connect_time);
        let (sender, receiver) = channel();
        self.turns.next().spawn(async move {
            let _ = sender.send(connect(&security, &wanted, limit).await);
        });
        // The attempt has its own deadline, which starts when a thread begins the attempt. So this
        // wait is longer.
        let connected = receiver.recv_timeout(2 * limit).map_err(|_| TcpError::Deadline {
            node: peer.node,
            addr: peer.addr,
            limit,
        })??;
        peer.learn(&connected.welcome, &connected.lengths);
        Ok(())
    }

    pub(crate) fn host(
        &self,
        node: TcpNode,
        addr: SocketAddr,
        content: Content,
    ) -> Result<SocketAddr, TcpError> {
        let known = || match node {
            TcpNode::Compute(id) => SetupError::DuplicateNode(id).into(),
            TcpNode::Memory(_) => TcpError::KnownPeer { node },
        };
        if self.peers.get(node).is_some() {
            return Err(known());
        }
        // The lowest bit is set, because 0 means any start of the node in a greeting.
        let incarnation = u64::from_le_bytes(random()?) | 1;
        let TcpConfig { security, limits, .. } = &self.config;
        let rules = (security.clone(), *limits);
        let counters = Arc::clone(&self.counters);
        let hosted = Hosted::new(node, incarnation, content, rules, self.clock, counters);
        let hosted = Arc::new(hosted);
        let listener = listen(addr, &self.turns)?;
        let bound = listener.bound;
        // Another thread may have added the node since the check above. Then the drop of the
        // listener frees its port.
        if !self.peers.add(Peer::hosted(Arc::clone(&hosted), bound)) {
            return Err(known());
        }
        self.hosted.lock().push(Arc::clone(&hosted));
        listener.start(hosted, self.turns.clone());
        Ok(bound)
    }
}
