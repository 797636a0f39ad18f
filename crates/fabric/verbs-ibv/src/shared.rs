//! [`Shared`]: the state that all clones and endpoints of a fabric share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use latchwork_runtime::sync::{Mutex, RwLock};
use latchwork_verbs::{RegionKey, Target};

use crate::config::IbvConfig;
use crate::connection::{Answer, Caller, Note, Offer, answer_from_bytes};
use crate::destructions::Destructions;
use crate::directory::{CHIP_KEY, Courier, Peer, Peers, RemoteMemory};
use crate::error::ConnectError;
use crate::node::Node;
use crate::sys::{Device, Tuning, Watch, Watcher};
use crate::wake::Wake;

/// The function that takes the answer to an offer. The function is called once.
pub(crate) type Answered = Box<dyn FnOnce(Result<Answer, ConnectError>) + Send>;

/// The nodes of this process, the known nodes of other processes, and what their connections need.
pub(crate) struct Shared {
    pub(crate) config: IbvConfig,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) courier: Option<Arc<dyn Courier>>,
    pub(crate) devices: Vec<Arc<Device>>,
    pub(crate) memory: RwLock<BTreeMap<u16, Arc<Node>>>,
    pub(crate) nodes: RwLock<Vec<Option<Arc<Node>>>>,
    pub(crate) peers: Peers,
    // The member epoch up to which each peer is fenced. A thread may take this lock while it holds
    // the lock of a node's responders, and not in the reverse order.
    pub(crate) fences: RwLock<BTreeMap<Peer, u64>>,
    /// The destructions of fenced peers' queue pairs that are in progress.
    pub(crate) destructions: Destructions,
    pub(crate) departed_nodes: AtomicU64,
    pub(crate) wakes: Mutex<Vec<Weak<Wake>>>,
    pub(crate) watches: Mutex<Vec<Watch>>,
}

/// What send queues need of nodes, for nodes of this process and of other processes.
impl Shared {
    /// The node of `peer`, if it is a node of this process.
    pub(crate) fn node(&self, peer: Peer) -> Option<Arc<Node>> {
        match peer {
            Peer::Memory(id) => self.memory.read().get(&id.0).cloned(),
            Peer::Compute(id) => self.nodes.read().get(id.index()).cloned().flatten(),
        }
    }

    pub(crate) fn tuning(&self) -> Tuning {
        let IbvConfig { timeout, retries, reads, .. } = self.config;
        Tuning { timeout: timeout.clamp(1, 31), retries: retries.min(6), reads: reads.max(1) }
    }

    /// Registers `wake`, which the fabric fires when a node leaves or dies.
    pub(crate) fn wake_on_leave(&self, wake: &Arc<Wake>) {
        let mut wakes = self.wakes.lock();
        wakes.retain(|wake| wake.strong_count() > 0);
        wakes.push(Arc::downgrade(wake));
    }

    /// Whether a node with this name is known, alive or dead.
    pub(crate) fn knows(&self, peer: Peer) -> bool {
        self.node(peer).is_some() || self.peers.knows(peer)
    }

    /// The member epoch of the living node with this name. `None` when there is no such node, or
    /// when the node was cut off.
    pub(crate) fn epoch(&self, peer: Peer) -> Option<u64> {
        match self.node(peer) {
            Some(node) => (!node.is_cut_off()).then_some(self.config.epoch),
            None => self.peers.epoch(peer),
        }
    }

    /// The memory of a target, at the node with this member epoch. A region does not change after
    /// its registration.
    pub(crate) fn memory(&self, target: Target, epoch: u64) -> Option<RemoteMemory> {
        let key = match target {
            Target::Memory(_) => RegionKey(0),
            Target::Compute(_, key) => RegionKey(key),
        };
        match self.node(target.into()) {
            Some(node) => node.remote(key),
            None => self.peers.memory(target.into(), epoch, key),
        }
    }

    /// The on-chip memory of a memory node, at the node with this member epoch. `None` when the
    /// node has none.
    pub(crate) fn chip(&self, target: Target, epoch: u64) -> Option<RemoteMemory> {
        match (target, self.node(target.into())) {
            (Target::Compute(..), _) => None,
            (Target::Memory(_), Some(node)) => node.remote(CHIP_KEY),
            (Target::Memory(_), None) => self.peers.memory(target.into(), epoch, CHIP_KEY),
        }
    }

    /// The number of nodes that have left or died so far. The number grows only after the node is
    /// marked.
    pub(crate) fn departed_nodes(&self) -> u64 {
        self.departed_nodes.load(Ordering::Acquire) + self.peers.departed_nodes()
    }

    /// Sends an offer to the peer with this member epoch. `answered` gets the answer, in this call
    /// or later on another thread.
    pub(crate) fn connect(&self, peer: Peer, epoch: u64, offer: Offer, answered: Answered) {
        if let Some(node) = self.node(peer) {
            return answered(node.answer(&offer, || self.is_refused(offer.from)));
        }
        match &self.courier {
            Some(courier) if self.peers.epoch(peer) == Some(epoch) => {
                let reply = |bytes: Result<Vec<u8>, ConnectError>| {
                    answered(bytes.and_then(|bytes| answer_from_bytes(&bytes)));
                };
                let limit = self.config.connect_timeout;
                let bytes = Note::Offer(offer).to_bytes();
                courier.carry(peer, epoch, bytes, limit, Box::new(reply));
            }
            // The name belongs to a node with another member epoch, or there is no courier.
            _ => answered(Err(ConnectError::Gone)),
        }
    }

    /// Reports to the peer that its queue pair `pair` is not used any more.
    pub(crate) fn close(&self, peer: Peer, epoch: u64, from: Caller, pair: u32) {
        if let Some(node) = self.node(peer) {
            return node.close(from, pair);
        }
        if let Some(courier) = &self.courier
            && self.peers.epoch(peer) == Some(epoch)
        {
            let bytes = Note::Close { from, pair }.to_bytes();
            // If this note is lost, the unused pair stays until the peer's process ends or fences
            // this node.
            courier.carry(peer, epoch, bytes, self.config.connect_timeout, Box::new(drop));
        }
    }

    pub(crate) fn is_refused(&self, from: Caller) -> bool {
        self.fences.read().get(&from.peer).is_some_and(|epoch| from.epoch <= *epoch)
    }

    pub(crate) fn deliver(
        &self,
        to: Peer,
        from: Caller,
        bytes: &[u8],
    ) -> Result<Answer, ConnectError> {
        let node = self.node(to).ok_or(ConnectError::Unknown)?;
        let note = Note::from_bytes(bytes)?;
        if note.from() != from {
            return Err(ConnectError::Malformed);
        }
        match note {
            Note::Offer(offer) => node.answer(&offer, || self.is_refused(from)),
            Note::Close { pair, .. } => {
                node.close(from, pair);
                Err(ConnectError::Gone)
            }
        }
    }
}
