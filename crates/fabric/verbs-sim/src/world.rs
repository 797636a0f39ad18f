//! [`World`]: the state that all endpoints share, and the events by which batches move.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::{Rc, Weak};
use std::time::Duration;

use latchwork_simulation::{Actor, ActorId, Kernel, Time};
use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, Message, Target, VerbError, WorkRequest};
use slab::Slab;

use crate::batch::Batch;
use crate::config::{SimConfig, Timing};
use crate::event::Event;
use crate::faults::{FaultCounts, Faults};
use crate::flight::{COMPLETION, Flight, MESSAGE};
use crate::nic::NicTimes;
use crate::node::{Host, MemoryNode, Node, There};
use crate::passing::{GateCore, Leg, Passing, What};
use crate::send_queue::Lane;
use crate::sight::{BatchStep, Strike, Watcher};

/// The state that all endpoints of a fabric share. The world is also the kernel's actor whose
/// events are the steps of batches.
pub(crate) struct World {
    pub(crate) kernel: Kernel,
    pub(crate) config: SimConfig,
    /// The times of the profile, with [`Timing::Nic`].
    pub(crate) nic: Option<NicTimes>,
    pub(crate) faults: Cell<Faults>,
    pub(crate) fault_counts: Cell<FaultCounts>,
    pub(crate) verbs: Cell<u64>,
    pub(crate) doorbells: Cell<u64>,
    pub(crate) actor: OnceCell<ActorId>,
    pub(crate) memory: RefCell<Vec<MemoryNode>>,
    pub(crate) nodes: RefCell<Vec<Option<Rc<Node>>>>,
    pub(crate) flights: RefCell<Slab<Box<Flight>>>,
    /// Completed flights, kept for reuse.
    #[allow(clippy::vec_box, reason = "a flight is handed on, and large")]
    pub(crate) spare: RefCell<Vec<Box<Flight>>>,
    pub(crate) again: RefCell<Slab<Again>>,
    pub(crate) gates: RefCell<Vec<Weak<GateCore>>>,
    pub(crate) watcher: RefCell<Option<Box<Watcher>>>,
}

/// A message that will arrive a second time.
pub(crate) struct Again {
    from: Rc<Node>,
    to: Rc<Node>,
    message: Message,
}

impl Actor for World {
    fn fire(&self, payload: u64) {
        let (key, event) = Event::from_payload(payload);
        match (event, &self.config.timing) {
            (Event::Complete, _) => self.complete(key),
            (Event::Again, _) => {
                let Again { from, to, message } = self.again.borrow_mut().remove(key as usize);
                let is_replaced = from.replaced.get() || to.replaced.get();
                if !is_replaced && !to.host.keeps_out(message.from) {
                    self.see_again(to.id, &message);
                    to.mailbox.put(message);
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

    /// Makes a flight for a posted batch, from a completed flight if there is one. A flight is
    /// large, and its reuse avoids writing most of its bytes.
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

    /// Counts a request that has taken effect, wholly or in part, and shows an atomic to the
    /// watcher.
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

    /// The first gate that picks the batch on this leg, if any. The rules of all gates run, also
    /// those behind a gate that has picked the batch.
    fn gate_for(&self, leg: Leg, from: ComputeNodeId, batch: &Batch) -> Option<Rc<GateCore>> {
        let (target, requests) = (batch.target, batch.requests());
        let passing = Passing { leg, from, target, requests };
        let gates: Vec<_> = self.gates.borrow().iter().filter_map(Weak::upgrade).collect();
        gates.into_iter().fold(None, |first, gate| {
            let picks = gate.picks(&passing);
            first.or(picks.then_some(gate))
        })
    }

    /// Offers the flight to the gates on this leg. True when a gate now holds the flight.
    fn is_held(&self, leg: Leg, key: u32) -> bool {
        if self.gates.borrow().is_empty() {
            return false;
        }
        let (from, batch) = self.with(key, |flight| (flight.lane.own.id, flight.batch.clone()));
        let gate = self.gate_for(leg, from, &batch);
        gate.inspect(|gate| gate.hold(leg, from, batch, What::Flight(key))).is_some()
    }

    /// Decides that the connection of a batch fails behind `done` of its requests. The batch has
    /// not arrived yet.
    ///
    /// `torn`: the number of the first words that still take effect of the READ or WRITE at the
    /// cut; `None` lets the fabric draw.
    pub(crate) fn cut_off(&self, key: u32, done: usize, torn: Option<usize>) {
        let done = self.with(key, |flight| {
            let done = done.min(flight.len());
            (flight.cut, flight.torn) = (Some(done), torn);
            done
        });
        self.see(key, BatchStep::Fault(Strike::CutOff(done)));
    }

    /// Continues a flight that a gate held on this leg.
    pub(crate) fn go_on(&self, leg: Leg, key: u32) {
        let next = if leg == Leg::Back { Event::Complete } else { Event::Arrive };
        self.schedule(Duration::ZERO, key, next);
    }

    /// Submits a batch. With the times of a NIC, `from` is the time of its worker's clock.
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
            let from = self.with(key, |flight| Rc::clone(&flight.lane.own));
            let again = Again { from, to: Rc::clone(&node), message };
            let again = self.again.borrow_mut().insert(again);
            self.schedule(later, u32::try_from(again).expect("bounded"), Event::Again);
        }
        self.see(key, BatchStep::Delivered(&message));
        if !self.is_message_held(key, &node, message) {
            node.mailbox.put(message);
        }
        true
    }

    /// Offers a delivered message to the gates. True when a gate now holds the message.
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

    /// Sends the completion of a batch back. No request of the batch takes effect later.
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
