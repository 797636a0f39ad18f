//! A database whose memory is gone again and again, with the logs and checkpoints that a torn device leaves: what was
//! acknowledged is there, what was not is there whole or not at all, and stays so.

mod judge;
mod life;

use latchwork_txn::Scheme;
use latchwork_wal::Mode;
use latchwork_wal::storage::Torn;

use judge::Judge;
use life::Life;

/// Several lives on one device.
fn world(seed: u64, scheme: Scheme, mode: Mode) -> Judge {
    let mut device = Torn::new(seed);
    let mut judge = Judge::new(mode);
    for number in 0..4 {
        let life = Life { seed: seed * 10 + number, scheme, mode, nodes: 1 + (seed as usize % 3) };
        device = life.run(&device, &mut judge);
    }
    judge
}

fn worlds(seeds: std::ops::Range<u64>) -> (usize, usize, usize) {
    let (mut acknowledged, mut unknown, mut refused) = (0, 0, 0);
    for seed in seeds {
        let mode = if seed % 4 == 3 { Mode::Async } else { Mode::Sync };
        let judge = world(seed, Scheme::ALL[seed as usize % 3], mode);
        acknowledged += judge.acknowledged;
        unknown += judge.unknown;
        refused += judge.refused;
    }
    (acknowledged, unknown, refused)
}

#[test]
fn nothing_acknowledged_is_lost_in_any_of_many_crashes() {
    let (acknowledged, unknown, refused) = worlds(0..40);
    // What would make the test worth little: nothing at stake at the crashes.
    assert!(acknowledged > 1500 && unknown > 60, "{acknowledged} and {unknown}");
    assert!(refused > 12, "{refused} were refused by devices that were full");
}

/// More of them: `WORLDS=1000..2000 cargo test --release -p latchwork-txn --test crashes -- --ignored`.
#[test]
#[ignore = "a long hunt"]
fn more_crashes() {
    let range = std::env::var("WORLDS").unwrap_or_else(|_| "100..1100".into());
    let (from, to) = range.split_once("..").expect("WORLDS=FROM..TO");
    let range = from.parse().expect("a number")..to.parse().expect("a number");
    println!("{:?} acknowledged, unknown, refused", worlds(range));
}
