//! The log of a run: files in a directory, or in a simulated world bytes in memory, on a device that takes its time.

use crate::args::Wal;
use crate::settings::Settings;
use latchwork_harness::AppError;
use latchwork_runtime::Handle;
use latchwork_txn::{DatabaseId, NodeId};
use latchwork_wal::storage::{Disk, Storage, Torn};
use latchwork_wal::{Device, Log, LogDirectory, Mode, Stats, WalError};
use std::sync::Arc;

/// Where the logs of all compute nodes are, and how they work.
pub(crate) struct Logs {
    directory: Arc<LogDirectory>,
    settings: latchwork_wal::Settings,
    /// What a simulated device takes.
    device: Option<Device>,
}

impl Logs {
    /// Opens what the settings ask for, if they ask for any.
    pub(crate) fn open(settings: &Settings) -> Result<Option<Logs>, AppError> {
        let mode = match settings.wal {
            Wal::Off => return Ok(None),
            Wal::Async => Mode::Async,
            Wal::Sync => Mode::Sync,
        };
        let (storage, device): (Arc<dyn Storage>, _) = match &settings.wal_dir {
            Some(path) => {
                let disk = Disk::new(path).map_err(|error| AppError::unwritable(path, &error))?;
                (Arc::new(disk), None)
            }
            None => (Arc::new(Torn::new(settings.cluster.seed)), Some(Device::default())),
        };
        if LogDirectory::identify(&*storage).map_err(|error| failed(&error))?.is_some() {
            return Err(AppError::Usage(format!(
                "--wal-dir {}: there is the log of a database already; give the directory of none",
                storage.describe()
            )));
        }
        let id = DatabaseId(settings.cluster.seed);
        let directory = LogDirectory::open(storage, id).map_err(|error| failed(&error))?;
        let settings = latchwork_wal::Settings { mode, ..latchwork_wal::Settings::default() };
        Ok(Some(Logs { directory, settings, device }))
    }

    /// Opens a compute node's log; a simulated one is written by the worker of `handle`.
    pub(crate) fn start(&self, node: NodeId, handle: &Handle) -> Result<Log, AppError> {
        let (directory, settings) = (&self.directory, self.settings.clone());
        let log = match self.device {
            None => Log::threaded(directory, node, settings),
            Some(device) => Log::simulated(directory, node, settings, handle, device),
        };
        log.map_err(|error| failed(&error))
    }
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
