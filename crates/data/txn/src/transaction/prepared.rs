//! [`Prepared`] and [`Validated`]: a transaction whose caller decides the outcome.

use std::fmt;

use latchwork_coherence::LineLocks;
use latchwork_record::Record;
use latchwork_strict::strict_assert;
use latchwork_wal::{LogRecord, Timestamp, WalError};

use super::Transaction;
use super::in_phase::{InPhase, Parts, Phase};
use super::phases::{Aborting, Committed, Rest, Staged, StagedPart, ValidatedPart};
use super::state::State;
use crate::{Scheme, TxnError};

/// A transaction that is staged. The written rows are locked and have room for their new values,
/// and the new rows are pending. The next step is to [validate](Prepared::validate) it.
///
/// A transaction of several parts, for example over several logs, prepares each part. All parts
/// together are serializable under one rule: every part is prepared before the first validation of
/// a part that [needs validation](Prepared::needs_validation). So there is one moment at which all
/// reads of all parts are unchanged and all writes are locked, as in [one
/// transaction](Transaction).
///
/// Dropping a `Prepared` aborts the transaction.
pub struct Prepared<M: LineLocks>(InPhase<M, StagedPart>);

/// A [prepared](Prepared) transaction that is validated. From now on no other transaction can
/// prevent its [`commit`](Validated::commit).
///
/// Dropping a `Validated` aborts the transaction, unless it is [sealed](Validated::seal).
pub struct Validated<M: LineLocks>(InPhase<M, ValidatedPart>);

impl<M: LineLocks> Transaction<M> {
    /// Takes the steps of a commit before the validation: locks the written rows, reserves room,
    /// places new rows as pending and adds index entries.
    ///
    /// # Errors
    /// Those of [`commit`](Transaction::commit) before the log append. After an error everything is
    /// undone.
    pub async fn prepare(mut self) -> Result<Prepared<M>, TxnError> {
        let staged = self.begin_end()?.stage().await?;
        staged.into_part().await.map(Prepared)
    }
}

impl<M: LineLocks> InPhase<M, Staged> {
    /// Makes the transaction a part of a larger one.
    async fn into_part(mut self) -> Result<InPhase<M, StagedPart>, TxnError> {
        let Parts { database, state, .. } = self.parts_mut();
        // Other nodes may commit on the basis of these reads, in logs of their own. So the reads
        // must be durable first.
        match state.durable_reads(database).await {
            Ok(()) => {
                state.record_writes();
                Ok(self.next(StagedPart))
            }
            Err(error) => Err(self.abort(error).await),
        }
    }
}

impl<M: LineLocks> Prepared<M> {
    /// Whether it writes anything.
    pub fn has_writes(&self) -> bool {
        !self.0.parts().state.writes.is_empty()
    }

    /// Whether something that the transaction has read may still change. Under the optimistic
    /// scheme these are rows that it has not locked. Under the optimistic scheme and two-phase
    /// locking these are also leaves of scans and of lookups that found no row. Without such reads
    /// the part may be validated at once, independently of other parts.
    pub fn needs_validation(&self) -> bool {
        let Parts { database, state, .. } = self.0.parts();
        let locked = |read: &super::state::Read| {
            state.writes_line(state.table(read.table).heap().line_of(read.id))
        };
        match database.scheme() {
            Scheme::TimestampOrdering => false,
            Scheme::TwoPhaseLocking => !state.leaves.is_empty(),
            Scheme::Optimistic => !state.leaves.is_empty() || !state.reads.iter().all(locked),
        }
    }

    /// Checks that everything that it has read is unchanged.
    ///
    /// # Errors
    /// Conflicts; memory failures. After an error everything is undone.
    pub async fn validate(self) -> Result<Validated<M>, TxnError> {
        self.0.validate().await.map(Validated)
    }

    /// Undoes everything. If this future is dropped, or if other transactions or memory prevent the
    /// undo, a task continues the work. [`Health`](crate::Health) reports what holds the task up.
    pub async fn abort(self) {
        abort(self.0).await;
    }
}

impl<M: LineLocks> Validated<M> {
    /// Whether it writes anything.
    pub fn has_writes(&self) -> bool {
        !self.0.parts().state.writes.is_empty()
    }

    /// Returns a timestamp above all versions that it has read or overwrites. The transaction may
    /// commit at this timestamp or at any higher one. Under timestamp ordering the result is its
    /// own timestamp, the only possible one.
    ///
    /// # Errors
    /// [`TxnError::ClockExhausted`]; [`TxnError::NodeId`].
    pub fn propose(&self) -> Result<Timestamp, TxnError> {
        let Parts { database, state, .. } = self.0.parts();
        let clock = database.node().clock();
        match database.scheme() {
            Scheme::TimestampOrdering => {
                clock.raise(state.ts);
                Ok(state.ts)
            }
            _ => clock.draw(state.floor),
        }
    }

    /// Adds the writes of the transaction to a log record.
    ///
    /// # Errors
    /// [`WalError::TooLarge`].
    pub fn put_into(&self, group: &mut LogRecord) -> Result<(), WalError> {
        self.0.parts().state.put_into(group)
    }

    /// Seals the transaction: from now on, a drop leaves its rows locked until a restart, because
    /// the larger transaction may have committed.
    pub fn seal(&mut self) {
        self.0.phase.sealed = true;
    }

    /// Takes the transaction's record for the history of [recorded](crate::Database::record)
    /// transactions. The caller finishes the record, as that of the whole transaction.
    pub fn take_record(&mut self) -> Record {
        self.0.parts_mut().state.take_record()
    }

    /// Makes the writes of the transaction visible at `cts`, which is at least the
    /// [proposed](Validated::propose) timestamp. The caller is responsible for the log. The
    /// transaction must have [writes](Validated::has_writes). If this future is dropped or fails, a
    /// task continues the work.
    ///
    /// # Errors
    /// [`TxnError::Corrupt`], [`TxnError::Starved`] and [`TxnError::Tree`], although the
    /// transaction has committed. A memory failure is no error here: the result is the commit
    /// timestamp.
    pub async fn commit(self, cts: Timestamp) -> Result<Timestamp, TxnError> {
        let Parts { database, state, .. } = self.0.parts();
        strict_assert!(
            match database.order() {
                true => cts == state.ts,
                false => cts > state.floor,
            },
            "a part commits at a timestamp that it has not proposed"
        );
        database.node().clock().raise(cts);
        let committed = self.0.next(Committed { cts, released: false });
        Rest::Committed(committed).complete().await
    }

    /// Undoes everything, sealed or not, as [`Prepared::abort`] does.
    pub async fn abort(self) {
        abort(self.0).await;
    }
}

async fn abort<M: LineLocks>(part: InPhase<M, impl Phase>) {
    // If the undo fails, a task continues it and meets the error again.
    let _ = part.next(Aborting { cause: None }).undo().await;
}

impl<M: LineLocks> fmt::Debug for Prepared<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show("Prepared", &self.0.parts().state, f)
    }
}

impl<M: LineLocks> fmt::Debug for Validated<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show("Validated", &self.0.parts().state, f)
    }
}

fn show<M: LineLocks>(name: &str, state: &State<M>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let mut out = f.debug_struct(name);
    out.field("locks", &state.locks.len()).field("writes", &state.writes.len());
    out.finish_non_exhaustive()
}
