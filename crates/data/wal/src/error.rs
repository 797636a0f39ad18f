//! [`WalError`].

use std::io;
use std::time::Duration;

use latchwork_runtime::sync::Arc;
use thiserror::Error;

use crate::{DatabaseId, NodeId, SettingsError};

/// Why the log could not do something. Those of one batch all get the same error.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum WalError {
    /// The system refused something outside the log's own path: while opening, reading, or writing
    /// a checkpoint.
    #[error("{file}: {doing} failed: {cause}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The file, or the directory.
        file: String,
        /// The system's error.
        cause: Arc<io::Error>,
    },
    /// The device has no room for what the log cannot go on without.
    #[error(
        "{file}: {doing} failed: {cause}; make room on the device and try again: nothing of the database is lost, and \
         it can be read meanwhile"
    )]
    Full {
        /// What was being done.
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
    /// Another process works in the directory.
    #[error("{directory} is in use by process {by}: end that process, or use another directory")]
    InUse {
        /// The directory.
        directory: String,
        /// The process.
        by: String,
    },
    /// The node's log is open.
    #[error("node {} has its log open already, or it failed: open the directory again", node.0)]
    NodeInUse {
        /// The node.
        node: NodeId,
    },
    /// Nodes are numbered from 0.
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
        /// Whose it is.
        found: DatabaseId,
        /// Whose it should be.
        expected: DatabaseId,
    },
    /// The file was written by another version of this program.
    #[error(
        "{file} has log format {found}, this program understands {understood}: use the version that wrote it"
    )]
    Version {
        /// The file.
        file: String,
        /// Its format.
        found: u32,
        /// What this program understands.
        understood: u32,
    },
    /// What was lasting is not as it was written.
    #[error(
        "{file} is damaged at byte {offset}: {what}; restore the directory from a copy, or go on without what is lost \
         (--accept-loss; in code, accept_loss)"
    )]
    Damaged {
        /// The file.
        file: String,
        /// From which byte on.
        offset: u64,
        /// What is wrong there.
        what: &'static str,
    },
    /// A file that must be there is not.
    #[error(
        "{file} is missing in {directory}, and what it held is in no checkpoint: restore it from a copy, or go on \
         without what is lost (--accept-loss; in code, \
         accept_loss)"
    )]
    Missing {
        /// The file.
        file: String,
        /// The directory.
        directory: String,
    },
    /// The checkpoint is gone. Its rows are in no log, so there is no state to go on with.
    #[error(
        "{file} is missing in {directory}, and what the checkpoint held is nowhere else: put the file back, or restore \
         the directory from a copy"
    )]
    NoCheckpoint {
        /// The file.
        file: String,
        /// The directory.
        directory: String,
    },
    /// A log ends before a place up to which it is known to have been durable.
    #[error(
        "{file} in {directory} ends at byte {bytes}, and was durable up to byte {least} at least: {groups} commits or more are \
         lost; restore the directory from a copy, or go on without what is lost (--accept-loss; in code, \
         accept_loss)"
    )]
    Lost {
        /// The segment in which the log should end, or go on.
        file: String,
        /// The directory.
        directory: String,
        /// Bytes of whole commits that the file has; 0 when it is not there.
        bytes: u64,
        /// Bytes that it had at least.
        least: u64,
        /// Commits that are missing at least.
        groups: u64,
    },
    /// The loss is more than can be accepted: the checkpoint shows commits that the log has lost.
    #[error(
        "{file} in {directory} ends at byte {bytes}, and the checkpoint shows what was committed behind that: no state is left \
         without the lost commits; restore the directory from a copy"
    )]
    LostBelowCheckpoint {
        /// The segment in which the log ends; the first one when nothing is left.
        file: String,
        /// The directory.
        directory: String,
        /// Bytes of it that count.
        bytes: u64,
    },
    /// The batch could not be written. None of it is in the log, now and after a restart; the log
    /// goes on.
    #[error("{file}: the commit could not be written and is not in the log: {cause}")]
    Refused {
        /// The segment.
        file: String,
        /// The system's error.
        cause: Arc<io::Error>,
    },
    /// The log takes nothing any more. What was not acknowledged before may be there after a
    /// restart or not, each commit whole.
    #[error("{file}: {doing} failed: {cause}; the log takes nothing more, start again to recover")]
    Failed {
        /// What was being done.
        doing: &'static str,
        /// The file.
        file: String,
        /// The system's error.
        cause: Arc<io::Error>,
    },
    /// The log was closed.
    #[error("the log is closed")]
    Closed,
    /// More waits to be written than may.
    #[error(
        "{waiting} bytes wait to be written, {most} may: wait for room, and look at the log's device"
    )]
    Backlog {
        /// Bytes that wait.
        waiting: usize,
        /// The setting.
        most: usize,
    },
    /// A commit that no replay would take.
    #[error("a commit at {timestamp} is impossible: the checkpoint in place has the floor {floor}")]
    Stale {
        /// The group's timestamp.
        timestamp: crate::Timestamp,
        /// The floor.
        floor: crate::Timestamp,
    },
    /// A group of this size could not be read back.
    #[error("a commit of {bytes} bytes is too large for the log: {most} are possible")]
    TooLarge {
        /// The group's bytes.
        bytes: usize,
        /// The most there may be.
        most: usize,
    },
    /// One checkpoint at a time.
    #[error("a checkpoint is being written: wait until it is published or dropped")]
    CheckpointUnderWay,
    /// Logs that a checkpoint with this floor needs may be gone.
    #[error("a checkpoint with the floor {floor} is impossible: the one in place has {least}")]
    Floor {
        /// What was given.
        floor: crate::Timestamp,
        /// The floor of the checkpoint in place.
        least: crate::Timestamp,
    },
    /// A checkpoint without all its parts.
    #[error(
        "the checkpoint has {begun} parts, of which {finished} are finished: it cannot be published"
    )]
    Unfinished {
        /// Parts begun.
        begun: usize,
        /// Parts finished.
        finished: usize,
    },
    /// It took too long.
    #[error("{what} took longer than {waited:?}")]
    Timeout {
        /// What was waited for.
        what: &'static str,
        /// How long.
        waited: Duration,
    },
    /// Settings that cannot work.
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

impl WalError {
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

    /// The same, of something after which the log cannot go on.
    pub(crate) fn into_failed(self) -> WalError {
        match self {
            WalError::Io { doing, file, cause } | WalError::Full { doing, file, cause } => {
                WalError::Failed { doing, file, cause }
            }
            other => other,
        }
    }

    pub(crate) fn damaged(file: &str, offset: u64, what: &'static str) -> WalError {
        WalError::Damaged { file: file.to_owned(), offset, what }
    }
}
