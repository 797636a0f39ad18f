//! Reading many rows together, so that the waits for memory overlap.
//!
//! ```text
//!   index   keys without a stored row location descend together, one level at a time
//!   heap    which frame? ──► line header and slot ──► tuple    each prefetched for all rows
//!   rows    locked, read and recorded as by `get`, one after the other
//! ```
//!
//! A prefetch is a guess. No result depends on it.

use std::ops::Range;

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks};
use smallvec::SmallVec;

use super::Transaction;
use super::fast_read::FastRead;
use super::state::{Base, State, hash_of};
use crate::{Conflict, Database, RowId, Table, TxnError};

/// The number of rows that are read together. The index has as many lookups in progress together.
const LANES: usize = 16;

/// The values of rows that were read together, in the order of their keys. A `Values` keeps its
/// buffers for its next use.
#[derive(Clone, Default, Debug)]
pub struct Values {
    bytes: Vec<u8>,
    rows: Vec<Option<Range<usize>>>,
}

impl Values {
    /// The value of the row for the key with this number; `None` if the row does not exist.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        Some(&self.bytes[self.rows.get(number)?.clone()?])
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are no keys.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The values, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// Removes all values.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    /// Adds a value, or `None` for a missing row.
    pub fn push(&mut self, row: Option<&[u8]>) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(row.unwrap_or(&[]));
        self.rows.push(row.map(|_| from..self.bytes.len()));
    }

    /// Adds the row with the value from `from` on, or `None` if `there` is false.
    #[inline]
    fn push_from(&mut self, from: usize, there: bool) {
        self.rows.push(there.then_some(from..self.bytes.len()));
    }
}

impl<M: LineLocks> Transaction<M> {
    /// Reads the rows of all `keys` into `values`, which is cleared first. The result equals that
    /// of a [`get`](Transaction::get) for each key in order. The call is faster than these where
    /// rows are far apart in a large table.
    ///
    /// # Errors
    /// As [`get`](Transaction::get). The content of `values` is then unspecified.
    pub async fn get_many<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
    ) -> Result<(), TxnError> {
        self.read_many(table, keys, values, AccessMode::Shared).await
    }

    /// Like [`get_many`](Transaction::get_many), for rows that are probably to be written: see
    /// [`get_for_update`](Transaction::get_for_update).
    ///
    /// # Errors
    /// As [`get_many`](Transaction::get_many).
    pub async fn get_many_for_update<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
    ) -> Result<(), TxnError> {
        self.read_many(table, keys, values, AccessMode::Exclusive).await
    }

    async fn read_many<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
        mode: AccessMode,
    ) -> Result<(), TxnError> {
        values.clear();
        for group in keys.chunks(LANES) {
            let (database, state) = self.alive()?;
            let number = state.number(table)?;
            let lanes = database.locate(table, group, mode);
            let mut at = 0;
            while at < group.len() {
                let (database, state) = self.alive()?;
                match database.rows_here(state, table, number, group, &lanes, &mut at, values, mode)
                {
                    FastRead::Row => {}
                    FastRead::Locked => return self.doom(Err(Conflict::Locked.into())),
                    FastRead::More => {
                        let (key, hash) = (group[at].as_ref(), lanes[at].hash);
                        let (from, row) = (values.bytes.len(), &mut values.bytes);
                        let looked = database.look_up(state, number, key, hash, row, mode).await;
                        let there = matches!(self.doom(looked)?, Base::Row(..));
                        values.push_from(from, there);
                        at += 1;
                    }
                }
            }
            let (database, _) = self.alive()?;
            database.memory().handle().coop().await;
        }
        Ok(())
    }
}

/// A row that is to be read.
#[derive(Default)]
struct Lane {
    hash: u32,
    /// A guess of the frame of its line.
    hint: Hint,
    /// A guess of its row id.
    id: Option<RowId>,
}

impl<M: LineLocks> Database<M> {
    /// Reads rows from number `at` on, while the fast path succeeds. After the call `at` is the
    /// number of the first row that was not read.
    #[expect(clippy::too_many_arguments, reason = "the pieces of many reads, all borrowed apart")]
    fn rows_here<K: AsRef<[u8]>>(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        number: u8,
        keys: &[K],
        lanes: &[Lane; LANES],
        at: &mut usize,
        values: &mut Values,
        mode: AccessMode,
    ) -> FastRead {
        for (key, lane) in keys.iter().zip(lanes).skip(*at) {
            let (key, hash) = (key.as_ref(), lane.hash);
            if let Some(own) = state.own_row(number, hash, key) {
                values.push(own);
            } else {
                let Some(id) = lane.id else { return FastRead::More };
                let (from, hint) = (values.bytes.len(), Hint::default());
                hint.copy_from(&lane.hint);
                let (place, row) = ((id, hint), &mut values.bytes);
                match self.row_here(state, table, number, place, (key, hash), row, mode) {
                    FastRead::Row => values.push_from(from, true),
                    end => return end,
                }
            }
            *at += 1;
        }
        FastRead::Row
    }

    /// Guesses the row locations, and prefetches everything that reading the rows needs.
    fn locate<K: AsRef<[u8]>>(
        &self,
        table: &Table<M>,
        keys: &[K],
        mode: AccessMode,
    ) -> [Lane; LANES] {
        let heap = table.heap();
        let mut lanes: [Lane; LANES] = Default::default();
        let locks = mode == AccessMode::Exclusive || self.locks_reads();
        let places = self.locations().borrow();
        for (lane, key) in lanes.iter_mut().zip(keys) {
            lane.hash = hash_of(key.as_ref());
            places.prefetch(table.id(), lane.hash);
        }
        let mut unknown: SmallVec<[(usize, &[u8]); LANES]> = SmallVec::new();
        for (at, (lane, key)) in lanes.iter_mut().zip(keys).enumerate() {
            match places.find(table.id(), lane.hash) {
                Some((id, hint)) => {
                    heap.prefetch_slot(id, &hint, locks);
                    (lane.id, lane.hint) = (Some(id), hint);
                }
                None => unknown.push((at, key.as_ref())),
            }
        }
        drop(places);
        if !unknown.is_empty() {
            let keys: SmallVec<[&[u8]; LANES]> = unknown.iter().map(|&(_, key)| key).collect();
            table.tree(0).try_get_many(
                &keys,
                |_, value| RowId::from_bits(value.u64(0)),
                |at, found| {
                    let lane = &mut lanes[unknown[at].0];
                    lane.id = found.flatten();
                    if let Some(id) = lane.id {
                        heap.prefetch_location(id);
                    }
                },
            );
            for (at, _) in unknown {
                let lane = &mut lanes[at];
                if let Some(id) = lane.id {
                    lane.hint = heap.guess(id);
                    heap.prefetch_slot(id, &lane.hint, locks);
                }
            }
        }
        for lane in &lanes {
            if let Some(id) = lane.id {
                heap.prefetch_tuple(id, &lane.hint);
            }
        }
        lanes
    }
}
