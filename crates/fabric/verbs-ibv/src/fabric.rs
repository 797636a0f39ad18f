//! [`IbvFabric`]: the nodes of this process on its RDMA devices, and the calls that concern nodes
//! of other processes.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Notifier;
use latchwork_runtime::sync::{Mutex, RwLock};
use latchwork_verbs::{ComputeNodeId, Extent, MemoryNodeId, Region, RegionKey, SetupError, Target};

use crate::config::IbvConfig;
use crate::connection::{Caller, answer_to_bytes};
use crate::destructions::Destructions;
use crate::directory::{Contact, Courier, Peer, Peers};
use crate::endpoint::IbvEndpoint;
use crate::error::IbvOpenError;
use crate::inbox::IbvInbox;
use crate::node::Node;
use crate::shared::Shared;
use crate::sys::{Device, Library, Watcher};

/// The memory nodes and compute nodes of one process, on the process's RDMA devices. Clones are the
/// same fabric.
#[derive(Clone)]
pub struct IbvFabric {
    pub(crate) shared: Arc<Shared>,
}

/// A [`IbvFabric`] handle that does not keep the fabric open, for callbacks that the fabric owns.
#[derive(Clone)]
pub struct WeakFabric(Weak<Shared>);

impl WeakFabric {
    /// The fabric; `None` when no other handle keeps it open.
    pub fn upgrade(&self) -> Option<IbvFabric> {
        self.0.upgrade().map(|shared| IbvFabric { shared })
    }
}

impl IbvFabric {
    /// Opens the devices for a fabric with nodes of this process only.
    ///
    /// # Errors
    /// [`IbvOpenError`]: there is no libibverbs, no such device, or the device cannot be used.
    pub fn open(config: IbvConfig) -> Result<IbvFabric, IbvOpenError> {
        IbvFabric::build(config, None)
    }

    /// Opens the devices for a fabric with nodes of several processes. To connect two nodes of
    /// different processes, `courier` carries bytes to the other process. The other process passes
    /// them to [`IbvFabric::deliver`]. [`IbvFabric::add_peer`] adds the nodes of other processes.
    ///
    /// # Errors
    /// As [`IbvFabric::open`].
    pub fn join(config: IbvConfig, courier: Arc<dyn Courier>) -> Result<IbvFabric, IbvOpenError> {
        IbvFabric::build(config, Some(courier))
    }

    fn build(
        config: IbvConfig,
        courier: Option<Arc<dyn Courier>>,
    ) -> Result<IbvFabric, IbvOpenError> {
        let library = Arc::new(Library::open()?);
        let mut names = config.devices.clone();
        if names.is_empty() {
            names = Device::names(&library);
        }
        if names.is_empty() {
            return Err(IbvOpenError::NoDevice { wanted: "at all".into(), there: "none".into() });
        }
        let open = |name: &String| Device::open(&library, name, config.gid_index);
        let devices = names.iter().map(open).collect::<Result<_, _>>()?;
        let watcher = Watcher::start().map_err(|error| IbvOpenError::Thread { error })?;
        let shared = Shared {
            config,
            watcher: Arc::new(watcher),
            courier,
            devices,
            memory: RwLock::default(),
            nodes: RwLock::default(),
            peers: Peers::default(),
            fences: RwLock::default(),
            destructions: Destructions::default(),
            departed_nodes: AtomicU64::new(0),
            wakes: Mutex::default(),
            watches: Mutex::default(),
        };
        let fabric = IbvFabric { shared: Arc::new(shared) };
        for device in &fabric.shared.devices {
            let weak = fabric.downgrade();
            let wake = move || {
                if let Some(fabric) = weak.upgrade() {
                    fabric.departed();
                }
            };
            let watch = fabric.shared.watcher.watch_device(device, wake);
            let watch = watch.map_err(|error| IbvOpenError::Thread { error })?;
            fabric.shared.watches.lock().push(watch);
        }
        Ok(fabric)
    }

    fn device(&self, turn: usize) -> &Arc<Device> {
        &self.shared.devices[turn % self.shared.devices.len()]
    }

    /// The names of the open devices.
    pub fn devices(&self) -> Vec<String> {
        self.shared.devices.iter().map(|device| device.name.clone()).collect()
    }

    /// Adds a memory node with zero bytes of these lengths, multiples of 8 and the first positive,
    /// to this process. The node gets the lowest id that is free in this process. The call locks
    /// the node's memory in RAM, because devices reach only locked memory.
    ///
    /// # Errors
    /// [`SetupError::Region`], [`SetupError::TooManyMemoryNodes`], [`SetupError::NoChip`] and
    /// [`SetupError::System`].
    pub fn add_memory_node(&self, extent: impl Into<Extent>) -> Result<MemoryNodeId, SetupError> {
        let mut memory = self.shared.memory.write();
        let free = (0..=u16::MAX).find(|id| !memory.contains_key(id));
        let id = free.ok_or(SetupError::TooManyMemoryNodes)?;
        memory.insert(id, Arc::new(self.memory_node(id, extent.into())?));
        Ok(MemoryNodeId(id))
    }

    /// Adds a memory node with this id to this process, like [`IbvFabric::add_memory_node`].
    ///
    /// # Errors
    /// [`SetupError::DuplicateMemoryNode`], [`SetupError::Region`], [`SetupError::NoChip`] and
    /// [`SetupError::System`].
    pub fn serve_memory_as(
        &self,
        id: MemoryNodeId,
        extent: impl Into<Extent>,
    ) -> Result<(), SetupError> {
        let mut memory = self.shared.memory.write();
        if memory.contains_key(&id.0) {
            return Err(SetupError::DuplicateMemoryNode(id));
        }
        memory.insert(id.0, Arc::new(self.memory_node(id.0, extent.into())?));
        Ok(())
    }

    fn memory_node(&self, id: u16, extent: Extent) -> Result<Node, SetupError> {
        Node::memory(self.device(id.into()), self.shared.tuning().reads, extent)
    }

    /// Adds a compute node to this process, with an inbox and without regions.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`] and [`SetupError::System`].
    pub fn add_compute_node(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        let mut nodes = self.shared.nodes.write();
        if nodes.len() <= id.index() {
            nodes.resize_with(id.index() + 1, || None);
        }
        let place = &mut nodes[id.index()];
        if place.is_some() {
            return Err(SetupError::DuplicateNode(id));
        }
        let inbox = u32::try_from(self.shared.config.inbox_capacity).unwrap_or(u32::MAX);
        let (device, reads) = (self.device(id.index()), self.shared.tuning().reads);
        let node = Node::compute(device, reads, inbox, &self.shared.watcher)?;
        *place = Some(Arc::new(node));
        Ok(())
    }

    fn own(&self, node: ComputeNodeId) -> Result<Arc<Node>, SetupError> {
        self.shared.node(Peer::Compute(node)).ok_or(SetupError::UnknownNode(node))
    }

    /// Registers memory of a compute node of this process. The memory can be a local buffer of the
    /// node's own verbs, and a target of its peers' verbs. Keys count from 0 per node. The call
    /// locks the memory in RAM, and the fabric keeps the memory as long as the fabric exists.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`], [`SetupError::TooManyRegions`] and [`SetupError::System`].
    pub fn register(
        &self,
        node: ComputeNodeId,
        region: Arc<Region>,
    ) -> Result<RegionKey, SetupError> {
        self.own(node)?.register(region)?.ok_or(SetupError::TooManyRegions(node))
    }

    /// Makes an endpoint for one worker of `node`, a node of this process. Completions wake the
    /// parked worker through `notifier`. A worker without a notifier does not park while it has
    /// batches in flight.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`] and [`SetupError::System`].
    pub fn endpoint(
        &self,
        node: ComputeNodeId,
        notifier: Option<Notifier>,
    ) -> Result<IbvEndpoint, SetupError> {
        IbvEndpoint::new(Arc::clone(&self.shared), (node, self.own(node)?), notifier)
    }

    /// The inbox of `node`, a node of this process.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<IbvInbox, SetupError> {
        let own = self.own(node)?;
        let mailbox = own.mailbox.clone().ok_or(SetupError::UnknownNode(node))?;
        Ok(IbvInbox::new(own, mailbox))
    }

    /// Cuts a compute node of this process off. From now on verbs to the node, also those that wait
    /// in software, complete with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected). The node's own verbs
    /// to other nodes are not affected.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        self.cut_off(&*self.own(node)?);
        Ok(())
    }

    /// Cuts a memory node of this process off, in the same way as [`IbvFabric::disconnect`].
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`].
    pub fn disconnect_memory(&self, id: MemoryNodeId) -> Result<(), SetupError> {
        let node = self.shared.node(Peer::Memory(id)).ok_or(SetupError::UnknownMemoryNode(id))?;
        self.cut_off(&node);
        Ok(())
    }

    fn cut_off(&self, node: &Node) {
        node.cut_off();
        self.shared.departed_nodes.fetch_add(1, Ordering::Release);
        self.departed();
    }

    /// Wakes the workers of all endpoints, so that they end their batches to nodes that have left
    /// or died.
    fn departed(&self) {
        let wakes = self.shared.wakes.lock().clone();
        wakes.iter().filter_map(Weak::upgrade).for_each(|wake| wake.fire());
    }

    // ---- nodes of other processes ---------------------------------------------------------------

    /// A handle that does not keep the fabric open.
    pub fn downgrade(&self) -> WeakFabric {
        WeakFabric(Arc::downgrade(&self.shared))
    }

    /// The contact of a node of this process, with the memory that is registered so far. `None`
    /// when this process has no such node.
    pub fn contact(&self, own: Peer) -> Option<Contact> {
        let node = self.shared.node(own)?;
        Some(Contact { epoch: self.shared.config.epoch, regions: node.remotes() })
    }

    /// Adds a node of another process. An earlier node with the same name counts as dead.
    pub fn add_peer(&self, peer: Peer, contact: Contact) {
        self.shared.peers.add(peer, contact);
        self.departed();
    }

    /// Takes bytes that a [`Courier`] carried to `to`, a node of this process. Returns the bytes of
    /// the answer, for the courier's reply. `from` and `epoch` are the sender as the courier has
    /// authenticated it; bytes that name another sender are refused.
    pub fn deliver(&self, to: Peer, from: Peer, epoch: u64, bytes: &[u8]) -> Vec<u8> {
        answer_to_bytes(&self.shared.deliver(to, Caller { peer: from, epoch }, bytes))
    }

    /// Removes a node of another process, and fences it like [`IbvFabric::fence`]. From now on
    /// verbs to the node, also those that wait in software, complete with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected). Returns false when no
    /// such node is known, or when the fence was not complete within `patience`.
    pub fn remove_peer(&self, peer: Peer, patience: Duration) -> bool {
        let epoch = self.shared.peers.last_epoch(peer);
        epoch.is_some_and(|epoch| self.fence(peer, epoch, patience))
    }

    /// Fences a node of another process: from now on the nodes of this process refuse its offers if
    /// its member epoch is `epoch` or lower. Returns true when this process has destroyed its ends
    /// of the connections. After this no verb that the fenced node has posted takes effect on nodes
    /// of this process. Returns false when the destruction took longer than `patience`; it
    /// continues, and a later call waits for it.
    pub fn fence(&self, peer: Peer, epoch: u64, patience: Duration) -> bool {
        let shared = &self.shared;
        {
            let mut fences = shared.fences.write();
            let fence = fences.entry(peer).or_insert(epoch);
            *fence = epoch.max(*fence);
        }
        if shared.peers.mark_left(peer, epoch) {
            self.departed();
        }
        let memory: Vec<_> = shared.memory.read().values().cloned().collect();
        let compute: Vec<_> = shared.nodes.read().iter().flatten().cloned().collect();
        let nodes = memory.iter().chain(&compute);
        shared.destructions.begin(peer);
        let pairs: Vec<_> = nodes.flat_map(|node| node.take_responders(peer, epoch)).collect();
        let pairs = Arc::new(Mutex::new(pairs));
        let (theirs, destroyer) = (Arc::clone(&pairs), Arc::clone(shared));
        let destroy = move || {
            theirs.lock().clear();
            destroyer.destructions.end(peer);
        };
        let is_empty = pairs.lock().is_empty();
        // If no thread can be started, this thread destroys the queue pairs, perhaps for longer
        // than `patience`.
        let thread = thread::Builder::new().name("ibv-fence".to_owned());
        if is_empty || thread.spawn(destroy).is_err() {
            pairs.lock().clear();
            shared.destructions.end(peer);
        }
        shared.destructions.wait(peer, patience)
    }

    /// The number of connections whose responder is a node of this process.
    pub fn connections(&self) -> usize {
        let memory = self.shared.memory.read();
        let compute = self.shared.nodes.read();
        memory.values().chain(compute.iter().flatten()).map(|node| node.responders()).sum()
    }

    /// The lengths of the memory of a memory node, if this process knows the node.
    pub fn extent(&self, node: MemoryNodeId) -> Option<Extent> {
        let (shared, target) = (&self.shared, Target::Memory(node));
        let epoch = shared.epoch(target.into())?;
        let chip_bytes = shared.chip(target, epoch).map_or(0, |chip| chip.len);
        Some(Extent { bytes: shared.memory(target, epoch)?.len, chip_bytes })
    }

    /// The memory of a memory node of this process, for tests and tools that read the memory from
    /// outside. It has no on-chip memory, which the CPU does not reach. Atomics of the CPU and of
    /// the device are not atomic against each other. So only verbs may access the words that verbs
    /// change atomically.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        let node = self.shared.node(Peer::Memory(node))?;
        Some(Arc::clone(&node.region(RegionKey(0))?.region))
    }
}
