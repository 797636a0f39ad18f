//! [`Fabric`]: the nodes of this process on its RDMA devices.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use latchwork_runtime::Notifier;
use latchwork_runtime::sync::{Mutex, RwLock};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, RegionKey, SetupError, Target};

use crate::connection::{Answer, Caller, Note, Offer, answer_from_bytes, answer_to_bytes};
use crate::directory::{Contact, Courier, Peer, Peers, RemoteMemory};
use crate::endpoint::{IbvEndpoint, Wake};
use crate::error::{ConnectError, IbvOpenError};
use crate::inbox::IbvInbox;
use crate::node::Node;
use crate::sys::{Device, Library, Tuning, Watch, Watcher};

/// The settings of an RDMA fabric.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IbvConfig {
    /// The devices to use, by name; empty means all devices. Nodes of this process are assigned to
    /// the devices in turn.
    pub devices: Vec<String>,
    /// The entry of the port's table of addresses (GIDs). With `None` the fabric chooses one.
    pub gid_index: Option<u8>,
    /// Limit of messages that wait in the inbox of one compute node, as far as the device has room;
    /// 128 bytes each. Further messages wait at the senders.
    pub inbox_capacity: usize,
    /// Limit of requests in the send queue of one connection, as far as the device has room.
    /// Further requests wait in software.
    pub send_queue: u32,
    /// Limit of batches that one endpoint has in its connections. Further batches wait in software.
    pub batches: u32,
    /// Limit of outstanding READs and atomics per connection, as far as both devices allow it.
    pub reads: u8,
    /// The time until an acknowledgement counts as lost: 4.096 us times two to this power, from 1
    /// to 31. 16 is 0.27 s.
    pub timeout: u8,
    /// The number of repetitions of a request after that, from 0 to 6. (7 is unlimited on
    /// Soft-RoCE.)
    pub retries: u8,
    /// Time limit for a peer to answer an offer of a connection.
    pub connect_timeout: Duration,
    /// The member epoch of the nodes of this process, for nodes of other processes. A later node
    /// with the same name has a higher epoch.
    pub epoch: u64,
}

impl Default for IbvConfig {
    fn default() -> Self {
        IbvConfig {
            devices: Vec::new(),
            gid_index: None,
            inbox_capacity: 1024,
            send_queue: 128,
            batches: 256,
            reads: 16,
            timeout: 16,
            retries: 6,
            connect_timeout: Duration::from_secs(5),
            epoch: 0,
        }
    }
}

/// The memory nodes and compute nodes of one process, on its devices. Clones are the same fabric.
#[derive(Clone)]
pub struct IbvFabric {
    pub(crate) shared: Arc<Shared>,
}

/// A [`Fabric`] handle that does not keep the fabric open, for callbacks that the fabric owns.
#[derive(Clone)]
pub struct WeakFabric(Weak<Shared>);

impl WeakFabric {
    /// The fabric, while another handle keeps it open.
    pub fn upgrade(&self) -> Option<IbvFabric> {
        self.0.upgrade().map(|shared| IbvFabric { shared })
    }
}

/// Takes the answer to an offer, once.
pub(crate) type Answered = Box<dyn FnOnce(Result<Answer, ConnectError>) + Send>;

pub(crate) struct Shared {
    pub(crate) config: IbvConfig,
    pub(crate) watcher: Arc<Watcher>,
    courier: Option<Arc<dyn Courier>>,
    devices: Vec<Arc<Device>>,
    memory: RwLock<BTreeMap<u16, Arc<Node>>>,
    nodes: RwLock<Vec<Option<Arc<Node>>>>,
    peers: Peers,
    // The epoch up to which each peer is fenced. Locked inside the lock of a node's responders.
    fences: RwLock<BTreeMap<Peer, u64>>,
    departed_nodes: AtomicU64,
    wakes: Mutex<Vec<Weak<Wake>>>,
    watches: Mutex<Vec<Watch>>,
}

/// The requests of send queues, for nodes of this process and of others.
impl Shared {
    /// The node of `peer`, if it is a node of this process.
    fn node(&self, peer: Peer) -> Option<Arc<Node>> {
        match peer {
            Peer::Memory(id) => self.memory.read().get(&id.0).cloned(),
            Peer::Compute(id) => self.nodes.read().get(id.index()).cloned().flatten(),
        }
    }

    pub(crate) fn tuning(&self) -> Tuning {
        let IbvConfig { timeout, retries, reads, .. } = self.config;
        Tuning { timeout: timeout.clamp(1, 31), retries: retries.min(6), reads: reads.max(1) }
    }

    /// Registers `wake`: it is fired when a node leaves or dies.
    pub(crate) fn wake_on_leave(&self, wake: &Arc<Wake>) {
        let mut wakes = self.wakes.lock();
        wakes.retain(|wake| wake.strong_count() > 0);
        wakes.push(Arc::downgrade(wake));
    }

    /// Whether the node is known, alive or not.
    pub(crate) fn knows(&self, peer: Peer) -> bool {
        self.node(peer).is_some() || self.peers.knows(peer)
    }

    /// The epoch of the node that has this name now. `None` when there is none, or when it is
    /// disconnected.
    pub(crate) fn epoch(&self, peer: Peer) -> Option<u64> {
        match self.node(peer) {
            Some(node) => (!node.is_cut_off()).then_some(self.config.epoch),
            None => self.peers.epoch(peer),
        }
    }

    /// The memory of a target, at the node of this epoch. The memory never changes.
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

    /// The number of nodes that have left or died so far. The number grows after the node is
    /// marked.
    pub(crate) fn departed_nodes(&self) -> u64 {
        self.departed_nodes.load(Ordering::Acquire) + self.peers.departed_nodes()
    }

    /// Sends an offer to the peer of this epoch. `answered` gets the answer, perhaps later.
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
            // Another node with the same name is not the peer that was meant.
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
            // If this note is lost, the unused pair stays until the peer's process ends.
            courier.carry(peer, epoch, bytes, self.config.connect_timeout, Box::new(drop));
        }
    }

    fn is_refused(&self, from: Caller) -> bool {
        self.fences.read().get(&from.peer).is_some_and(|epoch| from.epoch <= *epoch)
    }

    fn deliver(&self, to: Peer, from: Caller, bytes: &[u8]) -> Result<Answer, ConnectError> {
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

impl IbvFabric {
    /// Opens the devices for a fabric with nodes of this process only.
    ///
    /// # Errors
    /// [`OpenError`]: there is no libibverbs, no such device, or the device cannot be used.
    pub fn open(config: IbvConfig) -> Result<IbvFabric, IbvOpenError> {
        IbvFabric::build(config, None)
    }

    /// Opens the devices for a fabric with nodes of several processes. Before two nodes are
    /// connected, `courier` carries the bytes for nodes of other processes. The bytes from those
    /// nodes are passed to [`Fabric::deliver`]. [`Fabric::add_peer`] adds each such node.
    ///
    /// # Errors
    /// As [`Fabric::open`].
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

    /// Adds a memory node with this id to this process, as [`Fabric::add_memory_node`] does.
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
    /// node is fenced as by [`Fabric::fence`]. False when no such node is known, or when the fence
    /// was not complete within `patience`.
    pub fn remove_peer(&self, peer: Peer, patience: Duration) -> bool {
        let epoch = self.shared.peers.last_epoch(peer);
        epoch.is_some_and(|epoch| self.fence(peer, epoch, patience))
    }

    /// Fences a node of another process: from now on the nodes of this process refuse it with this
    /// epoch or a lower one. True: the queue pairs at this end are destroyed, and no verb that the
    /// fenced node has posted takes effect here any more. False: that took longer than `patience`.
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
        let pairs: Vec<_> = nodes.flat_map(|node| node.take_responders(peer, epoch)).collect();
        if pairs.is_empty() {
            return true;
        }
        let (done, is_done) = channel();
        let pairs = Arc::new(Mutex::new(pairs));
        let theirs = Arc::clone(&pairs);
        let destroy = move || {
            theirs.lock().clear();
            let _ = done.send(());
        };
        match thread::Builder::new().name("ibv-fence".to_owned()).spawn(destroy) {
            Ok(_) => is_done.recv_timeout(patience).is_ok(),
            Err(_) => {
                pairs.lock().clear();
                true
            }
        }
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
