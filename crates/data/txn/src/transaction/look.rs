//! Looking a row up: what each concurrency control does on the way.

use latchwork_blink::Leaf;
use latchwork_cache::Hint;
use latchwork_coherence::{LineLocks, LockOutcome, MemoryError, Mode, Need};
use latchwork_verbs::GlobalAddr;

use super::Transaction;
use super::here::Here;
use super::state::{Base, Held, Read, SeenLeaf, State, hash_of};
use crate::heap::{Patience, Reading, Seen, Stamped};
use crate::table::name_in;
use crate::{Conflict, Database, Scheme, Table, TupleId, TxnError};

/// How often an entry is followed that leads to nothing.
const ROUNDS_MAX: u32 = 1000;

impl<M: LineLocks> Transaction<M> {
    /// Reads the row `key`. Returns whether it is there; its value is in `value` then.
    ///
    /// # Errors
    /// Conflicts; when the key is empty or too long, and when memory fails.
    pub async fn get(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, TxnError> {
        self.read(table, key, value, Mode::Shared).await
    }

    /// Says that a row will probably be read before long: what that takes is on its way to the
    /// processor meanwhile. Promises nothing, and may be said of a row that is not there.
    #[inline]
    pub fn expect(&self, table: &Table<M>, key: &[u8]) {
        let place = self.database.places().borrow().find(table.id(), hash_of(key));
        if let Some((id, hint)) = place {
            table.heap().prefetch_slot(id, &hint, self.database.locks_reads());
        }
    }

    /// As [`get`](Transaction::get), if the row is there, everything that it takes is here, and
    /// nobody is in the way: a plain function, which is faster where that is the rule. Otherwise
    /// the answer is false, which says nothing of the row, and what is in `value` is of no account:
    /// `get` finds out.
    #[inline]
    pub fn try_get(&mut self, table: &Table<M>, key: &[u8], value: &mut Vec<u8>) -> bool {
        self.try_read(table, key, value, Mode::Shared)
    }

    /// As [`try_get`](Transaction::try_get) is to [`get`](Transaction::get), to
    /// [`get_for_update`](Transaction::get_for_update).
    #[inline]
    pub fn try_get_for_update(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> bool {
        self.try_read(table, key, value, Mode::Exclusive)
    }

    fn try_read(&mut self, table: &Table<M>, key: &[u8], value: &mut Vec<u8>, mode: Mode) -> bool {
        value.clear();
        let Ok((database, state)) = self.alive() else { return false };
        let Ok(number) = state.number(table) else { return false };
        let hash = hash_of(key);
        if let Some(own) = state.own_row(number, hash, key) {
            own.into_iter().for_each(|row| value.extend_from_slice(row));
            return own.is_some();
        }
        // The task's last unit of work is left to what can yield. What fails here counts twice, and
        // so yields sooner.
        database.memory().handle().try_coop()
            && database.look_up_here(state, table, number, (key, hash), value, mode) == Here::Row
    }

    /// As [`expect`](Transaction::expect), of many rows, and a step before: says that where they
    /// are will be asked for before long.
    #[inline]
    pub fn expect_places<K: AsRef<[u8]>>(&self, table: &Table<M>, keys: &[K]) {
        let places = self.database.places().borrow();
        keys.iter().for_each(|key| places.prefetch(table.id(), hash_of(key.as_ref())));
    }

    /// As [`get`](Transaction::get), of a row that is probably to be written: two-phase locking
    /// locks it so at once.
    ///
    /// # Errors
    /// As [`get`](Transaction::get).
    pub async fn get_for_update(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<bool, TxnError> {
        self.read(table, key, value, Mode::Exclusive).await
    }

    async fn read(
        &mut self,
        table: &Table<M>,
        key: &[u8],
        value: &mut Vec<u8>,
        mode: Mode,
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
        match database.look_up_here(state, table, number, (key, hash), value, mode) {
            Here::Row => {
                database.memory().handle().coop().await;
                return Ok(true);
            }
            Here::Locked => return self.doom(Err(Conflict::Locked.into())),
            Here::More => {}
        }
        let looked = database.look_up(state, number, key, hash, value, mode).await;
        Ok(matches!(self.doom(looked)?, Base::Row(..)))
    }
}

impl<M: LineLocks> State<M> {
    /// The row that this transaction is to write: `None` if it writes none, `Some(None)` if it
    /// deletes it.
    #[inline]
    pub(super) fn own_row(&self, table: u8, hash: u32, key: &[u8]) -> Option<Option<&[u8]>> {
        let write = &self.writes[self.write_of(table, hash, key)?];
        Some((write.change == super::state::Change::Put).then(|| self.bytes(&write.value)))
    }
}

impl<M: LineLocks> Database<M> {
    /// Whether what is read is locked.
    #[inline]
    pub(super) fn locks_reads(&self) -> bool {
        self.scheme() == Scheme::TwoPhaseLocking
    }

    /// Finds out what is at `key`, as the database's concurrency control has it. A row's value is
    /// added to `value` then.
    pub(super) async fn look_up(
        &self,
        state: &mut State<M>,
        number: u8,
        key: &[u8],
        hash: u32,
        value: &mut Vec<u8>,
        mode: Mode,
    ) -> Result<Base, TxnError> {
        let base = self.find(state, number, key, hash, value, mode).await?;
        let version = base.named().map_or(0, |(_, cts)| cts.0);
        let table = state.table(number).id().0;
        state.record.read(table, key, version);
        Ok(base)
    }

    async fn find(
        &self,
        state: &mut State<M>,
        number: u8,
        key: &[u8],
        hash: u32,
        value: &mut Vec<u8>,
        mode: Mode,
    ) -> Result<Base, TxnError> {
        let table = state.table(number).clone();
        if let Some((id, _)) = state.read_of(number, hash) {
            match self.look_at(state, number, &table, id, (key, hash), value, mode).await? {
                Seen::Live(cts) => return Ok(Base::Row(id, cts)),
                Seen::Pending => return Err(Conflict::Locked.into()),
                // An index may have led to what is left of a row that is elsewhere now.
                Seen::Deleted(_) | Seen::Absent => {}
            }
        }
        let mut nothing_at = None;
        for _ in 0..ROUNDS_MAX {
            let (found, leaf) = table.tree(0).get_seen(key, |value| value.u64(0)).await?;
            let Some(id) = found.map(TupleId::from_bits) else {
                self.found_nothing(state, number, &table, 0, leaf).await?;
                return Ok(Base::Nothing(None));
            };
            // Nobody has made it lead elsewhere, or to a row that has come to the same place, since
            // it was looked at.
            if nothing_at == Some((id, leaf.addr, leaf.stamp.structure)) {
                self.found_nothing(state, number, &table, 0, leaf).await?;
                return Ok(Base::Nothing(Some(id)));
            }
            match self.look_at(state, number, &table, id, (key, hash), value, mode).await? {
                Seen::Live(cts) => return Ok(Base::Row(id, cts)),
                Seen::Deleted(cts) => {
                    // A purge may have taken the entry away since, and stopped half way: then the
                    // tombstone does not say that the row is not there.
                    self.found_nothing(state, number, &table, 0, leaf).await?;
                    return Ok(Base::Tombstone(id, cts));
                }
                Seen::Pending => return Err(Conflict::Locked.into()),
                // Purged and perhaps added again since the index was read, or the entry leads to
                // nothing.
                Seen::Absent => nothing_at = Some((id, leaf.addr, leaf.stamp.structure)),
            }
        }
        Err(TxnError::Starved { table: table.id(), rounds: ROUNDS_MAX })
    }

    /// Reads the row in `id`, if it is that of `key`. Its value is added to `value`.
    #[expect(clippy::too_many_arguments, reason = "the pieces of one read, all borrowed apart")]
    pub(super) async fn look_at(
        &self,
        state: &mut State<M>,
        number: u8,
        table: &Table<M>,
        id: TupleId,
        (key, hash): (&[u8], u32),
        value: &mut Vec<u8>,
        mode: Mode,
    ) -> Result<Seen, TxnError> {
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
            let keeps = mode == Mode::Exclusive && matches!(seen, Seen::Live(_));
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

    /// Locks a line, or fails at once.
    pub(super) async fn lock(
        &self,
        state: &mut State<M>,
        line: GlobalAddr,
        mode: Mode,
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
        let need = Need { addr: line, mode };
        let outcome = match memory.try_lock(need) {
            Ok(outcome) => outcome,
            Err(need) => match memory.lock(need).await {
                // Others of this node hold some of them, and will end. Where all are its own, it
                // never can.
                Err(MemoryError::TooManyLocks { locked, .. }) if state.locks.len() < locked => {
                    LockOutcome::Locked
                }
                outcome => outcome?,
            },
        };
        match outcome {
            LockOutcome::Got(lock) => state.note_lock(Held { line, mode, lock }),
            LockOutcome::Locked => return Err(Conflict::Locked.into()),
        }
        Ok(())
    }

    /// Remembers that something was not in a leaf, or all that was in it.
    pub(super) async fn found_nothing(
        &self,
        state: &mut State<M>,
        number: u8,
        table: &Table<M>,
        index: usize,
        leaf: Leaf,
    ) -> Result<(), TxnError> {
        let removed = crate::Timestamp(leaf.stamp.removed);
        if self.scheme() == Scheme::TimestampOrdering {
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

    /// The name of the row that an entry leads to.
    pub(super) fn named(value: &[u8]) -> TupleId {
        name_in(value)
    }
}
