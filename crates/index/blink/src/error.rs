//! Errors of a tree.

use latchwork_coherence::MemoryError;
use latchwork_verbs::GlobalAddr;
use thiserror::Error;

/// Why an operation on a tree failed.
#[derive(Debug, Error)]
pub enum TreeError {
    /// Keys have at least one byte.
    #[error("a key must have at least one byte")]
    KeyEmpty,
    /// The key is longer than this tree's pages allow (see [`Limits`](crate::Limits)).
    #[error("a key of {len} bytes is too long: with this line size at most {max} bytes fit")]
    KeyTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest possible, in bytes.
        max: usize,
    },
    /// The value is longer than a quarter of a line.
    #[error("a value of {len} bytes is too long: with this line size at most {max} bytes fit")]
    ValueTooLong {
        /// Its length in bytes.
        len: usize,
        /// The longest possible, in bytes.
        max: usize,
    },
    /// A change of a part of a value reaches beyond its end.
    #[error("bytes {offset} to {} are not all inside a value of {value_len} bytes", .offset + .len)]
    OutsideValue {
        /// First byte of the change.
        offset: usize,
        /// Length of the change in bytes.
        len: usize,
        /// Length of the value in bytes.
        value_len: usize,
    },
    /// The key to insert is there already.
    #[error("the key exists already")]
    Exists,
    /// The key is not there.
    #[error("no such key")]
    NotFound,
    /// Bulk loading needs a tree without entries.
    #[error("the tree is not empty: bulk loading fills a new tree only")]
    NotEmpty,
    /// Bulk loading needs keys in strictly ascending order.
    #[error("key number {index} of the bulk load is not above the one before it")]
    Unsorted {
        /// Its place in the input, from 0.
        index: u64,
    },
    /// Transactions used the tree that was being loaded in bulk.
    #[error(
        "transactions used the tree while it was being loaded in bulk: load it before they begin"
    )]
    InUse,
    /// The operation tells of stamps, which this tree has not.
    #[error("this tree has no stamps: make it with TreeConfig {{ stamped: true, .. }}")]
    NotStamped,
    /// The share of each page to fill was not usable.
    #[error("a fill factor of {0} is not between 0.1 and 1")]
    FillFactor(f64),
    /// Lines of this size cannot hold a page.
    #[error("lines with {payload} bytes of payload cannot hold pages of a tree")]
    LineTooSmall {
        /// Bytes of payload per line.
        payload: usize,
    },
    /// A page is not what the tree expects there.
    #[error("page {page} is corrupt: {what}")]
    Corrupt {
        /// The page.
        page: GlobalAddr,
        /// What is wrong with it.
        what: String,
    },
    /// An operation lost one line over and over to other writers, beyond all patience.
    #[error("gave up on page {page} after losing it {rounds} times to others")]
    Starved {
        /// The page that was to be used last.
        page: GlobalAddr,
        /// How often a line had to be obtained in one operation.
        rounds: u32,
    },
    /// The memory below failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
