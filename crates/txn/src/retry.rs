//! Trying a transaction again that has met others.

use std::time::Duration;

use latchwork_coherence::LineLocks;

use crate::{Database, Timestamp, Transaction, TxnError};

/// How often the pause doubles.
const DOUBLINGS_MAX: u32 = 16;

impl<M: LineLocks> Database<M> {
    /// Runs a transaction and commits it; again, if it meets others, with growing random pauses. `body` may run
    /// often, so it must have no effect but by the transaction, and its result.
    ///
    /// An error of `body` that is no conflict aborts the transaction and is returned, if what was read by then is
    /// [true](Transaction::validate); otherwise the transaction is tried again.
    ///
    /// # Errors
    /// Those of `body` and of the commit; [`TxnError::Contended`] after
    /// [`Settings::retry_for`](crate::Settings::retry_for).
    pub async fn run<R>(
        &self,
        mut body: impl AsyncFnMut(&mut Transaction<M>) -> Result<R, TxnError>,
    ) -> Result<R, TxnError> {
        let handle = self.memory().handle();
        let begin = handle.now();
        let deadline = begin + self.node().settings().retry_for;
        let mut attempts = 0;
        loop {
            let conflict = match self.attempt(&mut body).await {
                Err(TxnError::Conflict(conflict)) => conflict,
                other => return other.map(|(result, _)| result),
            };
            attempts += 1;
            if handle.now() >= deadline {
                let waited = handle.now() - begin;
                return Err(TxnError::Contended { attempts, waited, last: conflict });
            }
            handle.sleep(self.pause(attempts)).await;
        }
    }

    /// Runs a transaction and commits it, once. Returns what `body` does, and the commit's timestamp.
    ///
    /// # Errors
    /// Conflicts: it may be tried again. Else as [`run`](Database::run).
    pub async fn attempt<R>(
        &self,
        mut body: impl AsyncFnMut(&mut Transaction<M>) -> Result<R, TxnError>,
    ) -> Result<(R, Timestamp), TxnError> {
        let mut transaction = self.begin().await?;
        let error = match body(&mut transaction).await {
            Ok(result) => return transaction.commit().await.map(|cts| (result, cts)),
            Err(error) => error,
        };
        // What another error is about may never have been so.
        match (error.conflict(), transaction.validate().await) {
            (None, Err(TxnError::Conflict(conflict))) => Err(conflict.into()),
            _ => Err(error),
        }
    }

    /// How long to wait before a transaction is tried again that has been tried so often.
    pub fn pause(&self, attempts: u32) -> Duration {
        let settings = self.node().settings();
        let doubled = settings.pause.saturating_mul(1 << attempts.min(DOUBLINGS_MAX));
        let most = doubled.min(settings.pause_max).as_nanos() as u64;
        Duration::from_nanos(self.memory().handle().random_below(most.max(1)))
    }
}
