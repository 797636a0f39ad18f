//! [`Notifier`]: ends the parking of an executor, race-free.

use std::fmt;

use latchwork_simulation::ActorWaker;

use crate::Bed;
use crate::sync::{Arc, AtomicBool, Ordering, RwLock, Thread, fence};

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
/// The two fences are in one total order. If E2 comes first, S3 reads `parked == true` (or a
/// `false` that another sender put there, who then unparks) and the executor leaves E4. If S2 comes
/// first, E3 sees what S1 published. So the sender only has to publish **before** it calls
/// [`Notifier::notify`]. A thread's unpark token is sticky, so unparking between E3 and E4 counts.
///
/// That much is by the fences. The acquire in `retract` is for the sweep that comes then: with the
/// sender's fence it makes that sweep find what was published, and not only what comes after the
/// next E3.
#[derive(Clone)]
pub struct Notifier(Arc<Signal>);

struct Signal {
    parked: AtomicBool,
    target: Target,
    /// Where the thread sleeps, if not in its own parking.
    bed: RwLock<Option<Arc<dyn Bed>>>,
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
            bed: RwLock::default(),
        }))
    }

    /// For a worker of a simulated world, which is parked until it fires first.
    pub(crate) fn for_actor(waker: ActorWaker) -> Self {
        let (parked, target) = (AtomicBool::new(true), Target::Actor(waker));
        Notifier(Arc::new(Signal { parked, target, bed: RwLock::default() }))
    }

    /// From now on the executor's thread sleeps in `bed` when it parks. To be called by that
    /// thread. False, and without effect, when it has one already, or is no thread but an actor of
    /// a simulated world.
    pub fn sleep_in(&self, bed: Arc<dyn Bed>) -> bool {
        let mut place = self.0.bed.write();
        let free = place.is_none() && matches!(self.0.target, Target::Thread(_));
        if free {
            *place = Some(bed);
        }
        free
    }

    /// Takes the bed away again, from any thread: whoever sleeps there goes on sleeping in its own
    /// parking.
    pub fn leave_bed(&self) {
        let left = self.0.bed.write().take();
        if let Some(bed) = left {
            bed.wake();
        }
    }

    pub(crate) fn bed(&self) -> Option<Arc<dyn Bed>> {
        self.0.bed.read().clone()
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
        // The fence of `notify` stands before it. Acquire is for the bed: with the announcement's
        // release, a waker that ends a parking knows the bed in which it is spent. Should the bed
        // be taken away right now, the thread looks at `parked` before it sleeps elsewhere.
        if self.0.parked.swap(false, Ordering::Acquire) {
            match (&self.0.target, self.bed()) {
                (Target::Thread(_), Some(bed)) => bed.wake(),
                (Target::Thread(thread), None) => thread.unpark(),
                (Target::Actor(waker), _) => waker.wake(),
            }
        }
    }

    /// From here on a notification counts: E1 and E2.
    ///
    /// A swap where a store would do: the model checker knows where a swap comes among the swaps of
    /// others, but not where a store does.
    pub(crate) fn announce(&self) {
        self.0.parked.swap(true, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether nobody has notified since [`Notifier::announce`].
    pub(crate) fn is_parked(&self) -> bool {
        // Relaxed: whoever stops parking because of this retracts next.
        self.0.parked.load(Ordering::Relaxed)
    }

    /// Ends the parking as a notification does; by the parked thread, when its bed was shaken from
    /// outside.
    pub(crate) fn end_parking(&self) {
        // Relaxed: the thread retracts next, and the bed has acquired what the one outside
        // published.
        self.0.parked.store(false, Ordering::Relaxed);
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
