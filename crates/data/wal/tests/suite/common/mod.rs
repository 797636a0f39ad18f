//! Helpers of the log tests.

use std::sync::Arc;
use std::time::Duration;

use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver, Time};
use latchwork_wal::storage::Torn;
use latchwork_wal::{
    DatabaseId, Log, LogDirectory, LogRecord, LogRecordKind, LogSettings, NodeId, Replayed,
    TableId, Timestamp, WalError,
};

pub(crate) const DATABASE: DatabaseId = DatabaseId(0xda7a);
pub(crate) const NODE: NodeId = NodeId(1);
pub(crate) const TABLE: TableId = TableId(7);

/// Runs a future on this thread.
pub(crate) fn run<T>(body: impl AsyncFnOnce(Handle) -> T) -> T {
    let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
    let handle = executor.handle();
    executor.block_on(body(handle))
}

pub(crate) fn soon(handle: &Handle) -> Time {
    handle.now() + Duration::from_secs(60)
}

pub(crate) fn open(torn: &Torn) -> Result<Arc<LogDirectory>, WalError> {
    LogDirectory::open(Arc::new(torn.clone()), DATABASE)
}

pub(crate) fn start(directory: &Arc<LogDirectory>, settings: LogSettings) -> Log {
    Log::threaded(directory, NODE, settings).expect("a log")
}

pub(crate) fn at(counter: u64) -> Timestamp {
    Timestamp::new(counter, NODE).expect("small")
}

/// A commit that sets key `counter` to a value of `bytes` bytes.
pub(crate) fn group(counter: u64, bytes: usize) -> LogRecord {
    let mut group = LogRecord::new(LogRecordKind::Commit, at(counter));
    group.put(TABLE, &counter.to_be_bytes(), &vec![counter as u8; bytes]).expect("small");
    group
}

/// Appends commits one after another, each in a flush batch of its own.
pub(crate) async fn commit(
    log: &Log,
    handle: &Handle,
    counters: impl IntoIterator<Item = u64>,
    bytes: usize,
) {
    for counter in counters {
        let position = log.append(&group(counter, bytes)).expect("appended");
        log.durable(handle, &position, soon(handle)).await.expect("lasting");
    }
}

/// The keys that a replay found, as counters.
pub(crate) fn counters(replayed: &Replayed) -> Vec<u64> {
    let counter = |key: &[u8]| u64::from_be_bytes(key.try_into().expect("8 bytes"));
    let mut all: Vec<u64> = replayed.keys().map(|(_, latest)| counter(&latest.key)).collect();
    all.sort_unstable();
    all
}
