//! A concurrent B-link tree over coherent memory: byte-string keys and values, one page per line.
//!
//! ```text
//!  level 2                      [ root ]                       fixed address
//!                              /        \
//!  level 1              [ a.. | f.. ] ──► [ p.. | t.. ] ──►    right links, null at the end
//!                        /     |              |    \
//!  level 0          [a..f) ► [f..p) ► ·· ► [p..t) ► [t..∞)      fences: low <= key < high
//! ```
//!
//! A tree is known by the address of its root page, which never changes: when the root is full, its
//! halves move to two new pages and it becomes their parent. Every page knows its fences and its
//! right sibling (Lehman and Yao). A split first fills a new page, then cuts the old one and links
//! it to the new one, and only later tells the level above; until then, and for ever if the
//! splitter is cancelled, keys beyond a page's high fence are found by its right link. So no
//! operation needs more than one page at a time, and none ever holds a latch on one page while it
//! waits for another.
//!
//! # What holds
//!
//! - Reads are optimistic: they bear any bytes, and what they found counts only if the page was
//!   consistent. [`Tree::try_get`] over cached pages is a plain function that writes no shared
//!   memory.
//! - Writes hold one page's write guard, and for a split that of a page that nobody else knows.
//!   Never across an await.
//! - Keys only move to the right, and pages never go away: an interrupted operation goes on where
//!   it was.
//! - A page always has room for its fences and two of the largest entries, so that every full page
//!   can be split (see [`Limits`]).
//! - A dropped operation leaves a correct tree. If it was about to tell the level above of a new
//!   page, the next writer that meets the right link does it. A line it had allocated is used by
//!   the next split of its handle.
//! - A page that cannot be right ends in [`TreeError::Corrupt`], which names it; no loop is without
//!   an end.
//!
//! Pages are not merged. A leaf that became empty keeps its place and takes new keys.
//!
//! Of a tree [with stamps](TreeConfig::stamped) the operations whose names end in `_seen` tell
//! which leaves they saw, and [`Tree::still`] whether anything has changed there since: what
//! transactions need against phantoms.
//!
//! # Example
//!
//! ```
//! use std::ops::{Bound, ControlFlow};
//! use latchwork_blink::{Tree, TreeConfig, TreeError};
//! use latchwork_coherence::CoherentMemory;
//!
//! async fn first_orders<M: CoherentMemory>(memory: M) -> Result<Vec<u64>, TreeError> {
//!     let orders = Tree::create(memory, TreeConfig::default()).await?;
//!     for id in 0..1000_u64 {
//!         // Big-endian, so that keys order like numbers.
//!         orders.insert(&id.to_be_bytes(), b"open").await?;
//!     }
//!     orders.update_range(&7_u64.to_be_bytes(), 0, b"paid").await?;
//!     let mut open = Vec::new();
//!     let visit = |key: &[u8], value: &[u8]| {
//!         if let Ok(key) = key.try_into() && value == b"open" {
//!             open.push(u64::from_be_bytes(key));
//!         }
//!         ControlFlow::Continue(())
//!     };
//!     orders.scan_up(Bound::Unbounded, 100, visit).await?;
//!     Ok(open)
//! }
//! ```

#![forbid(unsafe_code)]

mod error;
mod limits;
mod page;
mod stamp;
mod tree;
mod value;

pub use error::TreeError;
pub use limits::{KEY_MAX, Limits, TreeConfig};
pub use stamp::{Insertion, Leaf, Replacement, Split, Stamp};
pub use tree::{Tree, TreeStatistics};
pub use value::{Value, ValueMut};
