//! Scans of ranges, with the transaction's own writes merged in.

use std::ops::{Bound, ControlFlow};

use latchwork_blink::Leaf;
use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_record::Direction;

use super::scratch::{Batch, Scratch};
use super::state::{Change, Read, State, hash_of, index_number};
use super::{Range, Transaction};
use crate::heap::{Patience, SeenRow};
use crate::{Conflict, Database, RowId, Scheme, Table, Timestamp, TxnError};

/// The maximum number of index entries that are read at once.
const BATCH: usize = 64;

/// The number of rows that are prefetched together.
const LANES: usize = 16;

impl<M: LineLocks> Transaction<M> {
    /// Calls `visit` for the rows of a range in the order of their keys, until `visit` stops.
    /// Returns the number of calls.
    ///
    /// # Errors
    /// Conflicts and memory failures.
    pub async fn scan(
        &mut self,
        table: &Table<M>,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        self.scan_tree(table, 0, range, visit).await
    }

    /// Like [`scan`](Transaction::scan), for a range of the schema's index number `index`, in the
    /// order of that index. `visit` gets the keys of the primary index.
    ///
    /// # Errors
    /// [`TxnError::NoIndex`]; conflicts; memory failures.
    pub async fn scan_index(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        if index >= table.secondaries() {
            return Err(TxnError::NoIndex { index, indexes: table.secondaries() });
        }
        self.scan_tree(table, index + 1, range, visit).await
    }

    async fn scan_tree(
        &mut self,
        table: &Table<M>,
        index: usize,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        let (database, state) = self.alive()?;
        let number = state.number(table)?;
        let mut scratch = state.scan.take().unwrap_or_default();
        let scanned = database.scan(state, number, index, range, &mut scratch, visit).await;
        state.scan = Some(scratch);
        self.doom(scanned)
    }
}

impl<M: LineLocks> Database<M> {
    async fn scan(
        &self,
        state: &mut State<M>,
        number: u8,
        index: usize,
        range: Range<'_>,
        scratch: &mut Scratch,
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        let Scratch { batch, hints, key, row } = scratch;
        let table = state.table(number).clone();
        let mut own = state.own_rows(number, index, &range)?;
        // `own` is used as a stack: the next row is its last element.
        if !range.descending {
            own.reverse();
        }
        let mut next_of_own = |before: Option<&[u8]>| {
            let comes = |key: &[u8]| match before {
                None => true,
                Some(before) if range.descending => key > before,
                Some(before) => key < before,
            };
            own.pop_if(|(key, _)| comes(key))
        };
        let mut resume = None::<Vec<u8>>;
        let mut shown = 0;
        let limit = range.limit;
        let direction = if range.descending { Direction::Down } else { Direction::Up };
        let of = index_number(table.id(), index);
        let scan = state.record.scan(of, range.from, range.to, direction);
        while shown < limit {
            batch.clear();
            let rest = match resume.as_deref() {
                None => range,
                Some(last) if range.descending => Range { to: Bound::Excluded(last), ..range },
                Some(last) => Range { from: Bound::Excluded(last), ..range },
            };
            self.take(&table, index, &rest, limit - shown, batch).await?;
            for leaf in &batch.leaves {
                self.found_nothing(state, number, &table, index, *leaf).await?;
            }
            for entry in 0..batch.entries.len() {
                let entry_key = batch.key(entry);
                while let Some((own_key, write)) = next_of_own(Some(entry_key)) {
                    shown += 1;
                    if state.show(write, &mut visit).is_break() || shown == limit {
                        state.record.stopped(scan, &own_key);
                        return Ok(shown);
                    }
                }
                if entry % LANES == 0 {
                    let next = &batch.entries[entry..];
                    self.fetch(&table, next.iter().take(LANES).map(|&(_, id)| id), hints);
                }
                let place = (batch.entries[entry].1, std::mem::take(&mut hints[entry % LANES]));
                let at = (number, &table, index, entry_key);
                let seen = match self.row_at_here(state, at, &place, key, row) {
                    Some(seen) => seen,
                    None => self.row_at(state, at, place.0, key, row).await?,
                };
                let live = matches!(seen, SeenRow::Live(_));
                if seen == SeenRow::Absent && self.scheme() == Scheme::TimestampOrdering {
                    self.still_leads_nowhere(&table, index, &batch.leaves).await?;
                }
                // An entry of a secondary index that leads to a tombstone says nothing about the
                // row, which may stand elsewhere.
                match seen.at() {
                    Some(version) if index == 0 => {
                        state.record.saw(scan, entry_key, Some(version.0));
                    }
                    Some(version) if live => {
                        state.record.read(table.id().0, key, version.0);
                        state.record.saw(scan, entry_key, None);
                    }
                    _ => {}
                }
                if !live {
                    continue;
                }
                // This transaction's version of the row is among its own rows, perhaps at another
                // key of this index.
                if state.write_of(number, hash_of(key), key).is_some() {
                    continue;
                }
                shown += 1;
                if visit(key, row).is_break() || shown == limit {
                    state.record.stopped(scan, entry_key);
                    return Ok(shown);
                }
            }
            let Some(last) = batch.entries.len().checked_sub(1) else { break };
            if batch.ended {
                break;
            }
            resume = Some(batch.key(last).to_vec());
        }
        while shown < limit {
            let Some((own_key, write)) = next_of_own(None) else { break };
            shown += 1;
            if state.show(write, &mut visit).is_break() || shown == limit {
                state.record.stopped(scan, &own_key);
                break;
            }
        }
        Ok(shown)
    }

    /// Checks the leaves of an entry that leads to nothing, under timestamp ordering:
    ///
    /// 1. If the entry has led to nothing since the scan read it, the leaves are unchanged.
    /// 2. If a transaction with a later timestamp has deleted the row since, and the tombstone is
    ///    purged, the leaves have changed. This transaction comes too late. The check must be here,
    ///    because the commit does not validate leaves.
    async fn still_leads_nowhere(
        &self,
        table: &Table<M>,
        index: usize,
        leaves: &[Leaf],
    ) -> Result<(), TxnError> {
        for leaf in leaves {
            if !table.tree(index).still(leaf).await? {
                return Err(Conflict::TooLate.into());
            }
        }
        Ok(())
    }

    /// Reads the next entries of an index, and the leaves in which they stand.
    async fn take(
        &self,
        table: &Table<M>,
        index: usize,
        range: &Range<'_>,
        wanted: usize,
        batch: &mut Batch,
    ) -> Result<(), TxnError> {
        let Batch { keys, entries, leaves, ended } = batch;
        let most = wanted.clamp(1, BATCH);
        let take = |key: &[u8], value: &[u8]| {
            if range.has_left(key) {
                *ended = true;
                return ControlFlow::Break(());
            }
            keys.extend_from_slice(key);
            entries.push((keys.len() as u32, Self::named(value)));
            ControlFlow::Continue(())
        };
        let tree = table.tree(index);
        let seen = |leaf: Leaf| leaves.push(leaf);
        let taken = match range.descending {
            false => tree.scan_up_stamped(range.from, range.to, most, take, seen).await?,
            true => tree.scan_down_stamped(range.to, most, take, seen).await?,
        };
        *ended |= taken < most;
        Ok(())
    }

    /// Prefetches the rows to which entries lead. `hints` become guesses of the frames of their
    /// lines.
    fn fetch(
        &self,
        table: &Table<M>,
        ids: impl Iterator<Item = RowId> + Clone,
        hints: &mut Vec<Hint>,
    ) {
        let heap = table.heap();
        let locks = self.scheme() == Scheme::TwoPhaseLocking;
        ids.clone().for_each(|id| heap.prefetch_location(id));
        hints.clear();
        hints.extend(ids.clone().map(|id| heap.guess(id)));
        ids.clone().zip(&*hints).for_each(|(id, hint)| heap.prefetch_slot(id, hint, locks));
        ids.zip(&*hints).for_each(|(id, hint)| heap.prefetch_tuple(id, hint));
    }

    /// The fast path of [`row_at`](Database::row_at), for a row that exists and has no lock in the
    /// way. In any other case the result is `None`, and no new lock is kept.
    #[inline]
    fn row_at_here(
        &self,
        state: &mut State<M>,
        (number, table, index, entry): (u8, &Table<M>, usize, &[u8]),
        place: &(RowId, Hint),
        key: &mut Vec<u8>,
        row: &mut Vec<u8>,
    ) -> Option<SeenRow> {
        let (id, was) = (place.0, &place.1);
        match index {
            0 => entry.clone_into(key),
            // The line is not locked yet, so another row may take the slot. `read_here` compares
            // the key.
            _ if !table.heap().key_step(id, was, key).ok()? => return None,
            _ => {}
        }
        row.clear();
        let (held, lease) = (state.locks.len(), state.lease);
        state.lease = lease_at(index, lease);
        let read = self.read_here(state, table, (id, was), key, row, AccessMode::Shared);
        state.lease = lease;
        let Ok((cts, home, stamped)) = read else {
            state.locks.truncate(held);
            return None;
        };
        let (hash, hint) = (hash_of(key), Hint::default());
        hint.copy_from(was);
        let (fixed, kept) = (false, None);
        state.note_read(Read { table: number, hash, id, cts, hint, home, stamped, fixed, kept });
        match index {
            0 => Some(SeenRow::Live(cts)),
            _ => state.still_there(table, index, entry, (key, row), cts).ok(),
        }
    }

    /// Reads the row to which an entry leads, and its key. The result is absent if the entry leads
    /// to no row, or to a row with another key in this index.
    async fn row_at(
        &self,
        state: &mut State<M>,
        (number, table, index, entry): (u8, &Table<M>, usize, &[u8]),
        id: RowId,
        key: &mut Vec<u8>,
        row: &mut Vec<u8>,
    ) -> Result<SeenRow, TxnError> {
        if index == 0 {
            entry.clone_into(key);
        } else {
            if self.scheme() == Scheme::TwoPhaseLocking {
                self.lock(state, table.heap().line_of(id), AccessMode::Shared).await?;
            }
            let step = || table.heap().key_step(id, &Hint::default(), key);
            if !table.heap().drive(Patience::NoWait, step).await? {
                return Ok(SeenRow::Absent);
            }
        }
        row.clear();
        let lease = state.lease;
        state.lease = lease_at(index, lease);
        let looked =
            self.look_at(state, number, table, id, (key, hash_of(key)), row, AccessMode::Shared);
        let looked = looked.await;
        state.lease = lease;
        match looked? {
            SeenRow::Live(cts) if index > 0 => {
                state.still_there(table, index, entry, (key, row), cts)
            }
            SeenRow::Pending => Err(Conflict::Locked.into()),
            // No conflict: the transaction depends on the leaf, and a later change of the leaf is
            // detected.
            seen => Ok(seen),
        }
    }
}

/// The read lease for a scan of index `index`. A row that is found by a secondary index is often
/// written next, so it gets no read lease.
fn lease_at(index: usize, lease: u64) -> u64 {
    if index == 0 { lease } else { 0 }
}

impl<M: LineLocks> State<M> {
    /// The rows of a range that this transaction writes, in ascending order of their keys in an
    /// index.
    fn own_rows(
        &self,
        table: u8,
        index: usize,
        range: &Range<'_>,
    ) -> Result<Vec<(Vec<u8>, usize)>, TxnError> {
        let mut own = Vec::new();
        let mut key = Vec::new();
        for (at, write) in self.writes.iter().enumerate() {
            if write.table != table || write.change != Change::Put {
                continue;
            }
            let primary = self.bytes(&write.key);
            match index {
                0 => primary.clone_into(&mut key),
                _ => {
                    let row = self.bytes(&write.value);
                    self.table(table).index_key(index, primary, row, &mut key)?;
                }
            }
            if range.holds(&key) {
                own.push((key.clone(), at));
            }
        }
        own.sort_unstable();
        Ok(own)
    }

    /// The result for an entry of a secondary index that leads to a live row of version `cts`. If
    /// the row now has another key in the index, the result is `Absent`.
    fn still_there(
        &mut self,
        table: &Table<M>,
        index: usize,
        entry: &[u8],
        (key, row): (&[u8], &[u8]),
        cts: Timestamp,
    ) -> Result<SeenRow, TxnError> {
        table.index_key(index, key, row, &mut self.scratch)?;
        Ok(if self.scratch == entry { SeenRow::Live(cts) } else { SeenRow::Absent })
    }

    fn show(
        &self,
        write: usize,
        visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let write = &self.writes[write];
        visit(self.bytes(&write.key), self.bytes(&write.value))
    }
}
