//! Inserts, updates, deletes: noted until the commit.

use std::iter;
use std::ops::Range;

use latchwork_cache::Hint;
use latchwork_coherence::{LineLocks, Mode};

use super::Transaction;
use super::state::{Base, Change, Kept, State, Write, hash_of};
use crate::schema::Index;
use crate::{Conflict, Table, TxnError};

/// What a row is to become, as the caller has it.
enum To<'a> {
    Value(&'a [u8]),
    Part(usize, &'a [u8]),
}

impl<M: LineLocks> Transaction<M> {
    /// Adds a row.
    ///
    /// # Errors
    /// [`TxnError::Exists`]: the transaction may go on. [`TxnError::RowTooLong`], as well. Conflicts; when the
    /// key is empty or too long, and when memory fails.
    pub async fn insert(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TxnError> {
        let (database, state) = self.alive()?;
        table.heap().check_row(key, value)?;
        let (number, hash) = (state.number(table)?, hash_of(key));
        if let Some(at) = state.write_of(number, hash, key) {
            if state.writes[at].change == Change::Put {
                return Err(TxnError::Exists);
            }
            let value = state.keep(value);
            let write = &mut state.writes[at];
            (write.change, write.value, write.part) = (Change::Put, value, None);
            return Ok(());
        }
        let mut old = std::mem::take(&mut state.scratch);
        old.clear();
        let looked = database.look_up(state, number, key, hash, &mut old, Mode::Exclusive).await;
        state.scratch = old;
        match self.doom(looked)? {
            Base::Row(..) => Err(TxnError::Exists),
            base => {
                let (_, state) = self.alive()?;
                let (key, value) = (state.keep(key), state.keep(value));
                state.note(number, hash, (key, value), Change::Put, base);
                Ok(())
            }
        }
    }

    /// As [`insert`](Transaction::insert), of a row that the caller knows not to be there: it is
    /// not looked for. If it is there nevertheless, the commit fails with [`TxnError::Exists`].
    ///
    /// # Errors
    /// As [`insert`](Transaction::insert); [`TxnError::Exists`] only for a row that this
    /// transaction has written.
    pub fn insert_blind(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TxnError> {
        let (_, state) = self.alive()?;
        table.heap().check_row(key, value)?;
        table.tree(0).limits().check_key(key)?;
        let (number, hash) = (state.number_again(table)?, hash_of(key));
        match state.write_of(number, hash, key) {
            Some(at) if state.writes[at].change == Change::Put => return Err(TxnError::Exists),
            Some(at) => {
                let value = state.keep(value);
                let write = &mut state.writes[at];
                (write.change, write.value, write.part) = (Change::Put, value, None);
            }
            None => {
                let (key, value) = (state.keep(key), state.keep(value));
                state.note(number, hash, (key, value), Change::Put, Base::Unknown);
            }
        }
        Ok(())
    }

    /// Replaces the value of a row.
    ///
    /// # Errors
    /// [`TxnError::NotFound`], with which the transaction may go on; else as
    /// [`insert`](Transaction::insert).
    pub async fn update(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &[u8],
    ) -> Result<(), TxnError> {
        table.heap().check_row(key, value)?;
        self.change_row(table, key, To::Value(value)).await
    }

    /// Overwrites a part of a row's value.
    ///
    /// # Errors
    /// [`TxnError::OutsideValue`]; else as [`update`](Transaction::update).
    pub async fn update_part(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), TxnError> {
        self.change_row(table, key, To::Part(offset, bytes)).await
    }

    /// As [`update_part`](Transaction::update_part) of a row that was read to be written, and not
    /// written yet: a plain function, which is faster where that is the rule. Otherwise, and where
    /// that would be an error, nothing has happened, and the answer is false.
    pub fn try_update_part(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> bool {
        let Ok((_, state)) = self.alive() else { return false };
        let Ok(number) = state.number(table) else { return false };
        let hash = hash_of(key);
        if state.write_of(number, hash, key).is_some() {
            return false;
        }
        let Some(kept) = state.kept(number, hash, key) else { return false };
        state.note_change(number, hash, kept, &To::Part(offset, bytes)).is_ok()
    }

    async fn change_row(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        to: To<'_>,
    ) -> Result<(), TxnError> {
        let (_, state) = self.alive()?;
        let (number, hash) = (state.number(table)?, hash_of(key));
        if let Some(at) = state.write_of(number, hash, key) {
            if state.lacks_old(at, &to) {
                // It was not kept, since no entry depended on what changed then.
                let base = self.read_to_write(number, hash, key).await?;
                let (_, state) = self.alive()?;
                let kept = state.kept(number, hash, key);
                let (Some(kept), true) = (kept, base == state.writes[at].base) else {
                    return self.doom(Err(Conflict::Changed.into()));
                };
                state.writes[at].old = Some(kept.value);
            }
            let (_, state) = self.alive()?;
            return state.change_again(at, &to);
        }
        if let Some(kept) = state.kept(number, hash, key) {
            return state.note_change(number, hash, kept, &to);
        }
        self.read_to_write(number, hash, key).await?;
        let (_, state) = self.alive()?;
        match state.kept(number, hash, key) {
            Some(kept) => state.note_change(number, hash, kept, &to),
            None => Err(TxnError::NotFound),
        }
    }

    /// Reads a row that is to be written. If it is there, it is kept.
    async fn read_to_write(&mut self, number: u8, hash: u32, key: &[u8]) -> Result<Base, TxnError> {
        let (database, state) = self.alive()?;
        let mut value = std::mem::take(&mut state.scratch);
        value.clear();
        let looked = database.look_up(state, number, key, hash, &mut value, Mode::Exclusive).await;
        state.scratch = value;
        self.doom(looked)
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// As [`update`](Transaction::update).
    pub async fn delete(&mut self, table: &Table<M>, key: &[u8]) -> Result<(), TxnError> {
        let (_, state) = self.alive()?;
        let (number, hash) = (state.number(table)?, hash_of(key));
        if let Some(at) = state.write_of(number, hash, key) {
            let write = &mut state.writes[at];
            if write.change != Change::Put {
                return Err(TxnError::NotFound);
            }
            write.change = match write.base {
                Base::Row(..) => {
                    // If it was not kept, all entries are the same.
                    write.old.get_or_insert(write.value.clone());
                    Change::Delete
                }
                Base::Tombstone(..) | Base::Nothing(_) => Change::Nothing,
                // Whether a row was there before is not known.
                Base::Unknown => return Err(TxnError::Blind),
            };
            return Ok(());
        }
        let base = self.read_to_write(number, hash, key).await?;
        let (_, state) = self.alive()?;
        let (Base::Row(..), Some(kept)) = (base, state.kept(number, hash, key)) else {
            return Err(TxnError::NotFound);
        };
        state.note(number, hash, (kept.key, Range::default()), Change::Delete, base);
        state.keep_old(kept.value);
        Ok(())
    }
}

impl<M: LineLocks> State<M> {
    /// The number of a table, probably that of the last write.
    #[inline]
    fn number_again(&mut self, table: &Table<M>) -> Result<u8, TxnError> {
        match self.writes.last() {
            Some(last) if self.table(last.table).is(table) => Ok(last.table),
            _ => self.number(table),
        }
    }

    /// Notes a change of a row, whose key and value stand in the arena.
    #[inline]
    fn note(
        &mut self,
        table: u8,
        hash: u32,
        (key, value): (Range<u32>, Range<u32>),
        change: Change,
        base: Base,
    ) {
        self.may_write.add(hash);
        // Made where it will stand: what is put together elsewhere in words, and then moved in
        // pairs of them, the processor waits for.
        self.writes.extend(iter::once_with(|| Write {
            table,
            change,
            base,
            hash,
            key,
            value,
            old: None,
            part: None,
            hint: Hint::default(),
            home: false,
            read: None,
            prepared: None,
            placed: None,
            installed: false,
        }));
    }

    /// Notes the row as it is beside the last write.
    fn keep_old(&mut self, old: Range<u32>) {
        if let Some(write) = self.writes.last_mut() {
            write.old = Some(old);
        }
    }

    /// Whether a change of a row, which stands in the arena, may move it in an index.
    fn may_move(&self, table: u8, row: &Range<u32>, to: &To<'_>) -> bool {
        let schema = self.table(table).schema();
        let may = |(number, index): (usize, &Index)| match *to {
            To::Value(value) => schema.may_move(number, self.bytes(row), value),
            To::Part(offset, bytes) => index.may_change(offset, bytes.len()),
        };
        schema.indexes().iter().enumerate().any(may)
    }

    /// Whether another change of a row that is to be written needs the row as it is, which was not
    /// kept.
    fn lacks_old(&self, at: usize, to: &To<'_>) -> bool {
        let write = &self.writes[at];
        matches!(write.base, Base::Row(..))
            && write.old.is_none()
            && self.may_move(write.table, &write.value, to)
    }

    /// Notes a change of a row that was read to be written.
    fn note_change(
        &mut self,
        number: u8,
        hash: u32,
        kept: Kept,
        to: &To<'_>,
    ) -> Result<(), TxnError> {
        let Kept { read, base, key, value: old } = kept;
        if let To::Part(offset, bytes) = *to {
            inside(offset, bytes, old.len())?;
        }
        let moves = self.may_move(number, &old, to);
        self.note(number, hash, (key, Range::default()), Change::Put, base);
        if let (Some(write), Some(found)) = (self.writes.last_mut(), self.reads.get(read)) {
            write.hint.copy_from(&found.hint);
            (write.home, write.read) = (found.home, Some(read as u32));
        }
        if moves {
            self.keep_old(old.clone());
        }
        match *to {
            To::Value(value) => {
                let value = self.keep(value);
                self.set_value(value, None);
            }
            To::Part(offset, bytes) => {
                // Nobody asks for the row as it was any more, unless it may move in an index.
                let value = if moves { self.keep_again(&old) } else { old };
                let from = value.start as usize + offset;
                self.arena[from..from + bytes.len()].copy_from_slice(bytes);
                let part = offset as u32..(offset + bytes.len()) as u32;
                self.set_value(value, Some(part));
            }
        }
        Ok(())
    }

    /// A copy of bytes that are in the arena.
    fn keep_again(&mut self, bytes: &Range<u32>) -> Range<u32> {
        let from = self.arena.len() as u32;
        self.arena.extend_from_within(bytes.start as usize..bytes.end as usize);
        from..self.arena.len() as u32
    }

    /// The value of the last write.
    fn set_value(&mut self, value: Range<u32>, part: Option<Range<u32>>) {
        if let Some(write) = self.writes.last_mut() {
            (write.value, write.part) = (value, part);
        }
    }

    /// Changes a row that this transaction has written before.
    fn change_again(&mut self, at: usize, to: &To<'_>) -> Result<(), TxnError> {
        if self.writes[at].change != Change::Put {
            return Err(TxnError::NotFound);
        }
        match *to {
            To::Value(value) => {
                let value = self.keep(value);
                let write = &mut self.writes[at];
                (write.value, write.part) = (value, None);
            }
            To::Part(offset, bytes) => {
                let write = &mut self.writes[at];
                inside(offset, bytes, write.value.len())?;
                let (from, to) = (offset as u32, (offset + bytes.len()) as u32);
                if let Some(part) = &mut write.part {
                    *part = part.start.min(from)..part.end.max(to);
                }
                let at = write.value.start as usize + offset;
                self.arena[at..at + bytes.len()].copy_from_slice(bytes);
            }
        }
        Ok(())
    }
}

fn inside(offset: usize, bytes: &[u8], value_len: usize) -> Result<(), TxnError> {
    match offset.checked_add(bytes.len()) {
        Some(end) if end <= value_len => Ok(()),
        _ => Err(TxnError::OutsideValue { offset, len: bytes.len(), value_len }),
    }
}
