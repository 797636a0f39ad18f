//! [`Course`]: the parts of a run, warm-up and measured part, which are the same for all workers.
//!
//! ```text
//!   warm-up                             measured                    over
//!   ├ window ┼ window ┼ window ┤        ├──────────────────────────┤
//!                      steady? ──► from, counters           end, counters
//! ```
//!
//! Any worker can start the next part: the worker that first takes an operation of the part starts
//! the part for all workers. At that moment the worker reads the counters. In a run of many
//! processes, each process has a course. A warm process continues its warm-up until all processes
//! are warm. A signal ends the current part: the measured part ends as if its time were over, and a
//! warm-up ends without a result.

mod plan;

use std::cell::Cell;
use std::sync::Arc;

use latchwork_cluster::Node;
use latchwork_engine::Counters;
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex, Ordering};
use latchwork_strict::{strict_assert, strict_check};

pub use self::plan::{Plan, RunPart, Warmup, Went};
use crate::stop::{self, Signal};
use crate::{AppError, LoopTime};

const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// The course of one run. The workers of a process share it.
pub struct Course {
    plan: Plan,
    nodes: Vec<Arc<Node>>,
    /// Number of operations that a worker takes at once. With more than one, workers on threads
    /// rarely contend for the counters.
    chunk: u64,
    stage: AtomicU8,
    /// Number of operations taken in the warm-up, and in the measured part.
    taken: [AtomicU64; 2],
    /// The warm-up is examined when this many operations were taken.
    window_end: AtomicU64,
    /// The end of the current part, in nanoseconds of the workers' clock. 0 when a signal ended the
    /// part.
    until: AtomicU64,
    /// Whether the measured part begins at the time that [`begin`](Course::begin) sets, instead of
    /// when this process is warm.
    waits: AtomicBool,
    /// Whether this process is warm, and waits for other processes.
    is_warm: AtomicBool,
    /// Whether a signal or a shortage ended the course. No operation begins any more, not even an
    /// operation that a worker has taken.
    is_stopped: AtomicBool,
    marks: Mutex<Marks>,
}

#[derive(Default)]
struct Marks {
    from: Time,
    end: Option<Time>,
    before: Vec<Counters>,
    after: Vec<Counters>,
    hit_ratios: Vec<f64>,
    counted: Counters,
    error: Option<String>,
    stopped: Option<Signal>,
}

/// The operations that a worker has taken and not begun yet.
#[derive(Default)]
pub struct Share {
    stage: Cell<u8>,
    left: Cell<u64>,
}

impl Course {
    /// A course of `workers` workers, with the counters of these nodes. The warm-up begins at
    /// `now`.
    pub fn new(
        plan: Plan,
        nodes: &[Arc<Node>],
        workers: usize,
        time: LoopTime,
        now: Time,
    ) -> Course {
        let chunk = time.chunk(plan.operations.unwrap_or(1 << 20) / (256 * workers.max(1) as u64));
        let window_end = match plan.warmup {
            Warmup::Operations(operations) => operations,
            Warmup::Time(_) => u64::MAX,
            Warmup::Steady { window } => window,
        };
        let until = match plan.warmup {
            Warmup::Time(time) => now + time,
            _ => Time::MAX,
        };
        strict_assert!((1..=64).contains(&chunk), "a worker takes {chunk} operations at once");
        Course {
            plan,
            nodes: nodes.to_vec(),
            chunk,
            stage: AtomicU8::new(WARM_UP),
            taken: Default::default(),
            window_end: AtomicU64::new(window_end),
            until: AtomicU64::new(until.as_nanos()),
            waits: AtomicBool::new(false),
            is_warm: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            marks: Mutex::new(Marks { counted: total(nodes), ..Marks::default() }),
        }
    }

    /// Takes one operation, and returns the part in which it counts. `None` when no operation is
    /// left.
    #[inline]
    pub fn next(&self, share: &Share, now: Time) -> Option<RunPart> {
        loop {
            let stage = self.stage.load(Ordering::Acquire);
            let part = match stage {
                WARM_UP => RunPart::WarmUp,
                MEASURED => RunPart::Measured,
                // After the end, a worker still executes the operations that it took in the
                // measured part. So the number of operations is the requested number. But no
                // operation begins when the time is over.
                _ if share.stage.get() == MEASURED
                    && share.left.get() > 0
                    && now.as_nanos() < self.until.load(Ordering::Relaxed)
                    && self.is_good() =>
                {
                    RunPart::Measured
                }
                _ => return None,
            };
            if stage != OVER && now.as_nanos() >= self.until.load(Ordering::Relaxed) {
                self.turn(stage, now);
                continue;
            }
            strict_assert!(
                share.left.get() <= self.chunk,
                "a worker has more than it took at once"
            );
            if stage == OVER || share.stage.get() == stage && share.left.get() > 0 {
                share.left.set(share.left.get() - 1);
                return Some(part);
            }
            let limit = match part {
                RunPart::WarmUp => self.window_end.load(Ordering::Relaxed),
                RunPart::Measured => self.plan.operations.unwrap_or(u64::MAX),
            };
            let taken = self.taken[usize::from(stage)].fetch_add(self.chunk, Ordering::Relaxed);
            if taken < limit {
                share.stage.set(stage);
                share.left.set(self.chunk.min(limit - taken));
            } else {
                self.turn(stage, now);
            }
        }
    }

    /// Starts the next part or the next window, or ends the run. Does nothing if another worker has
    /// done so.
    #[cold]
    fn turn(&self, stage: u8, now: Time) {
        let mut marks = self.marks.lock();
        strict_check!(self, &marks);
        if self.stage.load(Ordering::Acquire) != stage {
            return;
        }
        strict_assert!(stage != OVER, "a part begins after the end");
        if self.is_stopped.load(Ordering::Relaxed) {
            if stage == MEASURED {
                marks.end = Some(now.max(marks.from));
                marks.after = self.counters();
            }
            return self.stage.store(OVER, Ordering::Release);
        }
        if stage == MEASURED {
            let until = Time::from_nanos(self.until.load(Ordering::Relaxed));
            // `now` may be before the start: this worker may have read its clock before another
            // worker began the part.
            marks.end = Some(now.min(until).max(marks.from));
            marks.after = self.counters();
            strict_check!(self, &marks);
            return self.stage.store(OVER, Ordering::Release);
        }
        let agreed = self.until.load(Ordering::Relaxed);
        let is_warm = self.is_warm.load(Ordering::Relaxed);
        if let Warmup::Steady { window } = self.plan.warmup
            && !is_warm
            && !self.is_steady(&mut marks, window)
        {
            return;
        }
        if self.waits.load(Ordering::Relaxed) && now.as_nanos() < agreed {
            // The warm-up continues until the agreed time.
            self.window_end.store(u64::MAX, Ordering::Relaxed);
            return self.is_warm.store(true, Ordering::Release);
        }
        strict_assert!(marks.before.is_empty(), "the measured part begins twice");
        strict_assert!(marks.end.is_none(), "the measured part begins after its end");
        strict_assert!(!is_warm || agreed <= now.as_nanos(), "the part begins before {agreed} ns");
        // The agreed time is the same for all processes. Without an agreed time, the part begins
        // now.
        marks.from = if is_warm { Time::from_nanos(agreed) } else { now };
        let now = marks.from;
        marks.before = self.counters();
        let until = self.plan.time.map_or(Time::MAX, |time| now + time);
        strict_check!(self, &marks);
        self.until.store(until.as_nanos(), Ordering::Relaxed);
        // Release: a worker that reads the new stage also reads the new `until`.
        self.stage.store(MEASURED, Ordering::Release);
    }

    /// Asserts the relations between the marks. The caller holds their lock.
    fn check(&self, marks: &Marks) {
        let (nodes, windows) = (self.nodes.len(), marks.hit_ratios.len());
        assert!(windows <= Warmup::WINDOWS_MAX, "the warm-up has {windows} windows");
        assert!(
            marks.hit_ratios.iter().all(|ratio| (0.0..=1.0).contains(ratio)),
            "a hit ratio is a share: {:?}",
            marks.hit_ratios
        );
        assert!(
            marks.before.is_empty() || marks.before.len() == nodes,
            "the counters of {} of {nodes} nodes before the measured part",
            marks.before.len()
        );
        let after = if marks.end.is_some() { nodes } else { 0 };
        assert_eq!(marks.after.len(), after, "the counters at the end are one mark with the end");
        assert!(
            marks.end.is_none_or(|end| end >= marks.from),
            "the measured part ends at {:?} and begins at {:?}",
            marks.end,
            marks.from
        );
    }

    /// Whether the warm-up is over. If it is not, the next window begins.
    fn is_steady(&self, marks: &mut Marks, window: u64) -> bool {
        let end = self.window_end.load(Ordering::Relaxed);
        // Another worker has examined this window already, and has begun the next one.
        if self.taken[usize::from(WARM_UP)].load(Ordering::Relaxed) < end {
            return false;
        }
        let counted = total(&self.nodes);
        let misses = (counted - marks.counted).cache_misses;
        marks.counted = counted;
        marks.hit_ratios.push(1.0 - (misses as f64 / window as f64).min(1.0));
        let ratios = &marks.hit_ratios;
        let last = &ratios[ratios.len().saturating_sub(Warmup::STEADY)..];
        let (low, high) = last.iter().fold((1f64, 0f64), |(l, h), r| (l.min(*r), h.max(*r)));
        let steady = last.len() == Warmup::STEADY && high - low <= Warmup::APART;
        if steady || ratios.len() == Warmup::WINDOWS_MAX {
            return true;
        }
        // Workers did not get the operations that they took beyond the end of the window. So the
        // next window begins at the present count.
        let taken = self.taken[usize::from(WARM_UP)].load(Ordering::Relaxed);
        strict_assert!(taken >= end, "a window was examined before its end");
        strict_assert!(window > 0, "a window without operations never ends");
        self.window_end.store(taken.max(end) + window, Ordering::Relaxed);
        false
    }

    /// Ends the run on all workers because of an error. The first error counts.
    pub fn fail(&self, error: String) {
        let mut marks = self.marks.lock();
        marks.error.get_or_insert(error);
        // The store is under the lock of the marks, so that `turn` cannot overwrite it.
        self.stage.store(OVER, Ordering::Release);
    }

    /// The error that ended the run, if one did.
    pub(crate) fn failure(&self) -> Option<AppError> {
        self.marks.lock().error.clone().map(AppError::Failed)
    }

    /// As [`end_early`](Course::end_early), because of a signal.
    pub fn stop(&self, signal: Signal) -> bool {
        self.end_early(Some(signal))
    }

    /// Ends the run early, because of a signal or because something ran out. Workers stop at their
    /// next operation. Returns false if the run is still in its warm-up.
    pub fn end_early(&self, signal: Option<Signal>) -> bool {
        let mut marks = self.marks.lock();
        marks.stopped = marks.stopped.or(signal);
        self.is_stopped.store(true, Ordering::Relaxed);
        // The store is under the lock of the marks, so that `turn` cannot overwrite it.
        self.until.store(0, Ordering::Relaxed);
        self.stage.load(Ordering::Acquire) != WARM_UP
    }

    /// Makes the warm-up wait for the warm-ups of the other processes, if that is necessary.
    /// Returns whether the warm-up waits. A warm-up with a time limit ends everywhere at the same
    /// time. Without a warm-up, all processes begin at once.
    pub(crate) fn waits_for_others(&self) -> bool {
        let waits = match self.plan.warmup {
            Warmup::Operations(operations) => operations > 0,
            Warmup::Steady { .. } => true,
            Warmup::Time(_) => false,
        };
        self.waits.store(waits, Ordering::Relaxed);
        waits
    }

    /// Whether the process is warm, and waits for other processes.
    pub(crate) fn is_warm(&self) -> bool {
        self.is_warm.load(Ordering::Acquire)
    }

    /// Sets the agreed time at which the measured part of a waiting course begins, or fails the
    /// course.
    pub(crate) fn begin(&self, at: Result<Time, AppError>) {
        match at {
            Err(error) => self.fail(error.to_string()),
            Ok(time) => {
                let _marks = self.marks.lock();
                strict_assert!(self.is_warm(), "the measured part is set for a cold process");
                // The store is under the lock of the marks, so that it cannot overwrite the store
                // of a signal.
                if !self.is_stopped.load(Ordering::Relaxed) {
                    self.until.store(time.as_nanos(), Ordering::Relaxed);
                }
            }
        }
    }

    fn is_good(&self) -> bool {
        !self.is_stopped.load(Ordering::Relaxed) && self.marks.lock().error.is_none()
    }

    /// Starts the next part if the time of the current part is over. Workers that wait, and take no
    /// operation, call this.
    pub fn look(&self, now: Time) {
        let stage = self.stage.load(Ordering::Acquire);
        if stage != OVER && now.as_nanos() >= self.until.load(Ordering::Relaxed) {
            self.turn(stage, now);
        }
    }

    /// The current part; `None` when no operation is left.
    pub fn part(&self) -> Option<RunPart> {
        match self.stage.load(Ordering::Acquire) {
            WARM_UP => Some(RunPart::WarmUp),
            MEASURED => Some(RunPart::Measured),
            _ => None,
        }
    }

    /// Whether no operation is left.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.stage.load(Ordering::Acquire) == OVER
    }

    /// Whether the measured part ends at a time.
    pub fn is_timed(&self) -> bool {
        self.plan.time.is_some()
    }

    /// The time at which the measured part began. Not valid before the measured part.
    pub fn from(&self) -> Time {
        self.marks.lock().from
    }

    /// Number of operations taken in the warm-up, and in the measured part.
    pub fn taken(&self) -> (u64, u64) {
        let [warm, measured] = &self.taken;
        (warm.load(Ordering::Relaxed), measured.load(Ordering::Relaxed))
    }

    /// The outcome of the run. The caller calls this when all workers have ended.
    ///
    /// # Errors
    /// The error that ended the run; [`AppError::Stopped`] when a signal ended the run before the
    /// measured part.
    pub fn went(&self) -> Result<Went, AppError> {
        let marks = self.marks.lock();
        if let Some(error) = &marks.error {
            return Err(AppError::Failed(error.clone()));
        }
        let Some(end) = marks.end else {
            let early = || AppError::Failed("the run ended before it was measured".to_owned());
            let stopped = |signal| stop::error().unwrap_or(AppError::Stopped(signal));
            return Err(marks.stopped.map_or_else(early, stopped));
        };
        strict_check!(self, &marks);
        let counters = marks.after.iter().zip(&marks.before).map(|(a, b)| *a - *b);
        Ok(Went {
            from: marks.from,
            end,
            warm_ups: self.taken().0,
            hit_ratios: marks.hit_ratios.clone(),
            counters: counters.collect(),
        })
    }

    fn counters(&self) -> Vec<Counters> {
        self.nodes.iter().map(|node| node.counters()).collect()
    }
}

fn total(nodes: &[Arc<Node>]) -> Counters {
    nodes.iter().map(|node| node.counters()).sum()
}

#[cfg(test)]
mod tests;
