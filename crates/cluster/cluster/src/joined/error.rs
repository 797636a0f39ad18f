//! [`JoinError`]: the reason why a process cannot be a node.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use latchwork_membership::{MembershipError, NodeName};
use latchwork_verbs_ibv::IbvOpenError;
use latchwork_verbs_shm::ShmError;
use latchwork_verbs_tcp::TcpError;
use thiserror::Error;

use crate::{ClusterError, Protocol};

/// The reason why a process could not join a cluster, had to stop as a node, or could not leave
/// gracefully.
#[derive(Debug, Error)]
pub enum JoinError {
    /// An error that a cluster in one process can have too.
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// An error of the membership or its store.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// The shared memory could not be used.
    #[error(transparent)]
    Shm(#[from] ShmError),
    /// The cluster shares the memory of another machine, or of this machine before its last boot.
    #[error(
        "the nodes of this cluster share the memory of another machine, or of this one before it was started anew: begin a new \
         cluster, or use another fabric"
    )]
    OtherMachine,
    /// The directory of the cluster is on another file system here.
    #[error(
        "{} of this process is not that of the cluster's nodes: another container has shared memory of its own. Share it \
         (for example --ipc of Docker, or one volume that --set shm-dir names in all of them), or use --fabric tcp",
        .directory.display()
    )]
    OtherMemory {
        /// The directory that the first node chose.
        directory: PathBuf,
    },
    /// The sockets could not be used.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The RDMA devices could not be used.
    #[error(transparent)]
    Rdma(#[from] IbvOpenError),
    /// A node that listens on all addresses must say which address other nodes use.
    #[error(
        "a node that listens at {listen} must say under which address others reach it: give --set advertise=ADDR"
    )]
    NoAddress {
        /// The listening address.
        listen: SocketAddr,
    },
    /// The contact of a node contains no address.
    #[error(
        "{peer} says that it is reached at {contact:?}, which is no address: it may be of another version"
    )]
    Contact {
        /// The node.
        peer: NodeName,
        /// The contact.
        contact: String,
    },
    /// A node that is a member cannot be reached.
    #[error("{node} is a member and cannot be used: {why}")]
    Introduction {
        /// The node.
        node: NodeName,
        /// The result of the last attempt.
        why: String,
    },
    /// Memory nodes are missing.
    #[error(
        "there are {there} memory nodes, and {wanted} are wanted: start more, or ask for fewer"
    )]
    MemoryNodesAbsent {
        /// The number of members that are known here.
        there: usize,
        /// The number in the configuration.
        wanted: usize,
    },
    /// The nodes of a cluster use different fabrics.
    #[error(
        "{node} is reached over {theirs}, and this node is over {ours}: use the same --fabric for all nodes"
    )]
    OtherFabric {
        /// Another node.
        node: NodeName,
        /// Its fabric.
        theirs: String,
        /// The fabric of this node.
        ours: &'static str,
    },
    /// The nodes of a cluster run different protocols, and one of these needs agents. Or the
    /// settings of the homes differ, or whether lines of dead nodes are recovered.
    #[error(
        "{node} runs {theirs}, and this node {ours}: use the same --protocol, the same survive and the same settings of homes \
         for all nodes, or a new cluster"
    )]
    OtherProtocol {
        /// Another node. A memory node keeps the protocol of its agent.
        node: NodeName,
        /// Its protocol, with the settings of the homes that are not the defaults, and with
        /// `survive`, if it is on.
        theirs: String,
        /// Those of this node.
        ours: String,
    },
    /// The protocol needs agents, which processes on RDMA devices do not have.
    #[error(
        "{protocol} needs an agent at each memory node, which processes over ibverbs do not have yet: use --fabric shm or \
         tcp, or --protocol selcc or sel"
    )]
    NoAgents {
        /// The protocol.
        protocol: Protocol,
    },
    /// A compute node has or had the id of a memory node's agent, or the memory node's id is too
    /// high.
    #[error(
        "the agent of memory node {node} has no id of its own: compute nodes have used too many ids, so begin a new cluster"
    )]
    NoIdForAgent {
        /// The memory node.
        node: NodeName,
    },
    /// A memory node has started no agent.
    #[error("memory node {node} has started no agent within {waited:.1?}: its log says why")]
    NoAgent {
        /// The memory node.
        node: NodeName,
        /// The length of the wait.
        waited: Duration,
    },
    /// A memory node has died or left, and its part of the stored data is lost.
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
    /// The caller stopped waiting for other nodes ([`StartPatience`](crate::StartPatience)).
    #[error("it does not wait for the others any more")]
    GivenUp,
    /// The first compute node did not format the memory nodes.
    #[error(
        "{maker} was to format the memory nodes and did not within {waited:.1?}: if it is gone, end all processes of this \
         cluster, and begin a new one, under another name"
    )]
    NotFormatted {
        /// The first compute node.
        maker: String,
        /// The length of the wait.
        waited: Duration,
    },
    /// The processes of one run disagree, or too few came. The text says which.
    #[error("{0}")]
    Group(String),
    /// The process joined as another node than a compute node.
    #[error("{node} is no compute node: join as one")]
    NotCompute {
        /// The node that it is.
        node: NodeName,
    },
    /// The process joined as another node than a memory node.
    #[error("{node} is no memory node: join as one")]
    NotMemory {
        /// The node that it is.
        node: NodeName,
    },
    /// The lease of this node has ended. The other nodes see the node dead or will soon, and the
    /// node must not touch memory.
    #[error("this node's lease has ended, so that the cluster goes on without it: start it again")]
    LeaseLost,
}

/// Converts each source of a [`ClusterError`] into a [`JoinError`] directly.
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
