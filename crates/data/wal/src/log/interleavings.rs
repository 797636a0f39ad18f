//! The committers and the flusher under the interleavings that loom explores. No task has a timer
//! here, so a lost wake is a deadlock, which loom reports. `scripts/loom.sh` runs this file.

use latchwork_runtime::sync::Arc;
use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
use loom::thread;

use super::shared::Shared;
use crate::format::{LogRecord, LogRecordKind};
use crate::{LogSettings, NodeId, Timestamp, WalError};

/// Runs a future on an executor that parks at the first idle sweep.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    let config = ExecutorConfig { spin_sweeps: 0, yield_sweeps: 0, ..ExecutorConfig::default() };
    Executor::new(RealDriver::new(), config).block_on(future)
}

fn shared() -> Arc<Shared> {
    let settings =
        LogSettings { backlog_bytes: LogSettings::BACKLOG_LEAST, ..LogSettings::default() };
    Arc::new(Shared::new(NodeId(0), settings))
}

fn commit(shared: &Shared) -> Result<(), WalError> {
    let position = shared.append(&LogRecord::new(LogRecordKind::Commit, Timestamp(1)), false)?;
    block_on(position.0.wait())
}

/// A flusher without a file. Returns the count of log records that it took before the log was
/// closed.
fn flush(shared: &Shared, until: usize) -> usize {
    let mut groups = 0;
    block_on(async {
        while groups < until {
            shared.work(1).await;
            let work = shared.take(Vec::new());
            groups += work.batch.groups;
            shared.end(&work.batch, Ok(()), None);
            if work.closing {
                break;
            }
        }
    });
    groups
}

#[test]
fn every_append_is_acknowledged() {
    loom::model(|| {
        let shared = shared();
        let committers: Vec<_> = (0..2)
            .map(|_| {
                let shared = shared.clone();
                thread::spawn(move || commit(&shared).expect("acknowledged"))
            })
            .collect();
        assert_eq!(flush(&shared, 2), 2);
        committers.into_iter().for_each(|committer| committer.join().unwrap());
    });
}

#[test]
fn a_group_that_meets_the_end_of_the_log_is_written_or_refused() {
    loom::model(|| {
        let shared = shared();
        let committer = thread::spawn({
            let shared = shared.clone();
            move || commit(&shared)
        });
        let closer = thread::spawn({
            let shared = shared.clone();
            move || shared.close()
        });
        let groups = flush(&shared, usize::MAX);
        shared.fail(&WalError::Closed);
        closer.join().unwrap();
        match committer.join().unwrap() {
            Ok(()) => assert_eq!(groups, 1),
            Err(error) => assert!(groups == 0 && matches!(error, WalError::Closed), "{error}"),
        }
    });
}

#[test]
fn a_task_that_waits_for_room_is_woken_when_a_batch_ends() {
    loom::model(|| {
        let shared = shared();
        shared
            .append(&LogRecord::new(LogRecordKind::Commit, Timestamp(1)), false)
            .expect("appended");
        shared.fill();
        let waiter = thread::spawn({
            let shared = shared.clone();
            move || block_on(shared.room()).expect("room")
        });
        assert_eq!(flush(&shared, 1), 1);
        waiter.join().unwrap();
    });
}
