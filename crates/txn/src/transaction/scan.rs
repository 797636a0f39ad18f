//! Scans of ranges, with the transaction's own rows among the others.

use std::ops::{Bound, ControlFlow};

use latchwork_blink::Leaf;
use latchwork_coherence::{LineLocks, Mode};
use latchwork_history::Direction;

use super::Transaction;
use super::state::{Change, State, hash_of, index_number};
use crate::heap::{Patience, Seen};
use crate::{Conflict, Database, Scheme, Table, TupleId, TxnError};

/// How many entries of an index are taken at once.
const BATCH: usize = 64;

/// Where a scan goes, and how.
#[derive(Clone, Copy, Debug)]
pub struct Range<'a> {
    /// The lower end.
    pub from: Bound<&'a [u8]>,
    /// The upper end.
    pub to: Bound<&'a [u8]>,
    /// From the upper end down.
    pub descending: bool,
    /// The most rows that are shown.
    pub limit: usize,
}

impl<'a> Range<'a> {
    /// Everything, upwards.
    pub fn all() -> Range<'a> {
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        Range { from, to, descending: false, limit: usize::MAX }
    }

    /// From `from` on, and up to, but without, `to`.
    pub fn between(from: &'a [u8], to: &'a [u8]) -> Range<'a> {
        Range { from: Bound::Included(from), to: Bound::Excluded(to), ..Range::all() }
    }

    /// Downwards.
    #[must_use]
    pub fn descending(self) -> Range<'a> {
        Range { descending: true, ..self }
    }

    /// At most so many rows.
    #[must_use]
    pub fn limit(self, limit: usize) -> Range<'a> {
        Range { limit, ..self }
    }

    fn has_left(&self, key: &[u8]) -> bool {
        let (above, below) = match (self.from, self.to) {
            (from, to) if self.descending => (false, is_below(key, from) || is_above(key, to)),
            (_, to) => (is_above(key, to), false),
        };
        above || below
    }

    fn holds(&self, key: &[u8]) -> bool {
        !is_below(key, self.from) && !is_above(key, self.to)
    }
}

fn is_below(key: &[u8], from: Bound<&[u8]>) -> bool {
    match from {
        Bound::Unbounded => false,
        Bound::Included(from) => key < from,
        Bound::Excluded(from) => key <= from,
    }
}

fn is_above(key: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Unbounded => false,
        Bound::Included(to) => key > to,
        Bound::Excluded(to) => key >= to,
    }
}

/// Entries of an index, copied.
#[derive(Default)]
struct Batch {
    keys: Vec<u8>,
    /// Where each key ends, and what it leads to.
    entries: Vec<(u32, TupleId)>,
    leaves: Vec<Leaf>,
    ended: bool,
}

impl Batch {
    fn clear(&mut self) {
        self.keys.clear();
        self.entries.clear();
        self.leaves.clear();
        self.ended = false;
    }

    fn key(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).map_or(0, |before| self.entries[before].0 as usize);
        &self.keys[from..self.entries[at].0 as usize]
    }
}

impl<M: LineLocks> Transaction<M> {
    /// Shows the rows of a range in the order of their keys, until `visit` has had enough. Returns how many it
    /// showed.
    ///
    /// # Errors
    /// Conflicts, and when memory fails.
    pub async fn scan(
        &mut self,
        table: &Table<M>,
        range: Range<'_>,
        visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        self.scan_tree(table, 0, range, visit).await
    }

    /// Shows the rows of a range of the schema's index number `index`, in its order, with the keys of the primary
    /// index. Returns how many it showed.
    ///
    /// # Errors
    /// [`TxnError::NoIndex`]; conflicts, and when memory fails.
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
        let scanned = database.scan(state, number, index, range, visit).await;
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
        mut visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<usize, TxnError> {
        let table = state.table(number).clone();
        let mut own = state.own_rows(number, index, &range)?;
        // The next one last.
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
        let (mut batch, mut resume) = (Batch::default(), None::<Vec<u8>>);
        let (mut key, mut row) = (Vec::new(), Vec::new());
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
            self.take(&table, index, &rest, limit - shown, &mut batch).await?;
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
                let id = batch.entries[entry].1;
                let seen = self
                    .row_at(state, number, &table, index, entry_key, id, &mut key, &mut row)
                    .await?;
                let live = matches!(seen, Seen::Live(_));
                if seen == Seen::Absent && self.scheme() == Scheme::TimestampOrdering {
                    self.still_leads_nowhere(&table, index, &batch.leaves).await?;
                }
                // An entry that leads to what is left of a row says nothing of the row, which may be elsewhere.
                match seen.at() {
                    Some(version) if index == 0 => {
                        state.record.saw(scan, entry_key, Some(version.0));
                    }
                    Some(version) if live => {
                        state.record.read(table.id().0, &key, version.0);
                        state.record.saw(scan, entry_key, None);
                    }
                    _ => {}
                }
                if !live {
                    continue;
                }
                // Its own version, which may be elsewhere in this index, is among its own rows.
                if state.write_of(number, hash_of(&key), &key).is_some() {
                    continue;
                }
                shown += 1;
                if visit(&key, &row).is_break() || shown == limit {
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

    /// An entry that was taken from one of these leaves leads to nothing. Either it did all the time, or the row was
    /// deleted since, by a transaction with a later timestamp, and its tombstone is gone: then this one comes too
    /// late, and would not notice, since nothing is validated in the end.
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

    /// Takes the next entries of an index, and the leaves that they stand in.
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
            false => tree.scan_up_seen(range.from, most, take, seen).await?,
            true => tree.scan_down_seen(range.to, most, take, seen).await?,
        };
        *ended |= taken < most;
        Ok(())
    }

    /// Reads the row that an entry leads to; absent when it leads to none, or to one that has another place in this
    /// index now.
    #[expect(clippy::too_many_arguments, reason = "the pieces of one read, all borrowed apart")]
    async fn row_at(
        &self,
        state: &mut State<M>,
        number: u8,
        table: &Table<M>,
        index: usize,
        entry: &[u8],
        id: TupleId,
        key: &mut Vec<u8>,
        row: &mut Vec<u8>,
    ) -> Result<Seen, TxnError> {
        if index == 0 {
            key.clear();
            key.extend_from_slice(entry);
        } else {
            if self.scheme() == Scheme::TwoPhaseLocking {
                self.lock(state, table.heap().line_of(id), Mode::Shared).await?;
            }
            let step = || table.heap().key_step(id, key);
            if !table.heap().drive(Patience::NoWait, step).await? {
                return Ok(Seen::Absent);
            }
        }
        // Who looks a row up by another key than its own often writes it then.
        let lease = std::mem::take(&mut state.lease);
        state.lease = if index > 0 { 0 } else { lease };
        let looked = self.look_at(state, number, table, id, (key, hash_of(key)), row, Mode::Shared);
        let looked = looked.await;
        state.lease = lease;
        let seen = match looked? {
            live @ Seen::Live(_) if index > 0 => live,
            Seen::Pending => return Err(Conflict::Locked.into()),
            // That it was there and is not any more the leaf's stamp tells.
            seen => return Ok(seen),
        };
        let mut now = std::mem::take(&mut state.scratch);
        let computed = table.index_key(index, key, row, &mut now);
        let same = now == entry;
        state.scratch = now;
        computed.map(|()| if same { seen } else { Seen::Absent })
    }
}

impl<M: LineLocks> State<M> {
    /// The rows of a range that this transaction writes, by their keys in an index, in ascending order.
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

    fn show(
        &self,
        write: usize,
        visit: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let write = &self.writes[write];
        visit(self.bytes(&write.key), self.bytes(&write.value))
    }
}
