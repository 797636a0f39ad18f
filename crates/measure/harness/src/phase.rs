//! [`PhaseProgress`]: the shared state of a phase's workers, and their common end.

use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicBool, AtomicU64, Mutex, OnceLock, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq};

use crate::{AppError, stop};

/// A count that one worker writes and the progress display reads. The alignment gives each count
/// its own cache lines, so that workers do not slow each other down.
#[derive(Default)]
#[repr(align(128))]
struct Meter(AtomicU64);

/// The state of one phase of a program, such as loading or checking. All workers share it: it has
/// the progress of each worker, and the error that ended the phase.
pub struct PhaseProgress {
    meters: Vec<Meter>,
    /// The virtual time that a worker reported last, in nanoseconds.
    reached: AtomicU64,
    stopped: AtomicBool,
    /// The phase was ended early, without an error.
    is_over: AtomicBool,
    error: Mutex<Option<AppError>>,
    /// The error that ended the phase early, and whose operations so far count.
    shortage: Mutex<Option<AppError>>,
    on_look: OnceLock<Box<dyn Fn(Time) + Send + Sync>>,
}

impl PhaseProgress {
    /// A phase of this many workers.
    pub fn new(workers: usize) -> PhaseProgress {
        strict_assert!(workers > 0, "a phase without a worker does not end");
        let meters = (0..workers).map(|_| Meter::default()).collect();
        PhaseProgress {
            meters,
            reached: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            error: Mutex::new(None),
            shortage: Mutex::new(None),
            on_look: OnceLock::new(),
        }
    }

    /// Records the virtual time of a worker of a simulated cluster.
    #[inline]
    pub fn reach(&self, time: Time) {
        self.reached.store(time.as_nanos(), Ordering::Relaxed);
    }

    /// The latest recorded virtual time.
    pub fn reached(&self) -> Time {
        Time::from_nanos(self.reached.load(Ordering::Relaxed))
    }

    /// Lets the progress display call `look` with the present time now and then, if the workers'
    /// time is real. So a line that is due comes also while no operation ends. The first call
    /// counts.
    pub fn on_look(&self, look: impl Fn(Time) + Send + Sync + 'static) {
        let _ = self.on_look.set(Box::new(look));
    }

    pub(crate) fn look(&self, now: Time) {
        if let Some(look) = self.on_look.get() {
            look(now);
        }
    }

    /// Counts one more operation of this worker.
    #[inline]
    pub fn count(&self, worker: usize) {
        let meter = &self.meters[worker].0;
        // The worker's own thread is the only writer, so a load and a store suffice.
        let before = meter.load(Ordering::Relaxed);
        meter.store(before + 1, Ordering::Relaxed);
        strict_assert_eq!(
            meter.load(Ordering::Relaxed),
            before + 1,
            "two threads count for worker {worker}"
        );
    }

    /// Operations of all workers so far.
    pub fn done(&self) -> u64 {
        self.meters.iter().map(|meter| meter.0.load(Ordering::Relaxed)).sum()
    }

    /// Ends the phase on all workers because of an error. The first error counts.
    pub fn fail(&self, error: AppError) {
        self.error.lock().get_or_insert(error);
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Ends the phase on all workers early. Their operations so far count.
    pub fn end_early(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// As [`end_early`](PhaseProgress::end_early), because something ran out. The first error
    /// counts.
    pub fn end_short(&self, error: AppError) {
        self.shortage.lock().get_or_insert(error);
        self.end_early();
    }

    /// The error of [`end_short`](PhaseProgress::end_short), once.
    pub fn shortage(&self) -> Option<AppError> {
        self.shortage.lock().take()
    }

    /// Whether the phase was ended [early](PhaseProgress::end_early).
    #[inline]
    pub fn ended_early(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether an error ended the phase, or a signal ends the program in its [preparation](stop).
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || stop::is_aborted()
    }

    /// The result of the phase: the error that ended the phase, if one did.
    pub fn end(&self) -> Result<(), AppError> {
        // A signal comes first, because an error after a signal may be its consequence.
        stop::check()?;
        self.error.lock().take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_that_ends_early_has_not_failed() {
        let phase = PhaseProgress::new(1);
        assert!(!phase.ended_early() && !phase.stopped());
        phase.end_early();
        assert!(phase.ended_early() && !phase.stopped() && phase.end().is_ok());
        phase.fail(AppError::Failed("it broke".to_owned()));
        assert!(phase.stopped() && phase.end().is_err());
    }
}
