//! [`InPhase`]: a transaction in one phase of its end, which owns everything that the transaction
//! has. [`phases`](super::phases) has the phases.

use std::sync::Arc;

use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_record::TransactionOutcome;
use latchwork_strict::strict_check;
use latchwork_wal::Timestamp;

use super::state::{Change, State};
use crate::Database;
use crate::node::HeldUp;

/// The parts that a transaction owns in every phase.
pub(super) struct Parts<M: LineLocks> {
    pub(super) database: Database<M>,
    pub(super) state: Box<State<M>>,
    /// A checkpoint that begins later waits until this value is dropped.
    pub(super) generation: Arc<()>,
    /// The attempts of the task that works without a caller; `None` while a caller waits.
    pub(super) attempts: Option<Box<Attempts>>,
}

impl<M: LineLocks> Parts<M> {
    /// Asserts the conditions on the transaction's lists that hold in every phase.
    pub(super) fn check(&self) {
        self.state.check(self.database.order());
    }

    /// Asserts that the written rows are locked, and that each has its room or its location.
    pub(super) fn check_staged(&self) {
        self.check();
        assert!(self.state.locks_cover_writes(), "a row is overwritten without a lock");
        for write in &self.state.writes {
            assert_ne!(write.change, Change::Nothing, "a change of nothing is committed");
            assert_eq!(
                write.base.named().is_some(),
                write.prepared.is_some(),
                "a row that exists has no room for its new value"
            );
            assert!(write.id().is_some(), "a new row has no location");
            assert!(!write.installed, "a row has its new value before the commit");
        }
    }

    fn end_record(&mut self, outcome: TransactionOutcome) {
        self.database.end_record(&mut self.state, outcome);
    }

    /// Leaves the rows locked, because only a restart can decide or finish the transaction.
    pub(super) fn leave_locked(mut self) {
        self.state.leave_locked();
        let why = Attempts::why(self.attempts.take());
        self.database.node().note_left_locked(&why);
    }

    /// Ends the undo before it is complete. The locks are released. Entries and pending rows that
    /// are left may be in the way of other transactions until a restart.
    pub(super) fn give_up(mut self) {
        let why = Attempts::why(self.attempts.take());
        self.database.node().note_given_up(&why);
    }
}

/// A phase of a transaction.
pub(super) trait Phase {
    /// Asserts the conditions that a transaction meets when it enters this phase.
    fn check<M: LineLocks>(&self, parts: &Parts<M>);

    /// The outcome that the history gets when the transaction is dropped in this phase. A task that
    /// continues the transaction does not change this outcome.
    fn outcome(&self, _ts: Timestamp) -> TransactionOutcome {
        TransactionOutcome::Aborted { cts: 0 }
    }

    /// What becomes of a transaction that is dropped in this phase.
    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>);
}

/// A transaction in the phase `P`.
pub(super) struct InPhase<M: LineLocks, P: Phase> {
    /// `None` after the end of the phase.
    parts: Option<Parts<M>>,
    pub(super) phase: P,
}

impl<M: LineLocks, P: Phase> InPhase<M, P> {
    pub(super) fn enter(parts: Parts<M>, phase: P) -> InPhase<M, P> {
        strict_check!(phase, &parts);
        InPhase { parts: Some(parts), phase }
    }

    /// Enters the phase again after a drop, without the assertions.
    pub(super) fn resume(parts: Parts<M>, phase: P) -> InPhase<M, P> {
        InPhase { parts: Some(parts), phase }
    }

    /// Ends the phase, and begins another one.
    pub(super) fn next<Q: Phase>(mut self, phase: Q) -> InPhase<M, Q> {
        InPhase::enter(self.take(), phase)
    }

    /// Ends the transaction, and releases its remaining locks.
    pub(super) fn end(mut self, outcome: TransactionOutcome) -> Ended<M> {
        let mut parts = self.take();
        parts.end_record(outcome);
        let Parts { database, state, generation, attempts } = parts;
        database.give_back(state);
        Ended { database, _generation: generation, _attempts: attempts }
    }

    /// Ends a transaction that only a restart can decide. Until then no transaction of another node
    /// reads or overwrites the rows that it writes. The same holds for transactions of this node,
    /// unless the locks are node locks.
    pub(super) fn end_locked(mut self, outcome: TransactionOutcome, why: &str) {
        let Parts { database, state, .. } = self.parts_mut();
        state.locks.retain(|held| held.mode == AccessMode::Exclusive);
        state.leave_locked();
        database.node().note_left_locked(why);
        self.end(outcome);
    }

    #[inline]
    pub(super) fn parts(&self) -> &Parts<M> {
        match &self.parts {
            Some(parts) => parts,
            None => unreachable!("the transaction is in another phase"),
        }
    }

    #[inline]
    pub(super) fn parts_mut(&mut self) -> &mut Parts<M> {
        match &mut self.parts {
            Some(parts) => parts,
            None => unreachable!("the transaction is in another phase"),
        }
    }

    #[inline]
    fn take(&mut self) -> Parts<M> {
        match self.parts.take() {
            Some(parts) => parts,
            None => unreachable!("the transaction is in another phase"),
        }
    }
}

impl<M: LineLocks, P: Phase> Drop for InPhase<M, P> {
    fn drop(&mut self) {
        let Some(mut parts) = self.parts.take() else { return };
        parts.end_record(self.phase.outcome(parts.state.ts));
        self.phase.dropped(parts);
    }
}

/// A transaction that has ended. While this value lives, a checkpoint still waits for it.
pub(super) struct Ended<M: LineLocks> {
    pub(super) database: Database<M>,
    _generation: Arc<()>,
    _attempts: Option<Box<Attempts>>,
}

/// The attempts of a task that ends a transaction without a caller.
#[derive(Default)]
pub(super) struct Attempts {
    /// The error of the last attempt.
    pub(super) failure: Option<Box<str>>,
    /// Reports the task as held up.
    pub(super) held_up: Option<HeldUp>,
}

impl Attempts {
    /// The reason why a transaction has not ended.
    fn why(attempts: Option<Box<Attempts>>) -> String {
        match attempts.and_then(|attempts| attempts.failure) {
            Some(failure) => failure.into(),
            None => "its worker ended first".to_owned(),
        }
    }
}
