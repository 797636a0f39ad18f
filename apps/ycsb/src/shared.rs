//! What the workers of a phase share, and how they end it together.

use crate::error::AppError;
use latchwork_runtime::sync::{AtomicBool, AtomicU64, Mutex, Ordering};

/// A count that one worker keeps and the progress display reads. On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Meter(AtomicU64);

/// The state of one phase on all workers.
pub(crate) struct Phase {
    meters: Vec<Meter>,
    stopped: AtomicBool,
    error: Mutex<Option<AppError>>,
}

impl Phase {
    /// A phase of this many workers.
    pub(crate) fn new(workers: usize) -> Phase {
        let meters = (0..workers).map(|_| Meter::default()).collect();
        Phase { meters, stopped: AtomicBool::new(false), error: Mutex::new(None) }
    }

    /// One more operation of this worker is done.
    #[inline]
    pub(crate) fn count(&self, worker: usize) {
        let meter = &self.meters[worker].0;
        // The worker's own thread is the only writer.
        meter.store(meter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Operations that all workers have done.
    pub(crate) fn done(&self) -> u64 {
        self.meters.iter().map(|meter| meter.0.load(Ordering::Relaxed)).sum()
    }

    /// Ends the phase on all workers because of an error, of which the first counts.
    pub(crate) fn fail(&self, error: AppError) {
        self.error.lock().get_or_insert(error);
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Whether the phase was ended by an error.
    #[inline]
    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// The error that ended the phase, if one did.
    pub(crate) fn end(&self) -> Result<(), AppError> {
        self.error.lock().take().map_or(Ok(()), Err)
    }
}
