//! Latchwork: cache-coherent disaggregated memory, and the database parts that stand on it.
//!
//! This crate has no code of its own. It re-exports the library crates of the workspace under their
//! folders' names, for a program that wants one dependency. With the feature `tcp` it has sockets,
//! and clusters whose nodes are processes. Each layer uses only those below it here:
//!
//! ```text
//!   workload       key distributions, YCSB, histograms, history checkers: knows no store
//!   history        what transactions did: recorded, and checked; knows no store
//!   ─────────────────────────────────────────────────────────────────────────────────────
//!   cluster        clusters in one process, of threads or simulated; with `tcp`, of many processes
//!   database       a database on a cluster: logs, recovery and tables behind one call
//!   membership     with `tcp`: who is in a cluster of processes, in a directory or etcd
//!   partition      two-phase commit over rows that are dealt out to nodes
//!   txn            tables with schemas and indexes, serializable transactions
//!   blink          B-link tree
//!   relaxed        a worker's write buffer: total and partial store order
//!   wal            the write-ahead log: group commit, checkpoints, replay
//!   selcc          the protocols of the latch word: SELCC, and the baseline SEL
//!   engine         what any protocol stands on: waiters, tickets, locks, eviction, messages
//!   coherence      the traits between protocols and what stands on them
//!   cache          frames of a compute node
//!   memnode        the memory pool: chunks, lines, epochs, named objects
//!   latch          the latch word, and the ownership protocol as a pure state machine
//!   fabric         one enum over verbs_shm, verbs_sim, verbs_ibv and, with `tcp`, verbs_tcp; ports
//!   verbs          what every fabric promises
//!   runtime        polling executor, in real and in virtual time
//!   simulation     the kernel of a deterministic world
//! ```
//!
//! # Example
//!
//! Two compute nodes share one tree. The first makes it and names it in the pool's catalogue; the
//! second finds it there, and reads what the first has written.
//!
//! ```
//! use std::time::Duration;
//!
//! use latchwork::blink::{Tree, TreeConfig};
//! use latchwork::cluster::{ClusterConfig, Embedded, Member};
//! use latchwork::memnode::ObjectKind;
//! use latchwork::verbs::GlobalAddr;
//!
//! type Error = Box<dyn std::error::Error + Send + Sync>;
//!
//! async fn session(member: Member) -> Result<Vec<u8>, Error> {
//!     let (memory, catalogue) = (member.memory.clone(), &member.catalogue);
//!     let port = memory.port().clone();
//!     if member.node == 0 {
//!         let tree = Tree::create(memory, TreeConfig::default()).await?;
//!         tree.insert(b"greeting", b"hello").await?;
//!         catalogue.register(&port, "greetings", ObjectKind(1), tree.root().bits()).await?;
//!     }
//!     let deadline = member.handle.now() + Duration::from_secs(10);
//!     let entry = catalogue.wait_for(&port, &member.handle, "greetings", deadline).await?;
//!     let root = GlobalAddr::from_bits(entry.value);
//!     let tree = Tree::open(member.memory.clone(), root, TreeConfig::default()).await?;
//!     Ok(tree.get(b"greeting").await?.unwrap_or_default())
//! }
//!
//! let config = ClusterConfig { cache_bytes: 1 << 20, memory_bytes: 32 << 20, ..Default::default() };
//! let cluster = Embedded::start(config)?;
//! for answer in cluster.run(session)? {
//!     assert_eq!(answer?, b"hello");
//! }
//! # Ok::<(), Error>(())
//! ```
//!
//! Tables with transactions, with a log or without one, are behind one call:
//! [`database::Instance`].
//!
//! The same `session` runs in virtual time on a [`cluster::Simulated`], where one seed decides
//! everything that a network leaves open.

#![forbid(unsafe_code)]

pub use latchwork_blink as blink;
pub use latchwork_cache as cache;
pub use latchwork_cluster as cluster;
pub use latchwork_coherence as coherence;
pub use latchwork_database as database;
pub use latchwork_engine as engine;
pub use latchwork_fabric as fabric;
pub use latchwork_files as files;
pub use latchwork_history as history;
pub use latchwork_latch as latch;
#[cfg(feature = "tcp")]
pub use latchwork_membership as membership;
pub use latchwork_memnode as memnode;
pub use latchwork_partition as partition;
pub use latchwork_relaxed as relaxed;
pub use latchwork_runtime as runtime;
pub use latchwork_selcc as selcc;
pub use latchwork_simulation as simulation;
pub use latchwork_txn as txn;
pub use latchwork_units as units;
pub use latchwork_verbs as verbs;
#[cfg(target_os = "linux")]
pub use latchwork_verbs_ibv as verbs_ibv;
pub use latchwork_verbs_shm as verbs_shm;
pub use latchwork_verbs_sim as verbs_sim;
#[cfg(feature = "tcp")]
pub use latchwork_verbs_tcp as verbs_tcp;
pub use latchwork_wal as wal;
pub use latchwork_workload as workload;
