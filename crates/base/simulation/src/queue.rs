//! The event queue: a heap whose order is total, so that popping it is deterministic.

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

/// An event that fires.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) at: Time,
    pub(crate) actor: ActorId,
    pub(crate) payload: u64,
}

/// When an event fires, and where the rest of it lies; compared as one number.
///
/// ```text
///   127            64 63          24 23       0
///   ┌────────────────┬──────────────┬──────────┐
///   │      time      │     tie      │   slot   │
///   └────────────────┴──────────────┴──────────┘
/// ```
///
/// No two pending events have the same slot, so the order is total.
type Key = u128;

const SLOT_BITS: u32 = 24;

fn key(at: Time, tie: u64, slot: u32) -> Key {
    u128::from(at.as_nanos()) << 64 | u128::from(tie << SLOT_BITS) | u128::from(slot)
}

fn time_of(key: Key) -> Time {
    Time::from_nanos((key >> 64) as u64)
}

fn tie_of(key: Key) -> u64 {
    key as u64 >> SLOT_BITS
}

/// Four children share a CPU cache line, and a heap of thousands is six levels deep. A wider one
/// compares more than it saves.
const CHILDREN: usize = 4;

#[derive(Default)]
pub(crate) struct Queue {
    /// The next event, if it was entered as such, with a key without a slot: a wake is for now, and
    /// the heap would only give it back.
    front: Option<(Key, Event)>,
    /// Every key is less than its children, which are at `CHILDREN * index + 1` and behind.
    heap: Vec<Key>,
    slots: Vec<(ActorId, u64)>,
    free: Vec<u32>,
}

impl Queue {
    /// Enters an event. Of two at the same instant, that with the lesser `tie` comes first, of
    /// which 40 bits count; where these are equal, the calls so far decide.
    #[inline]
    pub(crate) fn push(&mut self, at: Time, tie: u64, actor: ActorId, payload: u64) {
        let event = Event { at, actor, payload };
        let least = key(at, tie, 0);
        match &mut self.front {
            Some((first, front)) if least < *first => {
                let (tie, behind) = (tie_of(*first), *front);
                (*first, *front) = (least, event);
                self.push_behind(tie, behind);
            }
            None if self.heap.first().is_none_or(|&first| least < first) => {
                self.front = Some((least, event));
            }
            _ => self.push_behind(tie, event),
        }
    }

    fn push_behind(&mut self, tie: u64, Event { at, actor, payload }: Event) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = (actor, payload);
                slot
            }
            None => {
                self.slots.push((actor, payload));
                (self.slots.len() - 1) as u32
            }
        };
        assert!(slot < 1 << SLOT_BITS, "more than 16 million events are pending");
        let key = key(at, tie, slot);
        let mut at = self.heap.len();
        self.heap.push(key);
        while at > 0 {
            let parent = (at - 1) / CHILDREN;
            if self.heap[parent] < key {
                break;
            }
            self.heap[at] = self.heap[parent];
            at = parent;
        }
        self.heap[at] = key;
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        if let Some((_, event)) = self.front.take() {
            return Some(event);
        }
        let last = self.heap.pop()?;
        let first = match self.heap.first() {
            Some(&first) => {
                self.sift_down(last);
                first
            }
            None => last,
        };
        let slot = first as u32 & ((1 << SLOT_BITS) - 1);
        self.free.push(slot);
        let (actor, payload) = self.slots[slot as usize];
        Some(Event { at: time_of(first), actor, payload })
    }

    /// Puts `key` in the place of the first.
    fn sift_down(&mut self, key: Key) {
        let heap = &mut self.heap[..];
        let mut at = 0;
        loop {
            let first = CHILDREN * at + 1;
            let (child, least) = match heap.get(first..first + CHILDREN) {
                // Two and two, so that no comparison waits for the one before.
                Some(&[a, b, c, d]) => {
                    let (i, low) = if b < a { (1, b) } else { (0, a) };
                    let (j, high) = if d < c { (3, d) } else { (2, c) };
                    if high < low { (first + j, high) } else { (first + i, low) }
                }
                _ => {
                    let rest = heap.get(first..).unwrap_or_default().iter().copied();
                    match rest.enumerate().min_by_key(|&(_, key)| key) {
                        Some((i, key)) => (first + i, key),
                        None => break,
                    }
                }
            };
            if key < least {
                break;
            }
            heap[at] = least;
            at = child;
        }
        heap[at] = key;
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        let front = self.front.as_ref().map(|(_, event)| event.at);
        front.or_else(|| self.heap.first().map(|&key| time_of(key)))
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len() + usize::from(self.front.is_some())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::Random;

    #[test]
    fn events_come_out_in_the_order_of_a_sorted_set() {
        let mut random = Random::new(3);
        for most in [1, 3, 20, 3_000] {
            let mut queue = Queue::default();
            let mut model = BTreeSet::new();
            for n in 0..20_000 {
                if model.len() < most && random.below(100) < 52 {
                    let (at, tie) = (random.below(500), random.below(1 << 40));
                    queue.push(Time::from_nanos(at), tie, ActorId(n), at ^ tie);
                    model.insert((at, tie, n));
                } else {
                    let expected = model.pop_first();
                    assert_eq!(queue.next_at(), expected.map(|(at, ..)| Time::from_nanos(at)));
                    let expected = expected.map(|(at, tie, n)| Event {
                        at: Time::from_nanos(at),
                        actor: ActorId(n),
                        payload: at ^ tie,
                    });
                    assert_eq!(queue.pop(), expected);
                }
                assert_eq!(queue.len(), model.len());
            }
        }
    }
}
