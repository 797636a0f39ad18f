//! [`Steps`]: the steps of an opening. Workers begin a step after all workers of the process have
//! ended the previous one.

use latchwork_runtime::Handle;
use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_strict::strict_assert;

use crate::{DatabaseOpenError, Wait};

/// The steps of an opening.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// The first worker has found the name free, or a database that the instance may share.
    Free,
    /// The first worker has made the database, and all workers have opened it.
    Made,
    /// All workers have restored rows.
    Rows,
    /// All workers have built indexes.
    Indexes,
    /// The first worker has made the missing tables.
    Tables,
}

/// The progress of the workers of an instance.
#[derive(Default, Debug)]
pub(crate) struct Steps {
    ended: [AtomicUsize; 5],
    /// The first error of any worker.
    failed: Mutex<Option<String>>,
}

impl Steps {
    /// Ends a step on this worker, and waits until `workers` have ended it.
    pub(crate) async fn end(
        &self,
        step: Step,
        workers: usize,
        handle: &Handle,
        wait: &Wait<'_>,
    ) -> Result<(), DatabaseOpenError> {
        self.pass(step);
        let what = || {
            let ended = self.ended[step as usize].load(Ordering::Relaxed);
            format!("{ended} of {workers} workers ended the step {step:?}")
        };
        self.reached(step, workers, handle, wait, what).await
    }

    /// Ends a step on this worker, without a wait.
    pub(crate) fn pass(&self, step: Step) {
        strict_assert!((step as usize) < self.ended.len(), "a step that is not counted");
        // Release pairs with the Acquire in `is_over`. So workers that begin the next step see the
        // writes of this worker to memory of this process. Rows and indexes are in coherent memory,
        // which orders its own accesses.
        self.ended[step as usize].fetch_add(1, Ordering::Release);
    }

    /// Waits until `workers` have ended a step. `what` gives the text of a timeout error.
    pub(crate) async fn reached(
        &self,
        step: Step,
        workers: usize,
        handle: &Handle,
        wait: &Wait<'_>,
        what: impl Fn() -> String,
    ) -> Result<(), DatabaseOpenError> {
        let all = async || {
            self.check()?;
            Ok(self.is_over(step, workers).then_some(()))
        };
        wait.until(handle, what, all).await
    }

    /// Whether `workers` have ended a step.
    pub(crate) fn is_over(&self, step: Step, workers: usize) -> bool {
        self.ended[step as usize].load(Ordering::Acquire) >= workers
    }

    /// Notes an error for the other workers. Only the first error is kept.
    pub(crate) fn fail(&self, error: &DatabaseOpenError) {
        if !matches!(error, DatabaseOpenError::Elsewhere { .. } | DatabaseOpenError::Stopped) {
            self.failed.lock().get_or_insert_with(|| error.to_string());
        }
    }

    /// Returns a guard. If the guard is dropped before it is [lifted](Guard::lift), the error text
    /// `what` is noted. This happens when the future that holds the guard is dropped, or the thread
    /// of its worker panics.
    pub(crate) fn guard<F: Fn() -> String>(&self, what: F) -> Guard<'_, F> {
        Guard { steps: self, what, is_lifted: false }
    }

    /// Whether any worker has failed.
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.lock().is_some()
    }

    /// Returns the first error of any worker.
    pub(crate) fn check(&self) -> Result<(), DatabaseOpenError> {
        match &*self.failed.lock() {
            Some(cause) => Err(DatabaseOpenError::Elsewhere { cause: cause.clone() }),
            None => Ok(()),
        }
    }
}

/// A guard of [`Steps::guard`].
pub(crate) struct Guard<'a, F: Fn() -> String> {
    steps: &'a Steps,
    what: F,
    is_lifted: bool,
}

impl<F: Fn() -> String> Guard<'_, F> {
    /// Ends the guard without an error.
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
