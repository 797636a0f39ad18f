//! Checkpoints that are interrupted.

use std::sync::Arc;

use latchwork_wal::storage::Torn;
use latchwork_wal::storage::torn::StorageOperation;
use latchwork_wal::{CheckpointWriter, LogDirectory, LogEntry, LogSettings, WalError};

use crate::common::{NODE, TABLE, at, commit, counters, open, run, soon, start};

/// Writes a checkpoint of one key, which is the number of the checkpoint.
fn write(directory: &Arc<LogDirectory>, number: u64) -> Result<(), WalError> {
    let writer = CheckpointWriter::begin(directory, at(number), [])?;
    let mut part = writer.part()?;
    let (key, value) = (&number.to_be_bytes()[..], Some(&[0][..]));
    part.put(LogEntry { timestamp: at(number), table: TABLE, key, value })?;
    part.finish()?;
    writer.publish()
}

fn found(torn: &Torn) -> Result<Vec<u64>, WalError> {
    Ok(counters(&open(torn)?.replay(1)?))
}

/// Writes one checkpoint, and a second one that `trouble` interrupts.
fn interrupted(seed: u64, trouble: impl Fn(&Torn)) -> (Torn, bool) {
    let torn = Torn::new(seed);
    let directory = open(&torn).expect("empty");
    write(&directory, 1).expect("in place");
    trouble(&torn);
    let second = write(&directory, 2);
    (torn, second.is_ok())
}

#[test]
fn it_is_the_old_one_or_the_new_one_wherever_the_power_goes_off() {
    let (mut old, mut new) = (0, 0);
    for seed in 0..400 {
        let (torn, done) = interrupted(seed, |torn| torn.power_off_after(seed % 11));
        let found = found(&torn.crash(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(found == [2] || found == [1] && !done, "seed {seed}: {found:?}");
        (old, new) = (old + u32::from(found == [1]), new + u32::from(found == [2]));
    }
    assert!(old > 50 && new > 50, "{old} old, {new} new");
}

/// Regression. A process was killed after it renamed a checkpoint into place and before the name
/// was durable. The next process saw the new checkpoint, removed the parts of the old one, and the
/// power went off before the new name was durable. So the old manifest was back, without its parts.
/// Fix: the files of the old checkpoint are removed last.
#[test]
fn a_restart_keeps_the_old_one_until_the_new_one_is_durable() {
    for seed in 0..400 {
        // In the middle of the last sync of the checkpoint.
        let (torn, done) = interrupted(seed, |torn| torn.power_off_after(9));
        assert!(!done, "the power was off before its end");
        let torn = torn.kill();
        torn.power_off_after(seed % 8);
        let opened = open(&torn).is_ok();
        let found = found(&torn.crash(seed)).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(found == [2] || found == [1] && !opened, "seed {seed}: {found:?}");
    }
}

/// A failed sync of the directory proves nothing: a restart puts the checkpoint that it reads in
/// place once more, before it removes the previous one.
#[test]
fn what_a_restart_finds_is_durable_although_its_sync_failed() {
    for seed in 0..100 {
        let (torn, done) = interrupted(seed, |torn| torn.fail(StorageOperation::SyncDirectory, 1));
        assert!(!done, "it was told to fail");
        let torn = torn.kill();
        assert_eq!(found(&torn).expect("whole"), [2]);
        assert_eq!(found(&torn.crash(seed)).expect("whole"), [2], "seed {seed}");
    }
}

#[test]
fn a_full_device_leaves_the_one_before() {
    let mut refused = 0;
    for bytes in (0..600).step_by(3) {
        let (torn, done) = interrupted(1, |torn| torn.set_capacity(bytes));
        assert!(done || bytes < 500, "room for {bytes} bytes");
        refused += u32::from(!done);
        let torn = torn.crash(1);
        torn.set_capacity(u64::MAX);
        assert_eq!(found(&torn).expect("whole"), [1 + u64::from(done)]);
    }
    assert!(refused > 50, "{refused}");
}

/// The manifest states the first needed segment of each log, and opening detects a missing one.
#[test]
fn the_segment_that_a_checkpoint_names_stays_even_when_it_is_empty() {
    let torn = Torn::new(1);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, LogSettings::default());
    let number = run(async |handle| {
        commit(&log, &handle, 1..=3, 100).await;
        let number = log.rotate(&handle, soon(&handle)).await.expect("rotated");
        log.close(&handle, soon(&handle)).await.expect("closed");
        number
    });
    let writer = CheckpointWriter::begin(&directory, at(5), [(NODE, number)]).expect("begun");
    writer.publish().expect("in place");
    assert_eq!(directory.remove_through(NODE, at(5)).expect("removed"), 1);
    drop((log, directory));
    assert!(found(&torn.crash(1)).expect("whole").is_empty());
}
