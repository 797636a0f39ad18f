//! Queues for the model checker loom, made of atomics that loom sees. These queues promise the same
//! as the queues of crossbeam, and no more.
//!
//! - A list under a lock would promise too much. The lock would order a reader of an empty queue
//!   with the senders, so the checker would not find a missing memory fence.
//! - As in crossbeam, a sender releases the slot of an element and the receiver acquires the slot.
//!   So the receiver sees the element and all earlier writes of the sender.
//! - `len` and `is_empty` create no memory order. The loads of crossbeam's versions are
//!   sequentially consistent, but crossbeam does not promise this, so no code of the project may
//!   need it.
//! - The `pop` of crossbeam waits for a sender that has claimed a slot and not filled it yet. This
//!   `pop` returns `None` in that case, because a wait would give the model endless executions.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{AtomicUsize, Ordering, fence, yield_now};

/// A bounded queue with many senders and receivers: Vyukov's queue, with a turn number in each
/// slot.
pub struct ArrayQueue<T> {
    /// There are twice as many slots as elements. So a sender finds a slot that a receiver has
    /// claimed and not emptied yet only after other receivers have taken `capacity` further
    /// elements.
    slots: Box<[Slot<T>]>,
    head: AtomicUsize,
    tail: AtomicUsize,
}

struct Slot<T> {
    /// While the slot is empty: twice the position of the next element for this slot. While the
    /// slot is full: twice the position of the stored element, plus one.
    turn: AtomicUsize,
    /// The element. Only the thread that has claimed the slot's position uses it. Loom does not see
    /// this lock of the standard library.
    value: Mutex<Option<T>>,
}

impl<T> ArrayQueue<T> {
    /// Makes a queue with room for `capacity` elements.
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

    /// Appends `value`, or returns `value` when the queue is full.
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

    /// Takes the oldest element, if its sender has finished the push.
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
            // There are three causes: the queue is empty, the sender of the next element has not
            // finished its push, or this thread reads old values. After the memory fence, the
            // values are as new as everything else that this thread has seen.
            fence(Ordering::SeqCst);
            let now = self.head.load(Ordering::Relaxed);
            if now == position && slot.turn.load(Ordering::Acquire) != 2 * position + 1 {
                return None;
            }
            position = now;
        }
    }

    /// The number of elements, now or a moment ago.
    pub fn len(&self) -> usize {
        // The value of `head` may be old. In this case the first slots of the range belong to
        // removed elements, and are not counted.
        let head = self.head.load(Ordering::Relaxed);
        let filled = |&at: &usize| self.slot(at).turn.load(Ordering::Relaxed) == 2 * at + 1;
        (head..head + self.slots.len()).filter(filled).count()
    }

    /// Whether the queue is empty, or was empty a moment ago.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> fmt::Debug for ArrayQueue<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ArrayQueue").finish_non_exhaustive()
    }
}

/// The replacement for crossbeam's unbounded queue, with room for the few elements of a model.
pub(crate) struct SegQueue<T>(ArrayQueue<T>);

/// The capacity in elements: no model has more elements in a queue at one time.
const ELEMENTS_MAX: usize = 4;

impl<T> SegQueue<T> {
    /// An empty queue.
    pub(crate) fn new() -> Self {
        SegQueue(ArrayQueue::new(ELEMENTS_MAX))
    }

    /// Appends `value`.
    ///
    /// # Panics
    /// When the model has more than `ELEMENTS_MAX` elements in the queue.
    pub(crate) fn push(&self, value: T) {
        assert!(self.0.push(value).is_ok(), "a model with more than {ELEMENTS_MAX} elements");
    }

    /// Takes the oldest element.
    pub(crate) fn pop(&self) -> Option<T> {
        self.0.pop()
    }

    /// The number of elements, now or a moment ago.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the queue is empty, or was empty a moment ago.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for SegQueue<T> {
    fn default() -> Self {
        SegQueue::new()
    }
}
