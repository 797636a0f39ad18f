//! [`KeyRef`]: a key that is read column by column.

use super::Schema;
use super::column::{ColumnId, ColumnValue};
use super::error::SchemaError;
use super::ordered::{KEY_COLUMNS_MAX, KeyLayout};

impl Schema {
    /// Reads a primary key.
    ///
    /// # Errors
    /// [`SchemaError::BadKey`] for bytes that [`encode_key`](Schema::encode_key) never writes.
    pub fn key<'a>(&'a self, bytes: &'a [u8]) -> Result<KeyRef<'a>, SchemaError> {
        self.key.read(self, bytes)
    }
}

impl KeyLayout {
    /// Reads a key from `bytes`.
    pub(super) fn read<'a>(
        &'a self,
        schema: &'a Schema,
        bytes: &'a [u8],
    ) -> Result<KeyRef<'a>, SchemaError> {
        let bad = || SchemaError::BadKey { whose: self.whose.clone(), len: bytes.len() };
        let mut ends = [0; KEY_COLUMNS_MAX];
        let mut at = 0;
        for (part, end) in self.parts.iter().zip(&mut ends) {
            at += part.len_in(&bytes[at..]).ok_or_else(bad)?;
            *end = u16::try_from(at).map_err(|_| bad())?;
        }
        if at != bytes.len() {
            return Err(bad());
        }
        Ok(KeyRef { schema, layout: self, bytes, ends })
    }
}

/// A key that is read column by column: a primary key ([`Schema::key`]) or a key of a secondary
/// index ([`Schema::index_key_ref`]).
#[derive(Clone, Copy, Debug)]
pub struct KeyRef<'a> {
    schema: &'a Schema,
    layout: &'a KeyLayout,
    bytes: &'a [u8],
    /// The end of each of its columns.
    ends: [u16; KEY_COLUMNS_MAX],
}

impl<'a> KeyRef<'a> {
    /// The bytes of the column at position `at` of the key, which must exist.
    pub(super) fn encoded(&self, at: usize) -> &'a [u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[usize::from(start)..usize::from(self.ends[at])]
    }

    /// Reads the value of a column.
    ///
    /// # Errors
    /// [`SchemaError::NotThere`] for a column that is not in the key;
    /// [`SchemaError::UnknownColumn`] for one that is not in the table.
    pub fn get(&self, column: ColumnId) -> Result<ColumnValue<'a>, SchemaError> {
        let found = self.layout.parts.iter().position(|part| part.column == column);
        let Some(at) = found else {
            let column = self.schema.column_at(column, &self.layout.whose)?.name.clone();
            return Err(SchemaError::NotThere { column, place: self.layout.whose.clone() });
        };
        Ok(self.layout.parts[at].value(self.encoded(at)))
    }

    /// The values of all columns, in the order of the key.
    pub fn values(&self) -> impl Iterator<Item = ColumnValue<'a>> + '_ {
        self.layout.parts.iter().enumerate().map(|(at, part)| part.value(self.encoded(at)))
    }
}
