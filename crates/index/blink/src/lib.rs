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
//! The address of the root page identifies a tree and never changes. When the root is full, its
//! halves move to two new pages, and the root becomes their parent. Every page stores its fence
//! keys and its right link (Lehman and Yao). A split has three steps:
//!
//! 1. Fill a new page.
//! 2. Cut the old page and link it to the new page.
//! 3. Later, enter the new page, with its separator, into the level above (*post* the page).
//!
//! Until step 3, the right link leads to the keys beyond a page's high fence. If the operation that
//! splits is cancelled, step 3 may stay undone. Readers then follow the right link for ever, which
//! is correct. So an operation needs one page at a time, except for a split, whose second page no
//! other operation can reach. No operation holds a latch on one page while it waits for another
//! page.
//!
//! # Guarantees
//!
//! - Reads are optimistic: they are safe on any bytes, and a result counts only if the page did not
//!   change during the read. [`Tree::try_get`] over cached pages is a plain function that seldom
//!   writes shared memory.
//! - A write holds the write guard of one page. A split also holds the guard of a new page that no
//!   other operation can reach. No guard is held across an await.
//! - Entries move only to pages further right. So an interrupted operation continues at the page at
//!   which it stopped, or at the root if that page has left the tree.
//! - A page always has room for its fence keys and two of the largest entries. So every full page
//!   can be split (see [`TreeLimits`]).
//! - A dropped operation leaves a correct tree. If it has not posted a new page to the level above,
//!   the next writer that meets the right link posts the page. The next split of its handle uses a
//!   line that the operation had allocated.
//! - A damaged page leads to [`TreeError::Corrupt`], which names the page, with one exception. A
//!   lookup over cached pages checks the tag and a few fields only, so damage elsewhere in a page
//!   may make its result wrong. A write checks the header and the fence keys of its page in full,
//!   so it does not add to the damage. Every descent and every walk along a level is bounded.
//!
//! An empty leaf leaves the tree, and its line is freed. Pages are not merged otherwise.
//!
//! In a tree [with leaf stamps](TreeConfig::stamped), the operations with names in `_stamped`
//! report the leaves that they saw. [`Tree::still`] checks whether such a leaf has changed since.
//! Transactions use this to detect phantoms.
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
mod leaf_stamp;
mod limits;
mod page;
mod tree;
mod value;

pub use error::TreeError;
pub use leaf_stamp::{Insertion, Leaf, LeafStamp, ReplaceOutcome, Split};
pub use limits::{KEY_MAX, TreeConfig, TreeLimits, TreeRules};
pub use tree::{Tree, TreeStatistics};
pub use value::{TreeValue, ValueMut};
