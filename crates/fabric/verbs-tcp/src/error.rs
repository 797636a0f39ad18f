//! What can go wrong with sockets, peers and credentials.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use latchwork_verbs::SetupError;
use thiserror::Error;

use crate::wire::{Node, Refusal, VERSION, WireError};

/// The texts that a process brings along for TLS.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TlsText {
    /// The certificate of the authority.
    Authority,
    /// The process's own certificate.
    Certificate,
    /// The private key.
    Key,
    /// The private key together with the certificate: each of them alone can be read.
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

/// Why a fabric could not be made or extended, or a peer not be reached. Each says what to do.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TcpError {
    /// A secret that is easily guessed.
    #[error("a secret of {len} bytes: at least {} are needed", crate::Secret::MIN_LEN)]
    ShortSecret {
        /// Its length.
        len: usize,
    },
    /// Something about certificates.
    #[error("{of}: {why}")]
    Certificate {
        /// Which text is wrong.
        of: TlsText,
        /// What is wrong with it.
        why: String,
    },
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes")]
    NoRandom,
    /// A thread could not be started.
    #[error("a thread for agents could not be started: {why}")]
    Thread {
        /// What the operating system says.
        why: String,
    },
    /// An address could not be listened at.
    #[error("cannot listen at {addr}: {why}")]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// What kind of error it is.
        kind: io::ErrorKind,
        /// What the operating system says.
        why: String,
    },
    /// Nobody answers there.
    #[error(
        "no agent can be reached at {addr}: {why}; is {node} started, and is that its address?"
    )]
    Unreachable {
        /// The node that was wanted.
        node: Node,
        /// Its address.
        addr: SocketAddr,
        /// What the operating system says.
        why: String,
    },
    /// Somebody accepts connections there, and does not answer.
    #[error(
        "{addr} did not complete the greetings within {limit:?}; is that the address of {node}?"
    )]
    Deadline {
        /// The node that was wanted.
        node: Node,
        /// Its address.
        addr: SocketAddr,
        /// How long was waited.
        limit: Duration,
    },
    /// The agent has a reason not to go on.
    #[error("{addr} refuses: {}", refusal_text(*.refusal, *.version))]
    Refused {
        /// The agent's address.
        addr: SocketAddr,
        /// The reason.
        refusal: Refusal,
        /// The version that the agent speaks.
        version: u16,
    },
    /// The connection ended during the greetings.
    #[error(
        "{addr} ended the connection during the greetings: {why}; do both sides use TLS, or both a secret?"
    )]
    Ended {
        /// The agent's address.
        addr: SocketAddr,
        /// How.
        why: String,
    },
    /// TLS failed.
    #[error("no TLS with {addr}: {why}; give all nodes certificates of one authority, or none any")]
    Tls {
        /// The agent's address.
        addr: SocketAddr,
        /// What the library says.
        why: String,
    },
    /// Something else listens there.
    #[error("what listens at {addr} is no agent that this program understands: {why}")]
    NoAgent {
        /// The address.
        addr: SocketAddr,
        /// What is wrong with what it says.
        why: WireError,
    },
    /// The agent does not know the secret.
    #[error("{addr} does not know the secret of this cluster: it is not trusted")]
    Impostor {
        /// The address.
        addr: SocketAddr,
    },
    /// A peer is known already.
    #[error("{node} is known already")]
    KnownPeer {
        /// The node.
        node: Node,
    },
    /// What all fabrics can find wrong.
    #[error(transparent)]
    Setup(#[from] SetupError),
}

impl TcpError {
    /// Whether it may be otherwise in a moment.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            TcpError::Refused { refusal, .. } => *refusal == Refusal::Busy,
            TcpError::Unreachable { .. } | TcpError::Deadline { .. } | TcpError::Ended { .. } => {
                true
            }
            _ => false,
        }
    }

    /// As an error of [`SetupError`], which has less to say.
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
