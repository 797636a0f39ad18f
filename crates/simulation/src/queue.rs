//! The event queue: a heap whose order is total, so that popping it is deterministic.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::Time;

/// An actor of one kernel; ids count up from 0 in the order of [`crate::Kernel::add_actor`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ActorId(pub(crate) u32);

impl ActorId {
    /// The id as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Which of two events at the same instant fires first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ties {
    /// The seed decides: for hunting, since another seed is another interleaving.
    Seeded,
    /// The one that was scheduled first: for measuring.
    FirstCome,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) at: Time,
    tie: u64,
    number: u64,
    pub(crate) actor: ActorId,
    pub(crate) payload: u64,
}

impl Event {
    fn rank(&self) -> (Time, u64, u64) {
        (self.at, self.tie, self.number)
    }
}

impl Ord for Event {
    // Reversed: the heap gives its greatest element first. `number` is unique, so no two events are
    // equal and the heap's inner order never shows.
    fn cmp(&self, other: &Self) -> Ordering {
        other.rank().cmp(&self.rank())
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Event>,
    pushed: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: Time, tie: u64, actor: ActorId, payload: u64) {
        self.heap.push(Event { at, tie, number: self.pushed, actor, payload });
        self.pushed += 1;
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        self.heap.pop()
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        self.heap.peek().map(|event| event.at)
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len()
    }
}
