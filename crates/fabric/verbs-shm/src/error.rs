//! [`ShmError`]: errors of calls that concern the nodes and processes of a fabric.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use latchwork_verbs::{RegionError, SetupError};
use thiserror::Error;

/// Why a call about nodes or processes of a fabric failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ShmError {
    /// An error that other fabrics have, too.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The memory cannot be allocated or mapped.
    #[error(transparent)]
    Region(#[from] RegionError),
    /// The operating system refused a call on a file or directory.
    #[error("{}: {action}: {error}", path.display())]
    File {
        /// The action that failed.
        action: &'static str,
        /// The file or directory of the action.
        path: PathBuf,
        /// The error of the operating system.
        error: io::Error,
    },
    /// The directory belongs to another user.
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
    /// The directory, or the memory behind the directory, has less room than was requested. The
    /// failed call leaves nothing allocated.
    #[error("{}: room for {free} bytes, and {bytes} are needed: enlarge it, or ask for less", path.display())]
    NoRoom {
        /// The directory.
        path: PathBuf,
        /// The bytes that were requested.
        bytes: u64,
        /// The bytes that were free before the request; if unknown, the bytes that could be
        /// allocated.
        free: u64,
    },
    /// This system has no fabrics of several processes, because they need Linux.
    #[error("shared memory of several processes needs Linux: use sockets here")]
    NotHere,
    /// The call needs a fabric in a directory, and this fabric is of one process.
    #[error(
        "this fabric is of one process: make it with Fabric::in_directory to have peers in others"
    )]
    OneProcess,
    /// The text is not a contact.
    #[error("{text:?} is no contact of a node in shared memory: take what Fabric::contact gives")]
    Contact {
        /// The text.
        text: String,
    },
    /// The contact belongs to another directory.
    #[error("{}: not in {}: all processes of a fabric use one directory", path.display(), directory.display())]
    OtherDirectory {
        /// The peer's file.
        path: PathBuf,
        /// This process's directory.
        directory: PathBuf,
    },
    /// The process that made the contact has ended.
    #[error("{}: its process has ended: a node that comes back has a new contact", path.display())]
    Ended {
        /// The peer's file.
        path: PathBuf,
    },
    /// The file is not a plain file of this user.
    #[error("{}: no plain file of this user: give the fabric a directory of its own", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// The file does not have the content that its contact promises.
    #[error("{}: not as its contact says: all processes must be of one version", path.display())]
    Layout {
        /// The file.
        path: PathBuf,
    },
    /// A node of this name is already known, or this contact was added before.
    #[error("{node} is known: one that comes back after it was cut off needs a new contact")]
    Known {
        /// The name of the node.
        node: String,
    },
    /// This process has no node of this name.
    #[error("{node} is not known: add it as a peer first")]
    Unknown {
        /// The name of the node.
        node: String,
    },
    /// The process to be stopped is this process.
    #[error("{}: this is a file of the process itself, which does not stop itself", path.display())]
    OwnProcess {
        /// The file.
        path: PathBuf,
    },
    /// It is not certain to which process the file belongs, so no process was killed.
    #[error("{}: {why}: nobody was stopped, end the process by hand", path.display())]
    Unproven {
        /// The file of the process that was to be stopped.
        path: PathBuf,
        /// The fact that is uncertain.
        why: &'static str,
    },
    /// A process was killed and still exists.
    #[error("process {pid} was killed and has not ended within {patience:?}: its memory is in use")]
    NotEnded {
        /// The process id.
        pid: i32,
        /// The time for which the call waited.
        patience: Duration,
    },
}

impl ShmError {
    /// Converts the error to the closest [`SetupError`].
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
