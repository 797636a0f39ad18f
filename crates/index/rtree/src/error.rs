//! Errors of an R-tree.

use latchwork_coherence::MemoryError;
use latchwork_verbs::GlobalAddr;
use thiserror::Error;

/// The reason why an operation on an R-tree failed.
#[derive(Debug, Error)]
pub enum RTreeError {
    /// A coordinate is not a number.
    #[error("a coordinate on axis {axis} is not a number")]
    NotANumber {
        /// The axis, from 0.
        axis: usize,
    },
    /// A box whose low corner is above its high corner.
    #[error("the box is inverted: on axis {axis} it begins at {low} and ends at {high}")]
    Inverted {
        /// The axis, from 0.
        axis: usize,
        /// The low coordinate.
        low: f64,
        /// The high coordinate.
        high: f64,
    },
    /// An entry with an infinite coordinate. Only queries may be infinite.
    #[error("the box of an entry must be finite")]
    NotFinite,
    /// A payload of another length than that of the tree.
    #[error("a payload of {len} bytes does not fit: each entry of this tree has {expected} bytes")]
    PayloadLength {
        /// Its length in bytes.
        len: usize,
        /// The length that the tree was made with.
        expected: usize,
    },
    /// Lines of this size cannot hold a page with such entries.
    #[error(
        "lines with {payload} bytes of payload cannot hold pages of {dimensions} dimensions with \
         {entry} bytes per entry: use longer lines, or shorter payloads of entries"
    )]
    LineTooSmall {
        /// Bytes of payload per line.
        payload: usize,
        /// The number of dimensions.
        dimensions: usize,
        /// The payload of an entry, in bytes.
        entry: usize,
    },
    /// Bulk loading needs an empty tree.
    #[error("the tree is not empty: bulk loading fills a new tree only")]
    NotEmpty,
    /// A page does not have the content that the tree expects.
    #[error("page {page} is corrupt: {what}")]
    Corrupt {
        /// The page.
        page: GlobalAddr,
        /// The damage of the page.
        what: String,
    },
    /// An operation lost its place to other writers too often.
    #[error("gave up on page {page} after losing it {rounds} times to others")]
    Starved {
        /// The last page that the operation needed.
        page: GlobalAddr,
        /// The number of attempts.
        rounds: u32,
    },
    /// The memory below failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
