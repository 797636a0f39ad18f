//! [`Lane`]: the way of one endpoint to one target, and what it may have under way.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use latchwork_simulation::Time;
use latchwork_verbs::Target;

use crate::endpoint::Completions;
use crate::fabric::World;
use crate::flight::{Batch, Flight};
use crate::nic::QueuePairs;
use crate::node::{Node, There, bit};

/// One endpoint to one target: what is pushed back, and what is under way.
pub(crate) struct Lane {
    /// The node that posts, for its regions.
    pub(crate) own: Rc<Node>,
    pub(crate) there: There,
    pub(crate) completions: Rc<Completions>,
    waiting: RefCell<VecDeque<Box<Flight>>>,
    reads: Cell<usize>,
    requests: Cell<usize>,
    /// Flights in order of their submission, where that order means something.
    pub(crate) flights: RefCell<VecDeque<u32>>,
    pub(crate) last_arrival: Cell<Time>,
    pub(crate) queue_pairs: QueuePairs,
    /// A batch has failed because the target is gone.
    pub(crate) lost: Cell<bool>,
}

impl Lane {
    fn new(own: &Rc<Node>, there: There, completions: &Rc<Completions>) -> Self {
        Lane {
            own: Rc::clone(own),
            there,
            completions: Rc::clone(completions),
            waiting: RefCell::default(),
            reads: Cell::new(0),
            requests: Cell::new(0),
            flights: RefCell::default(),
            last_arrival: Cell::new(Time::ZERO),
            queue_pairs: QueuePairs::default(),
            lost: Cell::new(false),
        }
    }

    /// Whether the node that posts has given up the target.
    pub(crate) fn is_given_up(&self) -> bool {
        self.there.node.as_ref().is_some_and(|there| self.own.removed.get() & bit(there.id) != 0)
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

    /// Sends a batch on its way at `from` of its worker's clock, behind those that are pushed back.
    /// False when it is pushed back itself.
    pub(crate) fn send(&self, flight: Box<Flight>, world: &World, from: Time) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.is_empty() || !self.take_room(&flight.batch, world) {
            waiting.push_back(flight);
            return false;
        }
        drop(waiting);
        world.submit(flight, from);
        true
    }

    /// Sends what was pushed back and now has room; returns how many batches.
    pub(crate) fn send_waiting(&self, world: &World, from: Time) -> usize {
        let mut sent = 0;
        loop {
            let next = {
                let mut waiting = self.waiting.borrow_mut();
                let fits = waiting.front().is_some_and(|next| self.take_room(&next.batch, world));
                if fits { waiting.pop_front() } else { None }
            };
            let Some(flight) = next else { return sent };
            world.submit(flight, from);
            sent += 1;
        }
    }
}

/// The lanes of one endpoint, by the number of the node.
#[derive(Default)]
pub(crate) struct Lanes {
    memory: Vec<Option<Rc<Lane>>>,
    /// With the key of the region: nearly always the same.
    compute: Vec<Vec<(u16, Rc<Lane>)>>,
}

impl Lanes {
    /// The lane to `target`, made when there is none. `None` when there is no such node.
    pub(crate) fn to(
        &mut self,
        target: Target,
        (world, own): (&World, &Rc<Node>),
        completions: &Rc<Completions>,
    ) -> Option<&Rc<Lane>> {
        let new = || Some(Rc::new(Lane::new(own, world.there(target)?, completions)));
        match target {
            Target::Memory(id) => {
                let index = usize::from(id.0);
                if self.memory.get(index).is_none_or(Option::is_none) {
                    let lane = new()?;
                    self.memory.resize(self.memory.len().max(index + 1), None);
                    self.memory[index] = Some(lane);
                }
                self.memory[index].as_ref()
            }
            Target::Compute(id, key) => {
                if self.compute.len() <= id.index() {
                    self.compute.resize(id.index() + 1, Vec::new());
                }
                let lanes = &mut self.compute[id.index()];
                let at = match lanes.iter().position(|(other, _)| *other == key) {
                    Some(at) => at,
                    None => {
                        lanes.push((key, new()?));
                        lanes.len() - 1
                    }
                };
                let lane = &lanes[at].1;
                lane.there.look_for_memory(key);
                Some(lane)
            }
        }
    }

    /// All of them, always in the same order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<Lane>> {
        let compute = self.compute.iter().flatten().map(|(_, lane)| lane);
        self.memory.iter().flatten().chain(compute)
    }
}
