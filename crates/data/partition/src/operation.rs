//! [`PartitionOperation`]: a request to a row owner. [`OperationAnswer`]: the result. [`Fault`]: an
//! error in a message.

use std::ops::Bound;

use latchwork_txn::{Conflict, TableId, TxnError};

use crate::bytes::{Reader, Writer};

/// One operation on rows of one row owner, the receiver of the message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartitionOperation {
    /// The table.
    pub table: TableId,
    /// The operation on the table.
    pub what: RowOperation,
}

/// An operation on the rows of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RowOperation {
    /// Reads a row.
    Get {
        /// The key of the row.
        key: Vec<u8>,
        /// The transaction will probably write the row.
        for_update: bool,
    },
    /// Reads the rows of a range.
    Scan {
        /// The index that orders the rows, at most 254; `None` is the primary key.
        index: Option<u8>,
        /// The lower end.
        from: Bound<Vec<u8>>,
        /// The upper end.
        to: Bound<Vec<u8>>,
        /// Whether the rows come from the upper end down.
        descending: bool,
        /// The maximum number of rows to return.
        limit: u32,
    },
    /// Adds a row.
    Insert {
        /// The key of the row.
        key: Vec<u8>,
        /// The value of the row.
        value: Vec<u8>,
    },
    /// Replaces the value of a row.
    Update {
        /// The key of the row.
        key: Vec<u8>,
        /// The new value.
        value: Vec<u8>,
    },
    /// Overwrites a part of the value of a row.
    UpdatePart {
        /// The key of the row.
        key: Vec<u8>,
        /// The offset of the part.
        offset: u32,
        /// The new bytes of the part.
        bytes: Vec<u8>,
    },
    /// Deletes a row.
    Delete {
        /// The key of the row.
        key: Vec<u8>,
    },
}

/// The result of an operation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum OperationAnswer {
    /// The write succeeded within the transaction, which has not committed yet.
    Done,
    /// The value of the row; `None` if there is no such row.
    Row(Option<Vec<u8>>),
    /// Primary keys and values.
    Rows(Vec<(Vec<u8>, Vec<u8>)>),
}

impl PartitionOperation {
    pub(crate) fn encode(&self, to: &mut Writer) {
        to.u32(self.table.0);
        match &self.what {
            RowOperation::Get { key, for_update } => {
                to.u8(u8::from(*for_update));
                to.bytes(key);
            }
            RowOperation::Scan { index, from, to: end, descending, limit } => {
                to.u8(2);
                to.u8(index.map_or(0, |index| index.saturating_add(1)));
                bound(to, from);
                bound(to, end);
                to.u8(u8::from(*descending));
                to.u32(*limit);
            }
            RowOperation::Insert { key, value } => {
                to.u8(3);
                to.bytes(key);
                to.bytes(value);
            }
            RowOperation::Update { key, value } => {
                to.u8(4);
                to.bytes(key);
                to.bytes(value);
            }
            RowOperation::UpdatePart { key, offset, bytes } => {
                to.u8(5);
                to.bytes(key);
                to.u32(*offset);
                to.bytes(bytes);
            }
            RowOperation::Delete { key } => {
                to.u8(6);
                to.bytes(key);
            }
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<PartitionOperation> {
        let table = TableId(from.u32()?);
        let kind = from.u8()?;
        let what = match kind {
            0 | 1 => RowOperation::Get { key: from.bytes()?.to_vec(), for_update: kind == 1 },
            2 => RowOperation::Scan {
                index: from.u8()?.checked_sub(1),
                from: read_bound(from)?,
                to: read_bound(from)?,
                descending: from.u8()? != 0,
                limit: from.u32()?,
            },
            3 => {
                RowOperation::Insert { key: from.bytes()?.to_vec(), value: from.bytes()?.to_vec() }
            }
            4 => {
                RowOperation::Update { key: from.bytes()?.to_vec(), value: from.bytes()?.to_vec() }
            }
            5 => RowOperation::UpdatePart {
                key: from.bytes()?.to_vec(),
                offset: from.u32()?,
                bytes: from.bytes()?.to_vec(),
            },
            6 => RowOperation::Delete { key: from.bytes()?.to_vec() },
            _ => return None,
        };
        Some(PartitionOperation { table, what })
    }
}

fn bound(to: &mut Writer, bound: &Bound<Vec<u8>>) {
    match bound {
        Bound::Unbounded => to.u8(0),
        Bound::Included(key) => {
            to.u8(1);
            to.bytes(key);
        }
        Bound::Excluded(key) => {
            to.u8(2);
            to.bytes(key);
        }
    }
}

fn read_bound(from: &mut Reader<'_>) -> Option<Bound<Vec<u8>>> {
    Some(match from.u8()? {
        0 => Bound::Unbounded,
        1 => Bound::Included(from.bytes()?.to_vec()),
        2 => Bound::Excluded(from.bytes()?.to_vec()),
        _ => return None,
    })
}

impl OperationAnswer {
    pub(crate) fn encode(&self, to: &mut Writer) {
        match self {
            OperationAnswer::Done => to.u8(0),
            OperationAnswer::Row(None) => to.u8(1),
            OperationAnswer::Row(Some(row)) => {
                to.u8(2);
                to.bytes(row);
            }
            OperationAnswer::Rows(rows) => {
                to.u8(3);
                to.u32(rows.len() as u32);
                for (key, row) in rows {
                    to.bytes(key);
                    to.bytes(row);
                }
            }
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<OperationAnswer> {
        Some(match from.u8()? {
            0 => OperationAnswer::Done,
            1 => OperationAnswer::Row(None),
            2 => OperationAnswer::Row(Some(from.bytes()?.to_vec())),
            3 => {
                let count = from.count()?;
                let row = |_| Some((from.bytes()?.to_vec(), from.bytes()?.to_vec()));
                OperationAnswer::Rows((0..count).map(row).collect::<Option<_>>()?)
            }
            _ => return None,
        })
    }
}

/// An error in the form that messages carry.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    Conflict(u8),
    Exists,
    NotFound,
    RowTooLong {
        len: u64,
        max: u64,
    },
    OutsideValue {
        offset: u64,
        len: u64,
        value_len: u64,
    },
    /// The log of the participant did not take the record.
    NotLogged(String),
    /// The participant does not know whether the transaction committed.
    InDoubt,
    /// The participant does not know whether the rows that its part has read are durable.
    NotDurable(String),
    Other(String),
}

impl Fault {
    /// The participant does not exist or has ended. The caller sees a conflict and may run the
    /// transaction again.
    pub(crate) fn gone() -> Fault {
        Fault::from(&TxnError::Conflict(Conflict::Unreachable))
    }

    /// The error that the transaction returns. `node` is the node that sent the fault; only some
    /// errors name it.
    pub(crate) fn into_error(self, node: u8) -> TxnError {
        match self {
            Fault::Conflict(at) => {
                let known = Conflict::ALL.get(usize::from(at)).copied();
                known.unwrap_or(Conflict::Unreachable).into()
            }
            Fault::Exists => TxnError::Exists,
            Fault::NotFound => TxnError::NotFound,
            Fault::RowTooLong { len, max } => {
                TxnError::RowTooLong { len: len as usize, max: max as usize }
            }
            Fault::OutsideValue { offset, len, value_len } => TxnError::OutsideValue {
                offset: offset as usize,
                len: len as usize,
                value_len: value_len as usize,
            },
            Fault::InDoubt => TxnError::NoAnswer { node },
            Fault::NotLogged(what) => TxnError::NotPrepared { node, what },
            Fault::NotDurable(what) => TxnError::NotDurableAt { node, what },
            Fault::Other(what) => TxnError::Remote { node, what },
        }
    }

    pub(crate) fn encode(&self, to: &mut Writer) {
        match self {
            Fault::Conflict(at) => {
                to.u8(0);
                to.u8(*at);
            }
            Fault::Exists => to.u8(1),
            Fault::NotFound => to.u8(2),
            Fault::RowTooLong { len, max } => {
                to.u8(3);
                to.u64(*len);
                to.u64(*max);
            }
            Fault::OutsideValue { offset, len, value_len } => {
                to.u8(4);
                [offset, len, value_len].into_iter().for_each(|value| to.u64(*value));
            }
            Fault::Other(what) => {
                to.u8(5);
                to.bytes(what.as_bytes());
            }
            Fault::InDoubt => to.u8(7),
            Fault::NotLogged(what) => {
                to.u8(6);
                to.bytes(what.as_bytes());
            }
            Fault::NotDurable(what) => {
                to.u8(8);
                to.bytes(what.as_bytes());
            }
        }
    }

    pub(crate) fn decode(from: &mut Reader<'_>) -> Option<Fault> {
        Some(match from.u8()? {
            0 => Fault::Conflict(from.u8()?),
            1 => Fault::Exists,
            2 => Fault::NotFound,
            3 => Fault::RowTooLong { len: from.u64()?, max: from.u64()? },
            4 => Fault::OutsideValue {
                offset: from.u64()?,
                len: from.u64()?,
                value_len: from.u64()?,
            },
            5 => Fault::Other(String::from_utf8_lossy(from.bytes()?).into_owned()),
            7 => Fault::InDoubt,
            6 => Fault::NotLogged(String::from_utf8_lossy(from.bytes()?).into_owned()),
            8 => Fault::NotDurable(String::from_utf8_lossy(from.bytes()?).into_owned()),
            _ => return None,
        })
    }
}

impl From<&TxnError> for Fault {
    fn from(error: &TxnError) -> Fault {
        match error {
            TxnError::Conflict(conflict) => {
                let at = Conflict::ALL.iter().position(|one| one == conflict);
                Fault::Conflict(at.unwrap_or(usize::MAX) as u8)
            }
            TxnError::Exists => Fault::Exists,
            TxnError::NotFound => Fault::NotFound,
            TxnError::RowTooLong { len, max } => {
                Fault::RowTooLong { len: *len as u64, max: *max as u64 }
            }
            TxnError::OutsideValue { offset, len, value_len } => Fault::OutsideValue {
                offset: *offset as u64,
                len: *len as u64,
                value_len: *value_len as u64,
            },
            TxnError::InDoubt(_) => Fault::InDoubt,
            TxnError::NotLogged(error) => Fault::NotLogged(error.to_string()),
            TxnError::NotDurable(error) => Fault::NotDurable(error.to_string()),
            other => Fault::Other(other.to_string()),
        }
    }
}
