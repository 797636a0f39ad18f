//! Transactions over tables in coherent memory. Three schemes share one code path: two-phase
//! locking, timestamp ordering and optimistic concurrency control.
//!
//! ```text
//!   Database ── tables by name ──► Table: Schema, Heap, indexes
//!      │ begin, run                   ▲
//!      ▼                              │ rows by key, by index, in ranges
//!   Transaction ── get, scan, insert, update, delete ──► commit ──► log ──► install
//!
//!   key ──► index (B-link tree) ──► RowId ──► heap line: slot ──► tuple { cts, state, key, value }
//! ```
//!
//! - [`schema`]: the columns, keys and indexes of a table, defined at run time.
//! - [`Database`], [`Table`]: the handles of one worker. [`TransactionNode`]: the state that the
//!   workers of a compute node share.
//! - [`Transaction`]: the promises of a transaction, and the argument why they hold.
//! - [`Database::checkpoint`], [`Recovery`]: the durable state, and its reconstruction after a
//!   crash.
//! - [`Retry`]: the repetition of a transaction after conflicts, with a bound.
//! - [`Prepared`], [`Validated`]: a transaction that stops before its commit, as a part of a larger
//!   transaction.
//! - [`Scheme`]: the concurrency control. All transactions of a database use the same scheme.
//! - [`Heap`]: rows in the lines of their table, addressed by [`RowId`]. The heap updates rows in
//!   place, moves rows that outgrow their page, and keeps tombstones.
//! - [`Key`]: columns encoded as bytes in the order of the columns' values.
//! - [`NodeClock`]: the source of commit timestamps ([`Timestamp`]). Every committed version of a
//!   row has a commit timestamp.
//!
//! The crate `latchwork-database` opens a database on a cluster and calls all of this in order.
//!
//! Reads of pages are optimistic: a read tolerates any bytes, and its result counts only if the
//! line did not change during the read. A write holds the write guard of a line, and drops the
//! guard before any await.
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
//!     // Either both accounts change or none. After a conflict the transfer runs again.
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

mod aged;
mod checkpoint;
mod clock;
mod database;
mod error;
mod heap;
mod key;
mod location_cache;
mod node;
mod page;
mod purge;
mod purge_piece;
mod recovery;
mod retry;
mod row_id;
mod rules;
pub mod schema;
mod scheme;
mod table;
mod transaction;

pub use checkpoint::Checkpoint;
pub use clock::NodeClock;
pub use database::Database;
pub use error::{Conflict, TxnError};
pub use heap::{Heap, SeenRow};
pub use key::Key;
pub use latchwork_wal::{DatabaseId, NodeId, TableId, Timestamp};
pub use node::{Health, TransactionNode, TransactionSettings};
pub use recovery::Recovery;
pub use retry::Retry;
pub use row_id::RowId;
pub use rules::TransactionRules;
pub use schema::Schema;
pub use scheme::Scheme;
pub use table::Table;
pub use transaction::{Prepared, Range, Transaction, Validated, Values};
