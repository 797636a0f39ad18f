//! The log append of a commit, and the wait until the log acknowledges its log record.

use latchwork_coherence::LineLocks;
use latchwork_record::TransactionOutcome;
use latchwork_wal::{LogRecord, LogRecordKind, Position, Timestamp, WalError};

use super::in_phase::{InPhase, Parts};
use super::phases::{Aborting, Committed, Decision, Logged, Rest, Stopped, Validated};
use super::state::{Change, State};
use crate::{Database, Scheme, TxnError};

impl<M: LineLocks> InPhase<M, Validated> {
    /// Draws the commit timestamp, and appends the writes of the transaction to the log. Under
    /// timestamp ordering the commit timestamp is the transaction's own. A transaction that wrote
    /// nothing ends here.
    ///
    /// # Errors
    /// [`TxnError::NotLogged`]; [`TxnError::NotDurable`]; [`TxnError::ClockExhausted`];
    /// [`TxnError::NodeId`]. After an error everything is undone.
    pub(super) async fn log(mut self) -> Result<Decision<M>, TxnError> {
        let Parts { database, state, .. } = self.parts_mut();
        if state.writes.is_empty() {
            // The reads are validated, so the locks are no longer needed.
            state.locks.clear();
            if let Err(error) = state.durable_reads(database).await {
                return Err(self.abort(error).await);
            }
            let cts = state.floor;
            let ended = self.end(TransactionOutcome::Committed { cts: cts.0 });
            ended.database.purge_some().await;
            return Ok(Decision::ReadOnly(cts));
        }
        match state.log(database).await {
            Ok(logged) => Ok(Decision::Logged(self.next(logged))),
            Err(error) => Err(self.abort(error).await),
        }
    }
}

impl<M: LineLocks> InPhase<M, Logged> {
    /// Waits until the log acknowledges the log record. With
    /// [`CommitMode::Sync`](latchwork_wal::CommitMode::Sync) the log record is durable then. Under
    /// early lock release the rows are installed before the wait.
    ///
    /// # Errors
    /// [`TxnError::InDoubt`].
    pub(super) async fn wait(mut self) -> Result<Rest<M>, Box<Stopped<M>>> {
        let releases_early = self.parts().database.releases_early();
        if releases_early && !self.phase.released {
            // After an error the rows stay locked, and are installed later, when the log record is
            // durable.
            self.phase.released = self.release_early().await.is_ok();
        }
        let (cts, released) = (self.phase.cts, self.phase.released);
        match self.acknowledged().await {
            Ok(()) => Ok(Rest::Committed(self.next(Committed { cts, released }))),
            Err(error @ WalError::Timeout { .. }) => {
                Err(Stopped::at(Rest::Logged(self), TxnError::in_doubt(error)))
            }
            Err(error @ WalError::Refused { .. }) if !releases_early => {
                let cause = Some(TxnError::not_logged(error));
                Ok(Rest::Aborting(self.next(Aborting { cause })))
            }
            Err(error) => {
                // Only a restart can decide the outcome.
                self.end_locked(TransactionOutcome::Unknown { cts: cts.0 }, &error.to_string());
                Err(Stopped::ended(TxnError::in_doubt(error)))
            }
        }
    }

    async fn acknowledged(&self) -> Result<(), WalError> {
        let database = &self.parts().database;
        let (Some(log), Some(position)) = (database.node().log(), &self.phase.position) else {
            return Ok(());
        };
        let handle = database.memory().handle();
        let deadline = handle.now() + database.node().settings().log_deadline;
        log.acknowledged(handle, position, deadline).await
    }
}

impl<M: LineLocks> State<M> {
    /// Sets the commit timestamp, and appends the writes to the log.
    async fn log(&mut self, database: &Database<M>) -> Result<Logged, TxnError> {
        let clock = database.node().clock();
        let cts = match database.scheme() {
            Scheme::TimestampOrdering => {
                clock.raise(self.ts);
                self.ts
            }
            _ => clock.draw(self.floor)?,
        };
        self.ts = cts;
        self.record_writes();
        let position = self.append(database, cts).await?;
        Ok(Logged { cts, position, released: false })
    }

    async fn append(
        &self,
        database: &Database<M>,
        cts: Timestamp,
    ) -> Result<Option<Position>, TxnError> {
        let Some(log) = database.node().log() else { return Ok(None) };
        let mut group = LogRecord::new(LogRecordKind::Commit, cts);
        self.put_into(&mut group).map_err(TxnError::not_logged)?;
        let handle = database.memory().handle();
        let deadline = handle.now() + database.node().settings().log_deadline;
        loop {
            let appended = match database.releases_early() {
                true => log.append_for_early_release(&group),
                false => log.append(&group),
            };
            match appended {
                Ok(position) => return Ok(Some(position)),
                Err(WalError::Backlog { .. }) => {
                    log.room(handle, deadline).await.map_err(TxnError::not_logged)?;
                }
                Err(error) => return Err(TxnError::not_logged(error)),
            }
        }
    }

    /// Adds the writes of the transaction to a log record.
    pub(super) fn put_into(&self, group: &mut LogRecord) -> Result<(), WalError> {
        self.writes.iter().try_for_each(|write| {
            let (table, key) = (self.table(write.table).id(), self.bytes(&write.key));
            match write.change {
                Change::Put => group.put(table, key, self.bytes(&write.value)),
                _ => group.remove(table, key),
            }
        })
    }
}
