//! [`ShmError`]: what can go wrong between processes.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use latchwork_verbs::{RegionError, SetupError};
use thiserror::Error;

/// Why nodes of several processes could not be brought together.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShmError {
    /// What any fabric may refuse.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The memory cannot be mapped.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The operating system refused something about a file.
    #[error("{}: {action}: {error}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// The directory is another user's.
    #[error(
        "{}: it belongs to the user with id {owner}, and this process runs as {user}; name another \
         directory with --shm-dir, or run as that user",
        path.display()
    )]
    OtherUser {
        /// The directory.
        path: PathBuf,
        /// The directory's owner.
        owner: u32,
        /// The user of this process.
        user: u32,
    },
    /// The directory has less room than is asked for. Nothing was taken.
    #[error("{}: room for {free} bytes, and {bytes} are needed: enlarge it, or ask for less", path.display())]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// Bytes that were asked for.
        bytes: u64,
        /// Bytes that there are.
        free: u64,
    },
    /// Fabrics of several processes are built on what Linux has.
    #[error("shared memory of several processes needs Linux: use sockets here")]
    NotHere,
    /// The fabric is not in a directory.
    #[error(
        "this fabric is of one process: make it with Fabric::in_directory to have peers in others"
    )]
    OneProcess,
    /// The text is no contact.
    #[error("{text:?} is no contact of a node in shared memory: take what Fabric::contact gives")]
    Contact {
        /// The text.
        text: String,
    },
    /// The contact is of another directory.
    #[error("{}: not in {}: all processes of a fabric use one directory", path.display(), directory.display())]
    OtherDirectory {
        /// The peer's file.
        path: PathBuf,
        /// This process's directory.
        directory: PathBuf,
    },
    /// The process that the contact is of has ended.
    #[error("{}: its process has ended: a node that comes back has a new contact", path.display())]
    Ended {
        /// The peer's file.
        path: PathBuf,
    },
    /// The file is not this user's own, or not a plain one.
    #[error("{}: no plain file of this user: give the fabric a directory of its own", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file is not what it should be.
    #[error("{}: not as its contact says: all processes must be of one version", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
    },
    /// There is a node of this name already, or there was this very start of it.
    #[error("{node} is known: one that comes back after it was cut off needs a new contact")]
    Known {
        /// Its name.
        node: String,
    },
    /// There is no such node.
    #[error("{node} is not known: add it as a peer first")]
    Unknown {
        /// Its name.
        node: String,
    },
    /// Whoever shall be stopped is this process.
    #[error("{}: this is a file of the process itself, which does not stop itself", path.display())]
    OwnProcess {
        /// The file.
        path: PathBuf,
    },
    /// It is not certain which process is meant.
    #[error("{}: {why}: nobody was stopped, end the process by hand", path.display())]
    Unproven {
        /// The file of the process that should be stopped.
        path: PathBuf,
        /// What is uncertain.
        why: &'static str,
    },
    /// A process was killed, and is still there.
    #[error("process {pid} was killed and has not ended within {patience:?}: its memory is in use")]
    NotEnded {
        /// The process.
        pid: i32,
        /// How long it was waited for.
        patience: Duration,
    },
}

impl ShmError {
    /// The same as far as the errors of all fabrics can say it.
    pub(crate) fn setup(self) -> SetupError {
        match self {
            ShmError::Setup(error) => error,
            ShmError::Region(error) => error.into(),
            ShmError::NoRoom { bytes, free, .. } => SetupError::NoRoom { bytes, free },
            ShmError::File { action, error, .. } => {
                SetupError::System { call: action, errno: error.raw_os_error().unwrap_or(0) }
            }
            _ => SetupError::System { call: "shared memory", errno: 0 },
        }
    }
}
