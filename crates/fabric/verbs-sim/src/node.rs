//! Memory nodes and compute nodes of the simulated network, each with a NIC.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use latchwork_verbs::{ComputeNodeId, Extent, Region};

use crate::inbox::Mailbox;
use crate::nic::NicQueues;

/// The state that every node has. A memory node and a compute node may share one host.
pub(crate) struct Host {
    /// Whether requests to the node that have not begun fail.
    pub(crate) gone: Cell<bool>,
    /// The factor of [`SimFabric::slow_down`](crate::SimFabric::slow_down).
    pub(crate) slowness: Cell<u32>,
    pub(crate) nic: NicQueues,
    /// The compute nodes that this node has fenced, one bit for each. No request of a fenced node
    /// begins at this node.
    kept_out: Cell<u64>,
}

/// The bit of a compute node in a set.
pub(crate) fn bit(node: ComputeNodeId) -> u64 {
    1 << node.index()
}

impl Host {
    pub(crate) fn new() -> Rc<Host> {
        Rc::new(Host {
            gone: Cell::new(false),
            slowness: Cell::new(1),
            nic: NicQueues::default(),
            kept_out: Cell::new(0),
        })
    }

    pub(crate) fn keep_out(&self, node: ComputeNodeId) {
        self.kept_out.set(self.kept_out.get() | bit(node));
    }

    pub(crate) fn admit(&self, node: ComputeNodeId) {
        self.kept_out.set(self.kept_out.get() & !bit(node));
    }

    pub(crate) fn keeps_out(&self, node: ComputeNodeId) -> bool {
        self.kept_out.get() & bit(node) != 0
    }
}

#[derive(Clone)]
pub(crate) struct MemoryNode {
    pub(crate) host: Rc<Host>,
    /// The memory, with the on-chip memory behind it.
    pub(crate) memory: Arc<Region>,
    pub(crate) extent: Extent,
}

impl MemoryNode {
    pub(crate) fn new(memory: Arc<Region>, extent: Extent) -> MemoryNode {
        MemoryNode { host: Host::new(), memory, extent }
    }
}

pub(crate) struct Node {
    pub(crate) id: ComputeNodeId,
    pub(crate) host: Rc<Host>,
    pub(crate) mailbox: Rc<Mailbox>,
    pub(crate) regions: RefCell<Vec<Arc<Region>>>,
    /// Whether the node was killed: its own requests that have not begun never begin.
    pub(crate) dead: Cell<bool>,
    /// The compute nodes that this node has forgotten, one bit for each.
    pub(crate) removed: Cell<u64>,
    /// The replaced compute nodes whose successors this node has not admitted, one bit for each id.
    pub(crate) unadmitted: Cell<u64>,
    /// Whether another node has joined under this node's id.
    pub(crate) replaced: Cell<bool>,
}

impl Node {
    pub(crate) fn new(id: ComputeNodeId, host: Rc<Host>, mailbox: Mailbox) -> Rc<Node> {
        Rc::new(Node {
            id,
            host,
            mailbox: Rc::new(mailbox),
            regions: RefCell::default(),
            dead: Cell::new(false),
            removed: Cell::new(0),
            unadmitted: Cell::new(0),
            replaced: Cell::new(false),
        })
    }

    pub(crate) fn region(&self, key: usize) -> Option<Arc<Region>> {
        self.regions.borrow().get(key).cloned()
    }
}

/// The far end of a send queue.
pub(crate) struct There {
    pub(crate) host: Rc<Host>,
    /// The compute node; `None` for a memory node.
    pub(crate) node: Option<Rc<Node>>,
    /// The target memory and its lengths; empty until the region is registered.
    pub(crate) memory: OnceCell<(Arc<Region>, Extent)>,
}

impl There {
    pub(crate) fn memory_node(node: &MemoryNode) -> There {
        let MemoryNode { host, memory, extent } = node.clone();
        There { host, node: None, memory: OnceCell::from((memory, extent)) }
    }

    /// The region `key` of a compute node. The region may not exist yet.
    pub(crate) fn compute_node(node: Rc<Node>, key: u16) -> There {
        let there =
            There { host: Rc::clone(&node.host), node: Some(node), memory: OnceCell::new() };
        there.look_for_memory(key);
        there
    }

    /// Looks up the region `key` if it was not registered before.
    pub(crate) fn look_for_memory(&self, key: u16) {
        if self.memory.get().is_none()
            && let Some(region) = self.node.as_ref().and_then(|node| node.region(key.into()))
        {
            // The cell was empty, so this `set` succeeds.
            let extent = Extent::from(region.len());
            let _ = self.memory.set((region, extent));
        }
    }
}
