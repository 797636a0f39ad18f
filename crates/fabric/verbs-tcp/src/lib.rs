//! The fabric over sockets: one-sided verbs for hosts without RDMA, executed by agents.
//!
//! Each node of a process has an *agent* with an address of its own. The agents of a process share
//! a few threads, each with a single-threaded `tokio` runtime. An agent reads batches from
//! connections, executes the batches on the node's memory, and replies. The workers of a process
//! reach each node through the node's agent, also the nodes of their own process. Each worker has
//! its own connections, and polls them as it would poll a completion queue.
//!
//! ```text
//!   worker of compute node 1                        process of memory node 0
//!   Endpoint ── post ──► Lane: queue                agent thread: single-threaded runtime
//!      │ ring: encode, one write ───── socket ────►   read a chunk ─► frames ─► Region
//!      │ poll: read ◄───────────────── socket ─────   one write     ◄─ replies ◄──┘
//!      │
//!      │                                            process of compute node 2
//!      └────────────────────────────── socket ────►   agent ─► its regions, its Inbox ─► wakes a worker
//! ```
//!
//! # Invariants
//!
//! - An agent executes nothing for a client that has not proved its identity. The proof is a
//!   certificate of the cluster's authority ([`Tls`]) or a shared secret ([`Secret`]). Without a
//!   proof a client learns only the version, random bytes and the reason of a refusal.
//! - One thread executes the frames of one connection, in their order, with the memory fences of
//!   the shared-memory fabric. Atomics are those of the CPU: the CPU of a node may also use atomics
//!   on the node's own memory.
//! - After the completion of a batch, also of a failed batch, no request of the batch takes effect.
//!   A new connection replaces a failed connection only when the agent has stopped executing for
//!   the failed connection ([`VerbError::Ambiguous`]). When no new connection can be made, the
//!   client waits until the agent cannot begin the batch any more ([`VerbError::Disconnected`]).
//!   The client sends a *batch lease* in front of the batch. On the agent's clock, the agent does
//!   not begin the batch after the end of the batch lease. The rule has three exceptions. The
//!   client does not wait for a removed node. The client does not wait after an error of connecting
//!   that will not pass, for example a final refusal or a failed TLS handshake. An agent may
//!   execute late if it pauses between its check of the batch lease and the execution, longer than
//!   a quarter of the patience.
//! - Each connection has a bound for the bytes that wait at either end, and each agent has a bound
//!   for the number of unauthenticated clients. The greetings, a silence while a reply is due, and
//!   an attempt to connect have time limits. Batches for which a connection has no room wait in the
//!   endpoint, without a bound.
//! - Without work no thread uses the CPU. Agents sleep in the kernel, and a worker without batches
//!   in flight may park.
//!
//! The fabric survives peers that vanish, pause, come back or are started anew, and arbitrary bytes
//! of unauthenticated clients. Many unauthenticated clients at once can delay new connections. The
//! fabric does not protect against a malicious peer with a proved identity, because every member of
//! the cluster may write the cluster's memory.
//!
//! [`VerbError::Ambiguous`]: latchwork_verbs::VerbError::Ambiguous
//! [`VerbError::Disconnected`]: latchwork_verbs::VerbError::Disconnected
//!
//! # Example
//!
//! Two fabrics, as two processes have them. Here one process has both:
//!
//! ```
//! use latchwork_verbs::{ComputeNodeId, Endpoint, MemoryNodeId, Region, WorkRequest, Target};
//! use latchwork_verbs_tcp::{TcpConfig, TcpFabric, TcpNode, Secret, Security};
//!
//! let security = Security::Secret(Secret::new(b"32 bytes that nobody else has...")?);
//! let there = TcpFabric::new(TcpConfig::new(security.clone()))?;
//! let memory = MemoryNodeId(0);
//! let addr = there.serve_memory(memory, Region::zeroed(1 << 20)?, "127.0.0.1:0".parse()?)?;
//!
//! let here = TcpFabric::new(TcpConfig::new(security))?;
//! let node = ComputeNodeId::new(1).unwrap();
//! here.add_compute_node(node)?;
//! here.add_peer(TcpNode::Compute(node), TcpNode::Memory(memory), addr)?;
//! let mut endpoint = here.endpoint(node)?;
//! endpoint.post(Target::Memory(memory), 7, &[WorkRequest::FetchAdd { remote: 64, add: 3 }])?;
//! endpoint.ring();
//! while endpoint.in_flight() > 0 {
//!     endpoint.poll(&mut |completion| assert_eq!(completion.result.unwrap().old[0], 0));
//! }
//! assert_eq!(there.memory(memory).unwrap().words().u64(64), 3);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod agent;
mod buffer;
mod client;
mod config;
mod error;
mod fabric;
mod inner;
mod peers;
mod security;
pub mod wire;

/// The length in bytes up to which a WRITE to a memory node is whole if its sender dies. The agent
/// executes a frame after all of its bytes have arrived, and a WRITE up to this length is in one
/// frame. A batch can have several frames, so a batch need not be whole.
pub const WHOLE_WRITE: u32 = wire::DATA_MAX as u32;

pub use agent::Refused;
pub use client::TcpEndpoint;
pub use config::{AgentLimits, TcpConfig};
pub use error::{TcpError, TlsText};
pub use fabric::TcpFabric;
pub use latchwork_verbs_shm::{ShmInbox, ShmSubscription};
pub use security::{Secret, Security, Tls};
pub use wire::{Refusal, TcpNode};
