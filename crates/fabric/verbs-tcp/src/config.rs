//! [`TcpConfig`]: the settings of a process in a fabric of sockets.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::security::Security;

/// The settings of a process in a fabric over sockets. [`TcpConfig::new`] has a default for all
/// settings except the security.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// How peers prove their identity. The same for all processes of a cluster.
    pub security: Security,
    /// The address at which nodes listen that are added without an address of their own. The
    /// operating system chooses the port.
    pub listen: IpAddr,
    /// The number of threads of the agents, at least one. Each connection belongs to one of the
    /// threads.
    pub threads: usize,
    /// The largest number of messages in the inbox of one compute node, rounded up to a power of
    /// two. Further messages wait at the senders.
    pub inbox_capacity: usize,
    /// The member epoch of this process. Agents refuse a member epoch that was fenced
    /// ([`Fabric::fence`](crate::TcpFabric::fence)).
    pub epoch: u64,
    /// The time for which an agent may be silent while a reply is due. After this time the client
    /// treats the connection as failed. The agent does not execute a batch that arrives after its
    /// batch lease, which is shorter than this time.
    pub patience: Duration,
    /// Time limit of one attempt to connect, greetings included.
    pub connect_time: Duration,
    /// The limits of agents.
    pub limits: AgentLimits,
}

/// The limits of each agent. An agent serves one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentLimits {
    /// The largest number of connections of clients with a proved identity.
    pub connections: usize,
    /// The largest number of connections of unauthenticated clients. The agent refuses further
    /// connections as busy.
    pub strangers: usize,
    /// The time limit of the greetings, in which a client proves its identity. With TLS, the
    /// handshake before the greetings has the same limit again.
    pub greeting_time: Duration,
    /// The time limit for a client to read its replies. After this time the agent closes the
    /// connection.
    pub write_time: Duration,
}

impl TcpConfig {
    /// One thread, a loopback address, and a patience of five seconds.
    pub fn new(security: Security) -> Self {
        TcpConfig {
            security,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            threads: 1,
            inbox_capacity: 1024,
            epoch: 0,
            patience: Duration::from_secs(5),
            connect_time: Duration::from_secs(2),
            limits: AgentLimits::default(),
        }
    }
}

impl Default for AgentLimits {
    fn default() -> Self {
        AgentLimits {
            connections: 8192,
            strangers: 256,
            greeting_time: Duration::from_secs(3),
            write_time: Duration::from_secs(10),
        }
    }
}
