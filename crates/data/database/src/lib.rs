//! A database on a cluster behind one call. The call opens the logs, and recovers or makes the
//! database on every worker.
//!
//! ```text
//!   Instance::at(directory) ── opens the logs, replays them ──┐         Instance::in_memory: no log
//!                                                             ▼
//!   run, or on each worker of each node: open(member) ── Opened, which is a Database
//!     │ 1  the first worker of a node opens its log, and makes its Node
//!     │ 2  the first worker of all makes the database and its tables, and names it in the catalogue
//!     │ 3  all workers restore rows, then build indexes                      } no worker begins a step
//!     │ 4  the first worker makes the tables of the options that are missing } before all have ended the last
//!     ▼
//!   transactions, checkpoints ──► close: the log of the node is written
//! ```
//!
//! - [`Instance`], [`Opened`], [`DatabaseOptions`]: the interface for programs.
//! - [`with_open`]: several instances in one phase. The front door of the crate `latchwork` uses
//!   it.
//! - [`Nodes`], [`open_named`], [`replay`]: the parts of an opening, for programs that open a
//!   database step by step.
//!
//! # What holds
//!
//! - A worker gets the database only when it is complete. A partly recovered database is never
//!   used.
//! - A database with a log is made from the log, once, on a cluster whose memory has no database of
//!   that name. The instance never trusts the content of a cluster's memory in place of its log.
//! - An error of any worker ends the opening on all workers. `run` returns the original error, not
//!   the errors that follow from it on other workers.
//! - During an opening, a close or a checkpoint, every wait for another worker or for a log ends
//!   after [`DatabaseOptions::patience`].
//! - With a log, all compute nodes of the cluster are in this process. Without one, the nodes may
//!   be in several processes, each with its own instance ([`Instance::in_memory_here`]).
//!
//! # Example
//!
//! ```
//! use latchwork_cluster::{ClusterConfig, Embedded};
//! use latchwork_database::{Instance, Opened, DatabaseOptions};
//! use latchwork_txn::schema::ColumnType;
//! use latchwork_txn::{Schema, TxnError};
//!
//! # let directory = tempfile::tempdir()?;
//! # let directory = directory.path();
//! let counters = Schema::builder("counters")
//!     .column("name", ColumnType::Text(20))
//!     .column("value", ColumnType::U64)
//!     .primary_key(["name"])
//!     .build()?;
//! let options = DatabaseOptions { tables: vec![counters], ..DatabaseOptions::default() };
//!
//! // Each of the two compute nodes adds one, and does so again after the next start.
//! async fn add_one(database: Opened) -> Result<u64, TxnError> {
//!     let counters = database.table("counters").await?;
//!     let mut key = Vec::new();
//!     counters.schema().encode_key(&["starts".into()], &mut key)?;
//!     database
//!         .run(async |tx| {
//!             let mut row = Vec::new();
//!             if tx.get_for_update(&counters, &key, &mut row).await? {
//!                 let value = counters.schema().row(&row)?.u64(counters.schema().column("value")?)?;
//!                 tx.update(&counters, &key, &(value + 1).to_le_bytes()).await?;
//!                 return Ok(value + 1);
//!             }
//!             tx.insert(&counters, &key, &1_u64.to_le_bytes()).await?;
//!             Ok(1)
//!         })
//!         .await
//! }
//!
//! for start in 1..=2 {
//!     let config =
//!         ClusterConfig { cache_bytes: 1 << 20, memory_bytes: 32 << 20, ..ClusterConfig::default() };
//!     let cluster = Embedded::start(config)?;
//!     let instance = Instance::at(directory, cluster.config(), options.clone())?;
//!     let counts = instance.run(&cluster, add_one)?;
//!     let highest = counts.into_iter().collect::<Result<Vec<_>, _>>()?.into_iter().max();
//!     assert_eq!(highest, Some(2 * start));
//!     instance.close()?;
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod caught;
mod error;
mod instance;
mod named;
mod nodes;
mod opened;
mod options;
mod phase;
mod replay;
mod steps;

pub use error::DatabaseOpenError;
pub use instance::{Found, Instance};
pub use named::open_named;
pub use nodes::{Nodes, Wait};
pub use opened::Opened;
pub use options::DatabaseOptions;
pub use phase::with_open;
pub use replay::{draw_id, replay};
