//! [`TcpError`]: errors of sockets, peers and credentials.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use latchwork_verbs::SetupError;
use thiserror::Error;

use crate::wire::{Refusal, TcpNode, VERSION, WireError};

/// A text that a process provides for TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsText {
    /// The certificate of the authority.
    Authority,
    /// The process's own certificate.
    Certificate,
    /// The private key.
    Key,
    /// The private key together with the certificate: each is readable, and they do not fit each
    /// other.
    Pair,
    /// The name that all certificates have.
    Name,
}

impl fmt::Display for TlsText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TlsText::Authority => "the authority's certificate",
            TlsText::Certificate => "the process's certificate",
            TlsText::Key => "the private key",
            TlsText::Pair => "the process's certificate and its key",
            TlsText::Name => "the name",
        })
    }
}

/// Why a fabric cannot be made or extended, or why a peer cannot be reached. Many of the error
/// texts say what the user should do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TcpError {
    /// A secret that is too short.
    #[error("a secret of {len} bytes: at least {} are needed", crate::Secret::MIN_LEN)]
    ShortSecret {
        /// The length of the secret.
        len: usize,
    },
    /// A wrong certificate, key or name.
    #[error("{of}: {why}")]
    Certificate {
        /// The wrong text.
        of: TlsText,
        /// The error in the text.
        why: String,
    },
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes")]
    NoRandom,
    /// A thread could not be started.
    #[error("a thread for agents could not be started: {why}")]
    Thread {
        /// The error of the operating system.
        why: String,
    },
    /// The agent cannot listen at an address.
    #[error("cannot listen at {addr}: {why}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The kind of the error.
        kind: io::ErrorKind,
        /// The error of the operating system.
        why: String,
    },
    /// No agent answers at the address.
    #[error(
        "no agent can be reached at {addr}: {why}; is {node} started, and is that its address?"
    )]
    Unreachable {
        /// The wanted node.
        node: TcpNode,
        /// Its address.
        addr: SocketAddr,
        /// The error of the operating system.
        why: String,
    },
    /// No process at the address accepted the connection and completed the greetings within the
    /// time limit.
    #[error(
        "{addr} did not complete the greetings within {limit:?}; is that the address of {node}?"
    )]
    Deadline {
        /// The wanted node.
        node: TcpNode,
        /// Its address.
        addr: SocketAddr,
        /// The time limit that passed.
        limit: Duration,
    },
    /// The agent refuses the connection.
    #[error("{addr} refuses: {}", refusal_text(*.refusal, *.version))]
    Refused {
        /// The agent's address.
        addr: SocketAddr,
        /// The reason.
        refusal: Refusal,
        /// The version of the agent.
        version: u16,
    },
    /// The connection ended during the greetings.
    #[error(
        "{addr} ended the connection during the greetings: {why}; do both sides use TLS, or both a secret?"
    )]
    Ended {
        /// The agent's address.
        addr: SocketAddr,
        /// The error that ended the connection.
        why: String,
    },
    /// TLS failed.
    #[error("no TLS with {addr}: {why}; give all nodes certificates of one authority, or none any")]
    Tls {
        /// The agent's address.
        addr: SocketAddr,
        /// The error of the library.
        why: String,
    },
    /// The process that listens at the address is not an agent.
    #[error("what listens at {addr} is no agent that this program understands: {why}")]
    NoAgent {
        /// The address.
        addr: SocketAddr,
        /// The error in the bytes that the process sent.
        why: WireError,
    },
    /// The process at the address has not proved that it knows the secret, so it is no agent of
    /// this cluster.
    #[error("{addr} does not know the secret of this cluster: it is not trusted")]
    Impostor {
        /// The address.
        addr: SocketAddr,
    },
    /// A peer with this name is already known.
    #[error("{node} is known already")]
    KnownPeer {
        /// The node.
        node: TcpNode,
    },
    /// An error that all fabrics have.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl TcpError {
    /// Whether a new attempt to connect may succeed soon.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            TcpError::Refused { refusal, .. } => *refusal == Refusal::Busy,
            TcpError::Unreachable { .. } | TcpError::Deadline { .. } | TcpError::Ended { .. } => {
                true
            }
            _ => false,
        }
    }

    /// The error as a [`SetupError`], which has less detail.
    pub(crate) fn setup(&self) -> SetupError {
        match self {
            TcpError::Setup(error) => *error,
            TcpError::Listen { kind, .. } => SetupError::Listen(*kind),
            _ => SetupError::Listen(io::ErrorKind::Other),
        }
    }
}

fn refusal_text(refusal: Refusal, version: u16) -> String {
    match refusal {
        Refusal::Version => format!(
            "it speaks version {version} of the protocol and this program version {VERSION}; \
             install the same release on both"
        ),
        Refusal::Mode => {
            "one side uses TLS and the other a shared secret; configure both alike".into()
        }
        Refusal::Busy => "it has as many connections as it permits; raise its limits".into(),
        Refusal::Secret => "the shared secret is not the same; give all nodes one".into(),
        Refusal::Node => "it is the agent of another node; check the addresses".into(),
        Refusal::Incarnation => "the node was started anew and has lost what it held".into(),
        Refusal::Epoch => "the cluster has declared this node dead; it must join anew".into(),
    }
}
