//! The operations of YCSB on a store, and their kinds.

use latchwork_report::histogram::OperationKindSet;

use super::content::FieldIndex;
use super::key::RecordNumber;

/// The fields that an operation touches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fields {
    /// Every field of the record.
    All,
    /// One field.
    One(FieldIndex),
}

/// One operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum YcsbOperation {
    /// Read fields of a record.
    Read {
        /// Which record.
        record: RecordNumber,
        /// Which of its fields.
        fields: Fields,
    },
    /// Write fields of a record without a read.
    Update {
        /// Which record.
        record: RecordNumber,
        /// Which of its fields.
        fields: Fields,
    },
    /// Insert a record. The stream has claimed its number from the
    /// [`InsertCounter`](super::InsertCounter). The caller acknowledges the number to the counter
    /// when the insert has ended.
    Insert {
        /// The new record.
        record: RecordNumber,
    },
    /// Read fields of records in the order of keys.
    Scan {
        /// The record at whose key the scan begins.
        first: RecordNumber,
        /// The maximum number of records to read.
        records: u32,
        /// Which of their fields.
        fields: Fields,
    },
    /// Read fields of a record and write fields of it, as one atomic step.
    ReadModifyWrite {
        /// Which record.
        record: RecordNumber,
        /// The fields to read.
        read: Fields,
        /// The fields to write.
        write: Fields,
    },
    /// Write all fields of a record, which is there or not.
    Upsert {
        /// Which record.
        record: RecordNumber,
        /// Whether the record is new: its number is claimed as that of an
        /// [`Insert`](YcsbOperation::Insert), and is acknowledged in the same way.
        is_new: bool,
    },
}

impl YcsbOperation {
    /// The kind under which the operation is measured.
    pub fn kind(&self) -> OperationKind {
        match self {
            YcsbOperation::Read { .. } => OperationKind::Read,
            YcsbOperation::Update { .. } => OperationKind::Update,
            YcsbOperation::Insert { .. } => OperationKind::Insert,
            YcsbOperation::Scan { .. } => OperationKind::Scan,
            YcsbOperation::ReadModifyWrite { .. } => OperationKind::ReadModifyWrite,
            YcsbOperation::Upsert { .. } => OperationKind::Upsert,
        }
    }

    /// The record whose number the stream claimed for this operation, if it inserts one.
    pub fn claimed(&self) -> Option<RecordNumber> {
        match *self {
            YcsbOperation::Insert { record } | YcsbOperation::Upsert { record, is_new: true } => {
                Some(record)
            }
            _ => None,
        }
    }
}

/// The kinds of operations. Each kind has its own measurements.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum OperationKind {
    /// `READ`.
    Read,
    /// `UPDATE`.
    Update,
    /// `INSERT`.
    Insert,
    /// `SCAN`.
    Scan,
    /// `READ-MODIFY-WRITE`.
    ReadModifyWrite,
    /// `UPSERT`.
    Upsert,
}

impl OperationKindSet for OperationKind {
    const NAMES: &'static [&'static str] =
        &["READ", "UPDATE", "INSERT", "SCAN", "READ-MODIFY-WRITE", "UPSERT"];

    fn index(self) -> usize {
        self as usize
    }
}
