//! [`TxnError`]: the errors of tables and transactions. [`Conflict`]: the errors that repetition
//! may cure.

use std::time::Duration;

use latchwork_blink::TreeError;
use latchwork_coherence::MemoryError;
use latchwork_verbs::GlobalAddr;
use latchwork_wal::{TableId, WalError};
use thiserror::Error;

use crate::Scheme;
use crate::schema::SchemaError;

/// The reason why a transaction cannot continue while other transactions run. The transaction must
/// be aborted, and may run again as a whole.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Error)]
pub enum Conflict {
    /// Another transaction has locked a line that this transaction needs, or has a pending row that
    /// this transaction met. Or the transactions of this node hold as many locks as the node
    /// allows.
    #[error("another transaction has locked a row")]
    Locked,
    /// A row that was read has another version now, or an index entry of its key has changed.
    #[error("a row that was read has changed")]
    Changed,
    /// A row may have appeared in, or disappeared from, a range that was read.
    #[error("rows have come or gone where this transaction has looked")]
    Phantom,
    /// Under timestamp ordering: a transaction with a later timestamp came first, or a read lease
    /// reaches beyond this transaction. Or a checkpoint with a later floor has begun.
    #[error("a transaction with a later timestamp came first")]
    TooLate,
    /// A node that executes a part of the transaction has not answered in time, or has aborted its
    /// part.
    #[error("another node has not answered in time")]
    Unreachable,
}

impl Conflict {
    /// All conflicts.
    pub const ALL: [Conflict; 5] = [
        Conflict::Locked,
        Conflict::Changed,
        Conflict::Phantom,
        Conflict::TooLate,
        Conflict::Unreachable,
    ];
}

/// The reason why an operation on a table failed.
#[derive(Debug, Error)]
pub enum TxnError {
    /// Other transactions are in the way: abort this transaction and run it again as a whole.
    #[error("{0}; abort the transaction and try it again")]
    Conflict(#[from] Conflict),
    /// An earlier operation met a conflict or another error, after which the transaction can only
    /// be aborted.
    #[error("the transaction has failed before and can only be aborted")]
    Doomed,
    /// Another node failed to execute a part of the transaction.
    #[error("node {node}: {what}")]
    Remote {
        /// The node.
        node: u8,
        /// The error text of that node.
        what: String,
    },
    /// The log of another node did not accept its part of the transaction, which has been undone on
    /// all nodes.
    #[error("the transaction was not committed: node {node} could not log its part: {what}")]
    NotPrepared {
        /// The node.
        node: u8,
        /// The error text of its log.
        what: String,
    },
    /// It is unknown here whether the transaction committed: the node that decides has not
    /// answered.
    #[error(
        "it is not known whether the transaction committed: node {node} has not said; read its rows to find out"
    )]
    NoAnswer {
        /// The node.
        node: u8,
    },
    /// It is unknown whether the commit is durable. If the log has failed, the written rows stay
    /// locked until a restart decides. If the log is only late, a task continues to wait, and
    /// finishes or undoes the commit.
    #[error("it is not known whether the transaction committed: {0}; restart to find out")]
    InDoubt(Box<WalError>),
    /// It is unknown whether the rows that the transaction has read are durable. Other transactions
    /// of this node wrote them, and the log has failed or has not answered in time. The transaction
    /// itself has written nothing, or was aborted.
    #[error("what the transaction has read may not last: {0}")]
    NotDurable(Box<WalError>),
    /// It is unknown whether the rows that the transaction has read on another node are durable:
    /// see [`TxnError::NotDurable`].
    #[error("what the transaction has read on node {node} may not last: {what}")]
    NotDurableAt {
        /// The node.
        node: u8,
        /// The error text of its log.
        what: String,
    },
    /// The log did not take the commit, which has been undone.
    #[error("the transaction was not committed: {0}")]
    NotLogged(Box<WalError>),
    /// A transaction was repeated, and each attempt met a conflict.
    #[error("gave up after {attempts} attempts within {waited:?}: {last}")]
    Contended {
        /// The number of attempts.
        attempts: u32,
        /// The time since the first conflict.
        waited: Duration,
        /// The last conflict.
        last: Conflict,
    },
    /// A transaction deletes a row that it has inserted without a lookup.
    #[error(
        "a row that was inserted blindly cannot be deleted by the same transaction: insert it with a look-up"
    )]
    Blind,
    /// The row exists already.
    #[error("the row exists already")]
    Exists,
    /// The row does not exist.
    #[error("no such row")]
    NotFound,
    /// The row does not fit into a line.
    #[error(
        "a row of {len} bytes, its key counted, is too long: a line of this size holds at most {max}; choose a larger line size"
    )]
    RowTooLong {
        /// The length of key and value, in bytes.
        len: usize,
        /// The maximum length, in bytes.
        max: usize,
    },
    /// Lines of this size cannot hold tuples.
    #[error("lines with {payload} bytes of payload cannot hold tuples: 480 to 65504 would do")]
    LineSize {
        /// The payload of a line, in bytes.
        payload: usize,
    },
    /// A change of a part of a value reaches beyond the end of the value.
    #[error("bytes {offset} to {} are not all inside a value of {value_len} bytes", .offset + .len)]
    OutsideValue {
        /// The first byte of the change.
        offset: usize,
        /// The length of the change, in bytes.
        len: usize,
        /// The length of the value, in bytes.
        value_len: usize,
    },
    /// A line does not hold the page that the table expects there.
    #[error("heap line {line} is corrupt: {what}")]
    Corrupt {
        /// The line.
        line: GlobalAddr,
        /// The defect.
        what: Box<str>,
    },
    /// Other writers kept changing the row while the operation read it, more often than the
    /// operation tries.
    #[error("gave up on a row of table {}: it changed {rounds} times in between", .table.0)]
    Starved {
        /// The row's table.
        table: TableId,
        /// The number of repeated reads.
        rounds: u32,
    },
    /// The counter of commit timestamps has no higher value. In practice a tuple or a log has a
    /// corrupt timestamp.
    #[error(
        "the clock of commit timestamps is at its end: some tuple or log has an impossible timestamp"
    )]
    ClockExhausted,
    /// The id of the node is above the highest id that can draw timestamps.
    #[error("node {node} cannot draw commit timestamps: 0 to 63 can")]
    NodeId {
        /// The id of the node.
        node: u8,
    },
    /// The log or a checkpoint failed.
    #[error(transparent)]
    Log(#[from] Box<WalError>),
    /// A log has prepare or decision records of distributed transactions, which the layer above
    /// must resolve before the recovery.
    #[error(
        "the logs have {notes} records of transactions over several nodes that were not resolved, the first in segment \
         {segment} of node {node}: recover with the program that wrote them"
    )]
    Unresolved {
        /// The number of such records.
        notes: usize,
        /// The node whose log has the first one.
        node: u8,
        /// The segment of the first one.
        segment: u64,
    },
    /// Transactions that are or may be in the log could not be finished. The tables lack the rows
    /// that these transactions have written. So a checkpoint would be wrong, and no log segment may
    /// be removed.
    #[error(
        "{transactions} transactions of one node could not be carried through ({cause}): a checkpoint would lose them; \
         restart to recover them from the log"
    )]
    LeftLocked {
        /// The number of such transactions.
        transactions: usize,
        /// The reason for the first of them.
        cause: Box<str>,
    },
    /// Transactions did not end in time.
    #[error("{transactions} transactions of one worker did not end in time")]
    Busy {
        /// The number of such transactions in one generation of one worker. There may be more.
        transactions: usize,
    },
    /// The table does not exist.
    #[error("there is no table {name}")]
    NoTable {
        /// The requested name.
        name: String,
    },
    /// The table has fewer indexes.
    #[error("there is no index {index}: the table has {indexes}, counted from 0")]
    NoIndex {
        /// The requested number.
        index: usize,
        /// The number of secondary indexes.
        indexes: usize,
    },
    /// There are too many tables: in the database, or in one transaction.
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
    /// The database runs under another scheme. All its nodes must use the same scheme at one time.
    #[error(
        "the database runs under {database}, and this node is to use {node}: use {database} on all nodes, or end \
         them all and start the database anew under {node}"
    )]
    OtherScheme {
        /// The scheme of the running database.
        database: Scheme,
        /// The scheme of this node.
        node: Scheme,
    },
    /// A schema does not allow the operation.
    #[error(transparent)]
    Schema(#[from] Box<SchemaError>),
    /// An index failed.
    #[error(transparent)]
    Tree(#[from] Box<TreeError>),
    /// The memory below failed.
    #[error(transparent)]
    Memory(#[from] Box<MemoryError>),
}

// Every operation returns this type by value, so a large error would slow down success as well.
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
    /// The error of a commit that the log did not take and that has been undone.
    #[cold]
    pub fn not_logged(error: WalError) -> TxnError {
        TxnError::NotLogged(Box::new(error))
    }

    /// The error of a commit that may or may not be durable.
    #[cold]
    pub fn in_doubt(error: WalError) -> TxnError {
        TxnError::InDoubt(Box::new(error))
    }

    /// The error of reads that may or may not be durable.
    #[cold]
    pub(crate) fn not_durable(error: WalError) -> TxnError {
        TxnError::NotDurable(Box::new(error))
    }

    /// The conflict, if the error is a conflict: then the transaction may succeed when it runs
    /// again.
    pub fn conflict(&self) -> Option<Conflict> {
        match self {
            TxnError::Conflict(conflict) => Some(*conflict),
            _ => None,
        }
    }

    /// The error of the memory below, also inside an index error.
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
