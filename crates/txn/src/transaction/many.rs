//! Reading many rows together: the waits for memory overlap.
//!
//! ```text
//!   index   all keys whose places are not remembered descend together, a level at a time
//!   heap    where is the line? ──► its header and the slot ──► the tuple      each asked for, for all rows,
//!   rows    locked, read, remembered as by `get`, one after the other          before the first is looked at
//! ```
//!
//! What is asked for in advance is a guess, and decides nothing.

use std::ops::Range;

use latchwork_cache::Hint;
use latchwork_coherence::{LineLocks, Mode};
use smallvec::SmallVec;

use super::Transaction;
use super::state::{Base, hash_of};
use crate::{Database, Table, TupleId, TxnError};

/// Rows that are under way together: as many as lookups in the index.
const LANES: usize = 16;

/// The values of rows that were read together, in the order of their keys. Used again, it allocates nothing.
#[derive(Clone, Default, Debug)]
pub struct Values {
    bytes: Vec<u8>,
    rows: Vec<Option<Range<usize>>>,
    scratch: Vec<u8>,
}

impl Values {
    /// The value of the row with the key of this number; `None` where no row is.
    #[inline]
    pub fn get(&self, number: usize) -> Option<&[u8]> {
        Some(&self.bytes[self.rows.get(number)?.clone()?])
    }

    /// How many keys were looked up.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether none was.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The values, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        (0..self.len()).map(|number| self.get(number))
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    /// Adds one.
    pub fn push(&mut self, row: Option<&[u8]>) {
        let from = self.bytes.len();
        self.bytes.extend_from_slice(row.unwrap_or(&[]));
        self.rows.push(row.map(|_| from..self.bytes.len()));
    }

    /// Adds the row in `scratch`, if it is there.
    fn push_scratch(&mut self, there: bool) {
        let scratch = std::mem::take(&mut self.scratch);
        self.push(there.then_some(&scratch[..]));
        self.scratch = scratch;
    }
}

impl<M: LineLocks> Transaction<M> {
    /// Reads the rows of all `keys`: `values` loses what was in it. As [`get`](Transaction::get) for each in their order,
    /// but several times as fast where rows are far apart in a large table.
    ///
    /// # Errors
    /// As [`get`](Transaction::get); what is in `values` then is of no account.
    pub async fn get_many<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
    ) -> Result<(), TxnError> {
        self.read_many(table, keys, values, Mode::Shared).await
    }

    /// As [`get_many`](Transaction::get_many), of rows that are probably to be written: see
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
        self.read_many(table, keys, values, Mode::Exclusive).await
    }

    async fn read_many<K: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        keys: &[K],
        values: &mut Values,
        mode: Mode,
    ) -> Result<(), TxnError> {
        values.clear();
        for group in keys.chunks(LANES) {
            let (database, state) = self.alive()?;
            let number = state.number(table)?;
            let mut hashes = [0; LANES];
            for (hash, key) in hashes.iter_mut().zip(group) {
                *hash = hash_of(key.as_ref());
            }
            let (ids, hints) = database.locate(table, group, &hashes, mode);
            for (((key, hash), id), hint) in group.iter().zip(hashes).zip(ids).zip(hints) {
                let key = key.as_ref();
                let (database, state) = self.alive()?;
                if let Some(own) = state.own_row(number, hash, key) {
                    values.push(own);
                    continue;
                }
                let (at, row) = ((key, hash), &mut values.scratch);
                let here = id.and_then(|id| {
                    database.row_in(state, table, number, (id, hint), at, row, mode)
                });
                let looked = match here {
                    Some(here) => here,
                    None => database.look_up(state, number, key, hash, row, mode).await,
                };
                let there = matches!(self.doom(looked)?, Base::Row(..));
                values.push_scratch(there);
            }
            let (database, _) = self.alive()?;
            database.memory().handle().coop().await;
        }
        Ok(())
    }
}

impl<M: LineLocks> Database<M> {
    /// Where rows probably are, for which everything that reading them takes is on its way to the processor.
    fn locate<K: AsRef<[u8]>>(
        &self,
        table: &Table<M>,
        keys: &[K],
        hashes: &[u32; LANES],
        mode: Mode,
    ) -> ([Option<TupleId>; LANES], [Hint; LANES]) {
        let heap = table.heap();
        let mut ids = [None; LANES];
        let mut hints: [Hint; LANES] = Default::default();
        let locks = mode == Mode::Exclusive || self.scheme() == crate::Scheme::TwoPhaseLocking;
        let mut unknown: SmallVec<[(usize, &[u8]); LANES]> = SmallVec::new();
        let places = self.places().borrow();
        for (lane, (key, hash)) in keys.iter().zip(hashes).enumerate() {
            match places.find(table.id(), *hash) {
                Some((id, hint)) => {
                    heap.prefetch_slot(id, &hint, locks);
                    (ids[lane], hints[lane]) = (Some(id), hint);
                }
                None => unknown.push((lane, key.as_ref())),
            }
        }
        drop(places);
        if !unknown.is_empty() {
            let keys: SmallVec<[&[u8]; LANES]> = unknown.iter().map(|&(_, key)| key).collect();
            table.tree(0).try_get_many(
                &keys,
                |_, value| TupleId::from_bits(value.u64(0)),
                |at, found| {
                    let lane = unknown[at].0;
                    ids[lane] = found.flatten();
                    if let Some(id) = ids[lane] {
                        heap.prefetch_place(id);
                    }
                },
            );
            for (lane, _) in unknown {
                if let Some(id) = ids[lane] {
                    hints[lane] = heap.guess(id);
                    heap.prefetch_slot(id, &hints[lane], locks);
                }
            }
        }
        for (id, hint) in ids.iter().zip(&hints) {
            if let Some(id) = id {
                heap.prefetch_tuple(*id, hint);
            }
        }
        (ids, hints)
    }
}
