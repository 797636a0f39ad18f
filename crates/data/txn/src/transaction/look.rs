//! Row lookups: the locks, read timestamps and records of each scheme.

use latchwork_blink::{Leaf, TreeValue};
use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks, LockOutcome, MemoryError, Need};
use latchwork_verbs::GlobalAddr;

use super::Transaction;
use super::fast_read::FastRead;
use super::state::{Base, Held, Read, SeenLeaf, State, hash_of};
use crate::heap::{Patience, Reading, SeenRow, Stamped};
use crate::table::name_in;
use crate::{Conflict, Database, RowId, Scheme, Table, TxnError};

/// The number of attempts to follow an entry that leads to nothing.
const ROUNDS_MAX: u32 = 1000;

impl<M: LineLocks> Transaction<M> {
    /// Reads the row `key` into `value`. Returns whether the row exists. The future is ready at its
    /// first poll if the lines and index pages of the row are here and no lock is in the way. An
    /// exception is a task that has to yield to other tasks.
    ///
    /// # Errors
    /// Conflicts; a key that is empty or too long; memory failures.
    pub async fn get(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, TxnError> {
        self.read(table, key, value, AccessMode::Shared).await
    }

    /// Prefetches the memory that a read of this row needs first. The call is a hint without
    /// promises. The row need not exist.
    #[inline]
    pub fn expect(&self, table: &Table<M>, key: &[u8]) {
        let place = self.database.locations().borrow().find(table.id(), hash_of(key));
        if let Some((id, hint)) = place {
            table.heap().prefetch_slot(id, &hint, self.database.locks_reads());
        }
    }

    /// Prefetches the location cache for many rows, as the step before
    /// [`expect`](Transaction::expect).
    #[inline]
    pub fn expect_locations<K: AsRef<[u8]>>(&self, table: &Table<M>, keys: &[K]) {
        let places = self.database.locations().borrow();
        keys.iter().for_each(|key| places.prefetch(table.id(), hash_of(key.as_ref())));
    }

    /// Like [`get`](Transaction::get), for a row that is probably to be written. Two-phase locking
    /// takes the write lock at once.
    ///
    /// # Errors
    /// As [`get`](Transaction::get).
    pub async fn get_for_update(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, TxnError> {
        self.read(table, key, value, AccessMode::Exclusive).await
    }

    async fn read(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
        mode: AccessMode,
    ) -> Result<bool, TxnError> {
        value.clear();
        let (database, state) = self.alive()?;
        let (number, hash) = (state.number(table)?, hash_of(key));
        if let Some(own) = state.own_row(number, hash, key) {
            return Ok(own.is_some_and(|row| {
                value.extend_from_slice(row);
                true
            }));
        }
        match database.look_up_fast(state, table, number, (key, hash), value, mode) {
            FastRead::Row => {
                database.memory().handle().coop().await;
                return Ok(true);
            }
            FastRead::Locked => return self.doom(Err(Conflict::Locked.into())),
            FastRead::More => {}
        }
        let mut entry = None;
        if state.read_of(number, hash).is_none() {
            let found =
                table.tree(0).get_stamped(key, |value| RowId::from_bits(value.u64(0))).await;
            let found = match found {
                Ok(found) => found,
                Err(error) => return self.doom(Err(error.into())),
            };
            if let Some(id) = found.0 {
                let place = (id, Hint::default());
                match database.row_here(state, table, number, place, (key, hash), value, mode) {
                    FastRead::Row => return Ok(true),
                    FastRead::Locked => return self.doom(Err(Conflict::Locked.into())),
                    FastRead::More => {}
                }
            }
            entry = Some(found);
        }
        // The slow path is boxed, so that the futures of callers stay small.
        let looked = database.look_up_from(entry, state, number, (key, hash), value, mode);
        let looked = Box::pin(looked).await;
        Ok(matches!(self.doom(looked)?, Base::Row(..)))
    }
}

impl<M: LineLocks> State<M> {
    /// The row that this transaction is to write. `None`: it does not write the row. `Some(None)`:
    /// it deletes the row.
    #[inline]
    pub(super) fn own_row(&self, table: u8, hash: u32, key: &[u8]) -> Option<Option<&[u8]>> {
        let write = &self.writes[self.write_of(table, hash, key)?];
        Some((write.change == super::state::Change::Put).then(|| self.bytes(&write.value)))
    }
}

impl<M: LineLocks> Database<M> {
    /// Whether the scheme locks the rows that it reads.
    #[inline]
    pub(super) fn locks_reads(&self) -> bool {
        self.scheme() == Scheme::TwoPhaseLocking
    }

    /// Looks a row up under the scheme of the database, and appends its value to `value`.
    pub(super) async fn look_up(
        &self,
        state: &mut State<M>,
        number: u8,
        key: &[u8],
        hash: u32,
        value: &mut Vec<u8>,
        mode: AccessMode,
    ) -> Result<Base, TxnError> {
        self.look_up_from(None, state, number, (key, hash), value, mode).await
    }

    /// Like [`look_up`](Database::look_up). `entry` is the index entry of the row, if the caller
    /// has read it already.
    async fn look_up_from(
        &self,
        entry: Option<(Option<RowId>, Leaf)>,
        state: &mut State<M>,
        number: u8,
        (key, hash): (&[u8], u32),
        value: &mut Vec<u8>,
        mode: AccessMode,
    ) -> Result<Base, TxnError> {
        let base = self.find(entry, state, number, (key, hash), value, mode).await?;
        let version = base.named().map_or(0, |(_, cts)| cts.0);
        let table = state.table(number).id().0;
        state.record.read(table, key, version);
        Ok(base)
    }

    async fn find(
        &self,
        mut entry: Option<(Option<RowId>, Leaf)>,
        state: &mut State<M>,
        number: u8,
        (key, hash): (&[u8], u32),
        value: &mut Vec<u8>,
        mode: AccessMode,
    ) -> Result<Base, TxnError> {
        let table = state.table(number).clone();
        if let Some((id, _)) = state.read_of(number, hash) {
            match self.look_at(state, number, &table, id, (key, hash), value, mode).await? {
                SeenRow::Live(cts) => return Ok(Base::Row(id, cts)),
                SeenRow::Pending => return Err(Conflict::Locked.into()),
                // The entry may have led to a tombstone of a row that stands elsewhere now.
                SeenRow::Deleted(_) | SeenRow::Absent => {}
            }
        }
        let mut nothing_at = None;
        for _ in 0..ROUNDS_MAX {
            let id = |value: TreeValue<'_>| RowId::from_bits(value.u64(0));
            let (found, leaf) = match entry.take() {
                Some(entry) => entry,
                None => table.tree(0).get_stamped(key, id).await?,
            };
            let Some(id) = found else {
                self.found_nothing(state, number, &table, 0, leaf).await?;
                return Ok(Base::Nothing(None));
            };
            // The entry is unchanged since the row id was read: no transaction has changed the
            // entry or added a row there.
            if nothing_at == Some((id, leaf.addr, leaf.stamp.structure)) {
                self.found_nothing(state, number, &table, 0, leaf).await?;
                return Ok(Base::Nothing(Some(id)));
            }
            match self.look_at(state, number, &table, id, (key, hash), value, mode).await? {
                SeenRow::Live(cts) => return Ok(Base::Row(id, cts)),
                SeenRow::Deleted(cts) => {
                    // A purge may have removed the entry since, and stopped in the middle. So the
                    // tombstone alone does not prove that the row does not exist.
                    self.found_nothing(state, number, &table, 0, leaf).await?;
                    return Ok(Base::Tombstone(id, cts));
                }
                SeenRow::Pending => return Err(Conflict::Locked.into()),
                // The row was purged, and perhaps added again, since the index was read. Or the
                // entry leads to nothing.
                SeenRow::Absent => nothing_at = Some((id, leaf.addr, leaf.stamp.structure)),
            }
        }
        Err(TxnError::Starved { table: table.id(), rounds: ROUNDS_MAX })
    }

    /// Reads the row with the id `id`, if it has the key `key`, and appends its value to `value`.
    #[expect(clippy::too_many_arguments, reason = "the pieces of one read, all borrowed apart")]
    pub(super) async fn look_at(
        &self,
        state: &mut State<M>,
        number: u8,
        table: &Table<M>,
        id: RowId,
        (key, hash): (&[u8], u32),
        value: &mut Vec<u8>,
        mode: AccessMode,
    ) -> Result<SeenRow, TxnError> {
        let heap = table.heap();
        let (line, hint) = (heap.line_of(id), Hint::default());
        let (scheme, start) = (self.scheme(), value.len());
        if scheme == Scheme::TwoPhaseLocking {
            self.lock(state, line, mode).await?;
        }
        loop {
            value.truncate(start);
            let mut at = Reading::default();
            let step = || heap.get_step(&mut at, id, &hint, key, value);
            let seen = heap.drive(Patience::NoWait, step).await?;
            if seen == SeenRow::Pending && Box::pin(self.take_back(state, table, id, key)).await? {
                continue;
            }
            let Some(cts) = seen.at() else { return Ok(seen) };
            if scheme == Scheme::TimestampOrdering {
                if cts > state.ts {
                    self.move_up(state, cts).await?;
                }
                let mine = state.writes_line(line);
                let lease = state.lease_of(mode);
                let found = (cts, at.stamp);
                let step = || heap.stamp_step(id, &hint, found, state.ts, lease, mine);
                match heap.drive(Patience::NoWait, step).await? {
                    Stamped::Done => {}
                    Stamped::Changed => continue,
                    Stamped::Locked => return Err(Conflict::Locked.into()),
                }
            }
            let keeps = mode == AccessMode::Exclusive && matches!(seen, SeenRow::Live(_));
            let kept = keeps.then(|| (state.keep(key), state.keep(&value[start..])));
            let home = !at.moved;
            let (stamped, fixed) = (true, false);
            state.note_read(Read {
                table: number,
                hash,
                id,
                cts,
                hint,
                home,
                stamped,
                fixed,
                kept,
            });
            return Ok(seen);
        }
    }

    /// Locks a line. An incompatible lock of another transaction is a conflict. The wait is for the
    /// transfer of the line, not for an unlock.
    pub(super) async fn lock(
        &self,
        state: &mut State<M>,
        line: GlobalAddr,
        mode: AccessMode,
    ) -> Result<(), TxnError> {
        let memory = self.memory();
        if let Some(held) = state.held(line) {
            let held = &mut state.locks[held];
            if held.mode < mode {
                match memory.upgrade_lock(&mut held.lock).await? {
                    LockOutcome::Got(()) => held.mode = mode,
                    LockOutcome::Locked => return Err(Conflict::Locked.into()),
                }
            }
            return Ok(());
        }
        let lock = self.lock_beside(state, Need { addr: line, mode }).await?;
        state.note_lock(Held { line, mode, lock });
        Ok(())
    }

    /// Locks a line that the transaction has not locked, for the caller alone.
    pub(super) async fn lock_beside(
        &self,
        state: &State<M>,
        need: Need,
    ) -> Result<M::Lock, TxnError> {
        let memory = self.memory();
        let outcome = match memory.try_lock(need) {
            Ok(outcome) => outcome,
            Err(need) => match memory.lock(need).await {
                // Other transactions of this node hold some of the locks, and will release them. If
                // this transaction held all locks, a retry could never succeed.
                Err(MemoryError::TooManyLocks { locked, .. }) if state.locks.len() < locked => {
                    LockOutcome::Locked
                }
                outcome => outcome?,
            },
        };
        match outcome {
            LockOutcome::Got(lock) => Ok(lock),
            LockOutcome::Locked => Err(Conflict::Locked.into()),
        }
    }

    /// Records a leaf of a scan, or of a lookup that found no row. Under timestamp ordering also
    /// raises the read timestamp of the leaf.
    pub(super) async fn found_nothing(
        &self,
        state: &mut State<M>,
        number: u8,
        table: &Table<M>,
        index: usize,
        leaf: Leaf,
    ) -> Result<(), TxnError> {
        let removed = crate::Timestamp(leaf.stamp.removed);
        let counts = self.node().settings().rules.leaves_count;
        if self.scheme() == Scheme::TimestampOrdering && counts {
            if removed > state.ts {
                self.move_up(state, removed).await?;
            }
            let raised = table.tree(index).raise_read(&leaf, state.ts.0).await?;
            if raised.is_none() {
                return Err(Conflict::Phantom.into());
            }
        }
        state.be_later_than(removed);
        let seen = SeenLeaf { table: number, index: index as u8, leaf };
        let same = |last: &SeenLeaf| {
            last.leaf.addr == leaf.addr && last.leaf.stamp.structure == leaf.stamp.structure
        };
        if !state.leaves.iter().rev().take(8).any(same) {
            state.leaves.push(seen);
        }
        Ok(())
    }

    /// The row id in an index entry.
    pub(super) fn named(value: &[u8]) -> RowId {
        name_in(value)
    }
}
