//! How a run goes while it lasts: go-tpc's lines with `[Current]`.
//!
//! Nobody stands by: the worker that ends the first transaction of a new interval tells of the last
//! one. So a simulated run tells the same each time.

use latchwork_files::Output;
use latchwork_harness::outcome;
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering};
use latchwork_workload::tpcc::{CURRENT_PREFIX, Statistics, Summary, Waiting};
use std::time::Duration;

/// The intervals of a run.
pub(crate) struct Intervals {
    every: Duration,
    /// When the next one ends, in nanoseconds.
    next: AtomicU64,
    /// When the last one ended.
    last: Mutex<Time>,
    /// What each worker has done since. Its lock is taken by others once in an interval only.
    workers: Vec<Mutex<Statistics>>,
    waiting: Option<Waiting>,
    /// Standard output belongs to the document.
    aside: bool,
}

impl Intervals {
    /// Intervals of so long from `begin` on.
    pub(crate) fn new(
        every: Duration,
        begin: Time,
        workers: usize,
        waiting: Option<Waiting>,
        aside: bool,
    ) -> Intervals {
        let next = AtomicU64::new((begin + every).as_nanos());
        let workers = (0..workers).map(|_| Mutex::default()).collect();
        Intervals { every, next, last: Mutex::new(begin), workers, waiting, aside }
    }

    /// Notes what a worker has done at `now`, and tells of an interval that is over.
    pub(crate) fn note(&self, worker: usize, now: Time, note: impl FnOnce(&mut Statistics)) {
        if let Some(interval) = self.turn(now) {
            self.tell(&interval);
        }
        note(&mut self.workers[worker].lock());
    }

    /// What was done in the interval before `now`, for whoever is the first behind its end.
    fn turn(&self, now: Time) -> Option<(Statistics, Duration)> {
        if now.as_nanos() < self.next.load(Ordering::Relaxed) {
            return None;
        }
        let mut last = self.last.lock();
        // Somebody else may have been here in the meantime.
        if now.as_nanos() < self.next.load(Ordering::Relaxed) {
            return None;
        }
        let mut all = Statistics::default();
        for worker in &self.workers {
            let mut worker = worker.lock();
            all.merge(&worker);
            worker.clear();
        }
        let elapsed = now - *last;
        *last = now;
        self.next.store((now + self.every).as_nanos(), Ordering::Relaxed);
        Some((all, elapsed))
    }

    fn tell(&self, (statistics, elapsed): &(Statistics, Duration)) {
        let summary = Summary { statistics, elapsed: *elapsed, waiting: self.waiting };
        let aside = self.aside.then(Output::stdout);
        // A run goes on though nobody can be told of it.
        let _ = outcome::tell_progress(aside.as_ref(), |mut out| {
            summary.write_lines(CURRENT_PREFIX, &mut out)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use latchwork_workload::tpcc::TransactionKind::Payment;

    #[test]
    fn each_transaction_is_in_one_interval() {
        let us = Duration::from_micros(1);
        let intervals = Intervals::new(10 * us, Time::ZERO, 2, None, true);
        let at = |count: u32| Time::ZERO + count * us;
        for count in 1..10 {
            assert!(intervals.turn(at(count)).is_none());
            intervals.workers[count as usize % 2].lock().completed(Payment, us);
        }
        let (first, elapsed) = intervals.turn(at(12)).expect("it is over");
        assert_eq!((first.count(Payment), elapsed), (9, 12 * us));
        assert!(intervals.turn(at(21)).is_none(), "the next is as long as all");
        let (second, elapsed) = intervals.turn(at(22)).expect("it is over");
        assert_eq!((second.count(Payment), elapsed), (0, 10 * us));
    }
}
