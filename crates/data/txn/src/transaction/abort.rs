//! The undo of a transaction that has failed, or whose caller decides so.

use latchwork_coherence::LineLocks;
use latchwork_record::TransactionOutcome;
use latchwork_strict::strict_assert;

use super::in_phase::{InPhase, Phase};
use super::phases::{Aborting, Rest, Stopped};
use super::state::State;
use crate::heap::Patience;
use crate::{Conflict, TxnError};

impl<M: LineLocks, P: Phase> InPhase<M, P> {
    /// Undoes the transaction after an error, and returns the error.
    pub(super) async fn abort(self, cause: TxnError) -> TxnError {
        strict_assert!(!matches!(cause, TxnError::InDoubt(_)), "a transaction in doubt is undone");
        self.next(Aborting { cause: Some(cause) }).undo().await.error
    }
}

impl<M: LineLocks> InPhase<M, Aborting> {
    /// Undoes everything, and returns the error of the transaction. If the undo fails, the result
    /// contains the remaining work.
    pub(super) async fn undo(mut self) -> Stopped<M> {
        let undone = self.parts_mut().state.undo().await;
        let cause = self.phase.cause.take();
        match undone {
            Ok(()) => {
                self.end(TransactionOutcome::Aborted { cts: 0 });
                Stopped { rest: None, error: cause.unwrap_or(TxnError::Doomed) }
            }
            Err(failure) => {
                // A caller gets the reason why the transaction failed. A task gets the reason why
                // the undo failed.
                let cause = cause.filter(|_| self.parts().attempts.is_none());
                Stopped { rest: Some(Rest::Aborting(self)), error: cause.unwrap_or(failure) }
            }
        }
    }
}

impl<M: LineLocks> State<M> {
    /// Removes the index entries and the placed rows of the transaction, and the strays of its
    /// tables. May be called again after it failed or was dropped.
    async fn undo(&mut self) -> Result<(), TxnError> {
        // The entries are removed under the locks: after the unlock another transaction may need an
        // entry that these rows have taken over. Index pages are never locked, so the removal waits
        // for no transaction that may itself wait for a lock.
        while let Some(entry) = self.entries.last() {
            let write = &self.writes[entry.write as usize];
            if let Some(id) = write.id() {
                let (key, bits) = (self.bytes(&entry.key), id.bits().to_le_bytes());
                let tree = self.table(write.table).tree(usize::from(entry.index));
                match entry.old.map(|old| old.bits().to_le_bytes()) {
                    None => drop(tree.remove_stamped(key, &bits, 0, 0).await?),
                    // The entry leads to the earlier row id again. Another transaction may have
                    // added a row at that row id since.
                    Some(old) => drop(tree.replace_stamped(key, &bits, &old, |_| true).await?),
                }
            }
            self.entries.pop();
        }
        self.locks.clear();
        strict_assert!(self.entries.is_empty(), "the locks end before the entries are taken back");
        let State { writes, tables, arena, .. } = self;
        for write in writes {
            let Some(placed) = &mut write.placed else { continue };
            if let Some(id) = placed.id() {
                let heap = tables[usize::from(write.table)].heap();
                let key = &arena[write.key.start as usize..write.key.end as usize];
                heap.erase(id, key, true, Patience::Wait).await?;
            }
            placed.keep();
        }
        for table in tables {
            let heap = table.heap();
            if heap.has_strays() {
                heap.tidy().await?;
            }
            if heap.has_strays() {
                return Err(Conflict::Locked.into());
            }
        }
        Ok(())
    }

    /// Whether a table of this transaction has strays of this worker: tuples to which nothing
    /// leads, and which are not removed yet.
    pub(super) fn has_strays(&self) -> bool {
        self.tables.iter().any(|table| table.heap().has_strays())
    }
}
