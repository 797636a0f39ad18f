//! Inserts, updates, deletes: noted until the commit.

use std::ops::Range;

use latchwork_coherence::{LineLocks, Mode};

use super::Transaction;
use super::state::{Base, Change, State, Write, hash_of};
use crate::{Table, TxnError};

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
        let (number, hash) = (state.number(table), hash_of(key));
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
        let looked = database.look_up(state, number, key, hash, &mut old, Mode::Exclusive).await;
        state.scratch = old;
        match self.doom(looked)? {
            Base::Row(..) => Err(TxnError::Exists),
            base => {
                let (_, state) = self.alive()?;
                state.note(number, hash, key, Change::Put, base);
                let value = state.keep(value);
                state.set_value(value, None);
                Ok(())
            }
        }
    }

    /// Replaces the value of a row.
    ///
    /// # Errors
    /// [`TxnError::NotFound`], with which the transaction may go on; else as [`insert`](Transaction::insert).
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

    async fn change_row(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        to: To<'_>,
    ) -> Result<(), TxnError> {
        let (database, state) = self.alive()?;
        let (number, hash) = (state.number(table), hash_of(key));
        if let Some(at) = state.write_of(number, hash, key) {
            return state.change_again(at, &to);
        }
        let mut old = std::mem::take(&mut state.scratch);
        let looked = database.look_up(state, number, key, hash, &mut old, Mode::Exclusive).await;
        let result = match self.doom(looked) {
            Ok(base @ Base::Row(..)) => self.note_change(number, hash, key, base, &to, &old),
            Ok(_) => Err(TxnError::NotFound),
            Err(error) => Err(error),
        };
        if let Some(state) = self.state.as_deref_mut() {
            state.scratch = old;
        }
        result
    }

    fn note_change(
        &mut self,
        number: u8,
        hash: u32,
        key: &[u8],
        base: Base,
        to: &To<'_>,
        old: &[u8],
    ) -> Result<(), TxnError> {
        let (_, state) = self.alive()?;
        if let To::Part(offset, bytes) = *to {
            inside(offset, bytes, old.len())?;
        }
        state.note(number, hash, key, Change::Put, base);
        state.keep_old(old);
        match *to {
            To::Value(value) => {
                let value = state.keep(value);
                state.set_value(value, None);
            }
            To::Part(offset, bytes) => {
                let value = state.keep(old);
                let at = value.start as usize + offset;
                state.arena[at..at + bytes.len()].copy_from_slice(bytes);
                let part = offset as u32..(offset + bytes.len()) as u32;
                state.set_value(value, Some(part));
            }
        }
        Ok(())
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// As [`update`](Transaction::update).
    pub async fn delete(&mut self, table: &Table<M>, key: &[u8]) -> Result<(), TxnError> {
        let (database, state) = self.alive()?;
        let (number, hash) = (state.number(table), hash_of(key));
        if let Some(at) = state.write_of(number, hash, key) {
            let write = &mut state.writes[at];
            if write.change != Change::Put {
                return Err(TxnError::NotFound);
            }
            write.change = match write.base {
                Base::Row(..) => Change::Delete,
                Base::Tombstone(..) | Base::Nothing(_) => Change::Nothing,
            };
            return Ok(());
        }
        let mut old = std::mem::take(&mut state.scratch);
        let looked = database.look_up(state, number, key, hash, &mut old, Mode::Exclusive).await;
        let looked = self.doom(looked);
        if let (Ok(base @ Base::Row(..)), Ok((_, state))) = (&looked, self.alive()) {
            state.note(number, hash, key, Change::Delete, *base);
            state.keep_old(&old);
        }
        if let Some(state) = self.state.as_deref_mut() {
            state.scratch = old;
        }
        match looked? {
            Base::Row(..) => Ok(()),
            _ => Err(TxnError::NotFound),
        }
    }
}

impl<M: LineLocks> State<M> {
    fn note(&mut self, table: u8, hash: u32, key: &[u8], change: Change, base: Base) {
        let key = self.keep(key);
        let none = Range::default();
        let (value, old) = (none.clone(), none);
        let (part, prepared, placed) = (None, None, None);
        let installed = false;
        let write =
            Write { table, change, base, hash, key, value, old, part, prepared, placed, installed };
        self.writes.push(write);
    }

    /// Keeps the row as it is beside the last write, if the entries of indexes depend on it.
    fn keep_old(&mut self, old: &[u8]) {
        let Some(write) = self.writes.last() else { return };
        if self.table(write.table).secondaries() > 0 {
            let old = self.keep(old);
            self.writes.last_mut().into_iter().for_each(|write| write.old = old.clone());
        }
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
