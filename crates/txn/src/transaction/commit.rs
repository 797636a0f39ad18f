//! The commit up to its entry in the log: everything that may fail.

use std::sync::atomic::{Ordering, fence};

use latchwork_blink::{Insertion, Leaf, Replacement, Stamp};
use latchwork_coherence::{LineLocks, Mode};
use latchwork_wal::{Group, Kind, Position, Timestamp, WalError};

use super::state::{Base, Change, Entry, State, hash_of};
use crate::heap::{Patience, Seen};
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
            self.announce(state).await?;
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
            let (key, value) = (state.bytes(&write.key), state.bytes(&write.value));
            let value = (write.change == Change::Put).then_some(value);
            let prepared = heap.prepare(id, key, cts, ts, value).await?;
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
                Base::Row(id, _) | Base::Tombstone(id, _) => id,
                Base::Nothing(_) => {
                    let (key, value) = (state.bytes(&write.key), state.bytes(&write.value));
                    let (state_of, cts) = (TupleState::Pending, Timestamp::ZERO);
                    let new = New { state: state_of, cts, key, value };
                    let placed = table.heap().place(new).await?;
                    let id = placed.id();
                    state.writes[at].placed = Some(placed);
                    let Some(id) = id else { return Err(TxnError::Doomed) };
                    self.enter_primary(state, &table, at, id).await?;
                    id
                }
            };
            for index in 1..=table.secondaries() {
                self.enter_secondary(state, &table, at, index, id).await?;
            }
        }
        Ok(())
    }

    async fn enter_primary(
        &self,
        state: &mut State<M>,
        table: &Table<M>,
        at: usize,
        id: TupleId,
    ) -> Result<(), TxnError> {
        let key = state.writes[at].key.clone();
        let ts = self.order().then_some(state.ts);
        let stamp = match state.writes[at].base {
            // The entry stands, but leads to nothing.
            Base::Nothing(Some(old)) => self.take_over(state, table, 0, &key, old, id).await?,
            _ => {
                let (entry, bits) = (state.bytes(&key), id.bits().to_le_bytes());
                let admit = |stamp: &Stamp| !is_too_late(ts, stamp);
                match table.tree(0).insert_seen(entry, &bits, admit, |_| ()).await? {
                    Insertion::New { before, after } => Some((before, after)),
                    // Somebody else adds it, or has.
                    Insertion::Exists { .. } => return Err(Conflict::Changed.into()),
                    Insertion::Refused(_) => return Err(Conflict::TooLate.into()),
                }
            }
        };
        state.entries.push(Entry { write: at as u32, index: 0, key });
        state.entered(stamp);
        Ok(())
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
        let (key, row) = (state.bytes(&write.key), state.bytes(&write.value));
        let mut entry = Vec::new();
        table.index_key(index, key, row, &mut entry)?;
        if matches!(write.base, Base::Row(..)) {
            let mut old = Vec::new();
            table.index_key(index, key, state.bytes(&write.old), &mut old)?;
            if old == entry {
                return Ok(());
            }
        }
        let entry = state.keep(&entry);
        let ts = self.order().then_some(state.ts);
        let bits = id.bits().to_le_bytes();
        let admit = |stamp: &Stamp| !is_too_late(ts, stamp);
        let tree = table.tree(index);
        let inserted =
            tree.insert_seen(state.bytes(&entry), &bits, admit, |value| value.u64(0)).await?;
        let stamps = match inserted {
            Insertion::New { before, after } => Some((before, after)),
            Insertion::Refused(_) => return Err(Conflict::TooLate.into()),
            Insertion::Exists { found, .. } => {
                let there = TupleId::from_bits(found);
                if there == id {
                    // The row was here before, and whoever purges has not come by.
                    return Ok(());
                }
                self.check_stale(state, at, table, index, &entry, there).await?;
                self.take_over(state, table, index, &entry, there, id).await?
            }
        };
        state.entries.push(Entry { write: at as u32, index: index as u8, key: entry });
        state.entered(stamps);
        Ok(())
    }

    /// Makes sure that an entry that stands in the way leads to no row that belongs there.
    async fn check_stale(
        &self,
        state: &mut State<M>,
        at: usize,
        table: &Table<M>,
        index: usize,
        entry: &std::ops::Range<u32>,
        there: TupleId,
    ) -> Result<(), TxnError> {
        let number = state.writes[at].table;
        let (mut key, mut row, mut now) = (Vec::new(), Vec::new(), Vec::new());
        if self.scheme() == Scheme::TwoPhaseLocking {
            self.lock(state, table.heap().line_of(there), Mode::Shared).await?;
        }
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
    async fn take_over(
        &self,
        state: &State<M>,
        table: &Table<M>,
        index: usize,
        entry: &std::ops::Range<u32>,
        old: TupleId,
        new: TupleId,
    ) -> Result<Option<(Leaf, Stamp)>, TxnError> {
        let ts = self.order().then_some(state.ts);
        let (old, new) = (old.bits().to_le_bytes(), new.bits().to_le_bytes());
        let admit = |stamp: &Stamp| !is_too_late(ts, stamp);
        let tree = table.tree(index);
        match tree.replace_seen(state.bytes(entry), &old, &new, admit).await? {
            Replacement::Done { before, after } => Ok(Some((before, after))),
            Replacement::Different(_) | Replacement::Missing(_) => Err(Conflict::Changed.into()),
            Replacement::Refused(_) => Err(Conflict::TooLate.into()),
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
            let read = state.reads[at];
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
    fn entered(&mut self, stamps: Option<(Leaf, Stamp)>) {
        let Some((before, after)) = stamps else { return };
        self.be_later_than(Timestamp(after.read.max(after.removed)));
        for seen in &mut self.leaves {
            let same = seen.leaf.addr == before.addr;
            if same && seen.leaf.stamp.structure == before.stamp.structure {
                seen.leaf.stamp = after;
            }
        }
    }
}
