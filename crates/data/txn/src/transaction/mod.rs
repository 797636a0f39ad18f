//! [`Transaction`]: reads and writes of rows that take effect together, or not at all.
//!
//! ```text
//!   begin ──► get, scan ──► insert, update, delete ──► commit
//!                │                │ buffered              │
//!   2PL  lock to read       lock to write                 │            lock what is written, in the lines' order
//!   TO   leave a stamp      leave a stamp                 ├─ prepare:  room for rows that grow; new rows pending,
//!   OCC  remember           remember                      │            their entries in the indexes; stamps (TO)
//!                                                         ├─ validate: leaves (2PL, OCC), rows (OCC)
//!                                                         ├─ log:      one group, lasting
//!                                                         └─ install:  rows, unlock, new rows
//! ```
//!
//! # Why it is serializable
//!
//! Everything that a transaction writes it has locked from before it validates until it is
//! installed, and new rows are pending as long; whoever meets either gives way. So at the moment in
//! which its validation begins all that it wrote is its own, and what it read is as it was read:
//! under two-phase locking because it is locked, optimistically because it is looked at again
//! ([`Heap::unchanged_step`](crate::Heap)). The order of these moments is one in which transactions
//! could have run one by one. Under timestamp ordering it is that of the timestamps: a row has the
//! timestamp of its writer, its page the highest one of a reader, and who comes with an earlier one
//! aborts.
//!
//! **Phantoms.** A look for what is not there, or at a range, is a read of index leaves. A leaf has
//! a *structure* stamp, which changes with every entry that comes or goes. Entries of new rows are
//! entered before the validation. So of two transactions that look where the other adds, at least
//! one finds a stamp that has changed, or an entry that leads to a pending row. Under timestamp
//! ordering the leaf has a read stamp, which earlier inserts respect.
//!
//! **No deadlocks.** Nobody waits for a lock as such. Who holds one waits for no line that another
//! node's transaction has locked, until it is logged; index pages are never locked, and new rows
//! are published when all locks are released. A row that has outgrown its page stands in a line
//! that others may have locked since: when it is installed it takes another place, and waits for
//! that line only if memory has no other.
//!
//! **Cancellation.** Dropped before anything of it could be met, a commit leaves nothing. Dropped
//! before it is appended to the log, it is taken back by a task of its own, and from then on
//! finished by one, whoever waits for it.

mod announce;
mod change;
mod commit;
mod early;
mod gone;
mod here;
mod last;
mod later;
mod look;
mod many;
mod prepared;
mod range;
mod scan;
mod state;

use std::fmt;
use std::sync::Arc;

use latchwork_coherence::LineLocks;
use latchwork_history::Outcome;
use latchwork_wal::Timestamp;

use crate::{Database, TxnError};
pub use many::Values;
pub use prepared::Prepared;
pub use range::Range;
pub(crate) use state::State;

/// A transaction of one worker. Dropped, it is aborted.
///
/// What it writes nobody sees before it commits, but for itself. An error that is a
/// [conflict](TxnError::conflict) says that it has met others and is to be tried again as a whole,
/// which [`Database::run`] does.
pub struct Transaction<M: LineLocks> {
    database: Database<M>,
    /// `None` once it has ended.
    state: Option<Box<State<M>>>,
    /// While it is held, a checkpoint waits that has begun since.
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

    /// Timestamp ordering: what is allowed to it beyond the rules, see
    /// [`Retry::begin`](crate::Retry::begin).
    pub(crate) fn allow(&mut self, lease: u64, may_move: bool) {
        if let Some(state) = self.state.as_deref_mut() {
            (state.lease, state.may_move) = (lease, may_move);
        }
    }

    /// Finds out whether what it has read so far is as it was: whether there is a moment at which
    /// all of it was true. For whoever acts on it without committing; an optimistic transaction may
    /// have read pieces that do not fit together, one by timestamps such of what it has read to be
    /// written, and where commits [release early](crate::Settings::early_release), any may have
    /// read what a crash takes back: this waits until it is lasting.
    ///
    /// # Errors
    /// Conflicts; [`TxnError::NotLasting`]; when memory fails.
    pub async fn validate(&mut self) -> Result<(), TxnError> {
        let (database, state) = self.alive()?;
        let validated = async {
            database.validate(state).await?;
            database.lasting_reads(state).await
        };
        let validated = validated.await;
        self.doom(validated)
    }

    /// Ends the transaction without a trace. Dropping it does the same.
    pub fn abort(self) {
        drop(self);
    }

    /// Its timestamp, under timestamp ordering.
    pub fn timestamp(&self) -> Timestamp {
        self.state.as_ref().map_or(Timestamp::ZERO, |state| state.ts)
    }

    /// What it knows, as long as it can go on.
    fn alive(&mut self) -> Result<(&Database<M>, &mut State<M>), TxnError> {
        match self.state.as_deref_mut() {
            Some(state) if !state.doomed => Ok((&self.database, state)),
            _ => Err(TxnError::Doomed),
        }
    }

    /// Sees to it that nothing but an abort follows an error that may have left the transaction
    /// half way.
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
            self.database.end_record(&mut state, Outcome::Aborted { cts: 0 });
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
