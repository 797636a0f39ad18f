//! [`Error`]: why a program on a cluster failed.

use std::fmt;
use std::time::Duration;

#[cfg(feature = "processes")]
use latchwork_cluster::JoinError;
use latchwork_cluster::{ClusterError, ConfigError, SettingError};
use latchwork_coherence::MemoryError;
use latchwork_database::DatabaseOpenError;
#[cfg(feature = "processes")]
use latchwork_membership::MembershipError;
use latchwork_memnode::{ObjectKind, PoolError};
use latchwork_txn::TxnError;
use latchwork_txn::schema::SchemaError;
#[cfg(feature = "processes")]
use latchwork_verbs_tcp::TcpError;
use thiserror::Error;

/// The result of an operation on a [`Cluster`](crate::Cluster).
pub type Result<T> = std::result::Result<T, Error>;

/// Why a program on a [`Cluster`](crate::Cluster) failed. Every error of configurations,
/// memberships, trees, databases and memory converts into it, and so does an error of the operating
/// system. So a body of [`run`](crate::Cluster::run) needs only `?`.
///
/// The form for debugging is the sentence, too: a `main` that returns the error prints it so.
#[derive(Error)]
#[non_exhaustive]
pub enum Error {
    /// The name belongs to an object of another kind.
    #[error("the name {name:?} belongs to {found}, and not to {wanted}: use another name")]
    OtherKind {
        /// The name.
        name: String,
        /// The kind of the object that has the name.
        found: ObjectKind,
        /// The kind that was asked for.
        wanted: ObjectKind,
    },
    /// A tree was not open in time.
    #[error(
        "the tree {name:?} was not open within {waited:?}, and waited for {step} last: the node that \
         has it may be gone, or give the cluster more patience (Cluster::with_patience)"
    )]
    Late {
        /// The name of the tree.
        name: String,
        /// The step of the opening that was not complete.
        step: &'static str,
        /// The patience of the cluster.
        waited: Duration,
    },
    /// No open database has this name.
    #[error(
        "there is no open database {name:?}: call Cluster::database({name:?}) with its tables, and \
         open() on that, before run()"
    )]
    NoDatabase {
        /// The name.
        name: String,
    },
    /// The database is open.
    #[error("the database {name:?} is open on this cluster already: each is opened once")]
    AlreadyOpen {
        /// The name.
        name: String,
    },
    /// A log needs all compute nodes in one process.
    #[error(
        "the database {name:?} cannot have a log, because its compute nodes are several processes: \
         open it without one, or start the cluster in one process (Cluster::start)"
    )]
    LogOfProcesses {
        /// The name.
        name: String,
    },
    /// A worker of an earlier run panicked.
    #[error("the cluster failed in an earlier run: {cause}")]
    Failed {
        /// The error of that run.
        cause: String,
    },
    /// The cluster failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The process could not join a cluster of processes, or not leave it.
    #[cfg(feature = "processes")]
    #[error(transparent)]
    Join(JoinError),
    /// A database could not be opened, or not closed.
    #[error(transparent)]
    Database(DatabaseOpenError),
    /// An operation on a tree failed.
    #[error(transparent)]
    Tree(#[from] latchwork_blink::TreeError),
    /// An operation on an R-tree failed.
    #[error(transparent)]
    RTree(#[from] latchwork_rtree::RTreeError),
    /// A transaction failed.
    #[error(transparent)]
    Transaction(#[from] TxnError),
    /// A schema is wrong.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// The coherent memory failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The memory pool failed.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The program's own error.
    #[error(transparent)]
    Program(#[from] Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// An error of the program itself, from a text or from any other error.
    pub fn program(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        Error::Program(error.into())
    }

    /// Whether the error only repeats the error of another worker.
    pub(super) fn is_echo(&self) -> bool {
        matches!(self, Error::Database(DatabaseOpenError::Elsewhere { .. }))
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<DatabaseOpenError> for Error {
    fn from(error: DatabaseOpenError) -> Error {
        match error {
            DatabaseOpenError::Cluster(error) => Error::Cluster(error),
            error => Error::Database(error),
        }
    }
}

#[cfg(feature = "processes")]
impl From<JoinError> for Error {
    fn from(error: JoinError) -> Error {
        match error {
            JoinError::Cluster(error) => Error::Cluster(error),
            error => Error::Join(error),
        }
    }
}

#[cfg(feature = "processes")]
impl From<MembershipError> for Error {
    fn from(error: MembershipError) -> Error {
        JoinError::from(error).into()
    }
}

#[cfg(feature = "processes")]
impl From<TcpError> for Error {
    fn from(error: TcpError) -> Error {
        JoinError::from(error).into()
    }
}

impl From<ConfigError> for Error {
    fn from(error: ConfigError) -> Error {
        ClusterError::from(error).into()
    }
}

impl From<SettingError> for Error {
    fn from(error: SettingError) -> Error {
        Error::program(error)
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        Error::program(error)
    }
}

impl From<&str> for Error {
    fn from(text: &str) -> Error {
        Error::program(text)
    }
}

impl From<String> for Error {
    fn from(text: String) -> Error {
        Error::program(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: an example whose `main` returned the error printed `Error: Pool(NotFound {..})`.
    #[test]
    fn a_program_that_returns_the_error_prints_a_sentence() {
        let error = Error::NoDatabase { name: "bank".to_owned() };
        assert_eq!(format!("{error:?}"), error.to_string());
    }

    #[cfg(feature = "processes")]
    #[test]
    fn an_endpoint_that_cannot_be_is_an_error_of_the_program() {
        let opened = latchwork_membership::open("nowhere").map(drop);
        let error = opened.map_err(Error::from).expect_err("no store");
        assert!(error.to_string().contains("write etcd://HOST:PORT/CLUSTER"), "{error}");
    }
}
