//! The active phase. In this order: this file locks the written rows and reserves room for their
//! new values. [`new_rows`](super::new_rows) places the new rows. [`entries`](super::entries) adds
//! the index entries that lead to written rows.

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, LineLocks, LockOutcome, Need};
use latchwork_strict::strict_assert;
use latchwork_wal::Timestamp;
use smallvec::SmallVec;

use super::in_phase::{InPhase, Parts};
use super::phases::{Active, Staged};
use super::state::{Change, Held, State, Write};
use crate::heap::Prepared;
use crate::{Conflict, Database, Scheme, TxnError};

impl<M: LineLocks> InPhase<M, Active> {
    /// Locks the rows that are to be written, places new rows as pending, and enters their index
    /// entries.
    ///
    /// # Errors
    /// Conflicts; [`TxnError::Exists`]; [`TxnError::NotDurable`]; [`TxnError::Schema`]; memory and
    /// index failures. After an error everything is undone.
    pub(super) async fn stage(mut self) -> Result<InPhase<M, Staged>, TxnError> {
        let Parts { database, state, .. } = self.parts_mut();
        match (Staging { database, state }).run().await {
            Ok(()) => Ok(self.next(Staged)),
            Err(error) => Err(self.abort(error).await),
        }
    }
}

/// A transaction in the active phase, while it is staged.
pub(super) struct Staging<'a, M: LineLocks> {
    pub(super) database: &'a Database<M>,
    pub(super) state: &'a mut State<M>,
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

impl<M: LineLocks> Staging<'_, M> {
    async fn run(&mut self) -> Result<(), TxnError> {
        self.state.writes.retain(|write| write.change != Change::Nothing);
        if self.state.writes.is_empty() {
            return Ok(());
        }
        self.lock_writes().await?;
        self.prepare().await?;
        if let Err(error) = self.stage_rows().await {
            // The cause of `Exists` may be reads that are inconsistent together. If so, the
            // validation fails, and its conflict is returned.
            if matches!(error, TxnError::Exists) {
                self.state.validate(self.database).await?;
                self.state.durable_reads(self.database).await?;
            }
            return Err(error);
        }
        Ok(())
    }

    /// Locks the lines of rows that are to be written, in the order of their addresses. Two-phase
    /// locking has locked them already.
    async fn lock_writes(&mut self) -> Result<(), TxnError> {
        let Staging { database, state } = self;
        if database.scheme() == Scheme::TwoPhaseLocking {
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
                database.lock(state, line, AccessMode::Exclusive).await?;
                continue;
            }
            match database.memory().try_lock_at(need, &hint) {
                Ok(LockOutcome::Got(lock)) => {
                    state.note_lock(Held { line, mode: AccessMode::Exclusive, lock });
                }
                Ok(LockOutcome::Locked) => return Err(Conflict::Locked.into()),
                Err(_) => database.lock(state, line, AccessMode::Exclusive).await?,
            }
        }
        strict_assert!(state.locks_cover_writes(), "a written row is not locked");
        Ok(())
    }

    /// Checks that the rows are unchanged since they were read, and reserves room for their new
    /// values.
    async fn prepare(&mut self) -> Result<(), TxnError> {
        for at in 0..self.state.writes.len() {
            let has_place = match self.is_prepared(at)? {
                Room::NotNeeded => {
                    self.state.writes[at].prepared = None;
                    false
                }
                Room::AtHome => {
                    self.state.writes[at].prepared = Some(Prepared::AtHome);
                    true
                }
                Room::Unknown => self.prepare_slow(at).await?,
            };
            let state = &mut *self.state;
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
    async fn prepare_slow(&mut self, at: usize) -> Result<bool, TxnError> {
        let prepared = loop {
            match self.prepare_write(at).await? {
                Ok(prepared) => break prepared,
                Err(read) => self.database.move_up(self.state, read).await?,
            }
        };
        let has_place = prepared.is_some();
        self.state.writes[at].prepared = prepared;
        Ok(has_place)
    }

    /// The fast path of [`prepare`](Staging::prepare): decides without an await whether a row has
    /// the room that it needs. This works for a row that does not exist yet, for a row at home of
    /// which a part changes, and for a deleted row. In other cases the slow path decides.
    #[inline]
    fn is_prepared(&self, at: usize) -> Result<Room, Conflict> {
        let (state, scheme) = (&*self.state, self.database.scheme());
        let write = &state.writes[at];
        let Some((id, cts)) = write.base.named() else { return Ok(Room::NotNeeded) };
        let (heap, hint) = (state.table(write.table).heap(), &write.hint);
        let fits = match (scheme, write.change, &write.part) {
            (Scheme::TimestampOrdering, _, Some(_)) if write.home && self.heeds_readers() => {
                match heap.check_step(id, hint, cts, state.ts) {
                    Ok(Ok(())) => true,
                    // The slow path gets the read timestamp for which the transaction is too late.
                    Ok(Err(Conflict::TooLate)) | Err(_) => false,
                    Ok(Err(conflict)) => return Err(conflict),
                }
            }
            (Scheme::TimestampOrdering, ..) => false,
            // The row has been locked since its read, so it is unchanged, and a part keeps the
            // length.
            (Scheme::TwoPhaseLocking, _, Some(_)) if write.home => true,
            (_, Change::Delete, _) | (_, _, Some(_)) => match heap.at_home_step(id, hint, cts) {
                Ok(there) => there.ok_or(Conflict::Changed)? || write.change == Change::Delete,
                Err(_) => false,
            },
            _ => false,
        };
        Ok(if fits { Room::AtHome } else { Room::Unknown })
    }

    /// Like [`prepare`](Staging::prepare), for one row that exists. The inner error is the
    /// timestamp of a reader for which the write comes too late.
    async fn prepare_write(
        &self,
        at: usize,
    ) -> Result<Result<Option<Prepared>, Timestamp>, TxnError> {
        let state = &*self.state;
        let write = &state.writes[at];
        let Some((id, cts)) = write.base.named() else { return Ok(Ok(None)) };
        let (heap, hint) = (state.table(write.table).heap(), &write.hint);
        let (key, value) = (state.bytes(&write.key), state.bytes(&write.value));
        let value = (write.change == Change::Put).then_some(value);
        let ts = self.ts().filter(|_| self.heeds_readers());
        Ok(heap.prepare(id, hint, key, cts, ts, value).await?.map(Some))
    }

    /// Whether read timestamps count, which is so unless a checker breaks this rule.
    #[inline]
    fn heeds_readers(&self) -> bool {
        self.database.node().settings().rules.read_timestamps_count
    }

    /// The timestamp of the transaction; `None` except under timestamp ordering.
    #[inline]
    pub(super) fn ts(&self) -> Option<Timestamp> {
        self.database.order().then_some(self.state.ts)
    }
}

impl<M: LineLocks> Database<M> {
    /// Whether the scheme is timestamp ordering.
    pub(super) fn order(&self) -> bool {
        self.scheme() == Scheme::TimestampOrdering
    }
}
