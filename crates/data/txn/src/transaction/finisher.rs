//! [`Last`]: the end of a transaction, which completes whether or not a caller waits for it.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_history::{Record, TransactionOutcome};
use latchwork_strict::{strict_assert, strict_check};
use latchwork_wal::{Timestamp, WalError};
use smallvec::SmallVec;

use super::Transaction;
use super::stage::Decided;
use super::state::{Change, State, Write};
use crate::heap::{Install, Patience, Prepared};
use crate::{Conflict, Database, RowId, TxnError};

impl<M: LineLocks> Transaction<M> {
    /// Makes the writes visible and, with a log, durable. Returns the commit timestamp. For a
    /// transaction that wrote nothing, this is the highest timestamp that it read.
    ///
    /// If this future is dropped, the transaction may commit or abort, and the caller does not
    /// learn which. With a log, a wait beyond
    /// [`Settings::log_deadline`](crate::Settings::log_deadline) is an error, and the transaction
    /// may still commit later.
    ///
    /// # Errors
    /// Conflicts; [`TxnError::Exists`] when a row would have the key of another row in a unique
    /// index; [`TxnError::NotLogged`]; [`TxnError::InDoubt`]; [`TxnError::NotLasting`]; memory that
    /// fails or is full. After an error nothing has happened, with two exceptions: `InDoubt`, and
    /// [`TxnError::Corrupt`], which a transaction that has committed may also return.
    pub async fn commit(mut self) -> Result<Timestamp, TxnError> {
        self.take_last()?.run().await
    }

    /// Turns the transaction into its end: the work that a commit still has to do.
    pub(super) fn take_last(&mut self) -> Result<Last<M>, TxnError> {
        self.alive()?;
        let Some(state) = self.state.take() else { return Err(TxnError::Doomed) };
        let (database, generation) = (self.database.clone(), self.generation.clone());
        let (state, phase) = (Some(state), Phase::Deciding);
        let (service, failure) = (false, None);
        Ok(Last { database, state, phase, service, failure, _generation: generation })
    }
}

/// The progress of a transaction's end.
#[derive(Debug)]
pub(super) enum Phase {
    /// The commit may still fail.
    Deciding,
    /// The caller decides the outcome, as for a part of a larger transaction.
    Prepared {
        /// Dropping must not abort it.
        sealed: bool,
    },
    /// The log record is appended, but perhaps not yet durable.
    Logged(Decided),
    /// The transaction has committed.
    Installing {
        /// The commit timestamp.
        cts: Timestamp,
        /// The rows that existed before already have their new values.
        released: bool,
    },
    /// The transaction has failed, and its changes are being undone.
    Undoing(Option<TxnError>),
    /// Nothing is left to do.
    Ended,
}

/// The number of attempts of an end that fails because of memory or the log. Waits for other
/// transactions are not counted, because each of those transactions ends.
const TRIES: u32 = 1000;
const _: () = assert!(
    TRIES > 0 && !PAUSE.is_zero() && PAUSE.as_millis() < HELD_UP_AFTER.as_millis(),
    "a task tries again before it is held up"
);
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// The wait for other transactions after which [`Health`](crate::Health) reports the task as held
/// up.
const HELD_UP_AFTER: Duration = Duration::from_secs(10);

pub(super) struct Last<M: LineLocks> {
    database: Database<M>,
    /// `None` after the end.
    state: Option<Box<State<M>>>,
    phase: Phase,
    /// Whether this runs as a task of its own, without a caller that waits.
    service: bool,
    /// The error of the last attempt of that task.
    failure: Option<Box<str>>,
    _generation: Arc<()>,
}

impl<M: LineLocks> Drop for Last<M> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        let phase = mem::replace(&mut self.phase, Phase::Ended);
        let outcome = match &phase {
            Phase::Logged(Decided { cts, .. }) | Phase::Installing { cts, .. } => {
                TransactionOutcome::Unknown { cts: cts.0 }
            }
            Phase::Prepared { sealed: true } => TransactionOutcome::Unknown { cts: state.ts.0 },
            _ => TransactionOutcome::Aborted { cts: 0 },
        };
        self.database.end_record(&mut state, outcome);
        match phase {
            Phase::Ended => self.database.give_back(state),
            // No other transaction can have seen anything of it.
            Phase::Deciding if state.is_unseen() && !state.has_strays() => {
                self.database.give_back(state)
            }
            // The worker ends, or the task has given up. Committed or in-doubt rows stay locked.
            Phase::Logged(_) | Phase::Installing { .. } if self.service => {
                self.leave_locked(&mut state)
            }
            Phase::Prepared { sealed: true } => self.leave_locked(&mut state),
            _ if self.service => self.database.node().note_given_up(&self.why()),
            phase => {
                let phase = match phase {
                    // The task reports its own error as the cause of a delay, not the caller's
                    // error.
                    Phase::Deciding | Phase::Prepared { .. } | Phase::Undoing(_) => {
                        Phase::Undoing(None)
                    }
                    phase => phase,
                };
                let (database, generation) = (self.database.clone(), self._generation.clone());
                let handle = database.memory().handle().clone();
                let (state, service, failure) = (Some(state), true, None);
                let mut last =
                    Last { database, state, phase, service, failure, _generation: generation };
                drop(handle.spawn_finisher(async move { last.run_alone().await }));
            }
        }
    }
}

impl<M: LineLocks> Last<M> {
    /// Leaves the rows locked: only a restart can decide or finish the transaction.
    fn leave_locked(&self, state: &mut State<M>) {
        state.leave_locked();
        self.database.node().note_left_locked(&self.why());
    }

    /// The reason why the transaction has not ended.
    fn why(&self) -> String {
        match &self.failure {
            Some(failure) => failure.to_string(),
            None => "its worker ended first".to_owned(),
        }
    }

    /// Ends the transaction when no caller waits for it any more.
    async fn run_alone(&mut self) {
        let (node, handle) =
            (self.database.node().clone(), self.database.memory().handle().clone());
        let patience = handle.now() + HELD_UP_AFTER;
        let mut held_up = None;
        let mut tries = 0;
        while tries < TRIES {
            let ended = self.run().await;
            let (true, Err(error)) = (self.state.is_some(), ended) else { return };
            let is_contended = error.conflict().is_some();
            tries += u32::from(!is_contended);
            if !is_contended || handle.now() >= patience {
                held_up.get_or_insert_with(|| node.hold_up(&error));
            }
            node.note_retry(&error);
            self.failure = Some(error.to_string().into());
            handle.sleep(PAUSE).await;
        }
    }

    pub(super) async fn run(&mut self) -> Result<Timestamp, TxnError> {
        let database = self.database.clone();
        loop {
            let Some(state) = self.state.as_deref_mut() else { return Err(TxnError::Doomed) };
            strict_assert!(
                !matches!(self.phase, Phase::Ended),
                "a transaction that has ended has a state"
            );
            match &mut self.phase {
                Phase::Deciding => match database.decide(state).await {
                    Ok(Some(decided)) => self.phase = Phase::Logged(decided),
                    Ok(None) => {
                        let cts = state.floor;
                        self.end(TransactionOutcome::Committed { cts: cts.0 });
                        database.purge_some().await;
                        return Ok(cts);
                    }
                    Err(error) => self.phase = Phase::Undoing(Some(error)),
                },
                Phase::Logged(decided) => {
                    let cts = decided.cts;
                    strict_assert!(
                        !state.writes.is_empty(),
                        "a transaction without writes is logged"
                    );
                    strict_assert!(
                        state.ts == cts,
                        "the log has another timestamp than the transaction"
                    );
                    if database.releases_early() && !decided.released {
                        // If memory fails, the rows stay locked. The rows are then installed when
                        // the log record is durable.
                        decided.released = database.release_early(state, cts).await.is_ok();
                    }
                    let released = decided.released;
                    match database.acknowledged(decided).await {
                        Ok(()) => self.phase = Phase::Installing { cts, released },
                        Err(error @ WalError::Timeout { .. }) => {
                            return Err(TxnError::in_doubt(error));
                        }
                        Err(error @ WalError::Refused { .. }) if !database.releases_early() => {
                            self.phase = Phase::Undoing(Some(TxnError::not_logged(error)));
                        }
                        Err(error) => {
                            // Only a restart can decide the outcome. Until then no transaction may
                            // read or overwrite these rows.
                            state.locks.retain(|held| held.mode == AccessMode::Exclusive);
                            state.leave_locked();
                            database.node().note_left_locked(&error.to_string());
                            self.end(TransactionOutcome::Unknown { cts: cts.0 });
                            return Err(TxnError::in_doubt(error));
                        }
                    }
                }
                Phase::Installing { cts, released } => {
                    let cts = *cts;
                    strict_assert!(
                        !state.writes.is_empty(),
                        "a transaction without writes is installed"
                    );
                    strict_check!(state, database.scheme() == crate::Scheme::TimestampOrdering);
                    let installed = async {
                        if !*released {
                            database.install(state, cts).await?;
                        }
                        database.publish(state, cts).await
                    };
                    if let Err(error) = installed.await {
                        // The transaction has committed. A task does the remaining work.
                        let waits = matches!(error, TxnError::Memory(_)) && !self.service;
                        return if waits { Ok(cts) } else { Err(error) };
                    }
                    self.end(TransactionOutcome::Committed { cts: cts.0 });
                    database.purge_some().await;
                    return Ok(cts);
                }
                Phase::Undoing(cause) => {
                    let undone = database.undo(state).await;
                    strict_assert!(
                        !matches!(cause, Some(TxnError::InDoubt(_))),
                        "a transaction in doubt is undone"
                    );
                    // The caller gets the reason why the transaction failed. A task reports what
                    // holds it up.
                    let cause = cause.take().filter(|_| !self.service || undone.is_ok());
                    return match undone {
                        Ok(()) => {
                            self.end(TransactionOutcome::Aborted { cts: 0 });
                            Err(cause.unwrap_or(TxnError::Doomed))
                        }
                        // A task does the remaining work.
                        Err(failure) => Err(cause.unwrap_or(failure)),
                    };
                }
                Phase::Prepared { .. } | Phase::Ended => return Err(TxnError::Doomed),
            }
        }
    }

    /// Does what a commit does before the validation.
    pub(super) async fn stage_rows(&mut self) -> Result<(), TxnError> {
        let state = self.state.as_deref_mut().ok_or(TxnError::Doomed)?;
        self.database.lock_and_announce(state).await?;
        // Other nodes have logs of their own, and they build on what the parts of a transaction
        // read.
        self.database.durable_reads(state).await?;
        state.record_writes();
        Ok(())
    }

    pub(super) async fn validate(&mut self) -> Result<(), TxnError> {
        let state = self.state.as_deref_mut().ok_or(TxnError::Doomed)?;
        self.database.validate(state).await
    }

    pub(super) fn state(&self) -> Option<&State<M>> {
        self.state.as_deref()
    }

    pub(super) fn database(&self) -> &Database<M> {
        &self.database
    }

    pub(super) fn set_phase(&mut self, phase: Phase) {
        self.phase = phase;
    }

    pub(super) fn take_record(&mut self) -> Record {
        self.state.as_deref_mut().map(State::take_record).unwrap_or_default()
    }

    fn end(&mut self, outcome: TransactionOutcome) {
        self.phase = Phase::Ended;
        if let Some(mut state) = self.state.take() {
            self.database.end_record(&mut state, outcome);
            self.database.give_back(state);
        }
    }
}

impl<M: LineLocks> State<M> {
    /// Whether this or another transaction of the worker has placed rows that were given up and not
    /// yet removed.
    fn has_strays(&self) -> bool {
        self.tables.iter().any(|table| table.heap().has_strays())
    }

    /// Whether other transactions can have met nothing of it except locks.
    fn is_unseen(&self) -> bool {
        self.entries.is_empty() && self.writes.iter().all(|write| write.placed.is_none())
    }
}

impl<M: LineLocks> Database<M> {
    async fn acknowledged(&self, decided: &Decided) -> Result<(), WalError> {
        let (Some(log), Some(position)) = (self.node().log(), &decided.position) else {
            return Ok(());
        };
        let handle = self.memory().handle();
        log.acknowledged(handle, position, handle.now() + self.node().settings().log_deadline).await
    }

    /// Writes the rows that existed before. May be called again after it failed or was dropped.
    pub(super) async fn install(
        &self,
        state: &mut State<M>,
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        // Read locks are no longer needed: the transaction takes no further lock.
        state.locks.retain(|held| held.mode == AccessMode::Exclusive);
        let State { writes, tables, arena, .. } = state;
        for write in writes.iter_mut().filter(|write| !write.installed) {
            let (Some((id, was)), Some(prepared)) = (write.base.named(), &mut write.prepared)
            else {
                continue;
            };
            let bytes = |range: &Range<u32>| &arena[range.start as usize..range.end as usize];
            let value = bytes(&write.value);
            let install = match (write.change, &write.part) {
                (Change::Put, None) => Install::Value(value),
                (Change::Put, Some(part)) => {
                    Install::Part { value, from: part.start as usize, to: part.end as usize }
                }
                _ => Install::Tombstone,
            };
            let heap = tables[usize::from(write.table)].heap();
            let (hint, key) = (&write.hint, bytes(&write.key));
            // The fast path, for a row that stays at home and of which a part changes.
            let done = match (&*prepared, install) {
                (Prepared::AtHome, Install::Part { value, from, to }) => {
                    matches!(heap.part_step(id, hint, was, cts, value, from..to), Ok(true))
                }
                _ => false,
            };
            if !done {
                heap.install(id, hint, key, (was, cts), prepared, install).await?;
            }
            write.installed = true;
        }
        strict_assert!(
            state.writes.iter().all(|write| write.installed || write.base.named().is_none()),
            "a row keeps its old value after the commit"
        );
        self.leave_times(state, cts).await
    }

    /// Releases the locks and makes new rows visible. May be called again after it failed or was
    /// dropped.
    async fn publish(&self, state: &mut State<M>, cts: Timestamp) -> Result<(), TxnError> {
        state.locks.clear();
        // Publishing may wait for transactions that have locked the line to read, so it comes last.
        let mut next = 0;
        while let Some(write) = state.writes.get(next) {
            let of = |write: &Write| {
                let id = write.placed.as_ref().filter(|_| !write.installed)?.id()?;
                Some((write.table, state.table(write.table).heap().line_of(id), id))
            };
            let Some((table, line, _)) = of(write) else {
                next += 1;
                continue;
            };
            // The rows that follow in the same line are published together with it.
            let same =
                |&(other, at, id): &(u8, _, RowId)| (other == table && at == line).then_some(id);
            let run = state.writes[next..].iter().map_while(|write| same(&of(write)?));
            let ids: SmallVec<[RowId; 16]> = run.collect();
            let heap = state.table(table).heap();
            // The fast path.
            if heap.publish_step(line, &ids, cts).is_err() {
                heap.publish(line, &ids, cts).await?;
            }
            for write in &mut state.writes[next..next + ids.len()] {
                write.installed = true;
            }
            next += ids.len();
            strict_assert!(!ids.is_empty(), "a run of no rows");
        }
        for write in &mut state.writes {
            if let Some(placed) = &mut write.placed {
                placed.keep();
            }
            write.installed = true;
        }
        self.queue_purges(state, cts);
        strict_assert!(
            state.writes.iter().all(|write| write.installed),
            "a write is not installed at the end"
        );
        Ok(())
    }

    /// Removes the index entries and the placed rows of the transaction. May be called again after
    /// it failed or was dropped.
    async fn undo(&self, state: &mut State<M>) -> Result<(), TxnError> {
        // The undo runs under the locks: after their release another transaction may need an entry
        // that these rows have taken over. Index pages are never locked, so this waits for no
        // transaction that may itself wait for a lock.
        while let Some(entry) = state.entries.last() {
            let write = &state.writes[entry.write as usize];
            if let Some(id) = write.id() {
                let (key, bits) = (state.bytes(&entry.key), id.bits().to_le_bytes());
                let tree = state.table(write.table).tree(usize::from(entry.index));
                match entry.old.map(|old| old.bits().to_le_bytes()) {
                    None => drop(tree.remove_stamped(key, &bits, 0, 0).await?),
                    // The entry may again lead to a row that another transaction has added there
                    // meanwhile.
                    Some(old) => drop(tree.replace_stamped(key, &bits, &old, |_| true).await?),
                }
            }
            state.entries.pop();
        }
        state.locks.clear();
        strict_assert!(state.entries.is_empty(), "the locks end before the entries are taken back");
        let State { writes, tables, arena, .. } = state;
        for write in writes {
            let Some(placed) = &mut write.placed else { continue };
            if let Some(id) = placed.id() {
                let heap = tables[usize::from(write.table)].heap();
                let key = &arena[write.key.start as usize..write.key.end as usize];
                heap.erase(id, key, true, Patience::Wait).await?;
            }
            placed.keep();
        }
        for table in tables {
            let heap = table.heap();
            if heap.has_strays() {
                heap.tidy().await?;
            }
            if heap.has_strays() {
                return Err(Conflict::Locked.into());
            }
        }
        Ok(())
    }
}
