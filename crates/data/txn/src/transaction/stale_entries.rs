//! Stale index entries of a commit: entries whose key no longer is the key of their row.
//!
//! Stale entries stay until they are [purged](crate::purge). Two kinds of transactions must learn
//! when the row left the key: a transaction with an earlier timestamp under timestamp ordering, and
//! a transaction that gives the key of a unique index to another row.
//!
//! 1. While the entry leads to the row or its tombstone, the timestamp there shows the time.
//! 2. But another worker may delete the row and purge it. That worker does not know the earlier
//!    stale entries of the row. After that purge such an entry leads to nothing.
//! 3. So the commit itself writes its timestamp into the leaves of the entries, before it unlocks
//!    the row.

use latchwork_coherence::LineLocks;
use latchwork_wal::Timestamp;

use super::state::{Base, Change, State, Write};
use crate::purge_piece::{Purge, What};
use crate::{Database, TxnError};

impl<M: LineLocks> State<M> {
    /// For each secondary index, the key that the row had before and no longer has.
    fn stale_entries(&self, write: &Write) -> Vec<(u8, Vec<u8>)> {
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

    /// Writes the commit timestamp into the leaves of stale entries. May be called again after it
    /// failed or was dropped. Index pages are never locked, so this waits for no transaction that
    /// may itself wait for a lock.
    pub(super) async fn leave_times(
        &self,
        database: &Database<M>,
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        // Under the other schemes a reader notices the removal of the entry, or has the row locked.
        // But another row may take over a unique key, and must get a later timestamp.
        let ordered = database.order();
        for write in self.writes.iter().filter(|write| write.old.is_some()) {
            let table = self.table(write.table);
            for (index, entry) in self.stale_entries(write) {
                let index = usize::from(index);
                if ordered || table.is_unique(index) {
                    table.tree(index).raise_removed(&entry, cts.0).await?;
                }
            }
        }
        Ok(())
    }

    /// Queues the purge of the tombstones and stale entries of this commit.
    pub(super) fn queue_purges(&self, database: &Database<M>, cts: Timestamp) {
        for write in &self.writes {
            let (Base::Row(id, _), Some(_)) = (write.base, &write.old) else { continue };
            let entries = self.stale_entries(write);
            let what = match write.change {
                Change::Put if entries.is_empty() => continue,
                Change::Put => What::Entries(cts),
                _ => What::Row(cts),
            };
            let (table, key) = (self.table(write.table).clone(), self.bytes(&write.key).to_vec());
            database.queue_purge(Purge { table, id, key, what, entries });
        }
    }
}
