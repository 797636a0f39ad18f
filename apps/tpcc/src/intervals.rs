//! The progress of a run: go-tpc's lines with `[Current]`.
//!
//! No task watches the time. The worker that ends the first transaction of a new interval reports
//! the previous interval. So a simulated run prints the same lines each time.

use std::time::Duration;

use latchwork_files::Output;
use latchwork_harness::outcome;
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Mutex, Ordering};
use latchwork_workload::tpcc::{CURRENT_PREFIX, Statistics, Summary, TerminalWaiting};

/// The intervals of a run.
pub(crate) struct Intervals {
    every: Duration,
    /// The end of the current interval, in nanoseconds.
    next: AtomicU64,
    /// The end of the last reported interval.
    last: Mutex<Time>,
    /// The transactions of each worker since then. Other workers take a worker's lock only once per
    /// interval, so the lock is nearly always free.
    workers: Vec<Mutex<Statistics>>,
    waiting: Option<TerminalWaiting>,
    /// Whether standard output has only the document, so that the lines go to standard error.
    aside: bool,
}

impl Intervals {
    /// Intervals of this length from `begin` on.
    pub(crate) fn new(
        every: Duration,
        begin: Time,
        workers: usize,
        waiting: Option<TerminalWaiting>,
        aside: bool,
    ) -> Intervals {
        let next = AtomicU64::new((begin + every).as_nanos());
        let workers = (0..workers).map(|_| Mutex::default()).collect();
        Intervals { every, next, last: Mutex::new(begin), workers, waiting, aside }
    }

    /// Records a worker's transaction at `now`, and reports an interval that has ended.
    pub(crate) fn note(&self, worker: usize, now: Time, note: impl FnOnce(&mut Statistics)) {
        if let Some(interval) = self.turn(now) {
            self.tell(&interval);
        }
        note(&mut self.workers[worker].lock());
    }

    /// Ends the interval if `now` is past its end, and returns its statistics and length. Only one
    /// worker gets them.
    fn turn(&self, now: Time) -> Option<(Statistics, Duration)> {
        if now.as_nanos() < self.next.load(Ordering::Relaxed) {
            return None;
        }
        let mut last = self.last.lock();
        // Another worker may have ended the interval while this worker waited for the lock.
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
        let summary =
            Summary { statistics, elapsed: *elapsed, waiting: self.waiting, is_tpmc: false };
        let aside = self.aside.then(Output::stdout);
        // The run continues even if the output cannot be written.
        let _ = outcome::print_progress(aside.as_ref(), |mut out| {
            summary.write_lines(CURRENT_PREFIX, &mut out)
        });
    }
}

#[cfg(test)]
mod tests {
    use latchwork_workload::tpcc::TransactionKind::Payment;

    use super::*;

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
