//! Runs whose log cannot be written for a while, or has failed for good.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use latchwork_harness::config::command_line;
use latchwork_harness::driver::Started;
use latchwork_runtime::Clock;
use latchwork_txn::{Timestamp, TransactionNode};
use latchwork_wal::storage::Torn;
use latchwork_wal::storage::torn::StorageOperation;
use latchwork_wal::{Log, LogDirectory};

use super::*;
use crate::args::Wal;
use crate::log::Logs;

/// A database whose logs are in memory, written by threads in real time.
fn started(wal: Wal, time: &str) -> (Started<Session>, Torn) {
    let flags =
        "tpcc -w 1 --set items=200 --set customers=30 --cache-mb 16 --memory-mb 512 --warmup 0";
    let flags = format!("{flags} --compute-nodes 2 --threads 1 --inflight 8 --time {time}");
    let cli = command_line("tpcc", flags.split_whitespace()).expect("flags");
    let mut settings = Settings::new(cli).expect("settings");
    let torn = Torn::new(1);
    let storage = Arc::new(torn.clone());
    settings.logs = Some(Logs::begin(storage, None, 7, wal).expect("an empty directory"));
    (Started::new(Session::new(settings)).expect("a cluster"), torn)
}

fn pause(time: Duration) {
    let (_sender, never) = mpsc::channel::<()>();
    never.recv_timeout(time).expect_err("it has a sender, which sends nothing");
}

/// Waits until a checkpoint above `floor` is in place.
fn checkpoint_above(directory: &LogDirectory, floor: Timestamp) -> bool {
    let long = 3000;
    (0..long).any(|_| {
        pause(Duration::from_millis(5));
        directory.floor() > floor
    })
}

fn failed(outcome: &Outcome) -> Vec<&'static str> {
    let failed = outcome.checks.iter().filter(|check| !check.is_good());
    failed.map(|check| check.name).collect()
}

/// Bug: a checkpoint that found no room ended the run, although the log alone went on.
#[test]
fn a_device_without_room_for_a_while_costs_no_result() {
    let (mut started, torn) = started(Wal::Sync, "4");
    let session = Arc::get_mut(&mut started.driver).expect("no worker has it yet");
    session.settings.checkpoint = Some(Duration::from_millis(20));
    let directory = session.settings.logs.as_ref().expect("logs").directory.clone();
    let mut outcome = Outcome::default();
    let (ran, again) = thread::scope(|scope| {
        let trouble = scope.spawn(|| {
            // The first checkpoint has the loaded rows.
            let mut floor = Timestamp::ZERO;
            for _ in 0..3 {
                assert!(checkpoint_above(&directory, floor), "the run writes checkpoints");
                floor = directory.floor();
            }
            torn.set_capacity(0);
            pause(Duration::from_millis(300));
            let floor = directory.floor();
            torn.set_capacity(u64::MAX);
            checkpoint_above(&directory, floor)
        });
        let ran = started.driver.phases(&started.cluster, &mut outcome);
        (ran, trouble.join().expect("it ends"))
    });
    let found = ran.expect("a result");
    assert!(again, "the checkpoint is tried again when there is room");
    let tally = found.run.expect("a run").tally;
    assert!(tally.refused.count > 0 && tally.given_up.count == 0);
    let why = tally.refused.why.expect("counted");
    assert!(why.contains(".log: the commit could not be written"), "{why}");
    assert_eq!(failed(&outcome), [""; 0]);
}

#[test]
fn a_run_whose_last_commits_were_refused_fails_a_check() {
    let (started, torn) = started(Wal::Sync, "1");
    let mut outcome = Outcome::default();
    let ran = thread::scope(|scope| {
        scope.spawn(|| {
            while started.driver.log_stats().is_none_or(|stats| stats.groups < 50) {
                pause(Duration::from_millis(5));
            }
            torn.set_capacity(0);
        });
        started.driver.phases(&started.cluster, &mut outcome)
    });
    ran.expect("a result");
    assert_eq!(failed(&outcome), ["transactions"]);
}

/// Bug: with `--wal async` workers went on at full speed, and each commit was refused, until the
/// time was over or the next checkpoint failed. With `--wal sync` the other workers waited 10 s for
/// rows that stay locked.
#[test]
fn a_log_that_has_failed_ends_the_run_at_once() {
    for wal in [Wal::Async, Wal::Sync] {
        let (started, torn) = started(wal, "30");
        let mut outcome = Outcome::default();
        let clock = Clock::start();
        let error = thread::scope(|scope| {
            scope.spawn(|| {
                while started.driver.log_stats().is_none_or(|stats| stats.groups < 50) {
                    pause(Duration::from_millis(5));
                }
                // The write that fails cannot be taken back.
                torn.fail(StorageOperation::Truncate, 0);
                torn.set_capacity(0);
                let has_failed = |node: &Arc<TransactionNode>| {
                    node.log().and_then(Log::trouble).is_some_and(|error| error.is_final())
                };
                while !started.driver.nodes().iter().any(has_failed) {
                    pause(Duration::from_millis(5));
                }
                // The log of the other node goes on.
                torn.set_capacity(u64::MAX);
            });
            started.driver.phases(&started.cluster, &mut outcome).map(drop)
        });
        let error = error.expect_err("the log has failed").to_string();
        let took = clock.now() - Time::ZERO;
        assert!(took < Duration::from_secs(8), "{}: {took:?}", wal.name());
        assert!(error.contains(".log: taking back a write failed: "), "{error}");
        assert!(error.contains("start again to recover") && !error.contains('\n'), "{error}");
    }
}
