//! Histories of small stores. Transactions take their steps in random turns. The checker accepts a
//! store with two-phase locking, and detects snapshot isolation and weaker locking.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use latchwork_history::{
    CheckOptions, Class, Direction, HistoryReport, Record, RecordedChange, Recorder, Recording,
    TransactionHistory, TransactionOutcome, check,
};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

/// The isolation of transactions.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Scheme {
    /// Transactions run one after another.
    Serial,
    /// Two-phase locking: reads and writes lock, without waiting. A scan locks all keys of its
    /// range, including missing keys.
    Locks,
    /// As `Locks`, but a scan locks only the keys that it finds.
    LocksOfRowsOnly,
    /// As `Locks`, but reads release their locks at once.
    ShortReadLocks,
    /// Snapshot isolation: a transaction reads the state at its begin. Of two concurrent writers of
    /// a key, the first to commit wins.
    Snapshots,
    /// Each operation sees the latest committed state, and a commit checks nothing.
    ReadCommitted,
}

const KEYS: u8 = 8;
const WORKERS: usize = 4;

/// All versions of each key: the timestamp, and whether the key exists in this version.
type Store = BTreeMap<u8, Vec<(u64, bool)>>;

#[derive(Default)]
struct Locks {
    readers: BTreeMap<u8, BTreeSet<usize>>,
    writers: BTreeMap<u8, usize>,
}

impl Locks {
    fn read(&mut self, key: u8, who: usize) -> bool {
        let is_free = self.writers.get(&key).is_none_or(|writer| *writer == who);
        if is_free {
            self.readers.entry(key).or_default().insert(who);
        }
        is_free
    }

    fn write(&mut self, key: u8, who: usize) -> bool {
        let is_free = self.read(key, who) && self.readers[&key].len() == 1;
        if is_free {
            self.writers.insert(key, who);
        }
        is_free
    }

    fn release(&mut self, who: usize) {
        self.readers.values_mut().for_each(|readers| {
            readers.remove(&who);
        });
        self.writers.retain(|_, writer| *writer != who);
    }
}

/// A running transaction.
struct Running {
    record: Record,
    snapshot: u64,
    steps: usize,
    writes: BTreeMap<u8, bool>,
}

struct World {
    scheme: Scheme,
    rng: SmallRng,
    store: Store,
    locks: Locks,
    clock: u64,
    now: u64,
    recorder: Recorder,
}

impl World {
    /// The version of a key that a transaction sees.
    fn look(&self, key: u8, running: &Running) -> (u64, bool) {
        let until = if self.scheme == Scheme::Snapshots { running.snapshot } else { u64::MAX };
        let versions = self.store.get(&key).map_or(&[][..], |versions| versions);
        versions.iter().rev().find(|(cts, _)| *cts <= until).copied().unwrap_or((0, false))
    }

    /// One step of a transaction; false if the transaction must abort.
    fn step(&mut self, who: usize, running: &mut Running) -> bool {
        let locks = !matches!(self.scheme, Scheme::Snapshots | Scheme::ReadCommitted);
        let key = self.rng.random_range(0..KEYS);
        match self.rng.random_range(0..4) {
            0 => {
                let last = self.rng.random_range(key..KEYS);
                let (from, to) = ([key], [last]);
                let bounds = (Bound::Included(&from[..]), Bound::Included(&to[..]));
                let direction = if self.rng.random() { Direction::Up } else { Direction::Down };
                let limit = self.rng.random_range(1..4usize);
                let scan = running.record.scan(1, bounds.0, bounds.1, direction);
                let keys: Vec<u8> = match direction {
                    Direction::Up => (key..=last).collect(),
                    Direction::Down => (key..=last).rev().collect(),
                };
                let mut count = 0;
                for key in keys {
                    let (cts, is_there) = self.look(key, running);
                    let is_locked = is_there || self.scheme != Scheme::LocksOfRowsOnly;
                    if locks && is_locked && !self.locks.read(key, who) {
                        return false;
                    }
                    if let Some(is_put) = running.writes.get(&key) {
                        count += usize::from(*is_put);
                    } else if is_there {
                        // Some keys have a version, like rows. Others have none, like index
                        // entries.
                        let version = Some(cts).filter(|_| key % 4 > 0);
                        running.record.saw(scan, &[key], version);
                        count += 1;
                    }
                    if count == limit {
                        running.record.stopped(scan, &[key]);
                        break;
                    }
                }
            }
            1 | 2 => {
                if locks && !self.locks.read(key, who) {
                    return false;
                }
                if !running.writes.contains_key(&key) {
                    let (cts, is_there) = self.look(key, running);
                    let is_purged = !is_there && self.rng.random();
                    running.record.read(1, &[key], if is_purged { 0 } else { cts });
                }
            }
            _ => {
                if locks && !self.locks.write(key, who) {
                    return false;
                }
                let is_put = self.rng.random_bool(0.6);
                running.writes.insert(key, is_put);
                running.record.write(
                    1,
                    &[key],
                    if is_put { RecordedChange::Put } else { RecordedChange::Delete },
                );
            }
        }
        if self.scheme == Scheme::ShortReadLocks {
            self.locks.readers.values_mut().for_each(|readers| {
                readers.remove(&who);
            });
            for key in running.writes.keys() {
                self.locks.readers.entry(*key).or_default().insert(who);
            }
        }
        true
    }

    fn end(&mut self, who: usize, running: Running, is_good: bool) {
        let changed = |key: &u8| {
            self.store.get(key).and_then(|versions| versions.last()).map_or(0, |version| version.0)
        };
        let is_first = self.scheme != Scheme::Snapshots
            || running.writes.keys().all(|key| changed(key) <= running.snapshot);
        let outcome = if is_good && is_first {
            self.clock += 1;
            for (key, is_put) in &running.writes {
                self.store.entry(*key).or_default().push((self.clock, *is_put));
            }
            // Sometimes the answer is lost, although the commit took effect.
            match self.rng.random_range(0..20) {
                0 => TransactionOutcome::Unknown { cts: self.clock },
                _ => TransactionOutcome::Committed { cts: self.clock },
            }
        } else {
            TransactionOutcome::Aborted { cts: 0 }
        };
        self.locks.release(who);
        self.now += 1;
        self.recorder.finish(running.record, outcome, self.now);
    }
}

fn run(scheme: Scheme, seed: u64, count: usize) -> TransactionHistory {
    let recording = Recording::memory(0);
    let mut world = World {
        scheme,
        rng: SmallRng::seed_from_u64(seed),
        store: Store::new(),
        locks: Locks::default(),
        clock: 0,
        now: 0,
        recorder: recording.recorder(),
    };
    let workers = if scheme == Scheme::Serial { 1 } else { WORKERS };
    let mut running: Vec<Option<Running>> = (0..workers).map(|_| None).collect();
    let mut started = 0;
    while started < count || running.iter().any(Option::is_some) {
        let who = world.rng.random_range(0..workers);
        world.now += 1;
        match running[who].take() {
            None if started < count => {
                started += 1;
                running[who] = Some(Running {
                    record: world.recorder.begin(0, who as u16, world.now),
                    snapshot: world.clock,
                    steps: world.rng.random_range(1..5),
                    writes: BTreeMap::new(),
                });
            }
            None => {}
            Some(one) if one.steps == 0 => world.end(who, one, true),
            Some(mut one) => {
                one.steps -= 1;
                if world.step(who, &mut one) {
                    running[who] = Some(one);
                } else {
                    world.end(who, one, false);
                }
            }
        }
    }
    recording.history()
}

fn judge(scheme: Scheme, seed: u64, is_strict: bool) -> HistoryReport {
    let history = run(scheme, seed, 60);
    let report = check(&history, CheckOptions { is_strict, ..CheckOptions::default() });
    assert!(report.committed > 10, "{scheme:?}, seed {seed}: nothing happens: {report}");
    report
}

#[test]
fn serial_histories_pass() {
    for seed in 0..1000 {
        let report = judge(Scheme::Serial, seed, true);
        assert!(report.is_serializable(), "seed {seed}: {report}");
    }
}

#[test]
fn histories_of_two_phase_locking_pass() {
    for seed in 0..3000 {
        let report = judge(Scheme::Locks, seed, true);
        assert!(report.is_serializable(), "seed {seed}: {report}");
    }
}

/// For each class, how many of 300 histories of a scheme have a violation of the class.
fn caught(scheme: Scheme) -> BTreeMap<Class, u64> {
    let mut classes = BTreeMap::new();
    for seed in 0..300 {
        let report = judge(scheme, seed, false);
        let found: BTreeSet<Class> = report.violations.iter().map(|one| one.class).collect();
        found.into_iter().for_each(|class| *classes.entry(class).or_default() += 1);
    }
    println!("{scheme:?}: {classes:?}");
    classes
}

#[test]
fn snapshots_are_caught_with_write_skew_and_phantoms_only() {
    let classes = caught(Scheme::Snapshots);
    assert!(classes.get(&Class::AntiDependency).is_some_and(|count| *count > 10), "{classes:?}");
    assert!(classes.get(&Class::Phantom).is_some_and(|count| *count > 10), "{classes:?}");
    let others =
        classes.keys().find(|class| !matches!(class, Class::AntiDependency | Class::Phantom));
    assert_eq!(others, None, "a snapshot has no such anomaly: {classes:?}");
}

#[test]
fn locks_of_rows_only_are_caught_with_phantoms_only() {
    let classes = caught(Scheme::LocksOfRowsOnly);
    assert!(classes.get(&Class::Phantom).is_some_and(|count| *count > 10), "{classes:?}");
    assert_eq!(classes.len(), 1, "{classes:?}");
}

#[test]
fn short_read_locks_and_none_are_caught() {
    for scheme in [Scheme::ShortReadLocks, Scheme::ReadCommitted] {
        let classes = caught(scheme);
        for class in [Class::LostUpdate, Class::ReadSkew, Class::AntiDependency] {
            assert!(classes.contains_key(&class), "{scheme:?} without {class}: {classes:?}");
        }
    }
}
