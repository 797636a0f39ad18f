//! [`Peer`]: a node that this process knows. [`Peers`]: all nodes that this process knows.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use latchwork_runtime::sync::{AtomicBool, AtomicU64, Ordering, RwLock};
use latchwork_strict::strict_assert;
use latchwork_verbs::{Extent, Target};

use crate::agent::Hosted;
use crate::wire::{TcpNode, Welcome};

/// A node that can be the target of verbs, in this process or in another process. A `Peer` is one
/// start of a node: a later start of the node is another `Peer`.
pub(crate) struct Peer {
    pub(crate) node: TcpNode,
    pub(crate) addr: SocketAddr,
    /// The node itself, when it is in this process.
    hosted: Option<Arc<Hosted>>,
    /// The random number of this start of the node; 0 until it is known.
    incarnation: AtomicU64,
    /// The lengths of the known regions in bytes, by key; for a memory node those of its ranges.
    lengths: RwLock<Vec<u64>>,
    disconnected: AtomicBool,
    removed: AtomicBool,
}

impl Peer {
    pub(crate) fn hosted(hosted: Arc<Hosted>, addr: SocketAddr) -> Self {
        let incarnation = AtomicU64::new(hosted.incarnation);
        Peer { hosted: Some(Arc::clone(&hosted)), incarnation, ..Peer::remote(hosted.node, addr) }
    }

    pub(crate) fn remote(node: TcpNode, addr: SocketAddr) -> Self {
        Peer {
            node,
            addr,
            hosted: None,
            incarnation: AtomicU64::new(0),
            lengths: RwLock::default(),
            disconnected: AtomicBool::new(false),
            removed: AtomicBool::new(false),
        }
    }

    /// Whether this is a node of this process. All regions of such a node are known.
    pub(crate) fn is_here(&self) -> bool {
        self.hosted.is_some()
    }

    /// The lengths of a region of the node, if known.
    pub(crate) fn extent(&self, region: u16) -> Option<Extent> {
        if let Some(hosted) = &self.hosted {
            return hosted.extent(region);
        }
        let lengths = self.lengths.read();
        let bytes = *lengths.get(usize::from(region))?;
        let chip = match self.node {
            TcpNode::Memory(_) => lengths.get(1).copied(),
            TcpNode::Compute(_) => None,
        };
        Some(Extent { bytes, chip_bytes: chip.unwrap_or(0) })
    }

    /// Takes the answer of the node's agent. A longer list of regions replaces a shorter list,
    /// because a node only adds regions.
    pub(crate) fn learn(&self, welcome: &Welcome, lengths: &[u64]) {
        self.incarnation.store(welcome.incarnation, Ordering::Relaxed);
        let mut known = self.lengths.write();
        strict_assert!(
            self.hosted.is_none() || lengths.len() <= usize::from(u16::MAX) + 1,
            "an own node has more regions than keys"
        );
        if lengths.len() > known.len() {
            *known = lengths.to_vec();
        }
    }

    pub(crate) fn incarnation(&self) -> u64 {
        self.incarnation.load(Ordering::Relaxed)
    }

    pub(crate) fn disconnect(&self) {
        self.disconnected.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        self.disconnected.load(Ordering::Relaxed)
    }

    /// Whether the node was removed. The outcome of verbs in a removed node's memory does not
    /// matter.
    pub(crate) fn is_removed(&self) -> bool {
        self.removed.load(Ordering::Relaxed)
    }

    /// The target that is region `region` of the node.
    pub(crate) fn target(&self, region: u16) -> Target {
        match self.node {
            TcpNode::Memory(id) => Target::Memory(id),
            TcpNode::Compute(id) => Target::Compute(id, region),
        }
    }
}

/// All nodes that this process knows.
#[derive(Default)]
pub(crate) struct Peers {
    known: RwLock<BTreeMap<TcpNode, Arc<Peer>>>,
    /// The number of removed nodes so far.
    removals: AtomicU64,
}

impl Peers {
    pub(crate) fn get(&self, node: TcpNode) -> Option<Arc<Peer>> {
        self.known.read().get(&node).cloned()
    }

    /// Adds a node. False when a node with this name is already known.
    pub(crate) fn add(&self, peer: Peer) -> bool {
        let mut peers = self.known.write();
        if peers.contains_key(&peer.node) {
            return false;
        }
        peers.insert(peer.node, Arc::new(peer));
        strict_assert!(
            peers.iter().all(|(node, peer)| *node == peer.node),
            "a node is known by another name"
        );
        true
    }

    /// Removes a node of another process and cuts it off. False when no such node is known.
    pub(crate) fn remove(&self, node: TcpNode) -> bool {
        let mut peers = self.known.write();
        if peers.get(&node).is_none_or(|peer| peer.is_here()) {
            return false;
        }
        if let Some(peer) = peers.remove(&node) {
            peer.disconnect();
            peer.removed.store(true, Ordering::Relaxed);
            strict_assert!(!peers.contains_key(&node), "a removed node is still known");
        }
        // The counter changes after the removal. So a thread that sees the new count, and
        // afterwards looks the node up under the lock, does not find the removed peer.
        self.removals.fetch_add(1, Ordering::Release);
        true
    }

    pub(crate) fn removals(&self) -> u64 {
        self.removals.load(Ordering::Acquire)
    }

    /// The lowest id without a memory node.
    pub(crate) fn free_memory_id(&self) -> Option<u16> {
        let peers = self.known.read();
        let taken =
            |id: &u16| peers.contains_key(&TcpNode::Memory(latchwork_verbs::MemoryNodeId(*id)));
        (0..=u16::MAX).find(|id| !taken(id))
    }
}
