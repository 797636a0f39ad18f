//! Checkpoints that are interrupted.

use std::sync::Arc;

use latchwork_wal::storage::torn::StorageOperation;
use latchwork_wal::storage::{Storage, Torn};
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

/// Bug: a checkpoint without room for its manifest left its parts, and the file in which the next
/// manifest begins. So no later checkpoint of the same process succeeded.
#[test]
fn one_without_room_leaves_nothing_and_the_next_one_succeeds() {
    let names = |torn: &Torn| torn.list().expect("the power is on");
    for bytes in (0..600).step_by(3) {
        let torn = Torn::new(bytes);
        let directory = open(&torn).expect("empty");
        write(&directory, 1).expect("in place");
        let before = names(&torn);
        torn.set_capacity(bytes);
        if let Err(error) = write(&directory, 2) {
            assert!(matches!(error, WalError::Full { .. }) && !error.is_final(), "{error}");
            assert_eq!(names(&torn), before, "room for {bytes} bytes");
        }
        torn.set_capacity(u64::MAX);
        write(&directory, 3).unwrap_or_else(|error| panic!("{bytes}: {error}"));
        drop(directory);
        assert_eq!(found(&torn.crash(1)).expect("whole"), [3]);
    }
}

/// A sync of the directory that failed may have lost the name of a segment that a log has just
/// begun. The next sync succeeds all the same, so it proves nothing.
#[test]
fn a_failed_sync_of_the_directory_ends_checkpoints_and_logs() {
    for after in 0..2 {
        let torn = Torn::new(after);
        let directory = open(&torn).expect("empty");
        let log = start(&directory, LogSettings::default());
        run(async |handle| {
            commit(&log, &handle, 1..=3, 100).await;
            torn.fail(StorageOperation::SyncDirectory, after);
            for number in [4, 5] {
                let error = write(&directory, number).expect_err("its names may be lost");
                assert!(error.is_final(), "{error}");
                assert!(error.to_string().starts_with("memory: syncing failed: "), "{error}");
            }
            commit(&log, &handle, 6..=6, 100).await;
            assert!(log.trouble().is_none(), "its segment has its name");
            let error = log.rotate(&handle, soon(&handle)).await.expect_err("not its next one");
            assert!(error.is_final(), "{error}");
            assert!(log.trouble().is_some_and(|trouble| trouble.is_final()));
        });
    }
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
