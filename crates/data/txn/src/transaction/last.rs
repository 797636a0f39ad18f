//! [`Last`]: the end of a transaction, which is carried through whoever waits for it.

use std::mem;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use latchwork_coherence::{LineLocks, Mode};
use latchwork_history::{Outcome, Record};
use latchwork_wal::{Timestamp, WalError};
use smallvec::SmallVec;

use super::Transaction;
use super::commit::Decided;
use super::state::{Change, State, Write};
use crate::heap::{Install, Patience, Prepared};
use crate::{Conflict, Database, TupleId, TxnError};

impl<M: LineLocks> Transaction<M> {
    /// Makes what it wrote visible and, with a log, lasting. Returns its commit timestamp; of a
    /// transaction that wrote nothing, the highest that it has read.
    ///
    /// If this future is dropped, the transaction commits or not. With a log, one that has waited
    /// for longer than [`Settings::log_deadline`](crate::Settings::log_deadline) is an error, and
    /// still may commit later.
    ///
    /// # Errors
    /// Conflicts; [`TxnError::Exists`] when a row would have the same key in a unique index as
    /// another; [`TxnError::NotLogged`], [`TxnError::InDoubt`]; when memory fails or is full.
    /// Nothing has happened then, but for `InDoubt`, and for [`TxnError::Corrupt`], which may be
    /// told of a transaction that has committed.
    pub async fn commit(mut self) -> Result<Timestamp, TxnError> {
        self.take_last()?.run().await
    }

    /// What is left to do of it.
    pub(super) fn take_last(&mut self) -> Result<Last<M>, TxnError> {
        self.alive()?;
        let Some(state) = self.state.take() else { return Err(TxnError::Doomed) };
        let (database, generation) = (self.database.clone(), self.generation.clone());
        let (state, phase) = (Some(state), Phase::Deciding);
        let (service, failure) = (false, None);
        Ok(Last { database, state, phase, service, failure, _generation: generation })
    }
}

/// How far the end of a transaction has come.
#[derive(Debug)]
pub(super) enum Phase {
    /// It may fail.
    Deciding,
    /// It waits for others; once it is sealed, whatever happens.
    Prepared {
        /// Dropping it must not abort it.
        sealed: bool,
    },
    /// Its group is in the log, lasting or not.
    Logged(Decided),
    /// It has committed.
    Installing {
        /// When.
        cts: Timestamp,
        /// The rows that were there are what it made of them.
        released: bool,
    },
    /// It has failed.
    Undoing(Option<TxnError>),
    /// Nothing is left to do.
    Ended,
}

/// How often an end that memory or the log fails is tried again. Other transactions are waited for
/// without a count: each of them ends.
const TRIES: u32 = 1000;
/// The time between two attempts.
const PAUSE: Duration = Duration::from_millis(10);
/// After this time an operator has to look at what other transactions hold up.
const HELD_UP_AFTER: Duration = Duration::from_secs(10);

pub(super) struct Last<M: LineLocks> {
    database: Database<M>,
    /// `None` once it is over.
    state: Option<Box<State<M>>>,
    phase: Phase,
    /// It is a task of its own: nobody waits for it.
    service: bool,
    /// Why the last attempt of that task failed.
    failure: Option<Box<str>>,
    _generation: Arc<()>,
}

impl<M: LineLocks> Drop for Last<M> {
    fn drop(&mut self) {
        let Some(mut state) = self.state.take() else { return };
        let phase = mem::replace(&mut self.phase, Phase::Ended);
        let outcome = match &phase {
            Phase::Logged(Decided { cts, .. }) | Phase::Installing { cts, .. } => {
                Outcome::Unknown { cts: cts.0 }
            }
            Phase::Prepared { sealed: true } => Outcome::Unknown { cts: state.ts.0 },
            _ => Outcome::Aborted { cts: 0 },
        };
        self.database.end_record(&mut state, outcome);
        match phase {
            Phase::Ended => self.database.give_back(state),
            // Nobody can have seen anything of it.
            Phase::Deciding if state.is_unseen() && !state.has_strays() => {
                self.database.give_back(state)
            }
            // The worker ends, or the task has given up. What has to stay locked does.
            Phase::Logged(_) | Phase::Installing { .. } if self.service => {
                self.leave_locked(&mut state)
            }
            Phase::Prepared { sealed: true } => self.leave_locked(&mut state),
            _ if self.service => self.database.node().note_given_up(&self.why()),
            phase => {
                let phase = match phase {
                    // The caller's error is not what may hold up the task.
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
    /// Only a restart can tell what becomes of it, or carry it through.
    fn leave_locked(&self, state: &mut State<M>) {
        state.leave_locked();
        self.database.node().note_left_locked(&self.why());
    }

    /// Why it has not ended.
    fn why(&self) -> String {
        match &self.failure {
            Some(failure) => failure.to_string(),
            None => "its worker ended first".to_owned(),
        }
    }

    /// Ends it when no caller waits for it any more.
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
            match &mut self.phase {
                Phase::Deciding => match database.decide(state).await {
                    Ok(Some(decided)) => self.phase = Phase::Logged(decided),
                    Ok(None) => {
                        let cts = state.floor;
                        self.end(Outcome::Committed { cts: cts.0 });
                        database.purge_some().await;
                        return Ok(cts);
                    }
                    Err(error) => self.phase = Phase::Undoing(Some(error)),
                },
                Phase::Logged(decided) => {
                    let cts = decided.cts;
                    if database.releases_early() && !decided.released {
                        // Where memory fails it stays locked, and is tried again when it is
                        // lasting.
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
                            // Only a restart can tell. Until then nobody may see or overwrite these
                            // rows.
                            state.locks.retain(|held| held.mode == Mode::Exclusive);
                            state.leave_locked();
                            database.node().note_left_locked(&error.to_string());
                            self.end(Outcome::Unknown { cts: cts.0 });
                            return Err(TxnError::in_doubt(error));
                        }
                    }
                }
                Phase::Installing { cts, released } => {
                    let cts = *cts;
                    let installed = async {
                        if !*released {
                            database.install(state, cts).await?;
                        }
                        database.publish(state, cts).await
                    };
                    if let Err(error) = installed.await {
                        // It has committed. What is left to do a service does.
                        let waits = matches!(error, TxnError::Memory(_)) && !self.service;
                        return if waits { Ok(cts) } else { Err(error) };
                    }
                    self.end(Outcome::Committed { cts: cts.0 });
                    database.purge_some().await;
                    return Ok(cts);
                }
                Phase::Undoing(cause) => {
                    let undone = database.undo(state).await;
                    // The caller learns why the transaction failed. A task has to know what holds
                    // it up.
                    let cause = cause.take().filter(|_| !self.service || undone.is_ok());
                    return match undone {
                        Ok(()) => {
                            self.end(Outcome::Aborted { cts: 0 });
                            Err(cause.unwrap_or(TxnError::Doomed))
                        }
                        // A task does what is left to do.
                        Err(failure) => Err(cause.unwrap_or(failure)),
                    };
                }
                Phase::Prepared { .. } | Phase::Ended => return Err(TxnError::Doomed),
            }
        }
    }

    /// Does what a commit does up to the validation.
    pub(super) async fn announce(&mut self) -> Result<(), TxnError> {
        let state = self.state.as_deref_mut().ok_or(TxnError::Doomed)?;
        self.database.lock_and_announce(state).await?;
        // Other nodes, with logs of their own, build on what the parts of a transaction have seen.
        self.database.lasting_reads(state).await?;
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

    fn end(&mut self, outcome: Outcome) {
        self.phase = Phase::Ended;
        if let Some(mut state) = self.state.take() {
            self.database.end_record(&mut state, outcome);
            self.database.give_back(state);
        }
    }
}

impl<M: LineLocks> State<M> {
    /// Whether rows were placed, by this or another transaction of the worker, that have been given
    /// up since.
    fn has_strays(&self) -> bool {
        self.tables.iter().any(|table| table.heap().has_strays())
    }

    /// Whether nothing was done yet that others could have met, but for locks.
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

    /// Writes the rows that were there. May be called again after it failed or was dropped.
    pub(super) async fn install(
        &self,
        state: &mut State<M>,
        cts: Timestamp,
    ) -> Result<(), TxnError> {
        // Reads need no protection any more: everything that this transaction may lock it has.
        state.locks.retain(|held| held.mode == Mode::Exclusive);
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
            // As a rule, and without more ado.
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
        self.leave_times(state, cts).await
    }

    /// Ends the locks, and makes rows that are new visible. May be called again after it failed or
    /// was dropped.
    async fn publish(&self, state: &mut State<M>, cts: Timestamp) -> Result<(), TxnError> {
        state.locks.clear();
        // Publishing may wait for those who have locked the line to read, and so comes last.
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
            // Those that follow in the same line with it.
            let same =
                |&(other, at, id): &(u8, _, TupleId)| (other == table && at == line).then_some(id);
            let run = state.writes[next..].iter().map_while(|write| same(&of(write)?));
            let ids: SmallVec<[TupleId; 16]> = run.collect();
            let heap = state.table(table).heap();
            // As a rule, and without more ado.
            if heap.publish_step(line, &ids, cts).is_err() {
                heap.publish(line, &ids, cts).await?;
            }
            for write in &mut state.writes[next..next + ids.len()] {
                write.installed = true;
            }
            next += ids.len();
        }
        for write in &mut state.writes {
            if let Some(placed) = &mut write.placed {
                placed.keep();
            }
            write.installed = true;
        }
        self.queue_purges(state, cts);
        Ok(())
    }

    /// Takes back what was entered into indexes, and rows that were placed. May be called again
    /// after it failed or was dropped.
    async fn undo(&self, state: &mut State<M>) -> Result<(), TxnError> {
        // Under the locks: when they are gone another transaction may need an entry of these rows
        // that is there already. Index pages are never locked, so this waits for nobody who may
        // wait for a lock.
        while let Some(entry) = state.entries.last() {
            let write = &state.writes[entry.write as usize];
            if let Some(id) = write.id() {
                let (key, bits) = (state.bytes(&entry.key), id.bits().to_le_bytes());
                let tree = state.table(write.table).tree(usize::from(entry.index));
                match entry.old.map(|old| old.bits().to_le_bytes()) {
                    None => drop(tree.remove_seen(key, &bits, 0, 0).await?),
                    // It may lead to a row that another transaction has added there meanwhile.
                    Some(old) => drop(tree.replace_seen(key, &bits, &old, |_| true).await?),
                }
            }
            state.entries.pop();
        }
        state.locks.clear();
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
