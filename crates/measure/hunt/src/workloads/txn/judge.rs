//! [`TxnRecord`]: the record of all tasks, and its check.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_history::{
    CheckOptions, RecordedTransaction, TransactionHistory, TransactionOutcome,
};
use latchwork_runtime::Time;

use super::contents::{self, Contents};
use crate::WorldCheck;
use crate::checks::CheckResult;

/// The record of all tasks.
#[derive(Default)]
pub(in crate::workloads) struct TxnRecord {
    /// What the recorder of the transactions has, from the end of the world on.
    transactions: Vec<RecordedTransaction>,
    /// The contents of the transactions that have certainly committed.
    pub(super) committed: Vec<Contents>,
    /// The key to which a step may write each head.
    pub(super) drawn: BTreeMap<u64, u64>,
    /// The heads of transactions that have certainly not committed.
    pub(super) undone: BTreeSet<u64>,
    /// What is wrong with the transactions of nodes, in a world in which nothing may fail.
    pub(super) ill: Vec<String>,
}

impl TxnRecord {
    /// Adds what the recorder has. A node that is gone since some time cannot know that a
    /// transaction has committed after that: other nodes may not have its writes, and what it has
    /// read may have changed. So the outcome of such a transaction is unknown.
    pub(super) fn end(
        &mut self,
        transactions: Vec<RecordedTransaction>,
        gone: impl Fn(usize) -> Option<Time>,
    ) {
        self.transactions.extend(transactions.into_iter().map(|mut one| {
            if let TransactionOutcome::Committed { cts } = one.outcome
                && gone(one.id.node.into()).is_some_and(|since| one.end > since.as_nanos())
            {
                one.outcome = TransactionOutcome::Unknown { cts };
            }
            one
        }));
    }

    pub(super) fn merge(&mut self, more: TxnRecord) {
        self.transactions.extend(more.transactions);
        self.committed.extend(more.committed);
        self.drawn.extend(more.drawn);
        self.undone.extend(more.undone);
        self.ill.extend(more.ill);
    }

    pub(super) fn judge(&self) -> CheckResult {
        if let Some(health) = self.ill.first() {
            return Err((WorldCheck::Leak, format!("transactions of a node: {health}")));
        }
        let history = TransactionHistory { base: 0, transactions: self.transactions.clone() };
        let options = CheckOptions { is_strict: true, ..CheckOptions::default() };
        let verdict = latchwork_history::check(&history, options);
        if !verdict.is_serializable() {
            return Err((WorldCheck::Serializability, verdict.to_string()));
        }
        contents::check(&self.drawn, &self.undone, &self.committed)
            .map_err(|text| (WorldCheck::Serializability, text))?;
        Ok(verdict.undecided)
    }
}
