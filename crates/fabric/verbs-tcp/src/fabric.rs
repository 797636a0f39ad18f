//! [`Fabric`]: the nodes of this process, and the peers that it knows.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

use latchwork_runtime::Clock;
use latchwork_runtime::sync::Mutex;
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, RegionKey, SetupError};
use latchwork_verbs_shm as shm;

use crate::agent::{Counters, Hosted, Refused, Threads, Turns, listen};
use crate::client::{Endpoint, Wanted, connect};
use crate::config::Config;
use crate::error::TcpError;
use crate::peers::{Peer, Peers};
use crate::security::random;
use crate::wire::Node;

/// What one process has of a fabric of sockets: its own nodes, each with an agent that listens at
/// an address of its own, and the addresses of others. Clones are the same.
///
/// When the last clone and the last endpoint are dropped, the agents stop: for its peers, the
/// process's nodes are gone.
#[derive(Clone)]
pub struct Fabric {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) config: Config,
    pub(crate) clock: Clock,
    pub(crate) peers: Peers,
    pub(crate) turns: Turns,
    hosted: Mutex<Vec<Arc<Hosted>>>,
    counters: Arc<Counters>,
    // Last: nothing is left that could use them.
    _threads: Threads,
}

impl Inner {
    fn hosted(&self, node: Node) -> Option<Arc<Hosted>> {
        self.hosted.lock().iter().find(|hosted| hosted.node == node).cloned()
    }

    fn compute(&self, id: ComputeNodeId) -> Result<Arc<Hosted>, SetupError> {
        self.hosted(Node::Compute(id)).ok_or(SetupError::UnknownNode(id))
    }

    /// Asks a peer which regions it has, and waits for the answer.
    pub(crate) fn ask(&self, peer: &Peer, own: Node) -> Result<(), TcpError> {
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
        // The attempt has a deadline of its own, which counts once it has begun.
        let connected = receiver.recv_timeout(2 * limit).map_err(|_| TcpError::Deadline {
            node: peer.node,
            addr: peer.addr,
            limit,
        })??;
        peer.learn(&connected.welcome, &connected.lengths);
        Ok(())
    }

    fn host(
        &self,
        node: Node,
        addr: SocketAddr,
        content: (Option<shm::Inbox>, Vec<Arc<Region>>),
    ) -> Result<SocketAddr, TcpError> {
        if self.peers.get(node).is_some() {
            return Err(match node {
                Node::Compute(id) => SetupError::DuplicateNode(id).into(),
                Node::Memory(_) => TcpError::KnownPeer { node },
            });
        }
        // 0 stands for any.
        let incarnation = u64::from_le_bytes(random()?) | 1;
        let Config { security, limits, .. } = &self.config;
        let rules = (security.clone(), *limits);
        let counters = Arc::clone(&self.counters);
        let hosted = Hosted::new(node, incarnation, content, rules, self.clock, counters);
        let hosted = Arc::new(hosted);
        let bound = listen(Arc::clone(&hosted), addr, self.turns.clone())?;
        if !self.peers.add(Peer::hosted(Arc::clone(&hosted), bound)) {
            return Err(TcpError::KnownPeer { node });
        }
        self.hosted.lock().push(hosted);
        Ok(bound)
    }
}

impl Fabric {
    /// A fabric that knows nobody, with its threads started.
    ///
    /// # Errors
    /// [`TcpError::Thread`].
    pub fn new(config: Config) -> Result<Self, TcpError> {
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
        Ok(Fabric { inner: Arc::new(inner) })
    }

    // ---- nodes of this process ---------------------------------------------------------------------

    /// Serves `region` as memory node `id` at `addr`, with port 0 for one of the operating system's
    /// choice; where it listens.
    ///
    /// # Errors
    /// [`TcpError::KnownPeer`] and [`TcpError::Listen`].
    pub fn serve_memory(
        &self,
        id: MemoryNodeId,
        region: Arc<Region>,
        addr: SocketAddr,
    ) -> Result<SocketAddr, TcpError> {
        self.inner.host(Node::Memory(id), addr, (None, vec![region]))
    }

    /// Serves compute node `id` at `addr`, with an inbox and without regions; where it listens.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`] and [`TcpError::Listen`].
    pub fn serve_compute(
        &self,
        id: ComputeNodeId,
        addr: SocketAddr,
    ) -> Result<SocketAddr, TcpError> {
        let inbox = shm::Inbox::with_capacity(self.inner.config.inbox_capacity);
        self.inner.host(Node::Compute(id), addr, (Some(inbox), Vec::new()))
    }

    /// Adds a memory node of `bytes` zero bytes to this process. It takes the lowest free id and
    /// listens where [`Config::listen`] says.
    ///
    /// # Errors
    /// [`SetupError::Region`], [`SetupError::TooManyMemoryNodes`] and [`SetupError::Listen`].
    pub fn add_memory_node(&self, bytes: usize) -> Result<MemoryNodeId, SetupError> {
        let region = Region::zeroed(bytes)?;
        let id = self.inner.peers.free_memory_id().ok_or(SetupError::TooManyMemoryNodes)?;
        let id = MemoryNodeId(id);
        self.serve_memory(id, region, self.listen_addr()).map_err(|error| error.setup())?;
        Ok(id)
    }

    /// Adds a compute node to this process, which listens where [`Config::listen`] says.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`] and [`SetupError::Listen`].
    pub fn add_compute_node(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        self.serve_compute(id, self.listen_addr()).map(drop).map_err(|error| error.setup())
    }

    fn listen_addr(&self) -> SocketAddr {
        SocketAddr::new(self.inner.config.listen, 0)
    }

    /// Registers memory of a compute node of this process, as a local buffer of its own verbs and
    /// as a target of its peers'. Keys count from 0 per node. The fabric keeps the region for its
    /// own lifetime.
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

    /// A new endpoint for one worker of `node`, a node of this process.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn endpoint(&self, node: ComputeNodeId) -> Result<Endpoint, SetupError> {
        Ok(Endpoint::new(Arc::clone(&self.inner), self.inner.compute(node)?))
    }

    /// The inbox of `node`, a node of this process.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<shm::Inbox, SetupError> {
        self.inner.compute(node)?.inbox.clone().ok_or(SetupError::UnknownNode(node))
    }

    /// The memory of a memory node of this process.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        self.inner.hosted(Node::Memory(node))?.region(0)
    }

    /// Where a node can be reached, as far as this process knows.
    pub fn addr(&self, node: Node) -> Option<SocketAddr> {
        self.inner.peers.get(node).map(|peer| peer.addr)
    }

    /// Has the operating system give the memory of this process's memory nodes now
    /// (see [`Region::prefault`]).
    pub fn prefault(&self) {
        let hosted = self.inner.hosted.lock().clone();
        let memory = hosted.iter().filter(|hosted| matches!(hosted.node, Node::Memory(_)));
        memory.filter_map(|hosted| hosted.region(0)).for_each(|region| region.prefault());
    }

    // ---- peers -------------------------------------------------------------------------------------

    /// Learns of a node of another process, as `own` (any node of this one), by asking its agent at
    /// `addr`. From then on exactly this start of the node is meant: one that was started anew is
    /// refused as gone.
    ///
    /// # Errors
    /// [`TcpError::KnownPeer`], or why the agent could not be asked; then the node is not known.
    pub fn add_peer(&self, own: Node, node: Node, addr: SocketAddr) -> Result<(), TcpError> {
        let peer = Peer::remote(node, addr);
        self.inner.ask(&peer, own)?;
        if self.inner.peers.add(peer) { Ok(()) } else { Err(TcpError::KnownPeer { node }) }
    }

    /// Cuts a compute node off: verbs of this process to it, also those pushed back, complete with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected) from now on. Those
    /// that its agent has already end as they do. Its own verbs to nodes of this process are not
    /// affected; see [`Fabric::fence`].
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        let peer =
            self.inner.peers.get(Node::Compute(node)).ok_or(SetupError::UnknownNode(node))?;
        peer.disconnect();
        Ok(())
    }

    /// Cuts a memory node off, in the same way.
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`].
    pub fn disconnect_memory(&self, node: MemoryNodeId) -> Result<(), SetupError> {
        let peer =
            self.inner.peers.get(Node::Memory(node)).ok_or(SetupError::UnknownMemoryNode(node))?;
        peer.disconnect();
        Ok(())
    }

    /// Forgets a node of another process that is gone, so that another start of it can be added:
    /// verbs of this process to the old one complete as after [`Fabric::disconnect`]. False when no
    /// such node is known.
    pub fn remove_peer(&self, node: Node) -> bool {
        self.inner.peers.remove(node)
    }

    /// From now on the nodes of this process refuse `node` with epochs below `epoch`. When this
    /// returns true, none of its verbs is executed here any more; false when its connections did
    /// not stop within `patience`.
    pub fn fence(&self, node: Node, epoch: u64, patience: Duration) -> bool {
        let hosted = self.inner.hosted.lock().clone();
        let (sender, receiver) = channel();
        self.inner.turns.next().spawn(async move {
            let mut all = true;
            for hosted in hosted {
                all &= hosted.seats.fence(node, epoch, patience).await;
            }
            let _ = sender.send(all);
        });
        receiver.recv_timeout(patience).unwrap_or(false)
    }

    /// What the agents of this process have refused.
    pub fn refused(&self) -> Refused {
        self.inner.counters.snapshot()
    }

    /// Connections of peers that the agents of this process serve.
    pub fn connections(&self) -> usize {
        let hosted = self.inner.hosted.lock();
        hosted.iter().map(|hosted| hosted.seats.len()).sum()
    }
}
