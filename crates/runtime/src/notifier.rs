//! [`Notifier`]: ends the parking of an executor, race-free.

use std::fmt;

use latchwork_simulation::ActorWaker;

use crate::sync::{Arc, AtomicBool, Ordering, Thread, fence};

/// Wakes one executor if it is parked; one load when it is not. Clones are the same notifier.
///
/// # Why no notification is lost
///
/// Both sides write, fence, and read what the other side wrote (Dekker):
///
/// ```text
///   sender                                executor
///   S1 publish (queue push, flag)         E1 parked = true
///   S2 fence(SeqCst)                      E2 fence(SeqCst)
///   S3 if parked: parked = false, unpark  E3 look at all that can be published; if any, go on
///                                         E4 park while `parked` holds
/// ```
///
/// The two fences are in one total order. If E2 comes first, S3 reads `parked == true` (or a `false`
/// that another sender put there, who then unparks) and the executor leaves E4. If S2 comes first,
/// E3 sees what S1 published. So the sender only has to publish **before** it calls
/// [`Notifier::notify`]. A thread's unpark token is sticky, so unparking between E3 and E4 counts.
///
/// That much is by the fences. The acquire in `retract` is for the sweep that comes then: with
/// the sender's fence it makes that sweep find what was published, and not only what comes after the
/// next E3.
#[derive(Clone)]
pub struct Notifier(Arc<Signal>);

struct Signal {
    parked: AtomicBool,
    target: Target,
}

enum Target {
    Thread(Thread),
    Actor(ActorWaker),
}

impl Notifier {
    pub(crate) fn for_thread(thread: Thread) -> Self {
        Notifier(Arc::new(Signal {
            parked: AtomicBool::new(false),
            target: Target::Thread(thread),
        }))
    }

    /// For a worker of a simulated world, which is parked until it fires first.
    pub(crate) fn for_actor(waker: ActorWaker) -> Self {
        Notifier(Arc::new(Signal { parked: AtomicBool::new(true), target: Target::Actor(waker) }))
    }

    /// Wakes the executor if it is parked or about to park. What it shall find must have been
    /// published before.
    #[inline]
    pub fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.0.parked.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // Relaxed: the fence of `notify` stands before it.
        if self.0.parked.swap(false, Ordering::Relaxed) {
            match &self.0.target {
                Target::Thread(thread) => thread.unpark(),
                Target::Actor(waker) => waker.wake(),
            }
        }
    }

    /// From here on a notification counts: E1 and E2.
    ///
    /// A swap where a store would do: the model checker knows where a swap comes among the swaps of
    /// others, but not where a store does.
    pub(crate) fn announce(&self) {
        self.0.parked.swap(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether nobody has notified since [`Notifier::announce`].
    pub(crate) fn is_parked(&self) -> bool {
        // Relaxed: whoever stops parking because of this retracts next.
        self.0.parked.load(Ordering::Relaxed)
    }

    /// Takes the announcement back; `true` when somebody had notified meanwhile.
    pub(crate) fn retract(&self) -> bool {
        !self.0.parked.swap(false, Ordering::Acquire)
    }
}

impl fmt::Debug for Notifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let target: &dyn fmt::Debug = match &self.0.target {
            Target::Thread(thread) => thread,
            Target::Actor(waker) => waker,
        };
        f.debug_struct("Notifier").field("parked", &self.is_parked()).field("of", target).finish()
    }
}
