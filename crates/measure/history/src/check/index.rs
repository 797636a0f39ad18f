//! The lookups of the checker: keys by number, the versions of each key in their order, and the
//! transactions that count as committed.

use std::collections::HashMap;

use latchwork_strict::strict_assert;

use crate::{
    RecordedChange, RecordedOperation, RecordedTransaction, RowVersion, TransactionHistory,
    TransactionOutcome,
};

/// A written version: the last write of its key in a transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) key: u32,
    pub(crate) cts: RowVersion,
    pub(crate) writer: u32,
    pub(crate) change: RecordedChange,
}

/// The versions of all keys, by key and timestamp.
#[derive(Default)]
pub(crate) struct Versions {
    all: Vec<Written>,
    first: Vec<u32>,
}

impl Versions {
    fn new(mut all: Vec<Written>, keys: usize) -> Versions {
        // The sort is stable, so a transaction's last write of a key comes last.
        let order = |written: &Written| (written.key, written.cts, written.writer);
        all.sort_by_key(order);
        all.dedup_by(|later, kept| {
            let is_same = order(later) == order(kept);
            if is_same {
                *kept = *later;
            }
            is_same
        });
        let mut first = vec![0u32; keys + 1];
        all.iter().for_each(|written| first[written.key as usize + 1] += 1);
        (0..keys).for_each(|key| first[key + 1] += first[key]);
        strict_assert!(
            all.windows(2).all(|pair| (pair[0].key, pair[0].cts, pair[0].writer)
                < (pair[1].key, pair[1].cts, pair[1].writer)),
            "versions are out of order"
        );
        strict_assert!(first[keys] as usize == all.len(), "a version has no key");
        Versions { all, first }
    }

    /// The versions of a key, in their order.
    pub(crate) fn of(&self, key: u32) -> &[Written] {
        &self.all[self.place(key)]
    }

    /// The positions of a key's versions in [`all`](Versions::all).
    pub(crate) fn place(&self, key: u32) -> std::ops::Range<usize> {
        self.first[key as usize] as usize..self.first[key as usize + 1] as usize
    }

    /// All versions.
    pub(crate) fn all(&self) -> &[Written] {
        &self.all
    }

    /// The version of `key` with timestamp `cts`, if there is one.
    pub(crate) fn find(&self, key: u32, cts: RowVersion) -> Option<&Written> {
        let of = self.of(key);
        let at = of.partition_point(|written| written.cts < cts);
        of.get(at).filter(|written| written.cts == cts)
    }
}

/// The lookups over one history. Transactions and keys have numbers from 0.
pub(crate) struct Index<'h> {
    pub(crate) history: &'h TransactionHistory,
    /// The table and the key of each key number, sorted. So key numbers have the order of tables
    /// and keys.
    pub(crate) keys: Vec<(u32, &'h [u8])>,
    /// The numbers of the keys of each transaction's operations, in the order of [`keys_of`].
    numbers: Vec<u32>,
    first: Vec<usize>,
    /// Versions of the transactions that count as committed: see [`counts`](Index::counts).
    pub(crate) versions: Versions,
    /// Versions of aborted transactions.
    pub(crate) undone: Versions,
    /// Versions of unknown transactions that do not count.
    pub(crate) open: Versions,
    /// Whether each transaction counts as committed: it is committed, or its outcome is unknown and
    /// a transaction that counts has read from it.
    pub(crate) counts: Vec<bool>,
}

/// The keys of an operation: one key, or the keys that a scan saw.
fn keys_of(operation: &RecordedOperation) -> impl Iterator<Item = (u32, &[u8])> {
    let (table, one, seen) = match operation {
        RecordedOperation::Read { table, key, .. }
        | RecordedOperation::Write { table, key, .. } => (*table, Some(&**key), &[][..]),
        RecordedOperation::Scan(scan) => (scan.table, None, &scan.seen[..]),
    };
    one.into_iter().chain(seen.iter().map(|seen| &*seen.key)).map(move |key| (table, key))
}

impl<'h> Index<'h> {
    pub(crate) fn new(history: &'h TransactionHistory) -> Index<'h> {
        let mut map: HashMap<(u32, &[u8]), u32> = HashMap::new();
        let mut keys: Vec<(u32, &[u8])> = Vec::new();
        let (mut numbers, mut first) = (Vec::new(), vec![0]);
        for transaction in &history.transactions {
            for key in transaction.operations.iter().flat_map(keys_of) {
                let number = *map.entry(key).or_insert_with(|| {
                    keys.push(key);
                    u32::try_from(keys.len() - 1).expect("fewer than 4 billion keys")
                });
                numbers.push(number);
            }
            first.push(numbers.len());
        }
        strict_assert!(
            first.len() == history.transactions.len() + 1,
            "a transaction has no operations"
        );
        let mut order: Vec<u32> = (0..keys.len() as u32).collect();
        order.sort_unstable_by_key(|number| keys[*number as usize]);
        let mut rank = vec![0u32; keys.len()];
        order.iter().zip(0..).for_each(|(number, at)| rank[*number as usize] = at);
        numbers.iter_mut().for_each(|number| *number = rank[*number as usize]);
        strict_assert!(
            numbers.iter().all(|number| (*number as usize) < keys.len()),
            "a key has no number"
        );
        let keys: Vec<_> = order.iter().map(|number| keys[*number as usize]).collect();
        strict_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "keys are out of order");
        let mut index = Index {
            history,
            keys,
            numbers,
            first,
            versions: Versions::default(),
            undone: Versions::default(),
            open: Versions::default(),
            counts: Vec::new(),
        };
        index.sort_versions();
        index
    }

    /// The transactions that count as committed, with their numbers.
    pub(crate) fn counted(&self) -> impl Iterator<Item = (u32, &'h RecordedTransaction)> {
        (0..).zip(&self.history.transactions).filter(|(number, _)| self.counts[*number as usize])
    }

    pub(crate) fn transaction(&self, number: u32) -> &'h RecordedTransaction {
        &self.history.transactions[number as usize]
    }

    /// The time at which a transaction was over. `u64::MAX` for an unknown outcome, because its
    /// writes may have become visible at any time.
    pub(crate) fn over(&self, number: u32) -> u64 {
        match self.transaction(number).outcome {
            TransactionOutcome::Committed { .. } | TransactionOutcome::Aborted { .. } => {
                self.transaction(number).end
            }
            TransactionOutcome::Unknown { .. } => u64::MAX,
        }
    }

    /// The transaction's operations, each with the numbers of its keys.
    pub(crate) fn operations(
        &self,
        number: u32,
    ) -> impl Iterator<Item = (&'h RecordedOperation, &[u32])> {
        let mut at = self.first[number as usize];
        self.transaction(number).operations.iter().map(move |operation| {
            let count = match operation {
                RecordedOperation::Read { .. } | RecordedOperation::Write { .. } => 1,
                RecordedOperation::Scan(scan) => scan.seen.len(),
            };
            let start = at;
            at += count;
            (operation, &self.numbers[start..at])
        })
    }

    /// The versions of rows that a transaction recorded as seen.
    fn seen(&self, number: u32) -> impl Iterator<Item = (u32, RowVersion)> {
        self.operations(number).flat_map(|(operation, keys)| {
            let one = match operation {
                RecordedOperation::Read { version, .. } => Some((keys[0], *version)),
                RecordedOperation::Write { .. } | RecordedOperation::Scan(_) => None,
            };
            let seen = match operation {
                RecordedOperation::Scan(scan) => &scan.seen[..],
                RecordedOperation::Read { .. } | RecordedOperation::Write { .. } => &[],
            };
            let seen = seen.iter().zip(keys).filter_map(|(seen, key)| Some((*key, seen.version?)));
            one.into_iter().chain(seen)
        })
    }

    fn sort_versions(&mut self) {
        let count = self.history.transactions.len();
        let (mut done, mut undone, mut open) = (Vec::new(), Vec::new(), Vec::new());
        self.counts = vec![false; count];
        for (number, transaction) in (0..).zip(&self.history.transactions) {
            let kept = match transaction.outcome {
                TransactionOutcome::Committed { .. } => {
                    self.counts[number as usize] = true;
                    &mut done
                }
                TransactionOutcome::Aborted { .. } => &mut undone,
                TransactionOutcome::Unknown { .. } => &mut open,
            };
            let cts = transaction.outcome.cts();
            for (operation, keys) in self.operations(number) {
                if let RecordedOperation::Write { change, .. } = operation {
                    kept.push(Written { key: keys[0], cts, writer: number, change: *change });
                }
            }
        }
        // A write without a timestamp has no version. `items` reports a committed transaction with
        // writes and without a timestamp.
        for kept in [&mut done, &mut undone, &mut open] {
            kept.retain(|written: &Written| written.cts != 0);
        }
        let keys = self.keys.len();
        self.open = Versions::new(open, keys);
        self.undone = Versions::new(undone, keys);
        self.count_unknown();
        done.extend(self.open.all().iter().filter(|written| self.counts[written.writer as usize]));
        self.versions = Versions::new(done, keys);
        strict_assert!(
            self.versions.all().iter().all(|written| self.counts[written.writer as usize]),
            "a version of a transaction that does not count"
        );
        let rest = self.open.all().iter().filter(|written| !self.counts[written.writer as usize]);
        self.open = Versions::new(rest.copied().collect(), keys);
        strict_assert!(self.counts.len() == count, "a transaction is not counted");
    }

    /// Decides which unknown transactions count. An unknown transaction counts if a transaction
    /// that counts has read from it. So the search continues from each unknown transaction that
    /// counts to the transactions that it read from.
    fn count_unknown(&mut self) {
        if self.open.all().is_empty() {
            return;
        }
        let mut todo: Vec<u32> = self.counted().map(|(number, _)| number).collect();
        while let Some(reader) = todo.pop() {
            let writers: Vec<u32> = self
                .seen(reader)
                .filter_map(|(key, version)| Some(self.open.find(key, version)?.writer))
                .collect();
            for writer in writers {
                if !std::mem::replace(&mut self.counts[writer as usize], true) {
                    todo.push(writer);
                }
            }
        }
    }
}
