//! [`Steps`]: workers that begin a step when all have ended the one before.

use latchwork_runtime::Handle;
use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};

use crate::{OpenError, Wait};

/// The steps of an opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The first worker has made the database, and all have opened it.
    Made,
    /// All workers have put rows into the tables.
    Rows,
    /// All workers have built indexes.
    Indexes,
    /// The first worker has made the tables that were missing.
    Tables,
}

/// How far the workers of an instance have come.
#[derive(Default, Debug)]
pub(crate) struct Steps {
    ended: [AtomicUsize; 4],
    /// The first error of any worker.
    failed: Mutex<Option<String>>,
}

impl Steps {
    /// Says that this worker is through with a step, and waits until `workers` are.
    pub(crate) async fn end(
        &self,
        step: Step,
        workers: usize,
        handle: &Handle,
        wait: &Wait<'_>,
    ) -> Result<(), OpenError> {
        let ended = &self.ended[step as usize];
        // Release and Acquire: what a worker did before is seen by all that go on. Rows and indexes are in coherent
        // memory, which orders itself.
        ended.fetch_add(1, Ordering::Release);
        let what = || {
            let ended = ended.load(Ordering::Relaxed);
            format!("{ended} of {workers} workers ended the step {step:?}")
        };
        let all = async || {
            self.check()?;
            Ok((ended.load(Ordering::Acquire) >= workers).then_some(()))
        };
        wait.until(handle, what, all).await
    }

    /// Whether a step has been ended by so many workers.
    pub(crate) fn is_over(&self, step: Step, workers: usize) -> bool {
        self.ended[step as usize].load(Ordering::Acquire) >= workers
    }

    /// Tells the other workers of an error. The first one counts.
    pub(crate) fn fail(&self, error: &OpenError) {
        if !matches!(error, OpenError::Elsewhere { .. } | OpenError::Stopped) {
            self.failed.lock().get_or_insert_with(|| error.to_string());
        }
    }

    /// Whether any worker has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.lock().is_some()
    }

    /// The first error of any worker.
    pub(crate) fn check(&self) -> Result<(), OpenError> {
        match &*self.failed.lock() {
            Some(cause) => Err(OpenError::Elsewhere { cause: cause.clone() }),
            None => Ok(()),
        }
    }
}
