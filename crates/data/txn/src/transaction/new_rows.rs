//! Staging of rows: new rows are placed as pending, one by one or as a run in one line.

use std::ops::Range;

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_strict::strict_assert;
use latchwork_wal::Timestamp;
use smallvec::SmallVec;

use super::entries::Wanted;
use super::stage::Staging;
use super::state::{Base, Change, State, Write};
use crate::heap::{Placed, RUN};
use crate::page::{New, State as TupleState};
use crate::{Conflict, RowId, Table, TxnError};

impl<M: LineLocks> Staging<'_, M> {
    /// Places new rows as pending, and enters all entries that lead to written rows into the
    /// indexes.
    pub(super) async fn stage_rows(&mut self) -> Result<(), TxnError> {
        let mut at = 0;
        while at < self.state.writes.len() {
            if !self.state.writes[at].is_to_be_staged() {
                at += 1;
                continue;
            }
            let run = self.state.run_of_new(at);
            if run > 1 {
                self.stage_run(at..at + run).await?;
            } else {
                self.stage_row(at).await?;
            }
            strict_assert!(
                self.state.writes[at..at + run].iter().all(|write| write.id().is_some()),
                "a staged row has no location"
            );
            at += run;
        }
        Ok(())
    }

    async fn stage_row(&mut self, at: usize) -> Result<(), TxnError> {
        let write = &self.state.writes[at];
        let table = self.state.table(write.table).clone();
        let id = match write.base {
            Base::Row(id, _) => id,
            Base::Tombstone(id, _) => {
                // A purge that was dropped in the middle may have removed the entry. So the entry
                // is added again.
                let entry = Wanted { table: &table, write: at, index: 0, key: write.key.clone() };
                match self.enter(&entry, id).await? {
                    Some(there) if there != id => return Err(Conflict::Changed.into()),
                    _ => id,
                }
            }
            Base::Nothing(_) | Base::Unknown => self.stage_new(&table, at).await?,
        };
        for index in 1..=table.secondaries() {
            self.enter_secondary(&table, at, index, id).await?;
        }
        Ok(())
    }

    /// Like [`stage_row`](Staging::stage_row), for rows of one table that are probably new and have
    /// only a primary index. The rows are placed into lines together. Rows with ascending keys are
    /// also entered into leaves together.
    async fn stage_run(&mut self, run: Range<usize>) -> Result<(), TxnError> {
        let table = self.state.table(self.state.writes[run.start].table).clone();
        self.place_run(&table, run.clone()).await?;
        let mut at = run.start;
        while at < run.end {
            at += match self.enter_run(&table, at..run.end).await? {
                // The index has an entry of this key already, or the insert comes too late for the
                // leaf.
                0 => {
                    self.stage_new(&table, at).await?;
                    1
                }
                entered => entered,
            };
        }
        Ok(())
    }

    /// Places new rows as pending.
    async fn place_run(&mut self, table: &Table<M>, run: Range<usize>) -> Result<(), TxnError> {
        let left = run.start + self.state.place_fast(table, run.clone())..run.end;
        if left.is_empty() {
            return Ok(());
        }
        self.state.place_slow(table, left).await
    }

    /// Places a new row and enters it into the primary index. Returns its row id.
    async fn stage_new(&mut self, table: &Table<M>, at: usize) -> Result<RowId, TxnError> {
        if self.state.writes[at].placed.is_none() {
            self.place_run(table, at..at + 1).await?;
        }
        let write = &self.state.writes[at];
        let entry = Wanted { table, write: at, index: 0, key: write.key.clone() };
        let id = write.placed.as_ref().and_then(Placed::id).ok_or(TxnError::Doomed)?;
        let stale = match write.base {
            // The entry exists, but leads to no row.
            Base::Nothing(Some(old)) => Some(old),
            base => match self.enter(&entry, id).await? {
                None => None,
                // Another transaction has added this entry since the read.
                Some(_) if base != Base::Unknown => return Err(Conflict::Changed.into()),
                Some(_) => match self.resolve(table, at).await? {
                    Base::Nothing(Some(old)) => Some(old),
                    Base::Tombstone(there, _) => return Ok(there),
                    _ => return Err(Conflict::Changed.into()),
                },
            },
        };
        if let Some(old) = stale {
            self.take_over(&entry, old, id).await?;
        }
        Ok(id)
    }

    /// Reads the row or tombstone in the way of a row that was inserted without a lookup. The
    /// transaction overwrites a tombstone: it locks and prepares the tombstone, and removes the
    /// tuple that it placed for the new row.
    async fn resolve(&mut self, table: &Table<M>, at: usize) -> Result<Base, TxnError> {
        let write = &self.state.writes[at];
        let (number, hash) = (write.table, write.hash);
        let key = self.state.bytes(&write.key).to_vec();
        let (mut old, mode) = (Vec::new(), AccessMode::Exclusive);
        let base = self.database.look_up(self.state, number, &key, hash, &mut old, mode).await?;
        match base {
            Base::Row(..) => return Err(TxnError::Exists),
            Base::Tombstone(id, cts) => {
                let heap = table.heap();
                self.database.lock(self.state, heap.line_of(id), mode).await?;
                let prepared = loop {
                    let value = self.state.bytes(&self.state.writes[at].value);
                    let (hint, value) = (Hint::default(), Some(value));
                    match heap.prepare(id, &hint, &key, cts, self.ts(), value).await? {
                        Ok(prepared) => break prepared,
                        Err(read) => self.database.move_up(self.state, read).await?,
                    }
                };
                self.state.writes[at].placed = None;
                heap.tidy().await?;
                if heap.has_strays() {
                    // A transaction of another node has locked the line of a stray. The undo
                    // retries until the line is free.
                    return Err(Conflict::Locked.into());
                }
                self.state.writes[at].prepared = Some(prepared);
            }
            Base::Nothing(_) | Base::Unknown => {}
        }
        self.state.writes[at].base = base;
        Ok(base)
    }
}

impl<M: LineLocks> State<M> {
    /// Places the rows that fit into the worker's tail line as pending. Returns their number.
    fn place_fast(&mut self, table: &Table<M>, run: Range<usize>) -> usize {
        let State { writes, arena, .. } = self;
        let heap = table.heap();
        let by = heap.of_this_node();
        let rows = writes[run.clone()].iter().map(|write| pending(write, arena, by));
        let Some((line, slots)) = heap.place_here(rows) else { return 0 };
        for (write, slot) in writes[run].iter_mut().zip(slots.clone()) {
            write.placed = Some(heap.placed(RowId::new(line, slot)));
        }
        slots.len()
    }

    /// Like [`place_fast`](State::place_fast), for rows that may need another line.
    async fn place_slow(&mut self, table: &Table<M>, run: Range<usize>) -> Result<(), TxnError> {
        let State { writes, arena, .. } = self;
        let by = table.heap().of_this_node();
        let rows = writes[run.clone()].iter().map(|write| pending(write, arena, by));
        let rows: SmallVec<[New<'_>; RUN]> = rows.collect();
        let mut placed = SmallVec::new();
        table.heap().place_run(&rows, &mut placed).await?;
        for (write, placed) in writes[run].iter_mut().zip(placed) {
            write.placed = Some(placed);
        }
        Ok(())
    }

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
}

impl Write {
    /// Whether the write still needs a location or index entries.
    fn is_to_be_staged(&self) -> bool {
        // The old value is kept where an index key may change. Without it, the entries stay as they
        // are.
        let stays = matches!(self.base, Base::Row(..)) && self.old.is_none();
        self.change == Change::Put && !stays
    }
}

/// The bytes of a new row, as the node with the signature `by` places it.
fn pending<'a>(write: &Write, arena: &'a [u8], by: Timestamp) -> New<'a> {
    let bytes = |range: &Range<u32>| &arena[range.start as usize..range.end as usize];
    New { state: TupleState::Pending, cts: by, key: bytes(&write.key), value: bytes(&write.value) }
}
