//! One enum over the fabrics, so that nothing above is generic over the transport.
//!
//! This crate owns the enums ([`Fabric`], [`Endpoint`], [`Inbox`], [`Subscription`]: one predicted
//! branch per call), and the [`Port`], which is how a worker uses an endpoint: a slab of operations
//! that says what each batch is for.
//!
//! ```text
//!   engine                          control plane (superblock, catalogue, epochs)
//!     │ post(.., tag)   ▲ tag         │ fetch_add, read_words, ...  .await   ▲ woken
//!     ▼                 │             ▼                                      │
//!   Port ── operation slab: Engine{tag} | Awaited{waker, slot} | Done | Orphan{slot}
//!     │        scratch: 16 registered slots of 4 KiB, owned by the slab while a batch uses them
//!     ▼
//!   Endpoint::{Shm, Sim, Ibv, Tcp} ── ring, poll
//! ```
//!
//! # Invariants
//!
//! - Every batch that was accepted has exactly one entry in the slab until its completion.
//! - A future that is dropped leaves its entry as an orphan: its scratch slot is not used again
//!   before the completion.
//! - Once a node's [`Permission`] has ended, its ports ring nothing, and end all batches with an
//!   error. It is asked before each doorbell of a port that has one.
//! - User code (sinks, wakers) runs while nothing of the port is borrowed, so it may post.
//!
//! # Example
//!
//! ```
//! use latchwork_fabric::{Fabric, Port};
//! use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
//! use latchwork_verbs::{ComputeNodeId, GlobalAddr};
//! use latchwork_verbs_shm as shm;
//!
//! let fabric = Fabric::from(shm::Fabric::default());
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
mod closed;
mod control;
mod operations;
mod permission;
mod port;
mod scratch;

pub use backend::{Endpoint, Fabric, Inbox, Subscription, Threaded};
pub use permission::Permission;
pub use port::Port;
