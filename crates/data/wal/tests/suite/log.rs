//! One log: group commit, modes, rotation, and the results of device errors.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::{ExecutorConfig, VirtualWorker, run_all};
use latchwork_simulation::Kernel;
use latchwork_wal::storage::torn::StorageOperation;
use latchwork_wal::storage::{Storage, Torn};
use latchwork_wal::{
    CheckpointWriter, CommitMode, Device, Log, LogDirectory, LogSettings, Stats, Timestamp,
    WalError,
};

use crate::common;
use crate::common::{DATABASE, NODE, at, commit, counters, group, open, run, soon, start};

const SYNC: Duration = Duration::from_millis(1);

/// A log in virtual time on a device with a sync of one millisecond.
fn simulated(settings: LogSettings) -> (VirtualWorker, Log, Torn) {
    let worker =
        VirtualWorker::spawn(&Kernel::new(1), ExecutorConfig { depth: 1000, ..Default::default() });
    let torn = Torn::new(1);
    let directory = open(&torn).expect("empty");
    let device = Device { sync: SYNC, bytes_per_second: 0 };
    let log = Log::simulated(&directory, NODE, settings, &worker.handle(), device).expect("a log");
    (worker, log, torn)
}

/// Runs `count` committers with `commits` commits each, one after another, with some work before
/// each commit.
fn committers(count: u64, commits: u64) -> (Stats, Duration) {
    let (worker, log, _) = simulated(LogSettings::default());
    let handle = worker.handle();
    let tasks: Vec<_> = (0..count)
        .map(|committer| {
            let (log, handle) = (log.clone(), handle.clone());
            worker.handle().spawn(async move {
                for n in 0..commits {
                    let work = 1 + handle.random_below(50);
                    handle.sleep(Duration::from_micros(work)).await;
                    let position =
                        log.append(&group(1 + n * count + committer, 100)).expect("open");
                    log.durable(&handle, &position, soon(&handle)).await.expect("lasting");
                }
            })
        })
        .collect();
    run_all(worker.kernel(), Duration::from_secs(100), tasks).expect("they end");
    (log.stats(), worker.kernel().now() - latchwork_runtime::Time::ZERO)
}

#[test]
fn commits_that_come_together_share_a_sync() {
    let (stats, took) = committers(1, 100);
    assert_eq!((stats.groups, stats.syncs), (100, 100));
    assert!(took < SYNC * 106, "one who is alone waits for nobody: {took:?}");
    let (stats, took) = committers(64, 100);
    assert_eq!(stats.groups, 6400);
    // The rate is more than fifty times that of commits that do not share syncs.
    assert!(stats.groups_per_sync() > 55.0, "{stats:?}");
    let rate = 6400.0 / took.as_secs_f64();
    assert!(rate > 50.0 / SYNC.as_secs_f64(), "{rate} commits/s in {took:?}");
    assert_eq!(stats.syncing, SYNC * stats.syncs as u32);
}

#[test]
fn nothing_is_acknowledged_before_its_sync() {
    let (worker, log, torn) = simulated(LogSettings::default());
    let handle = worker.handle();
    let ended = worker.run(Duration::from_secs(1), async move {
        let position = log.append(&group(1, 100)).expect("open");
        let begin = handle.now();
        // The flush batch is written by now, and is being synced.
        handle.sleep(SYNC / 2).await;
        assert!(position.outcome().is_none());
        log.durable(&handle, &position, soon(&handle)).await.expect("lasting");
        assert!(handle.now() - begin >= SYNC);
        assert!(matches!(position.outcome(), Some(Ok(()))));
    });
    ended.expect("it ends");
    assert_eq!(counters(&open(&torn.crash(5)).expect("whole").replay(1).expect("whole")), [1]);
}

#[test]
fn waiting_ends_with_the_deadline() {
    let (worker, log, _) = simulated(LogSettings::default());
    let handle = worker.handle();
    let ended = worker.run(Duration::from_secs(1), async move {
        let position = log.append(&group(1, 100)).expect("open");
        let deadline = handle.now() + SYNC / 4;
        let error = log.durable(&handle, &position, deadline).await.expect_err("too early");
        let said = error.to_string();
        assert!(said.starts_with("writing to the log took longer than 250"), "{said}");
        log.durable(&handle, &position, soon(&handle)).await.expect("lasting");
    });
    ended.expect("it ends");
}

#[test]
fn async_acknowledges_at_once_and_is_durable_an_interval_later() {
    let interval = Duration::from_millis(10);
    let settings = LogSettings { mode: CommitMode::Async, interval, ..LogSettings::default() };
    let (worker, log, _) = simulated(settings);
    let handle = worker.handle();
    let ended = worker.run(Duration::from_secs(1), async move {
        let begin = handle.now();
        let mut last = None;
        for counter in 1..=100 {
            let position = log.append(&group(counter, 100)).expect("open");
            log.acknowledged(&handle, &position, soon(&handle)).await.expect("at once");
            handle.sleep(Duration::from_micros(10)).await;
            last = Some(position);
        }
        let last = last.expect("a hundred");
        assert!(handle.now() - begin < SYNC * 2);
        log.durable(&handle, &last, soon(&handle)).await.expect("lasting");
        let took = handle.now() - begin;
        assert!(took >= interval && took < interval + SYNC * 2, "{took:?}");
        assert_eq!(log.stats().syncs, 1);
        // A flush request need not wait for the interval.
        log.append(&group(101, 100)).expect("open");
        let begin = handle.now();
        log.flush(&handle, soon(&handle)).await.expect("lasting");
        assert!(handle.now() - begin < SYNC * 2);
    });
    ended.expect("it ends");
}

#[test]
fn a_full_device_refuses_commits_and_the_log_goes_on() {
    for seed in 0..100 {
        let torn = Torn::new(seed);
        let directory = open(&torn).expect("empty");
        let log = start(&directory, LogSettings::default());
        run(async |handle| {
            commit(&log, &handle, 1..=5, 100).await;
            torn.set_capacity(1000 + seed * 3);
            let position = log.append(&group(6, 2000)).expect("it is taken");
            let waiting = log.durable(&handle, &position, soon(&handle)).await;
            let error = waiting.expect_err("full");
            assert!(matches!(error, WalError::Refused { .. }), "{error}");
            let said = error.to_string();
            assert!(said.contains("01-0000000001.log: the commit could not be written"), "{said}");
            assert!(!error.is_final());
            assert_eq!(log.trouble().map(|trouble| trouble.to_string()), Some(said));
            torn.set_capacity(u64::MAX);
            commit(&log, &handle, 7..=9, 100).await;
            assert!(log.trouble().is_none());
        });
        assert_eq!(log.stats().refused, 1);
        drop((log, directory));
        let replayed = open(&torn.crash(seed)).expect("whole").replay(1).expect("whole");
        assert_eq!(counters(&replayed), [1, 2, 3, 4, 5, 7, 8, 9], "seed {seed}");
    }
}

/// Later records depend on a record: they must not be there without it.
#[test]
fn what_others_build_on_is_never_refused() {
    for seed in 0..100 {
        let torn = Torn::new(seed);
        let directory = open(&torn).expect("empty");
        let interval = Duration::from_millis(1);
        let log = start(&directory, LogSettings { interval, ..LogSettings::default() });
        run(async |handle| {
            commit(&log, &handle, 1..=5, 100).await;
            assert!(log.end().expect("open").is_none(), "all is lasting");
            torn.set_capacity(1000 + seed * 3);
            let first = log.append_for_early_release(&group(6, 2000)).expect("it is taken");
            // Appended before the device is tried, or behind the refused batch.
            let second = log.append(&group(7, 100));
            let until = soon(&handle);
            while log.stats().refused == 0 && handle.now() < until {
                handle.sleep(Duration::from_millis(1)).await;
            }
            // The refusal is counted just before it is reported.
            handle.sleep(Duration::from_millis(5)).await;
            assert!(first.outcome().is_none(), "it waits for room");
            let third = log.append(&group(8, 100)).expect_err("full");
            assert!(matches!(third, WalError::Refused { .. }), "{third}");
            let end = log.end().expect("open").expect("something waits");
            torn.set_capacity(u64::MAX);
            for position in second.iter().chain([&first, &end]) {
                log.durable(&handle, position, soon(&handle)).await.expect("there is room");
            }
            commit(&log, &handle, 9..=9, 100).await;
            assert!(log.end().expect("open").is_none(), "all is lasting");
            let found = if second.is_ok() {
                vec![1, 2, 3, 4, 5, 6, 7, 9]
            } else {
                vec![1, 2, 3, 4, 5, 6, 9]
            };
            torn.power_off();
            let replayed = open(&torn.crash(seed)).expect("whole").replay(1).expect("whole");
            assert_eq!(counters(&replayed), found, "seed {seed}");
        });
    }
}

/// A log that is closed while such a flush batch waits has failed: later records are not written.
#[test]
fn a_log_that_is_closed_leaves_nothing_without_what_it_was_built_on() {
    for seed in 0..100 {
        let torn = Torn::new(seed);
        let directory = open(&torn).expect("empty");
        let settings = LogSettings { interval: Duration::from_millis(1), ..LogSettings::default() };
        let log = start(&directory, settings);
        run(async |handle| {
            commit(&log, &handle, 1..=5, 100).await;
            // Room for the second record, but not for the first.
            torn.set_capacity(2000);
            let first = log.append_for_early_release(&group(6, 4000)).expect("it is taken");
            let second = log.append_for_early_release(&group(7, 10));
            let end = log.close(&handle, soon(&handle)).await.expect_err("it is not lasting");
            assert!(matches!(end, WalError::Failed { .. }), "{end}");
            for position in second.iter().chain([&first]) {
                let told = position.outcome().expect("it has ended");
                assert!(matches!(told, Err(WalError::Failed { .. })), "{told:?}");
            }
            let error = log.end().expect_err("it has failed");
            assert!(matches!(error, WalError::Failed { .. }), "{error}");
        });
        drop((log, directory));
        torn.set_capacity(u64::MAX);
        let replayed = open(&torn.crash(seed)).expect("whole").replay(1).expect("whole");
        assert!(!counters(&replayed).contains(&7), "seed {seed}: without what it was built on");
    }
}

/// An acknowledged record that is not durable can only be retried.
#[test]
fn async_does_not_give_up_what_was_acknowledged() {
    let torn = Torn::new(1);
    let directory = open(&torn).expect("empty");
    let interval = Duration::from_millis(1);
    let settings = LogSettings {
        mode: CommitMode::Async,
        interval,
        backlog_bytes: 4096,
        ..LogSettings::default()
    };
    let log = start(&directory, settings);
    run(async |handle| {
        torn.set_capacity(200);
        log.append(&group(1, 2000)).expect("taken");
        let until = soon(&handle);
        while log.stats().refused < 3 {
            assert!(handle.now() < until, "it has given up: {:?}", log.stats());
            handle.sleep(interval).await;
        }
        log.append(&group(2, 1900)).expect("taken");
        // The backlog is limited. A full backlog fails a commit that was not acknowledged.
        let error = log.append(&group(3, 1000)).expect_err("full");
        assert!(matches!(error, WalError::Backlog { most: 4096, .. }), "{error}");
        torn.set_capacity(u64::MAX);
        log.room(&handle, soon(&handle)).await.expect("room");
        log.append(&group(3, 1000)).expect("taken");
        log.close(&handle, soon(&handle)).await.expect("closed");
        assert!(matches!(log.append(&group(4, 10)), Err(WalError::Closed)));
    });
    drop((log, directory));
    let replayed = open(&torn.crash(1)).expect("whole").replay(1).expect("whole");
    assert_eq!(counters(&replayed), [1, 2, 3]);
}

/// Guards against this bug: a failed sync has dropped the bytes that it could not write, and the
/// next sync succeeds. A log that goes on after a failed sync acknowledges lost records. A
/// restarted process may also read those bytes from memory, so they must be written anew before
/// anything is built on them.
#[test]
fn a_failed_sync_ends_the_log_and_what_a_restart_finds_is_durable() {
    let mut found_then = 0;
    for seed in 0..200 {
        let torn = Torn::new(seed);
        let directory = open(&torn).expect("empty");
        let log = start(&directory, LogSettings::default());
        run(async |handle| {
            commit(&log, &handle, 1..=3, 600).await;
            torn.fail(StorageOperation::Sync, 0);
            let position = log.append(&group(4, 600)).expect("taken");
            let error = log.durable(&handle, &position, soon(&handle)).await.expect_err("failed");
            assert!(matches!(error, WalError::Failed { doing: "syncing", .. }), "{error}");
            let error = log.append(&group(5, 10)).expect_err("for good").to_string();
            assert!(error.contains("takes nothing more, start again"), "{error}");
            assert!(log.trouble().is_some_and(|trouble| trouble.is_final()));
            log.rotate(&handle, soon(&handle)).await.expect_err("for good");
            log.room(&handle, soon(&handle)).await.expect_err("for good");
            log.close(&handle, soon(&handle)).await.expect_err("for good");
        });
        let again = Log::threaded(&directory, NODE, LogSettings::default());
        assert!(
            matches!(again, Err(WalError::NodeInUse { .. })),
            "the directory has to be read anew"
        );
        drop((log, directory));
        // The process restarts, and then the power goes off.
        let torn = torn.kill();
        let directory = open(&torn).expect("whole");
        let first = counters(&directory.replay(1).expect("whole"));
        assert!(first.starts_with(&[1, 2, 3]), "{first:?}");
        found_then += usize::from(first.len() == 4);
        drop(directory);
        let second = counters(&open(&torn.crash(seed)).expect("whole").replay(1).expect("whole"));
        assert_eq!(first, second, "seed {seed}");
    }
    assert_eq!(found_then, 200, "reading gave what was in memory");
}

#[test]
fn a_write_that_cannot_be_taken_back_ends_the_log() {
    let torn = Torn::new(1);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, LogSettings::default());
    run(async |handle| {
        commit(&log, &handle, 1..=3, 100).await;
        torn.set_capacity(600);
        torn.fail(StorageOperation::Truncate, 0);
        let position = log.append(&group(4, 1000)).expect("taken");
        let error = log.durable(&handle, &position, soon(&handle)).await.expect_err("full");
        assert!(matches!(error, WalError::Failed { doing: "taking back a write", .. }), "{error}");
    });
    drop((log, directory));
    let torn = torn.crash(1);
    torn.set_capacity(u64::MAX);
    assert_eq!(counters(&open(&torn).expect("whole").replay(1).expect("whole")), [1, 2, 3]);
}

#[test]
fn segments_follow_one_another_and_go_when_a_checkpoint_has_them() {
    let torn = Torn::new(1);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, LogSettings { segment_bytes: 1024, ..LogSettings::default() });
    run(async |handle| {
        commit(&log, &handle, 1..=30, 100).await;
        let numbers = |directory: &Arc<LogDirectory>| -> Vec<u64> {
            directory.segments()[0].1.iter().map(|segment| segment.number).collect()
        };
        let before = numbers(&directory);
        assert!(
            before.len() >= 5 && before.iter().copied().eq(1..=before.len() as u64),
            "{before:?}"
        );
        assert_eq!(log.remove_through(at(30)).expect("nothing"), 0, "there is no checkpoint");

        let number = log.rotate(&handle, soon(&handle)).await.expect("rotated");
        assert_eq!(
            log.rotate(&handle, soon(&handle)).await.expect("rotated"),
            number,
            "it is empty"
        );
        let floor = Timestamp::new(20, latchwork_wal::NodeId(63)).expect("small");
        let writer = CheckpointWriter::begin(&directory, floor, [(NODE, number)]).expect("begun");
        let again = CheckpointWriter::begin(&directory, floor, []);
        assert!(matches!(again, Err(WalError::CheckpointUnderWay)));
        let mut part = writer.part().expect("made");
        for counter in 1..=20u64 {
            let (key, value) = (&counter.to_be_bytes()[..], Some(&[0][..]));
            let (timestamp, table) = (at(counter), common::TABLE);
            part.put(latchwork_wal::LogEntry { timestamp, table, key, value }).expect("put");
        }
        part.finish().expect("synced");
        writer.publish().expect("in place");
        let said = log.append(&group(20, 10)).expect_err("no replay would take it").to_string();
        assert_eq!(
            said,
            "a commit at 20.1 is impossible: the checkpoint in place has the floor 20.63"
        );
        let lower = CheckpointWriter::begin(&directory, at(19), []);
        assert!(matches!(lower, Err(WalError::Floor { .. })));
        // Removal stops at the segment with the first commit above the floor.
        let removed = log.remove_through(at(1000)).expect("removed");
        assert!(removed >= 3, "{removed}");
        let kept = numbers(&directory);
        let first = directory.segments()[0].1[0];
        assert!(kept[0] == removed as u64 + 1 && first.before <= floor, "{kept:?}");
        assert!(directory.segments()[0].1[1].before > floor);
        assert!(matches!(directory.replay(1), Err(WalError::NodeInUse { .. })), "not now");
        commit(&log, &handle, 31..=32, 100).await;

        // A checkpoint that is begun and not finished leaves no trace.
        let writer = CheckpointWriter::begin(&directory, at(25), []).expect("begun");
        let part = writer.part().expect("made");
        let said = writer.publish().expect_err("not finished").to_string();
        assert!(said.contains("1 parts, of which 0 are finished"), "{said}");
        drop(part);
    });
    drop((log, directory));
    let torn = torn.crash(1);
    let replayed = open(&torn).expect("whole").replay(1).expect("whole");
    assert_eq!(counters(&replayed), (1..=32).collect::<Vec<_>>());
    let parts = torn.list().expect("listed").into_iter().filter(|name| name.ends_with(".part"));
    assert_eq!(parts.collect::<Vec<_>>(), ["checkpoint-0000000001-0000.part"]);
}

/// A database that restarts with fewer nodes does not keep the logs of the other nodes permanently.
#[test]
fn logs_of_absent_nodes_are_removed_with_the_next_checkpoint() {
    let torn = Torn::new(1);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, LogSettings::default());
    run(async |handle| {
        commit(&log, &handle, 1..=5, 100).await;
        log.close(&handle, soon(&handle)).await.expect("closed");
    });
    let writer = CheckpointWriter::begin(&directory, at(5), []).expect("begun");
    writer.publish().expect("in place");
    assert_eq!(directory.remove_through(NODE, at(5)).expect("removed"), 1);
    drop((log, directory));
    let directory = open(&torn.crash(1)).expect("whole");
    assert_eq!(directory.replay(1).expect("whole").keys().count(), 0);
    let log = start(&directory, LogSettings::default());
    run(async |handle| commit(&log, &handle, 6..=7, 100).await);
    // The witness refers to segment 1, so its number is not used again.
    let segments = directory.segments();
    assert_eq!(segments[0].1.iter().map(|segment| segment.number).collect::<Vec<_>>(), [2]);
}

/// A witness that could not be written is written later, even if the log has nothing to write
/// meanwhile.
#[test]
fn a_witness_that_the_device_had_no_room_for_is_tried_again() {
    let witness = Duration::from_millis(20);
    let (worker, log, torn) = simulated(LogSettings { witness, ..LogSettings::default() });
    let (handle, log, device) = (worker.handle(), Rc::new(log), torn.clone());
    // The log stays open.
    let _open = log.clone();
    let ended = worker.run(Duration::from_secs(1), async move {
        commit(&log, &handle, 1..=3, 100).await;
        device.set_capacity(0);
        handle.sleep(witness * 2).await;
        device.set_capacity(u64::MAX);
        handle.sleep(witness * 3).await;
    });
    ended.expect("it ends");
    let torn = torn.crash(1);
    assert!(torn.cut("01-0000000001.log", 300));
    let error = open(&torn).map(|_| ()).expect_err("the witness knows of more");
    assert!(matches!(error, WalError::Lost { .. }), "{error}");
}

/// No later flush batch has a mark of the last commit before a pause, so only the witness can know
/// of it.
#[test]
fn what_an_idle_log_wrote_last_cannot_be_lost_unnoticed_when_the_witness_was_due() {
    let witness = Duration::from_millis(20);
    for (idle, is_noticed) in [(witness / 4, false), (witness * 2, true)] {
        let (worker, log, torn) = simulated(LogSettings { witness, ..LogSettings::default() });
        let (handle, log) = (worker.handle(), Rc::new(log));
        // The log stays open.
        let _open = log.clone();
        let ended = worker.run(Duration::from_secs(1), async move {
            commit(&log, &handle, 1..=3, 100).await;
            handle.sleep(idle).await;
        });
        ended.expect("it ends");
        let torn = torn.crash(1);
        assert!(torn.cut("01-0000000001.log", 300));
        match open(&torn) {
            Err(WalError::Lost { groups, .. }) => assert!(is_noticed && groups >= 1, "{groups}"),
            Err(error) => panic!("{error}"),
            Ok(_) => assert!(!is_noticed, "after {idle:?}"),
        }
    }
}

/// Two logs of one directory: what one log writes after the other's commits has a mark of them.
#[test]
fn what_another_log_has_built_on_cannot_be_lost_unnoticed() {
    let torn = Torn::new(1);
    let directory = open(&torn).expect("empty");
    let other = Log::threaded(&directory, latchwork_wal::NodeId(2), LogSettings::default());
    let (log, other) = (start(&directory, LogSettings::default()), other.expect("a log"));
    run(async |handle| {
        commit(&log, &handle, 1..=3, 100).await;
        commit(&other, &handle, 4..=5, 100).await;
        // No commit of the other log has seen this one.
        commit(&log, &handle, 6..=6, 100).await;
    });
    // Before the logs are closed.
    let files = torn.crash(1);
    let length = files.open("01-0000000001.log").and_then(|file| file.length()).expect("there");
    let lost = |bytes: u64| {
        assert!(files.cut("01-0000000001.log", length - bytes));
        LogDirectory::open_to_read(Arc::new(files.clone()), DATABASE).map(drop)
    };
    lost(10).expect("the last commit alone");
    let error = lost(300).expect_err("what another log knows of");
    assert!(matches!(error, WalError::Lost { groups: 1, .. }), "{error}");
}

/// The flusher's worker has ended: the waiters get an error in time.
#[test]
fn a_log_without_its_flusher_says_so() {
    let (worker, log, _) = simulated(LogSettings::default());
    let position = log.append(&group(1, 100)).expect("open");
    drop(worker);
    assert!(matches!(position.outcome(), Some(Err(WalError::Failed { .. }))));
    assert!(matches!(log.append(&group(2, 100)), Err(WalError::Failed { .. })));
}

/// Threads that commit, rotate and read the outcome, on the real clock.
#[test]
fn workers_of_many_threads_share_a_log() {
    const THREADS: u64 = 4;
    const COMMITS: u64 = 300;
    let torn = Torn::new(1);
    let directory = open(&torn).expect("empty");
    let log = start(&directory, LogSettings { segment_bytes: 4096, ..LogSettings::default() });
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let log = log.clone();
            scope.spawn(move || {
                run(async |handle| {
                    let tasks: Vec<_> = (0..4)
                        .map(|task| {
                            let (log, own) = (Rc::new(log.clone()), handle.clone());
                            handle.spawn(async move {
                                let first = (thread * 4 + task) * COMMITS + 1;
                                commit(&log, &own, first..first + COMMITS, 30).await;
                            })
                        })
                        .collect();
                    for task in tasks {
                        log.rotate(&handle, soon(&handle)).await.expect("rotated");
                        task.await.expect("ended");
                    }
                });
            });
        }
    });
    assert_eq!(log.stats().groups, THREADS * 4 * COMMITS);
    drop((log, directory));
    let directory = LogDirectory::open(Arc::new(torn.crash(3)), DATABASE).expect("whole");
    let (one, four) = (directory.replay(1).expect("whole"), directory.replay(4).expect("whole"));
    assert_eq!(one, four);
    assert_eq!(counters(&one), (1..=THREADS * 4 * COMMITS).collect::<Vec<_>>());
}
