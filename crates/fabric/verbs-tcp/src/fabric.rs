//! [`TcpFabric`]: the nodes of this process, and the nodes of other processes that this process has
//! added.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_runtime::sync::Mutex;
use latchwork_verbs::{ComputeNodeId, Extent, MemoryNodeId, Region, RegionKey, SetupError};
use latchwork_verbs_shm as shm;

use crate::agent::{Content, Refused, Threads};
use crate::client::TcpEndpoint;
use crate::config::TcpConfig;
use crate::error::TcpError;
use crate::inner::Inner;
use crate::peers::{Peer, Peers};
use crate::wire::TcpNode;

/// One process's part of a fabric over sockets: its own nodes, and the addresses of other
/// processes' nodes. Each own node has an agent that listens at an address of its own. Clones are
/// the same fabric.
///
/// When the last clone and the last endpoint are dropped, the agents stop. After this no other
/// process reaches the nodes of this process.
#[derive(Clone)]
pub struct TcpFabric {
    inner: Arc<Inner>,
}

impl TcpFabric {
    /// Makes a fabric without nodes and peers, and starts its threads.
    ///
    /// # Errors
    /// [`TcpError::Thread`].
    pub fn new(config: TcpConfig) -> Result<Self, TcpError> {
        let threads = Threads::start(config.threads)?;
        let inner = Inner {
            config,
            clock: Clock::start(),
            peers: Peers::default(),
            turns: threads.turns(),
            hosted: Mutex::new(Vec::new()),
            counters: Arc::default(),
            _threads: threads,
        };
        Ok(TcpFabric { inner: Arc::new(inner) })
    }

    // ---- nodes of this process ------------------------------------------------------------------

    /// Serves `region` as memory node `id` at `addr`. With port 0 the operating system chooses the
    /// port. Returns the address at which the agent listens.
    ///
    /// # Errors
    /// [`TcpError::KnownPeer`], [`TcpError::NoRandom`] and [`TcpError::Listen`].
    pub fn serve_memory(
        &self,
        id: MemoryNodeId,
        region: Arc<Region>,
        addr: SocketAddr,
    ) -> Result<SocketAddr, TcpError> {
        let extent = Extent::from(region.len());
        self.inner.host(TcpNode::Memory(id), addr, Content::Memory(region, extent))
    }

    /// Like [`TcpFabric::serve_memory`], with zeroed memory of these lengths.
    ///
    /// # Errors
    /// [`SetupError::Region`] and those of [`TcpFabric::serve_memory`].
    pub fn serve_memory_of(
        &self,
        id: MemoryNodeId,
        extent: Extent,
        addr: SocketAddr,
    ) -> Result<SocketAddr, TcpError> {
        let bytes = extent.region_bytes().map_err(SetupError::from)?;
        let region = Region::zeroed(bytes).map_err(SetupError::from)?;
        self.inner.host(TcpNode::Memory(id), addr, Content::Memory(region, extent))
    }

    /// Serves compute node `id` at `addr`, with an inbox and without regions. Returns the address
    /// at which the agent listens.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`], [`TcpError::NoRandom`] and [`TcpError::Listen`].
    pub fn serve_compute(
        &self,
        id: ComputeNodeId,
        addr: SocketAddr,
    ) -> Result<SocketAddr, TcpError> {
        let inbox = shm::ShmInbox::with_capacity(self.inner.config.inbox_capacity);
        self.inner.host(TcpNode::Compute(id), addr, Content::Compute(inbox))
    }

    /// Adds a memory node with zero bytes of these lengths to this process. The node takes the
    /// lowest free id and listens at [`TcpConfig::listen`].
    ///
    /// # Errors
    /// [`SetupError::Region`], [`SetupError::TooManyMemoryNodes`] and [`SetupError::Listen`].
    pub fn add_memory_node(&self, extent: impl Into<Extent>) -> Result<MemoryNodeId, SetupError> {
        let id = self.inner.peers.free_memory_id().ok_or(SetupError::TooManyMemoryNodes)?;
        let id = MemoryNodeId(id);
        self.serve_memory_of(id, extent.into(), self.listen_addr())
            .map_err(|error| error.setup())?;
        Ok(id)
    }

    /// Adds a compute node to this process. The node listens at [`TcpConfig::listen`].
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`] and [`SetupError::Listen`].
    pub fn add_compute_node(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        self.serve_compute(id, self.listen_addr()).map(drop).map_err(|error| error.setup())
    }

    fn listen_addr(&self) -> SocketAddr {
        SocketAddr::new(self.inner.config.listen, 0)
    }

    /// Registers memory of a compute node of this process. The memory can be a local buffer of the
    /// node's own verbs, and a target of its peers' verbs. Keys count from 0 per node. The fabric
    /// keeps the region as long as the fabric exists.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`] and [`SetupError::TooManyRegions`].
    pub fn register(
        &self,
        node: ComputeNodeId,
        region: Arc<Region>,
    ) -> Result<RegionKey, SetupError> {
        self.inner.compute(node)?.register(region).ok_or(SetupError::TooManyRegions(node))
    }

    /// Makes an endpoint for one worker of `node`, a node of this process.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn endpoint(&self, node: ComputeNodeId) -> Result<TcpEndpoint, SetupError> {
        Ok(TcpEndpoint::new(Arc::clone(&self.inner), self.inner.compute(node)?))
    }

    /// The inbox of `node`, a node of this process.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<shm::ShmInbox, SetupError> {
        self.inner.compute(node)?.inbox.clone().ok_or(SetupError::UnknownNode(node))
    }

    /// The lengths of the memory of a memory node, if this process knows the node.
    pub fn extent(&self, node: MemoryNodeId) -> Option<Extent> {
        self.inner.peers.get(TcpNode::Memory(node))?.extent(0)
    }

    /// The memory of a memory node of this process. Its on-chip memory follows behind the other
    /// memory.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        self.inner.hosted(TcpNode::Memory(node))?.region(0)
    }

    /// The address of a node, if this process knows the node.
    pub fn addr(&self, node: TcpNode) -> Option<SocketAddr> {
        self.inner.peers.get(node).map(|peer| peer.addr)
    }

    /// Makes the operating system provide the memory of this process's memory nodes now (see
    /// [`Region::prefault`]).
    pub fn prefault(&self) {
        let hosted = self.inner.hosted.lock().clone();
        let memory = hosted.iter().filter(|hosted| matches!(hosted.node, TcpNode::Memory(_)));
        memory.filter_map(|hosted| hosted.region(0)).for_each(|region| region.prefault());
    }

    // ---- peers ----------------------------------------------------------------------------------

    /// Adds a node of another process. The call requests the node's regions from the node's agent
    /// at `addr`, and waits for the answer; `own` is any node of this process. The peer is this one
    /// start of the node: a later start of the node refuses connections for the earlier start.
    ///
    /// # Errors
    /// [`TcpError::KnownPeer`], or the error by which the agent could not be reached. In both cases
    /// the node is not added.
    pub fn add_peer(&self, own: TcpNode, node: TcpNode, addr: SocketAddr) -> Result<(), TcpError> {
        let peer = Peer::remote(node, addr);
        self.inner.ask(&peer, own)?;
        if self.inner.peers.add(peer) { Ok(()) } else { Err(TcpError::KnownPeer { node }) }
    }

    /// Cuts a compute node off. From now on verbs of this process to the node, also those that wait
    /// for room, complete with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected) or
    /// [`VerbError::Unreachable`](latchwork_verbs::VerbError::Unreachable). Verbs that were already
    /// sent to the node's agent end as usual. The node's own verbs to nodes of this process are not
    /// affected; see [`TcpFabric::fence`].
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        let peer =
            self.inner.peers.get(TcpNode::Compute(node)).ok_or(SetupError::UnknownNode(node))?;
        peer.disconnect();
        Ok(())
    }

    /// Cuts a memory node off, in the same way as [`TcpFabric::disconnect`].
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`].
    pub fn disconnect_memory(&self, node: MemoryNodeId) -> Result<(), SetupError> {
        let peer = self
            .inner
            .peers
            .get(TcpNode::Memory(node))
            .ok_or(SetupError::UnknownMemoryNode(node))?;
        peer.disconnect();
        Ok(())
    }

    /// Removes a dead node of another process, so that a new start of the node can be added. All
    /// verbs of this process to the old node that have no reply end with an error, also verbs that
    /// were already sent. Returns false when no such node is known, or when the node is in this
    /// process.
    pub fn remove_peer(&self, node: TcpNode) -> bool {
        self.inner.peers.remove(node)
    }

    /// Fences `node`: from now on all nodes of this process refuse connections of `node` with a
    /// member epoch below `epoch`. Returns true when none of them executes a verb of these member
    /// epochs any more. Returns false when not all connections stopped within `patience`, which
    /// counts for all nodes together.
    pub fn fence(&self, node: TcpNode, epoch: u64, patience: Duration) -> bool {
        let hosted = self.inner.hosted.lock().clone();
        // All nodes refuse the fenced node before this call waits for any connection.
        let stopping: Vec<_> =
            hosted.iter().map(|hosted| hosted.seats.fence(node, epoch)).collect();
        let (sender, receiver) = channel();
        self.inner.turns.next().spawn(async move {
            let all = async {
                for stopping in stopping {
                    stopping.ended().await;
                }
            };
            let ended = tokio::time::timeout(patience, all).await;
            let _ = sender.send(ended.is_ok());
        });
        receiver.recv_timeout(patience).unwrap_or(false)
    }

    /// The numbers of connections that the agents of this process have refused, by cause.
    pub fn refused(&self) -> Refused {
        self.inner.counters.snapshot()
    }

    /// The number of connections of peers that the agents of this process serve.
    pub fn connections(&self) -> usize {
        let hosted = self.inner.hosted.lock();
        hosted.iter().map(|hosted| hosted.seats.len()).sum()
    }
}
