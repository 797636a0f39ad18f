//! The commit up to its entry in the log: everything that may fail.

use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

use latchwork_blink::{Insertion, Leaf, Replacement, Stamp};
use latchwork_coherence::{LineLocks, Mode};
use latchwork_wal::{Group, Kind, Position, Timestamp, WalError};

use super::state::{Base, Change, Entry, State, hash_of};
use crate::heap::{Patience, Prepared, Seen};
use crate::page::{New, State as TupleState};
use crate::{Conflict, Database, Scheme, Table, TupleId, TxnError};

/// A transaction that commits.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) cts: Timestamp,
    /// Where in the log it is; `None` without a log.
    pub(super) position: Option<Position>,
}

impl<M: LineLocks> Database<M> {
    /// Does everything that may fail; `None`: the transaction wrote nothing, and that is all.
    pub(super) async fn decide(&self, state: &mut State<M>) -> Result<Option<Decided>, TxnError> {
        self.lock_and_announce(state).await?;
        self.validate(state).await?;
        if state.writes.is_empty() {
            return Ok(None);
        }
        let cts = match self.scheme() {
            Scheme::TimestampOrdering => {
                self.node().clock().raise(state.ts);
                state.ts
            }
            _ => self.node().clock().draw(state.floor)?,
        };
        state.ts = cts;
        state.record_writes();
        let position = self.append(state, cts).await?;
        Ok(Some(Decided { cts, position }))
    }

    /// Locks what is to be written, and shows that rows are to come.
    pub(super) async fn lock_and_announce(&self, state: &mut State<M>) -> Result<(), TxnError> {
        state.writes.retain(|write| write.change != Change::Nothing);
        if !state.writes.is_empty() {
            self.lock_writes(state).await?;
            self.prepare(state).await?;
            if let Err(error) = self.announce(state).await {
                // That a row exists may follow from what never was so.
                if matches!(error, TxnError::Exists) {
                    self.validate(state).await?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Locks the lines of rows that are to be written, in their order.
    async fn lock_writes(&self, state: &mut State<M>) -> Result<(), TxnError> {
        if self.scheme() == Scheme::TwoPhaseLocking {
            return Ok(());
        }
        let line_of = |write: &super::state::Write| {
            let (id, _) = write.base.named()?;
            Some(state.table(write.table).heap().line_of(id))
        };
        let mut lines: smallvec::SmallVec<[_; 32]> =
            state.writes.iter().filter_map(line_of).collect();
        lines.sort_unstable();
        lines.dedup();
        for line in lines {
            self.lock(state, line, Mode::Exclusive).await?;
        }
        Ok(())
    }

    /// Makes sure that the rows are what they were, and that there is room for what they become.
    async fn prepare(&self, state: &mut State<M>) -> Result<(), TxnError> {
        let ts = (self.scheme() == Scheme::TimestampOrdering).then_some(state.ts);
        for at in 0..state.writes.len() {
            let write = &state.writes[at];
            let Some((id, cts)) = write.base.named() else { continue };
            let heap = state.table(write.table).heap();
            // What stays as long as it is, or shorter, has its room, unless it is elsewhere.
            let fits = match (self.scheme(), write.change, &write.part) {
                (Scheme::TimestampOrdering, ..) => false,
                (_, Change::Delete, _) | (_, _, Some(_)) => {
                    let step = || heap.at_home_step(id, cts);
                    let there = heap.drive(Patience::NoWait, step).await?;
                    there.ok_or(Conflict::Changed)? || write.change == Change::Delete
                }
                _ => false,
            };
            let prepared = if fits {
                Prepared::AtHome
            } else {
                let (key, value) = (state.bytes(&write.key), state.bytes(&write.value));
                let value = (write.change == Change::Put).then_some(value);
                heap.prepare(id, key, cts, ts, value).await?
            };
            state.writes[at].prepared = Some(prepared);
        }
        Ok(())
    }

    /// Places new rows, which are pending, and enters everything that leads to rows into the indexes.
    async fn announce(&self, state: &mut State<M>) -> Result<(), TxnError> {
        for at in 0..state.writes.len() {
            let write = &state.writes[at];
            if write.change != Change::Put {
                continue;
            }
            let number = write.table;
            let table = state.table(number).clone();
            let id = match write.base {
                Base::Row(id, _) => id,
                Base::Tombstone(id, _) => {
                    // A purge that was dropped half way may have taken the entry away.
                    let key = write.key.clone();
                    match self.enter(state, &table, at, 0, &key, id).await? {
                        Some(there) if there != id => return Err(Conflict::Changed.into()),
                        _ => id,
                    }
                }
                Base::Nothing(_) | Base::Unknown => self.announce_new(state, &table, at).await?,
            };
            for index in 1..=table.secondaries() {
                self.enter_secondary(state, &table, at, index, id).await?;
            }
        }
        Ok(())
    }

    /// Places a new row, and enters it into the primary index; where it will be.
    async fn announce_new(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
    ) -> Result<TupleId, TxnError> {
        let write = &state.writes[at];
        let (range, value) = (write.key.clone(), state.bytes(&write.value));
        let (pending, cts) = (TupleState::Pending, Timestamp::ZERO);
        let key = state.bytes(&range);
        let placed = table.heap().place(New { state: pending, cts, key, value }).await?;
        let Some(id) = placed.id() else { return Err(TxnError::Doomed) };
        state.writes[at].placed = Some(placed);
        let stale = match state.writes[at].base {
            // The entry stands, but leads to nothing.
            Base::Nothing(Some(old)) => Some(old),
            base => match self.enter(state, table, at, 0, &range, id).await? {
                None => None,
                // Somebody else adds it, or has.
                Some(_) if base != Base::Unknown => return Err(Conflict::Changed.into()),
                Some(_) => match self.resolve(state, table, at).await? {
                    Base::Nothing(Some(old)) => Some(old),
                    Base::Tombstone(there, _) => return Ok(there),
                    _ => return Err(Conflict::Changed.into()),
                },
            },
        };
        if let Some(old) = stale {
            self.take_over(state, table, at, 0, &range, old, id).await?;
        }
        Ok(id)
    }

    /// Adds an entry to an index; what it leads to if there is one already.
    async fn enter(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
        index: usize,
        key: &Range<u32>,
        id: TupleId,
    ) -> Result<Option<TupleId>, TxnError> {
        let ts = self.order().then_some(state.ts);
        // Before it is there, since this may be dropped when it is.
        let (write, number) = (at as u32, index as u8);
        state.entries.push(Entry { write, index: number, old: None, key: key.clone() });
        let admit = |stamp: &Stamp| !is_too_late(ts, stamp);
        let (entry, bits) = (state.bytes(key), id.bits().to_le_bytes());
        let tree = table.tree(index);
        let inserted = tree.insert_seen(entry, &bits, admit, |value| value.u64(0)).await?;
        if let Insertion::New { before, after } = inserted {
            state.entered(before, after);
            return Ok(None);
        }
        state.entries.pop();
        match inserted {
            Insertion::Exists { found, .. } => Ok(Some(TupleId::from_bits(found))),
            _ => Err(Conflict::TooLate.into()),
        }
    }

    /// Finds out what is in the way of a row that was inserted blindly. What is left of one is written over: it is
    /// locked then, and prepared, and the place that was found for the row is not needed.
    async fn resolve(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
    ) -> Result<Base, TxnError> {
        let write = &state.writes[at];
        let (number, hash) = (write.table, write.hash);
        let key = state.bytes(&write.key).to_vec();
        let mut old = Vec::new();
        let base = self.look_up(state, number, &key, hash, &mut old, Mode::Exclusive).await?;
        match base {
            Base::Row(..) => return Err(TxnError::Exists),
            Base::Tombstone(id, cts) => {
                let heap = table.heap();
                self.lock(state, heap.line_of(id), Mode::Exclusive).await?;
                let ts = self.order().then_some(state.ts);
                let value = state.bytes(&state.writes[at].value);
                let prepared = heap.prepare(id, &key, cts, ts, Some(value)).await?;
                // Its place is taken away by the next insert of this worker.
                state.writes[at].placed = None;
                state.writes[at].prepared = Some(prepared);
            }
            Base::Nothing(_) | Base::Unknown => {}
        }
        state.writes[at].base = base;
        Ok(base)
    }

    async fn enter_secondary(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
        index: usize,
        id: TupleId,
    ) -> Result<(), TxnError> {
        let write = &state.writes[at];
        if matches!(write.base, Base::Row(..)) && write.old.is_none() {
            return Ok(());
        }
        let (key, row) = (state.bytes(&write.key), state.bytes(&write.value));
        let mut entry = Vec::new();
        table.index_key(index, key, row, &mut entry)?;
        if matches!(write.base, Base::Row(..)) {
            let mut old = Vec::new();
            if let Some(was) = &write.old {
                table.index_key(index, key, state.bytes(was), &mut old)?;
            }
            if old == entry {
                return Ok(());
            }
        }
        let entry = state.keep(&entry);
        match self.enter(state, table, at, index, &entry, id).await? {
            None => Ok(()),
            // The row was here before, and whoever purges has not come by. A new row is where nobody has seen it.
            Some(there) if there == id && state.writes[at].base.named().is_some() => Ok(()),
            Some(there) => {
                self.check_stale(state, at, table, index, &entry, there).await?;
                self.take_over(state, table, at, index, &entry, there, id).await
            }
        }
    }

    /// Makes sure that an entry that stands in the way leads to no row that belongs there.
    async fn check_stale(
        &self,
        state: &mut State<M>,
        at: usize,
        table: &Table<M>,
        index: usize,
        entry: &Range<u32>,
        there: TupleId,
    ) -> Result<(), TxnError> {
        let number = state.writes[at].table;
        let (mut key, mut row, mut now) = (Vec::new(), Vec::new(), Vec::new());
        // Under every concurrency control: another transaction may be about to give the row this very key, and
        // nothing but its lock would tell.
        self.lock(state, table.heap().line_of(there), Mode::Shared).await?;
        let step = || table.heap().key_step(there, &mut key);
        if !table.heap().drive(Patience::NoWait, step).await? {
            return Ok(());
        }
        let hash = hash_of(&key);
        if let Some(own) = state.write_of(number, hash, &key) {
            let own = &state.writes[own];
            // One that this transaction moves out of the way is none, nor is what another transaction that adds
            // the same row has placed in vain.
            if own.change != Change::Put || own.id() != Some(there) {
                return Ok(());
            }
            table.index_key(index, &key, state.bytes(&own.value), &mut now)?;
        } else {
            let looked =
                self.look_at(state, number, table, there, (&key, hash), &mut row, Mode::Shared);
            match looked.await? {
                Seen::Live(_) => table.index_key(index, &key, &row, &mut now)?,
                Seen::Pending => return Err(Conflict::Locked.into()),
                Seen::Deleted(_) | Seen::Absent => return Ok(()),
            }
        }
        if now == state.bytes(entry) { Err(TxnError::Exists) } else { Ok(()) }
    }

    /// Makes an entry that leads to nothing lead to `new`.
    #[expect(clippy::too_many_arguments, reason = "the pieces of one entry")]
    async fn take_over(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
        index: usize,
        key: &Range<u32>,
        old: TupleId,
        new: TupleId,
    ) -> Result<(), TxnError> {
        let ts = self.order().then_some(state.ts);
        let (write, number) = (at as u32, index as u8);
        state.entries.push(Entry { write, index: number, old: Some(old), key: key.clone() });
        let (was, is) = (old.bits().to_le_bytes(), new.bits().to_le_bytes());
        let admit = |stamp: &Stamp| !is_too_late(ts, stamp);
        let tree = table.tree(index);
        let replaced = tree.replace_seen(state.bytes(key), &was, &is, admit).await?;
        if let Replacement::Done { before, after } = replaced {
            state.entered(before, after);
            return Ok(());
        }
        state.entries.pop();
        match replaced {
            Replacement::Refused(_) => Err(Conflict::TooLate.into()),
            _ => Err(Conflict::Changed.into()),
        }
    }

    /// Finds out whether everything is as it was seen.
    pub(super) async fn validate(&self, state: &mut State<M>) -> Result<(), TxnError> {
        // Between the locks of what this transaction writes, and its look at what it has read: see
        // `Heap::unchanged_step`. Of two transactions that do so crosswise, one sees the other's lock. Stamps
        // of leaves change under guards, which order them.
        fence(Ordering::SeqCst);
        for seen in &state.leaves {
            let tree = state.table(seen.table).tree(usize::from(seen.index));
            let same = match tree.try_still(&seen.leaf) {
                Ok(same) => same,
                Err(_) => tree.still(&seen.leaf).await?,
            };
            if !same {
                return Err(Conflict::Phantom.into());
            }
        }
        if self.scheme() != Scheme::Optimistic {
            return Ok(());
        }
        for at in 0..state.reads.len() {
            let read = &state.reads[at];
            let heap = state.table(read.table).heap();
            let mine = state.writes_line(heap.line_of(read.id));
            let step = || heap.unchanged_step(read.id, read.cts, mine);
            if !heap.drive(Patience::NoWait, step).await? {
                return Err(Conflict::Changed.into());
            }
        }
        Ok(())
    }

    /// Adds what the transaction has written to a group.
    pub(super) fn put_into(state: &State<M>, group: &mut Group) -> Result<(), WalError> {
        state.writes.iter().try_for_each(|write| {
            let (table, key) = (state.table(write.table).id(), state.bytes(&write.key));
            match write.change {
                Change::Put => group.put(table, key, state.bytes(&write.value)),
                _ => group.remove(table, key),
            }
        })
    }

    /// Appends what the transaction has written to the log.
    async fn append(&self, state: &State<M>, cts: Timestamp) -> Result<Option<Position>, TxnError> {
        let Some(log) = self.node().log() else { return Ok(None) };
        let mut group = Group::new(Kind::Commit, cts);
        Self::put_into(state, &mut group).map_err(TxnError::NotLogged)?;
        let handle = self.memory().handle();
        let deadline = handle.now() + self.node().settings().log_deadline;
        loop {
            match log.append(&group) {
                Ok(position) => return Ok(Some(position)),
                Err(WalError::Backlog { .. }) => {
                    log.room(handle, deadline).await.map_err(TxnError::NotLogged)?;
                }
                Err(error) => return Err(TxnError::NotLogged(error)),
            }
        }
    }

    /// Whether timestamps order transactions.
    fn order(&self) -> bool {
        self.scheme() == Scheme::TimestampOrdering
    }
}

/// Whether a row with this timestamp cannot come into a leaf any more.
fn is_too_late(ts: Option<Timestamp>, stamp: &Stamp) -> bool {
    ts.is_some_and(|ts| ts.0 < stamp.read || ts.0 < stamp.removed)
}

impl<M: LineLocks> State<M> {
    /// Takes over what the transaction itself changed in a leaf that it has seen.
    fn entered(&mut self, before: Leaf, after: Stamp) {
        self.be_later_than(Timestamp(after.read.max(after.removed)));
        for seen in &mut self.leaves {
            let same = seen.leaf.addr == before.addr;
            if same && seen.leaf.stamp.structure == before.stamp.structure {
                seen.leaf.stamp = after;
            }
        }
    }
}
