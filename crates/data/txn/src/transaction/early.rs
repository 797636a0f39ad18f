//! Early release: a commit that is in the log, and not lasting yet, makes way for others of its
//! node.
//!
//! ```text
//!                 append ──► rows written ──► locks: detained ──► lasting ──► lines let go, new rows live ──► told
//!   this node      │ locked                    │ others read and write them     │ everything seen
//!   other nodes    │ locked, pending           │ locked, pending                │ everything seen
//! ```
//!
//! # Why a crash takes nothing back that anybody was told
//!
//! The log of a node has its commits in the order of their appends, and a crash leaves a beginning
//! of it.
//!
//! - **Those who write.** What a transaction of this node has seen of another was appended before,
//!   so its own group comes behind that one's. It is told when its own is lasting, and then so is
//!   the other.
//! - **Those who only read** have no group. If a line that they have read is still
//!   [detained](LineLocks::detain) when they have been validated, they wait for the end of the log.
//!   If it is not, all that was seen in it is lasting. The same holds for whoever is told something
//!   without a commit: [`Transaction::validate`](super::Transaction::validate), an `Exists`, and
//!   the parts of a transaction over several nodes.
//! - **Other nodes** see of such a commit what they see of any that waits for its log: lines are
//!   locked, new rows pending, and entries of indexes lead to these. What makes an entry go, the
//!   purge, waits until the line is not detained. So no log has what builds on another log's loss,
//!   and no row that a node has locked builds on it either.
//! - **Checkpoints** wait for the logs after they have read the rows.
//!
//! A group on which others may have built cannot be taken back, so the log never refuses it
//! ([`append_to_build_on`](latchwork_wal::Log::append_to_build_on)). When the log fails, lines stay
//! detained until a restart: who writes is told that the log takes nothing, and who has read them,
//! that it may not last.

use latchwork_coherence::LineLocks;
use latchwork_wal::{Timestamp, WalError};

use super::state::State;
use crate::{Database, TxnError};

impl<M: LineLocks> Database<M> {
    /// Writes the rows of a commit that is in the log, and gives others of this node its locks. May
    /// be called again after it failed or was dropped.
    pub(super) async fn release_early(
        &self,
        state: &mut State<M>,
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        self.install(state, cts).await?;
        for held in &mut state.locks {
            self.memory().detain(&mut held.lock);
        }
        Ok(())
    }

    /// Waits until what the transaction has read, and has found to be so, is lasting.
    ///
    /// # Errors
    /// [`TxnError::NotLasting`].
    pub(super) async fn lasting_reads(&self, state: &State<M>) -> Result<(), TxnError> {
        let Some(log) = self.node().log().filter(|_| self.releases_early()) else {
            return Ok(());
        };
        let is_young = |read: &super::state::Read| {
            let line = state.table(read.table).heap().line_of(read.id);
            self.memory().is_detained(line, &read.hint)
        };
        if !state.reads.iter().any(is_young) {
            return Ok(());
        }
        let Some(end) = log.end().map_err(TxnError::not_lasting)? else { return Ok(()) };
        let handle = self.memory().handle();
        let deadline = handle.now() + self.node().settings().log_deadline;
        match log.durable(handle, &end, deadline).await {
            // Nobody builds on a batch that is refused, and what was before it is lasting.
            Ok(()) | Err(WalError::Refused { .. }) => Ok(()),
            Err(error) => Err(TxnError::not_lasting(error)),
        }
    }
}
