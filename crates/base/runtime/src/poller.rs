//! [`Poller`]: a source of work that a worker polls on every sweep.

use std::time::Duration;

use crate::Time;

/// A source of work that a worker polls on every sweep, such as a completion queue or an inbox.
///
/// A poller changes its state through interior mutability. The executor never calls a poller from
/// inside one of the poller's own methods, nor while a task runs. Each method may wake and spawn
/// tasks.
pub trait Poller {
    /// Handles the work that has arrived. `now` is the time at the start of the sweep. Returns
    /// whether any work had arrived.
    fn poll(&self, now: Time) -> bool;

    /// Submits everything that tasks and pollers posted during this sweep, with one doorbell.
    /// Called at the end of every sweep.
    fn flush(&self);

    /// Whether a call of [`Poller::poll`] at this moment, the end of a sweep, would find no work.
    /// If all pollers are settled and no task is ready, the executor calls
    /// [`Poller::next_deadline`] and [`Poller::may_park`] without another sweep. `false` is a
    /// correct answer for every poller. Called only in virtual time, where a sweep that finds no
    /// work costs an event.
    fn is_settled(&self) -> bool {
        false
    }

    /// The time at which [`Poller::poll`] must be called even without a notification. Called at the
    /// end of a sweep after which the executor may park.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Whether the worker may park. `true` is a promise: all work that arrives from now on notifies
    /// the worker through its [`crate::Notifier`]. A poller keeps the promise in three steps:
    ///
    /// 1. The poller registers as parked with its senders.
    /// 2. The poller checks its queue once more.
    /// 3. If the queue is not empty, the poller withdraws the registration and returns `false`. The
    ///    executor then continues to sweep.
    ///
    /// The executor announces the parking before this call. So a notification between the
    /// registration and the parking is not lost.
    ///
    /// Some sources send no notification, for example a completion queue that must be polled. A
    /// poller of such a source returns `false` while it expects work.
    fn may_park(&self) -> bool {
        true
    }

    /// Dozes until work arrives for this poller, for `time` at most. Returns `false` at once when
    /// the poller expects no work, or has nothing to sleep on. Called on a contended core, where
    /// polling would take the core from the thread for which the poller waits.
    fn doze(&self, time: Duration) -> bool {
        let _ = time;
        false
    }

    /// Called when the worker is awake again: once for each `true` of [`Poller::may_park`], and
    /// before the next [`Poller::poll`].
    fn unparked(&self) {}
}
