//! [`JoinError`]: why a process cannot be a node.

use std::net::SocketAddr;
use std::time::Duration;

use latchwork_membership::{MembershipError, NodeName};
use latchwork_verbs_ibv::OpenError;
use latchwork_verbs_shm::ShmError;
use latchwork_verbs_tcp::TcpError;
use thiserror::Error;

use crate::ClusterError;

/// Why a process could not join a cluster, could not go on as one of its nodes, or could not leave
/// it in order.
#[derive(Debug, Error)]
pub enum JoinError {
    /// What a cluster in one process could meet as well.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// Membership refused something, or its store did.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The shared memory could not be used.
    #[error(transparent)]
    Shm(#[from] ShmError),
    /// Shared memory is that of one machine.
    #[error(
        "the nodes of this cluster share the memory of another machine, or of this one before it was started anew: begin a new \
         cluster, or use another fabric"
    )]
    OtherMachine,
    /// The sockets could not be used.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The RDMA devices could not be used.
    #[error(transparent)]
    Rdma(#[from] OpenError),
    /// A listener on all addresses has none that others could be told.
    #[error(
        "a node that listens at {listen} must say under which address others reach it: give --advertise"
    )]
    NoAddress {
        /// Where it listens.
        listen: SocketAddr,
    },
    /// What a node says of where it is reached is no address.
    #[error(
        "{peer} says that it is reached at {contact:?}, which is no address: it may be of another version"
    )]
    Contact {
        /// The node.
        peer: NodeName,
        /// What it says.
        contact: String,
    },
    /// A node that is a member cannot be reached.
    #[error("{node} is a member and cannot be used: {why}")]
    Introduction {
        /// The node.
        node: NodeName,
        /// What came of the last attempt.
        why: String,
    },
    /// Memory nodes are missing.
    #[error(
        "there are {there} memory nodes, and {wanted} are wanted: start more, or ask for fewer"
    )]
    MemoryNodesAbsent {
        /// Those that are members and known.
        there: usize,
        /// Those that the configuration asks for.
        wanted: usize,
    },
    /// Nodes of one cluster have one kind of fabric.
    #[error(
        "{node} is reached over {theirs}, and this node is over {ours}: use the same --fabric for all nodes"
    )]
    OtherFabric {
        /// Another node.
        node: NodeName,
        /// Its fabric.
        theirs: String,
        /// This node's.
        ours: &'static str,
    },
    /// A memory node is gone, and with it its part of all that was stored.
    #[error(
        "memory node {node} {how}, and what it held is lost: end all processes of this cluster, and begin a new one, under \
         another name"
    )]
    MemoryLost {
        /// The node.
        node: NodeName,
        /// "died" or "left".
        how: &'static str,
    },
    /// Whoever waited for the others does not want to any more.
    #[error("it does not wait for the others any more")]
    GivenUp,
    /// Whoever was first did not format the memory nodes.
    #[error(
        "{maker} was to format the memory nodes and did not within {waited:.1?}: if it is gone, end all processes of this \
         cluster, and begin a new one, under another name"
    )]
    NotFormatted {
        /// The node that was first.
        maker: String,
        /// How long this one waited.
        waited: Duration,
    },
    /// The processes that start together do not agree.
    #[error("{0}")]
    Group(String),
    /// A compute node is wanted.
    #[error("{node} is no compute node: join as one")]
    NotCompute {
        /// What it is.
        node: NodeName,
    },
    /// A memory node is wanted.
    #[error("{node} is no memory node: join as one")]
    NotMemory {
        /// What it is.
        node: NodeName,
    },
    /// The node's lease has ended: for the others it is dead, and must not touch memory.
    #[error("this node's lease has ended, so that the cluster goes on without it: start it again")]
    LeaseLost,
}

/// What [`ClusterError`] can be made of is an error here, too.
macro_rules! through_cluster {
    ($($error:ty),*) => {$(
        impl From<$error> for JoinError {
            fn from(error: $error) -> Self {
                JoinError::Cluster(error.into())
            }
        }
    )*};
}

through_cluster!(
    crate::ConfigError,
    latchwork_verbs::SetupError,
    latchwork_cache::CacheError,
    latchwork_memnode::PoolError,
    std::io::Error,
    latchwork_coherence::MemoryError
);
