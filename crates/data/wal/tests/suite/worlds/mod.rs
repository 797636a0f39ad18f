//! Worlds in which the power goes off. There are thousands of short histories of commits, rotations
//! and checkpoints on storage that loses unsynced data, each with several lives. After every crash
//! the test checks that everything acknowledged is there, nothing is there that was not appended,
//! and everything is whole.

mod ledger;
mod life;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_simulation::Random;
use latchwork_wal::storage::Storage;
use latchwork_wal::storage::Torn;
use latchwork_wal::storage::torn::{Lie, StorageOperation};
use latchwork_wal::{CommitMode, DatabaseId, LogDirectory, Opening, WalError};

use ledger::{Fate, Ledger, Opened};
use life::Life;

const DATABASE: DatabaseId = DatabaseId(0xda7a);
const LIVES: u64 = 4;

/// The faults of a world.
#[derive(Clone, Copy, Default)]
struct Trouble {
    lie: Option<Lie>,
    /// Single operations fail, and the device fills up.
    faults: bool,
    /// See [`Life::careless`].
    careless: bool,
    /// Logs lose their ends other than by crashes.
    cuts: bool,
    /// Logs lose their last segments, and nothing else. See [`Life::settles`].
    last_segments: bool,
}

/// Counts over all worlds, so that a test can prove that it tested something.
#[derive(Debug, Default)]
struct Sum {
    lasting: usize,
    lost: usize,
    refused: usize,
    checkpoints: u32,
    crashes: u32,
    crashes_while_opening: u32,
    /// Cuts of a part that no other place knew of, cuts that were detected, and cuts that could not
    /// be accepted.
    silent: u32,
    noticed: u32,
    hopeless: u32,
}

const OPERATIONS: [StorageOperation; 7] = [
    StorageOperation::Create,
    StorageOperation::Append,
    StorageOperation::Sync,
    StorageOperation::Truncate,
    StorageOperation::Rename,
    StorageOperation::Remove,
    StorageOperation::SyncDirectory,
];

fn world(mode: CommitMode, seed: u64, trouble: Trouble, sum: &mut Sum) -> Result<(), String> {
    let mut random = Random::new(seed);
    let mut torn = Torn::new(seed);
    if let Some(lie) = trouble.lie {
        torn.lie(lie);
    }
    let ledger = Rc::new(RefCell::new(Ledger::default()));
    let (mut cut, mut clean, mut accept) = (false, false, false);
    for life in 0..=LIVES {
        // An opening may be interrupted again and again, like any other operation.
        let directory = loop {
            let interrupted = random.below(3) == 0;
            if interrupted {
                torn.power_off_after(random.below(12));
            }
            let opening = Opening { accept_loss: accept, ..Opening::default() };
            let opened = LogDirectory::open_as(Arc::new(torn.clone()), DATABASE, opening);
            if torn.is_on() {
                torn.power_off_after(u64::MAX / 2);
                match opened {
                    Err(WalError::LostBelowCheckpoint { .. })
                        if accept && !trouble.last_segments =>
                    {
                        sum.hopeless += 1;
                        return Ok(());
                    }
                    Err(
                        WalError::Lost { .. } | WalError::Damaged { .. } | WalError::Missing { .. },
                    ) if (cut || trouble.last_segments) && !accept => {
                        // A lost segment keeps its number. If the checkpoint covered it, the loss
                        // is noticed only when a crash leaves its successor without a header.
                        sum.noticed += 1;
                        accept = true;
                        continue;
                    }
                    opened => break opened.map_err(|e| format!("life {life}: {e}"))?,
                }
            }
            sum.crashes_while_opening += 1;
            torn = end(&torn, &mut random, sum);
        };
        let replayed = match directory.replay(1) {
            // The damage is in a segment that is not the last.
            Err(WalError::Damaged { .. }) if cut && !accept => {
                sum.noticed += 1;
                return Ok(());
            }
            replayed => replayed.map_err(|e| format!("life {life}: {e}"))?,
        };
        let opened = match (cut, accept) {
            (true, true) => {
                Opened::Accepted(directory.losses().iter().map(|loss| loss.node).collect())
            }
            (true, false) => {
                sum.silent += 1;
                Opened::Cut { clean }
            }
            (false, _) => Opened::Whole,
        };
        let judged = ledger.borrow_mut().judge(&directory, &replayed, &opened);
        let tables = judged.map_err(|e| format!("life {life}: {e}"))?;
        if life == LIVES {
            break;
        }
        let mut new = Life::new(mode, torn.clone(), ledger.clone(), tables, replayed.highest);
        if let Some(new) = Rc::get_mut(&mut new) {
            (new.careless, new.settles) = (trouble.careless, trouble.last_segments);
        }
        torn.power_off_after(random.below(600));
        if trouble.faults && random.below(2) == 0 {
            torn.fail(OPERATIONS[random.below(7) as usize], random.below(40));
        }
        if trouble.faults && random.below(4) == 0 {
            torn.set_capacity(random.below(30_000));
        }
        new.run(&directory, random.draw()).map_err(|e| format!("life {life}: {e}"))?;
        sum.checkpoints += new.checkpoints.get();
        clean = new.clean.get();
        torn = end(&torn, &mut random, sum);
        torn.set_capacity(u64::MAX);
        cut = trouble.cuts && cut_something(&torn, &mut random)
            || trouble.last_segments && new.begun.get() && remove_last_segments(&torn, &mut random);
        accept = false;
    }
    for record in ledger.borrow().records.values() {
        match record.fate {
            Fate::Lasting => sum.lasting += 1,
            Fate::Refused => sum.refused += 1,
            Fate::Lost | Fate::Unknown => sum.lost += 1,
        }
    }
    Ok(())
}

/// Removes the last segment of one log or of all; returns whether there was one.
fn remove_last_segments(torn: &Torn, random: &mut Random) -> bool {
    let only = random.below(1 + u64::from(life::NODES));
    let mut removed = false;
    for node in (0..u64::from(life::NODES)).filter(|node| *node != only) {
        if let Some(last) = segments_of(torn, node).last() {
            torn.remove(last).expect("there");
            removed = true;
        }
    }
    torn.sync_directory().expect("synced");
    removed
}

fn segments_of(torn: &Torn, node: u64) -> Vec<String> {
    let mut names = torn.list().expect("the power is on");
    names.retain(|name| name.starts_with(&format!("{node:02}-")) && name.ends_with(".log"));
    names
}

/// Cuts the end off a log; returns whether there was one.
fn cut_something(torn: &Torn, random: &mut Random) -> bool {
    let segments = segments_of(torn, random.below(u64::from(life::NODES)));
    let Some(last) = segments.last() else { return false };
    let length = |name: &String| torn.open(name).and_then(|file| file.length()).expect("there");
    match random.below(4) {
        0 => {
            let gone = 1 + random.below(segments.len() as u64) as usize;
            for name in segments.iter().rev().take(gone) {
                torn.remove(name).expect("there");
            }
            torn.sync_directory().expect("synced");
        }
        1 => {
            let name = &segments[random.below(segments.len() as u64) as usize];
            torn.cut(name, random.below(length(name).max(1)));
        }
        _ => {
            // Only a few bytes of it.
            let length = length(last);
            torn.cut(last, length.saturating_sub(1 + random.below(1 + length.min(600))));
        }
    }
    true
}

/// The power goes off, or only the process ends.
fn end(torn: &Torn, random: &mut Random, sum: &mut Sum) -> Torn {
    sum.crashes += 1;
    if random.below(4) == 0 { torn.kill() } else { torn.crash(random.draw()) }
}

fn worlds(mode: CommitMode, seeds: Range<u64>, trouble: Trouble) -> Sum {
    let mut sum = Sum::default();
    for seed in seeds.clone() {
        if let Err(wrong) = world(mode, seed, trouble, &mut sum) {
            panic!("{mode}, seed {seed}: {wrong}");
        }
    }
    println!("{mode}: {} worlds, {sum:?}", seeds.count());
    sum
}

/// The violations found, with digits left out, and the count of worlds that had each.
fn complaints(mode: CommitMode, seeds: u64, trouble: Trouble) -> BTreeMap<String, u64> {
    let mut complaints = BTreeMap::new();
    for seed in 0..seeds {
        if let Err(wrong) = world(mode, seed, trouble, &mut Sum::default()) {
            let kind = wrong.chars().filter(|c| !c.is_ascii_digit()).take(60).collect();
            *complaints.entry(kind).or_default() += 1;
        }
    }
    println!("{mode}, {:?}: {complaints:#?}", trouble.lie);
    complaints
}

#[test]
fn crashes_lose_nothing_that_was_acknowledged() {
    for mode in CommitMode::ALL {
        let sum = worlds(mode, 0..700, Trouble::default());
        assert!(sum.lasting > 10_000 && sum.lost > 500 && sum.checkpoints > 200, "{sum:?}");
        assert!(sum.crashes_while_opening > 200 && sum.refused == 0, "{sum:?}");
    }
}

#[test]
fn failing_operations_and_a_full_device_lose_nothing_that_was_acknowledged() {
    for mode in CommitMode::ALL {
        let sum = worlds(mode, 0..700, Trouble { faults: true, ..Trouble::default() });
        assert!(sum.lasting > 10_000 && sum.lost > 500, "{sum:?}");
        // A commit that is acknowledged before it is durable cannot be refused any more.
        assert_eq!(sum.refused > 100, mode == CommitMode::Sync, "{sum:?}");
    }
}

/// Regression: a log that had lost its end was taken for a log that ended there. So the logs of two
/// nodes came to a state that never existed. Fix: each log and the witness state the ends of the
/// other logs. Here a loss is an error unless no other place can know of it. After an accepted loss
/// the state is consistent.
#[test]
fn a_log_that_loses_its_end_is_noticed_and_what_is_accepted_is_a_state_that_was() {
    for mode in CommitMode::ALL {
        let sum = worlds(mode, 0..700, Trouble { cuts: true, ..Trouble::default() });
        assert!(sum.noticed > 500 && sum.silent > 100, "{sum:?}");
        assert!(sum.hopeless * 2 < sum.noticed, "{sum:?}");
    }
}

/// Regression: a checkpoint needed what was durable when it was put in place. That could stand in a
/// last segment, or behind a mark that had seen it, so a lost last segment left no state.
#[test]
fn logs_that_lose_only_their_last_segments_leave_a_state() {
    for mode in CommitMode::ALL {
        let sum = worlds(mode, 0..700, Trouble { last_segments: true, ..Trouble::default() });
        assert!(sum.noticed > 300 && sum.checkpoints > 200, "{sum:?}");
    }
}

/// The check finds a log that does not sync where it must.
#[test]
fn a_device_that_lies_is_found_out() {
    let lies = [
        Lie::Sync(".log"),
        Lie::Sync(".log.new"),
        Lie::Sync(".part"),
        Lie::Sync("CHECKPOINT.new"),
        Lie::SyncDirectory,
    ];
    for lie in lies {
        let found =
            complaints(CommitMode::Sync, 200, Trouble { lie: Some(lie), ..Trouble::default() });
        assert!(!found.is_empty(), "{lie:?} made no difference");
    }
}

/// A checkpoint contains writes that are not durable yet, so half of a commit is back after a
/// crash. The check must find this.
#[test]
fn a_checkpoint_that_does_not_wait_for_the_logs_is_found_out() {
    let trouble = Trouble { careless: true, ..Trouble::default() };
    assert!(!complaints(CommitMode::Async, 300, trouble).is_empty());
}

/// `WORLDS=1000..100000 cargo test --release -p latchwork-wal --test suite worlds:: -- --ignored
/// --nocapture`
#[test]
#[ignore = "as many worlds as WORLDS says"]
fn more_worlds() {
    let given = std::env::var("WORLDS").unwrap_or_else(|_| "1000..10000".to_owned());
    let (from, to) = given.split_once("..").expect("seeds from..to");
    let (from, to) = (from.parse().expect("a seed"), to.parse().expect("a seed"));
    for mode in CommitMode::ALL {
        for faults in [false, true] {
            worlds(mode, from..to, Trouble { faults, ..Trouble::default() });
        }
        worlds(mode, from..to, Trouble { cuts: true, ..Trouble::default() });
    }
}
