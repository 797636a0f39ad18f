//! Tables in coherent memory: what every concurrency control needs and none decides.
//!
//! ```text
//!   key ──► primary index (B-link tree) ──► TupleId ──► heap line: slot ──► tuple { cts, state, key, value }
//! ```
//!
//! - [`Heap`]: rows in lines of their table, by [`TupleId`]; updates in place, rows that grow, tombstones.
//! - [`Table`]: rows by key, each change of one row alone.
//! - [`Key`]: columns as bytes that order like they do.
//! - [`schema::Schema`]: columns, keys and indexes of a table, decided at run time.
//! - [`NodeClock`]: commit timestamps ([`Timestamp`]), which every tuple has.
//!
//! Reads are optimistic: they bear any bytes, and count only if the line was consistent. Writes hold one
//! line's write guard, and never across an await.
//!
//! # Example
//!
//! ```
//! use latchwork_coherence::CoherentMemory;
//! use latchwork_txn::{NodeClock, Seen, Table, TableId, Timestamp, TxnError};
//!
//! async fn pay<M: CoherentMemory>(memory: M, clock: &NodeClock) -> Result<Vec<u8>, TxnError> {
//!     let orders = Table::create(memory, TableId(3)).await?;
//!     let cts = clock.draw(Timestamp::ZERO)?;
//!     orders.insert(&7_u64.to_be_bytes(), b"open", cts).await?;
//!     let mut value = Vec::new();
//!     if let Seen::Live(there) = orders.get(&7_u64.to_be_bytes(), &mut value).await? {
//!         orders.update(&7_u64.to_be_bytes(), b"paid", clock.draw(there)?).await?;
//!     }
//!     orders.get(&7_u64.to_be_bytes(), &mut value).await?;
//!     Ok(value)
//! }
//! ```

#![forbid(unsafe_code)]

mod clock;
mod error;
mod heap;
mod key;
mod page;
pub mod schema;
mod table;
mod tuple_id;

pub use clock::NodeClock;
pub use error::TxnError;
pub use heap::{Heap, Reading, Seen};
pub use key::Key;
pub use latchwork_wal::{NodeId, TableId, Timestamp};
pub use table::Table;
pub use tuple_id::TupleId;
