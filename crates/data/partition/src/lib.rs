//! Two-phase commit over rows that are dealt out to compute nodes: what coherent memory spares, for
//! comparison (SELCC 7.3.2).
//!
//! ```text
//!   node 0: Partitioned ── begin ──► Transaction ── get, update .. ──► its own rows: a transaction of latchwork-txn
//!                                        │
//!                                        │ letters: operations, prepare, validate, commit
//!                                        ▼
//!   node 1: Partitioned ── Participant: a transaction of latchwork-txn on the rows of node 1
//! ```
//!
//! Each row has one node that touches it, its owner; a transaction that begins elsewhere sends its
//! operations there. So lines stay in the cache of one node, and a transaction over several nodes
//! pays messages and syncs instead.
//!
//! - [`Partitioned`], [`Transaction`], [`Rows`]: how it is used.
//! - [`Site`]: what the workers of a node share; [`Settings`]: how long who waits.
//! - [`resolve`]: which transactions had committed, after a restart.
//!
//! # What is promised
//!
//! - Serializability over all nodes, as within one. Whoever was told that a transaction committed
//!   finds it so everywhere.
//! - All of a transaction or nothing, through any crash of the whole (presumed abort: no decision
//!   record, no commit).
//! - A participant that has voted keeps its locks until it knows the decision, and asks for it
//!   again and again. Any other gives up when it hears nothing; so does a coordinator without all
//!   votes. Nobody waits without a deadline.
//!
//! # Example
//!
//! Each worker of each node starts a [`Partitioned`] on its database, and says whose each row is.
//!
//! ```
//! use std::rc::Rc;
//! use std::sync::Arc;
//!
//! use latchwork_coherence::{LineLocks, Mail};
//! use latchwork_partition::{Partitioned, Rows, Site};
//! use latchwork_txn::{Database, Table, TxnError};
//!
//! /// What the only worker of a node does; `site` is its node's.
//! async fn pay<M: LineLocks + Mail>(
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
mod message;
mod operation;
mod participant;
mod post;
mod record;
mod rows;
mod settings;
mod site;
mod transaction;
mod worker;

pub use operation::{Answer, Operation, What};
pub use record::{BadRecord, Commit, DECISION, PREPARE, Resolved, resolve};
pub use rows::Rows;
pub use settings::Settings;
pub use site::{Gathering, Site, Stats};
pub use transaction::Transaction;
pub use worker::{Owner, Partitioned};
