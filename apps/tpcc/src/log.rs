//! The log of a run, and recovery from the log. A real log is files in a directory. In a simulated
//! world a log is bytes in memory, on a simulated device.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use latchwork_database::{DatabaseOpenError, draw_id, replay};
use latchwork_harness::AppError;
use latchwork_harness::outcome::say;
use latchwork_runtime::{Clock, Handle};
use latchwork_txn::{DatabaseId, NodeId, Recovery};
use latchwork_wal::storage::{Disk, Storage, Torn};
use latchwork_wal::{CommitMode, Device, Log, LogDirectory, Opening, Stats, Timestamp, WalError};
use latchwork_workload::tpcc::TpccTable;

use crate::about::{About, table_id};
use crate::args::Wal;

/// The logs of all compute nodes, and their mode.
pub(crate) struct Logs {
    pub(crate) directory: Arc<LogDirectory>,
    /// The mode, or `None` if the run writes no log.
    mode: Option<CommitMode>,
    /// The latencies of a simulated device.
    device: Option<Device>,
}

/// A stored database.
pub(crate) struct Stored {
    pub(crate) about: About,
    pub(crate) recovery: Recovery,
    /// Live rows of each table.
    pub(crate) rows: [u64; TpccTable::ALL.len()],
    /// Bytes of all keys and rows.
    pub(crate) bytes: u64,
    /// Distributed transactions in the logs since the last checkpoint: committed ones, and the
    /// others.
    pub(crate) distributed: (usize, usize),
    /// The duration of the replay.
    pub(crate) replay: Duration,
}

impl Logs {
    /// The log of a new database. With a path it is in that directory, which must have no log.
    /// Without a path it is in memory, on the simulated `device`.
    pub(crate) fn create(
        wal: Wal,
        path: Option<&Path>,
        seed: u64,
        device: Device,
    ) -> Result<Logs, AppError> {
        match path {
            Some(path) => Logs::begin(disk(path)?, None, Logs::draw_id(seed), wal),
            None => Logs::begin(Arc::new(Torn::new(seed)), Some(device), seed, wal),
        }
    }

    /// The log of one node of a cluster of processes. The other nodes have logs in other
    /// directories. `id` is the id of the database.
    pub(crate) fn of_node(wal: Wal, path: &Path, id: u64) -> Result<Logs, AppError> {
        Logs::begin(disk(path)?, None, id, wal)
    }

    /// Draws an id that distinguishes the database from another database with the same seed.
    pub(crate) fn draw_id(seed: u64) -> u64 {
        draw_id(seed).0
    }

    /// The logs of a new database in `storage`, on the simulated `device` if there is one.
    pub(crate) fn begin(
        storage: Arc<dyn Storage>,
        device: Option<Device>,
        id: u64,
        wal: Wal,
    ) -> Result<Logs, AppError> {
        if LogDirectory::identify(&*storage).map_err(|error| failed(&error))?.is_some() {
            return Err(AppError::Usage(format!(
                "--wal-dir {}: there is a database already; use the commands run or check with it, or the directory of \
                 none",
                storage.describe()
            )));
        }
        let directory = LogDirectory::open(storage, DatabaseId(id));
        Ok(Logs { directory: directory.map_err(|error| failed(&error))?, mode: mode(wal), device })
    }

    /// Opens the log of an existing database, and replays it. With `wal` off the run writes nothing
    /// into the log. With `accept_loss` a loss of the log is not an error, and standard error names
    /// the loss.
    pub(crate) fn recover(
        wal: Wal,
        path: &Path,
        threads: usize,
        accept_loss: bool,
    ) -> Result<(Logs, Stored), AppError> {
        let none = |what: &str| {
            let path = path.display();
            AppError::Usage(format!(
                "--wal-dir {path}: {what}; `tpcc prepare --wal-dir DIR` makes one in an empty directory"
            ))
        };
        if !path.is_dir() {
            return Err(none("there is no such directory, and no database"));
        }
        let storage = disk(path)?;
        let id = LogDirectory::identify(&*storage).map_err(|error| failed(&error))?;
        let id = id.ok_or_else(|| none("there is no database"))?;
        let clock = Clock::start();
        let begin = clock.now();
        // A run that writes nothing opens a log on a full or read-only device, too.
        let opening = Opening { to_read: wal == Wal::Off, accept_loss };
        let directory = LogDirectory::open_as(storage, id, opening);
        let directory = directory.map_err(|error| failed(&error))?;
        tell_losses(&directory, accept_loss);
        if directory.floor() == Timestamp::ZERO {
            return Err(none(
                "there is no checkpoint of a database: its preparation did not end, or it is the log of one node of many",
            ));
        }
        let (replayed, resolved) =
            replay(&directory, threads).map_err(|error| open_failed(&error))?;
        let about = About::find(&replayed);
        let about = about.ok_or_else(|| {
            none("there is no whole database of TPC-C: its preparation did not end, or it is another one")
        })?;
        let (mut rows, mut bytes) = ([0; TpccTable::ALL.len()], 0);
        for (id, latest) in replayed.keys() {
            let Some(value) = &latest.value else { continue };
            bytes += (latest.key.len() + value.len()) as u64;
            let table = TpccTable::ALL.into_iter().find(|table| table_id(*table) == id);
            table.into_iter().for_each(|table| rows[table as usize] += 1);
        }
        let recovery = Recovery::new(replayed);
        let replay = clock.now() - begin;
        let distributed = (resolved.commits.len(), resolved.aborted);
        let stored = Stored { about, recovery, rows, bytes, distributed, replay };
        Ok((Logs { directory, mode: mode(wal), device: None }, stored))
    }

    /// Whether the run writes the logs.
    pub(crate) fn are_written(&self) -> bool {
        self.mode.is_some()
    }

    /// Whether the run writes the logs, and into files.
    pub(crate) fn are_files(&self) -> bool {
        self.are_written() && !self.is_simulated()
    }

    /// Whether the log is of a simulated world.
    pub(crate) fn is_simulated(&self) -> bool {
        self.device.is_some()
    }

    /// The latency of a sync of the simulated disk.
    pub(crate) fn simulated_sync(&self) -> Option<Duration> {
        self.device.map(|device| device.sync)
    }

    /// Opens a compute node's log, if the run writes one. A simulated log is written by the worker
    /// of `handle`.
    pub(crate) fn start(&self, node: NodeId, handle: &Handle) -> Result<Option<Log>, WalError> {
        let Some(mode) = self.mode else { return Ok(None) };
        let settings = latchwork_wal::LogSettings { mode, ..latchwork_wal::LogSettings::default() };
        let log = match self.device {
            None => Log::threaded(&self.directory, node, settings),
            Some(device) => Log::simulated(&self.directory, node, settings, handle, device),
        };
        log.map(Some)
    }
}

/// Reports the losses at once, because the log is cut even if the run fails later.
fn tell_losses(directory: &LogDirectory, accept_loss: bool) {
    // Without the flag only an interrupted earlier cut has losses. It is complete now.
    for loss in directory.losses() {
        say(&format!("tpcc: accept-loss: {loss}"));
    }
    if accept_loss && directory.losses().is_empty() {
        say("tpcc: accept-loss: the log has lost nothing that is known");
    }
}

/// The error that ends a run when a database cannot be opened.
pub(crate) fn open_failed(error: &DatabaseOpenError) -> AppError {
    AppError::Failed(error.to_string())
}

fn mode(wal: Wal) -> Option<CommitMode> {
    match wal {
        Wal::Off => None,
        Wal::Async => Some(CommitMode::Async),
        Wal::Sync => Some(CommitMode::Sync),
    }
}

fn disk(path: &Path) -> Result<Arc<Disk>, AppError> {
    let disk = Disk::new(path).map_err(|error| AppError::unwritable(path, &error))?;
    Ok(Arc::new(disk))
}

pub(crate) fn failed(error: &WalError) -> AppError {
    AppError::Failed(format!("the log failed: {error}"))
}

/// The sum of several logs' statistics.
pub(crate) fn sum(all: impl Iterator<Item = Stats>) -> Stats {
    all.fold(Stats::default(), |sum, one| Stats {
        groups: sum.groups + one.groups,
        bytes: sum.bytes + one.bytes,
        syncs: sum.syncs + one.syncs,
        syncing: sum.syncing + one.syncing,
        sync_max: sum.sync_max.max(one.sync_max),
        refused: sum.refused + one.refused,
        segments: sum.segments + one.segments,
    })
}

/// The statistics of logs since an earlier reading.
pub(crate) fn since(now: Stats, before: Stats) -> Stats {
    Stats {
        groups: now.groups - before.groups,
        bytes: now.bytes - before.bytes,
        syncs: now.syncs - before.syncs,
        syncing: now.syncing.saturating_sub(before.syncing),
        sync_max: now.sync_max,
        refused: now.refused - before.refused,
        segments: now.segments - before.segments,
    }
}
