//! What stands at the ends of the wires: memory nodes and compute nodes, each with a NIC.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use latchwork_verbs::{ComputeNodeId, Region};

use crate::inbox::Mailbox;
use crate::nic::NicQueues;

/// What every node has.
pub(crate) struct Host {
    /// Requests to it that have not begun fail.
    pub(crate) gone: Cell<bool>,
    /// Everything at this node takes so many times as long.
    pub(crate) slowness: Cell<u32>,
    pub(crate) nic: NicQueues,
    /// Compute nodes of which nothing begins here any more, a bit for each.
    kept_out: Cell<u64>,
}

/// The bit of a compute node in a set.
pub(crate) fn bit(node: ComputeNodeId) -> u64 {
    1 << node.index()
}

impl Host {
    fn new() -> Rc<Host> {
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

    pub(crate) fn keeps_out(&self, node: ComputeNodeId) -> bool {
        self.kept_out.get() & bit(node) != 0
    }
}

/// A memory node.
#[derive(Clone)]
pub(crate) struct MemoryNode {
    pub(crate) host: Rc<Host>,
    pub(crate) memory: Arc<Region>,
}

impl MemoryNode {
    pub(crate) fn new(memory: Arc<Region>) -> MemoryNode {
        MemoryNode { host: Host::new(), memory }
    }
}

/// A compute node.
pub(crate) struct Node {
    pub(crate) id: ComputeNodeId,
    pub(crate) host: Rc<Host>,
    pub(crate) mailbox: Rc<Mailbox>,
    pub(crate) regions: RefCell<Vec<Arc<Region>>>,
    /// Requests of its own that have not begun never do.
    pub(crate) dead: Cell<bool>,
    /// Compute nodes that it has given up, a bit for each.
    pub(crate) removed: Cell<u64>,
}

impl Node {
    pub(crate) fn new(id: ComputeNodeId, mailbox: Mailbox) -> Rc<Node> {
        Rc::new(Node {
            id,
            host: Host::new(),
            mailbox: Rc::new(mailbox),
            regions: RefCell::default(),
            dead: Cell::new(false),
            removed: Cell::new(0),
        })
    }

    pub(crate) fn region(&self, key: usize) -> Option<Arc<Region>> {
        self.regions.borrow().get(key).cloned()
    }
}

/// The far end of a lane.
pub(crate) struct There {
    pub(crate) host: Rc<Host>,
    /// The node, when it is a compute node.
    pub(crate) node: Option<Rc<Node>>,
    /// The memory that its batches are for, once it has some.
    pub(crate) memory: OnceCell<Arc<Region>>,
}

impl There {
    /// A memory node.
    pub(crate) fn memory_node(node: &MemoryNode) -> There {
        let MemoryNode { host, memory } = node.clone();
        There { host, node: None, memory: OnceCell::from(memory) }
    }

    /// The region `key` of a compute node, which may not exist yet.
    pub(crate) fn compute_node(node: Rc<Node>, key: u16) -> There {
        let there =
            There { host: Rc::clone(&node.host), node: Some(node), memory: OnceCell::new() };
        there.look_for_memory(key);
        there
    }

    /// Looks whether the region `key` has been registered, if it was not.
    pub(crate) fn look_for_memory(&self, key: u16) {
        if self.memory.get().is_none()
            && let Some(region) = self.node.as_ref().and_then(|node| node.region(key.into()))
        {
            // There was none.
            let _ = self.memory.set(region);
        }
    }
}
