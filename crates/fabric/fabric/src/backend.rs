//! The enums over the backends. Each method calls the method of the backend in the enum's variant,
//! at the cost of one predicted branch.

use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::{Handle, Notifier};
use latchwork_verbs::{
    Completion, ComputeNodeId, Endpoint as _, Extent, MemoryNodeId, Message, Region, RegionKey,
    SetupError, Target, VerbError, WorkRequest,
};
#[cfg(target_os = "linux")]
use latchwork_verbs_ibv as ibv;
use latchwork_verbs_shm as shm;
use latchwork_verbs_sim as sim;
#[cfg(feature = "tcp")]
use latchwork_verbs_tcp as tcp;

use crate::closed::Closed;

/// A match that evaluates the same expression for the backend in each variant, and for the
/// additional variants behind `+`.
macro_rules! each {
    ($Enum:ident $(+ $More:ident)*, $this:expr, $backend:ident => $call:expr) => {
        match $this {
            $Enum::Shm($backend) => $call,
            $Enum::Sim($backend) => $call,
            #[cfg(feature = "tcp")]
            $Enum::Tcp($backend) => $call,
            #[cfg(target_os = "linux")]
            $Enum::Ibv($backend) => $call,
            $($Enum::$More($backend) => $call,)*
        }
    };
}

/// A fabric: a set of nodes that can reach each other by verbs and messages. Clones are the same
/// fabric.
///
/// The enum is for one thread. To build workers on several threads, give each thread a clone of a
/// [`Threaded`], which is `Send`. Each thread then makes its own enum from its clone.
#[derive(Clone)]
pub enum AnyFabric {
    /// Nodes on shared memory, in one process or in several processes of one host.
    Shm(shm::ShmFabric),
    /// Nodes of one simulated world.
    Sim(sim::SimFabric),
    /// Nodes of this process and of other processes, over sockets.
    #[cfg(feature = "tcp")]
    Tcp(tcp::TcpFabric),
    /// Nodes of this process and of other processes, on RDMA devices.
    #[cfg(target_os = "linux")]
    Ibv(ibv::IbvFabric),
}

/// A fabric whose workers are threads of this process. Each thread makes its [`AnyFabric`] from a
/// clone.
#[derive(Clone)]
pub enum Threaded {
    /// On shared memory.
    Shm(shm::ShmFabric),
    /// Over sockets.
    #[cfg(feature = "tcp")]
    Tcp(tcp::TcpFabric),
    /// On RDMA devices.
    #[cfg(target_os = "linux")]
    Ibv(ibv::IbvFabric),
}

impl From<Threaded> for AnyFabric {
    fn from(fabric: Threaded) -> Self {
        match fabric {
            Threaded::Shm(fabric) => AnyFabric::Shm(fabric),
            #[cfg(feature = "tcp")]
            Threaded::Tcp(fabric) => AnyFabric::Tcp(fabric),
            #[cfg(target_os = "linux")]
            Threaded::Ibv(fabric) => AnyFabric::Ibv(fabric),
        }
    }
}

impl Threaded {
    /// Makes the operating system allocate, now, the memory of this process's memory nodes. On
    /// shared memory the call also covers the memory nodes of peers (see [`Region::prefault`]).
    pub fn prefault(&self) {
        match self {
            Threaded::Shm(fabric) => fabric.prefault(),
            #[cfg(feature = "tcp")]
            Threaded::Tcp(fabric) => fabric.prefault(),
            // The registration has allocated the memory.
            #[cfg(target_os = "linux")]
            Threaded::Ibv(_) => {}
        }
    }
}

impl From<shm::ShmFabric> for AnyFabric {
    fn from(fabric: shm::ShmFabric) -> Self {
        AnyFabric::Shm(fabric)
    }
}

impl From<sim::SimFabric> for AnyFabric {
    fn from(fabric: sim::SimFabric) -> Self {
        AnyFabric::Sim(fabric)
    }
}

#[cfg(feature = "tcp")]
impl From<tcp::TcpFabric> for AnyFabric {
    fn from(fabric: tcp::TcpFabric) -> Self {
        AnyFabric::Tcp(fabric)
    }
}

#[cfg(target_os = "linux")]
impl From<ibv::IbvFabric> for AnyFabric {
    fn from(fabric: ibv::IbvFabric) -> Self {
        AnyFabric::Ibv(fabric)
    }
}

impl AnyFabric {
    /// Adds a memory node under the lowest free id, with zero bytes of these lengths: a number of
    /// bytes, or an [`Extent`] with on-chip memory. The lengths are multiples of 8, and the first
    /// is positive. On RDMA devices, and on shared memory in a directory, all of the memory is
    /// allocated at once. On other fabrics a page of large memory is allocated at its first touch.
    ///
    /// # Errors
    /// [`SetupError::Region`] and [`SetupError::TooManyMemoryNodes`]; also [`SetupError::NoRoom`],
    /// [`SetupError::Listen`], [`SetupError::NoChip`] or [`SetupError::System`] on the fabrics that
    /// have these errors.
    pub fn add_memory_node(&self, extent: impl Into<Extent>) -> Result<MemoryNodeId, SetupError> {
        each!(AnyFabric, self, fabric => fabric.add_memory_node(extent))
    }

    /// The lengths of the memory of a memory node, which may be a peer. `None` when this process
    /// does not know the node.
    pub fn extent(&self, node: MemoryNodeId) -> Option<Extent> {
        each!(AnyFabric, self, fabric => fabric.extent(node))
    }

    /// Adds a compute node, with an inbox and without regions.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`]; also [`SetupError::NoRoom`], [`SetupError::Listen`] or
    /// [`SetupError::System`] on the fabrics that have these errors.
    pub fn add_compute_node(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        each!(AnyFabric, self, fabric => fabric.add_compute_node(id))
    }

    /// Like [`add_compute_node`](AnyFabric::add_compute_node), for a node beside a memory node of
    /// this process. In a world the two share a NIC. On other fabrics they share the process.
    ///
    /// # Errors
    /// Those of [`add_compute_node`](AnyFabric::add_compute_node); in a world also
    /// [`SetupError::UnknownMemoryNode`].
    pub fn add_compute_node_at(
        &self,
        id: ComputeNodeId,
        memory: MemoryNodeId,
    ) -> Result<(), SetupError> {
        match self {
            AnyFabric::Sim(fabric) => fabric.add_compute_node_at(id, memory),
            fabric => fabric.add_compute_node(id),
        }
    }

    /// Makes memory for regions that peers address. On shared memory of several processes the
    /// memory is a file that the peers can map. On all other fabrics, peers can address any
    /// registered [`Region`].
    ///
    /// # Errors
    /// [`SetupError::Region`]; also [`SetupError::NoRoom`] and [`SetupError::System`] on shared
    /// memory of several processes.
    pub fn new_region(&self, bytes: usize) -> Result<Arc<Region>, SetupError> {
        match self {
            AnyFabric::Shm(fabric) => fabric.new_region(bytes),
            AnyFabric::Sim(_) => Ok(Region::zeroed(bytes)?),
            #[cfg(feature = "tcp")]
            AnyFabric::Tcp(_) => Ok(Region::zeroed(bytes)?),
            #[cfg(target_os = "linux")]
            AnyFabric::Ibv(_) => Ok(Region::zeroed(bytes)?),
        }
    }

    /// Registers memory of a compute node. Keys count from 0 per node.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`] and [`SetupError::TooManyRegions`]; also [`SetupError::System`]
    /// on RDMA devices.
    pub fn register(
        &self,
        node: ComputeNodeId,
        region: Arc<Region>,
    ) -> Result<RegionKey, SetupError> {
        each!(AnyFabric, self, fabric => fabric.register(node, region))
    }

    /// Makes an endpoint for one worker of `node`, which runs on the executor of `handle`. On RDMA
    /// devices and in a simulated world, a completion wakes the executor.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`]; also [`SetupError::System`] on RDMA devices.
    pub fn endpoint(
        &self,
        node: ComputeNodeId,
        handle: &Handle,
    ) -> Result<AnyEndpoint, SetupError> {
        match self {
            AnyFabric::Shm(fabric) => fabric.endpoint(node).map(AnyEndpoint::Shm),
            AnyFabric::Sim(fabric) => fabric.endpoint(node, handle).map(AnyEndpoint::Sim),
            #[cfg(feature = "tcp")]
            AnyFabric::Tcp(fabric) => fabric.endpoint(node).map(AnyEndpoint::Tcp),
            #[cfg(target_os = "linux")]
            AnyFabric::Ibv(fabric) => {
                fabric.endpoint(node, Some(handle.notifier())).map(AnyEndpoint::Ibv)
            }
        }
    }

    /// The inbox of `node`.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<AnyInbox, SetupError> {
        match self {
            AnyFabric::Shm(fabric) => fabric.inbox(node).map(AnyInbox::Shm),
            AnyFabric::Sim(fabric) => fabric.inbox(node).map(AnyInbox::Sim),
            #[cfg(feature = "tcp")]
            AnyFabric::Tcp(fabric) => fabric.inbox(node).map(AnyInbox::Tcp),
            #[cfg(target_os = "linux")]
            AnyFabric::Ibv(fabric) => fabric.inbox(node).map(AnyInbox::Ibv),
        }
    }

    /// The length in bytes up to which a WRITE to a memory node is whole, even if its sender dies:
    /// memory then has all bytes of the WRITE or none. Of a longer WRITE memory may have any words.
    /// `u32::MAX` where each WRITE is whole.
    pub fn whole_write(&self) -> u32 {
        match self {
            AnyFabric::Shm(fabric) => fabric.whole_write(),
            AnyFabric::Sim(fabric) => fabric.whole_write(),
            #[cfg(feature = "tcp")]
            AnyFabric::Tcp(_) => tcp::WHOLE_WRITE,
            #[cfg(target_os = "linux")]
            AnyFabric::Ibv(_) => ibv::WHOLE_WRITE,
        }
    }

    /// Cuts a compute node off. From now on verbs to the node complete with
    /// [`VerbError::Disconnected`] or [`VerbError::Unreachable`].
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        each!(AnyFabric, self, fabric => fabric.disconnect(node))
    }

    /// The memory of a memory node, for tests and tools that read the memory from outside. Its
    /// on-chip memory follows behind the other memory, except on RDMA devices.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        each!(AnyFabric, self, fabric => fabric.memory(node))
    }
}

/// One worker's connection to every node; see [`latchwork_verbs::Endpoint`].
// Each worker has one value, so its size does not matter, and a box would add a pointer to every
// verb.
#[allow(clippy::large_enum_variant)]
pub enum AnyEndpoint {
    /// On shared memory.
    Shm(shm::ShmEndpoint),
    /// In a simulated world.
    Sim(sim::SimEndpoint),
    /// Over sockets.
    #[cfg(feature = "tcp")]
    Tcp(tcp::TcpEndpoint),
    /// On an RDMA device.
    #[cfg(target_os = "linux")]
    Ibv(ibv::IbvEndpoint),
    /// The endpoint of a node that has fenced itself and may not touch memory any more.
    Closed(Closed),
}

impl AnyEndpoint {
    /// Whether a post now submits earlier batches, as a ring does.
    #[inline]
    pub(crate) fn submits_at_post(&self) -> bool {
        match self {
            AnyEndpoint::Shm(endpoint) => endpoint.submits_at_post(),
            _ => false,
        }
    }

    /// Whether a poll now may submit a batch that waited for room.
    #[inline]
    pub(crate) fn submits_at_poll(&self) -> bool {
        match self {
            AnyEndpoint::Shm(endpoint) => endpoint.submits_at_poll(),
            other => other.in_flight() > 0,
        }
    }
}

impl latchwork_verbs::Endpoint for AnyEndpoint {
    fn post(
        &mut self,
        target: Target,
        token: u64,
        requests: &[WorkRequest],
    ) -> Result<(), VerbError> {
        each!(AnyEndpoint + Closed, self, endpoint => endpoint.post(target, token, requests))
    }

    fn expect_write(&mut self, target: Target, remote: u64, len: u32) {
        each!(AnyEndpoint + Closed, self, endpoint => endpoint.expect_write(target, remote, len))
    }

    fn ring(&mut self) {
        each!(AnyEndpoint + Closed, self, endpoint => endpoint.ring())
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool {
        each!(AnyEndpoint + Closed, self, endpoint => endpoint.poll(sink))
    }

    fn in_flight(&self) -> usize {
        each!(AnyEndpoint + Closed, self, endpoint => endpoint.in_flight())
    }

    fn may_park(&self) -> bool {
        each!(AnyEndpoint + Closed, self, endpoint => endpoint.may_park())
    }

    fn doze(&self, time: Duration) -> bool {
        each!(AnyEndpoint + Closed, self, endpoint => endpoint.doze(time))
    }
}

/// The messages of one compute node; see [`latchwork_verbs::Inbox`].
#[derive(Clone)]
pub enum AnyInbox {
    /// On shared memory.
    Shm(shm::ShmInbox),
    /// In a simulated world.
    Sim(sim::SimInbox),
    /// The inbox of a node of this process, over sockets.
    #[cfg(feature = "tcp")]
    Tcp(tcp::ShmInbox),
    /// On an RDMA device.
    #[cfg(target_os = "linux")]
    Ibv(ibv::IbvInbox),
}

impl AnyInbox {
    /// Registers a worker that will poll this inbox, and that `notifier` can wake. The worker
    /// counts as active at once.
    pub fn subscribe(&self, notifier: Notifier) -> AnySubscription {
        match self {
            AnyInbox::Shm(inbox) => AnySubscription::Shm(inbox.subscribe(notifier)),
            AnyInbox::Sim(inbox) => AnySubscription::Sim(inbox.subscribe(notifier)),
            #[cfg(feature = "tcp")]
            AnyInbox::Tcp(inbox) => AnySubscription::Tcp(inbox.subscribe(notifier)),
            #[cfg(target_os = "linux")]
            AnyInbox::Ibv(inbox) => AnySubscription::Ibv(inbox.subscribe(notifier)),
        }
    }
}

impl latchwork_verbs::Inbox for AnyInbox {
    fn receive(&self, sink: &mut dyn FnMut(Message)) -> bool {
        each!(AnyInbox, self, inbox => inbox.receive(sink))
    }
}

/// A worker's promise to poll an inbox; see [`latchwork_verbs::Subscription`].
pub enum AnySubscription {
    /// On shared memory.
    Shm(shm::ShmSubscription),
    /// In a simulated world.
    Sim(sim::SimSubscription),
    /// A subscription to the inbox of a node of this process, over sockets.
    #[cfg(feature = "tcp")]
    Tcp(tcp::ShmSubscription),
    /// On an RDMA device.
    #[cfg(target_os = "linux")]
    Ibv(ibv::IbvSubscription),
}

impl latchwork_verbs::Subscription for AnySubscription {
    fn park(&self) -> bool {
        each!(AnySubscription, self, subscription => subscription.park())
    }

    fn unparked(&self) {
        each!(AnySubscription, self, subscription => subscription.unparked())
    }
}
