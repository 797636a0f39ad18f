//! [`Intervals`]: the results of all workers in each interval of a run.
//!
//! No task watches the time. The worker that ends the first operation after the end of an interval
//! takes the results of that interval. So a simulated run has the same intervals each time.

use std::time::Duration;

use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Mutex, MutexGuard, Ordering};

/// The intervals of a run. `T` is what one worker records in an interval.
pub struct Intervals<T> {
    every: Duration,
    /// The end of the current interval, in nanoseconds.
    next: AtomicU64,
    /// The end of the last interval.
    last: Mutex<Time>,
    /// The records of each worker since then. Other workers take a worker's lock only once per
    /// interval, so the lock is nearly always free.
    workers: Vec<Mutex<T>>,
}

/// An interval that is over.
pub struct Interval<T> {
    /// The records of each worker.
    pub workers: Vec<T>,
    /// The length.
    pub length: Duration,
}

impl<T: Default> Intervals<T> {
    /// Intervals of this length from `begin` on.
    pub fn new(every: Duration, begin: Time, workers: usize) -> Intervals<T> {
        Intervals {
            every,
            next: AtomicU64::new((begin + every).as_nanos()),
            last: Mutex::new(begin),
            workers: (0..workers).map(|_| Mutex::default()).collect(),
        }
    }

    /// Changes the record of a worker whose operation ended at `now`. Returns the interval before
    /// `now`, if it is over and no other worker has got it.
    pub fn note(&self, worker: usize, now: Time, note: impl FnOnce(&mut T)) -> Option<Interval<T>> {
        let interval = self.turn(now);
        note(&mut self.workers[worker].lock());
        interval
    }

    /// Ends the interval if `now` is past its end. Only one caller gets the interval.
    pub fn turn(&self, now: Time) -> Option<Interval<T>> {
        if now.as_nanos() < self.next.load(Ordering::Relaxed) {
            return None;
        }
        let last = self.last.lock();
        // Another worker may have ended the interval while this worker waited for the lock.
        let is_over = now.as_nanos() >= self.next.load(Ordering::Relaxed);
        is_over.then(|| self.take(last, now))
    }

    /// Ends the interval, however short it is.
    pub fn end(&self, now: Time) -> Interval<T> {
        self.take(self.last.lock(), now)
    }

    fn take(&self, mut last: MutexGuard<'_, Time>, now: Time) -> Interval<T> {
        let workers = self.workers.iter().map(|worker| std::mem::take(&mut *worker.lock()));
        let interval = Interval { workers: workers.collect(), length: now.max(*last) - *last };
        *last = now.max(*last);
        self.next.store((*last + self.every).as_nanos(), Ordering::Relaxed);
        interval
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_in_one_interval() {
        let us = Duration::from_micros(1);
        let intervals = Intervals::<u64>::new(10 * us, Time::ZERO, 2);
        let at = |count: u32| Time::ZERO + count * us;
        let sum = |interval: Interval<u64>| {
            (interval.workers.iter().sum::<u64>(), interval.length.as_micros())
        };
        let note = |count| intervals.note(count as usize % 2, at(count), |done| *done += 1);
        assert!((1..10).all(|count| note(count).is_none()));
        assert_eq!(note(12).map(sum), Some((9, 12)));
        assert!(note(21).is_none(), "the next is as long as all");
        assert_eq!(intervals.turn(at(22)).map(sum), Some((2, 10)));
        assert_eq!(sum(intervals.end(at(25))), (0, 3), "the last is shorter");
    }
}
