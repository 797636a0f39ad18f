//! [`Status`]: the status lines of a phase, as YCSB's client prints them with `-s`.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use latchwork_harness::outcome::say_during_phase;
use latchwork_harness::{Interval, Intervals, LoopTime, PhaseProgress, RunCluster};
use latchwork_report::histogram::Latencies;
use latchwork_report::text;
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_workload::ycsb::OperationKind;

/// The status lines of a phase. Each process measures its own operations, and only the first
/// process prints lines.
pub(crate) struct Status {
    every: Duration,
    workers: usize,
    is_virtual: bool,
    /// Stands behind the time: whose operations the line counts, if not those of all nodes.
    of: String,
    /// Set by the first measured operation.
    begun: OnceLock<Begun>,
}

struct Begun {
    from: Time,
    intervals: Intervals<Latencies<OperationKind>>,
    /// Operations of the intervals that are over.
    ops: AtomicU64,
}

impl Status {
    /// A line every `every`, at the process that prints results.
    pub(crate) fn new(every: Option<Duration>, cluster: &RunCluster) -> Option<Arc<Status>> {
        let every = every.filter(|_| cluster.is_first())?;
        Some(Arc::new(Status {
            every,
            workers: cluster.workers(),
            is_virtual: cluster.loop_time() == LoopTime::Virtual,
            of: cluster.own_part().map_or(String::new(), |part| format!(" {part}")),
            begun: OnceLock::new(),
        }))
    }

    /// Lets the display of the phase's progress print lines while no operation ends.
    pub(crate) fn accompany(self: &Arc<Status>, phase: &PhaseProgress) {
        let status = self.clone();
        phase.on_look(move |now| status.look(now));
    }

    /// Records a measured operation of a worker, and prints the line of an interval that is over.
    /// `from` is the begin of the measured part.
    pub(crate) fn note(
        &self,
        worker: usize,
        from: impl FnOnce() -> Time,
        end: Time,
        note: impl FnOnce(&mut Latencies<OperationKind>),
    ) {
        let begun = self.begun.get_or_init(|| {
            let from = from();
            let intervals = Intervals::new(self.every, from, self.workers);
            Begun { from, intervals, ops: AtomicU64::new(0) }
        });
        if let Some(interval) = begun.intervals.note(worker, end, note) {
            self.tell(begun, end, &interval);
        }
    }

    /// Prints the line of an interval that is over, also if no operation ends.
    fn look(&self, now: Time) {
        let Some(begun) = self.begun.get() else { return };
        if let Some(interval) = begun.intervals.turn(now) {
            self.tell(begun, now, &interval);
        }
    }

    /// Prints the line of the last interval, which may be short.
    pub(crate) fn end(&self, now: Time) {
        if let Some(begun) = self.begun.get() {
            self.tell(begun, now, &begun.intervals.end(now));
        }
    }

    fn tell(&self, begun: &Begun, now: Time, interval: &Interval<Latencies<OperationKind>>) {
        let mut latencies = Latencies::new();
        interval.workers.iter().for_each(|worker| latencies.merge(worker));
        let new = latencies.ok() + latencies.failed();
        // Relaxed: the count orders no other memory.
        let ops = begun.ops.fetch_add(new, Ordering::Relaxed) + new;
        let seconds = now.max(begun.from) - begun.from;
        let seconds = seconds.as_secs_f64();
        let of = &self.of;
        let elapsed = match self.is_virtual {
            true => format!("{} sec of virtual time{of}", (seconds * 1e6).round() / 1e6),
            false => format!("{} sec{of}", (seconds * 100.0).round() / 100.0),
        };
        say_during_phase(&text::status_line(&elapsed, ops, &latencies, interval.length));
    }
}
