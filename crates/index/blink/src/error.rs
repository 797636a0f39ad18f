//! Errors of a tree.

use latchwork_coherence::MemoryError;
use latchwork_verbs::GlobalAddr;
use thiserror::Error;

/// The reason why an operation on a tree failed.
#[derive(Debug, Error)]
pub enum TreeError {
    /// The key is empty.
    #[error("a key must have at least one byte")]
    KeyEmpty,
    /// The key is longer than this tree's pages allow (see [`TreeLimits`](crate::TreeLimits)).
    #[error("a key of {len} bytes is too long: with this line size at most {max} bytes fit")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest possible key, in bytes.
        max: usize,
    },
    /// The value is longer than a quarter of a line.
    #[error("a value of {len} bytes is too long: with this line size at most {max} bytes fit")]
    ValueTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest possible value, in bytes.
        max: usize,
    },
    /// A change of a part of a value reaches beyond the end of the value.
    #[error("bytes {offset} to {} are not all inside a value of {value_len} bytes", .offset + .len)]
    OutsideValue {
        /// The first byte of the change.
        offset: usize,
        /// The length of the change in bytes.
        len: usize,
        /// The length of the value in bytes.
        value_len: usize,
    },
    /// The key to insert exists already.
    #[error("the key exists already")]
    Exists,
    /// The key does not exist.
    #[error("no such key")]
    NotFound,
    /// Bulk loading needs an empty tree.
    #[error("the tree is not empty: bulk loading fills a new tree only")]
    NotEmpty,
    /// Bulk loading needs keys in strictly ascending order.
    #[error("key number {index} of the bulk load is not above the one before it")]
    Unsorted {
        /// The position of the key in the input, from 0.
        index: u64,
    },
    /// Transactions used the tree during its bulk load: they raised a timestamp of the empty leaf.
    #[error(
        "transactions used the tree while it was being loaded in bulk: load it before they begin"
    )]
    InUse,
    /// The operation needs leaf stamps, and this tree has none.
    #[error("this tree has no stamps: make it with TreeConfig {{ stamped: true, .. }}")]
    NotStamped,
    /// The fill factor is not between 0.1 and 1.
    #[error("a fill factor of {0} is not between 0.1 and 1")]
    FillFactor(f64),
    /// Lines of this size cannot hold a page.
    #[error("lines with {payload} bytes of payload cannot hold pages of a tree")]
    LineTooSmall {
        /// Bytes of payload per line.
        payload: usize,
    },
    /// A page does not have the content that the tree expects.
    #[error("page {page} is corrupt: {what}")]
    Corrupt {
        /// The page.
        page: GlobalAddr,
        /// The damage of the page.
        what: String,
    },
    /// An operation lost a line to other writers too often.
    #[error("gave up on page {page} after losing it {rounds} times to others")]
    Starved {
        /// The last page that the operation needed.
        page: GlobalAddr,
        /// The number of attempts. In each one the operation had to obtain a line, or found a
        /// changed leaf.
        rounds: u32,
    },
    /// The memory below failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
