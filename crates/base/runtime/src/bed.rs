//! [`Bed`]: where a worker sleeps whom other processes can wake.

use std::time::Duration;

/// Where the thread of a parked executor sleeps in place of its own parking, so that somebody who
/// does not have its [`Notifier`](crate::Notifier), being in another process, can wake it as
/// directly as its own process does.
pub trait Bed: Send + Sync {
    /// Blocks the calling thread until [`Bed::wake`], until woken from outside, or for `at_most`;
    /// may also end for no reason. Returns whether somebody outside woke it, which is told once.
    ///
    /// `parked` says whether to sleep at all. It becomes false before [`Bed::wake`] is called, and
    /// after that nobody may stay asleep: so look at what `wake` changes, then at `parked`, then
    /// sleep unless it has changed.
    fn sleep(&self, parked: &dyn Fn() -> bool, at_most: Option<Duration>) -> bool;

    /// Wakes the sleeper, from any thread of its process.
    fn wake(&self);
}
