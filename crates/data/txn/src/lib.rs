//! Transactions over tables in coherent memory: two-phase locking, timestamp ordering, optimistic
//! concurrency control, on one path.
//!
//! ```text
//!   Database ── tables by name ──► Table: Schema, Heap, indexes
//!      │ begin, run                   ▲
//!      ▼                              │ rows by key, by index, in ranges
//!   Transaction ── get, scan, insert, update, delete ──► commit ──► log ──► install
//!
//!   key ──► index (B-link tree) ──► TupleId ──► heap line: slot ──► tuple { cts, state, key, value }
//! ```
//!
//! - [`schema`]: columns, keys and indexes of a table, made at run time.
//! - [`Database`], [`Table`]: one worker's handles. [`Node`]: what the workers of a compute node
//!   share.
//! - [`Transaction`]: what it promises, and why it holds.
//! - [`Database::checkpoint`], [`Recovery`]: what lasts, and what is made of it after a crash.
//! - [`Retry`]: trying again what has met others, with a bound.
//! - [`Prepared`]: one that stops before its commit, as a part of a larger one.
//! - [`Scheme`]: which concurrency control; all transactions of a database use the same.
//! - [`Heap`]: rows in lines of their table, by [`TupleId`]; updates in place, rows that grow,
//!   tombstones.
//! - [`Key`]: columns as bytes that order like they do.
//! - [`NodeClock`]: commit timestamps ([`Timestamp`]), which every tuple has.
//!
//! A program opens a database on a cluster by the crate `latchwork-database`, which calls all of
//! this in order.
//!
//! Reads are optimistic: they bear any bytes, and count only if the line was consistent. Writes
//! hold one line's write guard, and never across an await.
//!
//! # Example
//!
//! ```
//! use latchwork_coherence::LineLocks;
//! use latchwork_txn::schema::ColumnType;
//! use latchwork_txn::{Database, Schema, TxnError};
//!
//! async fn pay<M: LineLocks>(database: &Database<M>) -> Result<u64, TxnError> {
//!     let schema = Schema::builder("accounts")
//!         .column("id", ColumnType::U32)
//!         .column("cents", ColumnType::U64)
//!         .primary_key(["id"])
//!         .build()?;
//!     let cents = schema.column("cents")?;
//!     let accounts = database.create_table(schema).await?;
//!     let (one, two) = (7_u32.to_be_bytes(), 8_u32.to_be_bytes());
//!     database
//!         .run(async |tx| {
//!             tx.insert(&accounts, &one, &500_u64.to_le_bytes()).await?;
//!             tx.insert(&accounts, &two, &0_u64.to_le_bytes()).await
//!         })
//!         .await?;
//!     // Either both accounts change or none; in the way of others, it is tried again.
//!     database
//!         .run(async |tx| {
//!             let mut row = Vec::new();
//!             tx.get_for_update(&accounts, &one, &mut row).await?;
//!             let had = accounts.schema().row(&row)?.u64(cents)?;
//!             tx.update(&accounts, &one, &(had - 100).to_le_bytes()).await?;
//!             tx.update(&accounts, &two, &100_u64.to_le_bytes()).await?;
//!             Ok(had - 100)
//!         })
//!         .await
//! }
//! ```

#![forbid(unsafe_code)]

mod checkpoint;
mod clock;
mod database;
mod elder;
mod error;
mod heap;
mod key;
mod node;
mod page;
mod places;
mod purge;
mod recovery;
mod retry;
pub mod schema;
mod scheme;
mod table;
mod transaction;
mod tuple_id;

pub use checkpoint::Checkpoint;
pub use clock::NodeClock;
pub use database::Database;
pub use error::{Conflict, TxnError};
pub use heap::{Heap, Seen};
pub use key::Key;
pub use latchwork_wal::{DatabaseId, NodeId, TableId, Timestamp};
pub use node::{Health, Node, Settings};
pub use recovery::Recovery;
pub use retry::Retry;
pub use schema::Schema;
pub use scheme::Scheme;
pub use table::Table;
pub use transaction::{Prepared, Range, Transaction, Values};
pub use tuple_id::TupleId;
