//! What is left of the transactions of dead nodes whose lines were recovered: rows, each by itself.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_history::{RecordedOperation, RecordedTransaction, RowVersion, TransactionOutcome};

/// A row: its table and its key.
type Row<'a> = (u32, &'a [u8]);

/// The low bits of the number of an index, which have the number of its table.
const TABLE: u32 = 0x00ff_ffff;

/// What living nodes have read of what dead nodes wrote. What a dead node has read does not count:
/// its copy may have been unsettled.
pub(super) struct Seen {
    /// For each dead node and row, the latest version of that node.
    latest: BTreeMap<(u16, u32, Box<[u8]>), RowVersion>,
}

impl Seen {
    pub(super) fn new(
        transactions: &[RecordedTransaction],
        is_dead: impl Fn(&RecordedTransaction) -> bool,
    ) -> Seen {
        let of_dead = transactions.iter().filter(|one| is_dead(one));
        let wrote = of_dead.flat_map(|one| {
            let (node, version) = (one.id.node, one.outcome.cts());
            written(one).map(move |row| ((row, version), node))
        });
        let wrote: BTreeMap<(Row<'_>, RowVersion), u16> = wrote.collect();
        let living = transactions.iter().filter(|one| !is_dead(one));
        let mut latest = BTreeMap::new();
        for ((table, key), version) in living.flat_map(read) {
            if let Some(node) = wrote.get(&((table, key), version)) {
                let of: &mut RowVersion = latest.entry((*node, table, key.into())).or_default();
                *of = version.max(*of);
            }
        }
        Seen { latest }
    }

    /// The transaction of a dead node, in two parts without its reads.
    ///
    /// - Rows that a living node has read, in this version or in a later one of the same node:
    ///   these are there, with their entries in other indexes.
    /// - The others: each may be there or not, and no transaction has read any of them.
    pub(super) fn split(&self, one: &RecordedTransaction) -> Vec<RecordedTransaction> {
        let version = one.outcome.cts();
        let is_there = |(table, key): &Row<'_>| {
            let latest = self.latest.get(&(one.id.node, *table, (*key).into()));
            latest.is_some_and(|latest| *latest >= version)
        };
        let there: BTreeSet<Row<'_>> = written(one).filter(is_there).collect();
        // The key of an index ends with the key of the row.
        let belongs = |index: u32, entry: &[u8]| {
            there.iter().any(|(table, key)| *table == index & TABLE && entry.ends_with(key))
        };
        let (mut seen, mut rest) = (one.clone(), one.clone());
        seen.operations.clear();
        rest.operations.clear();
        for operation in &one.operations {
            if let RecordedOperation::Write { table, key, .. } = operation {
                let to = if belongs(*table, key) { &mut seen } else { &mut rest };
                to.operations.push(operation.clone());
            }
        }
        if let TransactionOutcome::Committed { cts } = rest.outcome {
            rest.outcome = TransactionOutcome::Unknown { cts };
        }
        [seen, rest].into_iter().filter(|part| !part.operations.is_empty()).collect()
    }
}

/// Takes the scans of indexes other than the primary one out of a transaction.
pub(super) fn drop_scans_of_indexes(one: &mut RecordedTransaction) {
    let counts = |operation: &RecordedOperation| match operation {
        RecordedOperation::Scan(scan) => scan.table == scan.table & TABLE,
        _ => true,
    };
    one.operations.retain(counts);
}

/// The rows and the entries that a transaction has written.
fn written(one: &RecordedTransaction) -> impl Iterator<Item = Row<'_>> {
    one.operations.iter().filter_map(|operation| match operation {
        RecordedOperation::Write { table, key, .. } => Some((*table, &**key)),
        _ => None,
    })
}

/// The versions that a transaction has read.
fn read(one: &RecordedTransaction) -> impl Iterator<Item = (Row<'_>, RowVersion)> {
    one.operations.iter().flat_map(|operation| {
        let (read, scan) = match operation {
            RecordedOperation::Read { table, key, version, .. } => {
                (Some(((*table, &**key), *version)), None)
            }
            RecordedOperation::Scan(scan) => (None, Some(scan)),
            RecordedOperation::Write { .. } => (None, None),
        };
        let seen = scan.into_iter().flat_map(|scan| {
            let of = |key| (scan.table, key);
            scan.seen.iter().filter_map(move |seen| Some((of(&*seen.key), seen.version?)))
        });
        read.into_iter().chain(seen)
    })
}

#[cfg(test)]
mod tests {
    use latchwork_history::{RecordedChange, Recording};

    use super::*;

    const TABLE: u32 = 1;
    const INDEX: u32 = 1 << 24 | TABLE;
    const LIVING: u16 = 0;
    const DEAD: u16 = 1;

    /// A transaction: its node, its commit timestamp, what it reads, and the rows that it writes
    /// with an entry each.
    type Done<'a> = (u16, u64, &'a [(u8, u64)], &'a [u8]);

    fn history(of: &[Done<'_>]) -> Vec<RecordedTransaction> {
        let recording = Recording::memory(0);
        let recorder = recording.recorder();
        for (at, (node, cts, reads, writes)) in (0..).zip(of) {
            let mut record = recorder.begin(*node, 0, 10 * at);
            reads.iter().for_each(|(key, version)| record.read(TABLE, &[*key], *version));
            for key in *writes {
                record.write(TABLE, &[*key], RecordedChange::Put);
                record.write(INDEX, &[7, *key], RecordedChange::Put);
            }
            recorder.finish(record, TransactionOutcome::Committed { cts: *cts }, 10 * at + 5);
        }
        recording.history().transactions
    }

    fn parts(of: &[Done<'_>]) -> Vec<(bool, Vec<u8>)> {
        let transactions = history(of);
        let is_dead = |one: &RecordedTransaction| one.id.node == DEAD;
        let seen = Seen::new(&transactions, is_dead);
        let split = transactions.iter().filter(|one| is_dead(one)).flat_map(|one| seen.split(one));
        let part = |part: RecordedTransaction| {
            let is_there = matches!(part.outcome, TransactionOutcome::Committed { .. });
            let rows = written(&part).filter(|(table, _)| *table == TABLE);
            let rows: Vec<u8> = rows.map(|(_, key)| key[0]).collect();
            let entries = written(&part).filter(|(table, _)| *table == INDEX);
            assert!(entries.map(|(_, entry)| entry[1]).eq(rows.iter().copied()));
            (is_there, rows)
        };
        split.map(part).collect()
    }

    #[test]
    fn rows_of_a_dead_node_are_there_if_a_living_node_has_read_them() {
        let wrote: Done<'_> = (DEAD, 64, &[(1, 0)], &[1, 2]);
        assert_eq!(parts(&[wrote]), [(false, vec![1, 2])]);
        assert_eq!(parts(&[wrote, (LIVING, 128, &[(2, 64)], &[])])[0], (true, vec![2]));
        assert_eq!(parts(&[wrote, (LIVING, 128, &[(2, 64)], &[])])[1], (false, vec![1]));
        // Another dead node has read it, and a living one has overwritten it.
        assert_eq!(parts(&[wrote, (DEAD, 128, &[(1, 64)], &[])]), [(false, vec![1, 2])]);
        assert_eq!(parts(&[wrote, (LIVING, 128, &[(1, 0)], &[1])]), [(false, vec![1, 2])]);
        // A later version of the same node is there.
        let later: Done<'_> = (DEAD, 128, &[], &[1]);
        let all = parts(&[wrote, later, (LIVING, 192, &[(1, 128)], &[])]);
        assert_eq!(all, [(true, vec![1]), (false, vec![2]), (true, vec![1])]);
    }
}
