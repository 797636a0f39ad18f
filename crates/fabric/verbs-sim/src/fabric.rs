//! [`SimFabric`]: the nodes of a simulated world, and the calls that change or disturb them.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use latchwork_runtime::Handle;
use latchwork_simulation::{Actor, Kernel};
use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, Extent, MemoryNodeId, Region, RegionKey, SetupError};

use crate::config::{SimConfig, Timing};
use crate::endpoint::SimEndpoint;
use crate::faults::{FaultCounts, Faults};
use crate::gate::Gate;
use crate::inbox::{Mailbox, SimInbox};
use crate::nic::NicTimes;
use crate::node::{Host, MemoryNode, Node};
use crate::passing::Passing;
use crate::world::World;

/// The memory nodes and compute nodes of one simulated world. Clones are the same fabric.
#[derive(Clone)]
pub struct SimFabric {
    pub(crate) world: Rc<World>,
}

impl SimFabric {
    /// Makes a fabric without nodes, in the world of `kernel`. A limit of `config` that is too
    /// small is raised to its smallest possible value.
    pub fn new(kernel: &Kernel, config: SimConfig) -> Self {
        let world = Rc::new(World {
            kernel: kernel.clone(),
            nic: match &config.timing {
                Timing::Nic(profile) => Some(NicTimes::new(profile)),
                Timing::Drawn(_) => None,
            },
            faults: Cell::new(config.faults),
            fault_counts: Cell::default(),
            verbs: Cell::new(0),
            doorbells: Cell::new(0),
            config: config.sane(),
            actor: OnceCell::new(),
            memory: RefCell::default(),
            nodes: RefCell::default(),
            flights: RefCell::default(),
            spare: RefCell::default(),
            again: RefCell::default(),
            gates: RefCell::default(),
            watcher: RefCell::default(),
        });
        let actor = kernel.add_actor(Rc::clone(&world) as Rc<dyn Actor>);
        world.actor.set(actor).expect("set once");
        SimFabric { world }
    }

    /// The world's kernel.
    pub fn kernel(&self) -> &Kernel {
        &self.world.kernel
    }

    /// Adds a memory node with zero bytes of these lengths, multiples of 8 and the first positive.
    /// Ids count from 0.
    ///
    /// # Errors
    /// [`SetupError::Region`] and [`SetupError::TooManyMemoryNodes`]; with the times of a NIC also
    /// [`SetupError::NoChip`].
    pub fn add_memory_node(&self, extent: impl Into<Extent>) -> Result<MemoryNodeId, SetupError> {
        let extent = extent.into();
        if let Timing::Nic(profile) = &self.world.config.timing
            && extent.chip_bytes > profile.chip_bytes.into()
        {
            return Err(SetupError::NoChip { bytes: extent.chip_bytes });
        }
        let region = Region::zeroed(extent.region_bytes()?)?;
        let mut memory = self.world.memory.borrow_mut();
        let id = u16::try_from(memory.len()).map_err(|_| SetupError::TooManyMemoryNodes)?;
        memory.push(MemoryNode::new(region, extent));
        strict_assert!(memory.len() == usize::from(id) + 1, "memory nodes are numbered from 0");
        Ok(MemoryNodeId(id))
    }

    /// Adds a compute node, with an inbox and without regions.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`].
    pub fn add_compute_node(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        self.add_node(id, Host::new())
    }

    /// Like [`add_compute_node`](SimFabric::add_compute_node), on the host of a memory node. Both
    /// share the NIC and the host's speed. They are cut off together, and a fence of one is a fence
    /// of both.
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`] and [`SetupError::DuplicateNode`].
    pub fn add_compute_node_at(
        &self,
        id: ComputeNodeId,
        memory: MemoryNodeId,
    ) -> Result<(), SetupError> {
        let hosts = self.world.memory_hosts();
        let host = hosts.get(usize::from(memory.0)).ok_or(SetupError::UnknownMemoryNode(memory))?;
        self.add_node(id, Rc::clone(host))
    }

    fn add_node(&self, id: ComputeNodeId, host: Rc<Host>) -> Result<(), SetupError> {
        let mut nodes = self.world.nodes.borrow_mut();
        if nodes.len() <= id.index() {
            nodes.resize_with(id.index() + 1, || None);
        }
        let place = &mut nodes[id.index()];
        if place.is_some() {
            return Err(SetupError::DuplicateNode(id));
        }
        let World { kernel, config, .. } = &*self.world;
        *place = Some(Node::new(id, host, Mailbox::new(kernel.clone(), config.inbox_capacity)));
        Ok(())
    }

    /// Registers memory of a compute node. Keys count from 0 per node. The fabric keeps the region
    /// as long as the fabric exists.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`] and [`SetupError::TooManyRegions`].
    pub fn register(
        &self,
        node: ComputeNodeId,
        region: Arc<Region>,
    ) -> Result<RegionKey, SetupError> {
        let found = self.known(node)?;
        let mut regions = found.regions.borrow_mut();
        let key = u16::try_from(regions.len()).map_err(|_| SetupError::TooManyRegions(node))?;
        regions.push(region);
        strict_assert!(regions.len() == usize::from(key) + 1, "regions are numbered from 0");
        Ok(RegionKey(key))
    }

    /// Makes an endpoint for one worker of `node`. A completion wakes the worker through the
    /// executor of `handle`. With the times of a NIC, this executor's clock is charged for posting
    /// and polling.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn endpoint(
        &self,
        node: ComputeNodeId,
        handle: &Handle,
    ) -> Result<SimEndpoint, SetupError> {
        let own = self.known(node)?;
        Ok(SimEndpoint::new(Rc::clone(&self.world), own, handle))
    }

    /// The inbox of `node`.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<SimInbox, SetupError> {
        Ok(SimInbox::new(Rc::clone(&self.known(node)?.mailbox)))
    }

    /// Cuts a compute node off: a request to the node that has not begun fails its batch with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected). With
    /// [`SimConfig::tells_unsent`], a later batch may fail with
    /// [`VerbError::Unreachable`](latchwork_verbs::VerbError::Unreachable). Verbs that the node
    /// posts to others are not affected.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        self.known(node)?.host.gone.set(true);
        Ok(())
    }

    /// Kills a compute node. Requests to the node fail as after
    /// [`disconnect`](SimFabric::disconnect). Requests of the node that have not begun never begin,
    /// also in the middle of a batch. The caller must also stop the workers of the node.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn kill(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        self.known(node)?.dead.set(true);
        self.disconnect(node)
    }

    /// Cuts a memory node off: a request to the node that has not begun fails its batch, as after
    /// [`disconnect`](SimFabric::disconnect).
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`].
    pub fn lose_memory_node(&self, node: MemoryNodeId) -> Result<(), SetupError> {
        let memory = self.world.memory.borrow();
        let found = memory.get(usize::from(node.0)).ok_or(SetupError::UnknownMemoryNode(node))?;
        found.host.gone.set(true);
        Ok(())
    }

    /// Multiplies by `times` the delays of batches from and to the node. With the times of a NIC,
    /// all times of such a batch are multiplied, except the jitter. If both ends of a batch are
    /// slow, the larger factor counts. The default factor is 1, and 0 counts as 1. The caller must
    /// also slow the workers of the node down.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn slow_down(&self, node: ComputeNodeId, times: u32) -> Result<(), SetupError> {
        self.known(node)?.host.slowness.set(times.max(1));
        Ok(())
    }

    /// The number of requests that have taken effect, wholly or in part. A lost message counts.
    pub fn verbs(&self) -> u64 {
        self.world.verbs.get()
    }

    /// The number of doorbells so far. One ring of an endpoint counts one doorbell for each target
    /// of its posted batches.
    pub fn doorbells(&self) -> u64 {
        self.world.doorbells.get()
    }

    /// Sets the faults that happen by chance from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.world.faults.set(faults);
    }

    /// The faults that happen by chance now.
    pub fn faults(&self) -> Faults {
        self.world.faults.get()
    }

    /// The number of times that each fault has happened.
    pub fn fault_counts(&self) -> FaultCounts {
        self.world.fault_counts.get()
    }

    /// Makes a gate. From now on the gate holds the batches that `rule` picks. If several gates
    /// pick a batch, the oldest gate holds it. Gates are for tests that force a race. To the code
    /// under test, a gate looks like a slow network.
    ///
    /// The fabric calls the rule in the order of events, at most once per [leg](crate::Leg) of each
    /// batch; at [`Leg::Inbox`](crate::Leg::Inbox) once per message. The fabric also calls the rule
    /// when an earlier gate has picked the batch. So a rule that always returns false can serve as
    /// a log. The rule must not call the fabric.
    pub fn gate(&self, rule: impl FnMut(&Passing<'_>) -> bool + 'static) -> Gate {
        Gate::new(&self.world, Box::new(rule))
    }

    /// The lengths of the memory of a memory node.
    pub fn extent(&self, node: MemoryNodeId) -> Option<Extent> {
        Some(self.world.memory.borrow().get(usize::from(node.0))?.extent)
    }

    /// The length in bytes up to which a WRITE to a memory node is whole if its sender dies
    /// ([`SimConfig::whole_write`]).
    pub fn whole_write(&self) -> u32 {
        self.world.config.whole_write
    }

    /// The memory of a memory node, for tests and tools that read the memory from outside. Its
    /// on-chip memory follows behind the other memory.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        Some(self.world.memory.borrow().get(usize::from(node.0))?.memory.clone())
    }

    pub(crate) fn known(&self, node: ComputeNodeId) -> Result<Rc<Node>, SetupError> {
        self.world.node(node).ok_or(SetupError::UnknownNode(node))
    }
}
