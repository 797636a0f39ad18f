//! [`Config`]: how a process takes part.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use crate::security::Security;

/// How a process takes part in a fabric of sockets. [`Config::new`] has a default for all but the
/// security.
#[derive(Clone, Debug)]
pub struct Config {
    /// How peers prove who they are. The same for all processes of a cluster.
    pub security: Security,
    /// Where nodes listen that are added without an address, at a port of the operating system's
    /// choice.
    pub listen: IpAddr,
    /// Threads that execute the verbs of peers, at least one. Each connection belongs to one of
    /// them.
    pub threads: usize,
    /// Messages that wait in the inbox of one compute node at most, rounded up to a power of two.
    /// What is beyond waits at the senders.
    pub inbox_capacity: usize,
    /// The epoch of this process's membership; agents refuse those that were fenced
    /// ([`Fabric::fence`](crate::Fabric::fence)).
    pub epoch: u64,
    /// How long a peer may be silent while something is expected from it. Then the connection has
    /// failed; and what was sent on it and did not come in time, the peer does not execute any
    /// more.
    pub patience: Duration,
    /// The most that one attempt to connect may take, greetings included.
    pub connect_time: Duration,
    /// What agents put up with.
    pub limits: Limits,
}

/// What an agent puts up with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections of peers that have proved who they are, at most.
    pub connections: usize,
    /// Connections that have not yet, at most. More are refused as busy.
    pub strangers: usize,
    /// How long a connection may take until it has.
    pub greeting_time: Duration,
    /// How long a peer may take to read what was sent to it. Then its connection is closed.
    pub write_time: Duration,
}

impl Config {
    /// One thread, a loopback address, and patience of five seconds.
    pub fn new(security: Security) -> Self {
        Config {
            security,
            listen: IpAddr::V4(Ipv4Addr::LOCALHOST),
            threads: 1,
            inbox_capacity: 1024,
            epoch: 0,
            patience: Duration::from_secs(5),
            connect_time: Duration::from_secs(2),
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 8192,
            strangers: 256,
            greeting_time: Duration::from_secs(3),
            write_time: Duration::from_secs(10),
        }
    }
}
