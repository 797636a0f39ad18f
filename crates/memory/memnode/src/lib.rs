//! Memory nodes: chunks with dense latch tables, line allocation, epochs, and the catalogue of
//! named objects.
//!
//! A memory node is passive memory. All code of this crate runs on compute nodes and accesses the
//! pool by one-sided verbs through a [`Port`](latchwork_fabric::Port).
//!
//! ```text
//!   memory node
//!   ┌────────────┬──────────────────────────┬──────────────────────────┬────
//!   │ superblock │ chunk 0                  │ chunk 1                  │ ..
//!   │ owners     │ latch table │ lines      │ latch table │ lines      │
//!   │ (node 0:   │ word k      │ line k     │             │            │
//!   │  epochs,   └──────────────────────────┴──────────────────────────┴────
//!   │  catalogue)│        ▲ claimed whole, by one compare-and-swap
//!   └────────────┘        │
//!                  LineAllocator (one per compute node) ◄── retire ── user ◄── allocate
//!                         │ freed lines wait until
//!                      Epochs: no operation of any node can know them
//! ```
//!
//! - [`Geometry`] and [`Pool`]: the layout of the memory, the same on all nodes.
//! - [`LineAllocator`]: lines for a compute node. [`LineHeader`] is the head of each line.
//! - [`epoch`]: the rule for the reuse of a freed line, with the proof.
//! - [`Catalogue`]: the names by which a joining node finds the objects of other nodes.
//!
//! # What holds
//!
//! - A chunk has one owner at a time, and a line is allocated to one user at a time.
//! - A freed line is not reused while an operation is in progress anywhere that began before the
//!   line was freed.
//! - The latch words of a chunk's free lines are zero when the chunk is claimed. First, memory
//!   nodes are formatted once, from zeroed memory. Second, a whole chunk is returned only if all
//!   its latch words are zero.
//! - Every future may be dropped at any await, unless its documentation says otherwise. No mutex is
//!   held across an await. Only a task's turn (`task_mutex`) at the node's epoch slot or at its
//!   chunks may be held across an await.
//! - Every wait for the fabric ends, because the fabric completes every verb. Allocations and the
//!   begin of operations also have a deadline for other waits. When a node leaves, its wait for the
//!   turn of another task has no deadline.
//!
//! A dead compute node keeps its retired lines, and its chunks up to their marks
//! ([`free_chunks`]). [`Epochs::retire`] reclaims its epoch slot.
//!
//! # Example
//!
//! ```
//! use latchwork_fabric::{AnyFabric, Port};
//! use latchwork_memnode::{EpochWorker, Epochs, Geometry, LineAllocator, Pool, PoolSettings};
//! use latchwork_runtime::{Executor, ExecutorConfig, RealDriver};
//! use latchwork_verbs::ComputeNodeId;
//!
//! let fabric = AnyFabric::from(latchwork_verbs_shm::ShmFabric::default());
//! let memory = fabric.add_memory_node(1 << 20)?;
//! let node = ComputeNodeId::new(1).unwrap();
//! fabric.add_compute_node(node)?;
//!
//! let mut executor = Executor::new(RealDriver::new(), ExecutorConfig::default());
//! let handle = executor.handle();
//! let port = Port::new(&fabric, node, &handle)?;
//! handle.add_poller(port.poller());
//! executor.block_on(async {
//!     let geometry = Geometry::new(64 << 10, 512)?;
//!     let pool = Pool::format(&port, &[(memory, 1 << 20)], geometry, 7).await?;
//!     let epochs = Epochs::register(&pool, &port, node, PoolSettings::default()).await?;
//!     let lines = LineAllocator::new(&epochs);
//!     let worker = EpochWorker::start(&epochs, &port, &handle);
//!
//!     let operation = worker.enter(&handle).await?;
//!     let line = lines.allocate(&port, &handle).await?;
//!     assert_eq!(geometry.line_index(line), 0);
//!     // .. use it, make it unreachable for everybody ..
//!     lines.retire(line)?;
//!     drop(operation);
//!
//!     while !worker.stop(&handle) {
//!         handle.yield_now().await;
//!     }
//!     epochs.unregister(&port).await
//! })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod again;
mod allocator;
mod catalogue;
mod chunks;
pub mod epoch;
mod error;
mod geometry;
mod header;
pub mod journal;
mod layout;
mod pool;
mod retired;
mod settings;
mod task_mutex;

pub use allocator::{LineAllocator, free_chunks};
pub use catalogue::{Catalogue, CatalogueEntry, ObjectKind};
pub use chunks::ClaimedChunks;
pub use epoch::{Epoch, EpochGuard, EpochWorker, Epochs};
pub use error::PoolError;
pub use geometry::Geometry;
pub use header::{Incarnation, LineHeader};
pub use journal::Journal;
pub use latchwork_verbs::LINE_HEADER;
pub use pool::Pool;
pub use settings::PoolSettings;
