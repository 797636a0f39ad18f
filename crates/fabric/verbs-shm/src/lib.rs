//! The shared-memory fabric: the caller executes one-sided verbs on memory that all nodes map.
//!
//! This crate owns a fabric of two kinds. In a fabric of one process, workers are threads of this
//! process. In a fabric in a directory ([`ShmFabric::in_directory`]), the nodes belong to several
//! processes of one host that share files. Both kinds are one-sided: a memory node is only memory.
//! The worker that rings executes its own verbs, as its NIC would.
//!
//! ```text
//!   worker of node 1                                     worker of node 2
//!   Endpoint: posted, stalled, completed                 Endpoint
//!      │ ring: loads, stores, atomics                        │
//!      ├────────────► memory node 0: Region ◄────────────────┤
//!      ├────────────► memory node 1: Region ◄────────────────┘
//!      │
//!      └── Send ────► inbox of node 2: bounded ring; active pollers, list of the parked
//! ```
//!
//! In a directory all of that memory is in files. Messages between processes go through rings, one
//! ring for each direction of each pair of nodes. The module `across` lists the shared memory, and
//! argues why a killed process blocks no other process.
//!
//! # Invariants
//!
//! - A fabric only adds regions and nodes, except that a node can be cut off. Each endpoint notices
//!   a cut-off at its next post or ring at the latest. So an endpoint may keep nodes and regions
//!   without locks.
//! - READ and WRITE move relaxed 8-byte words. CAS and FAA are CPU atomics on the same words. So on
//!   this fabric **CPU atomics and fabric atomics may be mixed** on one word.
//! - The order inside a batch is program order. The memory fences of the module `execute` make
//!   other threads see this order.
//! - A sender that finds no polling worker wakes a parked worker, and no wake is lost.
//! - Once its endpoint's queues have grown, and its target and local regions are known, a verb
//!   allocates no memory. A message that finds a full inbox is the exception.
//! - No process holds a lock, a claim or a count in the shared memory that another process would
//!   have to reset.
//!
//! The fabric survives full inboxes (a batch waits at its sender), nodes that are cut off
//! ([`ShmFabric::disconnect`]), and processes that are killed at any instruction. The next start of
//! any process of the same user in the same directory removes the files of a killed process. A
//! delivered message is lost only if its sender or its receiver dies or is cut off.
//!
//! # Example
//!
//! ```
//! use latchwork_verbs::{
//!     ComputeNodeId, Endpoint, LocalBuffer, Region, RegionKey, WorkRequest, Target,
//! };
//! use latchwork_verbs_shm::ShmFabric;
//!
//! let fabric = ShmFabric::default();
//! let memory = Target::Memory(fabric.add_memory_node(1 << 20)?);
//! let node = ComputeNodeId::new(1).unwrap();
//! fabric.add_compute_node(node)?;
//! let frames = Region::zeroed(1 << 16)?;
//! let region = fabric.register(node, frames.clone())?;
//!
//! let mut endpoint = fabric.endpoint(node)?;
//! let local = LocalBuffer { region, offset: 0, len: 64 };
//! endpoint.post(memory, 1, &[WorkRequest::WriteWord { remote: 8, value: 42 }])?;
//! endpoint.post(memory, 2, &[
//!     WorkRequest::FetchAdd { remote: 512, add: 5 },
//!     WorkRequest::Read { remote: 0, local },
//! ])?;
//! endpoint.ring();
//! let mut done = Vec::new();
//! endpoint.poll(&mut |completion| done.push(completion));
//! assert_eq!(done[1].result?.old[0], 0);
//! assert_eq!(frames.words().u64(8), 42);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Two fabrics in one directory, as two processes have them. Here one process has both:
//!
//! ```
//! # #[cfg(target_os = "linux")] {
//! use latchwork_verbs::{ComputeNodeId, Endpoint, MemoryNodeId, WorkRequest, Target};
//! use latchwork_verbs_shm::{ShmConfig, ShmFabric, ShmNodeName};
//!
//! let directory = std::env::temp_dir().join(format!("latchwork-example-{}", std::process::id()));
//! let there = ShmFabric::in_directory(&directory, ShmConfig::default())?;
//! there.serve_memory_as(MemoryNodeId(0), 1 << 16)?;
//! let contact = there.contact(ShmNodeName::Memory(MemoryNodeId(0)))?;
//!
//! let here = ShmFabric::in_directory(&directory, ShmConfig::default())?;
//! let node = ComputeNodeId::new(1).unwrap();
//! here.add_compute_node(node)?;
//! here.add_peer(ShmNodeName::Memory(MemoryNodeId(0)), &contact)?;
//! let mut endpoint = here.endpoint(node)?;
//! let add = [WorkRequest::FetchAdd { remote: 64, add: 3 }];
//! endpoint.post(Target::Memory(MemoryNodeId(0)), 7, &add)?;
//! endpoint.ring();
//! assert_eq!(there.memory(MemoryNodeId(0)).unwrap().words().u64(64), 3);
//! # drop((there, here, endpoint));
//! # std::fs::remove_dir(&directory)?;
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

#[cfg_attr(any(not(target_os = "linux"), loom), allow(dead_code))]
mod across;
mod config;
mod endpoint;
mod error;
mod execute;
mod fabric;
mod inbox;
mod memory_room;
mod name;
#[cfg_attr(any(not(target_os = "linux"), loom), allow(dead_code))]
mod node;
mod queue;
mod routes;
mod shared;

pub use config::{Cleaned, HugePages, Place, ShmConfig};
pub use endpoint::ShmEndpoint;
pub use error::ShmError;
pub use execute::Barriers;
pub use fabric::ShmFabric;
pub use inbox::{ShmInbox, ShmSubscription};
pub use memory_room::MemoryRoom;
pub use name::{ProcessEnd, ShmNodeName};
