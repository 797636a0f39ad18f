//! Two-phase commit over rows that are partitioned among compute nodes. Measurements compare this
//! crate with coherent memory, where transactions need no such protocol (SELCC 7.3.2).
//!
//! ```text
//!   node 0: Partitioned ── begin ──► PartitionedTransaction ── get, update .. ──► its own rows: a transaction of latchwork-txn
//!                                        │
//!                                        │ messages: operations, prepare, validate, commit
//!                                        ▼
//!   node 1: Partitioned ── Participant: a transaction of latchwork-txn on the rows of node 1
//! ```
//!
//! Each row has one row owner, the only node that touches the row. (Rows without an owner have a
//! copy on each node.) A transaction that began on another node sends its operations to the row
//! owner. So a line stays in the cache of one node. The price of a transaction over several nodes
//! is messages and syncs.
//!
//! - [`Partitioned`], [`PartitionedTransaction`], [`TransactionRows`]: the interface for programs.
//! - [`Site`]: the state that the workers of a node share. [`PartitionSettings`]: the deadlines.
//! - [`resolve`]: finds the committed transactions after a restart.
//!
//! # What is promised
//!
//! - Serializability over all nodes, as within one node. A transaction that begins after a commit
//!   was reported sees that commit, on any node.
//! - With logs, a crash of the whole cluster leaves all of a transaction or nothing. The rule is
//!   presumed abort: without a decision record there is no commit.
//! - A participant that has voted keeps its locks until it knows the decision, and requests the
//!   decision again and again. A participant without a vote aborts when its coordinator is silent
//!   for too long. A coordinator that does not get all votes in time aborts, too. Every wait of a
//!   caller has a deadline.
//!
//! # Example
//!
//! Each worker of each node starts a [`Partitioned`] on its database, with a function from a key to
//! its row owner.
//!
//! ```
//! use std::rc::Rc;
//! use std::sync::Arc;
//!
//! use latchwork_coherence::{LineLocks, UserMessages};
//! use latchwork_partition::{Partitioned, TransactionRows, Site};
//! use latchwork_txn::{Database, Table, TxnError};
//!
//! /// What the only worker of a node does; `site` is its node's.
//! async fn pay<M: LineLocks + UserMessages>(
//!     database: Database<M>,
//!     site: Arc<Site>,
//!     accounts: Table<M>,
//! ) -> Result<(), TxnError> {
//!     // Keys begin with the number of the node that owns the row.
//!     let owner = Rc::new(|_: &Table<M>, key: &[u8]| Some(key[0]));
//!     let node = Partitioned::start(database, site, 0, [accounts.clone()], owner)?;
//!     // Rows of two nodes: committed by two phases, on both or on neither.
//!     node.run(async |tx| {
//!         tx.update(&accounts, &[0, 7], &400_u64.to_le_bytes()).await?;
//!         tx.update(&accounts, &[1, 9], &100_u64.to_le_bytes()).await
//!     })
//!     .await
//! }
//! ```

#![forbid(unsafe_code)]

mod bytes;
mod commit;
mod fragments;
mod inner;
mod message;
mod operation;
mod participant;
mod record;
mod rows;
mod serve;
mod settings;
mod site;
mod transaction;
mod worker;

pub use inner::Owner;
pub use operation::{OperationAnswer, PartitionOperation, RowOperation};
pub use record::{BadCommitRecord, Commit, DECISION, PREPARE, Resolved, resolve};
pub use rows::TransactionRows;
pub use settings::PartitionSettings;
pub use site::{PrepareCollector, Site, Stats};
pub use transaction::PartitionedTransaction;
pub use worker::Partitioned;
