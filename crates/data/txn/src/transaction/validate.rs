//! Validation: the check that everything that a transaction has read is unchanged.

use std::sync::atomic::{Ordering, fence};

use latchwork_coherence::LineLocks;
use latchwork_wal::Timestamp;

use super::in_phase::{InPhase, Parts};
use super::phases::{Staged, StagedPart, Validated, ValidatedPart};
use super::state::State;
use crate::heap::{Patience, Stamped};
use crate::{Conflict, Database, Scheme, TxnError};

impl<M: LineLocks> InPhase<M, Staged> {
    /// Validates the transaction.
    ///
    /// # Errors
    /// Conflicts; memory failures. After an error everything is undone.
    pub(super) async fn validate(mut self) -> Result<InPhase<M, Validated>, TxnError> {
        let Parts { database, state, .. } = self.parts_mut();
        match state.validate(database).await {
            Ok(()) => Ok(self.next(Validated)),
            Err(error) => Err(self.abort(error).await),
        }
    }
}

impl<M: LineLocks> InPhase<M, StagedPart> {
    /// Like [`InPhase::validate`] of a whole transaction.
    pub(super) async fn validate(mut self) -> Result<InPhase<M, ValidatedPart>, TxnError> {
        let Parts { database, state, .. } = self.parts_mut();
        match state.validate(database).await {
            Ok(()) => Ok(self.next(ValidatedPart { sealed: false })),
            Err(error) => Err(self.abort(error).await),
        }
    }
}

impl<M: LineLocks> State<M> {
    /// Checks that everything that the transaction has read is unchanged.
    pub(super) async fn validate(&mut self, database: &Database<M>) -> Result<(), TxnError> {
        // Before this fence the transaction has set its locks and added its entries. After the
        // fence it repeats its reads. Let each of two transactions write a row or a range that the
        // other has read. At least one of the two sees the lock or the entry of the other. For rows
        // see `Heap::unchanged_step`, for leaves see `Tree::still`.
        fence(Ordering::SeqCst);
        if database.order() {
            return self.leave_stamps().await;
        }
        let rules = database.node().settings().rules;
        for seen in self.leaves.iter().filter(|_| rules.leaves_count) {
            let tree = self.table(seen.table).tree(usize::from(seen.index));
            if !tree.still(&seen.leaf).await? {
                return Err(Conflict::Phantom.into());
            }
        }
        if database.scheme() != Scheme::Optimistic || !rules.rows_are_validated {
            return Ok(());
        }
        for read in self.reads.iter().filter(|read| !read.fixed) {
            let heap = self.table(read.table).heap();
            let mine = self.writes_line(heap.line_of(read.id));
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
    /// not written. Checks that each such row is still the version that was read.
    async fn leave_stamps(&mut self) -> Result<(), TxnError> {
        for at in 0..self.reads.len() {
            let read = &self.reads[at];
            if read.stamped || read.fixed {
                continue;
            }
            let heap = self.table(read.table).heap();
            let mine = self.writes_line(heap.line_of(read.id));
            let (found, ts) = ((read.cts, Timestamp::ZERO), self.ts);
            let step = || heap.stamp_step(read.id, &read.hint, found, ts, 0, mine);
            match heap.drive(Patience::NoWait, step).await? {
                Stamped::Done => self.reads[at].stamped = true,
                Stamped::Changed => return Err(Conflict::Changed.into()),
                Stamped::Locked => return Err(Conflict::Locked.into()),
            }
        }
        Ok(())
    }
}
