//! The phases of a transaction's end. Each phase is a type, and each step takes one phase and
//! returns the next one. So a caller that takes the steps out of order does not compile.
//!
//! ```text
//!   Transaction ─► Active ─stage─► Staged ─validate─► Validated ─log─► Logged
//!                                    │ into_part                         │ wait
//!                                    ▼                                   ▼
//!                                StagedPart ─validate─► ValidatedPart ─► Committed
//!                                                                commit  │ install
//!                                                                        ▼
//!                  any phase up to Logged ─abort─► Aborting           Installed
//!                                                      │ undo            │ publish
//!                                                      ▼                 ▼
//!                                                    ended             ended
//! ```
//!
//! A transaction without writes ends in `Validated`. A future that executes a step may be dropped
//! at any await. The phase then decides what becomes of the transaction:
//!
//! | dropped phase | what follows |
//! | --- | --- |
//! | `Active`, `Staged`, `Validated` | a task undoes it, if it has entries, new rows or strays |
//! | `StagedPart`, `ValidatedPart` | a task undoes it |
//! | `ValidatedPart`, sealed | its rows stay locked until a restart |
//! | `Logged`, `Committed`, `Installed` | a task completes it |
//! | `Aborting` | a task undoes it |
//!
//! Such a task ends without success if it is dropped, or after a bounded number of failed attempts.
//! A transaction that was to be completed then keeps its locks until a restart. A transaction that
//! was to be undone releases its locks, but its entries and pending rows may stay until a restart.

use latchwork_coherence::{AccessMode, LineLocks};
use latchwork_record::TransactionOutcome;
use latchwork_wal::{Position, Timestamp};

use super::in_phase::{InPhase, Parts, Phase};
use super::state::State;
use crate::TxnError;

/// The transaction takes no further reads and writes. At the begin of this phase nothing of it is
/// staged.
pub(super) struct Active;

/// The written rows are locked and have room for their new values. New rows are pending, and the
/// indexes have all entries that lead to written rows.
pub(super) struct Staged;

/// Everything that the transaction has read was unchanged at the validation. Under timestamp
/// ordering all rows that it has read and does not overwrite have its read timestamp.
pub(super) struct Validated;

impl Phase for Active {
    fn check<M: LineLocks>(&self, parts: &Parts<M>) {
        parts.check();
        assert!(parts.state.is_unseen(), "a transaction is staged before its commit");
        let begun = |write: &super::state::Write| write.prepared.is_some() || write.installed;
        assert!(!parts.state.writes.iter().any(begun), "a row is prepared before the commit");
    }

    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>) {
        abort_dropped(parts);
    }
}

impl Phase for Staged {
    fn check<M: LineLocks>(&self, parts: &Parts<M>) {
        parts.check_staged();
    }

    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>) {
        abort_dropped(parts);
    }
}

impl Phase for Validated {
    fn check<M: LineLocks>(&self, parts: &Parts<M>) {
        parts.check_staged();
        let is_stamped = |read: &super::state::Read| read.stamped || read.fixed;
        assert!(
            !parts.database.order() || parts.state.reads.iter().all(is_stamped),
            "a row that was read has no read timestamp"
        );
    }

    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>) {
        abort_dropped(parts);
    }
}

/// Aborts a transaction that may still fail.
fn abort_dropped<M: LineLocks>(parts: Parts<M>) {
    if parts.state.is_unseen() && !parts.state.has_strays() {
        // No other transaction can have met anything of it except locks.
        parts.database.give_back(parts.state);
    } else {
        undo_alone(parts);
    }
}

/// Undoes a transaction whose caller does not wait.
fn undo_alone<M: LineLocks>(parts: Parts<M>) {
    // `resume` skips the assertions of a phase, because an assertion must not fail while a phase is
    // dropped.
    Rest::Aborting(InPhase::resume(parts, Aborting { cause: None })).spawn();
}

/// Like [`Staged`], for a part of a larger transaction. A caller decides the outcome.
pub(super) struct StagedPart;

/// Like [`Validated`], for a part of a larger transaction. A caller decides the outcome.
pub(super) struct ValidatedPart {
    /// The larger transaction may have committed, so a drop of the part must not abort the part.
    pub(super) sealed: bool,
}

impl Phase for StagedPart {
    fn check<M: LineLocks>(&self, parts: &Parts<M>) {
        parts.check_staged();
    }

    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>) {
        undo_alone(parts);
    }
}

impl Phase for ValidatedPart {
    fn check<M: LineLocks>(&self, parts: &Parts<M>) {
        assert!(!self.sealed, "a part is sealed before its caller has seen it");
        Validated.check(parts);
    }

    fn outcome(&self, ts: Timestamp) -> TransactionOutcome {
        match self.sealed {
            true => TransactionOutcome::Unknown { cts: ts.0 },
            false => TransactionOutcome::Aborted { cts: 0 },
        }
    }

    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>) {
        match self.sealed {
            true => parts.leave_locked(),
            false => undo_alone(parts),
        }
    }
}

/// The log record, if there is a log, is appended, but perhaps not yet durable.
pub(super) struct Logged {
    pub(super) cts: Timestamp,
    /// The log position of the commit; `None` without a log.
    pub(super) position: Option<Position>,
    /// The rows are installed and their lines have node locks: see
    /// [`early_release`](super::early_release).
    pub(super) released: bool,
}

impl Phase for Logged {
    fn check<M: LineLocks>(&self, parts: &Parts<M>) {
        let Parts { database, state, .. } = parts;
        parts.check_staged();
        assert!(!state.writes.is_empty(), "a transaction without writes is logged");
        assert_eq!(state.ts, self.cts, "the log has another timestamp than the transaction");
        assert!(
            database.order() || self.cts > state.floor,
            "a transaction commits before what it has read"
        );
        assert_eq!(
            self.position.is_some(),
            database.node().log().is_some(),
            "a log has no record of the commit"
        );
        assert!(!self.released, "a lock is released before the log has the commit");
    }

    fn outcome(&self, _ts: Timestamp) -> TransactionOutcome {
        TransactionOutcome::Unknown { cts: self.cts.0 }
    }

    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>) {
        if parts.attempts.is_some() {
            return parts.leave_locked();
        }
        let (cts, position, released) = (self.cts, self.position.take(), self.released);
        let phase = Logged { cts, position, released };
        Rest::Logged(InPhase::resume(parts, phase)).spawn();
    }
}

/// The transaction has committed: the log has acknowledged its log record, or there is no log. A
/// part of a larger transaction enters this phase when its caller has decided to commit. An
/// asynchronous log acknowledges a log record before it is durable.
pub(super) struct Committed {
    pub(super) cts: Timestamp,
    /// The rows that existed before already have their new values.
    pub(super) released: bool,
}

impl Phase for Committed {
    fn check<M: LineLocks>(&self, parts: &Parts<M>) {
        parts.check();
        let writes = &parts.state.writes;
        assert!(!writes.is_empty(), "a transaction without writes is installed");
        assert!(self.cts > Timestamp::ZERO, "a commit has no timestamp");
        assert!(
            !self.released || parts.state.has_installed(),
            "a lock is released before its row has the new value"
        );
    }

    fn outcome(&self, _ts: Timestamp) -> TransactionOutcome {
        TransactionOutcome::Unknown { cts: self.cts.0 }
    }

    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>) {
        if parts.attempts.is_some() {
            return parts.leave_locked();
        }
        let phase = Committed { cts: self.cts, released: self.released };
        Rest::Committed(InPhase::resume(parts, phase)).spawn();
    }
}

/// The rows that existed before have their new values.
pub(super) struct Installed {
    pub(super) cts: Timestamp,
}

impl Phase for Installed {
    fn check<M: LineLocks>(&self, parts: &Parts<M>) {
        assert!(parts.state.has_installed(), "a row keeps its old value after the commit");
        let is_exclusive = |held: &super::state::Held<_>| held.mode == AccessMode::Exclusive;
        assert!(
            parts.state.locks.iter().all(is_exclusive),
            "a read lock is kept while rows are installed"
        );
    }

    fn outcome(&self, _ts: Timestamp) -> TransactionOutcome {
        TransactionOutcome::Unknown { cts: self.cts.0 }
    }

    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>) {
        if parts.attempts.is_some() {
            return parts.leave_locked();
        }
        let phase = Installed { cts: self.cts };
        Rest::Installed(InPhase::resume(parts, phase)).spawn();
    }
}

/// The transaction has failed, and its changes are being undone.
pub(super) struct Aborting {
    /// The reason, for the caller.
    pub(super) cause: Option<TxnError>,
}

impl Phase for Aborting {
    fn check<M: LineLocks>(&self, parts: &Parts<M>) {
        let is_kept = |write: &super::state::Write| write.installed;
        assert!(!parts.state.writes.iter().any(is_kept), "a row that has its new value is undone");
        assert!(
            !matches!(self.cause, Some(TxnError::InDoubt(_))),
            "a transaction in doubt is undone"
        );
    }

    fn dropped<M: LineLocks>(&mut self, parts: Parts<M>) {
        match parts.attempts.is_some() {
            true => parts.give_up(),
            // The task reports its own error as the cause of a delay, not the caller's error.
            false => undo_alone(parts),
        }
    }
}

/// The outcome of the log append.
pub(super) enum Decision<M: LineLocks> {
    Logged(InPhase<M, Logged>),
    /// A transaction that wrote nothing has ended, with the highest timestamp that it read.
    ReadOnly(Timestamp),
}

/// A transaction whose remaining steps can be tried again.
pub(super) enum Rest<M: LineLocks> {
    Logged(InPhase<M, Logged>),
    Committed(InPhase<M, Committed>),
    Installed(InPhase<M, Installed>),
    Aborting(InPhase<M, Aborting>),
}

/// A step that has failed.
pub(super) struct Stopped<M: LineLocks> {
    /// The phase that the transaction is still in; `None` after its end.
    pub(super) rest: Option<Rest<M>>,
    pub(super) error: TxnError,
}

impl<M: LineLocks> Stopped<M> {
    /// An error after which the step can be tried again.
    pub(super) fn at(rest: Rest<M>, error: TxnError) -> Box<Stopped<M>> {
        Box::new(Stopped { rest: Some(rest), error })
    }

    /// The error of a transaction that has ended.
    pub(super) fn ended(error: TxnError) -> Box<Stopped<M>> {
        Box::new(Stopped { rest: None, error })
    }
}

impl<M: LineLocks> Rest<M> {
    /// The commit timestamp of a transaction that has committed.
    pub(super) fn committed(&self) -> Option<Timestamp> {
        match self {
            Rest::Logged(_) | Rest::Aborting(_) => None,
            Rest::Committed(committed) => Some(committed.phase.cts),
            Rest::Installed(installed) => Some(installed.phase.cts),
        }
    }

    pub(super) fn parts_mut(&mut self) -> &mut Parts<M> {
        match self {
            Rest::Logged(logged) => logged.parts_mut(),
            Rest::Committed(committed) => committed.parts_mut(),
            Rest::Installed(installed) => installed.parts_mut(),
            Rest::Aborting(aborting) => aborting.parts_mut(),
        }
    }
}

impl<M: LineLocks> State<M> {
    /// Whether other transactions can have met nothing of it except locks.
    fn is_unseen(&self) -> bool {
        self.entries.is_empty() && self.writes.iter().all(|write| write.placed.is_none())
    }

    /// Whether each row that existed before has its new value.
    fn has_installed(&self) -> bool {
        self.writes.iter().all(|write| write.installed || write.base.named().is_none())
    }
}
