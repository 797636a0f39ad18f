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
use crate::endpoint::{Endpoint, Wake};
use crate::error::{ConnectError, OpenError};
use crate::inbox::Inbox;
use crate::node::Node;
use crate::sys::{Device, Library, Tuning, Watch, Watcher};

/// How an RDMA fabric is built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The devices to use, by name; all there are when empty. Nodes of this process are dealt out
    /// to them in turn.
    pub devices: Vec<String>,
    /// The entry of the port's table of addresses (GIDs); found by itself if `None`.
    pub gid_index: Option<u8>,
    /// Messages that wait in the inbox of one compute node at most, as far as the device has room;
    /// 128 bytes each. What is beyond waits at the senders.
    pub inbox_capacity: usize,
    /// Requests in the send queue of one connection at most, as far as the device has room. What is
    /// beyond waits in software.
    pub send_queue: u32,
    /// Batches that one endpoint has in its connections at most. What is beyond waits in software.
    pub batches: u32,
    /// READs and atomics outstanding per connection at most, as far as both devices allow it.
    pub reads: u8,
    /// 4.096 us times two to this power, from 1 to 31, until an acknowledgement is missed. 16 is
    /// 0.27 s.
    pub timeout: u8,
    /// Times that a request is repeated then, from 0 to 6. (7 is for ever on Soft-RoCE.)
    pub retries: u8,
    /// How long a peer has to answer an offer of a connection.
    pub connect_timeout: Duration,
    /// When the nodes of this process joined, where others are elsewhere: whoever has their names
    /// later has a higher one.
    pub epoch: u64,
}

impl Default for Config {
    fn default() -> Self {
        Config {
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
pub struct Fabric {
    pub(crate) shared: Arc<Shared>,
}

/// A [`Fabric`] that is not kept open by this, for whoever is called by what the fabric owns.
#[derive(Clone)]
pub struct WeakFabric(Weak<Shared>);

impl WeakFabric {
    /// The fabric, as long as somebody has it.
    pub fn upgrade(&self) -> Option<Fabric> {
        self.0.upgrade().map(|shared| Fabric { shared })
    }
}

/// Takes the answer to an offer, once.
pub(crate) type Answered = Box<dyn FnOnce(Result<Answer, ConnectError>) + Send>;

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) watcher: Arc<Watcher>,
    courier: Option<Arc<dyn Courier>>,
    devices: Vec<Arc<Device>>,
    memory: RwLock<BTreeMap<u16, Arc<Node>>>,
    nodes: RwLock<Vec<Option<Arc<Node>>>>,
    peers: Peers,
    // Peers that are refused, up to an epoch. Locked inside of a node's list of responders.
    fences: RwLock<BTreeMap<Peer, u64>>,
    departures: AtomicU64,
    wakes: Mutex<Vec<Weak<Wake>>>,
    watches: Mutex<Vec<Watch>>,
}

/// What lanes ask, of nodes here and elsewhere alike.
impl Shared {
    /// The peer, if it is a node of this process.
    fn node(&self, peer: Peer) -> Option<Arc<Node>> {
        match peer {
            Peer::Memory(id) => self.memory.read().get(&id.0).cloned(),
            Peer::Compute(id) => self.nodes.read().get(id.index()).cloned().flatten(),
        }
    }

    pub(crate) fn tuning(&self) -> Tuning {
        let Config { timeout, retries, reads, .. } = self.config;
        Tuning { timeout: timeout.clamp(1, 31), retries: retries.min(6), reads: reads.max(1) }
    }

    /// Has the endpoint's worker woken when a node departs.
    pub(crate) fn wake_on_departure(&self, wake: &Arc<Wake>) {
        let mut wakes = self.wakes.lock();
        wakes.retain(|wake| wake.strong_count() > 0);
        wakes.push(Arc::downgrade(wake));
    }

    /// Whether there is such a node, or was.
    pub(crate) fn knows(&self, peer: Peer) -> bool {
        self.node(peer).is_some() || self.peers.knows(peer)
    }

    /// The epoch of the node that has this name now; `None` when there is none, or it is cut off.
    pub(crate) fn epoch(&self, peer: Peer) -> Option<u64> {
        match self.node(peer) {
            Some(node) => (!node.is_cut_off()).then_some(self.config.epoch),
            None => self.peers.epoch(peer),
        }
    }

    /// The memory that a target names, of the node of this epoch. It never changes.
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

    /// How many nodes have gone so far. Grows after they have.
    pub(crate) fn departures(&self) -> u64 {
        self.departures.load(Ordering::Acquire) + self.peers.departures()
    }

    /// Brings an offer to the peer, as it joined at this epoch, and gives the answer to `answered`,
    /// perhaps later.
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
            // Another one of its name is not who was meant.
            _ => answered(Err(ConnectError::Gone)),
        }
    }

    /// Tells the peer that this queue pair of its is not used any more.
    pub(crate) fn close(&self, peer: Peer, epoch: u64, from: Caller, pair: u32) {
        if let Some(node) = self.node(peer) {
            return node.close(from, pair);
        }
        if let Some(courier) = &self.courier
            && self.peers.epoch(peer) == Some(epoch)
        {
            let bytes = Note::Close { from, pair }.to_bytes();
            // When it gets lost the pair stays until this process ends: nobody uses it.
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

impl Fabric {
    /// Opens the devices. All nodes are of this process.
    ///
    /// # Errors
    /// [`OpenError`]: there is no libibverbs, no such device, or it cannot be used.
    pub fn open(config: Config) -> Result<Fabric, OpenError> {
        Fabric::build(config, None)
    }

    /// Opens the devices. What nodes of this process have to say to those of others before they are
    /// connected goes through `courier`; what theirs say is passed to [`Fabric::deliver`]. They are
    /// learned of by [`Fabric::add_peer`].
    ///
    /// # Errors
    /// As [`Fabric::open`].
    pub fn join(config: Config, courier: Arc<dyn Courier>) -> Result<Fabric, OpenError> {
        Fabric::build(config, Some(courier))
    }

    fn build(config: Config, courier: Option<Arc<dyn Courier>>) -> Result<Fabric, OpenError> {
        let library = Arc::new(Library::open()?);
        let mut names = config.devices.clone();
        if names.is_empty() {
            names = Device::names(&library);
        }
        if names.is_empty() {
            return Err(OpenError::NoDevice { wanted: "at all".into(), there: "none".into() });
        }
        let open = |name: &String| Device::open(&library, name, config.gid_index);
        let devices = names.iter().map(open).collect::<Result<_, _>>()?;
        let watcher = Watcher::start().map_err(|error| OpenError::Thread { error })?;
        let shared = Shared {
            config,
            watcher: Arc::new(watcher),
            courier,
            devices,
            memory: RwLock::default(),
            nodes: RwLock::default(),
            peers: Peers::default(),
            fences: RwLock::default(),
            departures: AtomicU64::new(0),
            wakes: Mutex::default(),
            watches: Mutex::default(),
        };
        let fabric = Fabric { shared: Arc::new(shared) };
        for device in &fabric.shared.devices {
            let weak = fabric.downgrade();
            let wake = move || {
                if let Some(fabric) = weak.upgrade() {
                    fabric.departed();
                }
            };
            let watch = fabric.shared.watcher.watch_device(device, wake);
            let watch = watch.map_err(|error| OpenError::Thread { error })?;
            fabric.shared.watches.lock().push(watch);
        }
        Ok(fabric)
    }

    fn device(&self, turn: usize) -> &Arc<Device> {
        &self.shared.devices[turn % self.shared.devices.len()]
    }

    /// The names of the devices that are open.
    pub fn devices(&self) -> Vec<String> {
        self.shared.devices.iter().map(|device| device.name.clone()).collect()
    }

    /// Adds a memory node of `bytes` zero bytes, a positive multiple of 8, to this process, with
    /// the lowest id that none has here. Its memory is locked in RAM at once: devices reach nothing
    /// else.
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
    /// as a target of its peers'. Keys count from 0 per node. The memory is locked in RAM, and the
    /// fabric keeps it for its own lifetime.
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

    /// A new endpoint for one worker of `node`, a node of this process. Completions wake the worker
    /// through `notifier` when it is parked; without one it does not park while it expects some.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`] and [`SetupError::System`].
    pub fn endpoint(
        &self,
        node: ComputeNodeId,
        notifier: Option<Notifier>,
    ) -> Result<Endpoint, SetupError> {
        Endpoint::new(Arc::clone(&self.shared), (node, self.own(node)?), notifier)
    }

    /// The inbox of `node`, a node of this process.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<Inbox, SetupError> {
        let own = self.own(node)?;
        let mailbox = own.mailbox.clone().ok_or(SetupError::UnknownNode(node))?;
        Ok(Inbox::new(own, mailbox))
    }

    /// Cuts a compute node of this process off: verbs to it, also those pushed back, complete with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected) from now on. Its own
    /// verbs to others are not affected.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        self.cut_off(&*self.own(node)?);
        Ok(())
    }

    /// Cuts a memory node of this process off, in the same way.
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
        self.shared.departures.fetch_add(1, Ordering::Release);
        self.departed();
    }

    /// Wakes parked workers, to give up what they have posted to nodes that are gone.
    fn departed(&self) {
        let wakes = self.shared.wakes.lock().clone();
        wakes.iter().filter_map(Weak::upgrade).for_each(|wake| wake.fire());
    }

    // ---- nodes of other processes --------------------------------------------------------------------

    /// A handle that does not keep the fabric open.
    pub fn downgrade(&self) -> WeakFabric {
        WeakFabric(Arc::downgrade(&self.shared))
    }

    /// What a node of this process says of itself to those of others: what it has registered so
    /// far.
    pub fn contact(&self, own: Peer) -> Option<Contact> {
        let node = self.shared.node(own)?;
        Some(Contact { epoch: self.shared.config.epoch, regions: node.remotes() })
    }

    /// Learns of a node of another process. One that had its name before is gone.
    pub fn add_peer(&self, peer: Peer, contact: Contact) {
        self.shared.peers.add(peer, contact);
        self.departed();
    }

    /// Takes what a node of another process says to `to`, a node of this one: bytes that a
    /// [`Courier`] carries. The answer is for its reply. Who says it, and since when it is there,
    /// is what the courier knows, whatever stands in the bytes.
    pub fn deliver(&self, to: Peer, from: Peer, epoch: u64, bytes: &[u8]) -> Vec<u8> {
        answer_to_bytes(&self.shared.deliver(to, Caller { peer: from, epoch }, bytes))
    }

    /// A node of another process is gone: verbs to it complete with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected) from now on, also
    /// those pushed back, and it is kept out as by [`Fabric::fence`]. False when no such node is
    /// known, or it was not certain within `patience`.
    pub fn remove_peer(&self, peer: Peer, patience: Duration) -> bool {
        let epoch = self.shared.peers.last_epoch(peer);
        epoch.is_some_and(|epoch| self.fence(peer, epoch, patience))
    }

    /// From now on the nodes of this process refuse a node of another one with this epoch or a
    /// lower one. When this returns true, the queue pairs at which it was answered are destroyed:
    /// nothing that it has posted takes effect here any more. False when that took longer than
    /// `patience`.
    pub fn fence(&self, peer: Peer, epoch: u64, patience: Duration) -> bool {
        let shared = &self.shared;
        {
            let mut fences = shared.fences.write();
            let fence = fences.entry(peer).or_insert(epoch);
            *fence = epoch.max(*fence);
        }
        if shared.peers.depart(peer, epoch) {
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

    /// Connections that end at nodes of this process.
    pub fn connections(&self) -> usize {
        let memory = self.shared.memory.read();
        let compute = self.shared.nodes.read();
        memory.values().chain(compute.iter().flatten()).map(|node| node.responders()).sum()
    }

    /// The memory of a memory node of this process, for tests and tools that look at it from
    /// outside. CPU atomics and those of the device do not exclude each other: words that verbs
    /// change atomically must be left to verbs.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        let node = self.shared.node(Peer::Memory(node))?;
        Some(Arc::clone(&node.region(RegionKey(0))?.region))
    }
}
