//! Staging of index entries: the entries that lead to written rows are added to the indexes.

use std::ops::Range;

use latchwork_blink::{Insertion, Leaf, LeafStamp, ReplaceOutcome, Split, TreeValue};
use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_strict::strict_assert;
use latchwork_wal::Timestamp;
use smallvec::SmallVec;

use super::stage::Staging;
use super::state::{Base, Change, Entry, SeenLeaf, State, hash_of};
use crate::heap::{Patience, RUN, SeenRow};
use crate::{Conflict, RowId, Table, TxnError};

/// An index entry that is to lead to a written row.
pub(super) struct Wanted<'a, M: LineLocks> {
    pub(super) table: &'a Table<M>,
    /// The number of the write.
    pub(super) write: usize,
    pub(super) index: usize,
    /// The range of its key in the arena.
    pub(super) key: Range<u32>,
}

impl<M: LineLocks> Wanted<'_, M> {
    /// The record of the entry in the state. `old` is the row id that the entry had before.
    fn note(&self, old: Option<RowId>) -> Entry {
        Entry { write: self.write as u32, index: self.index as u8, old, key: self.key.clone() }
    }
}

impl<M: LineLocks> Staging<'_, M> {
    /// Enters placed rows into the primary index, side by side, as many as fit into the leaf of the
    /// first row. Returns their number, or 0 if the first key has an entry already or comes too
    /// late.
    pub(super) async fn enter_run(
        &mut self,
        table: &Table<M>,
        run: Range<usize>,
    ) -> Result<usize, TxnError> {
        let ts = self.ts();
        let state = &mut *self.state;
        let before = state.entries.len();
        // The entries are noted before they exist, because this future may be dropped while they
        // are made.
        for at in run.clone() {
            let (write, key) = (at as u32, state.writes[at].key.clone());
            state.entries.push(Entry { write, index: 0, old: None, key });
        }
        let writes = &state.writes[run];
        let (mut names, mut entries) = ([[0; 8]; RUN], [(&[][..], &[][..]); RUN]);
        for (name, write) in names.iter_mut().zip(writes) {
            *name = write.id().map_or(0, RowId::bits).to_le_bytes();
        }
        for ((entry, name), write) in entries.iter_mut().zip(&names).zip(writes) {
            *entry = (state.bytes(&write.key), name);
        }
        let rows = writes.len().min(RUN);
        let entries = &entries[..rows];
        let admit = |stamp: &LeafStamp| !is_too_late(ts, stamp);
        let mut splits = SmallVec::<[Split; 1]>::new();
        let split = |split| splits.push(split);
        let inserted = table.tree(0).insert_run_stamped(entries, admit, |_| (), split).await?;
        let (new, insertion) = inserted;
        state.split(&splits);
        strict_assert!(new <= rows, "more entries are made than rows are placed");
        state.entries.truncate(before + new);
        if let Insertion::New { before, after } = insertion {
            state.entered(before, after);
        }
        Ok(new)
    }

    /// Adds an entry that leads to `id`. If the key already has an entry, returns the row id in
    /// that entry.
    pub(super) async fn enter(
        &mut self,
        wanted: &Wanted<'_, M>,
        id: RowId,
    ) -> Result<Option<RowId>, TxnError> {
        loop {
            let ts = self.ts();
            let state = &mut *self.state;
            // The entry is noted before it exists, because this future may be dropped while it is
            // made.
            state.entries.push(wanted.note(None));
            let admit = |stamp: &LeafStamp| !is_too_late(ts, stamp);
            let (entry, bits) = (state.bytes(&wanted.key), id.bits().to_le_bytes());
            let visit = |value: TreeValue<'_>| value.u64(0);
            let mut splits = SmallVec::<[Split; 1]>::new();
            let split = |split| splits.push(split);
            let tree = wanted.table.tree(wanted.index);
            let inserted = tree.insert_stamped(entry, &bits, admit, visit, split).await?;
            state.split(&splits);
            if let Insertion::New { before, after } = inserted {
                state.entered(before, after);
                return Ok(None);
            }
            state.entries.pop();
            match inserted {
                Insertion::Exists { found, .. } => return Ok(Some(RowId::from_bits(found))),
                Insertion::Refused(leaf) => {
                    self.database.move_up(self.state, last_of(&leaf.stamp)).await?;
                }
                Insertion::New { .. } => return Ok(None),
            }
        }
    }

    /// Adds the entry of a row in a secondary index, if the row does not have it already.
    pub(super) async fn enter_secondary(
        &mut self,
        table: &Table<M>,
        at: usize,
        index: usize,
        id: RowId,
    ) -> Result<(), TxnError> {
        let state = &mut *self.state;
        let write = &state.writes[at];
        if matches!(write.base, Base::Row(..)) && write.old.is_none() {
            return Ok(());
        }
        let (key, row) = (state.bytes(&write.key), state.bytes(&write.value));
        let mut entry = Vec::with_capacity(key.len() + 24);
        table.index_key(index, key, row, &mut entry)?;
        if matches!(write.base, Base::Row(..)) {
            let mut old = Vec::new();
            if let Some(was) = &write.old {
                table.index_key(index, key, state.bytes(was), &mut old)?;
            }
            if old == entry {
                return Ok(());
            }
        }
        let wanted = Wanted { table, write: at, index, key: state.keep(&entry) };
        match self.enter(&wanted, id).await? {
            None => Ok(()),
            // The row had this entry before, and the purge has not removed the entry yet. A new row
            // is different: no transaction has seen the new row, so an entry that leads there is of
            // an earlier row.
            Some(there) if there == id && self.state.writes[at].base.named().is_some() => Ok(()),
            Some(there) => {
                // No other row stands where the new row was just placed. So an entry that leads
                // there led to no row.
                if there != id {
                    self.check_stale(&wanted, there).await?;
                }
                self.take_over(&wanted, there, id).await
            }
        }
    }

    /// Checks that the present entry of a wanted key leads to no row with that key in the index.
    async fn check_stale(&mut self, wanted: &Wanted<'_, M>, there: RowId) -> Result<(), TxnError> {
        let Staging { database, state } = self;
        let &Wanted { table, write, index, .. } = wanted;
        let (number, mode) = (state.writes[write].table, AccessMode::Shared);
        let (mut key, mut row, mut now) = (Vec::new(), Vec::new(), Vec::new());
        // The lock is needed under every scheme. Another transaction may be about to give the row
        // this key, and only its lock shows this.
        database.lock(state, table.heap().line_of(there), mode).await?;
        let step = || table.heap().key_step(there, &Hint::default(), &mut key);
        if !table.heap().drive(Patience::NoWait, step).await? {
            return Ok(());
        }
        let hash = hash_of(&key);
        if let Some(own) = state.write_of(number, hash, &key) {
            let own = &state.writes[own];
            // Two cases do not count. This transaction deletes the row. Or the tuple has the key of
            // the row, but is not the row: a transaction placed it and then failed.
            if own.change != Change::Put || own.id() != Some(there) {
                return Ok(());
            }
            table.index_key(index, &key, state.bytes(&own.value), &mut now)?;
        } else {
            let looked =
                database.look_at(state, number, table, there, (&key, hash), &mut row, mode);
            match looked.await? {
                SeenRow::Live(_) => table.index_key(index, &key, &row, &mut now)?,
                SeenRow::Pending => return Err(Conflict::Locked.into()),
                SeenRow::Deleted(_) | SeenRow::Absent => return Ok(()),
            }
        }
        if now == state.bytes(&wanted.key) { Err(TxnError::Exists) } else { Ok(()) }
    }

    /// Replaces the row id in an entry that leads to no row by `new`.
    pub(super) async fn take_over(
        &mut self,
        wanted: &Wanted<'_, M>,
        old: RowId,
        new: RowId,
    ) -> Result<(), TxnError> {
        loop {
            let ts = self.ts();
            let state = &mut *self.state;
            state.entries.push(wanted.note(Some(old)));
            let (was, is) = (old.bits().to_le_bytes(), new.bits().to_le_bytes());
            let admit = |stamp: &LeafStamp| !is_too_late(ts, stamp);
            let tree = wanted.table.tree(wanted.index);
            let replaced = tree.replace_stamped(state.bytes(&wanted.key), &was, &is, admit).await?;
            if let ReplaceOutcome::Done { before, after } = replaced {
                state.entered(before, after);
                return Ok(());
            }
            state.entries.pop();
            match replaced {
                ReplaceOutcome::Refused(leaf) => {
                    self.database.move_up(self.state, last_of(&leaf.stamp)).await?;
                }
                _ => return Err(Conflict::Changed.into()),
            }
        }
    }
}

/// The timestamp that a row needs at least to enter a leaf.
fn last_of(stamp: &LeafStamp) -> Timestamp {
    Timestamp(stamp.read.max(stamp.removed))
}

/// Whether the timestamp of a row is too early to enter a leaf.
fn is_too_late(ts: Option<Timestamp>, stamp: &LeafStamp) -> bool {
    ts.is_some_and(|ts| ts < last_of(stamp))
}

impl<M: LineLocks> State<M> {
    /// Follows a split that the transaction itself made. For a leaf that it has seen, the
    /// transaction now depends on both halves.
    fn split(&mut self, splits: &[Split]) {
        for split in splits {
            let is_before = |seen: &SeenLeaf| {
                let (seen, before) = (&seen.leaf, &split.before);
                seen.addr == before.addr && seen.stamp.structure == before.stamp.structure
            };
            for at in 0..self.leaves.len() {
                let seen = self.leaves[at];
                if is_before(&seen) {
                    let [left, right] = split.halves;
                    self.leaves[at].leaf = left;
                    self.leaves.push(SeenLeaf { leaf: right, ..seen });
                }
            }
        }
    }

    /// Takes over a change that the transaction itself made to a leaf that it has seen.
    fn entered(&mut self, before: Leaf, after: LeafStamp) {
        self.be_later_than(Timestamp(after.read.max(after.removed)));
        for seen in &mut self.leaves {
            let same = seen.leaf.addr == before.addr;
            if same && seen.leaf.stamp.structure == before.stamp.structure {
                seen.leaf.stamp = after;
            }
        }
    }
}
