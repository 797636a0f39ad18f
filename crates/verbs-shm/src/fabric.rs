//! The nodes of one process and what they registered.

use std::sync::Arc;

use latchwork_runtime::sync::{AtomicBool, Ordering, RwLock};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, RegionKey, SetupError};

use crate::endpoint::Endpoint;
use crate::inbox::{Inbox, Mailbox};

/// How a shared-memory fabric is built.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// Messages that wait in the inbox of one compute node at most, rounded up to a power of two;
    /// 128 bytes each. What is beyond waits at the senders.
    pub inbox_capacity: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config { inbox_capacity: 1024 }
    }
}

/// The memory nodes and compute nodes of one process. Clones are the same fabric.
#[derive(Clone)]
pub struct Fabric {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    config: Config,
    memory: RwLock<Vec<Arc<Region>>>,
    nodes: RwLock<Vec<Option<Arc<Node>>>>,
}

/// A compute node, as its peers see it.
pub(crate) struct Node {
    pub(crate) mailbox: Arc<Mailbox>,
    regions: RwLock<Vec<Arc<Region>>>,
    disconnected: AtomicBool,
}

impl Node {
    pub(crate) fn region(&self, key: RegionKey) -> Option<Arc<Region>> {
        self.regions.read().get(usize::from(key.0)).cloned()
    }

    pub(crate) fn is_disconnected(&self) -> bool {
        self.disconnected.load(Ordering::Relaxed)
    }
}

impl Shared {
    pub(crate) fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        self.memory.read().get(usize::from(node.0)).cloned()
    }

    pub(crate) fn node(&self, node: ComputeNodeId) -> Option<Arc<Node>> {
        self.nodes.read().get(node.index()).cloned().flatten()
    }
}

impl Default for Fabric {
    fn default() -> Self {
        Fabric::new(Config::default())
    }
}

impl Fabric {
    /// A fabric without nodes.
    pub fn new(config: Config) -> Self {
        let (memory, nodes) = (RwLock::default(), RwLock::default());
        Fabric { shared: Arc::new(Shared { config, memory, nodes }) }
    }

    /// Adds a memory node of `bytes` zero bytes, a positive multiple of 8. Ids count from 0. The
    /// memory costs nothing until it is touched.
    ///
    /// # Errors
    /// [`SetupError::Region`] and [`SetupError::TooManyMemoryNodes`].
    pub fn add_memory_node(&self, bytes: usize) -> Result<MemoryNodeId, SetupError> {
        let region = Region::zeroed(bytes)?;
        let mut memory = self.shared.memory.write();
        let id = u16::try_from(memory.len()).map_err(|_| SetupError::TooManyMemoryNodes)?;
        memory.push(region);
        Ok(MemoryNodeId(id))
    }

    /// Has the operating system give the memory of all memory nodes now (see [`Region::prefault`]).
    pub fn prefault(&self) {
        let memory = self.shared.memory.read().clone();
        memory.iter().for_each(|region| region.prefault());
    }

    /// Adds a compute node, with an inbox and without regions.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`].
    pub fn add_compute_node(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        let mut nodes = self.shared.nodes.write();
        if nodes.len() <= id.index() {
            nodes.resize_with(id.index() + 1, || None);
        }
        let place = &mut nodes[id.index()];
        if place.is_some() {
            return Err(SetupError::DuplicateNode(id));
        }
        *place = Some(Arc::new(Node {
            mailbox: Arc::new(Mailbox::new(self.shared.config.inbox_capacity)),
            regions: RwLock::default(),
            disconnected: AtomicBool::new(false),
        }));
        Ok(())
    }

    /// Registers memory of a compute node, as a local buffer of its own verbs and as a target of its
    /// peers'. Keys count from 0 per node. The fabric keeps the region for its own lifetime.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`] and [`SetupError::TooManyRegions`].
    pub fn register(
        &self,
        node: ComputeNodeId,
        region: Arc<Region>,
    ) -> Result<RegionKey, SetupError> {
        let found = self.shared.node(node).ok_or(SetupError::UnknownNode(node))?;
        let mut regions = found.regions.write();
        let key = u16::try_from(regions.len()).map_err(|_| SetupError::TooManyRegions(node))?;
        regions.push(region);
        Ok(RegionKey(key))
    }

    /// A new endpoint for one worker of `node`.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn endpoint(&self, node: ComputeNodeId) -> Result<Endpoint, SetupError> {
        let own = self.shared.node(node).ok_or(SetupError::UnknownNode(node))?;
        Ok(Endpoint::new(Arc::clone(&self.shared), own))
    }

    /// The inbox of `node`.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<Inbox, SetupError> {
        let found = self.shared.node(node).ok_or(SetupError::UnknownNode(node))?;
        Ok(Inbox::new(Arc::clone(&found.mailbox)))
    }

    /// Cuts a compute node off: verbs to it, also those pushed back, complete with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected) from now on. Its own
    /// verbs to others are not affected.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        let found = self.shared.node(node).ok_or(SetupError::UnknownNode(node))?;
        found.disconnected.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// The memory of a memory node, for tests and tools that look at it from outside.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        self.shared.memory(node)
    }
}
