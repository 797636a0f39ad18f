//! [`WalError`].

use std::io;
use std::time::Duration;

use latchwork_runtime::sync::Arc;
use thiserror::Error;

use crate::{DatabaseId, LogSettingsError, NodeId};

/// The reason why a log operation failed. All records of one flush batch get the same error.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum WalError {
    /// The system refused an operation outside the append path, for example an opening, a read, a
    /// new segment, or a write of a checkpoint or of the witness.
    #[error("{file}: {doing} failed: {cause}")]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file, or the directory.
        file: String,
        /// The system's error.
        cause: Arc<io::Error>,
    },
    /// The device is full: like [`Io`](WalError::Io), for an operation that needs room.
    #[error(
        "{file}: {doing} failed: {cause}; make room on the device and try again: nothing of the database is lost, and \
         it can be read meanwhile"
    )]
    Full {
        /// The operation that failed.
        doing: &'static str,
        /// The file, or the directory.
        file: String,
        /// The system's error.
        cause: Arc<io::Error>,
    },
    /// The directory was opened to be read.
    #[error("{directory} was opened to be read only: open it to write")]
    ReadOnly {
        /// The directory.
        directory: String,
    },
    /// Another process has opened the directory, or this process has opened it before.
    #[error("{directory} is in use by process {by}: end that process, or use another directory")]
    InUse {
        /// The directory.
        directory: String,
        /// The process.
        by: String,
    },
    /// The node's log is open, or it has failed.
    #[error("node {} has its log open already, or it failed: open the directory again", node.0)]
    NodeInUse {
        /// The node.
        node: NodeId,
    },
    /// A node with this number cannot have a log.
    #[error("node {} cannot have a log: nodes are 0 to {}", node.0, crate::Timestamp::NODES_MAX - 1)]
    Node {
        /// The node.
        node: NodeId,
    },
    /// The directory belongs to another database.
    #[error(
        "{file} belongs to database {:016x}, not to {:016x}: name the directory of this database, or an empty one",
        found.0, expected.0
    )]
    OtherDatabase {
        /// The file.
        file: String,
        /// The database of the file.
        found: DatabaseId,
        /// The expected database.
        expected: DatabaseId,
    },
    /// Another version of this program wrote the file.
    #[error(
        "{file} has log format {found}, this program understands {understood}: use the version that wrote it"
    )]
    Version {
        /// The file.
        file: String,
        /// Its format.
        found: u32,
        /// The format that this program understands.
        understood: u32,
    },
    /// Durable data is not as it was written.
    #[error("{file} is damaged at byte {offset}: {what}; {}", remedy(*acceptable))]
    Damaged {
        /// The file.
        file: String,
        /// The offset of the first byte of the damaged record, header or file.
        offset: u64,
        /// The damage.
        what: &'static str,
        /// [Accepting the loss](crate::Opening::accept_loss) gives a state.
        acceptable: bool,
    },
    /// A file that must be there is missing.
    #[error(
        "{file} is missing in {directory}, and what it held is in no checkpoint; {}",
        remedy(*acceptable)
    )]
    Missing {
        /// The file.
        file: String,
        /// The directory.
        directory: String,
        /// [Accepting the loss](crate::Opening::accept_loss) gives a state.
        acceptable: bool,
    },
    /// The checkpoint or a part of it is missing. Its rows are in no log, so no consistent state is
    /// left.
    #[error(
        "{file} is missing in {directory}, and what the checkpoint held is nowhere else; {}",
        remedy(false)
    )]
    NoCheckpoint {
        /// The file.
        file: String,
        /// The directory.
        directory: String,
    },
    /// A log ends before a position up to which it is known to have been durable.
    #[error(
        "{file} in {directory} ends at byte {bytes}, and was durable up to byte {least} at least: {groups} commits or more are \
         lost; {}",
        remedy(*acceptable)
    )]
    Lost {
        /// The segment to which the log went at least.
        file: String,
        /// The directory.
        directory: String,
        /// The byte at which the log ends in the file; 0 when the log ends in an earlier file.
        bytes: u64,
        /// Bytes that the file had at least.
        least: u64,
        /// Commits that are missing at least.
        groups: u64,
        /// [Accepting the loss](crate::Opening::accept_loss) gives a state.
        acceptable: bool,
    },
    /// The loss is too large to accept: the checkpoint shows commits that the log has lost.
    #[error(
        "{file} in {directory} ends at byte {bytes}, and the checkpoint shows what was committed behind that; {}",
        remedy(false)
    )]
    LostBelowCheckpoint {
        /// The segment in which the log ends; the first one when nothing is left.
        file: String,
        /// The directory.
        directory: String,
        /// Bytes of the segment that count.
        bytes: u64,
    },
    /// A flush batch could not be written. The record that gets this error is not in the log, now
    /// or after a restart. While the flusher retries a batch that must not be refused, each append
    /// gets this error, too.
    #[error("{file}: the commit could not be written and is not in the log: {cause}")]
    Refused {
        /// The segment.
        file: String,
        /// The system's error.
        cause: Arc<io::Error>,
    },
    /// The log has failed and takes no more records. After a restart, an unacknowledged commit is
    /// there as a whole or not at all.
    #[error("{file}: {doing} failed: {cause}; the log takes nothing more, start again to recover")]
    Failed {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        file: String,
        /// The system's error.
        cause: Arc<io::Error>,
    },
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// The backlog is full.
    #[error(
        "{waiting} bytes wait to be written, {most} may: wait for room, and look at the log's device"
    )]
    Backlog {
        /// The bytes that wait to be written.
        waiting: usize,
        /// The largest backlog, from the settings.
        most: usize,
    },
    /// The timestamp is not above the checkpoint's floor, so replay would ignore the commit.
    #[error("a commit at {timestamp} is impossible: the checkpoint in place has the floor {floor}")]
    Stale {
        /// The timestamp of the log record.
        timestamp: crate::Timestamp,
        /// The floor.
        floor: crate::Timestamp,
    },
    /// The log record is too large for the log.
    #[error("a commit of {bytes} bytes is too large for the log: {most} are possible")]
    TooLarge {
        /// The bytes of the record.
        bytes: usize,
        /// The most bytes possible.
        most: usize,
    },
    /// Another checkpoint is being written.
    #[error("a checkpoint is being written: wait until it is published or dropped")]
    CheckpointUnderWay,
    /// The floor is below that of the checkpoint in place. The segments that such a checkpoint
    /// needs may have been removed.
    #[error("a checkpoint with the floor {floor} is impossible: the one in place has {least}")]
    Floor {
        /// The floor that was given.
        floor: crate::Timestamp,
        /// The floor of the checkpoint in place.
        least: crate::Timestamp,
    },
    /// A part of the checkpoint was begun and not finished.
    #[error(
        "the checkpoint has {begun} parts, of which {finished} are finished: it cannot be published"
    )]
    Unfinished {
        /// Parts begun.
        begun: usize,
        /// Parts finished.
        finished: usize,
    },
    /// The deadline passed.
    #[error("{what} took longer than {waited:?}")]
    Timeout {
        /// The operation that took too long.
        what: &'static str,
        /// The time waited.
        waited: Duration,
    },
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] LogSettingsError),
}

/// What helps against a loss. The advice to accept it is given only where that gives a state.
fn remedy(acceptable: bool) -> &'static str {
    if acceptable {
        "restore the directory from a copy, or go on without what is lost (--set accept-loss=on; in code, accept_loss)"
    } else {
        "no state is left without what is lost: restore the directory from a copy, or make the database anew in an empty one"
    }
}

impl WalError {
    /// This error; if it is a loss, it states whether `can_accept` says that accepting it helps.
    pub(crate) fn advise(mut self, can_accept: impl FnOnce() -> bool) -> WalError {
        if let WalError::Damaged { acceptable, .. }
        | WalError::Missing { acceptable, .. }
        | WalError::Lost { acceptable, .. } = &mut self
        {
            *acceptable = can_accept();
        }
        self
    }

    pub(crate) fn io(doing: &'static str, file: &str, cause: io::Error) -> WalError {
        let full =
            matches!(cause.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        let (file, cause) = (file.to_owned(), Arc::new(cause));
        if full {
            WalError::Full { doing, file, cause }
        } else {
            WalError::Io { doing, file, cause }
        }
    }

    /// Whether the log takes nothing more: only a restart recovers it. After any other error of the
    /// device the same log may go on later, for example when a full device has room again.
    pub fn is_final(&self) -> bool {
        matches!(self, WalError::Failed { .. } | WalError::Closed)
    }

    /// This error, turned into the reason why the log has failed.
    pub(crate) fn into_failed(self) -> WalError {
        match self {
            WalError::Io { doing, file, cause } | WalError::Full { doing, file, cause } => {
                WalError::Failed { doing, file, cause }
            }
            other => other,
        }
    }

    pub(crate) fn damaged(file: &str, offset: u64, what: &'static str) -> WalError {
        WalError::Damaged { file: file.to_owned(), offset, what, acceptable: false }
    }

    pub(crate) fn missing(file: &str, directory: String) -> WalError {
        WalError::Missing { file: file.to_owned(), directory, acceptable: false }
    }
}
