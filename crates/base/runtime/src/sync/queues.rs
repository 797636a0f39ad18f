//! Queues that promise the same as those of crossbeam and no more, made of atomics that the model
//! checker sees.
//!
//! - A lock around a list would promise too much. The lock would order a reader of an empty queue
//!   with the senders, so a missing memory fence would never show.
//! - As in crossbeam, a release and an acquire of the slot pass an element to the receiver. They
//!   also pass on all earlier writes of the sender.
//! - `len` and `is_empty` order nothing. The loads of crossbeam's versions are sequentially
//!   consistent, but crossbeam does not promise that, and no code here may need it.
//! - The `pop` of crossbeam waits for a sender that is between its two steps. The `pop` here finds
//!   nothing in that case, because a model of waiting has no end.

use std::fmt;
use std::sync::{Mutex, PoisonError};

use super::{AtomicUsize, Ordering, fence, yield_now};

/// A bounded queue with many senders and receivers: the queue of Vyukov, with a turn number in each
/// slot.
pub struct ArrayQueue<T> {
    /// Twice as many slots as elements. So a sender meets a receiver that is between its two steps
    /// only after other receivers have taken `capacity` further elements.
    slots: Box<[Slot<T>]>,
    head: AtomicUsize,
    tail: AtomicUsize,
}

struct Slot<T> {
    /// Twice the position of the element that comes here next. While the slot is full: twice the
    /// position of the stored element, plus one.
    turn: AtomicUsize,
    /// Used only by the thread that `turn` names. The checker does not see this lock.
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
            // The queue is empty, the sender of the next element is between its two steps, or this
            // thread has an old view of the queue. After the fence, the view is as new as
            // everything else that this thread knows.
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
        // `head` may be old. Then slots of removed elements come before slots of elements that
        // remain.
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

/// The stand-in for an unbounded queue, with room for the few elements of a model.
pub struct SegQueue<T>(ArrayQueue<T>);

/// The capacity: more elements than any model has in a queue at once.
const ELEMENTS_MAX: usize = 4;

impl<T> SegQueue<T> {
    /// An empty queue.
    pub fn new() -> Self {
        SegQueue(ArrayQueue::new(ELEMENTS_MAX))
    }

    /// Appends `value`.
    ///
    /// # Panics
    /// When the model has more than `ELEMENTS_MAX` elements in the queue.
    pub fn push(&self, value: T) {
        assert!(self.0.push(value).is_ok(), "a model with more than {ELEMENTS_MAX} elements");
    }

    /// Takes the oldest element.
    pub fn pop(&self) -> Option<T> {
        self.0.pop()
    }

    /// The number of elements, now or a moment ago.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the queue is empty, or was empty a moment ago.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for SegQueue<T> {
    fn default() -> Self {
        SegQueue::new()
    }
}
