//! [`Prepared`]: a transaction that stops before its commit, because a caller decides the outcome.

use std::fmt;

use latchwork_coherence::LineLocks;
use latchwork_history::Record;
use latchwork_wal::{LogRecord, Timestamp, WalError};

use super::Transaction;
use super::finisher::{Last, Phase};
use crate::{Database, Scheme, TxnError};

/// A transaction that is ready to commit. The written rows are locked and have room for their new
/// values, and the new rows are pending. The transaction still has to be
/// [validated](Prepared::validate). After that, [`commit`](Prepared::commit) fails only if memory
/// fails.
///
/// Transactions of several parts use it, for example over several logs. All parts together are
/// serializable under one rule. Every part is prepared before the first part that [needs
/// it](Prepared::needs_validation) is validated. Then there is one moment at which everything that
/// the parts read and write is as they saw it, as in [one transaction](Transaction).
///
/// Dropping it aborts it, unless it is [sealed](Prepared::seal).
pub struct Prepared<M: LineLocks> {
    last: Last<M>,
}

impl<M: LineLocks> Transaction<M> {
    /// Does what a commit does before the validation.
    ///
    /// # Errors
    /// As [`commit`](Transaction::commit). After an error everything is undone.
    pub async fn prepare(mut self) -> Result<Prepared<M>, TxnError> {
        let mut last = self.take_last()?;
        let announced = last.stage_rows().await;
        let mut prepared = Prepared { last };
        prepared.undo_if(announced).await?;
        Ok(prepared)
    }
}

impl<M: LineLocks> Prepared<M> {
    /// Whether it writes anything.
    pub fn has_writes(&self) -> bool {
        self.last.state().is_some_and(|state| !state.writes.is_empty())
    }

    /// Whether something that it has read may still change. Under the optimistic scheme these are
    /// rows that it has not locked. Under the two schemes that record leaves, these are also leaves
    /// of scans and of lookups that found no row. If not, it may be validated at once,
    /// independently of other parts.
    pub fn needs_validation(&self) -> bool {
        let Some(state) = self.last.state() else { return false };
        let locked = |read: &super::state::Read| {
            state.writes_line(state.table(read.table).heap().line_of(read.id))
        };
        match self.last.database().scheme() {
            Scheme::TimestampOrdering => false,
            Scheme::TwoPhaseLocking => !state.leaves.is_empty(),
            Scheme::Optimistic => !state.leaves.is_empty() || !state.reads.iter().all(locked),
        }
    }

    /// Checks that everything that it has read is unchanged.
    ///
    /// # Errors
    /// Conflicts; memory failures. After an error everything is undone.
    pub async fn validate(&mut self) -> Result<(), TxnError> {
        let validated = self.last.validate().await;
        self.undo_if(validated).await
    }

    /// Returns a timestamp above all versions that it has read or overwrites. The transaction may
    /// commit at this timestamp or at any higher one. Under timestamp ordering the result is its
    /// own timestamp, the only possible one.
    ///
    /// # Errors
    /// [`TxnError::ClockExhausted`].
    pub fn propose(&mut self) -> Result<Timestamp, TxnError> {
        let floor = self.last.state().ok_or(TxnError::Doomed)?.floor;
        let clock = self.last.database().node().clock();
        match self.last.database().scheme() {
            Scheme::TimestampOrdering => {
                let ts = self.last.state().ok_or(TxnError::Doomed)?.ts;
                clock.raise(ts);
                Ok(ts)
            }
            _ => clock.draw(floor),
        }
    }

    /// Adds its writes to a log record.
    ///
    /// # Errors
    /// [`WalError::TooLarge`].
    pub fn put_into(&self, group: &mut LogRecord) -> Result<(), WalError> {
        self.last.state().map_or(Ok(()), |state| Database::<M>::put_into(state, group))
    }

    /// Seals it: from now on, dropping it leaves its rows locked until a restart, because the
    /// caller decides the outcome.
    pub fn seal(&mut self) {
        self.last.set_phase(Phase::Prepared { sealed: true });
    }

    /// Takes its record for the history of [recorded](Database::record) transactions. The caller
    /// finishes the record, as that of the whole transaction.
    pub fn take_record(&mut self) -> Record {
        self.last.take_record()
    }

    /// Makes its writes visible at `cts`, which is at least the [proposed](Prepared::propose)
    /// timestamp. The caller is responsible for the log. If this future is dropped or fails, a task
    /// continues the work.
    ///
    /// # Errors
    /// Memory failures.
    pub async fn commit(mut self, cts: Timestamp) -> Result<Timestamp, TxnError> {
        self.last.database().node().clock().raise(cts);
        self.last.set_phase(Phase::Installing { cts, released: false });
        self.last.run().await
    }

    /// Undoes everything, sealed or not. If this future is dropped, or if other transactions or
    /// memory prevent the undo, a task continues the work. [`Health`](crate::Health) reports what
    /// holds the task up.
    pub async fn abort(mut self) {
        self.last.set_phase(Phase::Undoing(None));
        // The task meets the error again.
        let _ = self.last.run().await;
    }

    /// Undoes everything after an error, and returns the error.
    async fn undo_if(&mut self, result: Result<(), TxnError>) -> Result<(), TxnError> {
        let Err(error) = result else {
            self.last.set_phase(Phase::Prepared { sealed: false });
            return Ok(());
        };
        self.last.set_phase(Phase::Undoing(Some(error)));
        self.last.run().await.map(drop)
    }
}

impl<M: LineLocks> fmt::Debug for Prepared<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Prepared");
        if let Some(state) = self.last.state() {
            out.field("locks", &state.locks.len()).field("writes", &state.writes.len());
        }
        out.finish_non_exhaustive()
    }
}
