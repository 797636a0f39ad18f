//! [`ParkingSpot`]: the place where a worker parks so that other processes can wake it.

use std::time::Duration;

/// The parking spot of an executor's thread, in place of the thread's own parking. Another process
/// has no [`Notifier`](crate::Notifier) of the executor. Through the parking spot that process
/// wakes the thread as directly as the executor's own process does.
pub trait ParkingSpot: Send + Sync {
    /// Blocks the calling thread until [`ParkingSpot::wake`], until another process wakes it, or
    /// for `at_most`. May also end without a reason. Returns whether another process woke the
    /// thread; each such wake is returned once.
    ///
    /// `parked` returns whether to sleep at all. A notification makes it false before
    /// [`ParkingSpot::wake`]. Removing the parking spot calls `wake` and leaves `parked` true. An
    /// implementation takes three steps, and `wake` ends each sleep whose step 1 came before:
    ///
    /// 1. Read the state that `wake` changes.
    /// 2. Call `parked`.
    /// 3. Sleep, unless the state has changed since step 1.
    fn sleep(&self, parked: &dyn Fn() -> bool, at_most: Option<Duration>) -> bool;

    /// Wakes the sleeping thread, from any thread of its process.
    fn wake(&self);
}
