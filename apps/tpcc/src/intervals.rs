//! The progress of a run: go-tpc's lines with `[Current]`.

use std::time::Duration;

use latchwork_files::Output;
use latchwork_harness::outcome;
use latchwork_harness::{Interval, Intervals};
use latchwork_runtime::Time;
use latchwork_workload::tpcc::{CURRENT_PREFIX, Statistics, Summary, TerminalWaiting};

/// The progress of a run, interval by interval.
pub(crate) struct Progress {
    intervals: Intervals<Statistics>,
    waiting: Option<TerminalWaiting>,
    /// Whether standard output has only the document, so that the lines go to standard error.
    aside: bool,
}

impl Progress {
    /// Intervals of this length from `begin` on.
    pub(crate) fn new(
        every: Duration,
        begin: Time,
        workers: usize,
        waiting: Option<TerminalWaiting>,
        aside: bool,
    ) -> Progress {
        Progress { intervals: Intervals::new(every, begin, workers), waiting, aside }
    }

    /// Records a worker's transaction at `now`, and reports an interval that has ended.
    pub(crate) fn note(&self, worker: usize, now: Time, note: impl FnOnce(&mut Statistics)) {
        if let Some(interval) = self.intervals.note(worker, now, note) {
            self.tell(&interval);
        }
    }

    fn tell(&self, interval: &Interval<Statistics>) {
        let mut statistics = Statistics::default();
        interval.workers.iter().for_each(|worker| statistics.merge(worker));
        let elapsed = interval.length;
        let summary =
            Summary { statistics: &statistics, elapsed, waiting: self.waiting, is_tpmc: false };
        let aside = self.aside.then(Output::stdout);
        // The run continues even if the output cannot be written.
        let _ = outcome::print_progress(aside.as_ref(), |mut out| {
            summary.write_lines(CURRENT_PREFIX, &mut out)
        });
    }
}
