//! Timers: an ordered map from deadline to waker.
//!
//! A worker has about as many timers as tasks in flight, so a balanced tree of the timers is small.
//! The tree gives the exact next deadline, and removes a cancelled timer at once. The second
//! property matters for timeouts, which are set often and rarely fire.

use std::collections::BTreeMap;
use std::task::Waker;

use latchwork_strict::strict_assert;

use crate::Time;

/// The key of a registered timer: its deadline and its number. Timers with equal deadlines fire in
/// the order in which they were set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TimerKey(Time, u64);

/// The wakers of the registered timers, and the number of timers that were ever set.
#[derive(Default)]
pub(crate) struct Timers {
    wakers: BTreeMap<TimerKey, Waker>,
    set: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, deadline: Time, waker: Waker) -> TimerKey {
        let key = TimerKey(deadline, self.set);
        self.set += 1;
        strict_assert!(self.set > 0, "timer numbers wrapped");
        self.wakers.insert(key, waker);
        strict_assert!(self.wakers.contains_key(&key), "a timer that was set is found");
        key
    }

    /// The waker of a timer that has not fired.
    pub(crate) fn waker_mut(&mut self, key: TimerKey) -> Option<&mut Waker> {
        self.wakers.get_mut(&key)
    }

    /// Removes a timer. Returns the waker, so that the caller drops the waker while the timers are
    /// not borrowed.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<Waker> {
        strict_assert!(key.1 < self.set, "a timer of another executor");
        self.wakers.remove(&key)
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.wakers.first_key_value().map(|(key, _)| key.0)
    }

    /// Removes the earliest timer if it is due at `now`; returns its waker.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Waker> {
        let first = self.wakers.first_entry()?;
        strict_assert!(first.key().1 < self.set);
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(crate) fn take_all(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers).into_values().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }
}
