//! What can go wrong between a node, its cluster and the store.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::name::NodeName;

/// Why a store or a cluster does not do what it was asked for. Each says what to do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// An endpoint that nobody understands.
    #[error(
        "{endpoint:?} is no store: {why}; write etcd://HOST:PORT/CLUSTER or file:/DIRECTORY/CLUSTER"
    )]
    Endpoint {
        /// What was given, without a password.
        endpoint: String,
        /// What is wrong with it.
        why: String,
    },
    /// The program has no client for etcd.
    #[error(
        "{endpoint:?} is in etcd, and this program was built without: build it with `--features latchwork-harness/etcd`, or use \
         file:/DIRECTORY/CLUSTER on one machine"
    )]
    NoEtcd {
        /// What was given, without a password.
        endpoint: String,
    },
    /// The directory of a store cannot be used.
    #[error("the directory {} cannot hold a cluster: {why}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// A state file that this program did not write, or not wholly.
    #[error(
        "{} is not the state of a cluster: {why}; end the cluster's processes, remove its directory, start anew",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Something in the store that this program did not write.
    #[error(
        "{key:?} in {store} is not understood: {why}; use another cluster name or the same release"
    )]
    Foreign {
        /// The store.
        store: String,
        /// The key.
        key: String,
        /// What is wrong with its value.
        why: String,
    },
    /// Nobody answers.
    #[error("{store} does not answer: {why}; is it started, is that its address, does it use TLS?")]
    Unreachable {
        /// The store.
        store: String,
        /// What the operating system or the library says.
        why: String,
    },
    /// The store does not let this program in.
    #[error("{store} refuses: {why}; check user, password and what that user may do")]
    Refused {
        /// The store.
        store: String,
        /// What it says.
        why: String,
    },
    /// The store answers with an error of its own.
    #[error("{store} fails: {why}; look at its log")]
    Failed {
        /// The store.
        store: String,
        /// What it says.
        why: String,
    },
    /// Something else holds the lock of a directory.
    #[error("{store} was locked for {limit:?} by process {holder}; end it if it is stopped")]
    Locked {
        /// The store.
        store: String,
        /// The process that holds it, as far as is known.
        holder: String,
        /// How long was waited.
        limit: Duration,
    },
    /// What was waited for did not happen.
    #[error("waited {limit:?} for {what}{trouble}")]
    Deadline {
        /// What was waited for.
        what: String,
        /// How long.
        limit: Duration,
        /// What hindered it: empty, or text that follows a comma.
        trouble: String,
    },
    /// The store knows no such lease: it has ended, or the store was reset.
    #[error("the lease has ended; the node must not go on, start it under another id")]
    LeaseEnded,
    /// This node has left the cluster.
    #[error("this node has left the cluster; join anew")]
    Left,
    /// Another process holds the id.
    #[error("{node} is in the cluster (epoch {epoch}); take another id, or wait until it has left")]
    Taken {
        /// The node.
        node: NodeName,
        /// Its epoch.
        epoch: u64,
    },
    /// The id belonged to a node that died.
    #[error(
        "{node} has died (epoch {epoch}) and its id is never given again; take another id, or a new cluster name"
    )]
    Dead {
        /// The node.
        node: NodeName,
        /// The epoch of the dead.
        epoch: u64,
    },
    /// No id is left.
    #[error("no id of a {kind} node is left: {dead} belong to the dead; use a new cluster name")]
    Full {
        /// "compute" or "memory".
        kind: &'static str,
        /// How many ids belong to nodes that died.
        dead: usize,
    },
    /// An id that no node can have.
    #[error("{id} is no id of a {kind} node; they are {range}")]
    Id {
        /// The id.
        id: u16,
        /// "compute" or "memory".
        kind: &'static str,
        /// Those there are.
        range: &'static str,
    },
    /// A name with characters that are not allowed.
    #[error(
        "{name:?} is no name of a {what}; use 1 to 64 of a-z A-Z 0-9 . _ - and begin with none of . _ -"
    )]
    Name {
        /// What it should name.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A lease that is too short or too long.
    #[error("leases of {ttl:?} are not possible; use {min:?} to {max:?}")]
    Ttl {
        /// The length that was wanted.
        ttl: Duration,
        /// The shortest there is.
        min: Duration,
        /// The longest there is.
        max: Duration,
    },
    /// A value that is too long.
    #[error("{what} of {len} bytes is too long for the store; {max} are allowed")]
    TooLong {
        /// What it is.
        what: String,
        /// Its length in bytes.
        len: usize,
        /// The most there may be.
        max: usize,
    },
    /// A node is gone that had not given its value.
    #[error(
        "exchange {exchange:?} cannot be completed: {node} {how} before it gave its value; start the programs anew"
    )]
    Gone {
        /// The exchange.
        exchange: String,
        /// The node.
        node: NodeName,
        /// "died" or "left".
        how: &'static str,
    },
    /// Whoever waited for the others does not want to any more.
    #[error("exchange {exchange:?} was given up; start the programs anew")]
    GivenUp {
        /// The exchange.
        exchange: String,
    },
    /// Nodes do not agree on an exchange.
    #[error("exchange {exchange:?}: {why}; start all programs with the same flags")]
    Disagreement {
        /// The exchange.
        exchange: String,
        /// What differs.
        why: String,
    },
    /// A letter is for a node that is gone.
    #[error("{node} of epoch {epoch} is not in the cluster any more; it gets no letters")]
    NotThere {
        /// The node.
        node: NodeName,
        /// Its epoch.
        epoch: u64,
    },
    /// More letters wait to be sent than may.
    #[error("{max} letters wait already; send fewer, or look why the store is slow")]
    MailFull {
        /// The most there may be.
        max: usize,
    },
    /// A node's letters are handled in one place.
    #[error("this node's letters are handled already; use that mail")]
    MailTwice,
    /// A thread could not be started.
    #[error("no thread could be started: {why}; raise the limit of processes")]
    Thread {
        /// What the operating system says.
        why: String,
    },
}

impl MembershipError {
    /// Whether it may be otherwise in a moment, so that a keeper tries again.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            MembershipError::Unreachable { .. }
                | MembershipError::Locked { .. }
                | MembershipError::Deadline { .. }
        )
    }
}
