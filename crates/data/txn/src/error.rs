//! Errors of tables.

use std::time::Duration;

use latchwork_blink::TreeError;
use latchwork_coherence::MemoryError;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::{TableId, WalError};
use thiserror::Error;

use crate::Scheme;
use crate::schema::SchemaError;

/// Why a transaction cannot go on beside others: it is to be aborted, and may be tried again as a
/// whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Error)]
pub enum Conflict {
    /// Another transaction has locked a line that it needs, or adds a row that it has met.
    #[error("another transaction has locked a row")]
    Locked,
    /// A row that it has read is another now.
    #[error("a row that was read has changed")]
    Changed,
    /// A row may have come or gone where it has looked.
    #[error("rows have come or gone where this transaction has looked")]
    Phantom,
    /// A transaction with a later timestamp came first (timestamp ordering).
    #[error("a transaction with a later timestamp came first")]
    TooLate,
    /// The node of a part of its rows has not answered in time, or has given the transaction up.
    #[error("another node has not answered in time")]
    Unreachable,
}

impl Conflict {
    /// All of them.
    pub const ALL: [Conflict; 5] = [
        Conflict::Locked,
        Conflict::Changed,
        Conflict::Phantom,
        Conflict::TooLate,
        Conflict::Unreachable,
    ];
}

/// Why an operation on a table failed.
#[derive(Debug, Error)]
pub enum TxnError {
    /// Other transactions are in the way: abort this one, and try it again as a whole.
    #[error("{0}; abort the transaction and try it again")]
    Conflict(#[from] Conflict),
    /// The transaction has met an error before, and can only be aborted.
    #[error("the transaction has failed before and can only be aborted")]
    Doomed,
    /// Another node, which runs a part of the transaction, has failed at it.
    #[error("node {node}: {what}")]
    Remote {
        /// Which node.
        node: u8,
        /// What it says.
        what: String,
    },
    /// Another node's log did not take its part of the transaction, which has been undone
    /// everywhere.
    #[error("the transaction was not committed: node {node} could not log its part: {what}")]
    NotPrepared {
        /// Which node.
        node: u8,
        /// What its log says.
        what: String,
    },
    /// Nobody here knows whether the transaction committed: the node where it does has not said.
    #[error(
        "it is not known whether the transaction committed: node {node} has not said; read its rows to find out"
    )]
    Unheard {
        /// Which node.
        node: u8,
    },
    /// Nobody knows whether the commit lasts: the log has failed. What it wrote stays locked until
    /// a restart, which will tell.
    #[error("it is not known whether the transaction committed: {0}; restart to find out")]
    InDoubt(Box<WalError>),
    /// Nobody knows whether what the transaction has read lasts: it was written by others of this
    /// node, whose commits the log has not taken. The transaction itself has written nothing, or
    /// was aborted.
    #[error("what the transaction has read may not last: {0}")]
    NotLasting(Box<WalError>),
    /// The log refused the commit, which has been undone.
    #[error("the transaction was not committed: {0}")]
    NotLogged(Box<WalError>),
    /// A transaction was tried over and over, and met others each time.
    #[error("gave up after {attempts} attempts within {waited:?}: {last}")]
    Contended {
        /// How often it was tried.
        attempts: u32,
        /// How long.
        waited: Duration,
        /// What was in the way the last time.
        last: Conflict,
    },
    /// A transaction is to delete a row again that it has added without looking.
    #[error(
        "a row that was inserted blindly cannot be deleted by the same transaction: insert it with a look-up"
    )]
    Blind,
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
        what: Box<str>,
    },
    /// An operation met other writers of its row over and over, beyond all patience.
    #[error("gave up on a row of table {}: it changed {rounds} times in between", .table.0)]
    Starved {
        /// The row's table.
        table: TableId,
        /// How often it was read again.
        rounds: u32,
    },
    /// The counter of commit timestamps has no more values: a timestamp that was read cannot be
    /// right.
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
    /// The log failed, or a checkpoint.
    #[error(transparent)]
    Log(#[from] Box<WalError>),
    /// A log has records of a layer above, and nobody has said which of them count.
    #[error(
        "the logs have {notes} records of transactions over several nodes that were not resolved, the first in segment \
         {segment} of node {node}: recover with the program that wrote them"
    )]
    Unresolved {
        /// How many.
        notes: usize,
        /// Whose log has the first.
        node: u8,
        /// In which segment.
        segment: u64,
    },
    /// Transactions are in the log, or may be, that could not be carried through: what a checkpoint
    /// would find in the tables is not what they have written, and logs must not be shortened.
    #[error(
        "{transactions} transactions of one node could not be carried through ({cause}): a checkpoint would lose them; \
         restart to recover them from the log"
    )]
    LeftLocked {
        /// How many.
        transactions: usize,
        /// Why the first of them could not.
        cause: Box<str>,
    },
    /// Transactions went on for too long.
    #[error("{transactions} transactions of one worker did not end in time")]
    Busy {
        /// How many.
        transactions: usize,
    },
    /// There is no such table.
    #[error("there is no table {name}")]
    NoTable {
        /// What was asked for.
        name: String,
    },
    /// The table has fewer indexes.
    #[error("there is no index {index}: the table has {indexes}, counted from 0")]
    NoIndex {
        /// What was asked for.
        index: usize,
        /// How many there are, the primary one not counted.
        indexes: usize,
    },
    /// More tables than can be counted were made, or used by one transaction.
    #[error("too many tables: a transaction can use 256")]
    TooManyTables,
    /// The definition of a table is damaged.
    #[error("the definition of a table is damaged")]
    Definition,
    /// The address is not that of a database of this version.
    #[error("there is no database of this version at {root}")]
    NoDatabase {
        /// The address.
        root: GlobalAddr,
    },
    /// All nodes that are at work on a database at once use the same concurrency control.
    #[error(
        "the database runs under {database}, and this node is to use {node}: use {database} on all nodes, or end \
         them all and start the database anew under {node}"
    )]
    OtherScheme {
        /// The one of those who made it.
        database: Scheme,
        /// This node's.
        node: Scheme,
    },
    /// What a schema does not allow.
    #[error(transparent)]
    Schema(#[from] Box<SchemaError>),
    /// An index failed.
    #[error(transparent)]
    Tree(#[from] Box<TreeError>),
    /// The memory below failed.
    #[error(transparent)]
    Memory(#[from] Box<MemoryError>),
}

// It is handed through every operation, and moved whether there is one or not.
const _: () = assert!(size_of::<TxnError>() <= 32);

macro_rules! boxed {
    ($($error:ty),*) => {$(
        impl From<$error> for TxnError {
            #[cold]
            fn from(error: $error) -> TxnError {
                Box::new(error).into()
            }
        }
    )*};
}

boxed!(WalError, SchemaError, TreeError, MemoryError);

impl TxnError {
    /// A commit that the log refused, and that has been undone.
    #[cold]
    pub fn not_logged(error: WalError) -> TxnError {
        TxnError::NotLogged(Box::new(error))
    }

    /// A commit of which nobody knows whether it lasts.
    #[cold]
    pub fn in_doubt(error: WalError) -> TxnError {
        TxnError::InDoubt(Box::new(error))
    }

    /// Reads of which nobody knows whether they last.
    #[cold]
    pub fn not_lasting(error: WalError) -> TxnError {
        TxnError::NotLasting(Box::new(error))
    }

    /// What other transactions were in the way, if that is all: then trying it again may help.
    pub fn conflict(&self) -> Option<Conflict> {
        match self {
            TxnError::Conflict(conflict) => Some(*conflict),
            _ => None,
        }
    }

    /// What failed of the memory below, of an index too.
    pub fn memory(&self) -> Option<&MemoryError> {
        match self {
            TxnError::Memory(error) => Some(error),
            TxnError::Tree(error) => match &**error {
                TreeError::Memory(error) => Some(error),
                _ => None,
            },
            _ => None,
        }
    }
}
