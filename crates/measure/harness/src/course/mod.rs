//! [`Course`]: a run from its warm-up to its end, the same for all workers.
//!
//! ```text
//!   warm-up                             measured                    over
//!   ├ window ┼ window ┼ window ┤        ├──────────────────────────┤
//!                      steady? ──► from, counters           end, counters
//! ```
//!
//! Nobody leads: whoever takes the operation that begins the next part turns the page for all. What
//! was counted before and after is noted at that moment. Where workers are of many processes, each
//! has a course, and whichever is warm goes on warming up until all are. A signal ends the part
//! that is on: the measured one as if its time were over, and the warm-up without anything to show.

mod plan;

use std::cell::Cell;
use std::sync::Arc;

use latchwork_cluster::Node;
use latchwork_engine::Counters;
use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicBool, AtomicU8, AtomicU64, Mutex, Ordering};

pub use self::plan::{Part, Plan, Warmup, Went};
use crate::AppError;
use crate::stop::{self, Signal};

const WARM_UP: u8 = 0;
const MEASURED: u8 = 1;
const OVER: u8 = 2;

/// The course of one run.
pub struct Course {
    plan: Plan,
    nodes: Vec<Arc<Node>>,
    /// Operations that a worker takes at a time, so that workers on threads rarely meet.
    chunk: u64,
    stage: AtomicU8,
    /// Operations taken, in the warm-up and in the measured part.
    taken: [AtomicU64; 2],
    /// Operations until the next look at the warm-up.
    window_end: AtomicU64,
    /// When the part that is on ends, in nanoseconds; 0 when a signal ended it.
    until: AtomicU64,
    /// The measured part begins when somebody [says](Course::begin) when, and not when this process
    /// is warm.
    waits: AtomicBool,
    /// It is warm, and waits.
    is_warm: AtomicBool,
    /// A signal ended it: not even what was taken is done.
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

/// What a worker has taken and not begun yet.
#[derive(Default)]
pub struct Share {
    stage: Cell<u8>,
    left: Cell<u64>,
}

impl Course {
    /// A run on these nodes with so many workers, which begins now.
    pub fn new(
        plan: Plan,
        nodes: &[Arc<Node>],
        workers: usize,
        is_simulated: bool,
        now: Time,
    ) -> Course {
        // In a simulated world all is one thread, and one by one is the most even.
        let even = plan.operations.unwrap_or(1 << 20) / (256 * workers.max(1) as u64);
        let chunk = if is_simulated { 1 } else { even.clamp(1, 64) };
        let window_end = match plan.warmup {
            Warmup::Operations(operations) => operations,
            Warmup::Time(_) => u64::MAX,
            Warmup::Steady { window } => window,
        };
        let until = match plan.warmup {
            Warmup::Time(time) => now + time,
            _ => Time::MAX,
        };
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

    /// Takes one operation; in which part it counts. `None` when there are no more.
    #[inline]
    pub fn next(&self, share: &Share, now: Time) -> Option<Part> {
        loop {
            let stage = self.stage.load(Ordering::Acquire);
            let part = match stage {
                WARM_UP => Part::WarmUp,
                MEASURED => Part::Measured,
                // Operations that were taken are done, so that as many are done as were asked for;
                // but none begins when the time is over.
                _ if share.stage.get() == MEASURED
                    && share.left.get() > 0
                    && now.as_nanos() < self.until.load(Ordering::Relaxed)
                    && self.is_good() =>
                {
                    Part::Measured
                }
                _ => return None,
            };
            if stage != OVER && now.as_nanos() >= self.until.load(Ordering::Relaxed) {
                self.turn(stage, now);
                continue;
            }
            if stage == OVER || share.stage.get() == stage && share.left.get() > 0 {
                share.left.set(share.left.get() - 1);
                return Some(part);
            }
            let limit = match part {
                Part::WarmUp => self.window_end.load(Ordering::Relaxed),
                Part::Measured => self.plan.operations.unwrap_or(u64::MAX),
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

    /// Goes on to the next part, or the next window, unless somebody else did.
    #[cold]
    fn turn(&self, stage: u8, now: Time) {
        let mut marks = self.marks.lock();
        if self.stage.load(Ordering::Acquire) != stage {
            return;
        }
        if marks.stopped.is_some() {
            if stage == MEASURED {
                marks.end = Some(now.max(marks.from));
                marks.after = self.counters();
            }
            return self.stage.store(OVER, Ordering::Release);
        }
        if stage == MEASURED {
            let until = Time::from_nanos(self.until.load(Ordering::Relaxed));
            marks.end = Some(now.min(until));
            marks.after = self.counters();
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
            // It goes on as it is until then.
            self.window_end.store(u64::MAX, Ordering::Relaxed);
            return self.is_warm.store(true, Ordering::Release);
        }
        // What all have agreed on is the same for all; else it begins here.
        marks.from = if is_warm { Time::from_nanos(agreed) } else { now };
        let now = marks.from;
        marks.before = self.counters();
        let until = self.plan.time.map_or(Time::MAX, |time| now + time);
        self.until.store(until.as_nanos(), Ordering::Relaxed);
        // Whoever sees the stage sees the end that belongs to it.
        self.stage.store(MEASURED, Ordering::Release);
    }

    /// Whether a warm-up is over; if it is not, there is another window.
    fn is_steady(&self, marks: &mut Marks, window: u64) -> bool {
        let end = self.window_end.load(Ordering::Relaxed);
        // Somebody else has judged this window already.
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
        // From here on: what was taken beyond the end was given to nobody.
        let taken = self.taken[usize::from(WARM_UP)].load(Ordering::Relaxed);
        self.window_end.store(taken.max(end) + window, Ordering::Relaxed);
        false
    }

    /// Ends the run on all workers because of an error, of which the first counts.
    pub fn fail(&self, error: String) {
        self.marks.lock().error.get_or_insert(error);
        self.stage.store(OVER, Ordering::Release);
    }

    /// The error that ended the run, if one did.
    pub(crate) fn failure(&self) -> Option<AppError> {
        self.marks.lock().error.clone().map(AppError::Failed)
    }

    /// Ends the part that is on, and with it the run, because of a signal: with the next operation
    /// that a worker would take. Whether that part is measured.
    pub fn stop(&self, signal: Signal) -> bool {
        let mut marks = self.marks.lock();
        marks.stopped.get_or_insert(signal);
        self.is_stopped.store(true, Ordering::Relaxed);
        // Under the lock, so that nobody who turns the page sets another end behind it.
        self.until.store(0, Ordering::Relaxed);
        self.stage.load(Ordering::Acquire) != WARM_UP
    }

    /// Whether this process's warm-up is to end when those of all processes do, each of which has a
    /// course; from here on it is. One that is limited by time ends at the same time anyway, and
    /// where there is none all begin at once.
    pub(crate) fn waits_for_others(&self) -> bool {
        let waits = match self.plan.warmup {
            Warmup::Operations(operations) => operations > 0,
            Warmup::Steady { .. } => true,
            Warmup::Time(_) => false,
        };
        self.waits.store(waits, Ordering::Relaxed);
        waits
    }

    /// Whether it is warm, and waits for others.
    pub(crate) fn is_warm(&self) -> bool {
        self.is_warm.load(Ordering::Acquire)
    }

    /// The measured part of a course that waits begins at this time; or not at all.
    pub(crate) fn begin(&self, at: Result<Time, AppError>) {
        match at {
            Err(error) => self.fail(error.to_string()),
            Ok(time) => {
                let marks = self.marks.lock();
                // Under the lock, so that it does not undo a signal's.
                if marks.stopped.is_none() {
                    self.until.store(time.as_nanos(), Ordering::Relaxed);
                }
            }
        }
    }

    fn is_good(&self) -> bool {
        !self.is_stopped.load(Ordering::Relaxed) && self.marks.lock().error.is_none()
    }

    /// Goes on to the next part if the time of this one is over: for workers that wait, and take no
    /// operation meanwhile.
    pub fn look(&self, now: Time) {
        let stage = self.stage.load(Ordering::Acquire);
        if stage != OVER && now.as_nanos() >= self.until.load(Ordering::Relaxed) {
            self.turn(stage, now);
        }
    }

    /// The part that is on; nothing when there are no more operations to take.
    pub fn part(&self) -> Option<Part> {
        match self.stage.load(Ordering::Acquire) {
            WARM_UP => Some(Part::WarmUp),
            MEASURED => Some(Part::Measured),
            _ => None,
        }
    }

    /// Whether there are no more operations to take.
    #[inline]
    pub fn is_over(&self) -> bool {
        self.stage.load(Ordering::Acquire) == OVER
    }

    /// When the measured part began. Right in the measured part only.
    pub fn from(&self) -> Time {
        self.marks.lock().from
    }

    /// Operations that were taken: in the warm-up, and in the measured part.
    pub fn taken(&self) -> (u64, u64) {
        let [warm, measured] = &self.taken;
        (warm.load(Ordering::Relaxed), measured.load(Ordering::Relaxed))
    }

    /// How it went. To be called when all workers have ended.
    ///
    /// # Errors
    /// The error that ended it; [`AppError::Stopped`] when that was a signal before anything was
    /// measured.
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
