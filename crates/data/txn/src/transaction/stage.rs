//! The commit up to its log append: every step that may fail.

use std::sync::atomic::{Ordering, fence};

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks, LockOutcome, Need};
use latchwork_strict::{strict_assert, strict_check};
use latchwork_wal::{LogRecord, LogRecordKind, Position, Timestamp, WalError};
use smallvec::SmallVec;

use super::state::{Change, Held, State, Write};
use crate::heap::{Patience, Prepared, Stamped};
use crate::{Conflict, Database, Scheme, TxnError};

/// A transaction that has its commit timestamp and, with a log, its log position.
#[derive(Debug)]
pub(super) struct Decided {
    pub(super) cts: Timestamp,
    /// The log position of the commit; `None` without a log.
    pub(super) position: Option<Position>,
    /// The rows are installed and their lines have node locks: see [`early_release`](super::early_release).
    pub(super) released: bool,
}

/// Whether a row that is to be written has the room that it needs.
#[derive(Clone, Copy)]
enum Room {
    /// The row does not exist yet.
    NotNeeded,
    /// The row has the room where it stands.
    AtHome,
    Unknown,
}

impl<M: LineLocks> Database<M> {
    /// Does every step that may fail. Returns `None` for a transaction that wrote nothing and has
    /// ended.
    pub(super) async fn decide(&self, state: &mut State<M>) -> Result<Option<Decided>, TxnError> {
        self.lock_and_announce(state).await?;
        strict_check!(state, self.scheme() == Scheme::TimestampOrdering);
        self.validate(state).await?;
        strict_check!(state, self.scheme() == Scheme::TimestampOrdering);
        if state.writes.is_empty() {
            // The reads need no protection any more.
            state.locks.clear();
            self.durable_reads(state).await?;
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
        strict_assert!(
            self.order() || cts > state.floor,
            "a transaction commits before what it has read"
        );
        strict_assert!(state.locks_cover_writes(), "a row is overwritten without a lock");
        state.record_writes();
        strict_assert!(
            state.writes.iter().all(|write| write.change != Change::Nothing),
            "a change of nothing is committed"
        );
        strict_assert!(
            state
                .writes
                .iter()
                .all(|write| write.base.named().is_some() == write.prepared.is_some()),
            "a row that exists has no room for its new value"
        );
        let position = self.append(state, cts).await?;
        Ok(Some(Decided { cts, position, released: false }))
    }

    /// Locks the rows that are to be written, places new rows as pending, and enters their index
    /// entries.
    pub(super) async fn lock_and_announce(&self, state: &mut State<M>) -> Result<(), TxnError> {
        state.writes.retain(|write| write.change != Change::Nothing);
        if !state.writes.is_empty() {
            self.lock_writes(state).await?;
            self.prepare(state).await?;
            if let Err(error) = self.stage_rows(state).await {
                // The `Exists` may follow from reads that were never true together.
                if matches!(error, TxnError::Exists) {
                    self.validate(state).await?;
                    self.durable_reads(state).await?;
                }
                return Err(error);
            }
        }
        Ok(())
    }

    /// Locks the lines of rows that are to be written, in the order of their addresses.
    async fn lock_writes(&self, state: &mut State<M>) -> Result<(), TxnError> {
        if self.scheme() == Scheme::TwoPhaseLocking {
            return Ok(());
        }
        let line_of = |write: &Write| {
            let (id, _) = write.base.named()?;
            let hint = Hint::default();
            hint.copy_from(&write.hint);
            Some((state.table(write.table).heap().line_of(id), hint))
        };
        let mut lines: SmallVec<[_; 32]> = state.writes.iter().filter_map(line_of).collect();
        lines.sort_unstable_by_key(|(line, _)| *line);
        lines.dedup_by_key(|(line, _)| *line);
        strict_assert!(
            lines.windows(2).all(|pair| pair[0].0 < pair[1].0),
            "locks are taken in order"
        );
        for (line, hint) in lines {
            let need = Need { addr: line, mode: AccessMode::Exclusive };
            if state.held(line).is_some() {
                self.lock(state, line, AccessMode::Exclusive).await?;
                continue;
            }
            match self.memory().try_lock_at(need, &hint) {
                Ok(LockOutcome::Got(lock)) => {
                    state.note_lock(Held { line, mode: AccessMode::Exclusive, lock });
                }
                Ok(LockOutcome::Locked) => return Err(Conflict::Locked.into()),
                Err(_) => self.lock(state, line, AccessMode::Exclusive).await?,
            }
        }
        strict_assert!(
            self.scheme() == Scheme::TwoPhaseLocking || state.locks_cover_writes(),
            "a written row is not locked"
        );
        Ok(())
    }

    /// Checks that the rows are unchanged since they were read, and reserves room for their new
    /// values.
    async fn prepare(&self, state: &mut State<M>) -> Result<(), TxnError> {
        for at in 0..state.writes.len() {
            let has_place = match self.is_prepared(state, at)? {
                Room::NotNeeded => {
                    state.writes[at].prepared = None;
                    false
                }
                Room::AtHome => {
                    state.writes[at].prepared = Some(Prepared::AtHome);
                    true
                }
                Room::Unknown => self.prepare_carefully(state, at).await?,
            };
            let write = &state.writes[at];
            // The row is locked, and is the version that was read.
            let read = write.read.filter(|_| has_place);
            if let Some(read) = read.and_then(|read| state.reads.get_mut(read as usize)) {
                read.fixed = true;
            }
        }
        Ok(())
    }

    /// Prepares a row on the slow path. Returns whether the row already exists in the heap.
    async fn prepare_carefully(&self, state: &mut State<M>, at: usize) -> Result<bool, TxnError> {
        let prepared = loop {
            match self.prepare_write(state, at).await? {
                Ok(prepared) => break prepared,
                Err(read) => self.move_up(state, read).await?,
            }
        };
        let has_place = prepared.is_some();
        state.writes[at].prepared = prepared;
        Ok(has_place)
    }

    /// Decides without an await whether a row needs no preparation. This holds for a row that does
    /// not exist yet, and for a row that stays at home and does not grow.
    #[inline]
    fn is_prepared(&self, state: &State<M>, at: usize) -> Result<Room, Conflict> {
        let write = &state.writes[at];
        let Some((id, cts)) = write.base.named() else { return Ok(Room::NotNeeded) };
        let (heap, hint) = (state.table(write.table).heap(), &write.hint);
        let fits = match (self.scheme(), write.change, &write.part) {
            (Scheme::TimestampOrdering, _, Some(_)) if write.home => {
                match heap.check_step(id, hint, cts, state.ts) {
                    Ok(Ok(())) => true,
                    // The slow path finds out which reader makes the transaction too late.
                    Ok(Err(Conflict::TooLate)) | Err(_) => false,
                    Ok(Err(conflict)) => return Err(conflict),
                }
            }
            (Scheme::TimestampOrdering, ..) => false,
            // The row is locked since it was read.
            (Scheme::TwoPhaseLocking, _, Some(_)) if write.home => true,
            (_, Change::Delete, _) | (_, _, Some(_)) => match heap.at_home_step(id, hint, cts) {
                Ok(there) => there.ok_or(Conflict::Changed)? || write.change == Change::Delete,
                Err(_) => false,
            },
            _ => false,
        };
        Ok(if fits { Room::AtHome } else { Room::Unknown })
    }

    /// Like [`prepare`](Database::prepare), for one row that exists. The inner error is the
    /// timestamp of a reader for which the write comes too late.
    async fn prepare_write(
        &self,
        state: &State<M>,
        at: usize,
    ) -> Result<Result<Option<Prepared>, Timestamp>, TxnError> {
        let write = &state.writes[at];
        let Some((id, cts)) = write.base.named() else { return Ok(Ok(None)) };
        let (heap, hint) = (state.table(write.table).heap(), &write.hint);
        let (key, value) = (state.bytes(&write.key), state.bytes(&write.value));
        let value = (write.change == Change::Put).then_some(value);
        let ts = self.order().then_some(state.ts);
        Ok(heap.prepare(id, hint, key, cts, ts, value).await?.map(Some))
    }

    /// Checks that everything that the transaction has read is unchanged.
    pub(super) async fn validate(&self, state: &mut State<M>) -> Result<(), TxnError> {
        // This fence stands between the locks of the written rows and the second read of the rows
        // that were read: see `Heap::unchanged_step`. If two transactions do both crosswise, at
        // least one of them sees the lock of the other. Leaf stamps change under page guards, which
        // order the changes.
        fence(Ordering::SeqCst);
        if self.order() {
            return self.leave_stamps(state).await;
        }
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
            if read.fixed {
                continue;
            }
            let heap = state.table(read.table).heap();
            let mine = state.writes_line(heap.line_of(read.id));
            let step = || heap.unchanged_step(read.id, &read.hint, read.cts, mine);
            let unchanged = match step() {
                Ok(unchanged) => unchanged,
                Err(_) => heap.drive(Patience::NoWait, step).await?,
            };
            if !unchanged {
                return Err(Conflict::Changed.into());
            }
        }
        Ok(())
    }

    /// Timestamp ordering: raises the read timestamps for rows that were read to be written and are
    /// not written. Checks that each row is still the version that was read.
    async fn leave_stamps(&self, state: &mut State<M>) -> Result<(), TxnError> {
        for at in 0..state.reads.len() {
            let read = &state.reads[at];
            if read.stamped || read.fixed {
                continue;
            }
            let heap = state.table(read.table).heap();
            let mine = state.writes_line(heap.line_of(read.id));
            let (found, ts) = ((read.cts, Timestamp::ZERO), state.ts);
            let step = || heap.stamp_step(read.id, &read.hint, found, ts, 0, mine);
            match heap.drive(Patience::NoWait, step).await? {
                Stamped::Done => state.reads[at].stamped = true,
                Stamped::Changed => return Err(Conflict::Changed.into()),
                Stamped::Locked => return Err(Conflict::Locked.into()),
            }
        }
        Ok(())
    }

    /// Adds the writes of the transaction to a log record.
    pub(super) fn put_into(state: &State<M>, group: &mut LogRecord) -> Result<(), WalError> {
        state.writes.iter().try_for_each(|write| {
            let (table, key) = (state.table(write.table).id(), state.bytes(&write.key));
            match write.change {
                Change::Put => group.put(table, key, state.bytes(&write.value)),
                _ => group.remove(table, key),
            }
        })
    }

    /// Appends the writes of the transaction to the log.
    async fn append(&self, state: &State<M>, cts: Timestamp) -> Result<Option<Position>, TxnError> {
        let Some(log) = self.node().log() else { return Ok(None) };
        let mut group = LogRecord::new(LogRecordKind::Commit, cts);
        Self::put_into(state, &mut group).map_err(TxnError::not_logged)?;
        let handle = self.memory().handle();
        let deadline = handle.now() + self.node().settings().log_deadline;
        loop {
            let appended = match self.releases_early() {
                true => log.append_for_early_release(&group),
                false => log.append(&group),
            };
            match appended {
                Ok(position) => return Ok(Some(position)),
                Err(WalError::Backlog { .. }) => {
                    log.room(handle, deadline).await.map_err(TxnError::not_logged)?;
                }
                Err(error) => return Err(TxnError::not_logged(error)),
            }
        }
    }

    /// Whether the scheme is timestamp ordering.
    pub(super) fn order(&self) -> bool {
        self.scheme() == Scheme::TimestampOrdering
    }
}
