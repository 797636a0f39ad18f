//! The world of nodes, and the events by which batches move in it.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use latchwork_runtime::Notifier;
use latchwork_simulation::{Actor, ActorId, Kernel};
use latchwork_verbs::{
    ComputeNodeId, Kind, MemoryNodeId, Message, Region, RegionKey, SetupError, Target, VerbError,
};
use slab::Slab;

use crate::config::{SimConfig, Timing};
use crate::drawn::Drawn;
use crate::endpoint::Endpoint;
use crate::faults::{FaultCounts, Faults};
use crate::flight::{Batch, Begin, COMPLETION, Flight, MESSAGE};
use crate::gate::{Gate, GateCore, Leg, Passing, What};
use crate::inbox::{Inbox, Mailbox};

/// The memory nodes and compute nodes of one simulated world. Clones are the same fabric.
#[derive(Clone)]
pub struct Fabric {
    world: Rc<World>,
}

/// What all endpoints share; the actor whose events are the steps of batches.
pub(crate) struct World {
    kernel: Kernel,
    pub(crate) config: SimConfig,
    no_drawn: Drawn,
    faults: Cell<Faults>,
    fault_counts: Cell<FaultCounts>,
    actor: OnceCell<ActorId>,
    memory: RefCell<Vec<Arc<Region>>>,
    nodes: RefCell<Vec<Option<Rc<Node>>>>,
    flights: RefCell<Slab<Flight>>,
    gates: RefCell<Vec<Weak<GateCore>>>,
}

/// A compute node.
pub(crate) struct Node {
    id: ComputeNodeId,
    mailbox: Rc<Mailbox>,
    regions: RefCell<Vec<Arc<Region>>>,
    disconnected: Cell<bool>,
}

impl Node {
    pub(crate) fn region(&self, key: usize) -> Option<Arc<Region>> {
        self.regions.borrow().get(key).cloned()
    }
}

impl Fabric {
    /// A fabric without nodes, in the world of `kernel`. Limits of `config` that no batch could keep
    /// are raised to the smallest possible.
    pub fn new(kernel: &Kernel, config: SimConfig) -> Self {
        let world = Rc::new(World {
            kernel: kernel.clone(),
            no_drawn: Drawn::default(),
            faults: Cell::new(config.faults),
            fault_counts: Cell::default(),
            config: config.sane(),
            actor: OnceCell::new(),
            memory: RefCell::default(),
            nodes: RefCell::default(),
            flights: RefCell::default(),
            gates: RefCell::default(),
        });
        let actor = kernel.add_actor(Rc::clone(&world) as Rc<dyn Actor>);
        world.actor.set(actor).expect("set once");
        Fabric { world }
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
        memory.push(region);
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
        *place = Some(Rc::new(Node {
            id,
            mailbox: Rc::new(Mailbox::new(kernel.clone(), config.inbox_capacity)),
            regions: RefCell::default(),
            disconnected: Cell::new(false),
        }));
        Ok(())
    }

    /// Registers memory of a compute node. Keys count from 0 per node. The fabric keeps the region
    /// for its own lifetime.
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
        Ok(RegionKey(key))
    }

    /// A new endpoint for one worker of `node`, which is notified of each completion.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn endpoint(
        &self,
        node: ComputeNodeId,
        notifier: Notifier,
    ) -> Result<Endpoint, SetupError> {
        let own = self.known(node)?;
        Ok(Endpoint::new(Rc::clone(&self.world), own, notifier))
    }

    /// The inbox of `node`.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn inbox(&self, node: ComputeNodeId) -> Result<Inbox, SetupError> {
        Ok(Inbox::new(Rc::clone(&self.known(node)?.mailbox)))
    }

    /// Cuts a compute node off: requests to it that have not begun fail their batches with
    /// [`VerbError::Disconnected`]. Its own verbs to others are not affected.
    ///
    /// # Errors
    /// [`SetupError::UnknownNode`].
    pub fn disconnect(&self, node: ComputeNodeId) -> Result<(), SetupError> {
        self.known(node)?.disconnected.set(true);
        Ok(())
    }

    /// What goes wrong by chance from now on.
    pub fn set_faults(&self, faults: Faults) {
        self.world.faults.set(faults);
    }

    /// How often each fault has struck.
    pub fn fault_counts(&self) -> FaultCounts {
        self.world.fault_counts.get()
    }

    /// Holds back, from now on, the batches that `rule` picks; the first gate that picks a batch has
    /// it. For tests that force a race: code above cannot tell it from a slow network.
    ///
    /// The rule is asked once per leg of each batch, in the order of events, also when the batch meets
    /// no other gate: a rule that always says no is a log. It must not call the fabric.
    pub fn gate(&self, rule: impl FnMut(&Passing<'_>) -> bool + 'static) -> Gate {
        Gate::new(&self.world, Box::new(rule))
    }

    /// The memory of a memory node, for tests and tools that look at it from outside.
    pub fn memory(&self, node: MemoryNodeId) -> Option<Arc<Region>> {
        self.world.memory_of(Target::Memory(node))
    }

    fn known(&self, node: ComputeNodeId) -> Result<Rc<Node>, SetupError> {
        self.world.node(node).ok_or(SetupError::UnknownNode(node))
    }
}

/// An event of a flight, as the payload that the kernel carries.
///
/// ```text
///   63      40 39        8 7  5 4    2 1  0
///   ┌─────────┬───────────┬────┬──────┬────┐
///   │    0    │  flight   │ rq │ piece│what│
///   └─────────┴───────────┴────┴──────┴────┘
/// ```
#[derive(Clone, Copy)]
enum Event {
    Arrive,
    Begin { request: usize },
    Place { request: usize, piece: usize },
    Complete,
}

impl Event {
    fn payload(self, flight: u32) -> u64 {
        let low = match self {
            Event::Arrive => 0,
            Event::Begin { request } => request << 5 | 1,
            Event::Place { request, piece } => request << 5 | piece << 2 | 2,
            Event::Complete => 3,
        };
        u64::from(flight) << 8 | low as u64
    }

    fn from_payload(payload: u64) -> (u32, Event) {
        let (request, piece) = ((payload >> 5 & 7) as usize, (payload >> 2 & 7) as usize);
        let event = match payload & 3 {
            0 => Event::Arrive,
            1 => Event::Begin { request },
            2 => Event::Place { request, piece },
            _ => Event::Complete,
        };
        ((payload >> 8) as u32, event)
    }
}

impl Actor for World {
    fn fire(&self, payload: u64) {
        let (key, event) = Event::from_payload(payload);
        match event {
            Event::Arrive => {
                self.with(key, Flight::arrive);
                self.advance(key);
            }
            Event::Begin { request } => self.begin(key, request),
            Event::Place { request, piece } => {
                if self.with(key, |flight| flight.place(request, piece, &self.kernel)) {
                    self.done(key, request);
                }
            }
            Event::Complete => self.complete(key),
        }
    }
}

impl World {
    fn drawn(&self) -> &Drawn {
        match &self.config.timing {
            Timing::Drawn(drawn) => drawn,
            Timing::Nic(_) => &self.no_drawn,
        }
    }

    pub(crate) fn node(&self, id: ComputeNodeId) -> Option<Rc<Node>> {
        self.nodes.borrow().get(id.index()).cloned().flatten()
    }

    /// The memory of a target, if it has any.
    pub(crate) fn memory_of(&self, target: Target) -> Option<Arc<Region>> {
        match target {
            Target::Memory(id) => self.memory.borrow().get(usize::from(id.0)).cloned(),
            Target::Compute(id, key) => self.node(id)?.region(key.into()),
        }
    }

    fn with<T>(&self, key: u32, act: impl FnOnce(&mut Flight) -> T) -> T {
        act(&mut self.flights.borrow_mut()[key as usize])
    }

    fn schedule(&self, after: std::time::Duration, key: u32, event: Event) {
        let actor = *self.actor.get().expect("set when the fabric was made");
        self.kernel.schedule(self.kernel.now() + after, actor, event.payload(key));
    }

    pub(crate) fn add_gate(&self, gate: Weak<GateCore>) {
        let mut gates = self.gates.borrow_mut();
        gates.retain(|gate| gate.strong_count() > 0);
        gates.push(gate);
    }

    /// The gate that holds the batch on this leg, if any.
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
        let (from, batch) = self.with(key, |flight| (flight.own.id, flight.batch.clone()));
        let gate = self.gate_for(leg, from, &batch);
        gate.inspect(|gate| gate.hold(leg, from, batch, What::Flight(key))).is_some()
    }

    /// Lets a flight go on that was held on this leg.
    pub(crate) fn go_on(&self, leg: Leg, key: u32) {
        let next = if leg == Leg::Back { Event::Complete } else { Event::Arrive };
        self.schedule(std::time::Duration::ZERO, key, next);
    }

    /// Sends a batch on its way.
    pub(crate) fn submit(&self, flight: Flight) {
        let lane = Rc::clone(&flight.lane);
        let key = u32::try_from(self.flights.borrow_mut().insert(flight)).expect("bounded");
        if !self.drawn().reorder_batches {
            lane.flights.borrow_mut().push_back(key);
        }
        if self.is_held(Leg::There, key) {
            return;
        }
        let mut delay = self.drawn().draw_one_way(&self.kernel);
        if !self.drawn().reorder_batches {
            let arrival = lane.last_arrival.get().max(self.kernel.now() + delay);
            lane.last_arrival.set(arrival);
            delay = arrival - self.kernel.now();
        }
        self.schedule(delay, key, Event::Arrive);
    }

    /// Schedules every request of a flight that nothing holds back.
    fn advance(&self, key: u32) {
        let mut from = 0;
        while let Some((request, kind)) = self.with(key, |flight| flight.ready(from)) {
            from = request + 1;
            if !self.held_back_by_earlier(key, kind) {
                self.with(key, |flight| flight.scheduled(request));
                let pause = self.drawn().draw_spread(&self.kernel);
                self.schedule(pause, key, Event::Begin { request });
            }
        }
    }

    /// Whether a batch before this one on its queue pair holds back a request of kind `kind`.
    fn held_back_by_earlier(&self, key: u32, kind: Kind) -> bool {
        if self.drawn().reorder_batches {
            return false;
        }
        let flights = self.flights.borrow();
        let order = flights[key as usize].lane.flights.borrow();
        let mut earlier = order.iter().take_while(|&&other| other != key);
        earlier.any(|&other| flights[other as usize].holds_back_followers(kind))
    }

    fn begin(&self, key: u32, request: usize) {
        if let Some(error) = self.with(key, |flight| disconnected(flight)) {
            self.with(key, |flight| flight.fail(error));
            return self.done(key, request);
        }
        let pieces_max = self.drawn().pieces_max;
        match self.with(key, |flight| flight.begin(request, pieces_max, &self.kernel)) {
            Begin::Done => self.done(key, request),
            Begin::Pieces(pieces) => {
                for piece in 0..pieces {
                    let pause = self.drawn().draw_spread(&self.kernel);
                    self.schedule(pause, key, Event::Place { request, piece });
                }
            }
            Begin::Deliver(message) => self.deliver(key, request, message),
        }
    }

    fn deliver(&self, key: u32, request: usize, message: Message) {
        let peer = self.with(key, |flight| flight.peer.clone()).expect("checked when posted");
        if peer.mailbox.is_full() {
            return self.schedule(self.config.inbox_retry, key, Event::Begin { request });
        }
        if !self.is_message_held(key, &peer, message) {
            peer.mailbox.put(message);
        }
        let fold = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let body = message.body.into_iter().fold(0, fold);
        self.kernel.note(MESSAGE, message.from.get().into(), body);
        self.done(key, request);
    }

    /// Whether a gate took the message, which then counts as delivered.
    fn is_message_held(&self, key: u32, peer: &Rc<Node>, message: Message) -> bool {
        if self.gates.borrow().is_empty() {
            return false;
        }
        let (from, target) = self.with(key, |flight| (flight.own.id, flight.batch.target));
        let batch = Batch::new(target, 0, &[latchwork_verbs::Request::Send(message)]);
        let gate = self.gate_for(Leg::Inbox, from, &batch);
        let what = What::Message(Rc::clone(&peer.mailbox), message);
        gate.inspect(|gate| gate.hold(Leg::Inbox, from, batch, what)).is_some()
    }

    /// A request has taken effect.
    fn done(&self, key: u32, request: usize) {
        self.with(key, |flight| flight.done(request));
        if self.with(key, |flight| flight.is_done()) && !self.is_held(Leg::Back, key) {
            let delay = self.drawn().draw_one_way(&self.kernel);
            self.schedule(delay, key, Event::Complete);
        }
        if self.drawn().reorder_batches {
            return self.advance(key);
        }
        let lane = self.with(key, |flight| Rc::clone(&flight.lane));
        let order: Vec<u32> = lane.flights.borrow().iter().copied().collect();
        order.into_iter().for_each(|other| self.advance(other));
    }

    fn complete(&self, key: u32) {
        let flight = self.flights.borrow_mut().remove(key as usize);
        flight.lane.give_room(&flight.batch);
        flight.lane.flights.borrow_mut().retain(|&other| other != key);
        let completion = flight.completion();
        self.kernel.note(COMPLETION, completion.token, u64::from(completion.result.is_ok()));
        flight.lane.completions.push(completion);
    }
}

fn disconnected(flight: &Flight) -> Option<VerbError> {
    let gone = flight.peer.as_ref()?.disconnected.get();
    gone.then_some(VerbError::Disconnected { target: flight.batch.target })
}
