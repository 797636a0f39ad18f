//! [`ShmFabric`]: the nodes of one process, and the nodes of other processes that this process has
//! added.

use std::sync::Arc;

use latchwork_verbs::{ComputeNodeId, Extent, MemoryNodeId, Region, RegionKey, SetupError, WORD};

use crate::ShmError;
use crate::across::peer_ring::Lane;
use crate::across::ring::Ends;
use crate::config::ShmConfig;
use crate::endpoint::ShmEndpoint;
use crate::inbox::{Across, Mailbox, ShmInbox};
use crate::node::{Elsewhere, Mapped, Memory, Node, Post};
use crate::shared::Shared;

#[cfg(not(all(target_os = "linux", not(loom))))]
mod alone;
#[cfg(all(target_os = "linux", not(loom)))]
mod peers;

/// The memory nodes and compute nodes of one process. In a directory, the fabric also has the nodes
/// of peers: of other processes that use the directory. Clones are the same fabric.
///
/// When the last clone and the last endpoint of a fabric in a directory are dropped, the fabric
/// removes the process's files. After this no peer can map them.
#[derive(Clone)]
pub struct ShmFabric {
    pub(crate) shared: Arc<Shared>,
}

impl Default for ShmFabric {
    fn default() -> Self {
        ShmFabric::new(ShmConfig::default())
    }
}

impl ShmFabric {
    /// Makes a fabric of this process alone, without nodes.
    pub fn new(config: ShmConfig) -> Self {
        ShmFabric { shared: Arc::new(Shared::new(config, None)) }
    }

    // ---- memory nodes ---------------------------------------------------------------------------

    /// Adds a memory node with zero bytes of these lengths, multiples of 8 and the first positive,
    /// under the lowest free id. In a fabric of one process, a page of a large memory is allocated
    /// at its first touch. In a directory all of the memory is allocated at once.
    ///
    /// # Errors
    /// [`SetupError::Region`], [`SetupError::TooManyMemoryNodes`] and [`SetupError::NoRoom`]; in a
    /// directory also [`SetupError::System`]. [`SetupError::System`] may also come when another
    /// thread adds a memory node at the same time.
    pub fn add_memory_node(&self, extent: impl Into<Extent>) -> Result<MemoryNodeId, SetupError> {
        let id = {
            let memory = self.shared.memory.read();
            (0..=u16::MAX).find(|id| !memory.contains_key(id))
        };
        let id = MemoryNodeId(id.ok_or(SetupError::TooManyMemoryNodes)?);
        self.serve_memory_as(id, extent).map_err(ShmError::setup)?;
        Ok(id)
    }

    /// Adds a memory node under this id, like [`ShmFabric::add_memory_node`].
    ///
    /// # Errors
    /// [`ShmError::Known`], [`ShmError::NoRoom`] and the errors of allocating the memory.
    pub fn serve_memory_as(
        &self,
        id: MemoryNodeId,
        extent: impl Into<Extent>,
    ) -> Result<(), ShmError> {
        let extent = extent.into();
        let bytes = extent.region_bytes()?;
        let mut memory = self.shared.memory.write();
        if memory.contains_key(&id.0) {
            return Err(ShmError::Known { node: format!("memory node {}", id.0) });
        }
        let region = match &self.shared.directory {
            None => Region::zeroed(bytes)?,
            Some(directory) => directory.make_memory(id, bytes)?,
        };
        memory.insert(id.0, Memory::There(Mapped { region, chip_bytes: extent.chip_bytes }));
        Ok(())
    }

    /// Makes the operating system allocate, now, all memory of all memory nodes that this fabric
    /// knows (see [`Region::prefault`]).
    pub fn prefault(&self) {
        let memory = self.shared.memory.read().clone();
        for memory in memory.values() {
            if let Memory::There(Mapped { region, .. }) = memory {
                region.prefault();
            }
        }
    }

    /// The memory of a memory node, for tests and tools that read the memory from outside. Its
    /// on-chip memory follows behind the other memory.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        match self.shared.memory(node)? {
            Memory::There(mapped) => Some(mapped.region),
            Memory::Gone(_) => None,
        }
    }

    /// The lengths of the memory of a memory node of this process or of a peer.
    pub fn extent(&self, node: MemoryNodeId) -> Option<Extent> {
        Some(self.shared.memory(node)?.extent())
    }

    /// The length in bytes up to which a WRITE to a memory node is whole if its sender dies. In a
    /// directory it is one word: the sender's thread copies, and its death may come between any
    /// two stores. In a fabric of one process no memory outlives the sender.
    pub fn whole_write(&self) -> u32 {
        if self.shared.directory.is_some() { WORD as u32 } else { u32::MAX }
    }

    // ---- compute nodes --------------------------------------------------------------------------

    /// Adds a compute node, with an inbox and without regions.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`]; in a directory also [`SetupError::NoRoom`] and other errors
    /// of the operating system.
    pub fn add_compute_node(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        let mut nodes = self.shared.nodes.write();
        if nodes.contains_key(&id) {
            return Err(SetupError::DuplicateNode(id));
        }
        let across = match &self.shared.directory {
            None => None,
            Some(directory) => Some(Across::new(directory.make_page(id).map_err(ShmError::setup)?)),
        };
        let mailbox = Arc::new(Mailbox::new(self.shared.config.inbox_capacity, across));
        for (peer, node) in nodes.iter() {
            if let Post::Elsewhere(elsewhere) = &node.post
                && !node.is_disconnected()
            {
                self.connect((id, &mailbox), (*peer, elsewhere)).map_err(ShmError::setup)?;
            }
        }
        nodes.insert(id, Arc::new(Node::new(Post::Here(mailbox))));
        Ok(())
    }

    /// Makes or opens the rings between a node of this process and a node of another process.
    fn connect(
        &self,
        (own, mailbox): (ComputeNodeId, &Arc<Mailbox>),
        (peer, elsewhere): (ComputeNodeId, &Elsewhere),
    ) -> Result<(), ShmError> {
        let directory = self.shared.directory.as_ref().ok_or(ShmError::OneProcess)?;
        let across = mailbox.across().ok_or(ShmError::OneProcess)?;
        let capacity = self.shared.config.inbox_capacity;
        let (here, there) = ((directory.incarnation(), own), (elsewhere.incarnation, peer));
        let incoming = directory.ring(Ends { receiver: here, sender: there }, capacity)?;
        let outgoing = directory.ring(Ends { receiver: there, sender: here }, capacity)?;
        // A peer sends only after both sides have added each other. So a bit of the peer that is
        // set at this point is from the peer's earlier life.
        across.page.forget(peer);
        across.lanes.add(peer, incoming);
        mailbox.wake_all();
        elsewhere.add_ring(own, Lane::new(outgoing, Arc::clone(&elsewhere.page), own));
        Ok(())
    }

    fn own(&self, id: ComputeNodeId) -> Result<(Arc<Node>, Arc<Mailbox>), SetupError> {
        let node = self.shared.node(id).ok_or(SetupError::UnknownNode(id))?;
        let mailbox = node.mailbox().cloned().ok_or(SetupError::UnknownNode(id))?;
        Ok((node, mailbox))
    }

    /// Makes memory that peers may address after [`ShmFabric::register`] for a node of this
    /// process. In a directory the memory is a file that peers can map. In a fabric of one process
    /// any [`Region`] serves as well.
    ///
    /// # Errors
    /// [`SetupError::Region`] and [`SetupError::NoRoom`]; in a directory also
    /// [`SetupError::System`].
    pub fn new_region(&self, bytes: usize) -> Result<Arc<Region>, SetupError> {
        match &self.shared.directory {
            None => Ok(Region::zeroed(bytes)?),
            Some(directory) => directory.make_region(bytes).map_err(ShmError::setup),
        }
    }

    /// Registers memory of a compute node, as a local buffer of the node's own verbs and as a
    /// target of its peers' verbs. Keys count from 0 per node. The fabric keeps the region until
    /// the fabric is dropped.
    ///
    /// Peers in other processes can address only regions from [`ShmFabric::new_region`], and the
    /// memory of this process's memory nodes. For these peers a region of another origin is an
    /// unknown target.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`] and [`SetupError::TooManyRegions`]. A node in a directory can
    /// have 128 regions from [`ShmFabric::new_region`].
    pub fn register(
        &self,
        node: ComputeNodeId,
        region: Arc<Region>,
    ) -> Result<RegionKey, SetupError> {
        let (found, mailbox) = self.own(node)?;
        let bytes = region.len();
        let file = self.shared.directory.as_ref().and_then(|it| it.number_of(&region));
        let publish = |key| {
            let (Some(across), Some(file)) = (mailbox.across(), file) else { return true };
            across.page.add_region(key, file, bytes)
        };
        found.add_region(region, publish).ok_or(SetupError::TooManyRegions(node))
    }

    /// Makes an endpoint for one worker of `node`, a node of this process.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn endpoint(&self, node: ComputeNodeId) -> Result<ShmEndpoint, SetupError> {
        let (own, _) = self.own(node)?;
        Ok(ShmEndpoint::new(Arc::clone(&self.shared), node, own))
    }

    /// Makes the inbox of `node`, a node of this process.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<ShmInbox, SetupError> {
        Ok(ShmInbox::new(self.own(node)?.1))
    }

    /// Cuts a compute node off. From now on verbs to the node, also those that wait for room in an
    /// inbox, complete with [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected).
    /// The node's own verbs on the memory of other nodes are not affected.
    ///
    /// A node of another process also loses its connection. This process receives no more messages
    /// of the node, and unmaps the node's memory once all endpoints have noticed the cut-off. The
    /// node's process can still write the memory that it has mapped. To prevent such writes,
    /// [stop](ShmFabric::stop) the process first.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        let found = self.shared.node(node).ok_or(SetupError::UnknownNode(node))?;
        let first = found.disconnect();
        let (Post::Elsewhere(elsewhere), true) = (&found.post, first) else { return Ok(()) };
        self.shared.count_change();
        let nodes = self.shared.nodes.read();
        for (own, mailbox) in nodes.iter().filter_map(|(id, node)| Some((*id, node.mailbox()?))) {
            if let (Some(across), Some(directory)) = (mailbox.across(), &self.shared.directory) {
                across.lanes.remove(node);
                let ends = [(directory.incarnation(), own), (elsewhere.incarnation, node)];
                directory.remove_ring(Ends { receiver: ends[0], sender: ends[1] });
                directory.remove_ring(Ends { receiver: ends[1], sender: ends[0] });
            }
            // The workers are woken because their endpoints keep the node's memory mapped until the
            // next ring or post.
            mailbox.wake_all();
        }
        Ok(())
    }

    /// Cuts a memory node off, of this process or another one. From now on verbs to the node
    /// complete with [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected).
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`].
    pub fn disconnect_memory(&self, id: MemoryNodeId) -> Result<(), SetupError> {
        let mut memory = self.shared.memory.write();
        memory.get_mut(&id.0).ok_or(SetupError::UnknownMemoryNode(id))?.leave();
        drop(memory);
        self.shared.count_change();
        let nodes = self.shared.nodes.read();
        nodes.values().filter_map(|node| node.mailbox()).for_each(|mailbox| mailbox.wake_all());
        Ok(())
    }
}
