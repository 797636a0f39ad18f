//! Columns and their values.

use std::borrow::Cow;

use super::column_type::ColumnType;
use super::error::SchemaError;

/// A column of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Column {
    pub(super) name: String,
    pub(super) kind: ColumnType,
}

impl Column {
    /// The name of the column.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The type of the column.
    pub fn column_type(&self) -> ColumnType {
        self.kind
    }

    pub(super) fn refuses(&self, given: impl Into<String>) -> SchemaError {
        let (column, given) = (self.name.clone(), given.into());
        SchemaError::WrongValue { column, wanted: self.kind, given }
    }

    /// The little-endian bytes of a number, for a column of numbers. If the type has fewer than
    /// eight bytes, the first ones count.
    pub(super) fn number(&self, value: &ColumnValue<'_>) -> Result<[u8; 8], SchemaError> {
        let (min, max) = self.kind.range();
        match *value {
            ColumnValue::Unsigned(number) if number <= max => Ok(number.to_le_bytes()),
            ColumnValue::Signed(number)
                if number >= min && (number < 0 || number as u64 <= max) =>
            {
                Ok(number.to_le_bytes())
            }
            ColumnValue::Unsigned(number) => Err(self.refuses(number.to_string())),
            ColumnValue::Signed(number) => Err(self.refuses(number.to_string())),
            ColumnValue::Bytes(_) => Err(self.refuses("bytes")),
        }
    }

    /// The bytes of a value of `Bytes`, `Text` or `Blob`.
    pub(super) fn bytes<'v>(&self, value: &'v ColumnValue<'_>) -> Result<&'v [u8], SchemaError> {
        let bytes = match value {
            ColumnValue::Bytes(bytes) => &bytes[..],
            ColumnValue::Unsigned(number) => {
                return Err(self.refuses(format!("the number {number}")));
            }
            ColumnValue::Signed(number) => return Err(self.refuses(format!("the number {number}"))),
        };
        let fits = match self.kind {
            ColumnType::Bytes(len) => bytes.len() == usize::from(len),
            ColumnType::Text(max) => bytes.len() <= usize::from(max),
            _ => true,
        };
        if fits { Ok(bytes) } else { Err(self.refuses(format!("{} bytes", bytes.len()))) }
    }
}

/// A column by its position in the declaration, from 0. [`Schema::column`](super::Schema::column)
/// finds the position by the column's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ColumnId(pub(super) u16);

impl ColumnId {
    /// The column at position `index` of the declaration, from 0.
    pub const fn new(index: u16) -> ColumnId {
        ColumnId(index)
    }

    /// The position of the column.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The value of a column. A column of numbers accepts each number in the range of its type. A read
/// returns `Unsigned` or `Signed` according to the type of the column.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ColumnValue<'a> {
    /// A number.
    Unsigned(u64),
    /// A signed number.
    Signed(i64),
    /// Bytes, a text or a blob. A read returns owned bytes in two cases only: from a descending
    /// column of a key, and from a text with zero bytes in a key.
    Bytes(Cow<'a, [u8]>),
}

macro_rules! from_numbers {
    ($($Int:ty => $Variant:ident),*) => {$(
        impl From<$Int> for ColumnValue<'_> {
            fn from(number: $Int) -> Self {
                ColumnValue::$Variant(number.into())
            }
        }
    )*};
}

from_numbers!(
    u8 => Unsigned, u16 => Unsigned, u32 => Unsigned, u64 => Unsigned,
    i16 => Signed, i32 => Signed, i64 => Signed
);

impl<'a> From<&'a [u8]> for ColumnValue<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        ColumnValue::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for ColumnValue<'a> {
    fn from(bytes: &'a [u8; N]) -> Self {
        ColumnValue::Bytes(Cow::Borrowed(bytes))
    }
}

impl<'a> From<&'a str> for ColumnValue<'a> {
    fn from(text: &'a str) -> Self {
        ColumnValue::from(text.as_bytes())
    }
}

/// Reads a number from little-endian bytes, which must be as many as the type has.
pub(super) fn number(kind: ColumnType, bytes: &[u8]) -> ColumnValue<'static> {
    match (kind.is_signed(), bytes) {
        (false, &[a]) => ColumnValue::Unsigned(a.into()),
        (false, &[a, b]) => ColumnValue::Unsigned(u16::from_le_bytes([a, b]).into()),
        (false, &[a, b, c, d]) => ColumnValue::Unsigned(u32::from_le_bytes([a, b, c, d]).into()),
        (true, &[a, b]) => ColumnValue::Signed(i16::from_le_bytes([a, b]).into()),
        (true, &[a, b, c, d]) => ColumnValue::Signed(i32::from_le_bytes([a, b, c, d]).into()),
        (signed, bytes) => {
            let mut wide = [0; 8];
            for (to, from) in wide.iter_mut().zip(bytes) {
                *to = *from;
            }
            match signed {
                true => ColumnValue::Signed(i64::from_le_bytes(wide)),
                false => ColumnValue::Unsigned(u64::from_le_bytes(wide)),
            }
        }
    }
}
