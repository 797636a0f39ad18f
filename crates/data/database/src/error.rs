//! [`DatabaseOpenError`]: the errors of an opening.

use std::time::Duration;

use latchwork_cluster::ClusterError;
use latchwork_memnode::{ObjectKind, PoolError};
use latchwork_partition::BadCommitRecord;
use latchwork_txn::TxnError;
use latchwork_wal::WalError;
use thiserror::Error;

/// The reason why a database could not be opened, or not closed.
#[derive(Debug, Error)]
pub enum DatabaseOpenError {
    /// A log failed.
    #[error("the log failed: {0}")]
    Log(#[from] WalError),
    /// A table or a transaction failed.
    #[error("the database failed: {0}")]
    Txn(#[from] TxnError),
    /// The catalogue of the memory pool failed.
    #[error("the database cannot be opened: {0}")]
    Catalogue(#[from] PoolError),
    /// The cluster failed.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// A record of two-phase commit is damaged.
    #[error(transparent)]
    Record(#[from] BadCommitRecord),
    /// Another worker has not done its part of the opening or closing in time.
    #[error("{what} within {waited:?}")]
    Late {
        /// The part that is missing.
        what: String,
        /// The time for which this worker has waited.
        waited: Duration,
    },
    /// The caller has stopped the opening.
    #[error("the opening was stopped")]
    Stopped,
    /// Another worker has met an error, or an earlier opening of this instance has failed. The
    /// instance stays unusable.
    #[error(
        "the instance has failed, on another worker or earlier: {cause}; start a new cluster and open the database there"
    )]
    Elsewhere {
        /// The first error of all workers.
        cause: String,
    },
    /// The options name a table that the database has with other columns, keys or indexes.
    #[error(
        "the database has a table {table} with another schema: use the schema that made it, or another directory"
    )]
    OtherSchema {
        /// The table.
        table: String,
    },
    /// The directory cannot be used.
    #[error("{path} cannot be used as the directory of a log: {cause}")]
    Directory {
        /// The directory.
        path: String,
        /// The error of the operating system.
        cause: std::io::Error,
    },
    /// The path of the directory is empty.
    #[error("the directory of a log is an empty path: name a directory, or . for the current one")]
    NoPath,
    /// This process already has the directory open.
    #[error(
        "{directory} is open in this process: close the other instance and drop all its clones, or use another directory \
         (a container that shares the directory may have the same process number)"
    )]
    OpenHere {
        /// The directory.
        directory: String,
    },
    /// The name belongs to an object that is no database.
    #[error("the name {name:?} belongs to {kind}, and not to a database: use another name")]
    OtherKind {
        /// The name.
        name: String,
        /// The kind of the object.
        kind: ObjectKind,
    },
    /// The memory of the cluster has a database of this name already. Its content may differ from
    /// that of the log.
    #[error(
        "the cluster has a database {name} in its memory already, which need not be what the log in {directory} holds: \
         start a new cluster and open the log there, go on with the instance that opened it here, or use another name"
    )]
    InMemory {
        /// The name.
        name: String,
        /// The directory of the log.
        directory: String,
    },
    /// The memory of the cluster has a database of this name with a log.
    #[error(
        "the database {name} in the memory of the cluster has a log, which would lack the commits of an instance \
         without one: go on with the instance that opened it, or use another name"
    )]
    HasLog {
        /// The name.
        name: String,
    },
    /// The instance was opened on another cluster.
    #[error(
        "the instance of the database {name} belongs to the cluster on which it was run first: use a new instance for \
         another cluster"
    )]
    OtherCluster {
        /// The name.
        name: String,
    },
    /// The worker does not belong to the cluster for which the instance was made.
    #[error(
        "worker {worker} of node {node} does not belong to this instance: it is for {nodes} nodes with {workers} workers \
         each, all in this process"
    )]
    NoMember {
        /// The number of the worker, from 0.
        worker: usize,
        /// The number of its node, from 0.
        node: usize,
        /// The number of nodes of the instance.
        nodes: usize,
        /// The number of workers of each node.
        workers: usize,
    },
    /// A checkpoint needs a log.
    #[error("a database without a log has no checkpoints: open it in a directory")]
    NoLog,
}
