//! [`Notifier`]: ends the parking of an executor without a race.

use std::fmt;

use latchwork_simulation::ActorWaker;

use crate::ParkingSpot;
use crate::sync::{Arc, AtomicBool, Ordering, RwLock, Thread, fence};

/// Wakes one executor if the executor is parked, and costs a memory fence and a load if not. Clones
/// are the same notifier.
///
/// # Why no notification is lost
///
/// Each side writes, executes a memory fence, and reads what the other side wrote (Dekker):
///
/// ```text
///   sender                                executor
///   S1 publish (queue push, flag)         E1 parked = true
///   S2 fence(SeqCst)                      E2 fence(SeqCst)
///   S3 if parked: parked = false, unpark  E3 look at all that can be published; if any, go on
///                                         E4 park while `parked` holds
/// ```
///
/// 1. All `SeqCst` fences are in one total order, so either E2 or S2 comes first.
/// 2. If E2 comes first, S3 reads `parked == true`, or a `false` that was written after E1. With
///    `true`, this sender ends the parking. With another sender's `false`, the other sender does. A
///    `false` of the executor itself means that the parking is over. S3 then read no `true` of the
///    next E1, so S2 precedes the next E2, and step 3 applies to the next E3.
/// 3. If S2 comes first, E3 sees what S1 published, so the executor does not park.
/// 4. A wake between E3 and E4 counts too. The unpark token of a thread is sticky, a parking spot
///    keeps the order of [`ParkingSpot::sleep`], and the wake of an actor schedules an event.
///
/// So a sender has one duty: to publish **before** it calls [`Notifier::notify`].
///
/// These steps need only the fences. The acquire in `retract` is for the sweep that follows.
/// Together with the sender's fence, the acquire makes the published data visible to that sweep.
/// Without the acquire, only the next E3 is certain to see the data.
#[derive(Clone)]
pub struct Notifier(Arc<Signal>);

struct Signal {
    parked: AtomicBool,
    target: Target,
    /// The parking spot of the thread, if it has one. Otherwise the thread uses its own parking.
    parking_spot: RwLock<Option<Arc<dyn ParkingSpot>>>,
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
            parking_spot: RwLock::default(),
        }))
    }

    /// A notifier for a worker of a simulated world. The worker counts as parked from the start, so
    /// that the first notification fires its actor.
    pub(crate) fn for_actor(waker: ActorWaker) -> Self {
        let (parked, target) = (AtomicBool::new(true), Target::Actor(waker));
        Notifier(Arc::new(Signal { parked, target, parking_spot: RwLock::default() }))
    }

    /// Makes the executor's thread sleep in the parking spot `bed` from its next parking on. Only
    /// that thread may call this. Returns `false`, without effect, if the thread already has a
    /// parking spot, or if the executor is an actor of a simulated world.
    pub fn sleep_in(&self, bed: Arc<dyn ParkingSpot>) -> bool {
        let mut place = self.0.parking_spot.write();
        let free = place.is_none() && matches!(self.0.target, Target::Thread(_));
        if free {
            *place = Some(bed);
        }
        free
    }

    /// Removes the parking spot, from any thread. A thread that sleeps there wakes and continues to
    /// sleep in its own parking.
    pub fn leave_parking_spot(&self) {
        let left = self.0.parking_spot.write().take();
        if let Some(bed) = left {
            bed.wake();
        }
    }

    pub(crate) fn bed(&self) -> Option<Arc<dyn ParkingSpot>> {
        self.0.parking_spot.read().clone()
    }

    /// Wakes the executor if it is parked or about to park. The caller must have published its data
    /// before.
    #[inline]
    pub fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.0.parked.load(Ordering::Relaxed) {
            self.wake();
        }
    }

    #[cold]
    fn wake(&self) {
        // The fence of `notify` precedes this swap. Acquire pairs with the release of `announce`: a
        // sender that ends a parking sees the parking spot that the thread set before that parking.
        if self.0.parked.swap(false, Ordering::Acquire) {
            match (&self.0.target, self.bed()) {
                (Target::Thread(_), Some(bed)) => bed.wake(),
                (Target::Thread(thread), None) => thread.unpark(),
                (Target::Actor(waker), _) => waker.wake(),
            }
        }
    }

    /// Steps E1 and E2: from here on a notification counts.
    ///
    /// A swap, although a store would be enough. The model checker orders a swap among the swaps of
    /// other threads, but not a store.
    pub(crate) fn announce(&self) {
        self.0.parked.swap(true, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether no notification has come since [`Notifier::announce`].
    pub(crate) fn is_parked(&self) -> bool {
        // Relaxed: a thread that stops parking because of this value calls `retract` next.
        self.0.parked.load(Ordering::Relaxed)
    }

    /// Ends the parking as a notification does. The parked thread calls this when a wake of another
    /// process ended its sleep in the parking spot.
    pub(crate) fn end_parking(&self) {
        // Relaxed: the thread calls `retract` next, and the parking spot has acquired what the
        // other process published.
        self.0.parked.store(false, Ordering::Relaxed);
    }

    /// Withdraws the announcement. Returns `true` when the parking was ended since the
    /// announcement, by a notification or by `end_parking`.
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
