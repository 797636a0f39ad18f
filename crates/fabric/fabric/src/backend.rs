//! The enums over the backends. Every method calls the backend's own method, behind one predicted
//! branch.

use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::{Handle, Notifier};
use latchwork_verbs::{
    Completion, ComputeNodeId, Endpoint as _, MemoryNodeId, Message, Region, RegionKey, Request,
    SetupError, Target, VerbError,
};
#[cfg(target_os = "linux")]
use latchwork_verbs_ibv as ibv;
use latchwork_verbs_shm as shm;
use latchwork_verbs_sim as sim;
#[cfg(feature = "tcp")]
use latchwork_verbs_tcp as tcp;

use crate::closed::Closed;

/// A set of nodes that can reach each other. Clones are the same fabric.
///
/// The enum is for one thread. To build workers on several threads, give each thread a clone of a
/// [`Threaded`], which is `Send`. Each thread then makes its own enum from its clone.
#[derive(Clone)]
pub enum Fabric {
    /// Threads of one process, or of several processes on one host, on shared memory.
    Shm(shm::Fabric),
    /// Actors of one simulated world.
    Sim(sim::Fabric),
    /// Nodes of this process and of its peers, over sockets. Nodes that are added here belong to
    /// this process.
    #[cfg(feature = "tcp")]
    Tcp(tcp::Fabric),
    /// Nodes of this process and of other processes, on RDMA devices.
    #[cfg(target_os = "linux")]
    Ibv(ibv::Fabric),
}

/// A fabric whose workers are threads of this process. Each thread makes its [`Fabric`] from it.
#[derive(Clone)]
pub enum Threaded {
    /// On shared memory.
    Shm(shm::Fabric),
    /// Over sockets.
    #[cfg(feature = "tcp")]
    Tcp(tcp::Fabric),
    /// On RDMA devices.
    #[cfg(target_os = "linux")]
    Ibv(ibv::Fabric),
}

impl From<Threaded> for Fabric {
    fn from(fabric: Threaded) -> Self {
        match fabric {
            Threaded::Shm(fabric) => Fabric::Shm(fabric),
            #[cfg(feature = "tcp")]
            Threaded::Tcp(fabric) => Fabric::Tcp(fabric),
            #[cfg(target_os = "linux")]
            Threaded::Ibv(fabric) => Fabric::Ibv(fabric),
        }
    }
}

impl Threaded {
    /// Makes the operating system allocate the memory of this process's memory nodes now (see
    /// [`Region::prefault`]).
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

impl From<shm::Fabric> for Fabric {
    fn from(fabric: shm::Fabric) -> Self {
        Fabric::Shm(fabric)
    }
}

impl From<sim::Fabric> for Fabric {
    fn from(fabric: sim::Fabric) -> Self {
        Fabric::Sim(fabric)
    }
}

#[cfg(feature = "tcp")]
impl From<tcp::Fabric> for Fabric {
    fn from(fabric: tcp::Fabric) -> Self {
        Fabric::Tcp(fabric)
    }
}

#[cfg(target_os = "linux")]
impl From<ibv::Fabric> for Fabric {
    fn from(fabric: ibv::Fabric) -> Self {
        Fabric::Ibv(fabric)
    }
}

impl Fabric {
    /// Adds a memory node of `bytes` zero bytes, a positive multiple of 8, under the lowest free
    /// id. On RDMA devices, and on shared memory in a directory, all of the memory is allocated at
    /// once. Elsewhere the memory costs nothing until its first touch.
    ///
    /// # Errors
    /// [`SetupError::Region`] and [`SetupError::TooManyMemoryNodes`]; also [`SetupError::NoRoom`],
    /// [`SetupError::Listen`] or [`SetupError::System`] on the fabrics that have these errors.
    pub fn add_memory_node(&self, bytes: usize) -> Result<MemoryNodeId, SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.add_memory_node(bytes),
            Fabric::Sim(fabric) => fabric.add_memory_node(bytes),
            #[cfg(feature = "tcp")]
            Fabric::Tcp(fabric) => fabric.add_memory_node(bytes),
            #[cfg(target_os = "linux")]
            Fabric::Ibv(fabric) => fabric.add_memory_node(bytes),
        }
    }

    /// Adds a compute node, with an inbox and without regions.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`].
    pub fn add_compute_node(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.add_compute_node(id),
            Fabric::Sim(fabric) => fabric.add_compute_node(id),
            #[cfg(feature = "tcp")]
            Fabric::Tcp(fabric) => fabric.add_compute_node(id),
            #[cfg(target_os = "linux")]
            Fabric::Ibv(fabric) => fabric.add_compute_node(id),
        }
    }

    /// Makes memory for regions that peers address. On shared memory of several processes the
    /// memory is a file that the peers can map. On all other fabrics any [`Region`] serves as well.
    ///
    /// # Errors
    /// [`SetupError::Region`] and [`SetupError::NoRoom`].
    pub fn new_region(&self, bytes: usize) -> Result<Arc<Region>, SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.new_region(bytes),
            Fabric::Sim(_) => Ok(Region::zeroed(bytes)?),
            #[cfg(feature = "tcp")]
            Fabric::Tcp(_) => Ok(Region::zeroed(bytes)?),
            #[cfg(target_os = "linux")]
            Fabric::Ibv(_) => Ok(Region::zeroed(bytes)?),
        }
    }

    /// Registers memory of a compute node. Keys count from 0 per node.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`] and [`SetupError::TooManyRegions`].
    pub fn register(
        &self,
        node: ComputeNodeId,
        region: Arc<Region>,
    ) -> Result<RegionKey, SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.register(node, region),
            Fabric::Sim(fabric) => fabric.register(node, region),
            #[cfg(feature = "tcp")]
            Fabric::Tcp(fabric) => fabric.register(node, region),
            #[cfg(target_os = "linux")]
            Fabric::Ibv(fabric) => fabric.register(node, region),
        }
    }

    /// Makes an endpoint for one worker of `node`, which runs on the executor of `handle`. On
    /// fabrics with asynchronous completions, a completion wakes the executor.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn endpoint(&self, node: ComputeNodeId, handle: &Handle) -> Result<Endpoint, SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.endpoint(node).map(Endpoint::Shm),
            Fabric::Sim(fabric) => fabric.endpoint(node, handle).map(Endpoint::Sim),
            #[cfg(feature = "tcp")]
            Fabric::Tcp(fabric) => fabric.endpoint(node).map(Endpoint::Tcp),
            #[cfg(target_os = "linux")]
            Fabric::Ibv(fabric) => {
                fabric.endpoint(node, Some(handle.notifier())).map(Endpoint::Ibv)
            }
        }
    }

    /// The inbox of `node`.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<Inbox, SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.inbox(node).map(Inbox::Shm),
            Fabric::Sim(fabric) => fabric.inbox(node).map(Inbox::Sim),
            #[cfg(feature = "tcp")]
            Fabric::Tcp(fabric) => fabric.inbox(node).map(Inbox::Tcp),
            #[cfg(target_os = "linux")]
            Fabric::Ibv(fabric) => fabric.inbox(node).map(Inbox::Ibv),
        }
    }

    /// Cuts a compute node off. From now on verbs to the node complete with
    /// [`VerbError::Disconnected`].
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.disconnect(node),
            Fabric::Sim(fabric) => fabric.disconnect(node),
            #[cfg(feature = "tcp")]
            Fabric::Tcp(fabric) => fabric.disconnect(node),
            #[cfg(target_os = "linux")]
            Fabric::Ibv(fabric) => fabric.disconnect(node),
        }
    }

    /// The memory of a memory node, for tests and tools that read the memory from outside.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        match self {
            Fabric::Shm(fabric) => fabric.memory(node),
            Fabric::Sim(fabric) => fabric.memory(node),
            #[cfg(feature = "tcp")]
            Fabric::Tcp(fabric) => fabric.memory(node),
            #[cfg(target_os = "linux")]
            Fabric::Ibv(fabric) => fabric.memory(node),
        }
    }
}

/// One worker's connection to every node; see [`latchwork_verbs::Endpoint`].
// The variants are large and there is one value per worker: boxing would only add a hop to every
// verb.
#[allow(clippy::large_enum_variant)]
pub enum Endpoint {
    /// On shared memory.
    Shm(shm::Endpoint),
    /// In a simulated world.
    Sim(sim::Endpoint),
    /// Over sockets.
    #[cfg(feature = "tcp")]
    Tcp(tcp::Endpoint),
    /// On an RDMA device.
    #[cfg(target_os = "linux")]
    Ibv(ibv::Endpoint),
    /// The endpoint of a node that may not touch memory any more.
    Closed(Closed),
}

impl Endpoint {
    /// Whether a post now submits earlier batches, as a ring does.
    #[inline]
    pub(crate) fn submits_at_post(&self) -> bool {
        match self {
            Endpoint::Shm(endpoint) => endpoint.submits_at_post(),
            _ => false,
        }
    }

    /// Whether a poll now may submit a batch that was pushed back.
    #[inline]
    pub(crate) fn submits_at_poll(&self) -> bool {
        match self {
            Endpoint::Shm(endpoint) => endpoint.submits_at_poll(),
            other => other.in_flight() > 0,
        }
    }
}

impl latchwork_verbs::Endpoint for Endpoint {
    fn post(&mut self, target: Target, token: u64, requests: &[Request]) -> Result<(), VerbError> {
        match self {
            Endpoint::Shm(endpoint) => endpoint.post(target, token, requests),
            Endpoint::Sim(endpoint) => endpoint.post(target, token, requests),
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(endpoint) => endpoint.post(target, token, requests),
            #[cfg(target_os = "linux")]
            Endpoint::Ibv(endpoint) => endpoint.post(target, token, requests),
            Endpoint::Closed(endpoint) => endpoint.post(target, token, requests),
        }
    }

    fn expect_write(&mut self, target: Target, remote: u64, len: u32) {
        match self {
            Endpoint::Shm(endpoint) => endpoint.expect_write(target, remote, len),
            Endpoint::Sim(endpoint) => endpoint.expect_write(target, remote, len),
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(endpoint) => endpoint.expect_write(target, remote, len),
            #[cfg(target_os = "linux")]
            Endpoint::Ibv(endpoint) => endpoint.expect_write(target, remote, len),
            Endpoint::Closed(endpoint) => endpoint.expect_write(target, remote, len),
        }
    }

    fn ring(&mut self) {
        match self {
            Endpoint::Shm(endpoint) => endpoint.ring(),
            Endpoint::Sim(endpoint) => endpoint.ring(),
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(endpoint) => endpoint.ring(),
            #[cfg(target_os = "linux")]
            Endpoint::Ibv(endpoint) => endpoint.ring(),
            Endpoint::Closed(endpoint) => endpoint.ring(),
        }
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool {
        match self {
            Endpoint::Shm(endpoint) => endpoint.poll(sink),
            Endpoint::Sim(endpoint) => endpoint.poll(sink),
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(endpoint) => endpoint.poll(sink),
            #[cfg(target_os = "linux")]
            Endpoint::Ibv(endpoint) => endpoint.poll(sink),
            Endpoint::Closed(endpoint) => endpoint.poll(sink),
        }
    }

    fn in_flight(&self) -> usize {
        match self {
            Endpoint::Shm(endpoint) => endpoint.in_flight(),
            Endpoint::Sim(endpoint) => endpoint.in_flight(),
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(endpoint) => endpoint.in_flight(),
            #[cfg(target_os = "linux")]
            Endpoint::Ibv(endpoint) => endpoint.in_flight(),
            Endpoint::Closed(endpoint) => endpoint.in_flight(),
        }
    }

    fn may_park(&self) -> bool {
        match self {
            Endpoint::Shm(endpoint) => endpoint.may_park(),
            Endpoint::Sim(endpoint) => endpoint.may_park(),
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(endpoint) => endpoint.may_park(),
            #[cfg(target_os = "linux")]
            Endpoint::Ibv(endpoint) => endpoint.may_park(),
            Endpoint::Closed(endpoint) => endpoint.may_park(),
        }
    }

    fn nap(&self, time: Duration) -> bool {
        match self {
            Endpoint::Shm(endpoint) => endpoint.nap(time),
            Endpoint::Sim(endpoint) => endpoint.nap(time),
            #[cfg(feature = "tcp")]
            Endpoint::Tcp(endpoint) => endpoint.nap(time),
            #[cfg(target_os = "linux")]
            Endpoint::Ibv(endpoint) => endpoint.nap(time),
            Endpoint::Closed(endpoint) => endpoint.nap(time),
        }
    }
}

/// The messages of one compute node; see [`latchwork_verbs::Inbox`].
#[derive(Clone)]
pub enum Inbox {
    /// On shared memory.
    Shm(shm::Inbox),
    /// In a simulated world.
    Sim(sim::Inbox),
    /// The inbox of a node of this process, over sockets.
    #[cfg(feature = "tcp")]
    Tcp(tcp::Inbox),
    /// On an RDMA device.
    #[cfg(target_os = "linux")]
    Ibv(ibv::Inbox),
}

impl Inbox {
    /// Registers a worker that will poll this inbox, and that `notifier` can wake. The worker
    /// counts as active at once.
    pub fn subscribe(&self, notifier: Notifier) -> Subscription {
        match self {
            Inbox::Shm(inbox) => Subscription::Shm(inbox.subscribe(notifier)),
            Inbox::Sim(inbox) => Subscription::Sim(inbox.subscribe(notifier)),
            #[cfg(feature = "tcp")]
            Inbox::Tcp(inbox) => Subscription::Tcp(inbox.subscribe(notifier)),
            #[cfg(target_os = "linux")]
            Inbox::Ibv(inbox) => Subscription::Ibv(inbox.subscribe(notifier)),
        }
    }
}

impl latchwork_verbs::Inbox for Inbox {
    fn receive(&self, sink: &mut dyn FnMut(Message)) -> bool {
        match self {
            Inbox::Shm(inbox) => inbox.receive(sink),
            Inbox::Sim(inbox) => inbox.receive(sink),
            #[cfg(feature = "tcp")]
            Inbox::Tcp(inbox) => inbox.receive(sink),
            #[cfg(target_os = "linux")]
            Inbox::Ibv(inbox) => inbox.receive(sink),
        }
    }
}

/// A worker's promise to poll an inbox; see [`latchwork_verbs::Subscription`].
pub enum Subscription {
    /// On shared memory.
    Shm(shm::Subscription),
    /// In a simulated world.
    Sim(sim::Subscription),
    /// A subscription to the inbox of a node of this process, over sockets.
    #[cfg(feature = "tcp")]
    Tcp(tcp::Subscription),
    /// On an RDMA device.
    #[cfg(target_os = "linux")]
    Ibv(ibv::Subscription),
}

impl latchwork_verbs::Subscription for Subscription {
    fn park(&self) -> bool {
        match self {
            Subscription::Shm(subscription) => subscription.park(),
            Subscription::Sim(subscription) => subscription.park(),
            #[cfg(feature = "tcp")]
            Subscription::Tcp(subscription) => subscription.park(),
            #[cfg(target_os = "linux")]
            Subscription::Ibv(subscription) => subscription.park(),
        }
    }

    fn unparked(&self) {
        match self {
            Subscription::Shm(subscription) => subscription.unparked(),
            Subscription::Sim(subscription) => subscription.unparked(),
            #[cfg(feature = "tcp")]
            Subscription::Tcp(subscription) => subscription.unparked(),
            #[cfg(target_os = "linux")]
            Subscription::Ibv(subscription) => subscription.unparked(),
        }
    }
}
