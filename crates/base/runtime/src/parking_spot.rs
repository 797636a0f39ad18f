//! [`Bed`]: the parking spot of a worker that other processes can wake.

use std::time::Duration;

/// The parking spot of an executor's thread, in place of the thread's own parking. Another process
/// has no [`Notifier`](crate::Notifier) of the executor. Through the parking spot that process
/// wakes the thread as directly as the executor's own process does.
pub trait ParkingSpot: Send + Sync {
    /// Blocks the calling thread until [`ParkingSpot::wake`], until another process wakes it, or
    /// for `at_most`. May also end without a reason. Returns whether another process woke the
    /// thread; each such wake is returned once.
    ///
    /// `parked` returns whether to sleep at all. It becomes false before [`ParkingSpot::wake`] is
    /// called, and after that call no thread may stay asleep. So an implementation takes three
    /// steps:
    ///
    /// 1. Read the state that `wake` changes.
    /// 2. Call `parked`.
    /// 3. Sleep, unless the state has changed since step 1.
    fn sleep(&self, parked: &dyn Fn() -> bool, at_most: Option<Duration>) -> bool;

    /// Wakes the sleeping thread, from any thread of its process.
    fn wake(&self);
}
