//! Latchwork: cache-coherent disaggregated memory, and the database parts that stand on it.
//!
//! A [`Cluster`] has compute nodes with workers. [`Cluster::run`] calls a function on every worker,
//! and the function finds trees and databases by their names.
//!
//! # A shared tree
//!
//! ```
//! use latchwork::{Cluster, ClusterConfig};
//!
//! let config = ClusterConfig { cache_bytes: 1 << 20, memory_bytes: 32 << 20, ..Default::default() };
//! let cluster = Cluster::start(config)?;
//! let answers = cluster.run(async |worker| {
//!     // The first worker that asks for the name makes the tree.
//!     let greetings = worker.tree("greetings").await?;
//!     greetings.upsert(b"greeting", b"hello").await?;
//!     Ok(greetings.get(b"greeting").await?)
//! })?;
//! assert_eq!(answers, [Some(b"hello".to_vec()), Some(b"hello".to_vec())]);
//! cluster.close()?;
//! # Ok::<(), latchwork::Error>(())
//! ```
//!
//! # A database
//!
//! ```
//! use latchwork::txn::{Schema, schema::ColumnType};
//! use latchwork::{Cluster, ClusterConfig, ClusterWorker, Result};
//!
//! /// Opens an account for this worker. Returns whether the worker had none.
//! async fn open_account(worker: ClusterWorker) -> Result<bool> {
//!     let bank = worker.database("bank")?;
//!     let accounts = bank.table("accounts").await?;
//!     let key = (worker.index as u32).to_be_bytes();
//!     let is_new = bank.run(async |tx| {
//!         if tx.get(&accounts, &key, &mut Vec::new()).await? {
//!             return Ok(false);
//!         }
//!         tx.insert(&accounts, &key, &100_u64.to_le_bytes()).await?;
//!         Ok(true)
//!     });
//!     Ok(is_new.await?) // The commit is durable.
//! }
//!
//! # let directory = tempfile::tempdir().map_err(latchwork::Error::program)?;
//! # let directory = directory.path();
//! for is_new in [true, false] {
//!     let config =
//!         ClusterConfig { cache_bytes: 1 << 20, memory_bytes: 32 << 20, ..Default::default() };
//!     let cluster = Cluster::start(config)?;
//!     let accounts = Schema::builder("accounts")
//!         .column("account", ColumnType::U32)
//!         .column("cents", ColumnType::U64)
//!         .primary_key(["account"])
//!         .build()?;
//!     cluster.database("bank").directory(directory).table(accounts).open()?;
//!     assert_eq!(cluster.run(open_account)?, [is_new, is_new]);
//!     cluster.close()?;
//! }
//! # Ok::<(), latchwork::Error>(())
//! ```
//!
//! Without `directory` the database ends with its cluster.
//!
//! # Threads, virtual time, processes
//!
//! `Cluster::simulated(config, SimConfig::default())` runs the same program in virtual time, where
//! one seed decides every delay and every order. `Cluster::join` (feature `processes`) makes this
//! process one node of a cluster of processes. The rest of the program stays the same, with two
//! exceptions: a database of several processes has no log, and `run` covers the workers of its own
//! process only. [`Cluster::exchange`] waits for the other processes.
//!
//! # The crates
//!
//! The crate also re-exports the library crates of the workspace, under their folders' names. Each
//! layer uses only layers below it in this list:
//!
//! ```text
//!   workload       key distributions, YCSB, TPC-C: for any store
//!   report         latencies, result documents: for any workload
//!   history        records of transactions and calls, and checks of these records: for any store
//!   ─────────────────────────────────────────────────────────────────────────────────────
//!   cluster        clusters of threads, in virtual time, or (`processes`) of processes
//!   database       a database on a cluster: logs, recovery and tables behind one call
//!   membership     with `processes`: the members of a cluster, in a directory or etcd
//!   partition      two-phase commit over rows that each have one owner node
//!   txn            tables with schemas and indexes, serializable transactions
//!   blink          B-link tree
//!   rtree          R-tree: boxes, and queries by place
//!   sherman        Sherman's tree and FG+, without a coherent cache
//!   index          the trait of an ordered index, for any memory
//!   relaxed        a worker's write buffer: total and partial store order
//!   wal            the write-ahead log: group commit, checkpoints, replay
//!   selcc          the protocols of the latch word: SELCC, and the baseline SEL
//!   engine         for any protocol: waiters, tickets, locks, eviction, messages
//!   coherence      the traits that indexes and transactions use
//!   cache          frames of a compute node
//!   memnode        the memory pool: chunks, lines, epochs, named objects
//!   latch          the latch word, and the ownership protocol as a pure state machine
//!   fabric         one enum over verbs_shm, verbs_sim, verbs_ibv, verbs_tcp (`processes`); ports
//!   verbs          the contract of every fabric
//!   runtime        polling executor, in real and in virtual time
//!   simulation     the kernel of a deterministic world
//! ```

#![forbid(unsafe_code)]

mod front;

pub use front::{Cluster, ClusterWorker, Error, NamedDatabase, NamedTree, Result};
pub use latchwork_blink as blink;
pub use latchwork_cache as cache;
pub use latchwork_cluster as cluster;
pub use latchwork_cluster::ClusterConfig;
pub use latchwork_coherence as coherence;
pub use latchwork_database as database;
pub use latchwork_engine as engine;
pub use latchwork_fabric as fabric;
pub use latchwork_files as files;
pub use latchwork_history as history;
pub use latchwork_index as index;
pub use latchwork_latch as latch;
#[cfg(feature = "processes")]
pub use latchwork_membership as membership;
pub use latchwork_memnode as memnode;
pub use latchwork_partition as partition;
pub use latchwork_relaxed as relaxed;
pub use latchwork_report as report;
pub use latchwork_rtree as rtree;
pub use latchwork_runtime as runtime;
pub use latchwork_selcc as selcc;
pub use latchwork_sherman as sherman;
pub use latchwork_simulation as simulation;
pub use latchwork_txn as txn;
pub use latchwork_units as units;
pub use latchwork_verbs as verbs;
#[cfg(target_os = "linux")]
pub use latchwork_verbs_ibv as verbs_ibv;
pub use latchwork_verbs_shm as verbs_shm;
pub use latchwork_verbs_sim as verbs_sim;
pub use latchwork_verbs_sim::SimConfig;
#[cfg(feature = "processes")]
pub use latchwork_verbs_tcp as verbs_tcp;
pub use latchwork_wal as wal;
pub use latchwork_workload as workload;
