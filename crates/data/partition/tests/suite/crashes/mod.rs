//! Databases over partitions that crash again and again, and recover from the logs and checkpoints
//! that a torn device leaves. An acknowledged transaction is there on all nodes. Any other
//! transaction is there on all nodes or on none, and later restarts do not change that.

// The conditions are those of transactions on shared memory.
#[path = "../../../../txn/tests/suite/crashes/judge.rs"]
mod judge;
mod life;

use latchwork_txn::Scheme;
use latchwork_wal::CommitMode;
use latchwork_wal::storage::Torn;

use judge::Judge;
use life::{Life, Tally};

/// Several lives on one device. Each life has its own number of nodes, among which the same parts
/// are distributed.
fn world(seed: u64, scheme: Scheme, mode: CommitMode) -> (Judge, Tally) {
    let mut device = Torn::new(seed);
    let (mut judge, mut tally) = (Judge::new(mode), Tally::default());
    for number in 0..4 {
        let nodes = [3, 2, 3, 1][(seed + number) as usize % 4];
        let life = Life { seed: seed * 10 + number, scheme, mode, nodes };
        device = life.run(&device, &mut judge, &mut tally);
    }
    (judge, tally)
}

/// Runs all worlds. Returns the transactions that were acknowledged, that were unknown when the
/// power went off, and that a full device refused.
fn worlds(seeds: std::ops::Range<u64>) -> (usize, usize, usize, Tally) {
    let (mut acknowledged, mut unknown, mut refused, mut all) = (0, 0, 0, Tally::default());
    for seed in seeds {
        let mode = if seed % 4 == 3 { CommitMode::Async } else { CommitMode::Sync };
        let (judge, tally) = world(seed, Scheme::ALL[seed as usize % 3], mode);
        acknowledged += judge.acknowledged;
        unknown += judge.unknown;
        all.committed += tally.committed;
        all.aborted += tally.aborted;
        refused += judge.refused;
        all.checkpoints += judge.checkpoints;
        all.removed += judge.removed;
    }
    (acknowledged, unknown, refused, all)
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_is_there_by_halves_after_any_of_many_crashes() {
    let (acknowledged, unknown, refused, tally) = worlds(0..40);
    // Without such cases at the crashes the test would show little.
    assert!(acknowledged > 1000 && unknown > 60, "{acknowledged} and {unknown}");
    // Records of transactions over several nodes that recovery found.
    assert!(tally.committed > 200 && tally.aborted > 20, "{tally:?}");
    assert!(tally.checkpoints > 20 && tally.removed > 20, "{tally:?}");
    assert!(refused > 5, "{refused} were refused by devices that were full");
}

/// More of them: `WORLDS=1000..2000 cargo test --release -p latchwork-partition --test suite
/// crashes:: -- --ignored`.
#[test]
#[ignore = "a long hunt"]
fn more_crashes() {
    let range = std::env::var("WORLDS").unwrap_or_else(|_| "100..1100".into());
    let (from, to) = range.split_once("..").expect("WORLDS=FROM..TO");
    let range = from.parse().expect("a number")..to.parse().expect("a number");
    println!("{:?} acknowledged, unknown, refused, and records", worlds(range));
}
