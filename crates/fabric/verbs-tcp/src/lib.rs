//! The fabric over sockets: one-sided verbs for hosts without RDMA, executed by agents.
//!
//! A process has nodes of its own, each with an *agent*: a few single-threaded `tokio` runtimes
//! that read batches from connections, execute them on the node's memory, and reply. Its workers
//! reach all other nodes through their agents, each worker over a connection of its own that it
//! polls itself, as it would a completion queue.
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
//! - Nobody executes anything, or learns anything but the version and that it is refused, without
//!   having proved who it is: with a certificate of the cluster's authority ([`Tls`]) or a shared
//!   secret ([`Secret`]).
//! - Frames of one connection are executed in their order, by one thread, with the barriers of the
//!   shared-memory fabric. Atomics are the CPU's: on a node's own memory, its own CPU may take part
//!   in them.
//! - When a batch has completed, in whatever way, nothing of it takes effect any more. A connection
//!   takes the place of one that failed only when the agent has stopped executing for that one
//!   ([`VerbError::Ambiguous`]). Where none can be made, the client waits until the agent would not
//!   begin the batch any more, because the *lease* in front of it has ended on the agent's clock
//!   ([`VerbError::Disconnected`]).
//! - Everything is bounded: what waits at either end of a connection, the strangers, the time of a
//!   greeting, of a silence, of an attempt to connect. What is beyond a full queue waits in the
//!   endpoint.
//! - Without work nobody uses CPU: agents sleep in the kernel, and a worker without batches in
//!   flight may park.
//!
//! It survives peers that vanish, pause, come back, are started anew, and strangers that do
//! anything. It does not survive a peer that has proved who it is and means ill: whoever is in the
//! cluster may write its memory.
//!
//! [`VerbError::Ambiguous`]: latchwork_verbs::VerbError::Ambiguous
//! [`VerbError::Disconnected`]: latchwork_verbs::VerbError::Disconnected
//!
//! # Example
//!
//! Both processes in one:
//!
//! ```
//! use latchwork_verbs::{ComputeNodeId, Endpoint, MemoryNodeId, Region, Request, Target};
//! use latchwork_verbs_tcp::{Config, Fabric, Node, Secret, Security};
//!
//! let security = Security::Secret(Secret::new(b"32 bytes that nobody else has...")?);
//! let there = Fabric::new(Config::new(security.clone()))?;
//! let memory = MemoryNodeId(0);
//! let addr = there.serve_memory(memory, Region::zeroed(1 << 20)?, "127.0.0.1:0".parse()?)?;
//!
//! let here = Fabric::new(Config::new(security))?;
//! let node = ComputeNodeId::new(1).unwrap();
//! here.add_compute_node(node)?;
//! here.add_peer(Node::Compute(node), Node::Memory(memory), addr)?;
//! let mut endpoint = here.endpoint(node)?;
//! endpoint.post(Target::Memory(memory), 7, &[Request::FetchAdd { remote: 64, add: 3 }])?;
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
mod peers;
mod security;
pub mod wire;

pub use agent::Refused;
pub use client::Endpoint;
pub use config::{Config, Limits};
pub use error::{TcpError, TlsText};
pub use fabric::Fabric;
pub use latchwork_verbs_shm::{Inbox, Subscription};
pub use security::{Secret, Security, Tls};
pub use wire::{Node, Refusal};
