//! [`Notifier`]: wakes a parked executor, without a lost wake.

use std::fmt;

use latchwork_simulation::ActorWaker;

use crate::ParkingSpot;
use crate::sync::{Arc, AtomicBool, Ordering, RwLock, Thread, fence};

/// Wakes one executor if the executor is parked. If the executor is not parked, a notification
/// costs a memory fence and a load. Clones are the same notifier.
///
/// # Why no notification is lost
///
/// Each side writes, executes a memory fence, and reads the word that the other side writes
/// (Dekker's scheme):
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
/// 2. If E2 comes first, S3 reads `parked == true`, or a `false` that was written after E1. If S3
///    reads `true`, this sender ends the parking. If S3 reads a `false` of another sender, the
///    other sender ends the parking. If S3 reads a `false` of the executor, the parking is already
///    over. S3 did not read the `true` of the next E1, so S2 precedes the next E2. So step 3
///    applies to the next E3.
/// 3. If S2 comes first, E3 sees the data that S1 published, so the executor does not park.
/// 4. A wake between E3 and E4 is not lost either. The unpark token of a thread stays set until the
///    thread parks. A parking spot keeps the order of [`ParkingSpot::sleep`]. The wake of an actor
///    schedules an event.
///
/// So a sender has one duty: it must publish its data **before** it calls [`Notifier::notify`].
///
/// These steps need only the fences. The acquire in `retract` is for the next sweep. Together with
/// the sender's fence, the acquire makes the published data visible to this sweep. Without the
/// acquire, only the next E3 would certainly see the data.
#[derive(Clone)]
pub struct Notifier(Arc<Signal>);

struct Signal {
    parked: AtomicBool,
    target: Target,
    /// The parking spot of the thread, if the thread has one. Otherwise the thread uses the parking
    /// of the standard library.
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

    /// Makes a notifier for a worker of a simulated world. The worker counts as parked from the
    /// start, so that the first notification fires the worker's actor.
    pub(crate) fn for_actor(waker: ActorWaker) -> Self {
        let (parked, target) = (AtomicBool::new(true), Target::Actor(waker));
        Notifier(Arc::new(Signal { parked, target, parking_spot: RwLock::default() }))
    }

    /// Makes the executor's thread sleep in the parking spot `bed` from its next parking on. Only
    /// the executor's own thread may call this. Returns `false`, without effect, if the thread
    /// already has a parking spot, or if the executor is an actor of a simulated world.
    pub fn sleep_in(&self, bed: Arc<dyn ParkingSpot>) -> bool {
        let mut place = self.0.parking_spot.write();
        let free = place.is_none() && matches!(self.0.target, Target::Thread(_));
        if free {
            *place = Some(bed);
        }
        free
    }

    /// Removes the parking spot. Any thread may call this. If the executor's thread sleeps in the
    /// parking spot, it wakes and continues to sleep in its usual parking.
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

    /// Steps E1 and E2: announces the parking. A notification after this call is not lost.
    ///
    /// This is a swap, although a store would be enough. The reason is the model checker, which
    /// orders a swap, but not a store, among the swaps of other threads.
    pub(crate) fn announce(&self) {
        self.0.parked.swap(true, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether the announced parking has not been ended: no notification has come since
    /// [`Notifier::announce`].
    pub(crate) fn is_parked(&self) -> bool {
        // Relaxed, because a thread that stops parking after this load calls `retract`, which
        // acquires.
        self.0.parked.load(Ordering::Relaxed)
    }

    /// Whether the thread should sleep in `bed`: no notification has come, and `bed` is still the
    /// thread's parking spot. The second condition covers a [`Notifier::leave_parking_spot`] whose
    /// wake came before the sleep in `bed` began.
    pub(crate) fn is_parked_in(&self, bed: &Arc<dyn ParkingSpot>) -> bool {
        self.is_parked() && self.bed().is_some_and(|place| Arc::ptr_eq(&place, bed))
    }

    /// Ends the parking, like a notification. The parked thread calls this itself, when a wake of
    /// another process has ended its sleep in the parking spot.
    pub(crate) fn end_parking(&self) {
        // Relaxed, because the thread calls `retract` next, and because the parking spot has
        // already acquired the data that the other process published.
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
