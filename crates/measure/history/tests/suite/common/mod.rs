//! Builders for histories that a test writes out by hand.

use std::ops::Bound;

use latchwork_history::{
    Direction, HistoryReport, RecordedChange, RecordedOperation, RecordedTransaction, Scan,
    SeenKey, TransactionHistory, TransactionId, TransactionOutcome,
};

/// A history under construction.
#[derive(Default)]
pub(crate) struct Maker {
    pub(crate) history: TransactionHistory,
}

impl Maker {
    /// Adds a committed transaction. All transactions of this method have the same begin and end.
    pub(crate) fn commit(&mut self, cts: u64) -> Made<'_> {
        self.at(0, 1000, TransactionOutcome::Committed { cts })
    }

    /// Adds a transaction without operations.
    pub(crate) fn at(&mut self, begin: u64, end: u64, outcome: TransactionOutcome) -> Made<'_> {
        let sequence = self.history.transactions.len() as u64;
        let id = TransactionId { node: 0, worker: 0, sequence };
        let operations = Vec::new();
        self.history.transactions.push(RecordedTransaction { id, begin, end, outcome, operations });
        Made(self.history.transactions.last_mut().expect("it was pushed"))
    }

    pub(crate) fn check(&self) -> HistoryReport {
        latchwork_history::check(&self.history, Default::default())
    }

    pub(crate) fn check_strictly(&self) -> HistoryReport {
        let options = latchwork_history::CheckOptions { is_strict: true, ..Default::default() };
        latchwork_history::check(&self.history, options)
    }
}

/// A transaction under construction. All its keys are in table 1.
pub(crate) struct Made<'a>(&'a mut RecordedTransaction);

impl Made<'_> {
    pub(crate) fn read(self, key: &str, version: u64) -> Self {
        self.operation(RecordedOperation::Read {
            table: 1,
            key: key.as_bytes().into(),
            version,
            hash: None,
        })
    }

    pub(crate) fn read_value(self, key: &str, version: u64, hash: u64) -> Self {
        let key = key.as_bytes().into();
        self.operation(RecordedOperation::Read { table: 1, key, version, hash: Some(hash) })
    }

    pub(crate) fn put(self, key: &str) -> Self {
        self.write(key, RecordedChange::Put)
    }

    pub(crate) fn delete(self, key: &str) -> Self {
        self.write(key, RecordedChange::Delete)
    }

    pub(crate) fn write(self, key: &str, change: RecordedChange) -> Self {
        self.operation(RecordedOperation::Write { table: 1, key: key.as_bytes().into(), change })
    }

    /// Adds a scan of `from..=to` that saw these keys. Version 0 stands for an index entry, which
    /// has no version.
    pub(crate) fn scan(self, from: &str, to: &str, seen: &[(&str, u64)]) -> Self {
        self.scan_to(from, to, Direction::Up, None, seen)
    }

    pub(crate) fn scan_to(
        self,
        from: &str,
        to: &str,
        direction: Direction,
        stopped: Option<&str>,
        seen: &[(&str, u64)],
    ) -> Self {
        let seen = seen.iter().map(|(key, version)| SeenKey {
            key: key.as_bytes().into(),
            version: Some(*version).filter(|version| *version > 0),
        });
        self.operation(RecordedOperation::Scan(Scan {
            table: 1,
            from: Bound::Included(from.as_bytes().into()),
            to: Bound::Included(to.as_bytes().into()),
            direction,
            stopped: stopped.map(|key| key.as_bytes().into()),
            seen: seen.collect(),
        }))
    }

    pub(crate) fn operation(self, operation: RecordedOperation) -> Self {
        self.0.operations.push(operation);
        self
    }
}
