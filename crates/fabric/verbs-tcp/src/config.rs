//! [`TcpConfig`]: the settings of a process in a fabric of sockets.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::security::Security;

/// The settings of a process in a fabric of sockets. [`TcpConfig::new`] has a default for all but
/// the security.
#[derive(Clone, Debug)]
pub struct TcpConfig {
    /// How peers prove their identity. The same for all processes of a cluster.
    pub security: Security,
    /// The address at which nodes listen that are added without an address. The operating system
    /// chooses the port.
    pub listen: IpAddr,
    /// The number of threads that execute the verbs of peers, at least one. Each connection belongs
    /// to one of the threads.
    pub threads: usize,
    /// Limit of messages that wait in the inbox of one compute node, rounded up to a power of two.
    /// Further messages wait at the senders.
    pub inbox_capacity: usize,
    /// The member epoch of this process. Agents refuse a member epoch that was fenced
    /// ([`Fabric::fence`](crate::TcpFabric::fence)).
    pub epoch: u64,
    /// How long a peer may be silent while something is expected from it. After that the connection
    /// has failed. The peer does not execute a batch of that connection that arrives too late.
    pub patience: Duration,
    /// Time limit of one attempt to connect, greetings included.
    pub connect_time: Duration,
    /// The limits of agents.
    pub limits: AgentLimits,
}

/// The limits of an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentLimits {
    /// Limit of connections of peers with a proved identity.
    pub connections: usize,
    /// Limit of connections of unauthenticated clients. Further ones are refused as busy.
    pub strangers: usize,
    /// Time limit for a connection to prove its identity. With TLS, the handshake before the
    /// greetings has the same limit again.
    pub greeting_time: Duration,
    /// Time limit for a peer to read the bytes sent to it. Then its connection is closed.
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
