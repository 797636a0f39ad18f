//! [`Steps`]: workers that begin a step when all have ended the one before.

use latchwork_runtime::Handle;
use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};

use crate::{OpenError, Wait};

/// The steps of an opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The first worker has found the name free, or a database that may be shared.
    Free,
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
    ended: [AtomicUsize; 5],
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
        self.pass(step);
        let what = || {
            let ended = self.ended[step as usize].load(Ordering::Relaxed);
            format!("{ended} of {workers} workers ended the step {step:?}")
        };
        self.reached(step, workers, handle, wait, what).await
    }

    /// Says that this worker is through with a step.
    pub(crate) fn pass(&self, step: Step) {
        // Release, for the Acquire in `is_over`: what a worker did before is seen by all that go
        // on. Rows and indexes are in coherent memory, which orders itself.
        self.ended[step as usize].fetch_add(1, Ordering::Release);
    }

    /// Waits until `workers` are through with a step. `what` says what is missing.
    pub(crate) async fn reached(
        &self,
        step: Step,
        workers: usize,
        handle: &Handle,
        wait: &Wait<'_>,
        what: impl Fn() -> String,
    ) -> Result<(), OpenError> {
        let all = async || {
            self.check()?;
            Ok(self.is_over(step, workers).then_some(()))
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

    /// Fails with what `what` says when the guard is dropped before it is [lifted](Guard::lift):
    /// the future that holds it was dropped, or its worker's thread panicked.
    pub(crate) fn guard<F: Fn() -> String>(&self, what: F) -> Guard<'_, F> {
        Guard { steps: self, what, is_lifted: false }
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

/// See [`Steps::guard`].
pub(crate) struct Guard<'a, F: Fn() -> String> {
    steps: &'a Steps,
    what: F,
    is_lifted: bool,
}

impl<F: Fn() -> String> Guard<'_, F> {
    /// What was guarded has ended.
    pub(crate) fn lift(mut self) {
        self.is_lifted = true;
    }
}

impl<F: Fn() -> String> Drop for Guard<'_, F> {
    fn drop(&mut self) {
        if !self.is_lifted {
            self.steps.failed.lock().get_or_insert_with(&self.what);
        }
    }
}
