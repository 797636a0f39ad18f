//! Staging: new rows are placed as pending, and all entries that lead to written rows go into the
//! indexes.

use std::ops::Range;

use latchwork_blink::{Insertion, Leaf, LeafStamp, ReplaceOutcome, Split, TreeValue};
use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_wal::Timestamp;
use smallvec::SmallVec;

use super::state::{Base, Change, Entry, SeenLeaf, State, Write, hash_of};
use crate::heap::{Patience, Placed, RUN, SeenRow};
use crate::page::{New, State as TupleState};
use crate::{Conflict, Database, RowId, Table, TxnError};

impl<M: LineLocks> Database<M> {
    /// Places new rows as pending, and enters all entries that lead to written rows into the
    /// indexes.
    pub(super) async fn stage_rows(&self, state: &mut State<M>) -> Result<(), TxnError> {
        let mut at = 0;
        while at < state.writes.len() {
            if !state.writes[at].is_to_be_announced() {
                at += 1;
                continue;
            }
            let run = state.run_of_new(at);
            if run > 1 {
                self.announce_run(state, at..at + run).await?;
            } else {
                self.announce_one(state, at).await?;
            }
            at += run;
        }
        Ok(())
    }

    async fn announce_one(&self, state: &mut State<M>, at: usize) -> Result<(), TxnError> {
        let write = &state.writes[at];
        let number = write.table;
        let table = state.table(number).clone();
        let id = match write.base {
            Base::Row(id, _) => id,
            Base::Tombstone(id, _) => {
                // A purge that was dropped in the middle may have removed the entry.
                let key = write.key.clone();
                match self.enter(state, &table, at, 0, &key, id).await? {
                    Some(there) if there != id => return Err(Conflict::Changed.into()),
                    _ => id,
                }
            }
            Base::Nothing(_) | Base::Unknown => self.announce_new(state, &table, at).await?,
        };
        for index in 1..=table.secondaries() {
            self.enter_secondary(state, &table, at, index, id).await?;
        }
        Ok(())
    }

    /// Like [`announce_one`](Database::announce_one), for rows of one table that are probably new
    /// and have only a primary index. The rows are placed into lines together. Rows with ascending
    /// keys are also entered into leaves together.
    async fn announce_run(&self, state: &mut State<M>, run: Range<usize>) -> Result<(), TxnError> {
        let table = state.table(state.writes[run.start].table).clone();
        self.place_run(state, &table, run.clone()).await?;
        let mut at = run.start;
        while at < run.end {
            at += match self.enter_run(state, &table, at..run.end).await? {
                // Another transaction adds this row or has added it, or the insert comes too late.
                0 => {
                    self.announce_new(state, &table, at).await?;
                    1
                }
                entered => entered,
            };
        }
        Ok(())
    }

    /// Places new rows as pending.
    async fn place_run(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        run: Range<usize>,
    ) -> Result<(), TxnError> {
        let left = run.start + self.place_here(state, table, run.clone())..run.end;
        if left.is_empty() {
            return Ok(());
        }
        self.place_carefully(state, table, left).await
    }

    /// Like [`place_run`](Database::place_run), for the rows that fit into the worker's tail line.
    /// Returns their number.
    fn place_here(&self, state: &mut State<M>, table: &Table<M>, run: Range<usize>) -> usize {
        let State { writes, arena, .. } = state;
        let heap = table.heap();
        let rows = writes[run.clone()].iter().map(|write| pending(write, arena));
        let Some((line, slots)) = heap.place_here(rows) else { return 0 };
        for (write, slot) in writes[run].iter_mut().zip(slots.clone()) {
            write.placed = Some(heap.placed(RowId::new(line, slot)));
        }
        slots.len()
    }

    async fn place_carefully(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        run: Range<usize>,
    ) -> Result<(), TxnError> {
        let State { writes, arena, .. } = state;
        let rows = writes[run.clone()].iter().map(|write| pending(write, arena));
        let rows: SmallVec<[New<'_>; RUN]> = rows.collect();
        let mut placed = SmallVec::new();
        table.heap().place_run(&rows, &mut placed).await?;
        for (write, placed) in writes[run].iter_mut().zip(placed) {
            write.placed = Some(placed);
        }
        Ok(())
    }

    /// Enters placed rows into the primary index, side by side, as many as fit into the leaf of the
    /// first row. Returns their number, or 0 if the first row already exists or comes too late.
    async fn enter_run(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        run: Range<usize>,
    ) -> Result<usize, TxnError> {
        let ts = self.order().then_some(state.ts);
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
        let entries = &entries[..writes.len().min(RUN)];
        let admit = |stamp: &LeafStamp| !is_too_late(ts, stamp);
        let tree = table.tree(0);
        let (new, insertion) = match tree.try_insert_run_stamped(entries, admit, |_| ()) {
            Some(done) => done,
            None => {
                let mut splits = SmallVec::<[Split; 1]>::new();
                let split = |split| splits.push(split);
                let done = tree.insert_run_stamped(entries, admit, |_| (), split).await?;
                state.split(&splits);
                done
            }
        };
        state.entries.truncate(before + new);
        if let Insertion::New { before, after } = insertion {
            state.entered(before, after);
        }
        Ok(new)
    }

    /// Places a new row and enters it into the primary index. Returns its row id.
    async fn announce_new(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
    ) -> Result<RowId, TxnError> {
        if state.writes[at].placed.is_none() {
            self.place_run(state, table, at..at + 1).await?;
        }
        let write = &state.writes[at];
        let range = write.key.clone();
        let id = write.placed.as_ref().and_then(Placed::id).ok_or(TxnError::Doomed)?;
        let stale = match state.writes[at].base {
            // The entry exists, but leads to no row.
            Base::Nothing(Some(old)) => Some(old),
            base => match self.enter(state, table, at, 0, &range, id).await? {
                None => None,
                // Another transaction adds this row or has added it.
                Some(_) if base != Base::Unknown => return Err(Conflict::Changed.into()),
                Some(_) => match self.resolve(state, table, at).await? {
                    Base::Nothing(Some(old)) => Some(old),
                    Base::Tombstone(there, _) => return Ok(there),
                    _ => return Err(Conflict::Changed.into()),
                },
            },
        };
        if let Some(old) = stale {
            self.take_over(state, table, at, 0, &range, old, id).await?;
        }
        Ok(id)
    }

    /// Adds an entry to an index. If the key already has an entry, returns the row id in that
    /// entry.
    async fn enter(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
        index: usize,
        key: &Range<u32>,
        id: RowId,
    ) -> Result<Option<RowId>, TxnError> {
        loop {
            let ts = self.order().then_some(state.ts);
            // The entry is noted before it exists, because this future may be dropped while it is
            // made.
            let (write, number) = (at as u32, index as u8);
            state.entries.push(Entry { write, index: number, old: None, key: key.clone() });
            let admit = |stamp: &LeafStamp| !is_too_late(ts, stamp);
            let (entry, bits) = (state.bytes(key), id.bits().to_le_bytes());
            let tree = table.tree(index);
            let visit = |value: TreeValue<'_>| value.u64(0);
            let inserted = match tree.try_insert_stamped(entry, &bits, admit, visit) {
                Some(inserted) => inserted,
                None => {
                    let mut splits = SmallVec::<[Split; 1]>::new();
                    let split = |split| splits.push(split);
                    let inserted = tree.insert_stamped(entry, &bits, admit, visit, split).await?;
                    state.split(&splits);
                    inserted
                }
            };
            if let Insertion::New { before, after } = inserted {
                state.entered(before, after);
                return Ok(None);
            }
            state.entries.pop();
            match inserted {
                Insertion::Exists { found, .. } => return Ok(Some(RowId::from_bits(found))),
                Insertion::Refused(leaf) => self.move_up(state, last_of(&leaf.stamp)).await?,
                Insertion::New { .. } => return Ok(None),
            }
        }
    }

    /// Finds what is in the way of a row that was inserted without a read. A tombstone is
    /// overwritten: its line is locked, the tombstone is prepared, and the location placed for the
    /// new row is given up.
    async fn resolve(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
    ) -> Result<Base, TxnError> {
        let write = &state.writes[at];
        let (number, hash) = (write.table, write.hash);
        let key = state.bytes(&write.key).to_vec();
        let mut old = Vec::new();
        let base = self.look_up(state, number, &key, hash, &mut old, AccessMode::Exclusive).await?;
        match base {
            Base::Row(..) => return Err(TxnError::Exists),
            Base::Tombstone(id, cts) => {
                let heap = table.heap();
                self.lock(state, heap.line_of(id), AccessMode::Exclusive).await?;
                let prepared = loop {
                    let ts = self.order().then_some(state.ts);
                    let (hint, value) = (Hint::default(), state.bytes(&state.writes[at].value));
                    match heap.prepare(id, &hint, &key, cts, ts, Some(value)).await? {
                        Ok(prepared) => break prepared,
                        Err(read) => self.move_up(state, read).await?,
                    }
                };
                state.writes[at].placed = None;
                heap.tidy().await?;
                if heap.has_strays() {
                    // The line of the given-up location is locked. The undo retries until the line
                    // is free.
                    return Err(Conflict::Locked.into());
                }
                state.writes[at].prepared = Some(prepared);
            }
            Base::Nothing(_) | Base::Unknown => {}
        }
        state.writes[at].base = base;
        Ok(base)
    }

    async fn enter_secondary(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
        index: usize,
        id: RowId,
    ) -> Result<(), TxnError> {
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
        let entry = state.keep(&entry);
        match self.enter(state, table, at, index, &entry, id).await? {
            None => Ok(()),
            // The row had this entry before, and the purge has not removed the entry yet. A new row
            // is different: no transaction has seen the new row, so an entry that leads there is of
            // an earlier row.
            Some(there) if there == id && state.writes[at].base.named().is_some() => Ok(()),
            Some(there) => {
                // No other row stands where the new row was just placed. So an entry that leads
                // there led to no row.
                if there != id {
                    self.check_stale(state, at, table, index, &entry, there).await?;
                }
                self.take_over(state, table, at, index, &entry, there, id).await
            }
        }
    }

    /// Checks that an entry in the way leads to no row that belongs to its key.
    async fn check_stale(
        &self,
        state: &mut State<M>,
        at: usize,
        table: &Table<M>,
        index: usize,
        entry: &Range<u32>,
        there: RowId,
    ) -> Result<(), TxnError> {
        let number = state.writes[at].table;
        let (mut key, mut row, mut now) = (Vec::new(), Vec::new(), Vec::new());
        // The lock is needed under every scheme. Another transaction may be about to give the row
        // this key, and only its lock shows this.
        self.lock(state, table.heap().line_of(there), AccessMode::Shared).await?;
        let step = || table.heap().key_step(there, &Hint::default(), &mut key);
        if !table.heap().drive(Patience::NoWait, step).await? {
            return Ok(());
        }
        let hash = hash_of(&key);
        if let Some(own) = state.write_of(number, hash, &key) {
            let own = &state.writes[own];
            // Two rows do not count: a row that this transaction removes from this key, and a
            // location that another transaction has placed in vain for the same row.
            if own.change != Change::Put || own.id() != Some(there) {
                return Ok(());
            }
            table.index_key(index, &key, state.bytes(&own.value), &mut now)?;
        } else {
            let looked = self.look_at(
                state,
                number,
                table,
                there,
                (&key, hash),
                &mut row,
                AccessMode::Shared,
            );
            match looked.await? {
                SeenRow::Live(_) => table.index_key(index, &key, &row, &mut now)?,
                SeenRow::Pending => return Err(Conflict::Locked.into()),
                SeenRow::Deleted(_) | SeenRow::Absent => return Ok(()),
            }
        }
        if now == state.bytes(entry) { Err(TxnError::Exists) } else { Ok(()) }
    }

    /// Replaces the row id in an entry that leads to no row by `new`.
    #[expect(clippy::too_many_arguments, reason = "the pieces of one entry")]
    async fn take_over(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
        index: usize,
        key: &Range<u32>,
        old: RowId,
        new: RowId,
    ) -> Result<(), TxnError> {
        loop {
            let ts = self.order().then_some(state.ts);
            let (write, number) = (at as u32, index as u8);
            state.entries.push(Entry { write, index: number, old: Some(old), key: key.clone() });
            let (was, is) = (old.bits().to_le_bytes(), new.bits().to_le_bytes());
            let admit = |stamp: &LeafStamp| !is_too_late(ts, stamp);
            let tree = table.tree(index);
            let replaced = tree.replace_stamped(state.bytes(key), &was, &is, admit).await?;
            if let ReplaceOutcome::Done { before, after } = replaced {
                state.entered(before, after);
                return Ok(());
            }
            state.entries.pop();
            match replaced {
                ReplaceOutcome::Refused(leaf) => self.move_up(state, last_of(&leaf.stamp)).await?,
                _ => return Err(Conflict::Changed.into()),
            }
        }
    }
}

impl Write {
    /// Whether the write still needs a location or index entries.
    fn is_to_be_announced(&self) -> bool {
        // Without the old value, no index key of the row changes.
        let stays = matches!(self.base, Base::Row(..)) && self.old.is_none();
        self.change == Change::Put && !stays
    }
}

/// The bytes of a new row, as it is placed.
fn pending<'a>(write: &Write, arena: &'a [u8]) -> New<'a> {
    let bytes = |range: &Range<u32>| &arena[range.start as usize..range.end as usize];
    New {
        state: TupleState::Pending,
        cts: Timestamp::ZERO,
        key: bytes(&write.key),
        value: bytes(&write.value),
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
    /// The number of rows from `at` on that can be staged together: 1, or more rows that are all
    /// probably new.
    fn run_of_new(&self, at: usize) -> usize {
        let rows = &self.writes[at..];
        let Some(number) = rows.first().map(|first| first.table) else { return 1 };
        if self.table(number).secondaries() > 0 {
            return 1;
        }
        let is_new = |write: &&Write| {
            let unknown = matches!(write.base, Base::Nothing(None) | Base::Unknown);
            write.table == number && unknown && write.change == Change::Put
        };
        rows.iter().take(RUN).take_while(is_new).count().max(1)
    }

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
