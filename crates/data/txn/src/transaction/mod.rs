//! [`Transaction`]: reads and writes of rows that take effect together, or not at all.
//!
//! ```text
//!   begin ──► get, scan ──► insert, update, delete ──► commit
//!                │                │ buffered           ├─ lock the written rows, by line address
//!   2PL  lock to read       lock to write              ├─ prepare:  room for rows that grow
//!   TO   raise read ts      raise read ts              ├─ stage:    pending rows, index entries
//!   OCC  record             record                     ├─ validate: leaves 2PL/OCC, rows TO/OCC
//!                                                      ├─ log:      one log record, durable
//!                                                      └─ install:  rows, unlock, new rows
//! ```
//!
//! # Why it is serializable
//!
//! 1. A transaction locks everything that it overwrites before it validates, and unlocks it after
//!    the install. The new rows of the transaction are pending from the staging until after the
//!    unlock.
//! 2. A transaction that meets such a lock or pending row aborts, at the latest in its validation.
//! 3. So when the validation begins, no other transaction can change the rows that this transaction
//!    writes.
//! 4. At that moment the rows that it read are unchanged. Under two-phase locking they are locked.
//!    Under the optimistic scheme the validation reads them again after that moment
//!    ([`Heap::unchanged_step`](crate::Heap)).
//! 5. So the order of these moments is a serial order of the transactions.
//!
//! Under timestamp ordering the serial order is the order of the timestamps. A row carries the
//! timestamp of its writer. Its page carries a read timestamp that is at least the highest
//! timestamp of a reader. A transaction with an earlier timestamp takes a later one (see
//! `later_timestamp`), or aborts.
//!
//! **Phantoms.**
//!
//! 1. A scan, or a lookup that finds no row, is a read of index leaves.
//! 2. The *structure number* of a leaf changes with every entry that is added or removed.
//! 3. The entries of new rows are added before the validation.
//! 4. So if each of two transactions reads a range into which the other adds, at least one of them
//!    meets the other. That transaction finds a changed structure number, or an entry that leads to
//!    a pending row.
//!
//! Under timestamp ordering the leaf has a read timestamp. An insert with an earlier timestamp
//! takes a later one, or aborts.
//!
//! **No deadlocks.**
//!
//! 1. A transaction that asks for a locked line gets a conflict, and does not wait for the unlock.
//! 2. Before its log append, a transaction that holds a lock waits for no line that a transaction
//!    of another node has locked.
//! 3. Index pages are never locked.
//! 4. New rows are published after all locks are released.
//! 5. A row that has outgrown its page stands in another line, which another transaction may have
//!    locked since. If so, the install moves the row to a new location.
//! 6. If no new location can be had, the install waits for the line, and does so under locks. The
//!    wait ends at the deadline of the memory, and a task tries again.
//!
//! **Cancellation.** A commit that is dropped before it has placed or entered anything leaves
//! nothing. A commit that is dropped before the log append is undone by a task of its own. A commit
//! that is dropped, or fails, after the log append gets a task of its own, too. That task finishes
//! the commit, or undoes it if the log has refused the log record. `phases` has the exceptions.

mod abandoned;
mod abort;
mod begin;
mod change;
mod commit;
mod early_release;
mod entries;
mod fast_read;
mod finisher;
mod in_phase;
mod install;
mod later_timestamp;
mod log;
mod look;
mod many;
mod new_rows;
mod phases;
mod prepared;
mod range;
mod scan;
mod scratch;
mod stage;
mod stale_entries;
mod state;
mod validate;

use std::fmt;
use std::sync::Arc;

use latchwork_coherence::LineLocks;
use latchwork_record::TransactionOutcome;
use latchwork_wal::Timestamp;

use crate::{Database, TxnError};
pub use many::Values;
pub use prepared::{Prepared, Validated};
pub use range::Range;
pub(crate) use state::State;

/// A transaction of one worker. Dropping this value aborts the transaction.
///
/// No other transaction sees its writes before its validation and its log append. An error that is
/// a [conflict](TxnError::conflict) means that another transaction is in the way. After a conflict
/// the transaction must be aborted, and may be repeated as a whole. [`Database::run`] repeats it.
pub struct Transaction<M: LineLocks> {
    database: Database<M>,
    /// `None` after the end of the transaction.
    state: Option<Box<State<M>>>,
    /// A checkpoint that begins later waits until this value is dropped.
    generation: Arc<()>,
}

impl<M: LineLocks> Transaction<M> {
    pub(crate) fn begin(
        database: Database<M>,
        ts: Timestamp,
        generation: Arc<()>,
    ) -> Transaction<M> {
        let mut state = database.take_state();
        state.ts = ts;
        state.record = database.begin_record();
        Transaction { database, state: Some(state), generation }
    }

    /// Sets the read lease, and whether the timestamp may move, under timestamp ordering: see
    /// [`Retry::begin`](crate::Retry::begin).
    pub(crate) fn allow(&mut self, lease: u64, may_move: bool) {
        if let Some(state) = self.state.as_deref_mut() {
            (state.lease, state.may_move) = (lease, may_move);
        }
    }

    /// Checks that there is a moment at which everything that the transaction has read so far was
    /// true.
    ///
    /// A caller needs this check before it acts on its reads without a commit:
    ///
    /// - An optimistic transaction may have read rows of different moments, which are inconsistent
    ///   together.
    /// - Under timestamp ordering the same holds for rows that were read to be written.
    /// - Where commits [release early](crate::TransactionSettings::early_release), the reads may be
    ///   of commits of this node that a crash can still take back. This function waits until those
    ///   reads are durable.
    ///
    /// # Errors
    /// Conflicts; [`TxnError::NotDurable`]; [`TxnError::Doomed`]; memory and index failures.
    pub async fn validate(&mut self) -> Result<(), TxnError> {
        let (database, state) = self.alive()?;
        let validated = async {
            state.validate(database).await?;
            state.durable_reads(database).await
        };
        let validated = validated.await;
        self.doom(validated)
    }

    /// Aborts the transaction, as dropping it does. Read timestamps that it has raised stay.
    pub fn abort(self) {
        drop(self);
    }

    /// The timestamp of the transaction under timestamp ordering, and zero under the other schemes.
    pub fn timestamp(&self) -> Timestamp {
        self.state.as_ref().map_or(Timestamp::ZERO, |state| state.ts)
    }

    /// The database and the state; [`TxnError::Doomed`] if the transaction can only be aborted.
    fn alive(&mut self) -> Result<(&Database<M>, &mut State<M>), TxnError> {
        match self.state.as_deref_mut() {
            Some(state) if !state.doomed => Ok((&self.database, state)),
            _ => Err(TxnError::Doomed),
        }
    }

    /// Permits only an abort after an error, with the exception of errors that leave the
    /// transaction unchanged.
    fn doom<T>(&mut self, result: Result<T, TxnError>) -> Result<T, TxnError> {
        if let (Err(error), Some(state)) = (&result, self.state.as_deref_mut()) {
            let harmless = matches!(
                error,
                TxnError::Exists
                    | TxnError::NotFound
                    | TxnError::RowTooLong { .. }
                    | TxnError::OutsideValue { .. }
                    | TxnError::Schema(_)
            );
            state.doomed |= !harmless;
        }
        result
    }
}

impl<M: LineLocks> Drop for Transaction<M> {
    fn drop(&mut self) {
        if let Some(mut state) = self.state.take() {
            self.database.end_record(&mut state, TransactionOutcome::Aborted { cts: 0 });
            self.database.give_back(state);
        }
    }
}

impl<M: LineLocks> fmt::Debug for Transaction<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = f.debug_struct("Transaction");
        if let Some(state) = &self.state {
            out.field("ts", &state.ts).field("locks", &state.locks.len());
            out.field("reads", &state.reads.len()).field("writes", &state.writes.len());
        }
        out.finish_non_exhaustive()
    }
}
