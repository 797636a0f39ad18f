//! Timers: an ordered map from deadline to waker.
//!
//! A worker has about as many timers as tasks in flight, so that a balanced tree of them fits in a
//! few cache lines, gives the exact next deadline, and forgets a cancelled timer at once: timeouts
//! are set far more often than they fire.

use std::collections::BTreeMap;
use std::task::Waker;

use crate::Time;

/// A registered timer: its deadline, then its number, so that equal deadlines fire in the order in
/// which they were set.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct TimerKey(Time, u64);

#[derive(Default)]
pub(crate) struct Timers {
    wakers: BTreeMap<TimerKey, Waker>,
    set: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, deadline: Time, waker: Waker) -> TimerKey {
        let key = TimerKey(deadline, self.set);
        self.set += 1;
        self.wakers.insert(key, waker);
        key
    }

    /// The waker of a timer that has not fired yet.
    pub(crate) fn waker_mut(&mut self, key: TimerKey) -> Option<&mut Waker> {
        self.wakers.get_mut(&key)
    }

    /// Forgets a timer. The waker is given back so that it is dropped where nothing is borrowed.
    pub(crate) fn cancel(&mut self, key: TimerKey) -> Option<Waker> {
        self.wakers.remove(&key)
    }

    pub(crate) fn next(&self) -> Option<Time> {
        self.wakers.first_key_value().map(|(key, _)| key.0)
    }

    /// Takes out the earliest timer when it is due.
    pub(crate) fn take_due(&mut self, now: Time) -> Option<Waker> {
        let first = self.wakers.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }

    pub(crate) fn take_all(&mut self) -> Vec<Waker> {
        std::mem::take(&mut self.wakers).into_values().collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.wakers.len()
    }
}
