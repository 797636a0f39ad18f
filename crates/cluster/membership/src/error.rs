//! The errors of a node, its cluster and the store.

use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

use crate::name::NodeName;

/// The reason why a call of a store or a membership failed. Most texts say how to fix it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[non_exhaustive]
pub enum MembershipError {
    /// The endpoint cannot be parsed.
    #[error(
        "{endpoint:?} is no store: {why}; write etcd://HOST:PORT/CLUSTER or file:/DIRECTORY/CLUSTER"
    )]
    Endpoint {
        /// The given endpoint, without a password.
        endpoint: String,
        /// The mistake in the endpoint.
        why: String,
    },
    /// The program was built without a client for etcd.
    #[error(
        "{endpoint:?} is in etcd, and this program was built without: build it with `--features latchwork-harness/etcd`, or use \
         file:/DIRECTORY/CLUSTER on one machine"
    )]
    NoEtcd {
        /// The given endpoint, without a password.
        endpoint: String,
    },
    /// The directory of a store is unusable.
    #[error("the directory {} cannot hold a cluster: {why}", .path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// The reason, and a remedy.
        why: String,
    },
    /// The files of a store cannot be read or written at the moment: the disk is full or fails, or
    /// the directory is gone. The store may come back.
    #[error("the store in {} cannot be used now: {why}", .path.display())]
    Files {
        /// The directory.
        path: PathBuf,
        /// The reason, and a remedy.
        why: String,
    },
    /// The nodes of a store in a directory do not share this process's boot of the machine.
    #[error(
        "the cluster in {} has living nodes on another machine, or in a container with a boot id of its own; \
         all nodes of a directory share one machine and its clock: use etcd://HOST:PORT/CLUSTER for several",
        .path.display()
    )]
    OtherBoot {
        /// The directory.
        path: PathBuf,
    },
    /// A state file is foreign, changed or incomplete.
    #[error(
        "{} is not the state of a cluster: {why}; end the cluster's processes, remove its directory, start anew",
        .path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The mistake in the file.
        why: String,
    },
    /// An entry of the store has a form that this program does not write.
    #[error(
        "{key:?} in {store} is not understood: {why}; use another cluster name or the same release"
    )]
    Foreign {
        /// The store.
        store: String,
        /// The key.
        key: String,
        /// The mistake in the value.
        why: String,
    },
    /// The store does not answer.
    #[error("{store} does not answer: {why}; is it started, is that its address, does it use TLS?")]
    Unreachable {
        /// The store.
        store: String,
        /// The text of the operating system or of the library.
        why: String,
    },
    /// The store refuses access to this program.
    #[error("{store} refuses: {why}; check user, password and what that user may do")]
    Refused {
        /// The store.
        store: String,
        /// The text of the store.
        why: String,
    },
    /// The store answers with an error of its own.
    #[error("{store} fails: {why}; look at its log")]
    Failed {
        /// The store.
        store: String,
        /// The text of the store.
        why: String,
    },
    /// Another process or thread holds the lock of a directory.
    #[error("{store} was locked for {limit:?} by process {holder}; end it if it is stopped")]
    Locked {
        /// The store.
        store: String,
        /// The process that holds the lock, as far as known.
        holder: String,
        /// The length of the wait.
        limit: Duration,
    },
    /// The awaited event did not happen in time.
    #[error("waited {limit:?} for {what}{trouble}")]
    Deadline {
        /// The awaited event.
        what: String,
        /// The length of the wait.
        limit: Duration,
        /// The hindrance: empty, or text that follows a comma.
        trouble: String,
    },
    /// The lease has ended, by this node's clock or in the store, or the store was reset.
    #[error("the lease has ended; the node must not go on, start it under another id")]
    LeaseEnded,
    /// This node has left the cluster.
    #[error("this node has left the cluster; join anew")]
    Left,
    /// Another node holds the id.
    #[error("{node} is in the cluster (epoch {epoch}); take another id, or wait until it has left")]
    Taken {
        /// The node.
        node: NodeName,
        /// The member epoch of the node.
        epoch: u64,
    },
    /// The id belongs to a dead node.
    #[error(
        "{node} has died (epoch {epoch}), and its id is not free: it is given again only to a compute node, after a recovery \
         (`survive`); take another id, or wait for that"
    )]
    Dead {
        /// The node.
        node: NodeName,
        /// The member epoch of the dead node.
        epoch: u64,
    },
    /// All ids are in use or belong to dead nodes.
    #[error("no id of a {kind} node is left: {dead} belong to the dead; use a new cluster name")]
    Full {
        /// "compute" or "memory".
        kind: &'static str,
        /// The number of ids that belong to dead nodes.
        dead: usize,
    },
    /// No node of this kind can have this id.
    #[error("{id} is no id of a {kind} node; they are {range}")]
    Id {
        /// The id.
        id: u16,
        /// "compute" or "memory".
        kind: &'static str,
        /// The valid ids.
        range: &'static str,
    },
    /// A name contains characters that are not allowed.
    #[error(
        "{name:?} is no name of a {what}; use 1 to 64 of a-z A-Z 0-9 . _ - and begin with none of . _ -"
    )]
    Name {
        /// The kind of thing that it names.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A lease is too short or too long.
    #[error("leases of {ttl:?} are not possible; use {min:?} to {max:?}")]
    Ttl {
        /// The wanted length.
        ttl: Duration,
        /// The shortest possible lease.
        min: Duration,
        /// The longest possible lease.
        max: Duration,
    },
    /// A value is too long.
    #[error("{what} of {len} bytes is too long for the store; {max} are allowed")]
    TooLong {
        /// The thing that is too long.
        what: String,
        /// Its length in bytes.
        len: usize,
        /// The longest allowed length.
        max: usize,
    },
    /// A party of an exchange died or left before it gave its value.
    #[error(
        "exchange {exchange:?} cannot be completed: {node} {how} before it gave its value; start the programs anew"
    )]
    PeerLeft {
        /// The exchange.
        exchange: String,
        /// The node.
        node: NodeName,
        /// "died" or "left".
        how: &'static str,
    },
    /// The caller of an exchange stopped waiting for the other parties.
    #[error("exchange {exchange:?} was given up; start the programs anew")]
    GivenUp {
        /// The exchange.
        exchange: String,
    },
    /// Two nodes name different parties for one exchange.
    #[error("exchange {exchange:?}: {why}; start all programs with the same flags")]
    Disagreement {
        /// The exchange.
        exchange: String,
        /// The difference.
        why: String,
    },
    /// A control message is for a node that has left, has died or has a successor.
    #[error("{node} of epoch {epoch} is not in the cluster any more; it gets no letters")]
    NotThere {
        /// The node.
        node: NodeName,
        /// The member epoch of the node.
        epoch: u64,
    },
    /// Too many control messages wait to be sent.
    #[error("{max} letters wait already; send fewer, or look why the store is slow")]
    ControlQueueFull {
        /// The bound.
        max: usize,
    },
    /// The node already has a handler for its control messages.
    #[error("this node's letters are handled already; use that mail")]
    ControlHandlerTwice,
    /// A thread could not be started.
    #[error("no thread could be started: {why}; raise the limit of processes")]
    Thread {
        /// The text of the operating system.
        why: String,
    },
}

impl MembershipError {
    /// Whether the same call may succeed a moment later, so that the caller retries.
    pub(crate) fn is_passing(&self) -> bool {
        matches!(
            self,
            MembershipError::Unreachable { .. }
                | MembershipError::Locked { .. }
                | MembershipError::Deadline { .. }
                | MembershipError::Files { .. }
        )
    }
}
