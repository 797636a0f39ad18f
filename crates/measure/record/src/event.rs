//! The operations of one transaction: [`RecordedTransaction`].

use std::fmt;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::hex;

/// A version of a row: the commit timestamp of the transaction that wrote the version. Each use
/// defines the meaning of 0.
pub type RowVersion = u64;

/// The id of a transaction: its node, its worker, and its number there.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct TransactionId {
    /// The compute node.
    pub node: u16,
    /// The worker on that node.
    pub worker: u16,
    /// The transaction's number among those that the worker's recorder finished, from 0.
    pub sequence: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}.{}.{}", self.node, self.worker, self.sequence)
    }
}

/// The end of a transaction. `cts` is its commit timestamp. An aborted transaction may have drawn a
/// timestamp, too. `cts` is 0 if the transaction ended before it drew one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TransactionOutcome {
    /// The client knows that the transaction is committed.
    Committed {
        /// Not 0 if the transaction wrote.
        cts: u64,
    },
    /// The transaction wrote nothing, or its writes were undone. A correct store shows these writes
    /// to no other transaction.
    Aborted {
        /// 0, or the timestamp of the undone writes.
        cts: u64,
    },
    /// The client does not know the outcome: a log failed, or a deadline passed.
    Unknown {
        /// The timestamp of its writes, if they are committed.
        cts: u64,
    },
}

impl TransactionOutcome {
    /// The commit timestamp; 0 if none was drawn.
    pub fn cts(self) -> u64 {
        match self {
            TransactionOutcome::Committed { cts }
            | TransactionOutcome::Aborted { cts }
            | TransactionOutcome::Unknown { cts } => cts,
        }
    }
}

/// The effect of a write on a row, or on an entry of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordedChange {
    /// The row exists, with an unrecorded value.
    Put,
    /// The row exists. The hash of its value is recorded.
    Value(#[serde(with = "hex::number")] u64),
    /// The row is deleted.
    Delete,
}

impl RecordedChange {
    /// Whether the row exists afterwards.
    pub fn is_put(self) -> bool {
        self != RecordedChange::Delete
    }

    /// The value's hash, if it was recorded.
    pub fn hash(self) -> Option<u64> {
        match self {
            RecordedChange::Value(hash) => Some(hash),
            RecordedChange::Put | RecordedChange::Delete => None,
        }
    }
}

/// The direction of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From the low bound.
    #[default]
    Up,
    /// From the high bound.
    Down,
}

/// A key that a scan found.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SeenKey {
    /// The key.
    #[serde(with = "hex")]
    pub key: Box<[u8]>,
    /// The version that the scan read, of the row or of its tombstone. `None` if the scan found the
    /// key without a version, as an entry of an index.
    pub version: Option<RowVersion>,
}

/// A read of all keys in a range. A key of the range that is not in `seen` was absent.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Scan {
    /// The table, or the index.
    pub table: u32,
    /// The low bound.
    #[serde(with = "hex::bound")]
    pub from: Bound<Box<[u8]>>,
    /// The high bound.
    #[serde(with = "hex::bound")]
    pub to: Bound<Box<[u8]>>,
    /// The direction.
    #[serde(default)]
    pub direction: Direction,
    /// The last key that the scan covered. `None` if the scan covered the whole range.
    #[serde(with = "hex::optional", default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Box<[u8]>>,
    /// The keys found.
    pub seen: Vec<SeenKey>,
}

/// One operation. Reads of the transaction's own writes are not recorded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordedOperation {
    /// A lookup of a key.
    Read {
        /// The table.
        table: u32,
        /// The key.
        #[serde(with = "hex")]
        key: Box<[u8]>,
        /// The version that was read, of a row or of a tombstone. 0 if the lookup found neither:
        /// the row never existed, or its tombstone was purged.
        version: RowVersion,
        /// The hash of the value, if it was recorded.
        #[serde(with = "hex::optional_number", default, skip_serializing_if = "Option::is_none")]
        hash: Option<u64>,
    },
    /// A write of a key. Its version is the transaction's commit timestamp.
    Write {
        /// The table, or the index.
        table: u32,
        /// The key.
        #[serde(with = "hex")]
        key: Box<[u8]>,
        /// The effect.
        change: RecordedChange,
    },
    /// A read of a range.
    Scan(Scan),
}

/// A transaction, as its client recorded it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct RecordedTransaction {
    /// The transaction's id.
    #[serde(flatten)]
    pub id: TransactionId,
    /// The time of its begin, in nanoseconds of a clock that all transactions of the history share.
    pub begin: u64,
    /// The time at which the client learned the outcome, in nanoseconds of the same clock.
    pub end: u64,
    /// The outcome.
    pub outcome: TransactionOutcome,
    /// The operations, in order.
    pub operations: Vec<RecordedOperation>,
}

/// The recorded transactions of one run, in any order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TransactionHistory {
    /// The highest timestamp from before the recording: 0 for an empty database. A version up to
    /// `base` that no recorded transaction wrote existed from the start.
    pub base: RowVersion,
    /// All transactions, aborted ones included.
    pub transactions: Vec<RecordedTransaction>,
}
