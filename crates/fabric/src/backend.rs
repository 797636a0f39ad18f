//! The enums over the backends. Every method is the backend's own, behind one predicted branch.

use std::sync::Arc;

use latchwork_runtime::{Handle, Notifier};
use latchwork_verbs::{
    Completion, ComputeNodeId, MemoryNodeId, Message, Region, RegionKey, Request, SetupError,
    Target, VerbError,
};
use latchwork_verbs_shm as shm;
use latchwork_verbs_sim as sim;

/// The nodes that can reach each other. Clones are the same fabric.
///
/// The enum is for one thread. To build workers on several threads, give each a clone of the
/// [`shm::Fabric`] itself, which is `Send`, and let it make its own enum from that.
#[derive(Clone)]
pub enum Fabric {
    /// Threads of one process, on shared memory.
    Shm(shm::Fabric),
    /// Actors of one simulated world.
    Sim(sim::Fabric),
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

impl Fabric {
    /// Adds a memory node of `bytes` zero bytes, a positive multiple of 8. Ids count from 0. The
    /// memory costs nothing until it is touched.
    ///
    /// # Errors
    /// [`SetupError::Region`] and [`SetupError::TooManyMemoryNodes`].
    pub fn add_memory_node(&self, bytes: usize) -> Result<MemoryNodeId, SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.add_memory_node(bytes),
            Fabric::Sim(fabric) => fabric.add_memory_node(bytes),
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
        }
    }

    /// A new endpoint for one worker of `node`, which runs on the executor of `handle`. Where
    /// completions arrive by themselves, they wake it.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn endpoint(&self, node: ComputeNodeId, handle: &Handle) -> Result<Endpoint, SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.endpoint(node).map(Endpoint::Shm),
            Fabric::Sim(fabric) => fabric.endpoint(node, handle).map(Endpoint::Sim),
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
        }
    }

    /// Cuts a compute node off: verbs to it complete with [`VerbError::Disconnected`] from now on.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        match self {
            Fabric::Shm(fabric) => fabric.disconnect(node),
            Fabric::Sim(fabric) => fabric.disconnect(node),
        }
    }

    /// The memory of a memory node, for tests and tools that look at it from outside.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        match self {
            Fabric::Shm(fabric) => fabric.memory(node),
            Fabric::Sim(fabric) => fabric.memory(node),
        }
    }
}

/// One worker's connection to every node; see [`latchwork_verbs::Endpoint`].
// Both are large and there is one per worker: boxing would only add a hop to every verb.
#[allow(clippy::large_enum_variant)]
pub enum Endpoint {
    /// On shared memory.
    Shm(shm::Endpoint),
    /// In a simulated world.
    Sim(sim::Endpoint),
}

impl latchwork_verbs::Endpoint for Endpoint {
    fn post(&mut self, target: Target, token: u64, requests: &[Request]) -> Result<(), VerbError> {
        match self {
            Endpoint::Shm(endpoint) => endpoint.post(target, token, requests),
            Endpoint::Sim(endpoint) => endpoint.post(target, token, requests),
        }
    }

    fn expect_write(&mut self, target: Target, remote: u64, len: u32) {
        match self {
            Endpoint::Shm(endpoint) => endpoint.expect_write(target, remote, len),
            Endpoint::Sim(endpoint) => endpoint.expect_write(target, remote, len),
        }
    }

    fn ring(&mut self) {
        match self {
            Endpoint::Shm(endpoint) => endpoint.ring(),
            Endpoint::Sim(endpoint) => endpoint.ring(),
        }
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool {
        match self {
            Endpoint::Shm(endpoint) => endpoint.poll(sink),
            Endpoint::Sim(endpoint) => endpoint.poll(sink),
        }
    }

    fn in_flight(&self) -> usize {
        match self {
            Endpoint::Shm(endpoint) => endpoint.in_flight(),
            Endpoint::Sim(endpoint) => endpoint.in_flight(),
        }
    }

    fn may_park(&self) -> bool {
        match self {
            Endpoint::Shm(endpoint) => endpoint.may_park(),
            Endpoint::Sim(endpoint) => endpoint.may_park(),
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
}

impl Inbox {
    /// Registers a worker that will poll this inbox and can be woken through `notifier`. It counts
    /// as active at once.
    pub fn subscribe(&self, notifier: Notifier) -> Subscription {
        match self {
            Inbox::Shm(inbox) => Subscription::Shm(inbox.subscribe(notifier)),
            Inbox::Sim(inbox) => Subscription::Sim(inbox.subscribe(notifier)),
        }
    }
}

impl latchwork_verbs::Inbox for Inbox {
    fn receive(&self, sink: &mut dyn FnMut(Message)) -> bool {
        match self {
            Inbox::Shm(inbox) => inbox.receive(sink),
            Inbox::Sim(inbox) => inbox.receive(sink),
        }
    }
}

/// A worker's promise to poll an inbox; see [`latchwork_verbs::Subscription`].
pub enum Subscription {
    /// On shared memory.
    Shm(shm::Subscription),
    /// In a simulated world.
    Sim(sim::Subscription),
}

impl latchwork_verbs::Subscription for Subscription {
    fn park(&self) -> bool {
        match self {
            Subscription::Shm(subscription) => subscription.park(),
            Subscription::Sim(subscription) => subscription.park(),
        }
    }

    fn unparked(&self) {
        match self {
            Subscription::Shm(subscription) => subscription.unparked(),
            Subscription::Sim(subscription) => subscription.unparked(),
        }
    }
}
