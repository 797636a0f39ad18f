//! The nodes of a world, and the events by which batches move between them.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::Handle;
use latchwork_simulation::{Actor, ActorId, Kernel, Time};
use latchwork_strict::strict_assert;
use latchwork_verbs::{
    ComputeNodeId, MemoryNodeId, Message, Region, RegionKey, SetupError, Target, VerbError,
    WorkRequest,
};
use slab::Slab;

use crate::config::{SimConfig, Timing};
use crate::endpoint::SimEndpoint;
use crate::event::Event;
use crate::faults::{FaultCounts, Faults};
use crate::flight::{Batch, COMPLETION, Flight, MESSAGE};
use crate::gate::{Gate, GateCore, Leg, Passing, What};
use crate::inbox::{Mailbox, SimInbox};
use crate::lane::Lane;
use crate::nic::NicTimes;
use crate::node::{Host, MemoryNode, Node, There};
use crate::watch::{BatchStep, Strike, Watcher};

/// The memory nodes and compute nodes of one simulated world. Clones are the same fabric.
#[derive(Clone)]
pub struct SimFabric {
    pub(crate) world: Rc<World>,
}

/// The state that all endpoints share, and the actor whose events are the steps of batches.
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) config: SimConfig,
    /// The times of the profile, with [`Timing::Nic`].
    pub(crate) nic: Option<NicTimes>,
    faults: Cell<Faults>,
    fault_counts: Cell<FaultCounts>,
    verbs: Cell<u64>,
    pub(crate) doorbells: Cell<u64>,
    actor: OnceCell<ActorId>,
    memory: RefCell<Vec<MemoryNode>>,
    nodes: RefCell<Vec<Option<Rc<Node>>>>,
    pub(crate) flights: RefCell<Slab<Box<Flight>>>,
    /// Completed flights, kept for reuse.
    #[allow(clippy::vec_box, reason = "a flight is handed on, and large")]
    spare: RefCell<Vec<Box<Flight>>>,
    /// Messages that will arrive a second time.
    again: RefCell<Slab<(Rc<Node>, Message)>>,
    gates: RefCell<Vec<Weak<GateCore>>>,
    pub(crate) watcher: RefCell<Option<Box<Watcher>>>,
}

impl SimFabric {
    /// A fabric without nodes, in the world of `kernel`. A limit of `config` that is too small for
    /// any batch is raised to the smallest possible value.
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

    /// Adds a memory node of `bytes` zero bytes, a positive multiple of 8. Ids count from 0.
    ///
    /// # Errors
    /// [`SetupError::Region`] and [`SetupError::TooManyMemoryNodes`].
    pub fn add_memory_node(&self, bytes: usize) -> Result<MemoryNodeId, SetupError> {
        let region = Region::zeroed(bytes)?;
        let mut memory = self.world.memory.borrow_mut();
        let id = u16::try_from(memory.len()).map_err(|_| SetupError::TooManyMemoryNodes)?;
        memory.push(MemoryNode::new(region));
        strict_assert!(memory.len() == usize::from(id) + 1, "memory nodes are numbered from 0");
        Ok(MemoryNodeId(id))
    }

    /// Adds a compute node, with an inbox and without regions.
    ///
    /// # Errors
    /// [`SetupError::DuplicateNode`].
    pub fn add_compute_node(&self, id: ComputeNodeId) -> Result<(), SetupError> {
        let mut nodes = self.world.nodes.borrow_mut();
        if nodes.len() <= id.index() {
            nodes.resize_with(id.index() + 1, || None);
        }
        let place = &mut nodes[id.index()];
        if place.is_some() {
            return Err(SetupError::DuplicateNode(id));
        }
        let World { kernel, config, .. } = &*self.world;
        *place = Some(Node::new(id, Mailbox::new(kernel.clone(), config.inbox_capacity)));
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

    /// A new endpoint for one worker of `node`. Completions wake the worker through the executor of
    /// `handle`. The clock of that executor pays for posting and polling.
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

    /// Disconnects a compute node: a request to the node that has not begun fails its batch with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected). Verbs that the node
    /// posts to others are not affected.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        self.known(node)?.host.gone.set(true);
        Ok(())
    }

    /// Kills a compute node. Requests to the node fail as after [`disconnect`](Fabric::disconnect).
    /// Requests of the node that have not begun never begin, also in the middle of a batch. The
    /// caller stops the workers of the node.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn kill(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        self.known(node)?.dead.set(true);
        self.disconnect(node)
    }

    /// Loses a memory node: a request to the node that has not begun fails its batch with
    /// [`VerbError::Disconnected`](latchwork_verbs::VerbError::Disconnected).
    ///
    /// # Errors
    /// [`SetupError::UnknownMemoryNode`].
    pub fn lose_memory_node(&self, node: MemoryNodeId) -> Result<(), SetupError> {
        let memory = self.world.memory.borrow();
        let found = memory.get(usize::from(node.0)).ok_or(SetupError::UnknownMemoryNode(node))?;
        found.host.gone.set(true);
        Ok(())
    }

    /// Multiplies by `times` the time of everything that the node's NIC does, and of the ways from
    /// and to the node. The usual speed is 1. The caller slows the workers of the node down.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn slow_down(&self, node: ComputeNodeId, times: u32) -> Result<(), SetupError> {
        self.known(node)?.host.slowness.set(times.max(1));
        Ok(())
    }

    /// The number of requests that have taken effect.
    pub fn verbs(&self) -> u64 {
        self.world.verbs.get()
    }

    /// The number of doorbells rung: one for all batches that a worker submits to one target at a
    /// time.
    pub fn doorbells(&self) -> u64 {
        self.world.doorbells.get()
    }

    /// Sets the faults that happen by chance from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.world.faults.set(faults);
    }

    /// The number of times that each fault has happened.
    pub fn fault_counts(&self) -> FaultCounts {
        self.world.fault_counts.get()
    }

    /// Holds back, from now on, the batches that `rule` picks. The first gate that picks a batch
    /// holds it. Gates are for tests that force a race: to the code above, a gate looks like a slow
    /// network.
    ///
    /// The fabric calls the rule once per leg of each batch, in the order of events, also when an
    /// earlier gate has picked the batch. So a rule that always returns false can serve as a log.
    /// The rule must not call the fabric.
    pub fn gate(&self, rule: impl FnMut(&Passing<'_>) -> bool + 'static) -> Gate {
        Gate::new(&self.world, Box::new(rule))
    }

    /// The memory of a memory node, for tests and tools that read it from outside.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        Some(self.world.memory.borrow().get(usize::from(node.0))?.memory.clone())
    }

    fn known(&self, node: ComputeNodeId) -> Result<Rc<Node>, SetupError> {
        self.world.node(node).ok_or(SetupError::UnknownNode(node))
    }
}

impl Actor for World {
    fn fire(&self, payload: u64) {
        let (key, event) = Event::from_payload(payload);
        match (event, &self.config.timing) {
            (Event::Complete, _) => self.complete(key),
            (Event::Again, _) => {
                let (node, message) = self.again.borrow_mut().remove(key as usize);
                if !node.host.keeps_out(message.from) {
                    self.see_again(node.id, &message);
                    node.mailbox.put(message);
                }
            }
            (event, Timing::Drawn(drawn)) => match event {
                Event::Begin { request } => self.begin(drawn, key, request),
                Event::Place { request, piece } => self.place(drawn, key, request, piece),
                _ => {
                    self.with(key, Flight::arrive);
                    self.advance(drawn, key);
                }
            },
            (event, Timing::Nic(_)) => match (event, &self.nic) {
                (Event::Arrive, Some(times)) => self.arrive_nic(times, key),
                _ => self.apply(key),
            },
        }
    }
}

impl World {
    pub(crate) fn node(&self, id: ComputeNodeId) -> Option<Rc<Node>> {
        self.nodes.borrow().get(id.index()).cloned().flatten()
    }

    /// The hosts of the memory nodes, in the order of their ids.
    pub(crate) fn memory_hosts(&self) -> Vec<Rc<Host>> {
        self.memory.borrow().iter().map(|node| Rc::clone(&node.host)).collect()
    }

    /// The compute nodes, in the order of their ids.
    pub(crate) fn compute_nodes(&self) -> Vec<Rc<Node>> {
        self.nodes.borrow().iter().flatten().cloned().collect()
    }

    /// The far end of batches for `target`; `None` when there is no such node.
    pub(crate) fn there(&self, target: Target) -> Option<There> {
        match target {
            Target::Memory(id) => {
                self.memory.borrow().get(usize::from(id.0)).map(There::memory_node)
            }
            Target::Compute(id, key) => Some(There::compute_node(self.node(id)?, key)),
        }
    }

    /// A flight for a batch that is about to be sent, from a completed flight if there is one.
    /// Flights are large, and reuse leaves most of their bytes unwritten.
    pub(crate) fn flight(
        &self,
        lane: &Rc<Lane>,
        (target, token): (Target, u64),
        requests: &[WorkRequest],
    ) -> Box<Flight> {
        match self.spare.borrow_mut().pop() {
            Some(mut flight) => {
                flight.renew(lane, (target, token), requests);
                flight
            }
            None => Box::new(Flight::new(lane, Batch::new(target, token, requests))),
        }
    }

    pub(crate) fn with<T>(&self, key: u32, act: impl FnOnce(&mut Flight) -> T) -> T {
        act(&mut self.flights.borrow_mut()[key as usize])
    }

    pub(crate) fn schedule(&self, after: Duration, key: u32, event: Event) {
        self.schedule_at(self.kernel.now() + after, key, event);
    }

    pub(crate) fn schedule_at(&self, at: Time, key: u32, event: Event) {
        strict_assert!(at >= self.kernel.now(), "an event of the fabric is in the past");
        let actor = *self.actor.get().expect("set when the fabric was made");
        self.kernel.schedule(at, actor, event.payload(key));
    }

    /// A request has taken effect.
    pub(crate) fn took_effect(&self, key: u32, request: usize) {
        self.verbs.set(self.verbs.get() + 1);
        strict_assert!(self.verbs.get() > 0, "the count of verbs wraps");
        if self.is_watched()
            && let Some((old, new)) = self.with(key, |flight| flight.struck(request))
        {
            self.see(key, BatchStep::Struck { request, old, new });
        }
    }

    fn count_fault(&self, count: impl FnOnce(&mut FaultCounts)) {
        let mut counts = self.fault_counts.get();
        count(&mut counts);
        self.fault_counts.set(counts);
    }

    pub(crate) fn add_gate(&self, gate: Weak<GateCore>) {
        let mut gates = self.gates.borrow_mut();
        gates.retain(|gate| gate.strong_count() > 0);
        gates.push(gate);
    }

    /// The gate that holds the batch on this leg, if any. Every gate's rule runs, also behind a
    /// gate that has picked the batch.
    fn gate_for(&self, leg: Leg, from: ComputeNodeId, batch: &Batch) -> Option<Rc<GateCore>> {
        let (target, requests) = (batch.target, batch.requests());
        let passing = Passing { leg, from, target, requests };
        let gates: Vec<_> = self.gates.borrow().iter().filter_map(Weak::upgrade).collect();
        gates.into_iter().fold(None, |first, gate| {
            let picks = gate.picks(&passing);
            first.or(picks.then_some(gate))
        })
    }

    /// Whether a gate took the flight on this leg.
    fn is_held(&self, leg: Leg, key: u32) -> bool {
        if self.gates.borrow().is_empty() {
            return false;
        }
        let (from, batch) = self.with(key, |flight| (flight.lane.own.id, flight.batch.clone()));
        let gate = self.gate_for(leg, from, &batch);
        gate.inspect(|gate| gate.hold(leg, from, batch, What::Flight(key))).is_some()
    }

    /// Makes the connection fail, behind `done` requests, under a flight that has not arrived.
    pub(crate) fn cut_off(&self, key: u32, done: usize) {
        let done = self.with(key, |flight| {
            let done = done.min(flight.len());
            flight.cut = Some(done);
            done
        });
        self.see(key, BatchStep::Fault(Strike::CutOff(done)));
    }

    /// Continues a flight that a gate held on this leg.
    pub(crate) fn go_on(&self, leg: Leg, key: u32) {
        let next = if leg == Leg::Back { Event::Complete } else { Event::Arrive };
        self.schedule(Duration::ZERO, key, next);
    }

    /// Sends a batch at the time `from` of its worker's clock.
    pub(crate) fn submit(&self, flight: Box<Flight>, from: Time) {
        let mut flight = match self.send_or_end(flight) {
            Ok(flight) => flight,
            Err(ended) => return self.see(ended, BatchStep::Posted),
        };
        let faults = self.faults.get();
        let delay = faults.draw_delay(&self.kernel);
        flight.cut = faults.draw_cut(&self.kernel, flight.len());
        strict_assert!(
            flight.cut.is_none_or(|cut| cut <= flight.len()),
            "a cut behind the last request"
        );
        flight.payload_max = self.config.payload_max.map_or(usize::MAX, |max| max as usize);
        if delay.is_some() {
            self.count_fault(|counts| counts.delayed += 1);
        }
        let cut = flight.cut;
        let key = u32::try_from(self.flights.borrow_mut().insert(flight)).expect("bounded");
        strict_assert!(self.flights.borrow().contains(key as usize), "a flight is not known");
        self.see(key, BatchStep::Posted);
        if let Some(by) = delay {
            self.see(key, BatchStep::Fault(Strike::Delayed(by)));
        }
        if let Some(done) = cut {
            self.see(key, BatchStep::Fault(Strike::CutOff(done)));
        }
        if matches!(&self.config.timing, Timing::Drawn(drawn) if !drawn.reorder_batches) {
            self.with(key, |flight| flight.lane.flights.borrow_mut().push_back(key));
        }
        if self.is_held(Leg::There, key) {
            return;
        }
        let delay = delay.unwrap_or_default();
        match (&self.config.timing, &self.nic) {
            (Timing::Drawn(drawn), _) => self.submit_drawn(drawn, key, delay),
            (Timing::Nic(_), Some(times)) => self.submit_nic(times, key, from, delay),
            (Timing::Nic(_), None) => unreachable!("made with the world"),
        }
    }

    /// Delivers a message of a flight. False when the inbox is full.
    pub(crate) fn deliver(&self, key: u32, message: Message) -> bool {
        let node = self.with(key, |flight| flight.lane.there.node.clone());
        let node = node.expect("checked when posted");
        if node.mailbox.is_full() {
            return false;
        }
        let faults = self.faults.get();
        let fold = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let body = message.body.into_iter().fold(0, fold);
        self.kernel.note(MESSAGE, message.from.get().into(), body);
        if faults.draw_loss(&self.kernel) {
            self.count_fault(|counts| counts.lost += 1);
            self.see(key, BatchStep::Fault(Strike::Lost));
            return true;
        }
        if let Some(later) = faults.draw_duplicate(&self.kernel) {
            self.count_fault(|counts| counts.repeated += 1);
            self.see(key, BatchStep::Fault(Strike::Duplicated(later)));
            let again = self.again.borrow_mut().insert((Rc::clone(&node), message));
            self.schedule(later, u32::try_from(again).expect("bounded"), Event::Again);
        }
        self.see(key, BatchStep::Delivered(&message));
        if !self.is_message_held(key, &node, message) {
            node.mailbox.put(message);
        }
        true
    }

    /// Whether a gate took the message. The message then counts as delivered.
    fn is_message_held(&self, key: u32, node: &Rc<Node>, message: Message) -> bool {
        if self.gates.borrow().is_empty() {
            return false;
        }
        let (from, target) = self.with(key, |flight| (flight.lane.own.id, flight.batch.target));
        let batch = Batch::new(target, 0, &[WorkRequest::Send(message)]);
        let gate = self.gate_for(Leg::Inbox, from, &batch);
        let what = What::Message(Rc::clone(&node.mailbox), message);
        gate.inspect(|gate| gate.hold(Leg::Inbox, from, batch, what)).is_some()
    }

    /// Sends the completion of a batch back. The batch has taken all effects that it will ever
    /// have.
    pub(crate) fn leave_target(&self, key: u32) {
        let (cut, len) = self.with(key, |flight| (flight.cut, flight.len()));
        strict_assert!(
            self.with(key, |flight| flight.is_done()),
            "a batch leaves its target with open requests"
        );
        match cut {
            Some(cut) if cut == len => self.count_fault(|counts| counts.failed_applied += 1),
            Some(_) => self.count_fault(|counts| counts.failed_unapplied += 1),
            None => {}
        }
        if self.with(key, |flight| self.strands(flight)) || self.is_held(Leg::Back, key) {
            return;
        }
        match (&self.config.timing, &self.nic) {
            (Timing::Drawn(drawn), _) => {
                let slowness = self.with(key, |flight| flight.slowness());
                let delay = drawn.draw_one_way(&self.kernel) * slowness;
                self.schedule(delay, key, Event::Complete);
            }
            (Timing::Nic(_), Some(times)) => {
                let at = self.completion_nic(times, key);
                self.schedule_at(at, key, Event::Complete);
            }
            (Timing::Nic(_), None) => unreachable!("made with the world"),
        }
    }

    fn complete(&self, key: u32) {
        if self.is_watched() {
            let result = self.with(key, |flight| flight.completion().result);
            self.see(key, BatchStep::Completed(&result));
        }
        let flight = self.flights.borrow_mut().remove(key as usize);
        strict_assert!(flight.is_done(), "a batch completes with open requests");
        let lane = &flight.lane;
        lane.give_room(&flight.batch);
        lane.flights.borrow_mut().retain(|&other| other != key);
        strict_assert!(
            !lane.flights.borrow().contains(&key),
            "a batch that completed holds others back"
        );
        let completion = flight.completion();
        lane.lost.set(
            lane.lost.get() || matches!(completion.result, Err(VerbError::Disconnected { .. })),
        );
        self.kernel.note(COMPLETION, completion.token, u64::from(completion.result.is_ok()));
        lane.completions.push(completion);
        self.spare.borrow_mut().push(flight);
    }
}
