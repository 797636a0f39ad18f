//! Sherman: a B-link tree on disaggregated memory without a coherent cache (Sherman 4), and FG and
//! FG+, the trees that it is measured against.
//!
//! ```text
//!   anchor ──► [ root ]                     cached by compute nodes, as are all inner nodes
//!              /      \
//!         [ a.. | f.. ] ──► [ p.. | t.. ]   sorted, written whole
//!           /     |             |     \
//!       [a..f) ► [f..p) ►  ·· ► [p..t) ► [t..∞)      entries in slots, written one by one
//! ```
//!
//! A node is one line of the memory pool. All accesses are one-sided verbs:
//!
//! - A search READs leaves without locks. What it reads must show that it belongs together
//!   ([`Check`]).
//! - A change takes a lock, READs the leaf, and WRITEs one entry. The same batch releases the lock.
//!   Tasks of one compute node queue for a lock, and hand it over.
//! - A split writes the new right sibling first, then the old node, and later the parent. Until
//!   then the right link leads to the new node. Nodes are never removed.
//!
//! # Guarantees
//!
//! - With [`Check::Words`] and [`Check::Checksum`], operations on single keys are linearizable,
//!   with words that arrive in any order. [`Check::Published`] is what Sherman 4.4 publishes, and
//!   is not right.
//! - A dropped operation took effect or not, and leaves no lock behind.
//! - The holder of a lock may die. Operations that need this lock fail with
//!   [`ShermanError::Locked`] at their deadline, and all others go on. What the holder wrote in
//!   part is not read.

#![forbid(unsafe_code)]

mod cache;
mod config;
mod error;
mod local;
mod node;
mod tree;

pub use config::{Config, Flaw, LockMemory};
pub use error::ShermanError;
pub use node::Check;
pub use tree::{Change, Counters, Resources, Shared, Statistics, Tree};
