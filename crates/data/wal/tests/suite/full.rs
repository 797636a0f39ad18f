//! A full device at the opening of a directory. The directory can be read, and an opening to write
//! gets an error that says what to do.

use std::sync::Arc;

use latchwork_wal::storage::Torn;
use latchwork_wal::{CheckpointWriter, Log, LogDirectory, LogSettings, WalError};

use crate::common;
use crate::common::{DATABASE, NODE, at, commit, counters, group, open, run, start};
use crate::example::files;

fn open_to_read(torn: &Torn) -> Result<Arc<LogDirectory>, WalError> {
    LogDirectory::open_to_read(Arc::new(torn.clone()), DATABASE)
}

/// What a crash leaves in the middle of a flush batch.
fn torn(seed: u64) -> Torn {
    let torn = Torn::new(seed);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, LogSettings { segment_bytes: 2000, ..LogSettings::default() });
    run(async |handle| {
        commit(&log, &handle, 1..=20, 100).await;
        torn.power_off_after(seed % 2);
        let position = log.append(&group(21, 3000)).expect("taken");
        let ended = log.durable(&handle, &position, common::soon(&handle)).await;
        ended.expect_err("the power is off");
    });
    drop((log, directory));
    torn.crash(seed)
}

#[test]
fn an_opening_to_read_needs_no_room_and_sees_what_others_would() {
    let mut tails = 0;
    for seed in 0..60 {
        let torn = torn(seed);
        torn.set_capacity(0);
        let (before, operations) = (files(&torn), torn.operations());
        let directory = open_to_read(&torn).expect("no room is needed");
        let read = directory.replay(2).expect("whole");
        assert_eq!((files(&torn), torn.operations()), (before.clone(), operations), "unchanged");
        drop(directory);
        torn.set_capacity(u64::MAX);
        let directory = open(&torn).expect("there is room");
        assert_eq!(directory.replay(2).expect("whole"), read, "seed {seed}");
        let found = counters(&read);
        assert!(found.starts_with(&(1..=20).collect::<Vec<u64>>()), "seed {seed}: {found:?}");
        drop(directory);
        tails += u32::from(files(&torn) != before && found.len() == 20);
    }
    assert!(tails > 10, "a torn end was there {tails} times, and was cut by who wrote");
}

#[test]
fn an_opening_to_write_asks_for_room_and_then_goes_on() {
    for seed in 0..20 {
        let torn = torn(seed);
        let before = files(&torn);
        torn.set_capacity(0);
        let error = open(&torn).expect_err("full");
        assert!(matches!(error, WalError::Full { .. }), "{error}");
        let said = error.to_string();
        assert!(said.contains("make room on the device") && !said.contains('\n'), "{said}");
        assert!(said.contains("01-"), "{said}");
        assert_eq!(files(&torn), before, "seed {seed}: what was begun is taken away");
        // Also with room for only a part of the files.
        torn.set_capacity(before.iter().map(|(_, bytes)| bytes.len() as u64).sum::<u64>() + 100);
        open(&torn).expect_err("full");
        torn.set_capacity(u64::MAX);
        let directory = open(&torn).expect("there is room");
        let log = start(&directory, LogSettings::default());
        run(async |handle| commit(&log, &handle, 30..=31, 100).await);
    }
}

#[test]
fn what_is_open_to_be_read_is_not_written() {
    let torn = torn(1);
    let directory = open_to_read(&torn).expect("whole");
    let read_only = |error: WalError| {
        assert!(matches!(error, WalError::ReadOnly { .. }), "{error}");
        assert!(error.to_string().contains("open it to write"), "{error}");
    };
    read_only(Log::threaded(&directory, NODE, LogSettings::default()).expect_err("to be read"));
    let floor = at(100);
    read_only(CheckpointWriter::begin(&directory, floor, []).map(drop).expect_err("to be read"));
    read_only(directory.remove_through(NODE, floor).expect_err("to be read"));
    let error = open(&torn).expect_err("one at a time");
    assert!(matches!(error, WalError::InUse { .. }), "{error}");
}

/// A closed log ends with a record that says so. Without room for that record the log stays as the
/// last commit left it: no part of the record is found behind the commits.
#[test]
fn an_end_record_without_room_is_taken_back_and_loses_no_commit() {
    let mut partial = 0;
    for room in (0..800).step_by(9) {
        let torn = Torn::new(room);
        let directory = open(&torn).expect("empty");
        let log = start(&directory, LogSettings::default());
        let (before, after) = run(async |handle| {
            commit(&log, &handle, 1..=5, 100).await;
            let before = files(&torn);
            torn.set_capacity(size(&before) + room);
            log.close(&handle, common::soon(&handle)).await.expect("all commits are durable");
            (before, files(&torn))
        });
        let is_whole = size(&after) > size(&before);
        if !is_whole {
            partial += 1;
            assert_eq!(after, before, "{room} bytes of room");
        }
        drop((log, directory));
        torn.set_capacity(u64::MAX);
        let torn = torn.kill();
        let directory = open(&torn).expect("there is room");
        assert!(directory.losses().is_empty(), "{room} bytes of room");
        assert_eq!(counters(&directory.replay(1).expect("whole")), [1, 2, 3, 4, 5]);
    }
    assert!((4..80).contains(&partial), "the record had no room {partial} times of 89");
}

fn size(files: &[(String, Vec<u8>)]) -> u64 {
    files.iter().map(|(_, bytes)| bytes.len() as u64).sum()
}
