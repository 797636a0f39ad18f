//! [`ParkingSpot`]: a word on which a worker sleeps and through which other processes can wake it.

use std::time::Duration;

/// The place in which an executor's thread sleeps, instead of the usual parking of a thread.
/// Another process has no [`Notifier`](crate::Notifier) of the executor. Through the parking spot
/// the other process wakes the thread by one system call, like a thread of the executor's own
/// process.
pub trait ParkingSpot: Send + Sync {
    /// Blocks the calling thread until [`ParkingSpot::wake`], until another process wakes the
    /// thread, or for `at_most`. The sleep may also end without a reason. Returns whether another
    /// process woke the thread, once for each wake of another process.
    ///
    /// `parked` returns whether the thread should sleep at all. A notification, and the removal of
    /// the parking spot, first make `parked` return false and then call [`ParkingSpot::wake`]. An
    /// implementation takes three steps in this order. `wake` must end each sleep whose step 1 came
    /// before `wake`:
    ///
    /// 1. Read the state that `wake` changes.
    /// 2. Call `parked`.
    /// 3. Sleep, unless the state has changed since step 1.
    fn sleep(&self, parked: &dyn Fn() -> bool, at_most: Option<Duration>) -> bool;

    /// Wakes the sleeping thread, from any thread of its process.
    fn wake(&self);
}
