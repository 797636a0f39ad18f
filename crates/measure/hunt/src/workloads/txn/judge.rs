//! [`TxnRecord`]: the record of all tasks, and its check.
//!
//! Where lines of dead nodes are recovered, the check has two parts:
//!
//! 1. Until a node dies nothing of it is missing. So its transactions count as those of any node.
//! 2. From then on a part of what it wrote may be missing, row by row: [`split`]. The transactions
//!    of living nodes are whole. An entry of another index may be missing although its row is
//!    there, so scans of other indexes do not count any more.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_history::{
    CheckOptions, RecordedTransaction, TransactionHistory, TransactionOutcome,
};
use latchwork_runtime::Time;

use super::contents::{self, Contents};
use super::split::{Seen, drop_scans_of_indexes};
use crate::WorldCheck;
use crate::checks::{CheckResult, Verdict};

/// The record of all tasks.
#[derive(Default)]
pub(in crate::workloads) struct TxnRecord {
    /// What the recorder of the transactions has, from the end of the world on.
    transactions: Vec<RecordedTransaction>,
    /// The contents of the transactions that have certainly committed.
    pub(super) committed: Vec<Committed>,
    /// The key to which a step may write each head.
    pub(super) drawn: BTreeMap<u64, u64>,
    /// The heads of transactions that have certainly not committed.
    pub(super) undone: BTreeSet<u64>,
    /// What is wrong with the transactions of nodes, in a world in which nothing may fail.
    pub(super) ill: Vec<String>,
    /// The nodes of whose writes a part may be missing, and the time of their death.
    dead: BTreeMap<usize, Time>,
}

/// What a transaction that has committed has read and written.
pub(super) struct Committed {
    pub(super) node: usize,
    /// When its task knew it.
    pub(super) at: Time,
    pub(super) contents: Contents,
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
        self.transactions.extend(transactions.into_iter().map(|one| {
            let since = gone(one.id.node.into());
            since.map_or(one.clone(), |since| until(since, one))
        }));
    }

    pub(super) fn merge(&mut self, more: TxnRecord) {
        self.transactions.extend(more.transactions);
        self.committed.extend(more.committed);
        self.drawn.extend(more.drawn);
        self.undone.extend(more.undone);
        self.ill.extend(more.ill);
    }

    /// From the given time of its death on, a part of what a node wrote may be missing.
    pub(super) fn may_be_undone(&mut self, dead: &BTreeMap<usize, Time>) {
        self.dead.clone_from(dead);
    }

    pub(super) fn judge(&self) -> CheckResult {
        if let Some(health) = self.ill.first() {
            return Err((WorldCheck::Leak, format!("transactions of a node: {health}")));
        }
        for (node, death) in &self.dead {
            let begun = self.transactions.iter().filter(|one| one.begin <= death.as_nanos());
            let begun = begun.map(|one| until(*death, one.clone())).collect();
            let known = self.committed.iter().filter(|one| one.at <= *death);
            let is_dead = |node| self.dead.get(&node).is_some_and(|since| since < death);
            let judged = self.judge_some(begun, known, is_dead);
            judged.map_err(|(check, text)| {
                (check, format!("up to the death of C{}: {text}", node + 1))
            })?;
        }
        let is_dead = |node| self.dead.contains_key(&node);
        self.judge_some(self.transactions.clone(), self.committed.iter(), is_dead)
    }

    /// Judges some of the transactions, if a part of what some nodes wrote may be missing.
    fn judge_some<'a>(
        &'a self,
        transactions: Vec<RecordedTransaction>,
        known: impl Iterator<Item = &'a Committed>,
        is_dead: impl Fn(usize) -> bool,
    ) -> CheckResult {
        let seen = Seen::new(&transactions, |one| is_dead(one.id.node.into()));
        let deaths = self.dead.iter().filter(|(node, _)| is_dead(**node));
        let first = deaths.map(|(_, since)| since.as_nanos()).min();
        let split = |mut one: RecordedTransaction| match is_dead(one.id.node.into()) {
            true => seen.split(&one),
            false => {
                if first.is_some_and(|first| first < one.end) {
                    drop_scans_of_indexes(&mut one);
                }
                vec![one]
            }
        };
        let transactions = transactions.into_iter().flat_map(split).collect();
        let history = TransactionHistory { base: 0, transactions };
        let options = CheckOptions { is_strict: true, ..CheckOptions::default() };
        let verdict = latchwork_history::check(&history, options);
        if !verdict.is_serializable() {
            return Err((WorldCheck::Serializability, verdict.to_string()));
        }
        let known = known.filter(|one| !is_dead(one.node)).map(|one| &one.contents);
        self.check_contents(known)?;
        Ok(verdict.undecided)
    }

    fn check_contents<'a>(&self, known: impl Iterator<Item = &'a Contents>) -> Verdict {
        contents::check(&self.drawn, &self.undone, known)
            .map_err(|text| (WorldCheck::Serializability, text))
    }
}

/// The transaction as it was known at a time. If it ended later, its outcome is unknown.
fn until(time: Time, mut one: RecordedTransaction) -> RecordedTransaction {
    if let TransactionOutcome::Committed { cts } = one.outcome
        && one.end > time.as_nanos()
    {
        one.outcome = TransactionOutcome::Unknown { cts };
    }
    one
}
