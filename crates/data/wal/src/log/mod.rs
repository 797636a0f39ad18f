//! [`Log`]: the log of one node, to which the workers of the node append.
//!
//! ```text
//!   worker:  append(record) ► copied into the flush batch ─► Position
//!   worker:  append(record) ►                 │
//!                                            ▼ all at once
//!   flusher:                 one write ─► one sync ─► promise kept ─► durable(position)
//!                                            │
//!                            segment full, or rotate(): a new segment, header and name synced
//! ```
//!
//! A cross-log mark, which states how far the other logs are durable, precedes the first flush
//! batch of a segment. A mark also precedes a later flush batch when the log knows something new
//! about other logs. The mark is a write of its own, and the sync of the flush batch covers both
//! writes. A closed log also ends with a mark, the end record, unless that record cannot be
//! written.
//!
//! While the flusher syncs one flush batch, the next batch fills. The flusher is one loop that runs
//! in one of two ways: on a thread of its own in real time, or as a task in virtual time. The task
//! sleeps for the time that a device would take.

mod flush_wait;
mod flusher;
#[cfg(all(test, loom))]
mod interleavings;
mod segment;
mod shared;

use std::fmt;
use std::thread;

use latchwork_runtime::sync::Arc;
use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver, Time};

use crate::format::LogRecord;
use crate::{CommitMode, Device, LogDirectory, LogSettings, NodeId, Timestamp, WalError};
use flusher::Flusher;
use shared::Shared;
pub use shared::{Position, Stats};

/// The log of one node, open for appending. Clones share one log.
///
/// Dropping the last clone closes the log. The flusher still writes the records appended before.
/// [`close`](Log::close) also waits for that write and reports its outcome.
#[derive(Clone)]
pub struct Log(Arc<Inner>);

struct Inner {
    shared: Arc<Shared>,
    directory: Arc<LogDirectory>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.close();
    }
}

impl Log {
    /// Opens `node`'s log with a thread that writes the log. The log begins a new segment.
    ///
    /// # Errors
    /// The settings are invalid; the directory was opened to read; the node cannot have a log; the
    /// log is open already or has failed; the system's errors.
    pub fn threaded(
        directory: &Arc<LogDirectory>,
        node: NodeId,
        settings: LogSettings,
    ) -> Result<Log, WalError> {
        let (log, flusher) = Log::prepare(directory, node, settings, None)?;
        let run = move || {
            // This executor spins a little before it parks, like the executor of a worker. Commits
            // follow one another closely, and to wake a parked thread takes about as long as a sync
            // of a fast device.
            let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
            let handle = executor.handle();
            executor.block_on(flusher.run(handle));
        };
        let started = thread::Builder::new().name(format!("wal-{}", node.0)).spawn(run);
        started.map_err(|e| WalError::io("starting a thread", &directory.describe(), e))?;
        Ok(log)
    }

    /// Opens `node`'s log with a task of `handle`'s worker that writes the log at the speed of
    /// `device`.
    ///
    /// # Errors
    /// As [`threaded`](Log::threaded).
    pub fn simulated(
        directory: &Arc<LogDirectory>,
        node: NodeId,
        settings: LogSettings,
        handle: &Handle,
        device: Device,
    ) -> Result<Log, WalError> {
        let (log, flusher) = Log::prepare(directory, node, settings, Some(device))?;
        // The task runs on after the join handle is dropped.
        drop(handle.spawn_service(flusher.run(handle.clone())));
        Ok(log)
    }

    fn prepare(
        directory: &Arc<LogDirectory>,
        node: NodeId,
        settings: LogSettings,
        device: Option<Device>,
    ) -> Result<(Log, Flusher), WalError> {
        settings.check()?;
        let shared = Arc::new(Shared::new(node, settings));
        let segment = directory.enter(node, shared.visible.clone())?;
        let flusher = Flusher::new(shared.clone(), directory.clone(), segment, device)?;
        let inner = Inner { shared, directory: directory.clone() };
        Ok((Log(Arc::new(inner)), flusher))
    }

    /// The time at which this log acknowledges a commit.
    pub fn mode(&self) -> CommitMode {
        self.0.shared.settings.mode
    }

    /// The node that owns this log.
    pub fn node(&self) -> NodeId {
        self.0.shared.node
    }

    /// Appends a log record, without waiting. The log has its records in the order of these calls.
    /// So a crash leaves the records of a first part of these calls.
    ///
    /// # Errors
    /// After an error the record is not in the log. The reasons:
    /// - The timestamp is not above the floor of the checkpoint in place, so replay would ignore
    ///   the record.
    /// - The log has failed or is closed.
    /// - A flush batch of [`append_for_early_release`](Log::append_for_early_release) is being
    ///   retried: [`WalError::Refused`].
    /// - The backlog is full; [`room`](Log::room) waits for room.
    /// - The record is larger than the backlog may be.
    pub fn append(&self, group: &LogRecord) -> Result<Position, WalError> {
        self.append_as(group, false)
    }

    /// Like [`append`](Log::append), for a log record on which later records may depend before it
    /// is durable. Once appended, such a record is never refused: it becomes durable or the log
    /// fails.
    ///
    /// When the flush batch with such a record cannot be written, the flusher retries until the
    /// write succeeds or the log fails. The reason: later batches may have records that depend on
    /// this record. During the retries the log accepts no records. If the log is closed during the
    /// retries, the log fails.
    ///
    /// # Errors
    /// As [`append`](Log::append).
    pub fn append_for_early_release(&self, group: &LogRecord) -> Result<Position, WalError> {
        self.append_as(group, true)
    }

    fn append_as(&self, group: &LogRecord, built_on: bool) -> Result<Position, WalError> {
        let (timestamp, floor) = (group.timestamp(), self.0.directory.floor());
        if timestamp <= floor {
            return Err(WalError::Stale { timestamp, floor });
        }
        self.0.shared.append(group, built_on)
    }

    /// The end of all records appended so far; `None` when all of them have an outcome already.
    ///
    /// # Errors
    /// The log has failed or is closed.
    pub fn end(&self) -> Result<Option<Position>, WalError> {
        self.0.shared.end_of_all()
    }

    /// Waits until the log record at `position` is durable.
    ///
    /// # Errors
    /// [`WalError::Refused`]: the record is not in the log and never will be. [`WalError::Failed`]
    /// and [`WalError::Timeout`]: the outcome is unknown.
    pub async fn durable(
        &self,
        handle: &Handle,
        position: &Position,
        deadline: Time,
    ) -> Result<(), WalError> {
        within(handle, deadline, "writing to the log", position.0.wait()).await?
    }

    /// Waits until the commit at `position` may be acknowledged. [`CommitMode::Sync`] waits like
    /// [`durable`](Log::durable); [`CommitMode::Async`] does not wait.
    ///
    /// # Errors
    /// As [`durable`](Log::durable).
    pub async fn acknowledged(
        &self,
        handle: &Handle,
        position: &Position,
        deadline: Time,
    ) -> Result<(), WalError> {
        match self.0.shared.settings.mode {
            CommitMode::Sync => self.durable(handle, position, deadline).await,
            CommitMode::Async => Ok(()),
        }
    }

    /// Waits until the backlog is at most half full.
    ///
    /// # Errors
    /// The log has failed or is closed; the deadline passed.
    pub async fn room(&self, handle: &Handle, deadline: Time) -> Result<(), WalError> {
        within(handle, deadline, "waiting for room in the log", self.0.shared.room()).await?
    }

    /// Waits until each record appended before this call is durable or refused. Ends the
    /// [`interval`](LogSettings::interval) of [`CommitMode::Async`] early. The refusal of an
    /// earlier flush batch is reported only to the waiters of that batch.
    ///
    /// # Errors
    /// As [`durable`](Log::durable); the log is closed.
    pub async fn flush(&self, handle: &Handle, deadline: Time) -> Result<(), WalError> {
        let position = self.0.shared.hurry()?;
        self.durable(handle, &position, deadline).await
    }

    /// Begins a new segment behind all records appended before this call, and returns its number.
    /// If the last segment is empty, it stays, and its number is returned. Records appended after
    /// the return are in this segment or in later ones.
    ///
    /// # Errors
    /// [`WalError::Io`], [`WalError::Full`]: no new segment was begun, and the log continues in the
    /// last one. The log has failed or is closed. The deadline passed: the log may still begin the
    /// segment.
    pub async fn rotate(&self, handle: &Handle, deadline: Time) -> Result<u64, WalError> {
        let rotation = self.0.shared.rotate()?;
        within(handle, deadline, "beginning a segment of the log", rotation.wait()).await?
    }

    /// Removes the segments up to `floor` that the checkpoint in place makes unnecessary, and
    /// returns their count. See [`LogDirectory::remove_through`].
    ///
    /// # Errors
    /// The system's errors.
    pub fn remove_through(&self, floor: Timestamp) -> Result<usize, WalError> {
        self.0.directory.remove_through(self.node(), floor)
    }

    /// Writes all appended records and closes the log. After the return the flusher holds no
    /// reference to the directory. So only the references of the caller, clones of this log
    /// included, keep the directory locked.
    ///
    /// # Errors
    /// The error of the last flush batch, if that batch did not become durable; the log has failed;
    /// the deadline passed.
    pub async fn close(&self, handle: &Handle, deadline: Time) -> Result<(), WalError> {
        self.0.shared.close();
        within(handle, deadline, "closing the log", self.0.shared.ended.wait()).await?
    }

    /// Keeps records out of the log until the result is dropped.
    pub(crate) fn hold(&self) -> impl Sized + '_ {
        self.0.shared.hold()
    }

    /// Why the log cannot be written now: it has failed, which is [final](WalError::is_final), or
    /// the device refused the last flush batch. `None` when nothing is wrong.
    pub fn trouble(&self) -> Option<WalError> {
        self.0.shared.trouble()
    }

    /// Counts and times of the log since it was opened.
    pub fn stats(&self) -> Stats {
        self.0.shared.stats()
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("node", &self.node()).field("stats", &self.stats()).finish()
    }
}

async fn within<T>(
    handle: &Handle,
    deadline: Time,
    what: &'static str,
    future: impl Future<Output = T>,
) -> Result<T, WalError> {
    let begin = handle.now();
    let waited = handle.timeout(deadline, future).await;
    waited.map_err(|_| WalError::Timeout { what, waited: handle.now() - begin })
}
