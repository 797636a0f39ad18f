//! Long histories of several shapes are checked in seconds, because no part of the check compares
//! all pairs of transactions.
//!
//! `cargo test --release -p latchwork-history --test suite scale:: -- --ignored` checks a million
//! transactions of each shape.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use latchwork_history::{
    CheckOptions, Direction, RecordedChange, Recorder, Recording, TransactionHistory,
    TransactionOutcome, check,
};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// The number of transactions that run at the same time.
const BESIDE: u64 = 16;

fn at(recorder: &Recorder, number: u64) -> latchwork_history::Record {
    recorder.begin(0, (number % BESIDE) as u16, number * 10)
}

fn commit(recorder: &Recorder, record: latchwork_history::Record, number: u64) {
    recorder.finish(
        record,
        TransactionOutcome::Committed { cts: number + 1 },
        (number + BESIDE) * 10,
    );
}

/// Transactions that read and write rows. A few rows are hot.
fn rows(count: u64) -> TransactionHistory {
    let mut rng = SmallRng::seed_from_u64(1);
    let recording = Recording::memory(0);
    let recorder = recording.recorder();
    let mut store: BTreeMap<u64, u64> = BTreeMap::new();
    for number in 0..count {
        let mut record = at(&recorder, number);
        for _ in 0..4 {
            let most = rng.random_range(0..count);
            let key = rng.random_range(0..=most);
            record.read(1, &key.to_be_bytes(), store.get(&key).copied().unwrap_or(0));
            if rng.random() {
                record.write(1, &key.to_be_bytes(), RecordedChange::Put);
                store.insert(key, number + 1);
                break;
            }
        }
        commit(&recorder, record, number);
    }
    recording.history()
}

/// A queue: transactions insert rows at its end, and a scan from its start removes the first row.
/// All removed rows are in the range of every scan, like the delivered new orders of TPC-C.
fn queue(count: u64) -> TransactionHistory {
    let recording = Recording::memory(0);
    let recorder = recording.recorder();
    let (mut store, mut next) = (VecDeque::new(), 0u64);
    for number in 0..count {
        let mut record = at(&recorder, number);
        if number % 3 == 0 {
            let all = (Bound::Included(&[0u8; 8][..]), Bound::Unbounded);
            let scan = record.scan(1, all.0, all.1, Direction::Up);
            if let Some((key, version)) = store.pop_front() {
                let key = u64::to_be_bytes(key);
                record.saw(scan, &key, Some(version));
                record.stopped(scan, &key);
                record.write(1, &key, RecordedChange::Delete);
            }
        } else {
            record.write(1, &next.to_be_bytes(), RecordedChange::Put);
            store.push_back((next, number + 1));
            next += 1;
        }
        commit(&recorder, record, number);
    }
    recording.history()
}

/// Transactions insert rows in all parts of a table, and scan ranges. One transaction runs for as
/// long as all others together.
fn ranges(count: u64) -> TransactionHistory {
    let mut rng = SmallRng::seed_from_u64(2);
    let recording = Recording::memory(0);
    let recorder = recording.recorder();
    let mut store: BTreeMap<u64, u64> = BTreeMap::new();
    let mut long = recorder.begin(0, 99, 0);
    long.write(2, b"alone", RecordedChange::Put);
    for number in 0..count {
        let mut record = at(&recorder, number);
        let key = rng.random::<u64>();
        if number % 2 == 0 {
            record.write(1, &key.to_be_bytes(), RecordedChange::Put);
            store.insert(key, number + 1);
        } else {
            // A scan that stops after 8 rows, or that reaches the end of the table before.
            let limit = 8;
            let scan = record.scan(
                1,
                Bound::Included(&key.to_be_bytes()),
                Bound::Unbounded,
                Direction::Up,
            );
            for (count, (key, version)) in store.range(key..).enumerate() {
                record.saw(scan, &key.to_be_bytes(), Some(*version));
                if count + 1 == limit {
                    record.stopped(scan, &key.to_be_bytes());
                    break;
                }
            }
        }
        commit(&recorder, record, number);
    }
    recorder.finish(long, TransactionOutcome::Committed { cts: count + 1 }, count * 10);
    recording.history()
}

/// One row that transactions insert and delete in turn. The reads have no versions.
fn hot(count: u64) -> TransactionHistory {
    let recording = Recording::memory(0);
    let recorder = recording.recorder();
    for number in 0..count {
        let mut record = recorder.begin(0, 0, number * 10);
        let is_there = number % 2 == 1;
        if is_there {
            let scan = record.scan(1, Bound::Unbounded, Bound::Unbounded, Direction::Down);
            record.saw(scan, b"row", None);
        } else {
            record.read(1, b"row", 0);
        }
        record.write(
            1,
            b"row",
            if is_there { RecordedChange::Delete } else { RecordedChange::Put },
        );
        recorder.finish(record, TransactionOutcome::Committed { cts: number + 1 }, number * 10 + 5);
    }
    recording.history()
}

fn passes(history: &TransactionHistory, is_strict: bool) {
    let report = check(history, CheckOptions { is_strict, ..CheckOptions::default() });
    assert!(report.is_serializable() && report.undecided == 0, "{report}");
    assert_eq!(report.committed, history.transactions.len() as u64);
}

/// Adds a transaction that saw the first version of a row and the last version. The check must
/// report one cycle in few lines.
fn fails(count: u64) {
    let mut history = hot(count);
    let recording = Recording::memory(0);
    let recorder = recording.recorder();
    let mut record = recorder.begin(7, 7, 0);
    record.read(1, b"row", 1);
    record.read(1, b"row", count);
    recorder.finish(record, TransactionOutcome::Committed { cts: 0 }, u64::MAX);
    history.transactions.extend(recording.history().transactions);
    let report = check(&history, CheckOptions::default());
    let text = report.to_string();
    assert!(!report.is_serializable() && text.lines().count() < 30, "{text}");
    assert!(text.contains("T7.7.0 < T0.0.1  rw 1/row: read version 1, replaced by 2"), "{text}");
}

const SOME: u64 = 30_000;
const MANY: u64 = 1_000_000;

#[test]
fn some_transactions_of_every_shape() {
    for is_strict in [false, true] {
        for history in [rows(SOME), queue(SOME), ranges(SOME), hot(SOME)] {
            passes(&history, is_strict);
        }
    }
    fails(SOME);
}

#[test]
#[ignore = "a million transactions: run it alone, in release"]
fn many_rows() {
    passes(&rows(MANY), false);
}

#[test]
#[ignore = "a million transactions: run it alone, in release"]
fn many_rows_strictly() {
    passes(&rows(MANY), true);
}

#[test]
#[ignore = "a million transactions: run it alone, in release"]
fn many_at_a_queue() {
    passes(&queue(MANY), false);
}

#[test]
#[ignore = "a million transactions: run it alone, in release"]
fn many_ranges() {
    passes(&ranges(MANY), false);
}

#[test]
#[ignore = "a million transactions: run it alone, in release"]
fn many_at_one_row() {
    passes(&hot(MANY), false);
}

#[test]
#[ignore = "a million transactions: run it alone, in release"]
fn many_with_a_fault() {
    fails(MANY);
}
