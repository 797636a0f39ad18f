//! The install of a commit: the new values of its rows, the end of its locks, and its new rows.

use std::ops::Range;

use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_record::TransactionOutcome;
use latchwork_strict::strict_assert;
use latchwork_wal::Timestamp;
use smallvec::SmallVec;

use super::in_phase::{InPhase, Parts};
use super::phases::{Committed, Installed, Rest, Stopped};
use super::state::{Change, State, Write};
use crate::heap::{Install, Prepared};
use crate::{Database, RowId, TxnError};

impl<M: LineLocks> InPhase<M, Committed> {
    /// Writes the rows that existed before, if early lock release has not written them.
    ///
    /// # Errors
    /// Memory and index failures; [`TxnError::Corrupt`]; [`TxnError::Starved`].
    pub(super) async fn install(mut self) -> Result<InPhase<M, Installed>, Box<Stopped<M>>> {
        let cts = self.phase.cts;
        if !self.phase.released {
            let Parts { database, state, .. } = self.parts_mut();
            if let Err(error) = state.install(database, cts).await {
                return Err(Stopped::at(Rest::Committed(self), error));
            }
        }
        Ok(self.next(Installed { cts }))
    }
}

impl<M: LineLocks> InPhase<M, Installed> {
    /// Releases the locks, makes the new rows visible, and ends the transaction.
    ///
    /// # Errors
    /// Memory failures; [`TxnError::Corrupt`]; [`TxnError::Starved`].
    pub(super) async fn publish(mut self) -> Result<Timestamp, Box<Stopped<M>>> {
        let cts = self.phase.cts;
        let Parts { database, state, .. } = self.parts_mut();
        if let Err(error) = state.publish(cts).await {
            return Err(Stopped::at(Rest::Installed(self), error));
        }
        state.queue_purges(database, cts);
        let ended = self.end(TransactionOutcome::Committed { cts: cts.0 });
        ended.database.purge_some().await;
        Ok(cts)
    }
}

impl<M: LineLocks> State<M> {
    /// Writes the rows that existed before, and the commit timestamp into the leaves of stale
    /// entries. May be called again after it failed or was dropped.
    pub(super) async fn install(
        &mut self,
        database: &Database<M>,
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        // Read locks are no longer needed: the transaction takes no further lock.
        self.locks.retain(|held| held.mode == AccessMode::Exclusive);
        let State { writes, tables, arena, .. } = self;
        for write in writes.iter_mut().filter(|write| !write.installed) {
            let (Some((id, was)), Some(prepared)) = (write.base.named(), &mut write.prepared)
            else {
                continue;
            };
            let bytes = |range: &Range<u32>| &arena[range.start as usize..range.end as usize];
            let value = bytes(&write.value);
            let install = match (write.change, &write.part) {
                (Change::Put, None) => Install::Value(value),
                (Change::Put, Some(part)) => {
                    Install::Part { value, from: part.start as usize, to: part.end as usize }
                }
                _ => Install::Tombstone,
            };
            let heap = tables[usize::from(write.table)].heap();
            let (hint, key) = (&write.hint, bytes(&write.key));
            // The fast path, for a row that stays at home and of which a part changes.
            let done = match (&*prepared, install) {
                (Prepared::AtHome, Install::Part { value, from, to }) => {
                    matches!(heap.part_step(id, hint, was, cts, value, from..to), Ok(true))
                }
                _ => false,
            };
            if !done {
                heap.install(id, hint, key, (was, cts), prepared, install).await?;
            }
            write.installed = true;
        }
        self.leave_times(database, cts).await
    }

    /// Releases the locks and makes new rows visible. May be called again after it failed or was
    /// dropped.
    async fn publish(&mut self, cts: Timestamp) -> Result<(), TxnError> {
        self.locks.clear();
        // The new rows are published after the unlock, because publishing may wait for transactions
        // of other nodes that have locked the line.
        let mut next = 0;
        while let Some(write) = self.writes.get(next) {
            let of = |write: &Write| {
                let id = write.placed.as_ref().filter(|_| !write.installed)?.id()?;
                Some((write.table, self.table(write.table).heap().line_of(id), id))
            };
            let Some((table, line, _)) = of(write) else {
                next += 1;
                continue;
            };
            // The next rows of the same line are published together with this row.
            let same =
                |&(other, at, id): &(u8, _, RowId)| (other == table && at == line).then_some(id);
            let run = self.writes[next..].iter().map_while(|write| same(&of(write)?));
            let ids: SmallVec<[RowId; 16]> = run.collect();
            let heap = self.table(table).heap();
            // The fast path.
            if heap.publish_step(line, &ids, cts).is_err() {
                heap.publish(line, &ids, cts).await?;
            }
            for write in &mut self.writes[next..next + ids.len()] {
                write.installed = true;
            }
            next += ids.len();
            strict_assert!(!ids.is_empty(), "a run of no rows");
        }
        for write in &mut self.writes {
            if let Some(placed) = &mut write.placed {
                placed.keep();
            }
            write.installed = true;
        }
        Ok(())
    }
}
