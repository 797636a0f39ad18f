//! Inserts, updates and deletes: buffered until the commit.

use std::iter;
use std::ops::Range;

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_strict::strict_assert;

use super::Transaction;
use super::state::{Base, Change, Kept, State, Write, hash_of};
use crate::schema::SecondaryIndex;
use crate::{Conflict, Table, TxnError};

/// The new value of a row, or a part of it, as the caller gives it.
enum To<'a> {
    Value(&'a [u8]),
    Part(usize, &'a [u8]),
}

impl<M: LineLocks> Transaction<M> {
    /// Adds a row.
    ///
    /// # Errors
    /// [`TxnError::Exists`] and [`TxnError::RowTooLong`], after which the transaction may continue.
    /// Conflicts; a key that is empty or too long; memory failures.
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
        let looked =
            database.look_up(state, number, key, hash, &mut old, AccessMode::Exclusive).await;
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

    /// Like [`insert`](Transaction::insert), without a lookup, for a row that the caller knows to
    /// be new. If the row does exist, the commit fails with [`TxnError::Exists`] or a conflict.
    ///
    /// # Errors
    /// [`TxnError::RowTooLong`]; a key that is empty or too long; [`TxnError::Exists`] for a row
    /// that this transaction has written.
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
    /// [`TxnError::NotFound`], after which the transaction may continue; otherwise as
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

    /// Overwrites a part of a row's value. The future is ready at its first poll if the transaction
    /// has read the row to write it and has not written it yet. It is usually ready if the
    /// transaction has read the row only to read it.
    ///
    /// # Errors
    /// [`TxnError::OutsideValue`]; otherwise as [`update`](Transaction::update).
    pub async fn update_part(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        offset: usize,
        bytes: &[u8],
    ) -> Result<(), TxnError> {
        let to = To::Part(offset, bytes);
        let (database, state) = self.alive()?;
        let (number, hash) = (state.number(table)?, hash_of(key));
        if state.write_of(number, hash, key).is_none()
            && let Some(kept) = database.kept_fast(state, table, number, (key, hash))
        {
            return state.note_change(number, hash, kept, &to);
        }
        // The slow path is boxed, so that the futures of callers stay small.
        Box::pin(self.change_row(table, key, to)).await
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
                // The old value was not kept, because the earlier change affected no index key.
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

    /// Reads a row that is to be written. A row that exists is kept in the arena.
    async fn read_to_write(&mut self, number: u8, hash: u32, key: &[u8]) -> Result<Base, TxnError> {
        let (database, state) = self.alive()?;
        let mut value = std::mem::take(&mut state.scratch);
        value.clear();
        let looked =
            database.look_up(state, number, key, hash, &mut value, AccessMode::Exclusive).await;
        state.scratch = value;
        self.doom(looked)
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// As [`update`](Transaction::update); [`TxnError::Blind`] for a row that this transaction has
    /// inserted with [`insert_blind`](Transaction::insert_blind).
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
                    // If the old value was not kept, the present value has the same index keys.
                    write.old.get_or_insert(write.value.clone());
                    Change::Delete
                }
                Base::Tombstone(..) | Base::Nothing(_) => Change::Nothing,
                // The transaction does not know whether a row was there before.
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
    /// The number of a table, which is probably the table of the last write.
    #[inline]
    fn number_again(&mut self, table: &Table<M>) -> Result<u8, TxnError> {
        match self.writes.last() {
            Some(last) if self.table(last.table).is(table) => Ok(last.table),
            _ => self.number(table),
        }
    }

    /// Buffers a change of a row. Its key and value are in the arena.
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
        strict_assert!(self.may_write.may_have(hash), "the filter forgets a write");
        // The write is built in place. If it were built elsewhere and then copied, the wider loads
        // of the copy would wait for the narrower stores.
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

    /// Stores the old value of the last write.
    fn keep_old(&mut self, old: Range<u32>) {
        if let Some(write) = self.writes.last_mut() {
            strict_assert!(old.end as usize <= self.arena.len(), "an old value outside the arena");
            write.old = Some(old);
        }
    }

    /// Whether a change of a row in the arena may change an index key.
    fn may_move(&self, table: u8, row: &Range<u32>, to: &To<'_>) -> bool {
        let schema = self.table(table).schema();
        let may = |(number, index): (usize, &SecondaryIndex)| match *to {
            To::Value(value) => schema.may_move(number, self.bytes(row), value),
            To::Part(offset, bytes) => index.may_change(offset, bytes.len()),
        };
        schema.indexes().iter().enumerate().any(may)
    }

    /// Whether a further change of a written row needs the old value, but the old value was not
    /// kept.
    fn lacks_old(&self, at: usize, to: &To<'_>) -> bool {
        let write = &self.writes[at];
        matches!(write.base, Base::Row(..))
            && write.old.is_none()
            && self.may_move(write.table, &write.value, to)
    }

    /// Buffers a change of a row that was read to be written.
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
                // The old value is needed only if an index key may change. Otherwise it is
                // overwritten in place.
                let value = if moves { self.keep_again(&old) } else { old };
                let from = value.start as usize + offset;
                self.arena[from..from + bytes.len()].copy_from_slice(bytes);
                strict_assert!(offset + bytes.len() <= value.len(), "a part outside the value");
                let part = offset as u32..(offset + bytes.len()) as u32;
                self.set_value(value, Some(part));
            }
        }
        Ok(())
    }

    /// Copies bytes inside the arena.
    fn keep_again(&mut self, bytes: &Range<u32>) -> Range<u32> {
        let from = self.arena.len() as u32;
        self.arena.extend_from_within(bytes.start as usize..bytes.end as usize);
        from..self.arena.len() as u32
    }

    /// Sets the value of the last write.
    fn set_value(&mut self, value: Range<u32>, part: Option<Range<u32>>) {
        if let Some(write) = self.writes.last_mut() {
            strict_assert!(
                value.end as usize <= self.arena.len()
                    && part.as_ref().is_none_or(|part| part.end as usize <= value.len()),
                "a part outside the value"
            );
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
                strict_assert!(
                    write.part.as_ref().is_none_or(|part| part.end as usize <= write.value.len()),
                    "a part outside the value"
                );
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
