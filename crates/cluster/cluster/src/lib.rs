//! Clusters: their configuration, their start, and running code on every worker.
//!
//! ```text
//!   ClusterConfig ──► Embedded   threads of this process, real time
//!                ├──► Simulated  actors in one world, virtual time, one seed
//!                └──► Joined     node of a cluster of processes   (feature `processes`)
//!                        │
//!                        └── run(body) ──► body(Member) on every worker of every compute node that is here
//! ```
//!
//! All three build the same nodes from the same configuration. A program for one of them also runs
//! on the others. `Joined` finds the nodes of other processes through a
//! `latchwork_membership::Membership`. These nodes are compute nodes and memory nodes
//! (`MemoryHost`). A `Transport` connects the processes: shared memory of one machine, sockets, or
//! RDMA devices.
//!
//! # Rules of a cluster of processes
//!
//! - A compute node touches no line until the node and all nodes that may own lines know each
//!   other.
//! - A graceful leave has this order: the node owns no line, no other node requests a line from the
//!   node, and the node's id becomes free.
//! - A dead node keeps the lines that it owned. A request for such a line gets an error in bounded
//!   time. The other lines stay usable.
//! - When a view shows a node dead, the members fence the node. Agents refuse its requests. On RDMA
//!   devices the members destroy its connections. On shared memory they kill what remains of its
//!   process.
//!
//! ```
//! use latchwork_cluster::{ClusterConfig, Embedded};
//! use latchwork_coherence::CoherentMemory;
//! use latchwork_memnode::ObjectKind;
//!
//! let config = ClusterConfig { cache_bytes: 1 << 20, memory_bytes: 32 << 20, ..Default::default() };
//! let cluster = Embedded::start(config)?;
//! // Two compute nodes add to one counter, which the first of them makes.
//! let sums = cluster.run(async |member| {
//!     let memory = &member.memory;
//!     let _operation = memory.enter().await?;
//!     if member.index == 0 {
//!         let line = memory.allocate().await?;
//!         memory.write(line, |guard| { guard.words().set_u64(0, 0); guard.mark_dirty(0..8) }).await?;
//!         let name = member.catalogue.register(memory.port(), "counter", ObjectKind(1), line.bits());
//!         name.await.expect("a new name");
//!     }
//!     let deadline = member.handle.now() + std::time::Duration::from_secs(10);
//!     let found = member.catalogue.wait_for(memory.port(), &member.handle, "counter", deadline);
//!     let line = latchwork_verbs::GlobalAddr::from_bits(found.await.expect("the counter").value);
//!     for _ in 0..100 {
//!         memory.write(line, |guard| {
//!             guard.words().set_u64(0, guard.words().u64(0) + 1);
//!             guard.mark_dirty(0..8);
//!         }).await?;
//!     }
//!     memory.read(line, |words| words.u64(0)).await
//! })?;
//! let last = sums.into_iter().map(|sum| sum.expect("no error")).max();
//! assert_eq!(last, Some(200));
//! # Ok::<(), latchwork_cluster::ClusterError>(())
//! ```

#![forbid(unsafe_code)]

mod build;
mod config;
mod costs;
mod embedded;
mod host;
#[cfg(feature = "processes")]
mod joined;
mod journal;
#[cfg(feature = "processes")]
mod memory_agent;
#[cfg(feature = "processes")]
mod memory_host;
mod ports;
mod protocol;
mod reclaim;
mod recover;
mod settings;
mod simulated;
#[cfg(feature = "processes")]
mod transport;
mod usage;

pub use build::{ClusterError, Member};
pub use config::{ClusterConfig, ConfigError};
pub use embedded::Embedded;
#[cfg(feature = "processes")]
pub use joined::{JoinError, Joined, NodeGroup, NodeRecovery, StartPatience, StartWait, is_free};
pub use latchwork_engine::{Lock, Node, Ticket, Worker};
#[cfg(feature = "processes")]
pub use memory_host::MemoryHost;
pub use protocol::{
    Protocol, agent, beside, describe, describe_atomic, describe_word, read_message, roll_forward,
};
pub use settings::SettingError;
pub use simulated::{Building, Simulated, SimulatedNode, WorldWatch};
#[cfg(feature = "processes")]
pub use transport::{SHARED_DIRECTORY, Transport};
pub use usage::Usage;
