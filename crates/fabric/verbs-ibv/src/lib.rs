//! The RDMA fabric: queue pairs over libibverbs, which is opened at run time.
//!
//! This crate owns the execution of batches on NICs: devices, registered memory, connections,
//! completion queues. The build needs no RDMA package. [`IbvFabric::open`] reports what a machine
//! lacks.
//!
//! ```text
//!   worker of compute node 1                                        node 2, on its own device
//!   Endpoint                                                        Node
//!    ├─ Lane to memory node 0 ─ queue pair ═══════════════════════► responder ─► registered memory
//!    ├─ Lane to compute node 2 ─ queue pair ══════════════════════► responder ─► regions
//!    │     list ─ one doorbell per ring                                   └────► shared receive queue ─► Inbox
//!    ├─ completion queue of all lanes ─┐
//!    └─ slots: what atomics found      │ armed only before the worker parks
//!                                      └──► Watcher, one thread ──► notifies the worker
//! ```
//!
//! # Invariants
//!
//! - A batch is one sequence of linked work requests on one reliable connection. All batches that
//!   were posted to a connection between two rings are submitted with one doorbell, as far as there
//!   is room. Only the last request of a batch makes a completion, because requests of a connection
//!   complete in order. The order inside a batch is the order of reliable connections (InfiniBand
//!   architecture, volume 1, work request operation ordering). The contract promises no more than
//!   this order.
//! - Words, messages and WRITEs of up to 128 bytes travel inside their requests where the device
//!   supports that.
//! - No queue overflows: the endpoint counts the requests in each send queue and the batches in all
//!   queues, and further batches wait in software. A full inbox has no posted receive buffer, and
//!   its senders' devices retry without a limit ("receiver not ready").
//! - A failed connection is destroyed at both ends before its batches end as
//!   [`Ambiguous`](latchwork_verbs::VerbError). After this end no request of these batches takes
//!   effect, and this crate does not post a request a second time. If the peer does not answer, the
//!   batches end as `Disconnected`, and the peer's end may still exist.
//! - **Atomics are atomic against other atomics of the same device, not against those of a CPU.**
//!   So only verbs may access words that verbs change atomically. All memory of one node is
//!   registered on one device, so this device executes all atomics on the memory.
//! - A node whose workers are all parked uses no CPU. Its completion queues are armed: each signals
//!   its next completion. One thread per fabric sleeps until a queue or a device signals.
//!
//! The fabric survives peers that vanish, connections that fail, full queues and inboxes, and ports
//! that go down for a while. If a device fails, all batches on the device end with an error, and no
//! new batch begins on it.
//!
//! # Other processes
//!
//! Nodes of one process find each other without help. A node of another process is added by its
//! [`Contact`], which has the node's member epoch and registered memory. A [`Courier`] carries the
//! bytes that two nodes exchange before they are connected.
//!
//! - A peer is a node with its member epoch. When the node leaves and another node takes its name,
//!   send queues to this name begin anew. No key and no queue pair of the old node is used for the
//!   new node.
//! - [`IbvFabric::fence`] fences a node up to a member epoch: this process destroys its ends of the
//!   node's connections, and refuses the node's later offers.
//!
//! # Example
//!
//! ```
//! use latchwork_verbs_ibv::{IbvConfig, IbvFabric};
//!
//! let config = IbvConfig { devices: vec!["mlx5_0".to_owned()], ..IbvConfig::default() };
//! match IbvFabric::open(config) {
//!     Ok(_fabric) => println!("nodes can be added"),
//!     // One line: what to install, or which devices there are.
//!     Err(error) => println!("{error}"),
//! }
//! ```
//!
//! # Not supported
//!
//! This crate does not use masked atomics. No code of this project needs them, because latch words
//! are whole words. rdma-core has only vendor-specific interfaces for masked atomics.

#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod config;
mod connection;
mod destructions;
mod directory;
mod endpoint;
mod error;
mod fabric;
mod inbox;
mod locals;
mod mailbox;
mod node;
mod send_queue;
mod shared;
mod slots;
#[allow(unsafe_code)] // all that touches the library
mod sys;
mod version;
mod wake;

/// The length in bytes up to which a WRITE to a memory node is whole if its sender dies: the
/// smallest packet length of a path (InfiniBand architecture, volume 1, path MTU). A WRITE up to
/// this length is one packet on every path, and a packet arrives as a whole.
pub const WHOLE_WRITE: u32 = 256;

pub use config::IbvConfig;
pub use directory::{Contact, ContactReply, Courier, NoContact, Peer, RemoteMemory};
pub use endpoint::IbvEndpoint;
pub use error::{ConnectError, IbvOpenError};
pub use fabric::{IbvFabric, WeakFabric};
pub use inbox::{IbvInbox, IbvSubscription};
