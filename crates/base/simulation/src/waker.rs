//! [`ActorWaker`]: requests an event for an actor without access to the kernel.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use latchwork_strict::strict_assert;

use crate::ActorId;

/// The payload of an event that an [`ActorWaker`] requested.
pub const WAKE: u64 = u64::MAX;

/// Requests that the kernel fires an actor with [`WAKE`], at the current instant or later if [wakes
/// are held](crate::Kernel::hold_wakes).
///
/// Several wakes before that event count as one. A wake after the kernel was dropped does nothing.
/// A waker can be sent to other threads, because Rust requires this of wakers. But the time at
/// which a wake of another thread arrives depends on the host. So a world with such a wake is not
/// reproducible.
#[derive(Clone)]
pub struct ActorWaker {
    actor: ActorId,
    mark: Arc<AtomicBool>,
    marks: Arc<Marks>,
}

impl ActorWaker {
    /// Marks the actor, unless the actor is marked already.
    pub fn wake(&self) {
        if !self.mark.swap(true, Ordering::AcqRel) {
            self.marks.push(self.actor);
        }
    }

    /// The actor that this waker wakes.
    pub fn actor(&self) -> ActorId {
        self.actor
    }
}

impl fmt::Debug for ActorWaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ActorWaker({})", self.actor.0)
    }
}

/// The actors that were marked since the kernel's last `drain`, each at most once.
#[derive(Default)]
pub(crate) struct Marks {
    any: AtomicBool,
    actors: Mutex<Vec<ActorId>>,
}

impl Marks {
    fn push(&self, actor: ActorId) {
        let mut actors = self.actors.lock().unwrap_or_else(PoisonError::into_inner);
        strict_assert!(
            actors.iter().filter(|&&other| other == actor).count() <= 1,
            "a mark queues its actor once until the event"
        );
        actors.push(actor);
        self.any.store(true, Ordering::Release);
        strict_assert!(!actors.is_empty());
    }

    /// Passes every marked actor to `sink`, in the order of the marks.
    #[inline]
    pub(crate) fn drain(&self, sink: impl FnMut(ActorId)) {
        if self.any.load(Ordering::Acquire) {
            self.take(sink);
        }
    }

    fn take(&self, sink: impl FnMut(ActorId)) {
        let mut actors = self.actors.lock().unwrap_or_else(PoisonError::into_inner);
        strict_assert!(actors.len() < 1 << 24, "more marks than actors can set");
        self.any.store(false, Ordering::Release);
        actors.drain(..).for_each(sink);
    }
}

/// The kernel's side of an actor's wakers.
pub(crate) struct Mark(Arc<AtomicBool>);

impl Mark {
    pub(crate) fn new() -> Self {
        Mark(Arc::default())
    }

    pub(crate) fn waker(&self, actor: ActorId, marks: &Arc<Marks>) -> ActorWaker {
        ActorWaker { actor, mark: Arc::clone(&self.0), marks: Arc::clone(marks) }
    }

    /// Called just before the actor is fired, so that each later wake requests a new event.
    pub(crate) fn clear(&self) {
        self.0.swap(false, Ordering::AcqRel);
    }
}
