//! The opening and the replay of a directory of logs.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::Arc;

use latchwork_partition::{Resolved, resolve};
use latchwork_txn::DatabaseId;
use latchwork_wal::storage::Storage;
use latchwork_wal::{LogDirectory, Opening, Replayed, WalError};

use crate::DatabaseOpenError;

/// Opens the directory of a database. An empty directory becomes that of a new database.
pub(crate) fn open(
    storage: Arc<dyn Storage>,
    accept_loss: bool,
) -> Result<Arc<LogDirectory>, DatabaseOpenError> {
    let known = LogDirectory::identify(&*storage)?;
    let id = known.unwrap_or_else(|| draw_id(0));
    let opening = Opening { accept_loss, ..Opening::default() };
    LogDirectory::open_as(storage, id, opening).map_err(|error| match error {
        WalError::InUse { directory, by } if by == std::process::id().to_string() => {
            DatabaseOpenError::OpenHere { directory }
        }
        error => error.into(),
    })
}

/// Draws the id of a database at random. Two calls return different ids with near certainty, even
/// for the same `seed`.
pub fn draw_id(seed: u64) -> DatabaseId {
    DatabaseId(RandomState::new().hash_one(seed))
}

/// Reads the checkpoint and all logs of a directory with `threads` threads, and resolves the
/// transactions of two-phase commit ([`resolve`]).
///
/// # Errors
/// Damage, and errors of the operating system. No log of the directory may be open.
pub fn replay(
    directory: &LogDirectory,
    threads: usize,
) -> Result<(Replayed, Resolved), DatabaseOpenError> {
    let mut replayed = directory.replay(threads)?;
    let resolved = resolve(&replayed.notes, directory.floor())?;
    resolved.merge_into(&mut replayed);
    Ok((replayed, resolved))
}
