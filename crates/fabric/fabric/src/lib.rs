//! One enum over all fabrics, so that code in higher layers is not generic over the transport.
//!
//! This crate owns the enums [`AnyFabric`], [`AnyEndpoint`], [`AnyInbox`] and [`AnySubscription`],
//! which cost one predicted branch per call. The crate also owns the [`Port`], through which a
//! worker uses an endpoint. A port has a slab of operations, which records what to do when each
//! batch completes.
//!
//! ```text
//!   engine                          control plane (superblock, catalogue, epochs)
//!     │ post(.., tag)   ▲ tag         │ fetch_add, read_words, ...  .await   ▲ woken
//!     ▼                 │             ▼                                      │
//!   Port ── operation slab: Engine{tag} | Awaited{waker, buffer} | Done | Orphan{buffer}
//!     │        buffers: registered memory, owned by the slab while a batch uses it
//!     ▼
//!   AnyEndpoint::{Shm, Sim, Ibv, Tcp, Closed} ── ring, poll
//! ```
//!
//! # Invariants
//!
//! - Every accepted batch has exactly one entry in the slab until its completion is polled.
//! - A future that is dropped before the completion leaves its entry in the slab, as an orphan. The
//!   buffer of an orphan is not used again before the completion.
//! - A port with a [`Permission`] that can end checks the permission before each doorbell. After
//!   the first check that finds the end, the port submits nothing, and ends all batches with an
//!   error.
//! - User code (sinks, wakers) runs while no part of the port is borrowed, so user code may post.
//!
//! # Example
//!
//! ```
//! use latchwork_fabric::{AnyFabric, Port};
//! use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
//! use latchwork_verbs::{ComputeNodeId, GlobalAddr};
//! use latchwork_verbs_shm as shm;
//!
//! let fabric = AnyFabric::from(shm::ShmFabric::default());
//! let memory = fabric.add_memory_node(1 << 20)?;
//! let node = ComputeNodeId::new(1).unwrap();
//! fabric.add_compute_node(node)?;
//!
//! let mut worker = Executor::new(RealDriver::new(), ExecutorConfig::default());
//! let port = Port::new(&fabric, node, &worker.handle())?;
//! worker.handle().add_poller(port.poller());
//! let words = worker.block_on(async {
//!     let start = GlobalAddr::new(memory, 4096);
//!     port.write_words(start, &[1, 2, 3]).await?;
//!     assert_eq!(port.fetch_add(start, 41).await?, 1);
//!     port.read_words(start, 3).await
//! })?;
//! assert_eq!(words, [42, 2, 3]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod backend;
mod buffers;
mod closed;
mod control;
mod operations;
mod permission;
mod port;

pub use backend::{AnyEndpoint, AnyFabric, AnyInbox, AnySubscription, Threaded};
pub use buffers::{Buffer, Buffers};
pub use permission::Permission;
pub use port::Port;
