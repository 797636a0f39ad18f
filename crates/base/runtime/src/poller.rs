//! [`Poller`]: what a worker looks at on every sweep.

use std::time::Duration;

use crate::Time;

/// A source of work that a worker looks at on every sweep: a completion queue, an inbox.
///
/// A poller changes itself through interior mutability. The executor never calls it from inside one
/// of its own methods, nor while a task runs. It may wake and spawn tasks from any method.
pub trait Poller {
    /// Takes what has arrived. `now` is the time at the start of the sweep. Returns whether there
    /// was anything.
    fn poll(&self, now: Time) -> bool;

    /// Submits what tasks and pollers posted during this sweep: one doorbell for all. Called at the
    /// end of every sweep.
    fn flush(&self);

    /// Whether [`Poller::poll`] would find nothing if it were called now, at the end of a sweep.
    /// [`Poller::may_park`] and [`Poller::next_deadline`] are asked then, without another sweep.
    /// `false` is always right. Asked in virtual time only, where a sweep that finds nothing costs
    /// an event.
    fn is_settled(&self) -> bool {
        false
    }

    /// When [`Poller::poll`] must be called although nobody notified. Asked at the end of an idle
    /// sweep.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// Whether the worker may park now. `true` is a promise: whatever arrives from now on calls the
    /// worker's [`crate::Notifier`]. So a poller first registers as parked with those who send to
    /// it and then looks at its queue once more; if that is not empty it takes the registration
    /// back and returns `false`. The executor then goes on sweeping.
    ///
    /// The worker can already be notified when this is called, so a notification that comes between
    /// the registration and the actual parking is not lost.
    ///
    /// A source that nobody notifies about (completions that have to be polled for) answers `false`
    /// while it expects something.
    fn may_park(&self) -> bool {
        true
    }

    /// Sleeps until something arrives that this poller waits for, for `time` at most. Returns
    /// `false` at once when it waits for nothing that it can sleep on. Asked on a core that other
    /// threads want, where polling would keep from it what the poller waits for.
    fn nap(&self, time: Duration) -> bool {
        let _ = time;
        false
    }

    /// The worker is awake again; called once for each time [`Poller::may_park`] returned `true`,
    /// before the next [`Poller::poll`].
    fn unparked(&self) {}
}
