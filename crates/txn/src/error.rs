//! Errors of tables.

use latchwork_blink::TreeError;
use latchwork_coherence::MemoryError;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::Timestamp;
use thiserror::Error;

use crate::schema::SchemaError;

/// Why an operation on a table failed.
#[derive(Debug, Error)]
pub enum TxnError {
    /// The row is there already.
    #[error("the row exists already")]
    Exists,
    /// The row is not there.
    #[error("no such row")]
    NotFound,
    /// The row does not fit a line.
    #[error(
        "a row of {len} bytes, its key counted, is too long: a line of this size holds at most {max}; choose a larger line size"
    )]
    RowTooLong {
        /// Bytes of key and value.
        len: usize,
        /// The most that would do.
        max: usize,
    },
    /// Lines of this size cannot hold tuples.
    #[error("lines with {payload} bytes of payload cannot hold tuples: 480 to 65504 would do")]
    LineSize {
        /// Bytes of payload per line.
        payload: usize,
    },
    /// A row was to be written with a timestamp that is not above the one it has: whoever drew it did
    /// not look at the row, or the row was not locked.
    #[error("a row written at {there} cannot be written at {given}, which is not later")]
    Stale {
        /// The row's.
        there: Timestamp,
        /// That of the write.
        given: Timestamp,
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
    /// A line is not what the table expects there.
    #[error("heap line {line} is corrupt: {what}")]
    Corrupt {
        /// The line.
        line: GlobalAddr,
        /// What is wrong with it.
        what: String,
    },
    /// An operation met other writers of its row over and over, beyond all patience.
    #[error("gave up on a row of line {line}: it changed {rounds} times in between")]
    Starved {
        /// The row's line.
        line: GlobalAddr,
        /// How often it was read again.
        rounds: u32,
    },
    /// The counter of commit timestamps has no more values: a timestamp that was read cannot be right.
    #[error(
        "the clock of commit timestamps is at its end: some tuple or log has an impossible timestamp"
    )]
    ClockExhausted,
    /// The node cannot draw timestamps.
    #[error("node {node} cannot draw commit timestamps: 0 to 63 can")]
    NodeId {
        /// Its id.
        node: u8,
    },
    /// A schema was refused, or what is not of its shape.
    #[error(transparent)]
    Schema(#[from] SchemaError),
    /// An index failed.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// The memory below failed.
    #[error(transparent)]
    Memory(#[from] MemoryError),
}
