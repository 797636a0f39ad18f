//! A concurrent R-tree over coherent memory: boxes in any number of dimensions, one page per line.
//!
//! ```text
//!  level 2               [ root ]               fixed address
//!                        /      \
//!  level 1            [ A ] ──► [ B ]           an entry is a box, a child and the number
//!                     / | \     / \             of the child that the entry expects
//!  level 0          [ ][ ][ ] [ ] [ ]           an entry is a box, an id and a payload
//! ```
//!
//! The address of the root page identifies a tree and never changes. Pages have right links and
//! sequence numbers (Kornacker and Banks, R-link trees), so readers need no latch while pages are
//! split. Splits choose their halves as the R*-tree does (Beckmann and others).
//!
//! # Guarantees
//!
//! - A query sees each entry that is in the tree throughout the query, once. It sees no entry that
//!   was not in the tree at some moment of the query.
//! - Reads are optimistic: they are safe on any bytes, and a result counts only if the page was
//!   consistent. A query over cached pages writes no shared memory.
//! - A write holds the write guard of one page. No guard is held across an await.
//! - A dropped operation leaves a correct tree. At most, boxes are larger than necessary, a page is
//!   reached by a right link only, or an empty page waits for the next writer that comes there.
//! - A damaged page leads to [`RTreeError::Corrupt`], which names the page.
//!
//! # Example
//!
//! ```
//! use std::ops::ControlFlow;
//! use latchwork_coherence::CoherentMemory;
//! use latchwork_rtree::{RTree, RTreeConfig, RTreeError, Rect};
//!
//! async fn near_the_station<M: CoherentMemory>(memory: M) -> Result<Vec<u64>, RTreeError> {
//!     let shops = RTree::<M, 2>::create(memory, RTreeConfig::default()).await?;
//!     for id in 0..100_u64 {
//!         let at = [id as f64, (id * id % 97) as f64];
//!         shops.insert(&Rect::point(at)?, id, &[]).await?;
//!     }
//!     let window = Rect::new([10.0, 0.0], [20.0, 50.0])?;
//!     let mut found = Vec::new();
//!     let visit = |entry: latchwork_rtree::Entry<'_, 2>| {
//!         found.push(entry.id);
//!         ControlFlow::Continue(())
//!     };
//!     shops.intersecting(&window, visit).await?;
//!     Ok(found)
//! }
//! ```

#![forbid(unsafe_code)]

mod config;
mod entry;
mod error;
mod page;
mod rect;
mod tree;

pub use config::{Packing, RTreeConfig, RTreeRules};
pub use entry::{Entry, Neighbour, NewEntry};
pub use error::RTreeError;
pub use rect::Rect;
pub use tree::{PageLink, RTree, RTreeStatistics, TreeWalk, WalkedPage};
