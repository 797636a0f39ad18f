//! [`Phase`]: what the workers of a phase share, and how they end it together.

use latchwork_runtime::Time;
use latchwork_runtime::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

use crate::{AppError, stop};

/// A count that one worker keeps and the progress display reads. On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Meter(AtomicU64);

/// The state of one phase, as loading or checking, on all workers: how far each is, and the error
/// that ended it.
pub struct Phase {
    meters: Vec<Meter>,
    /// Nanoseconds of virtual time, where that is what passes.
    reached: AtomicU64,
    stopped: AtomicBool,
    /// As [`stopped`](Phase::stopped), without an error.
    is_over: AtomicBool,
    error: Mutex<Option<AppError>>,
}

impl Phase {
    /// A phase of this many workers.
    pub fn new(workers: usize) -> Phase {
        let meters = (0..workers).map(|_| Meter::default()).collect();
        Phase {
            meters,
            reached: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            error: Mutex::new(None),
        }
    }

    /// A worker of a simulated cluster is at this time. All of them are one thread.
    #[inline]
    pub fn reach(&self, time: Time) {
        self.reached.store(time.as_nanos(), Ordering::Relaxed);
    }

    /// The virtual time that was reached last.
    pub fn reached(&self) -> Time {
        Time::from_nanos(self.reached.load(Ordering::Relaxed))
    }

    /// One more operation of this worker is done.
    #[inline]
    pub fn count(&self, worker: usize) {
        let meter = &self.meters[worker].0;
        // The worker's own thread is the only writer.
        meter.store(meter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Operations that all workers have done.
    pub fn done(&self) -> u64 {
        self.meters.iter().map(|meter| meter.0.load(Ordering::Relaxed)).sum()
    }

    /// Ends the phase on all workers because of an error, of which the first counts.
    pub fn fail(&self, error: AppError) {
        self.error.lock().get_or_insert(error);
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Ends the phase on all workers before its time: what they have done counts.
    pub fn end_early(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether the phase was ended [early](Phase::end_early).
    #[inline]
    pub fn ended_early(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }

    /// Whether the phase was ended by an error, or a signal ends the program while it
    /// [prepares](stop).
    #[inline]
    pub fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || stop::is_aborted()
    }

    /// The error that ended the phase, if one did.
    pub fn end(&self) -> Result<(), AppError> {
        // What went wrong after that may have gone wrong because of that.
        stop::check()?;
        self.error.lock().take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_that_ends_early_has_not_failed() {
        let phase = Phase::new(1);
        assert!(!phase.ended_early() && !phase.stopped());
        phase.end_early();
        assert!(phase.ended_early() && !phase.stopped() && phase.end().is_ok());
        phase.fail(AppError::Failed("it broke".to_owned()));
        assert!(phase.stopped() && phase.end().is_err());
    }
}
