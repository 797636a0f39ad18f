//! [`ColumnType`]: the type of a column.

use std::fmt;

/// The type of a column. There are no nulls. A table that needs one chooses a value that means "no
/// value".
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ColumnType {
    /// A number of 1 byte.
    U8,
    /// A number of 2 bytes.
    U16,
    /// A number of 4 bytes.
    U32,
    /// A number of 8 bytes.
    U64,
    /// A signed number of 2 bytes.
    I16,
    /// A signed number of 4 bytes.
    I32,
    /// A signed number of 8 bytes.
    I64,
    /// Bytes of this fixed length.
    Bytes(u16),
    /// Bytes of at most this length. The caller is responsible for UTF-8.
    Text(u8),
    /// Bytes of any length for which the line has room. Only the last column can be a blob.
    Blob,
}

impl ColumnType {
    /// The length of a value in a row, in bytes, if all values have the same length.
    pub(crate) fn fixed_len(self) -> Option<usize> {
        match self {
            ColumnType::U8 => Some(1),
            ColumnType::U16 | ColumnType::I16 => Some(2),
            ColumnType::U32 | ColumnType::I32 => Some(4),
            ColumnType::U64 | ColumnType::I64 => Some(8),
            ColumnType::Bytes(len) => Some(usize::from(len)),
            ColumnType::Text(_) | ColumnType::Blob => None,
        }
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, ColumnType::I16 | ColumnType::I32 | ColumnType::I64)
    }

    pub(super) fn is_number(self) -> bool {
        self.fixed_len().is_some() && !matches!(self, ColumnType::Bytes(_))
    }

    /// The minimum and the maximum of a number type; 0 and 0 for other types.
    pub(super) fn range(self) -> (i64, u64) {
        match self {
            ColumnType::U8 => (0, u8::MAX.into()),
            ColumnType::U16 => (0, u16::MAX.into()),
            ColumnType::U32 => (0, u32::MAX.into()),
            ColumnType::U64 => (0, u64::MAX),
            ColumnType::I16 => (i16::MIN.into(), i16::MAX as u64),
            ColumnType::I32 => (i32::MIN.into(), i32::MAX as u64),
            ColumnType::I64 => (i64::MIN, i64::MAX as u64),
            ColumnType::Bytes(_) | ColumnType::Text(_) | ColumnType::Blob => (0, 0),
        }
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnType::U8 => f.write_str("u8"),
            ColumnType::U16 => f.write_str("u16"),
            ColumnType::U32 => f.write_str("u32"),
            ColumnType::U64 => f.write_str("u64"),
            ColumnType::I16 => f.write_str("i16"),
            ColumnType::I32 => f.write_str("i32"),
            ColumnType::I64 => f.write_str("i64"),
            ColumnType::Bytes(len) => write!(f, "bytes({len})"),
            ColumnType::Text(max) => write!(f, "text({max})"),
            ColumnType::Blob => f.write_str("blob"),
        }
    }
}
