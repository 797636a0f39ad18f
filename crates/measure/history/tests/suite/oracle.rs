//! Compares the checker with the definition of serializability, and with the crate `adya`, which
//! uses other methods.
//!
//! By the definition, a history is serializable if some serial order of its committed transactions
//! gives every recorded answer. The versions of each key must be in the order of their timestamps.
//! The test tries all orders of small histories.

use std::collections::BTreeMap;
use std::ops::Bound;

use latchwork_history::{
    Direction, ElleModel, RecordedChange, RecordedOperation, RecordedTransaction,
    TransactionHistory, TransactionOutcome, write_edn,
};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::common::Maker;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

/// The state of a key: the version, and whether the key exists.
type State = BTreeMap<Box<[u8]>, (u64, bool)>;

/// Runs one transaction on `state`. False if the transaction recorded another answer than `state`
/// gives.
fn runs(transaction: &RecordedTransaction, state: &mut State) -> bool {
    let mut own: State = State::new();
    for operation in &transaction.operations {
        let is_right = match operation {
            RecordedOperation::Read { key, version, .. } => match state.get(key) {
                _ if own.contains_key(key) => true,
                None => *version == 0,
                Some((cts, is_there)) => *version == *cts || *version == 0 && !is_there,
            },
            RecordedOperation::Write { key, change, .. } => {
                own.insert(key.clone(), (transaction.outcome.cts(), change.is_put()));
                true
            }
            RecordedOperation::Scan(scan) => KEYS.iter().all(|key| {
                let key: &[u8] = key.as_bytes();
                let (mut from, mut to) = (scan.from.clone(), scan.to.clone());
                if let Some(stopped) = &scan.stopped {
                    let end = if scan.direction == Direction::Up { &mut to } else { &mut from };
                    *end = Bound::Included(stopped.clone());
                }
                let is_above = match from {
                    Bound::Included(from) => *key >= *from,
                    Bound::Excluded(from) => *key > *from,
                    Bound::Unbounded => true,
                };
                let is_below = match to {
                    Bound::Included(to) => *key <= *to,
                    Bound::Excluded(to) => *key < *to,
                    Bound::Unbounded => true,
                };
                let mut seen = scan.seen.iter().filter(|seen| *seen.key == *key).peekable();
                let (cts, is_there) = state.get(key).copied().unwrap_or((0, false));
                if seen.peek().is_none() {
                    return !(is_above && is_below) || own.contains_key(key) || !is_there;
                }
                seen.all(|seen| match seen.version {
                    Some(version) => cts == version,
                    None => is_there,
                })
            }),
        };
        if !is_right {
            return false;
        }
    }
    // A serial order must also write the versions of a key in the order of their timestamps.
    own.into_iter().all(|(key, version)| {
        state.insert(key, version).is_none_or(|(before, _)| before < version.0)
    })
}

/// Whether the end of a transaction is known. With an unknown outcome, the end is unknown.
fn is_over(transaction: &RecordedTransaction) -> bool {
    !matches!(transaction.outcome, TransactionOutcome::Unknown { .. })
}

/// Whether some order of all remaining transactions continues from `state`.
fn orders(left: &mut Vec<&RecordedTransaction>, state: &State, is_strict: bool) -> bool {
    if left.is_empty() {
        return true;
    }
    (0..left.len()).any(|at| {
        let next = left.swap_remove(at);
        let is_early =
            is_strict && left.iter().any(|other| is_over(other) && other.end < next.begin);
        let mut after = state.clone();
        let found = !is_early && runs(next, &mut after) && orders(left, &after, is_strict);
        left.push(next);
        let last = left.len() - 1;
        left.swap(at, last);
        found
    })
}

/// The definition of serializability: some order explains all committed transactions with some of
/// the unknown transactions.
fn is_serializable(history: &TransactionHistory, is_strict: bool) -> bool {
    let of = |is_wanted: fn(TransactionOutcome) -> bool| -> Vec<&RecordedTransaction> {
        history.transactions.iter().filter(|one| is_wanted(one.outcome)).collect()
    };
    let committed = of(|outcome| matches!(outcome, TransactionOutcome::Committed { .. }));
    let unknown = of(|outcome| matches!(outcome, TransactionOutcome::Unknown { .. }));
    (0..1u32 << unknown.len()).any(|set| {
        let some = unknown.iter().enumerate().filter(|(at, _)| set >> at & 1 == 1);
        let mut all = committed.clone();
        all.extend(some.map(|(_, transaction)| *transaction));
        orders(&mut all, &State::new(), is_strict)
    })
}

/// The shape of the drawn histories.
#[derive(Clone, Copy, PartialEq)]
struct Shape {
    scans: bool,
    deletes: bool,
    unknown: bool,
    times: bool,
}

/// A random history of transactions that run one after another. Some transactions see an older
/// state, or a state that only comes later. A quarter to a half of these histories are not
/// serializable.
fn draw(rng: &mut SmallRng, shape: Shape) -> TransactionHistory {
    let mut maker = Maker::default();
    let count = rng.random_range(3..=6u64);
    // The writes of each transaction, so that a reader may see a later write.
    let writes: Vec<BTreeMap<usize, RecordedChange>> = (0..count)
        .map(|_| {
            let one = |rng: &mut SmallRng| {
                let is_delete = shape.deletes && rng.random_bool(0.3);
                let change = if is_delete { RecordedChange::Delete } else { RecordedChange::Put };
                (rng.random_range(0..KEYS.len()), change)
            };
            (0..rng.random_range(0..=3)).map(|_| one(rng)).collect()
        })
        .collect();
    let oddness = [0.0, 0.3, 0.6][rng.random_range(0..3)];
    for number in 0..count {
        // The state that this transaction sees of a key, as (version, exists).
        let look = |rng: &mut SmallRng, key: usize| {
            let mut seen = number;
            if rng.random_bool(oddness) {
                seen = rng.random_range(0..=count);
            }
            let writer =
                (0..seen).rev().find(|at| *at != number && writes[*at as usize].contains_key(&key));
            writer.map_or((0, false), |at| ((at + 1) * 10, writes[at as usize][&key].is_put()))
        };
        let (begin, end) = match shape.times {
            true => {
                let middle = number * 10 + 20;
                (middle - rng.random_range(0..15), middle + rng.random_range(0..15))
            }
            false => (0, 1000),
        };
        let cts = (number + 1) * 10;
        let outcome = match rng.random_range(0..6) {
            0 if shape.unknown => TransactionOutcome::Unknown { cts },
            _ => TransactionOutcome::Committed { cts },
        };
        let mut made = maker.at(begin, end, outcome);
        let scan_at = if shape.scans { rng.random_range(0..3) } else { 9 };
        for step in 0..2 {
            if step == scan_at {
                let mut seen = Vec::new();
                for (key, name) in KEYS.iter().enumerate().take(3) {
                    match look(rng, key) {
                        // An entry without a version, or a tombstone before its purge.
                        (_, true) if rng.random_bool(0.2) => seen.push((*name, 0)),
                        (cts, is_there) if cts > 0 && (is_there || rng.random_bool(0.2)) => {
                            seen.push((*name, cts));
                        }
                        _ => {}
                    }
                }
                let last = seen.last().map(|(key, _)| *key).filter(|_| rng.random_bool(0.3));
                made = made.scan_to("a", "c", Direction::Up, last, &seen);
            } else if rng.random_bool(0.7) {
                let key = rng.random_range(0..KEYS.len());
                let (cts, is_there) = look(rng, key);
                let is_purged = !is_there && rng.random_bool(0.5);
                made = made.read(KEYS[key], if is_purged { 0 } else { cts });
            }
        }
        // A scan after the transaction's own write of the key does not record that key.
        let own = writes[number as usize].contains_key(&0);
        for (key, change) in &writes[number as usize] {
            made = made.write(KEYS[*key], *change);
            if shape.scans && rng.random_bool(0.1) {
                let (cts, is_there) = look(rng, 0);
                let seen = [(KEYS[0], cts)];
                made = made.scan("a", "a", if is_there && !own { &seen } else { &[] });
            }
        }
    }
    maker.history
}

fn lines(history: &TransactionHistory) -> String {
    let mut text = Vec::new();
    history.write(&mut text).expect("memory has room");
    String::from_utf8(text).expect("JSON")
}

/// Compares the verdicts on many random histories. Returns the number of serializable histories, of
/// others, and of histories that the checker accepts only because it left reads undecided.
fn compare(shape: Shape, seeds: std::ops::Range<u64>) -> (u64, u64, u64) {
    let (mut good, mut bad, mut open) = (0, 0, 0);
    for seed in seeds {
        let history = draw(&mut SmallRng::seed_from_u64(seed), shape);
        let options =
            latchwork_history::CheckOptions { is_strict: shape.times, ..Default::default() };
        let report = latchwork_history::check(&history, options);
        let truth = is_serializable(&history, shape.times);
        if report.undecided > 0 && report.is_serializable() && !truth {
            open += 1;
            continue;
        }
        assert_eq!(report.is_serializable(), truth, "seed {seed}: {report}\n{}", lines(&history));
        *if truth { &mut good } else { &mut bad } += 1;
    }
    println!("{good} serializable, {bad} not, {open} left open");
    (good, bad, open)
}

const HISTORIES: u64 = 6000;

fn agree(shape: Shape) {
    let (good, bad, open) = compare(shape, 0..HISTORIES);
    assert!(
        good > HISTORIES / 6 && bad > HISTORIES / 6,
        "the histories are all alike: {good}, {bad}"
    );
    let most = if shape.unknown { HISTORIES / 20 } else { 0 };
    assert!(open <= most, "{open} were left open");
}

#[test]
fn every_order_of_reads_and_writes() {
    agree(Shape { scans: false, deletes: false, unknown: false, times: false });
}

#[test]
fn every_order_with_deleted_rows() {
    agree(Shape { scans: false, deletes: true, unknown: false, times: false });
}

#[test]
fn every_order_with_scans() {
    agree(Shape { scans: true, deletes: false, unknown: false, times: false });
}

#[test]
fn every_order_with_scans_and_deleted_rows() {
    agree(Shape { scans: true, deletes: true, unknown: false, times: false });
}

#[test]
fn every_order_with_unknown_outcomes() {
    agree(Shape { scans: true, deletes: true, unknown: true, times: false });
}

#[test]
fn every_order_that_real_time_permits() {
    agree(Shape { scans: true, deletes: true, unknown: false, times: true });
}

#[test]
fn every_order_that_real_time_permits_with_unknown_outcomes() {
    agree(Shape { scans: true, deletes: true, unknown: true, times: true });
}

/// The verdict of `adya`. The history goes to `adya` as lists. A last transaction reads all lists,
/// so that `adya` knows the order of all versions.
fn adya(history: &TransactionHistory, model: &str) -> bool {
    let mut history = history.clone();
    let mut last: BTreeMap<Box<[u8]>, u64> = BTreeMap::new();
    for transaction in &history.transactions {
        for operation in &transaction.operations {
            if let RecordedOperation::Write { key, .. } = operation {
                let cts = last.entry(key.clone()).or_default();
                *cts = transaction.outcome.cts().max(*cts);
            }
        }
    }
    let read = |(key, version)| RecordedOperation::Read { table: 1, key, version, hash: None };
    history.transactions.push(RecordedTransaction {
        id: Default::default(),
        begin: 2000,
        end: 3000,
        outcome: TransactionOutcome::Committed { cts: 0 },
        operations: last.into_iter().map(read).collect(),
    });
    verdict(&history, ElleModel::ListAppend, model)
}

fn verdict(history: &TransactionHistory, model: ElleModel, level: &str) -> bool {
    let mut text = Vec::new();
    write_edn(history, model, &mut text).expect("memory has room");
    let text = String::from_utf8(text).expect("text");
    let history = adya::History::from_edn(&text).expect("it reads what Jepsen writes");
    let options = adya::Opts { models: vec![level.to_owned()], ..Default::default() };
    let workload = match model {
        ElleModel::RwRegister => adya::Workload::RwRegister,
        ElleModel::ListAppend => adya::Workload::ListAppend,
    };
    let report = adya::check(&history, workload, &options);
    match report.valid {
        adya::Valid::True => true,
        adya::Valid::False => false,
        // Without any dependency `adya` gives no result.
        adya::Valid::Unknown => {
            assert_eq!(report.anomaly_types, ["empty-transaction-graph"], "{text}");
            true
        }
    }
}

/// The export leaves out parts of the recording. So `adya` may accept a bad history, and must not
/// refuse a good one.
#[test]
fn no_export_makes_a_good_history_bad() {
    let mut caught = [0, 0];
    for seed in 0..HISTORIES {
        let shape = Shape { scans: true, deletes: true, unknown: true, times: true };
        let history = draw(&mut SmallRng::seed_from_u64(seed ^ 0xe11e), shape);
        let options = latchwork_history::CheckOptions { is_strict: true, ..Default::default() };
        let report = latchwork_history::check(&history, options);
        for (caught, model) in caught.iter_mut().zip([ElleModel::RwRegister, ElleModel::ListAppend])
        {
            let other = verdict(&history, model, "strict-serializable");
            assert!(other || !report.is_serializable(), "seed {seed}: {}", lines(&history));
            *caught += u64::from(!other);
        }
    }
    assert!(caught.iter().all(|caught| *caught > HISTORIES / 20), "it finds nothing: {caught:?}");
}

/// Random histories with extreme numbers, of any shape that a readable file can have: no check
/// panics.
#[test]
fn no_history_is_too_strange() {
    use latchwork_history::{Scan, SeenKey};
    let mut found = 0;
    for seed in 0..20_000 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let number = |rng: &mut SmallRng| match rng.random_range(0..8) {
            0 => 0,
            1 => u64::MAX,
            2 => u64::MAX - 1,
            _ => rng.random_range(0..6),
        };
        let key = |rng: &mut SmallRng| -> Box<[u8]> {
            KEYS[rng.random_range(0..KEYS.len())].as_bytes()[rng.random_range(0..2)..].into()
        };
        let bound = |rng: &mut SmallRng| match rng.random_range(0..3) {
            0 => Bound::Unbounded,
            1 => Bound::Included(key(rng)),
            _ => Bound::Excluded(key(rng)),
        };
        let mut history = TransactionHistory { base: number(rng) % 4, ..Default::default() };
        for _ in 0..rng.random_range(0..8) {
            let cts = number(rng);
            let outcome = match rng.random_range(0..5) {
                0 => TransactionOutcome::Aborted { cts },
                1 => TransactionOutcome::Unknown { cts },
                _ => TransactionOutcome::Committed { cts },
            };
            let (begin, end) = (number(rng), number(rng));
            let operations = (0..rng.random_range(0..5)).map(|_| {
                let (table, key) = (rng.random_range(0..2), key(rng));
                match rng.random_range(0..5) {
                    0 => RecordedOperation::Write { table, key, change: RecordedChange::Delete },
                    1 => RecordedOperation::Write {
                        table,
                        key,
                        change: RecordedChange::Value(number(rng)),
                    },
                    2 => {
                        let hash = Some(number(rng)).filter(|_| rng.random());
                        RecordedOperation::Read { table, key, version: number(rng), hash }
                    }
                    _ => {
                        let seen = (0..rng.random_range(0..4)).map(|_| SeenKey {
                            key: KEYS[rng.random_range(0..KEYS.len())].as_bytes().into(),
                            version: Some(number(rng)).filter(|_| rng.random()),
                        });
                        let seen = seen.collect();
                        let direction = if rng.random() { Direction::Up } else { Direction::Down };
                        let (from, to) = (bound(rng), bound(rng));
                        let stopped = Some(key).filter(|_| rng.random());
                        RecordedOperation::Scan(Scan { table, from, to, direction, stopped, seen })
                    }
                }
            });
            let operations = operations.collect();
            let id = Default::default();
            let (begin, end) = (begin.min(end), begin.max(end));
            history.transactions.push(RecordedTransaction { id, begin, end, outcome, operations });
        }
        for is_strict in [false, true] {
            let options = latchwork_history::CheckOptions { is_strict, ..Default::default() };
            let report = latchwork_history::check(&history, options);
            assert_eq!(report.is_serializable(), report.violations.is_empty(), "{report}");
            found += u64::from(!report.is_serializable());
        }
        for model in [ElleModel::RwRegister, ElleModel::ListAppend] {
            write_edn(&history, model, &mut Vec::new()).expect("memory has room");
        }
    }
    assert!(found > 10_000, "{found}");
}

fn agree_with_adya(is_strict: bool) {
    let (mut good, mut bad) = (0, 0);
    for seed in 0..HISTORIES {
        let shape = Shape { scans: false, deletes: false, unknown: false, times: is_strict };
        let history = draw(&mut SmallRng::seed_from_u64(seed ^ 0xad7a), shape);
        let options = latchwork_history::CheckOptions { is_strict, ..Default::default() };
        let report = latchwork_history::check(&history, options);
        let model = if is_strict { "strict-serializable" } else { "serializable" };
        let other = adya(&history, model);
        assert_eq!(report.is_serializable(), other, "seed {seed}: {report}\n{}", lines(&history));
        *if other { &mut good } else { &mut bad } += 1;
    }
    assert!(good > HISTORIES / 6 && bad > HISTORIES / 6, "all alike: {good}, {bad}");
}

#[test]
fn adya_says_the_same() {
    agree_with_adya(false);
}

#[test]
fn adya_says_the_same_of_real_time() {
    agree_with_adya(true);
}
