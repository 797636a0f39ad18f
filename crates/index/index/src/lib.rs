//! Ordered indexes: maps of byte-string keys to byte-string values that all nodes of a cluster
//! share. This crate has traits, their types and errors. `latchwork-blink` and
//! `latchwork-sherman` implement the traits, and drivers and tests are generic over them. The
//! feature `contract` adds the test that each index must pass.
//!
//! ```text
//!   OrderedIndex ── Value, ValueMut ──► ValueView, ValueEdit   a value in its place, for closures
//!        │
//!        ├────────── Error ───────────► IndexError ──► ErrorKind    what the caller can do
//!        └────────── validate ────────► IndexStatistics
//! ```
//!
//! How an index is created and opened is not a part of the trait, because indexes stand on
//! different memory. Each index keeps its own error type, which can name its pages and its locks.
//! Users that are generic over indexes ask an error for its [kind](IndexError::kind).
//!
//! # Example
//!
//! ```
//! use latchwork_index::{ErrorKind, IndexError, OrderedIndex, ValueEdit, ValueView};
//!
//! /// Adds 1 to a counter, which is new if there is none. Returns the count before.
//! async fn count<I: OrderedIndex>(index: &I, key: &[u8]) -> Result<u64, I::Error> {
//!     let next = |counter: &mut I::ValueMut<'_>| {
//!         let count = counter.u64(0);
//!         counter.set_u64(0, count + 1);
//!         count
//!     };
//!     match index.insert(key, &1_u64.to_le_bytes()).await {
//!         Ok(()) => Ok(0),
//!         Err(error) if error.kind() == ErrorKind::Exists => index.modify(key, next).await,
//!         Err(error) => Err(error),
//!     }
//! }
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "contract")]
pub mod contract;
mod error;
mod ordered;
mod statistics;
mod value;

pub use error::{ErrorKind, IndexError};
pub use ordered::OrderedIndex;
pub use statistics::IndexStatistics;
pub use value::{ValueEdit, ValueView};
