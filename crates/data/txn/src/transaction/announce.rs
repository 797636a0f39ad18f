//! Showing that rows are to come: new ones are placed, pending, and everything that leads to rows
//! goes into the indexes.

use std::ops::Range;

use latchwork_blink::{Insertion, Leaf, Replacement, Split, Stamp, Value};
use latchwork_cache::Hint;
use latchwork_coherence::{LineLocks, Mode};
use latchwork_wal::Timestamp;
use smallvec::SmallVec;

use super::state::{Base, Change, Entry, SeenLeaf, State, Write, hash_of};
use crate::heap::{Patience, Placed, RUN, Seen};
use crate::page::{New, State as TupleState};
use crate::{Conflict, Database, Table, TupleId, TxnError};

impl<M: LineLocks> Database<M> {
    /// Places new rows, which are pending, and enters everything that leads to rows into the
    /// indexes.
    pub(super) async fn announce(&self, state: &mut State<M>) -> Result<(), TxnError> {
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
                // A purge that was dropped half way may have taken the entry away.
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

    /// As [`announce_one`](Database::announce_one), of rows of one table that are probably new, and
    /// in no other index than the primary one: they come into lines, and with ascending keys into
    /// leaves, together.
    async fn announce_run(&self, state: &mut State<M>, run: Range<usize>) -> Result<(), TxnError> {
        let table = state.table(state.writes[run.start].table).clone();
        self.place_run(state, &table, run.clone()).await?;
        let mut at = run.start;
        while at < run.end {
            at += match self.enter_run(state, &table, at..run.end).await? {
                // Somebody else adds it, or has, or may not.
                0 => {
                    self.announce_new(state, &table, at).await?;
                    1
                }
                entered => entered,
            };
        }
        Ok(())
    }

    /// Places new rows, which are pending.
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

    /// As [`place_run`](Database::place_run), as many as come into the worker's tail; returns how
    /// many.
    fn place_here(&self, state: &mut State<M>, table: &Table<M>, run: Range<usize>) -> usize {
        let State { writes, arena, .. } = state;
        let heap = table.heap();
        let rows = writes[run.clone()].iter().map(|write| pending(write, arena));
        let Some((line, slots)) = heap.place_here(rows) else { return 0 };
        for (write, slot) in writes[run].iter_mut().zip(slots.clone()) {
            write.placed = Some(heap.placed(TupleId::new(line, slot)));
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

    /// Enters rows that were placed into the primary index, as many as come into the leaf of the
    /// first one, side by side. Returns how many; 0 if the first one is there already, or comes too
    /// late.
    async fn enter_run(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        run: Range<usize>,
    ) -> Result<usize, TxnError> {
        let ts = self.order().then_some(state.ts);
        let before = state.entries.len();
        // Before they are there, since this may be dropped when they are.
        for at in run.clone() {
            let (write, key) = (at as u32, state.writes[at].key.clone());
            state.entries.push(Entry { write, index: 0, old: None, key });
        }
        let writes = &state.writes[run];
        let (mut names, mut entries) = ([[0; 8]; RUN], [(&[][..], &[][..]); RUN]);
        for (name, write) in names.iter_mut().zip(writes) {
            *name = write.id().map_or(0, TupleId::bits).to_le_bytes();
        }
        for ((entry, name), write) in entries.iter_mut().zip(&names).zip(writes) {
            *entry = (state.bytes(&write.key), name);
        }
        let entries = &entries[..writes.len().min(RUN)];
        let admit = |stamp: &Stamp| !is_too_late(ts, stamp);
        let tree = table.tree(0);
        let (new, insertion) = match tree.try_insert_run_seen(entries, admit, |_| ()) {
            Some(done) => done,
            None => {
                let mut splits = SmallVec::<[Split; 1]>::new();
                let split = |split| splits.push(split);
                let done = tree.insert_run_seen(entries, admit, |_| (), split).await?;
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

    /// Places a new row, and enters it into the primary index; where it will be.
    async fn announce_new(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
    ) -> Result<TupleId, TxnError> {
        if state.writes[at].placed.is_none() {
            self.place_run(state, table, at..at + 1).await?;
        }
        let write = &state.writes[at];
        let range = write.key.clone();
        let id = write.placed.as_ref().and_then(Placed::id).ok_or(TxnError::Doomed)?;
        let stale = match state.writes[at].base {
            // The entry stands, but leads to nothing.
            Base::Nothing(Some(old)) => Some(old),
            base => match self.enter(state, table, at, 0, &range, id).await? {
                None => None,
                // Somebody else adds it, or has.
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

    /// Adds an entry to an index; what it leads to if there is one already.
    async fn enter(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
        index: usize,
        key: &Range<u32>,
        id: TupleId,
    ) -> Result<Option<TupleId>, TxnError> {
        loop {
            let ts = self.order().then_some(state.ts);
            // Before it is there, since this may be dropped when it is.
            let (write, number) = (at as u32, index as u8);
            state.entries.push(Entry { write, index: number, old: None, key: key.clone() });
            let admit = |stamp: &Stamp| !is_too_late(ts, stamp);
            let (entry, bits) = (state.bytes(key), id.bits().to_le_bytes());
            let tree = table.tree(index);
            let visit = |value: Value<'_>| value.u64(0);
            let inserted = match tree.try_insert_seen(entry, &bits, admit, visit) {
                Some(inserted) => inserted,
                None => {
                    let mut splits = SmallVec::<[Split; 1]>::new();
                    let split = |split| splits.push(split);
                    let inserted = tree.insert_seen(entry, &bits, admit, visit, split).await?;
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
                Insertion::Exists { found, .. } => return Ok(Some(TupleId::from_bits(found))),
                Insertion::Refused(leaf) => self.move_up(state, last_of(&leaf.stamp)).await?,
                Insertion::New { .. } => return Ok(None),
            }
        }
    }

    /// Finds out what is in the way of a row that was inserted blindly. What is left of one is
    /// written over: it is locked then, and prepared, and the place that was found for the row is
    /// not needed.
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
        let base = self.look_up(state, number, &key, hash, &mut old, Mode::Exclusive).await?;
        match base {
            Base::Row(..) => return Err(TxnError::Exists),
            Base::Tombstone(id, cts) => {
                let heap = table.heap();
                self.lock(state, heap.line_of(id), Mode::Exclusive).await?;
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
                    // Its line is locked. Whoever takes this back tries until it is not.
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
        id: TupleId,
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
            // The row was here before, and whoever purges has not come by. A new row is where
            // nobody has seen it.
            Some(there) if there == id && state.writes[at].base.named().is_some() => Ok(()),
            Some(there) => {
                // Where the new row has just been placed no other is: what led there has led
                // nowhere.
                if there != id {
                    self.check_stale(state, at, table, index, &entry, there).await?;
                }
                self.take_over(state, table, at, index, &entry, there, id).await
            }
        }
    }

    /// Makes sure that an entry that stands in the way leads to no row that belongs there.
    async fn check_stale(
        &self,
        state: &mut State<M>,
        at: usize,
        table: &Table<M>,
        index: usize,
        entry: &Range<u32>,
        there: TupleId,
    ) -> Result<(), TxnError> {
        let number = state.writes[at].table;
        let (mut key, mut row, mut now) = (Vec::new(), Vec::new(), Vec::new());
        // Under every concurrency control: another transaction may be about to give the row this
        // very key, and nothing but its lock would tell.
        self.lock(state, table.heap().line_of(there), Mode::Shared).await?;
        let step = || table.heap().key_step(there, &Hint::default(), &mut key);
        if !table.heap().drive(Patience::NoWait, step).await? {
            return Ok(());
        }
        let hash = hash_of(&key);
        if let Some(own) = state.write_of(number, hash, &key) {
            let own = &state.writes[own];
            // One that this transaction moves out of the way is none, nor is what another
            // transaction that adds the same row has placed in vain.
            if own.change != Change::Put || own.id() != Some(there) {
                return Ok(());
            }
            table.index_key(index, &key, state.bytes(&own.value), &mut now)?;
        } else {
            let looked =
                self.look_at(state, number, table, there, (&key, hash), &mut row, Mode::Shared);
            match looked.await? {
                Seen::Live(_) => table.index_key(index, &key, &row, &mut now)?,
                Seen::Pending => return Err(Conflict::Locked.into()),
                Seen::Deleted(_) | Seen::Absent => return Ok(()),
            }
        }
        if now == state.bytes(entry) { Err(TxnError::Exists) } else { Ok(()) }
    }

    /// Makes an entry that leads to nothing lead to `new`.
    #[expect(clippy::too_many_arguments, reason = "the pieces of one entry")]
    async fn take_over(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
        index: usize,
        key: &Range<u32>,
        old: TupleId,
        new: TupleId,
    ) -> Result<(), TxnError> {
        loop {
            let ts = self.order().then_some(state.ts);
            let (write, number) = (at as u32, index as u8);
            state.entries.push(Entry { write, index: number, old: Some(old), key: key.clone() });
            let (was, is) = (old.bits().to_le_bytes(), new.bits().to_le_bytes());
            let admit = |stamp: &Stamp| !is_too_late(ts, stamp);
            let tree = table.tree(index);
            let replaced = tree.replace_seen(state.bytes(key), &was, &is, admit).await?;
            if let Replacement::Done { before, after } = replaced {
                state.entered(before, after);
                return Ok(());
            }
            state.entries.pop();
            match replaced {
                Replacement::Refused(leaf) => self.move_up(state, last_of(&leaf.stamp)).await?,
                _ => return Err(Conflict::Changed.into()),
            }
        }
    }
}

impl Write {
    /// Whether something is to lead to it that does not yet, or a place is to be found for it.
    fn is_to_be_announced(&self) -> bool {
        // Nothing leads to a row by another key than before, of which that is not kept.
        let stays = matches!(self.base, Base::Row(..)) && self.old.is_none();
        self.change == Change::Put && !stays
    }
}

/// A new row as it is placed.
fn pending<'a>(write: &Write, arena: &'a [u8]) -> New<'a> {
    let bytes = |range: &Range<u32>| &arena[range.start as usize..range.end as usize];
    New {
        state: TupleState::Pending,
        cts: Timestamp::ZERO,
        key: bytes(&write.key),
        value: bytes(&write.value),
    }
}

/// What a row has to be later than to come into a leaf.
fn last_of(stamp: &Stamp) -> Timestamp {
    Timestamp(stamp.read.max(stamp.removed))
}

/// Whether a row with this timestamp cannot come into a leaf any more.
fn is_too_late(ts: Option<Timestamp>, stamp: &Stamp) -> bool {
    ts.is_some_and(|ts| ts < last_of(stamp))
}

impl<M: LineLocks> State<M> {
    /// How many rows from `at` on can be announced together: 1, or more that are all probably new.
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

    /// Takes over that the transaction itself has split leaves: of one that it has seen, it depends
    /// on both halves.
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

    /// Takes over what the transaction itself changed in a leaf that it has seen.
    fn entered(&mut self, before: Leaf, after: Stamp) {
        self.be_later_than(Timestamp(after.read.max(after.removed)));
        for seen in &mut self.leaves {
            let same = seen.leaf.addr == before.addr;
            if same && seen.leaf.stamp.structure == before.stamp.structure {
                seen.leaf.stamp = after;
            }
        }
    }
}
