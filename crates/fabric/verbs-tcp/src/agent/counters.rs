//! Counters of refused connections, by cause. Some of the refusals are logged.

use std::fmt;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::wire::Refusal;

/// A snapshot of the numbers of connections that the agents of a process refused or ended, by
/// cause.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Refused {
    /// Connections without a greeting, with an incomplete or foreign greeting, or with an error of
    /// the socket before the proof.
    pub strange: u64,
    /// Connections that did not prove their identity in time.
    pub late: u64,
    /// Connections with another version of the protocol.
    pub version: u64,
    /// Connections with the wrong mode (TLS or secret), a wrong secret, or a failed TLS handshake,
    /// for example with a certificate of another authority.
    pub unproved: u64,
    /// Connections beyond a limit, and connections that a newer connection of the same session
    /// replaced during the greetings.
    pub busy: u64,
    /// Connections for another node, for another start of this node, or from a fenced node.
    pub misled: u64,
    /// Connections of clients with a proved identity that sent bytes that no client of this version
    /// sends, or did not read their replies. Also connections for which the operating system gave
    /// the agent no random bytes.
    pub broken: u64,
}

#[derive(Default)]
pub(crate) struct Counters {
    strange: AtomicU64,
    late: AtomicU64,
    version: AtomicU64,
    unproved: AtomicU64,
    busy: AtomicU64,
    misled: AtomicU64,
    broken: AtomicU64,
}

/// Why an agent does not serve a connection, or no longer serves it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Reject {
    Strange(String),
    Late,
    Tls(String),
    Refused(Refusal),
    Broken(String),
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reject::Strange(why) | Reject::Broken(why) => f.write_str(why),
            Reject::Late => f.write_str("it did not prove in time who it is"),
            Reject::Tls(why) => write!(f, "no TLS: {why}"),
            Reject::Refused(refusal) => f.write_str(match refusal {
                Refusal::Version => "it speaks another version of the protocol",
                Refusal::Mode => "one side uses TLS and the other a shared secret",
                Refusal::Busy => "there are as many connections as are permitted",
                Refusal::Secret => "its secret is another one",
                Refusal::Node => "it looks for another node",
                Refusal::Incarnation => "it means an earlier start of this node",
                Refusal::Epoch => "the cluster has declared it dead",
            }),
        }
    }
}

impl Counters {
    /// Counts a refusal. Logs only the first, second, fourth, eighth refusal of a kind and so on,
    /// so that a flood does not fill the log.
    pub(crate) fn count(&self, from: SocketAddr, reject: &Reject) {
        let counter = match reject {
            Reject::Strange(_) => &self.strange,
            Reject::Late => &self.late,
            Reject::Tls(_) | Reject::Refused(Refusal::Secret | Refusal::Mode) => &self.unproved,
            Reject::Refused(Refusal::Version) => &self.version,
            Reject::Refused(Refusal::Busy) => &self.busy,
            Reject::Refused(Refusal::Node | Refusal::Incarnation | Refusal::Epoch) => &self.misled,
            Reject::Broken(_) => &self.broken,
        };
        let count = counter.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_power_of_two() {
            tracing::warn!(%from, count, "connection refused: {reject}");
        }
    }

    pub(crate) fn snapshot(&self) -> Refused {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Refused {
            strange: read(&self.strange),
            late: read(&self.late),
            version: read(&self.version),
            unproved: read(&self.unproved),
            busy: read(&self.busy),
            misled: read(&self.misled),
            broken: read(&self.broken),
        }
    }
}
