//! [`Fabric`]: the nodes of this process on its RDMA devices.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use latchwork_runtime::Notifier;
use latchwork_runtime::sync::{Mutex, RwLock};
use latchwork_verbs::{ComputeNodeId, MemoryNodeId, Region, RegionKey, SetupError, Target};

use crate::connection::Offer;
use crate::directory::{Directory, Peer, RemoteMemory, Reply};
use crate::endpoint::{Endpoint, Wake};
use crate::error::{ConnectError, OpenError};
use crate::inbox::Inbox;
use crate::node::Node;
use crate::sys::{Device, Library, Tuning, Watcher};

/// How an RDMA fabric is built.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The devices to use, by name; all there are when empty. Nodes of this process are dealt out to them in turn.
    pub devices: Vec<String>,
    /// The entry of the port's table of addresses (GIDs); found by itself if `None`.
    pub gid_index: Option<u8>,
    /// Messages that wait in the inbox of one compute node at most, as far as the device has room; 128 bytes each. What is beyond
    /// waits at the senders.
    pub inbox_capacity: usize,
    /// Requests in the send queue of one connection at most, as far as the device has room. What is beyond waits in software.
    pub send_queue: u32,
    /// Batches that one endpoint has in its connections at most. What is beyond waits in software.
    pub batches: u32,
    /// READs and atomics outstanding per connection at most, as far as both devices allow it.
    pub reads: u8,
    /// 4.096 us times two to this power, from 1 to 31, until an acknowledgement is missed. 16 is 0.27 s.
    pub timeout: u8,
    /// Times that a request is repeated then, from 0 to 6. (7 is for ever on Soft-RoCE.)
    pub retries: u8,
    /// How long a peer has to answer an offer of a connection.
    pub connect_timeout: Duration,
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
        }
    }
}

/// The memory nodes and compute nodes of one process, on its devices. Clones are the same fabric.
#[derive(Clone)]
pub struct Fabric {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) watcher: Arc<Watcher>,
    elsewhere: Option<Arc<dyn Directory>>,
    devices: Vec<Arc<Device>>,
    memory: RwLock<Vec<Arc<Node>>>,
    nodes: RwLock<Vec<Option<Arc<Node>>>>,
    departures: AtomicU64,
    wakes: Mutex<Vec<Weak<Wake>>>,
}

impl Shared {
    /// The peer, if it is a node of this process.
    fn node(&self, peer: Peer) -> Option<Arc<Node>> {
        match peer {
            Peer::Memory(id) => self.memory.read().get(usize::from(id.0)).cloned(),
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

    fn answer(&self, peer: Peer, offer: &[u8]) -> Result<Vec<u8>, ConnectError> {
        let offer = Offer::from_bytes(offer)?;
        let node = self.node(peer).ok_or(ConnectError::Unknown)?;
        Ok(node.answer(&offer)?.to_bytes())
    }
}

impl Directory for Shared {
    fn knows(&self, peer: Peer) -> bool {
        self.node(peer).is_some() || self.elsewhere.as_ref().is_some_and(|other| other.knows(peer))
    }

    fn memory(&self, target: Target) -> Option<RemoteMemory> {
        let key = match target {
            Target::Memory(_) => RegionKey(0),
            Target::Compute(_, key) => RegionKey(key),
        };
        match self.node(target.into()) {
            Some(node) => node.remote(key),
            None => self.elsewhere.as_ref()?.memory(target),
        }
    }

    fn is_gone(&self, peer: Peer) -> bool {
        match self.node(peer) {
            Some(node) => node.is_cut_off(),
            None => self.elsewhere.as_ref().is_some_and(|other| other.is_gone(peer)),
        }
    }

    fn departures(&self) -> u64 {
        let elsewhere = self.elsewhere.as_ref().map_or(0, |other| other.departures());
        self.departures.load(Ordering::Acquire) + elsewhere
    }

    fn connect(&self, peer: Peer, offer: Vec<u8>, reply: Reply) {
        match &self.elsewhere {
            Some(other) if self.node(peer).is_none() => other.connect(peer, offer, reply),
            _ => reply(self.answer(peer, &offer)),
        }
    }

    fn close(&self, peer: Peer, pair: u32) {
        match (self.node(peer), &self.elsewhere) {
            (Some(node), _) => node.close(pair),
            (None, Some(other)) => other.close(peer, pair),
            (None, None) => {}
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

    /// Opens the devices. The nodes that are not of this process are found through `elsewhere`, which carries offers to them, and
    /// whose offers are passed to [`Fabric::answer`].
    ///
    /// # Errors
    /// As [`Fabric::open`].
    pub fn join(config: Config, elsewhere: Arc<dyn Directory>) -> Result<Fabric, OpenError> {
        Fabric::build(config, Some(elsewhere))
    }

    fn build(config: Config, elsewhere: Option<Arc<dyn Directory>>) -> Result<Fabric, OpenError> {
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
            elsewhere,
            devices,
            memory: RwLock::default(),
            nodes: RwLock::default(),
            departures: AtomicU64::new(0),
            wakes: Mutex::default(),
        };
        Ok(Fabric { shared: Arc::new(shared) })
    }

    fn device(&self, turn: usize) -> &Arc<Device> {
        &self.shared.devices[turn % self.shared.devices.len()]
    }

    /// The names of the devices that are open.
    pub fn devices(&self) -> Vec<String> {
        self.shared.devices.iter().map(|device| device.name.clone()).collect()
    }

    /// Adds a memory node of `bytes` zero bytes, a positive multiple of 8, to this process. Ids count from 0. Its memory is locked
    /// in RAM at once: devices reach nothing else.
    ///
    /// # Errors
    /// [`SetupError::Region`], [`SetupError::TooManyMemoryNodes`] and [`SetupError::System`].
    pub fn add_memory_node(&self, bytes: usize) -> Result<MemoryNodeId, SetupError> {
        let region = Region::zeroed(bytes)?;
        let mut memory = self.shared.memory.write();
        let id = u16::try_from(memory.len()).map_err(|_| SetupError::TooManyMemoryNodes)?;
        let reads = self.shared.tuning().reads;
        let node = Node::memory(self.device(id.into()), reads, region)?;
        memory.push(Arc::new(node));
        Ok(MemoryNodeId(id))
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

    /// Registers memory of a compute node of this process, as a local buffer of its own verbs and as a target of its peers'. Keys
    /// count from 0 per node. The memory is locked in RAM, and the fabric keeps it for its own lifetime.
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

    /// A new endpoint for one worker of `node`, a node of this process. Completions wake the worker through `notifier` when it is
    /// parked; without one it does not park while it expects some.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`] and [`SetupError::System`].
    pub fn endpoint(
        &self,
        node: ComputeNodeId,
        notifier: Option<Notifier>,
    ) -> Result<Endpoint, SetupError> {
        Endpoint::new(Arc::clone(&self.shared), self.own(node)?, notifier)
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
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected) from now on. Its own verbs to others are not affected.
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

    /// Says that the directory's [`departures`](Directory::departures) have changed: parked workers are woken, to give up what they
    /// have posted to nodes that are gone.
    pub fn departed(&self) {
        let wakes = self.shared.wakes.lock().clone();
        wakes.iter().filter_map(Weak::upgrade).for_each(|wake| wake.fire());
    }

    /// Answers an offer that a node of another process has made to `peer`, a node of this one: bytes of an [`Offer`] in, bytes of an
    /// [`Answer`](crate::Answer) out.
    ///
    /// # Errors
    /// [`ConnectError`]: the bytes are no offer, there is no such node here, it is cut off, or no queue pair could be made.
    pub fn answer(&self, peer: Peer, offer: &[u8]) -> Result<Vec<u8>, ConnectError> {
        self.shared.answer(peer, offer)
    }

    /// Destroys the end of a connection at a node of this process that its peer does not use any more.
    pub fn close(&self, peer: Peer, pair: u32) {
        if let Some(node) = self.shared.node(peer) {
            node.close(pair);
        }
    }

    /// How nodes of other processes name the memory of a target of this one.
    pub fn remote(&self, target: Target) -> Option<RemoteMemory> {
        self.shared.node(target.into())?;
        Directory::memory(&*self.shared, target)
    }

    /// The memory of a memory node of this process, for tests and tools that look at it from outside. CPU atomics and those of the
    /// device do not exclude each other: words that verbs change atomically must be left to verbs.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        let node = self.shared.node(Peer::Memory(node))?;
        Some(Arc::clone(&node.region(RegionKey(0))?.region))
    }
}
