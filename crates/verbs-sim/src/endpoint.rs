//! [`Endpoint`] of a simulated world, and the limits of its NIC.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use latchwork_runtime::{Handle, Notifier};
use latchwork_simulation::Time;
use latchwork_verbs::{Completion, Request, Target, VerbError, check_batch};

use crate::fabric::World;
use crate::flight::{Batch, Flight};
use crate::nic::QueuePairs;
use crate::node::Node;

/// One worker's endpoint in a simulated world; see [`latchwork_verbs::Endpoint`].
///
/// What it posts takes effect at later events. Each completion notifies the worker's notifier.
pub struct Endpoint {
    world: Rc<World>,
    own: Rc<Node>,
    /// Whose clock pays for posting and polling.
    handle: Handle,
    completions: Rc<Completions>,
    posted: Vec<Batch>,
    lanes: BTreeMap<Target, Rc<Lane>>,
    in_flight: usize,
}

/// The completion queue.
pub(crate) struct Completions {
    notifier: Notifier,
    arrived: RefCell<VecDeque<Completion>>,
}

impl Completions {
    pub(crate) fn push(&self, completion: Completion) {
        self.arrived.borrow_mut().push_back(completion);
        self.notifier.notify();
    }
}

/// One endpoint to one target: what is pushed back, and what is under way.
pub(crate) struct Lane {
    pub(crate) completions: Rc<Completions>,
    waiting: RefCell<VecDeque<Batch>>,
    reads: Cell<usize>,
    requests: Cell<usize>,
    /// Flights in order of their submission, where that order means something.
    pub(crate) flights: RefCell<VecDeque<u32>>,
    pub(crate) last_arrival: Cell<Time>,
    pub(crate) queue_pairs: QueuePairs,
}

impl Lane {
    fn new(completions: Rc<Completions>) -> Self {
        Lane {
            completions,
            waiting: RefCell::default(),
            reads: Cell::new(0),
            requests: Cell::new(0),
            flights: RefCell::default(),
            last_arrival: Cell::new(Time::ZERO),
            queue_pairs: QueuePairs::default(),
        }
    }

    /// Takes the room that `batch` needs, if there is enough.
    fn take_room(&self, batch: &Batch, world: &World) -> bool {
        let reads = self.reads.get() + batch.reads();
        let requests = self.requests.get() + batch.requests().len();
        let fits = reads <= world.config.reads_max && requests <= world.config.requests_max;
        if fits {
            self.reads.set(reads);
            self.requests.set(requests);
        }
        fits
    }

    pub(crate) fn give_room(&self, batch: &Batch) {
        self.reads.set(self.reads.get() - batch.reads());
        self.requests.set(self.requests.get() - batch.requests().len());
    }
}

impl Endpoint {
    pub(crate) fn new(world: Rc<World>, own: Rc<Node>, handle: &Handle) -> Self {
        let (notifier, handle) = (handle.notifier(), handle.clone());
        let completions = Rc::new(Completions { notifier, arrived: RefCell::default() });
        let (posted, lanes) = (Vec::new(), BTreeMap::new());
        Endpoint { world, own, handle, completions, posted, lanes, in_flight: 0 }
    }

    fn submit_waiting(&self, lane: &Rc<Lane>) {
        loop {
            let batch = {
                let mut waiting = lane.waiting.borrow_mut();
                if !waiting.front().is_some_and(|batch| lane.take_room(batch, &self.world)) {
                    return;
                }
                waiting.pop_front().expect("looked at above")
            };
            let there = self.world.there(batch.target).expect("checked when posted");
            let own = Rc::clone(&self.own);
            let flight = Flight::new(batch, Rc::clone(lane), own, there);
            self.world.submit(flight, self.handle.now());
        }
    }
}

impl latchwork_verbs::Endpoint for Endpoint {
    fn post(&mut self, target: Target, token: u64, requests: &[Request]) -> Result<(), VerbError> {
        let there = self.world.there(target).ok_or(VerbError::UnknownTarget { target })?;
        let remote_len = there.memory.map(|region| region.len() as u64);
        let local_len =
            |key: latchwork_verbs::RegionKey| Some(self.own.region(key.0.into())?.len() as u64);
        check_batch(target, requests, remote_len, local_len)?;
        self.posted.push(Batch::new(target, token, requests));
        self.in_flight += 1;
        Ok(())
    }

    fn ring(&mut self) {
        let mut posted = std::mem::take(&mut self.posted);
        if let Some(times) = &self.world.nic {
            // One doorbell for all that goes the same way.
            for (at, batch) in posted.iter().enumerate() {
                self.handle.charge(times.post * batch.requests().len() as u32);
                if posted[..at].iter().all(|other| other.target != batch.target) {
                    self.handle.charge(times.doorbell);
                }
            }
        }
        for batch in posted.drain(..) {
            let new = || Rc::new(Lane::new(Rc::clone(&self.completions)));
            let lane = Rc::clone(self.lanes.entry(batch.target).or_insert_with(new));
            lane.waiting.borrow_mut().push_back(batch);
            self.submit_waiting(&lane);
        }
        self.posted = posted;
    }

    fn poll(&mut self, sink: &mut dyn FnMut(Completion)) -> bool {
        let mut some = false;
        loop {
            let Some(completion) = self.completions.arrived.borrow_mut().pop_front() else { break };
            some = true;
            self.in_flight -= 1;
            if let Some(times) = &self.world.nic {
                self.handle.charge(times.poll);
            }
            sink(completion);
        }
        if some {
            for lane in self.lanes.values() {
                self.submit_waiting(lane);
            }
        }
        some
    }

    fn in_flight(&self) -> usize {
        self.in_flight
    }

    fn may_park(&self) -> bool {
        // Completions notify; what is pushed back is submitted when one of them is polled.
        self.posted.is_empty() && self.completions.arrived.borrow().is_empty()
    }
}
