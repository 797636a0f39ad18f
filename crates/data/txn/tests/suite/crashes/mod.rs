//! A database whose memory is lost again and again, with the logs and checkpoints that a torn
//! device leaves. After each restart, acknowledged commits are there. Each other commit is there as
//! a whole or not at all, and later restarts do not change that.

mod early;
mod habits;
mod judge;
mod life;
mod rows;
mod scenarios;
mod stage;
mod work;

use latchwork_txn::Scheme;
use latchwork_wal::CommitMode;
use latchwork_wal::storage::Torn;

use habits::Habits;
use judge::Judge;
use life::Life;

const LIVES: u64 = 4;

/// Several lives on one device.
fn world(seed: u64) -> Judge {
    let scheme = Scheme::ALL[seed as usize % 3];
    let mode = if seed % 4 == 3 { CommitMode::Async } else { CommitMode::Sync };
    let mut device = Torn::new(seed);
    let mut judge = Judge::new(mode);
    for number in 0..LIVES {
        device = Life::run(Habits::draw(seed, number, scheme, mode), &device, &mut judge);
    }
    judge
}

/// The numbers of events that make the test meaningful.
#[derive(Default, Debug)]
struct Stakes {
    acknowledged: usize,
    unknown: usize,
    refused: usize,
    checkpoints: usize,
    /// Rows that other transactions read before their writers were acknowledged.
    told: usize,
    /// Segments of logs that checkpoints made unnecessary.
    removed: usize,
}

fn worlds(seeds: std::ops::Range<u64>) -> Stakes {
    let mut stakes = Stakes::default();
    for seed in seeds {
        let judge = world(seed);
        stakes.acknowledged += judge.acknowledged;
        stakes.unknown += judge.unknown;
        stakes.refused += judge.refused;
        stakes.checkpoints += judge.checkpoints;
        stakes.removed += judge.removed;
        stakes.told += judge.told;
    }
    stakes
}

#[test]
fn nothing_acknowledged_is_lost_in_any_of_many_crashes() {
    let stakes = worlds(0..48);
    println!("{stakes:?}");
    // The test is worth little if nothing was at stake at the crashes.
    assert!(stakes.acknowledged > 1500 && stakes.unknown > 60, "{stakes:?}");
    assert!(stakes.refused > 12 && stakes.checkpoints > 100, "{stakes:?}");
    assert!(stakes.removed > stakes.checkpoints, "{stakes:?}");
}

/// More worlds: `WORLDS=1000..2000 cargo test --release -p latchwork-txn --test suite crashes:: --
/// --ignored`.
#[test]
#[ignore = "a long hunt"]
fn more_crashes() {
    let range = std::env::var("WORLDS").unwrap_or_else(|_| "100..1100".into());
    let (from, to) = range.split_once("..").expect("WORLDS=FROM..TO");
    let range = from.parse().expect("a number")..to.parse().expect("a number");
    println!("{:?}", worlds(range));
}
