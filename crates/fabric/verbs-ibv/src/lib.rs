//! The RDMA fabric: queue pairs over libibverbs, which is opened at run time.
//!
//! This crate connects batches of verbs with a NIC: devices, registered memory, connections,
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
//! - A batch is one run of linked work requests on one reliable connection. All batches posted to a
//!   connection between two rings, as far as there is room, go with one doorbell. Only the last
//!   request of a batch is signalled, because requests of a connection complete in order. The order
//!   inside a batch is that of reliable connections (InfiniBand architecture, volume 1, work
//!   request operation ordering), from which the contract was taken.
//! - Words, messages and WRITEs of up to 128 bytes travel inside their requests where the device
//!   supports that.
//! - Nothing overflows: requests in a send queue and batches in all queues are counted, and the
//!   rest waits in software. A full inbox has no receive buffer posted, and its senders retry
//!   ("receiver not ready") without a limit.
//! - A failed connection is destroyed at both ends before its batches end as
//!   [`Ambiguous`](latchwork_verbs::VerbError). None of them takes effect after that, and this
//!   crate never repeats an atomic. If the peer does not answer, the batches end as `Disconnected`.
//! - **Atomics are atomic among those of one device, and not with those of a CPU.** Words that
//!   verbs change atomically are accessed only by verbs. All memory of one node is registered on
//!   one device, so one device executes all atomics on it.
//! - A parked node uses no CPU: its queues are armed, and one thread per fabric sleeps on all
//!   queues and on the events of the devices.
//!
//! The fabric survives peers that vanish, connections that fail, full queues and inboxes, and ports
//! that go down for a while. A device that fails ends all batches on it, and nothing begins on it
//! any more.
//!
//! # Other processes
//!
//! Nodes of one process find each other. A process learns of a node of another process by the
//! node's description of itself, a [`Contact`]. A [`Courier`] carries the bytes that two nodes
//! exchange before they are connected.
//!
//! - A peer is a node with its member epoch. When the node leaves and another one takes its name,
//!   send queues to it begin anew: no key and no queue pair of the old node is used for the new
//!   one.
//! - [`IbvFabric::fence`] fences a node: its connections are destroyed at this end, and its offers
//!   are refused, up to an epoch.
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
//! Masked atomics and memory on the device are not used. rdma-core has an interface for masked
//! atomics only per vendor, and the code above needs neither: latch words are whole words in
//! ordinary registered memory.

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

pub use config::IbvConfig;
pub use directory::{Contact, ContactReply, Courier, NoContact, Peer, RemoteMemory};
pub use endpoint::IbvEndpoint;
pub use error::{ConnectError, IbvOpenError};
pub use fabric::{IbvFabric, WeakFabric};
pub use inbox::{IbvInbox, IbvSubscription};
