//! What a commit leaves behind in indexes: entries that lead to no row by its key any more.
//!
//! They stay until they are [purged](crate::purge). Whoever comes with an earlier timestamp under
//! timestamp ordering, and whoever gives the key of a unique index to another row, has to learn of
//! the rows that stood there, from the moment in which they do not. As long as the row, or its
//! tombstone, is where the entry leads, that tells. But the row may be deleted and taken away by
//! another worker, which knows nothing of entries that the row had before, and then the entry leads
//! nowhere. So the commit itself writes into their leaves when it was, before it unlocks the row.

use latchwork_coherence::LineLocks;
use latchwork_wal::Timestamp;

use super::state::{Base, Change, State, Write};
use crate::purge::{Purge, What};
use crate::{Database, Scheme, TxnError};

impl<M: LineLocks> State<M> {
    /// Of each secondary index, the key by which the row was there and is not any more.
    fn gone(&self, write: &Write) -> Vec<(u8, Vec<u8>)> {
        let mut entries = Vec::new();
        let (Base::Row(..), Some(old)) = (write.base, &write.old) else { return entries };
        let table = self.table(write.table);
        let (key, old, row) = (self.bytes(&write.key), self.bytes(old), self.bytes(&write.value));
        for index in 1..=table.secondaries() {
            let (mut before, mut after) = (Vec::new(), Vec::new());
            // A row that has no key in an index has no entry there.
            if table.index_key(index, key, old, &mut before).is_err() {
                continue;
            }
            let stays = write.change == Change::Put
                && table.index_key(index, key, row, &mut after).is_ok()
                && before == after;
            if !stays {
                entries.push((index as u8, before));
            }
        }
        entries
    }
}

impl<M: LineLocks> Database<M> {
    /// Has the leaves of entries that lead nowhere from now on say so. May be called again after it
    /// failed or was dropped. Pages of indexes are never locked, so this waits for nobody who may
    /// wait for a lock.
    pub(super) async fn leave_times(
        &self,
        state: &State<M>,
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        // Otherwise whoever reads notices that the entry goes, or has the row locked. But by a
        // unique key another row may come, and has to come later.
        let ordered = self.scheme() == Scheme::TimestampOrdering;
        for write in state.writes.iter().filter(|write| write.old.is_some()) {
            let table = state.table(write.table);
            for (index, entry) in state.gone(write) {
                let index = usize::from(index);
                if ordered || table.is_unique(index) {
                    table.tree(index).raise_removed(&entry, cts.0).await?;
                }
            }
        }
        Ok(())
    }

    /// Notes what nothing needs any more but those who look at the moment.
    pub(super) fn queue_purges(&self, state: &State<M>, cts: Timestamp) {
        for write in &state.writes {
            let (Base::Row(id, _), Some(_)) = (write.base, &write.old) else { continue };
            let entries = state.gone(write);
            let what = match write.change {
                Change::Put if entries.is_empty() => continue,
                Change::Put => What::Entries(cts),
                _ => What::Row(cts),
            };
            let (table, key) = (state.table(write.table).clone(), state.bytes(&write.key).to_vec());
            self.queue_purge(Purge { table, id, key, what, entries });
        }
    }
}
