//! What one transaction did: [`Transaction`].

use std::fmt;
use std::ops::Bound;

use serde::{Deserialize, Serialize};

use crate::hex;

/// The commit timestamp of the transaction that wrote a version; 0 is told apart by who uses it.
pub type Version = u64;

/// Which transaction: the node and the worker that ran it, and its number there.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
pub struct TransactionId {
    /// The compute node.
    pub node: u16,
    /// The worker of that node.
    pub worker: u16,
    /// Its number among those that this worker's recorder finished, from 0.
    pub sequence: u64,
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "T{}.{}.{}", self.node, self.worker, self.sequence)
    }
}

/// How a transaction ended. `cts` is its commit timestamp, or the one that it would have had; 0
/// where it ended before it drew one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It was told that it is committed.
    Committed {
        /// Not 0 if it wrote anything.
        cts: u64,
    },
    /// It has written nothing, and nobody may have seen its writes.
    Aborted {
        /// 0, or that of writes that were taken back.
        cts: u64,
    },
    /// It was not told: a log that failed, a deadline that passed.
    Unknown {
        /// Under which its writes stand if they do.
        cts: u64,
    },
}

impl Outcome {
    /// The commit timestamp, 0 where none was drawn.
    pub fn cts(self) -> u64 {
        match self {
            Outcome::Committed { cts } | Outcome::Aborted { cts } | Outcome::Unknown { cts } => cts,
        }
    }
}

/// What a write made of a row, or of an entry of an index.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Change {
    /// It is there, with a value that was not recorded.
    Put,
    /// It is there, with a value of this hash.
    Value(#[serde(with = "hex::number")] u64),
    /// It is gone.
    Delete,
}

impl Change {
    /// Whether the row is there afterwards.
    pub fn is_put(self) -> bool {
        self != Change::Delete
    }

    /// The value's hash, where it was recorded.
    pub fn hash(self) -> Option<u64> {
        match self {
            Change::Value(hash) => Some(hash),
            Change::Put | Change::Delete => None,
        }
    }
}

/// From which end a scan went.
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
pub struct Seen {
    /// The key.
    #[serde(with = "hex")]
    pub key: Box<[u8]>,
    /// What was read of it: a version of the row, or of its tombstone. Nothing says that it was
    /// there, in a version that the scan does not know: an entry of an index.
    pub version: Option<Version>,
}

/// A read of all keys in a range, those that were not there included.
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
    /// From which end.
    #[serde(default)]
    pub direction: Direction,
    /// The last key that was looked at, where the scan ended before the range did.
    #[serde(with = "hex::optional", default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Box<[u8]>>,
    /// What it found.
    pub seen: Vec<Seen>,
}

/// One operation. What a transaction reads of its own writes is not recorded.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// A key was looked up.
    Read {
        /// The table.
        table: u32,
        /// The key.
        #[serde(with = "hex")]
        key: Box<[u8]>,
        /// The version that was seen, that of a tombstone too. 0: nothing was there, and what there
        /// may have been before has left no trace.
        version: Version,
        /// The hash of the value, where it was recorded.
        #[serde(with = "hex::optional_number", default, skip_serializing_if = "Option::is_none")]
        hash: Option<u64>,
    },
    /// A key was written. Its version is the transaction's commit timestamp.
    Write {
        /// The table, or the index.
        table: u32,
        /// The key.
        #[serde(with = "hex")]
        key: Box<[u8]>,
        /// What became of it.
        change: Change,
    },
    /// A range was read.
    Scan(Scan),
}

/// A transaction as its client saw it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transaction {
    /// Which one.
    #[serde(flatten)]
    pub id: TransactionId,
    /// When it began, in nanoseconds of a clock that all transactions of the history share.
    pub begin: u64,
    /// When its outcome was known.
    pub end: u64,
    /// How it ended.
    pub outcome: Outcome,
    /// What it did, in order.
    pub operations: Vec<Operation>,
}

/// Transactions, in any order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct History {
    /// The highest timestamp of what was written before recording began: 0 for a database that was
    /// empty. A version up to it that no recorded transaction wrote was there from the start.
    pub base: Version,
    /// All of them, those that aborted included.
    pub transactions: Vec<Transaction>,
}
