//! [`Log`]: one node's log, which its workers append to.
//!
//! ```text
//!   worker: append(group) ─► copied behind the others of the batch ─► Position
//!   worker: append(group) ─►                 │
//!                                            ▼ all at once
//!   flusher:                 one write ─► one sync ─► the batch's promise is kept ─► durable(position)
//!                                            │                                        of all of them
//!                            segment full, or rotate(): a new one, its header and its name synced
//! ```
//!
//! What the log knows of the other nodes' logs stands in a mark before the batch, where it is news.
//! A log that is closed ends with a mark, too: the end record.
//!
//! While one batch is being synced the next one fills. The flusher is one loop with two drivers: a
//! thread of its own, which really writes; or a task in virtual time, which sleeps what a device
//! would take and then writes to storage in memory.

mod flusher;
#[cfg(all(test, loom))]
mod interleavings;
mod promise;
mod segment;
mod shared;

use std::fmt;
use std::thread;

use latchwork_runtime::sync::Arc;
use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver, Time};

use crate::format::Group;
use crate::{Device, LogDirectory, Mode, NodeId, Settings, Timestamp, WalError};
use flusher::Flusher;
use shared::Shared;
pub use shared::{Position, Stats};

/// A node's log, open for appending; clones are the same. The last one that is dropped closes it:
/// what was appended is still written, and nobody learns whether that went well, unlike with
/// [`close`](Log::close).
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
    /// Opens `node`'s log with a thread that writes it. A new segment is begun.
    ///
    /// # Errors
    /// Settings; the log is open already; the system's errors.
    pub fn threaded(
        directory: &Arc<LogDirectory>,
        node: NodeId,
        settings: Settings,
    ) -> Result<Log, WalError> {
        let (log, flusher) = Log::prepare(directory, node, settings, None)?;
        let run = move || {
            // It spins a little before it parks, like any worker: commits follow one another, and
            // to be woken takes as long as a fast device's sync.
            let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
            let handle = executor.handle();
            executor.block_on(flusher.run(handle));
        };
        let started = thread::Builder::new().name(format!("wal-{}", node.0)).spawn(run);
        started.map_err(|e| WalError::io("starting a thread", &directory.describe(), e))?;
        Ok(log)
    }

    /// Opens `node`'s log with a task of `handle`'s worker that writes it, as `device` would.
    ///
    /// # Errors
    /// As [`threaded`](Log::threaded).
    pub fn simulated(
        directory: &Arc<LogDirectory>,
        node: NodeId,
        settings: Settings,
        handle: &Handle,
        device: Device,
    ) -> Result<Log, WalError> {
        let (log, flusher) = Log::prepare(directory, node, settings, Some(device))?;
        // Dropping the join handle lets it go on.
        drop(handle.spawn_service(flusher.run(handle.clone())));
        Ok(log)
    }

    fn prepare(
        directory: &Arc<LogDirectory>,
        node: NodeId,
        settings: Settings,
        device: Option<Device>,
    ) -> Result<(Log, Flusher), WalError> {
        settings.check()?;
        let shared = Arc::new(Shared::new(node, settings));
        let segment = directory.enter(node, shared.visible.clone())?;
        let flusher = Flusher::new(shared.clone(), directory.clone(), segment, device)?;
        let inner = Inner { shared, directory: directory.clone() };
        Ok((Log(Arc::new(inner)), flusher))
    }

    /// When it acknowledges.
    pub fn mode(&self) -> Mode {
        self.0.shared.settings.mode
    }

    /// Whose log it is.
    pub fn node(&self) -> NodeId {
        self.0.shared.node
    }

    /// Appends a group, without waiting for anything. Groups of one log are written in the order of
    /// these calls: the log ends at a crash between two of them.
    ///
    /// # Errors
    /// The timestamp is not above the floor of the checkpoint in place, so no replay would take it;
    /// the log has failed or is closed; too much waits to be written ([`room`](Log::room) waits);
    /// the group is larger than may wait. The group is then not in the log.
    pub fn append(&self, group: &Group) -> Result<Position, WalError> {
        self.append_as(group, false)
    }

    /// As [`append`](Log::append), of a group that others build on before it is lasting. It is
    /// never refused: a batch with such a group that cannot be written is tried again, until it can
    /// or the log fails, since batches behind it may have what builds on it. Until then nothing
    /// more is taken.
    ///
    /// # Errors
    /// As [`append`](Log::append); [`WalError::Refused`] while such a batch waits for its device.
    pub fn append_to_build_on(&self, group: &Group) -> Result<Position, WalError> {
        self.append_as(group, true)
    }

    fn append_as(&self, group: &Group, built_on: bool) -> Result<Position, WalError> {
        let (timestamp, floor) = (group.timestamp(), self.0.directory.floor());
        if timestamp <= floor {
            return Err(WalError::Stale { timestamp, floor });
        }
        self.0.shared.append(group, built_on)
    }

    /// The end of all that was appended so far; `None` when nothing of it waits to be written.
    ///
    /// # Errors
    /// The log has failed or is closed.
    pub fn end(&self) -> Result<Option<Position>, WalError> {
        self.0.shared.end_of_all()
    }

    /// Waits until the group at `position` is lasting.
    ///
    /// # Errors
    /// [`WalError::Refused`]: it is not in the log, and will not be. [`WalError::Failed`] and
    /// [`WalError::Timeout`]: nobody knows.
    pub async fn durable(
        &self,
        handle: &Handle,
        position: &Position,
        deadline: Time,
    ) -> Result<(), WalError> {
        within(handle, deadline, "writing to the log", position.0.wait()).await?
    }

    /// Waits until the commit at `position` may be acknowledged: [`Mode::Sync`] as
    /// [`durable`](Log::durable), [`Mode::Async`] not at all.
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
            Mode::Sync => self.durable(handle, position, deadline).await,
            Mode::Async => Ok(()),
        }
    }

    /// Waits until at most half of what may wait to be written does.
    ///
    /// # Errors
    /// The log has failed or is closed; the deadline.
    pub async fn room(&self, handle: &Handle, deadline: Time) -> Result<(), WalError> {
        within(handle, deadline, "waiting for room in the log", self.0.shared.room()).await?
    }

    /// Waits until all that was appended before is lasting, and does not let the interval wait for
    /// it. What is refused meanwhile is told to those who wait for it.
    ///
    /// # Errors
    /// As [`durable`](Log::durable).
    pub async fn flush(&self, handle: &Handle, deadline: Time) -> Result<(), WalError> {
        let position = self.0.shared.hurry()?;
        self.durable(handle, &position, deadline).await
    }

    /// Begins a new segment behind all that was appended before; its number. All that is appended
    /// later is in this segment or in later ones.
    ///
    /// # Errors
    /// [`WalError::Io`], [`WalError::Full`]: there is no new segment, and the log goes on. The log
    /// has failed or is closed; the deadline.
    pub async fn rotate(&self, handle: &Handle, deadline: Time) -> Result<u64, WalError> {
        let rotation = self.0.shared.rotate()?;
        within(handle, deadline, "beginning a segment of the log", rotation.wait()).await?
    }

    /// Removes the segments that the checkpoint in place makes unnecessary, as far as `floor`; how
    /// many. See [`LogDirectory::remove_through`].
    ///
    /// # Errors
    /// The system's.
    pub fn remove_through(&self, floor: Timestamp) -> Result<usize, WalError> {
        self.0.directory.remove_through(self.node(), floor)
    }

    /// Writes all that was appended, and closes the log. Then nothing but what the caller has keeps
    /// the directory for this process.
    ///
    /// # Errors
    /// What became of the last batch, when that was not lasting; the log has failed; the deadline.
    pub async fn close(&self, handle: &Handle, deadline: Time) -> Result<(), WalError> {
        self.0.shared.close();
        within(handle, deadline, "closing the log", self.0.shared.ended.wait()).await?
    }

    /// What the log has done so far.
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
