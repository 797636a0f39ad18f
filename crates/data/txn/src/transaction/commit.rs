//! The commit of a transaction: one step after the other.

use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_wal::Timestamp;

use super::Transaction;
use super::in_phase::{InPhase, Parts};
use super::phases::{Active, Decision, Rest};
use crate::TxnError;

impl<M: LineLocks> Transaction<M> {
    /// Makes the writes visible and, with a log that syncs, durable. With an asynchronous log the
    /// writes become durable later. Returns the commit timestamp. For a transaction that wrote
    /// nothing, this is the highest timestamp that it read.
    ///
    /// If this future is dropped, the transaction may commit or abort, and the caller does not
    /// learn which. A wait for an appended log record beyond
    /// [`TransactionSettings::log_deadline`](crate::TransactionSettings::log_deadline) is
    /// [`TxnError::InDoubt`], and the transaction may still commit later.
    ///
    /// # Errors
    /// Conflicts; [`TxnError::Exists`] when a row would have the key of another row, in a unique
    /// index or as a row that was inserted without a lookup; [`TxnError::Doomed`];
    /// [`TxnError::NotLogged`]; [`TxnError::InDoubt`]; [`TxnError::NotDurable`];
    /// [`TxnError::ClockExhausted`]; memory or an index that fails, or memory that is full.
    ///
    /// After an error the transaction has no effect, with these exceptions. After `InDoubt` the
    /// outcome is unknown. A transaction that has committed may also return [`TxnError::Corrupt`],
    /// [`TxnError::Starved`] or [`TxnError::Tree`], when the install fails. A task then continues
    /// the install.
    pub async fn commit(mut self) -> Result<Timestamp, TxnError> {
        let staged = self.begin_end()?.stage().await?;
        let validated = staged.validate().await?;
        match validated.log().await? {
            Decision::Logged(logged) => Rest::Logged(logged).complete().await,
            Decision::ReadOnly(cts) => Ok(cts),
        }
    }

    /// Begins the end of the transaction, which takes no further reads and writes.
    pub(super) fn begin_end(&mut self) -> Result<InPhase<M, Active>, TxnError> {
        self.alive()?;
        let Some(mut state) = self.state.take() else { return Err(TxnError::Doomed) };
        if !self.database.node().settings().rules.keeps_read_locks {
            state.locks.retain(|held| held.mode == AccessMode::Exclusive);
        }
        let (database, generation) = (self.database.clone(), self.generation.clone());
        Ok(InPhase::enter(Parts { database, state, generation, attempts: None }, Active))
    }
}

impl<M: LineLocks> Rest<M> {
    /// Takes all remaining steps for a caller that waits. If one fails, a task continues the work.
    /// A memory failure after the commit is no error for the caller.
    pub(super) async fn complete(self) -> Result<Timestamp, TxnError> {
        let stopped = match self.run().await {
            Ok(cts) => return Ok(cts),
            Err(stopped) => *stopped,
        };
        // `memory` finds a memory failure inside an index error, too. An error could make the
        // caller run the committed transaction again.
        match stopped.rest.as_ref().and_then(Rest::committed) {
            Some(cts) if stopped.error.memory().is_some() => Ok(cts),
            _ => Err(stopped.error),
        }
    }
}
