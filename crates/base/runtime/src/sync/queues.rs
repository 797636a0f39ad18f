//! Queues with the promises of crossbeam's and no more, made of atomics that the model checker
//! sees.
//!
//! A lock around a list would do too much: whoever looked at an empty queue would be ordered with
//! whoever fills it, and a missing fence would never show. Here, as there, an element and what its
//! sender did before go to the receiver by a release and an acquire of the slot, and `len` and
//! `is_empty` order nothing. (Crossbeam's loads there are sequentially consistent; it does not
//! promise that, and the code must not need it.) Where crossbeam's `pop` waits for a sender that is
//! between its two steps, this one finds nothing: models of waiting have no end.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{AtomicUsize, Ordering, fence, yield_now};

/// A bounded queue with many senders and receivers: Vyukov's, with a turn number per slot.
pub struct ArrayQueue<T> {
    /// Twice as many as elements, so that a sender need not wait for a receiver between its two
    /// steps.
    slots: Box<[Slot<T>]>,
    head: AtomicUsize,
    tail: AtomicUsize,
}

struct Slot<T> {
    /// Twice the position that may be filled next; plus one when it is filled.
    turn: AtomicUsize,
    /// Never contended: the turn says whose the slot is. The checker does not see this lock.
    value: Mutex<Option<T>>,
}

impl<T> ArrayQueue<T> {
    /// A queue with room for `capacity` elements.
    pub fn new(capacity: usize) -> Self {
        let slot = |i| Slot { turn: AtomicUsize::new(2 * i), value: Mutex::new(None) };
        ArrayQueue {
            slots: (0..2 * capacity).map(slot).collect(),
            head: AtomicUsize::new(0),
            tail: AtomicUsize::new(0),
        }
    }

    fn slot(&self, position: usize) -> &Slot<T> {
        &self.slots[position % self.slots.len()]
    }

    /// Appends `value`, or gives it back when the queue is full.
    ///
    /// # Errors
    /// The value, when the queue is full.
    pub fn push(&self, value: T) -> Result<(), T> {
        let mut position = self.tail.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(position);
            if slot.turn.load(Ordering::Acquire) == 2 * position {
                if self.head.load(Ordering::Relaxed) + self.slots.len() / 2 <= position {
                    fence(Ordering::SeqCst);
                    if self.head.load(Ordering::Relaxed) + self.slots.len() / 2 <= position {
                        return Err(value);
                    }
                }
                let next = position + 1;
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                match self.tail.compare_exchange(position, next, success, failure) {
                    Ok(_) => {
                        *slot.value.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
                        slot.turn.store(2 * position + 1, Ordering::Release);
                        return Ok(());
                    }
                    Err(now) => position = now,
                }
            } else {
                yield_now();
                position = self.tail.load(Ordering::Relaxed);
            }
        }
    }

    /// Takes the oldest element, if its sender is done.
    pub fn pop(&self) -> Option<T> {
        let mut position = self.head.load(Ordering::Relaxed);
        loop {
            let slot = self.slot(position);
            if slot.turn.load(Ordering::Acquire) == 2 * position + 1 {
                let next = position + 1;
                let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
                match self.head.compare_exchange(position, next, success, failure) {
                    Ok(_) => {
                        let mut value = slot.value.lock().unwrap_or_else(PoisonError::into_inner);
                        let value = value.take();
                        slot.turn.store(2 * (position + self.slots.len()), Ordering::Release);
                        return value;
                    }
                    Err(now) => position = now,
                }
                continue;
            }
            // Nothing, or an old view of the queue. After the fence it is as new as anything else
            // that this thread knows.
            fence(Ordering::SeqCst);
            let now = self.head.load(Ordering::Relaxed);
            if now == position && slot.turn.load(Ordering::Acquire) != 2 * position + 1 {
                return None;
            }
            position = now;
        }
    }

    /// How many elements there are, or were a moment ago.
    pub fn len(&self) -> usize {
        // From an old head on, there may be some that are gone before those that are not.
        let head = self.head.load(Ordering::Relaxed);
        let filled = |&at: &usize| self.slot(at).turn.load(Ordering::Relaxed) == 2 * at + 1;
        (head..head + self.slots.len()).filter(filled).count()
    }

    /// Whether there is no element, or was none a moment ago.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> fmt::Debug for ArrayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayQueue").finish_non_exhaustive()
    }
}

/// A queue without a bound, as long as a model has few elements in it.
pub struct SegQueue<T>(ArrayQueue<T>);

/// More elements than any model has in a queue at once.
const ELEMENTS_MAX: usize = 4;

impl<T> SegQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        SegQueue(ArrayQueue::new(ELEMENTS_MAX))
    }

    /// Appends `value`.
    ///
    /// # Panics
    /// When the model is larger than this queue.
    pub fn push(&self, value: T) {
        assert!(self.0.push(value).is_ok(), "a model with more than {ELEMENTS_MAX} elements");
    }

    /// Takes the oldest element.
    pub fn pop(&self) -> Option<T> {
        self.0.pop()
    }

    /// How many elements there are, or were a moment ago.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no element, or was none a moment ago.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for SegQueue<T> {
    fn default() -> Self {
        SegQueue::new()
    }
}
