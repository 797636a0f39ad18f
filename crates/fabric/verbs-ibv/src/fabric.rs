//! [`IbvFabric`]: the nodes of this process on its RDMA devices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Notifier;
use latchwork_runtime::sync::{Mutex, RwLock};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, RegionKey, SetupError};

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

/// The memory nodes and compute nodes of one process, on its devices. Clones are the same fabric.
#[derive(Clone)]
pub struct IbvFabric {
    pub(crate) shared: Arc<Shared>,
}

/// A [`IbvFabric`] handle that does not keep the fabric open, for callbacks that the fabric owns.
#[derive(Clone)]
pub struct WeakFabric(Weak<Shared>);

impl WeakFabric {
    /// The fabric, while another handle keeps it open.
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

    /// Opens the devices for a fabric with nodes of several processes. Before two nodes are
    /// connected, `courier` carries the bytes for nodes of other processes. The bytes from those
    /// nodes are passed to [`IbvFabric::deliver`]. [`IbvFabric::add_peer`] adds each such node.
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

    /// Adds a memory node of `bytes` zero bytes, a positive multiple of 8, to this process. The
    /// node gets the lowest id that is free in this process. Its memory is locked in RAM at once,
    /// because devices reach only locked memory.
    ///
    /// # Errors
    /// [`SetupError::Region`], [`SetupError::TooManyMemoryNodes`] and [`SetupError::System`].
    pub fn add_memory_node(&self, bytes: usize) -> Result<MemoryNodeId, SetupError> {
        let region = Region::zeroed(bytes)?;
        let mut memory = self.shared.memory.write();
        let free = (0..=u16::MAX).find(|id| !memory.contains_key(id));
        let id = free.ok_or(SetupError::TooManyMemoryNodes)?;
        memory.insert(id, Arc::new(self.memory_node(id, region)?));
        Ok(MemoryNodeId(id))
    }

    /// Adds a memory node with this id to this process, as [`IbvFabric::add_memory_node`] does.
    ///
    /// # Errors
    /// [`SetupError::DuplicateMemoryNode`], [`SetupError::Region`] and [`SetupError::System`].
    pub fn serve_memory_as(&self, id: MemoryNodeId, bytes: usize) -> Result<(), SetupError> {
        let region = Region::zeroed(bytes)?;
        let mut memory = self.shared.memory.write();
        if memory.contains_key(&id.0) {
            return Err(SetupError::DuplicateMemoryNode(id));
        }
        memory.insert(id.0, Arc::new(self.memory_node(id.0, region)?));
        Ok(())
    }

    fn memory_node(&self, id: u16, region: Arc<Region>) -> Result<Node, SetupError> {
        Node::memory(self.device(id.into()), self.shared.tuning().reads, region)
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

    /// Registers memory of a compute node of this process, as a local buffer of its own verbs and
    /// as a target of its peers. Keys count from 0 per node. The memory is locked in RAM, and the
    /// fabric keeps it as long as the fabric exists.
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

    /// A new endpoint for one worker of `node`, a node of this process. Completions wake the parked
    /// worker through `notifier`. A worker without a notifier does not park while it expects
    /// completions.
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

    /// Disconnects a compute node of this process: from now on verbs to the node, also those pushed
    /// back, complete with [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected).
    /// The node's own verbs to others are not affected.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        self.cut_off(&*self.own(node)?);
        Ok(())
    }

    /// Disconnects a memory node of this process, in the same way.
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

    /// Wakes parked workers, so that they end their batches to nodes that have left or died.
    fn departed(&self) {
        let wakes = self.shared.wakes.lock().clone();
        wakes.iter().filter_map(Weak::upgrade).for_each(|wake| wake.fire());
    }

    // ---- nodes of other processes --------------------------------------------------------------------

    /// A handle that does not keep the fabric open.
    pub fn downgrade(&self) -> WeakFabric {
        WeakFabric(Arc::downgrade(&self.shared))
    }

    /// The description of a node of this process for other processes, with the memory registered so
    /// far.
    pub fn contact(&self, own: Peer) -> Option<Contact> {
        let node = self.shared.node(own)?;
        Some(Contact { epoch: self.shared.config.epoch, regions: node.remotes() })
    }

    /// Adds a node of another process. An earlier node with the same name counts as dead.
    pub fn add_peer(&self, peer: Peer, contact: Contact) {
        self.shared.peers.add(peer, contact);
        self.departed();
    }

    /// Takes bytes for `to`, a node of this process, that a [`Courier`] carried. Returns the answer
    /// for the courier's reply. `from` and `epoch` are what the courier knows of the sender; bytes
    /// that name another sender are refused.
    pub fn deliver(&self, to: Peer, from: Peer, epoch: u64, bytes: &[u8]) -> Vec<u8> {
        answer_to_bytes(&self.shared.deliver(to, Caller { peer: from, epoch }, bytes))
    }

    /// Removes a node of another process. From now on verbs to the node, also those pushed back,
    /// complete with [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected), and the
    /// node is fenced as by [`IbvFabric::fence`]. False when no such node is known, or when the
    /// fence was not complete within `patience`.
    pub fn remove_peer(&self, peer: Peer, patience: Duration) -> bool {
        let epoch = self.shared.peers.last_epoch(peer);
        epoch.is_some_and(|epoch| self.fence(peer, epoch, patience))
    }

    /// Fences a node of another process: from now on the nodes of this process refuse it with this
    /// epoch or a lower one. True: the queue pairs at this end are destroyed, and no verb that the
    /// fenced node has posted takes effect here any more. False: that took longer than `patience`,
    /// and goes on. A later call waits for it again.
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
        // Without a thread the caller waits for longer than its patience.
        let thread = thread::Builder::new().name("ibv-fence".to_owned());
        if is_empty || thread.spawn(destroy).is_err() {
            pairs.lock().clear();
            shared.destructions.end(peer);
        }
        shared.destructions.wait(peer, patience)
    }

    /// The number of connections that end at nodes of this process.
    pub fn connections(&self) -> usize {
        let memory = self.shared.memory.read();
        let compute = self.shared.nodes.read();
        memory.values().chain(compute.iter().flatten()).map(|node| node.responders()).sum()
    }

    /// The memory of a memory node of this process, for tests and tools that read it from outside.
    /// Atomics of the CPU and of the device do not exclude each other, so words that verbs change
    /// atomically must be accessed only by verbs.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        let node = self.shared.node(Peer::Memory(node))?;
        Some(Arc::clone(&node.region(RegionKey(0))?.region))
    }
}
