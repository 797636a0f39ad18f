//! The event queue: a heap, and a place for the next event in front of the heap. The order of the
//! events is total and deterministic.

use latchwork_strict::{STRICT, strict_assert, strict_assert_eq};

use crate::Time;

/// The id of an actor of one kernel. Ids count up from 0 in the order of
/// [`crate::Kernel::add_actor`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ActorId(pub(crate) u32);

impl ActorId {
    /// The id as an index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The rule for the order of two events at the same instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ties {
    /// The seed decides. For hunts, because another seed is another interleaving.
    Seeded,
    /// The event that was scheduled first fires first. For measurements.
    FirstCome,
}

/// An event that has left the queue, or is in front of the heap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Event {
    pub(crate) at: Time,
    pub(crate) actor: ActorId,
    pub(crate) payload: u64,
}

/// The time, tie and slot of an event, compared as one number. The slot is the index of the event's
/// actor and payload. The tie decides between events at one instant.
///
/// ```text
///   127            64 63          24 23       0
///   ┌────────────────┬──────────────┬──────────┐
///   │      time      │     tie      │   slot   │
///   └────────────────┴──────────────┴──────────┘
/// ```
///
/// No two events in the heap have the same slot, so the order is total.
type Key = u128;

/// The bits of a slot in a key. So at most 2^24 events can be in the heap at one time.
const SLOT_BITS: u32 = 24;
const _: () = assert!(SLOT_BITS < 32, "a slot fits into its u32");
const _: () = assert!(64 - SLOT_BITS >= 32, "a tie keeps enough bits to separate events");

fn key(at: Time, tie: u64, slot: u32) -> Key {
    strict_assert!(slot < 1 << SLOT_BITS, "a slot stays out of the bits of the tie");
    u128::from(at.as_nanos()) << 64 | u128::from(tie << SLOT_BITS) | u128::from(slot)
}

fn time_of(key: Key) -> Time {
    Time::from_nanos((key >> 64) as u64)
}

fn tie_of(key: Key) -> u64 {
    key as u64 >> SLOT_BITS
}

/// The number of children per parent in the heap. The keys of four children fill one CPU cache
/// line, and a heap of a few thousand keys is about six levels deep. More children would mean more
/// comparisons per level.
const CHILDREN: usize = 4;

/// The length below which a heap is checked as a whole, at about one insertion in 64. Only builds
/// with assertions check.
const CHECKED_MAX: usize = 1000;

const _: () = assert!(CHILDREN == 4, "sift_down compares the children in two pairs");

/// The pending events.
#[derive(Default)]
pub(crate) struct Queue {
    /// The next event, if it preceded all other events when it was pushed. The slot in its key is 0
    /// and unused. Most wakes are such events, because a wake is for the current instant. For them
    /// the heap would be a detour.
    front: Option<(Key, Event)>,
    /// The keys of the other events. Every key is less than the keys of its children, which start
    /// at `CHILDREN * index + 1`.
    heap: Vec<Key>,
    slots: Vec<(ActorId, u64)>,
    free: Vec<u32>,
}

impl Queue {
    /// Inserts an event. Of two events at the same instant, the event with the lower `tie` fires
    /// first. Only the low 40 bits of `tie` count. For equal ties, the earlier calls decide
    /// deterministically.
    #[inline]
    pub(crate) fn push(&mut self, at: Time, tie: u64, actor: ActorId, payload: u64) {
        let event = Event { at, actor, payload };
        let least = key(at, tie, 0);
        strict_assert_eq!(time_of(least), at, "the key keeps the whole time");
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
        strict_assert!(
            self.front
                .is_none_or(|(first, _)| self.heap.first().is_none_or(|&behind| first < behind)),
            "the front precedes the heap"
        );
        if STRICT && self.heap.len() < CHECKED_MAX && tie.is_multiple_of(64) {
            self.check();
        }
    }

    fn push_behind(&mut self, tie: u64, Event { at, actor, payload }: Event) {
        let slot = match self.free.pop() {
            Some(slot) => {
                strict_assert!((slot as usize) < self.slots.len(), "a free slot was in use once");
                self.slots[slot as usize] = (actor, payload);
                slot
            }
            None => {
                strict_assert!(self.free.is_empty(), "a free slot comes before a new one");
                self.slots.push((actor, payload));
                (self.slots.len() - 1) as u32
            }
        };
        strict_assert!(self.slots.len() > self.free.len());
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
        strict_assert!(
            at == 0 || self.heap[(at - 1) / CHILDREN] < key,
            "no event precedes its parent"
        );
        strict_assert_eq!(
            self.heap.len() + self.free.len(),
            self.slots.len(),
            "each slot is in the heap or free"
        );
    }

    pub(crate) fn pop(&mut self) -> Option<Event> {
        if let Some((_, event)) = self.front.take() {
            strict_assert!(
                self.heap.first().is_none_or(|&first| time_of(first) >= event.at),
                "time does not run backwards"
            );
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
        strict_assert!(
            !self.free.contains(&slot) || self.free.len() > CHECKED_MAX,
            "slot {slot} fires twice"
        );
        self.free.push(slot);
        let (actor, payload) = self.slots[slot as usize];
        strict_assert_eq!(
            self.heap.len() + self.free.len(),
            self.slots.len(),
            "the fired event gave its slot back"
        );
        strict_assert!(self.heap.first().is_none_or(|&next| next > first), "events leave in order");
        Some(Event { at: time_of(first), actor, payload })
    }

    /// Replaces the first key of the heap by `key`, and restores the order.
    fn sift_down(&mut self, key: Key) {
        let heap = &mut self.heap[..];
        strict_assert!(!heap.is_empty(), "the key moves into a place of the heap");
        let mut at = 0;
        loop {
            let first = CHILDREN * at + 1;
            let (child, least) = match heap.get(first..first + CHILDREN) {
                // The children are compared in two pairs, so that the processor can do the two
                // comparisons at once.
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
        strict_assert!(at < heap.len());
    }

    pub(crate) fn next_at(&self) -> Option<Time> {
        let front = self.front.as_ref().map(|(_, event)| event.at);
        front.or_else(|| self.heap.first().map(|&key| time_of(key)))
    }

    pub(crate) fn len(&self) -> usize {
        self.heap.len() + usize::from(self.front.is_some())
    }

    /// Asserts that every key is larger than its parent's, and that each slot is used once.
    fn check(&self) {
        for (at, &key) in self.heap.iter().enumerate().skip(1) {
            assert!(self.heap[(at - 1) / CHILDREN] < key, "the heap is out of order at {at}");
        }
        let mask = (1 << SLOT_BITS) - 1;
        let mut used: Vec<u32> = self.heap.iter().map(|&key| key as u32 & mask).collect();
        used.extend(&self.free);
        used.sort_unstable();
        assert!(
            used.iter().enumerate().all(|(at, &slot)| at == slot as usize),
            "a slot is lost or used twice"
        );
        assert_eq!(used.len(), self.slots.len(), "each slot is in the heap or free");
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

    #[test]
    #[should_panic(expected = "the heap is out of order")]
    fn a_heap_out_of_order_is_found() {
        let mut queue = Queue::default();
        (0..20).for_each(|at| queue.push(Time::from_nanos(at.into()), 0, ActorId(at), at.into()));
        let last = queue.heap.len() - 1;
        queue.heap.swap(0, last);
        queue.check();
    }

    #[test]
    #[should_panic(expected = "a slot is lost or used twice")]
    fn a_slot_that_is_free_and_in_use_is_found() {
        let mut queue = Queue::default();
        (0..20).for_each(|at| queue.push(Time::from_nanos(at.into()), 0, ActorId(at), at.into()));
        queue.free.push(3);
        queue.check();
    }
}
