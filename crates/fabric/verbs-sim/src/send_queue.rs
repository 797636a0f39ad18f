//! [`Lane`]: the send queue of one endpoint to one target, and its limits of requests in flight.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use latchwork_simulation::Time;
use latchwork_strict::strict_assert;
use latchwork_verbs::Target;

use crate::batch::Batch;
use crate::completions::Completions;
use crate::flight::Flight;
use crate::nic::QueuePairs;
use crate::node::{Node, There, bit};
use crate::world::World;

/// The send queue of one endpoint to one target: the batches that wait for room, and the batches in
/// flight.
pub(crate) struct Lane {
    /// The node that posts, with the regions of its local buffers.
    pub(crate) own: Rc<Node>,
    pub(crate) there: There,
    pub(crate) completions: Rc<Completions>,
    waiting: RefCell<VecDeque<Box<Flight>>>,
    reads: Cell<usize>,
    requests: Cell<usize>,
    /// The keys of the batches in flight, in the order of submission. Empty when batches may
    /// overtake each other.
    pub(crate) flights: RefCell<VecDeque<u32>>,
    pub(crate) last_arrival: Cell<Time>,
    pub(crate) queue_pairs: QueuePairs,
    /// Whether a batch of this send queue has failed with `Disconnected`.
    pub(crate) lost: Cell<bool>,
    /// Whether the posting node had not admitted the target when the send queue was opened. No
    /// request on this send queue ever begins.
    is_refused: bool,
}

impl Lane {
    fn new(own: &Rc<Node>, there: There, completions: &Rc<Completions>) -> Self {
        let is_refused = there.node.as_ref().is_some_and(|there| !own.admits(there.id));
        Lane {
            is_refused,
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

    /// Whether the posting node has forgotten the target.
    pub(crate) fn is_given_up(&self) -> bool {
        self.there.node.as_ref().is_some_and(|there| self.own.removed.get() & bit(there.id) != 0)
    }

    /// Whether the target does not serve the posting node, or the posting node does not use the
    /// target.
    pub(crate) fn is_barred(&self) -> bool {
        self.is_fenced() || self.is_refused || self.is_given_up()
    }

    /// Whether the target has fenced the posting node, or every node has, because the posting node
    /// was replaced.
    pub(crate) fn is_fenced(&self) -> bool {
        self.own.replaced.get() || self.there.host.keeps_out(self.own.id)
    }

    /// Whether the posting node has admitted another node under the id of the target since this
    /// send queue was opened.
    fn is_outdated(&self) -> bool {
        let is_old = |there: &Rc<Node>| {
            (self.is_refused || there.replaced.get()) && self.own.admits(there.id)
        };
        self.there.node.as_ref().is_some_and(is_old)
    }

    /// Counts `batch` against the limits. Returns false and counts nothing when the batch does not
    /// fit.
    fn take_room(&self, batch: &Batch, world: &World) -> bool {
        let reads = self.reads.get() + batch.reads();
        let requests = self.requests.get() + batch.requests().len();
        let fits = reads <= world.config.reads_max && requests <= world.config.requests_max;
        if fits {
            self.reads.set(reads);
            strict_assert!(
                reads >= self.reads.get() && requests > self.requests.get(),
                "a batch takes no room"
            );
            self.requests.set(requests);
        }
        fits
    }

    pub(crate) fn give_room(&self, batch: &Batch) {
        strict_assert!(
            self.reads.get() >= batch.reads() && self.requests.get() >= batch.requests().len(),
            "a send queue gives more room back than it took"
        );
        self.reads.set(self.reads.get() - batch.reads());
        self.requests.set(self.requests.get() - batch.requests().len());
    }

    /// Sends a batch at the time `from` of its worker's clock. Returns false when the batch must
    /// wait for room, or behind other batches that wait.
    pub(crate) fn send(&self, flight: Box<Flight>, world: &World, from: Time) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        if !waiting.is_empty() || !self.take_room(&flight.batch, world) {
            strict_assert!(
                self.requests.get() <= world.config.requests_max
                    && self.reads.get() <= world.config.reads_max,
                "a send queue holds more than its bound"
            );
            waiting.push_back(flight);
            return false;
        }
        drop(waiting);
        world.submit(flight, from);
        true
    }

    /// Sends the waiting batches for which there is room, in order. Returns their number.
    pub(crate) fn send_waiting(&self, world: &World, from: Time) -> usize {
        let mut sent = 0;
        loop {
            let next = {
                let mut waiting = self.waiting.borrow_mut();
                let fits = waiting.front().is_some_and(|next| self.take_room(&next.batch, world));
                if fits { waiting.pop_front() } else { None }
            };
            let Some(flight) = next else { return sent };
            strict_assert!(
                self.requests.get() <= world.config.requests_max,
                "a send queue holds more than its bound"
            );
            world.submit(flight, from);
            sent += 1;
        }
    }
}

/// The send queues of one endpoint, by the id of the target node.
#[derive(Default)]
pub(crate) struct Lanes {
    memory: Vec<Option<Rc<Lane>>>,
    /// The send queues to each compute node, with the key of the target region. A node usually has
    /// one target region.
    compute: Vec<Vec<(u16, Rc<Lane>)>>,
    /// The send queues to compute nodes that were replaced. Batches may still wait on them for
    /// room.
    outdated: Vec<Rc<Lane>>,
}

impl Lanes {
    /// The send queue to `target`, created at the first use. `None` when there is no such node.
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
                if lanes[at].1.is_outdated() {
                    let fresh = new()?;
                    self.outdated.push(std::mem::replace(&mut lanes[at].1, fresh));
                }
                let lane = &lanes[at].1;
                lane.there.look_for_memory(key);
                Some(lane)
            }
        }
    }

    /// All send queues, in the same order in every call, so that one seed gives one run.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rc<Lane>> {
        let compute = self.compute.iter().flatten().map(|(_, lane)| lane);
        self.memory.iter().flatten().chain(compute).chain(&self.outdated)
    }
}
