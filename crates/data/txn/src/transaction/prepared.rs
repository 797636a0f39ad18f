//! [`Prepared`]: a transaction that stops before its commit, since others have a say in it.

use std::fmt;

use latchwork_coherence::LineLocks;
use latchwork_history::Record;
use latchwork_wal::{Group, Timestamp, WalError};

use super::Transaction;
use super::last::{Last, Phase};
use crate::{Database, Scheme, TxnError};

/// A transaction whose rows to write are locked, with room for what they become, and whose new rows
/// are pending: what is left is to [validate](Prepared::validate) it, and then
/// [`commit`](Prepared::commit) cannot fail but for memory.
///
/// For a transaction of several parts, such as one over several logs. It is serializable if every
/// part has been prepared before the first of those that [need it](Prepared::needs_validation) is
/// validated: from then on, all that the parts read and write is as they saw it in one moment, as
/// in [one transaction](Transaction).
///
/// Dropped, it is aborted, unless it is [sealed](Prepared::seal).
pub struct Prepared<M: LineLocks> {
    last: Last<M>,
}

impl<M: LineLocks> Transaction<M> {
    /// Does what a commit does up to the validation.
    ///
    /// # Errors
    /// As [`commit`](Transaction::commit), which takes everything back.
    pub async fn prepare(mut self) -> Result<Prepared<M>, TxnError> {
        let mut last = self.take_last()?;
        let announced = last.announce().await;
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

    /// Whether something that it has read may still change: rows that it has not locked
    /// (optimistic), or leaves that it has found something missing in. If not, it may be validated
    /// at once, whatever other parts do.
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

    /// Finds out whether what it has read is as it was.
    ///
    /// # Errors
    /// Conflicts, and when memory fails: then everything is taken back.
    pub async fn validate(&mut self) -> Result<(), TxnError> {
        let validated = self.last.validate().await;
        self.undo_if(validated).await
    }

    /// A timestamp above all that it has read and is to overwrite: it may commit at this one or any
    /// higher one. Under timestamp ordering, its timestamp, which is the only one.
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

    /// Adds what it writes to a group of the log.
    ///
    /// # Errors
    /// [`WalError::TooLarge`].
    pub fn put_into(&self, group: &mut Group) -> Result<(), WalError> {
        self.last.state().map_or(Ok(()), |state| Database::<M>::put_into(state, group))
    }

    /// From now on, dropping it leaves its rows locked until a restart: what becomes of it, others
    /// decide.
    pub fn seal(&mut self) {
        self.last.set_phase(Phase::Prepared { sealed: true });
    }

    /// Its place in the history of the [recorded](Database::record) transactions: the caller
    /// finishes it, as that of a transaction of which this one is a part.
    pub fn take_record(&mut self) -> Record {
        self.last.take_record()
    }

    /// Makes what it wrote visible, at a timestamp that is at least what it has
    /// [proposed](Prepared::propose). The log is the caller's business. If this future is dropped
    /// or fails, a task of its own goes on with it.
    ///
    /// # Errors
    /// When memory fails.
    pub async fn commit(mut self, cts: Timestamp) -> Result<Timestamp, TxnError> {
        self.last.database().node().clock().raise(cts);
        self.last.set_phase(Phase::Installing { cts, released: false });
        self.last.run().await
    }

    /// Takes everything back, sealed or not. If this future is dropped, or other transactions or
    /// memory are in the way, a task of its own goes on with it; [`Health`](crate::Health) tells
    /// what holds it up.
    pub async fn abort(mut self) {
        self.last.set_phase(Phase::Undoing(None));
        // The task has the error again.
        let _ = self.last.run().await;
    }

    /// Takes everything back after an error, and gives the error back.
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
