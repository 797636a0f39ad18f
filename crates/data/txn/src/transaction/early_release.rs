//! Early lock release: a commit that is in the log but not yet durable lets other transactions of
//! its node use its lines.
//!
//! ```text
//!               append ──► rows written ──► node locks ──► durable ──► unlock, publish ──► return
//!   this node   │ locked                    │ its transactions use it  │ all visible
//!   other nodes │ locked, new rows pending  │ locked, new rows pending │ all visible
//! ```
//!
//! # Why a crash takes back nothing that a caller has received
//!
//! The log of a node holds its commits in the order of their appends, and a crash leaves a prefix
//! of the log.
//!
//! - **Transactions that write.** Let T have read a write of another transaction of its node. The
//!   log record of that other transaction was appended earlier. So the log record of T comes later
//!   in the log. The commit of T returns when the log record of T is durable. At that time the
//!   earlier log record is durable, too.
//! - **Transactions that only read** have no log record. After its validation, such a transaction
//!   checks the lines that it has read. If a line still has a [node
//!   lock](LineLocks::convert_to_node_lock), the transaction waits until the log is durable up to
//!   its present end. If no line has one, everything that it read is durable. The same rule holds
//!   where a caller learns something without a commit: for
//!   [`Transaction::validate`](super::Transaction::validate), for an `Exists` at the commit, and
//!   for the parts of a transaction over several nodes.
//! - **Other nodes** see such a commit like any commit that waits for its log. The lines of the
//!   commit are locked. The new rows are pending, and index entries lead to these rows. The purge
//!   removes entries, so the purge waits until the line has no node lock. So no commit of another
//!   node, and no row that another node has locked, depends on a log record that this node may
//!   still lose.
//! - **Checkpoints** wait for the logs after they have read the rows.
//!
//! A log record on which other transactions may depend cannot be undone, so the log does not refuse
//! it after the append
//! ([`append_for_early_release`](latchwork_wal::Log::append_for_early_release)). When the log
//! fails, lines keep their node locks until a restart. A transaction that writes then gets an error
//! from the log. A transaction that has read such lines gets [`TxnError::NotDurable`].

use latchwork_coherence::LineLocks;
use latchwork_strict::strict_assert;
use latchwork_wal::WalError;

use super::in_phase::{InPhase, Parts};
use super::phases::Logged;
use super::state::State;
use crate::{Database, TxnError};

impl<M: LineLocks> InPhase<M, Logged> {
    /// Writes the rows of a commit that is in the log, and turns its locks into node locks. May be
    /// called again after it failed or was dropped.
    pub(super) async fn release_early(&mut self) -> Result<(), TxnError> {
        strict_assert!(self.phase.position.is_some(), "a lock is released before the log append");
        let cts = self.phase.cts;
        let Parts { database, state, .. } = self.parts_mut();
        state.install(database, cts).await?;
        for held in &mut state.locks {
            database.memory().convert_to_node_lock(&mut held.lock);
        }
        Ok(())
    }
}

impl<M: LineLocks> State<M> {
    /// Waits until everything that the transaction has read is durable.
    ///
    /// # Errors
    /// [`TxnError::NotDurable`].
    pub(super) async fn durable_reads(&self, database: &Database<M>) -> Result<(), TxnError> {
        let Some(log) = database.node().log().filter(|_| database.releases_early()) else {
            return Ok(());
        };
        let is_young = |read: &super::state::Read| {
            let line = self.table(read.table).heap().line_of(read.id);
            database.memory().has_node_lock(line, &read.hint)
        };
        if !self.reads.iter().any(is_young) {
            return Ok(());
        }
        let Some(end) = log.end().map_err(TxnError::not_durable)? else { return Ok(()) };
        let handle = database.memory().handle();
        let deadline = handle.now() + database.node().settings().log_deadline;
        match log.durable(handle, &end, deadline).await {
            // The log refuses only flush batches on which no other transaction depends. Each
            // earlier record on which a transaction may depend is durable.
            Ok(()) | Err(WalError::Refused { .. }) => Ok(()),
            Err(error) => Err(TxnError::not_durable(error)),
        }
    }
}
