//! The RDMA fabric: queue pairs over libibverbs, which is opened at run time.
//!
//! This crate owns what stands between a batch of verbs and a NIC: devices, registered memory,
//! connections, completion queues. Nothing is needed to build it; [`Fabric::open`] says what a
//! machine lacks.
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
//! # What holds
//!
//! - A batch is one run of linked work requests on one reliable connection, and all that was posted
//!   to a connection between two rings goes with one doorbell. Only the last request of a batch is
//!   signalled: requests of a connection complete in order. The order inside a batch is that of
//!   reliable connections (InfiniBand architecture, volume 1, work request operation ordering),
//!   which is what the contract was taken from.
//! - Words, messages and WRITEs of up to 128 bytes travel in their requests where the device can do
//!   that.
//! - Nothing overflows: requests in a send queue and batches in all queues are counted, and the
//!   rest waits in software. A full inbox has no receive buffer posted; senders are told to come
//!   again ("receiver not ready") for as long as it takes.
//! - A connection that fails is destroyed at both ends before its batches are told to be
//!   [`Ambiguous`](latchwork_verbs::VerbError): none of them takes effect after that, and no atomic
//!   is ever repeated by this crate. If the peer does not answer, they are `Disconnected`.
//! - **Atomics are atomic among those of one device, and not with those of a CPU.** Words that
//!   verbs change atomically are left to verbs. (The device has the last word of it: memory of one
//!   node is registered on one device.)
//! - A node that parks costs nothing: its queues are armed, and one thread per process sleeps on
//!   all of them, and on what devices tell of themselves.
//!
//! It survives peers that vanish, connections that fail, full queues and inboxes, ports that go
//! down for a while. A device that fails ends what is on it, and nothing begins there any more.
//!
//! # Other processes
//!
//! Nodes of one process find each other. Those of others are learned of by what they say of
//! themselves, a [`Contact`], and a [`Courier`] carries what has to be said before there is a
//! connection, as bytes, by whatever means.
//!
//! - A node is meant as it joined at an epoch. When it leaves and another one takes its name, lanes
//!   to it begin anew: no key and no queue pair of the one is used for the other.
//! - [`Fabric::fence`] keeps a node out: its connections are destroyed at this end, and its offers
//!   refused, up to an epoch.
//!
//! # Example
//!
//! ```
//! use latchwork_verbs_ibv::{Config, Fabric};
//!
//! let config = Config { devices: vec!["mlx5_0".to_owned()], ..Config::default() };
//! match Fabric::open(config) {
//!     Ok(_fabric) => println!("nodes can be added"),
//!     // One line: what to install, or which devices there are.
//!     Err(error) => println!("{error}"),
//! }
//! ```
//!
//! # What is not there
//!
//! No masked atomics and no memory on the device: rdma-core has no interface for the first that is
//! not one vendor's own, and nothing above asks for either; words of latches are whole words in
//! ordinary registered memory.

#![cfg(target_os = "linux")]
#![deny(unsafe_code)]

mod connection;
mod directory;
mod endpoint;
mod error;
mod fabric;
mod inbox;
mod lane;
mod locals;
mod node;
mod slots;
#[allow(unsafe_code)] // all that touches the library
mod sys;

pub use directory::{Contact, Courier, NoContact, Peer, RemoteMemory, Reply};
pub use endpoint::Endpoint;
pub use error::{ConnectError, OpenError};
pub use fabric::{Config, Fabric, WeakFabric};
pub use inbox::{Inbox, Subscription};
