//! The log of a run: files in a directory, or in a simulated world bytes in memory, on a device
//! that takes its time. And what comes back from it.

use crate::about::{About, table_id};
use crate::args::Wal;
use latchwork_database::{OpenError, draw_id, replay};
use latchwork_harness::AppError;
use latchwork_harness::outcome::say;
use latchwork_runtime::{Clock, Handle};
use latchwork_txn::{DatabaseId, NodeId, Recovery};
use latchwork_wal::storage::{Disk, Storage, Torn};
use latchwork_wal::{Device, Log, LogDirectory, Mode, Opening, Stats, Timestamp, WalError};
use latchwork_workload::tpcc::Table;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Where the logs of all compute nodes are, and how they work.
pub(crate) struct Logs {
    pub(crate) directory: Arc<LogDirectory>,
    /// `None`: nothing is written.
    mode: Option<Mode>,
    /// What a simulated device takes.
    device: Option<Device>,
}

/// A database that is in a log.
pub(crate) struct Stored {
    pub(crate) about: About,
    pub(crate) recovery: Recovery,
    /// Live rows of each table.
    pub(crate) rows: [u64; Table::ALL.len()],
    /// Bytes of all keys and rows.
    pub(crate) bytes: u64,
    /// Transactions over several nodes since the last checkpoint: that had committed, and that had
    /// not.
    pub(crate) distributed: (usize, usize),
    /// How long reading it took.
    pub(crate) replay: Duration,
}

impl Logs {
    /// The log of a database that is to be made, in a directory that holds none; in memory without
    /// a directory. `device` is that of a simulated one.
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

    /// The log of one node of a cluster of processes, whose other nodes have theirs elsewhere; `id`
    /// is that of the database.
    pub(crate) fn of_node(wal: Wal, path: &Path, id: u64) -> Result<Logs, AppError> {
        Logs::begin(disk(path)?, None, id, wal)
    }

    /// What tells a database from another that was made in the same way.
    pub(crate) fn draw_id(seed: u64) -> u64 {
        draw_id(seed).0
    }

    fn begin(
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

    /// The log of a database that was made before, and that database. `wal` is off where nothing is
    /// to be added. `accept_loss`: a loss of the log is no error, and standard error names it.
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
        // A device that is full or cannot be written is no obstacle where nothing is added.
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
        let (mut rows, mut bytes) = ([0; Table::ALL.len()], 0);
        for (id, latest) in replayed.keys() {
            let Some(value) = &latest.value else { continue };
            bytes += (latest.key.len() + value.len()) as u64;
            let table = Table::ALL.into_iter().find(|table| table_id(*table) == id);
            table.into_iter().for_each(|table| rows[table as usize] += 1);
        }
        let recovery = Recovery::new(replayed);
        let replay = clock.now() - begin;
        let distributed = (resolved.commits.len(), resolved.aborted);
        let stored = Stored { about, recovery, rows, bytes, distributed, replay };
        Ok((Logs { directory, mode: mode(wal), device: None }, stored))
    }

    /// Whether anything is to be written.
    pub(crate) fn are_written(&self) -> bool {
        self.mode.is_some()
    }

    /// Whether it is of a simulated world.
    pub(crate) fn is_simulated(&self) -> bool {
        self.device.is_some()
    }

    /// What a sync of the simulated disk takes.
    pub(crate) fn simulated_sync(&self) -> Option<Duration> {
        self.device.map(|device| device.sync)
    }

    /// Opens a compute node's log, if any is to be written; a simulated one is written by the
    /// worker of `handle`.
    pub(crate) fn start(&self, node: NodeId, handle: &Handle) -> Result<Option<Log>, WalError> {
        let Some(mode) = self.mode else { return Ok(None) };
        let settings = latchwork_wal::Settings { mode, ..latchwork_wal::Settings::default() };
        let log = match self.device {
            None => Log::threaded(&self.directory, node, settings),
            Some(device) => Log::simulated(&self.directory, node, settings, handle, device),
        };
        log.map(Some)
    }
}

/// Tells what is lost, at once: whatever fails later, it is lost.
fn tell_losses(directory: &LogDirectory, accept_loss: bool) {
    // Without the flag they are those of a cut that was interrupted, and is complete now.
    for loss in directory.losses() {
        say(&format!("tpcc: accept-loss: {loss}"));
    }
    if accept_loss && directory.losses().is_empty() {
        say("tpcc: accept-loss: the log has lost nothing that is known");
    }
}

/// The error that ends a run when a database cannot be opened.
pub(crate) fn open_failed(error: &OpenError) -> AppError {
    AppError::Failed(error.to_string())
}

fn mode(wal: Wal) -> Option<Mode> {
    match wal {
        Wal::Off => None,
        Wal::Async => Some(Mode::Async),
        Wal::Sync => Some(Mode::Sync),
    }
}

fn disk(path: &Path) -> Result<Arc<Disk>, AppError> {
    let disk = Disk::new(path).map_err(|error| AppError::unwritable(path, &error))?;
    Ok(Arc::new(disk))
}

pub(crate) fn failed(error: &WalError) -> AppError {
    AppError::Failed(format!("the log failed: {error}"))
}

/// What several logs have done together.
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

/// What logs have done since.
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
