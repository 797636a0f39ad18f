//! The layout of rows in bytes.
//!
//! ```text
//!   | columns of fixed length | lengths of texts, 1 byte each | texts | blob |      numbers little-endian
//! ```
//!
//! In each of the three parts, columns stand in the order of their declaration. The columns of the
//! primary key are not in the row. A column of fixed length has a fixed offset, so that a part of a
//! row can be overwritten in place.

use latchwork_strict::strict_assert;

use super::Schema;
use super::column::{Column, ColumnId, ColumnValue, number};
use super::column_type::ColumnType;
use super::error::SchemaError;
use super::place::Place;

impl Schema {
    /// Encodes a row with these values into `out`, which is cleared first. The values are those of
    /// the columns outside the primary key ([`row_columns`](Schema::row_columns)), in the order of
    /// their declaration.
    ///
    /// # Errors
    /// [`SchemaError::WrongCount`], [`SchemaError::WrongValue`]. After an error the content of
    /// `out` is unspecified.
    pub fn encode_row(
        &self,
        values: &[ColumnValue<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), SchemaError> {
        out.clear();
        if values.len() != self.in_row.len() {
            let (given, columns) = (values.len(), self.in_row.len());
            return Err(SchemaError::WrongCount { whose: self.whose_row(), given, columns });
        }
        let columns = || self.in_row.iter().map(|id| &self.columns[id.index()]).zip(values);
        for (column, value) in columns() {
            match column.kind {
                ColumnType::Text(_) | ColumnType::Blob => {}
                ColumnType::Bytes(_) => out.extend_from_slice(column.bytes(value)?),
                kind => {
                    let bytes = column.number(value)?;
                    out.extend_from_slice(&bytes[..kind.fixed_len().unwrap_or(0)]);
                }
            }
        }
        if self.texts.is_empty() && !self.has_blob() {
            return Ok(());
        }
        let is_text = |kind| matches!(kind, ColumnType::Text(_));
        for (column, value) in columns().filter(|(column, _)| is_text(column.kind)) {
            // A text that fits its column has at most 255 bytes.
            out.push(column.bytes(value)?.len() as u8);
        }
        for (column, value) in columns().filter(|(column, _)| column.kind.fixed_len().is_none()) {
            out.extend_from_slice(column.bytes(value)?);
        }
        strict_assert!(self.row(out).is_ok(), "a row is read as it was written");
        Ok(())
    }

    /// Reads a row, and checks its shape, so that reads of its columns succeed.
    ///
    /// # Errors
    /// [`SchemaError::BadRow`] for bytes that [`encode_row`](Schema::encode_row) never writes.
    #[inline]
    pub fn row<'a>(&'a self, bytes: &'a [u8]) -> Result<RowRef<'a>, SchemaError> {
        let head = self.fixed_len + self.texts.len();
        let shape_is_right = || {
            let mut end = head;
            for (id, &len) in self.texts.iter().zip(bytes.get(self.fixed_len..head)?) {
                let ColumnType::Text(max) = self.columns[id.index()].kind else { return None };
                end += usize::from((len <= max).then_some(len)?);
            }
            (if self.has_blob() { end <= bytes.len() } else { end == bytes.len() }).then_some(())
        };
        match shape_is_right() {
            Some(()) => Ok(RowRef { schema: self, bytes }),
            None => Err(SchemaError::BadRow { table: self.name.clone(), len: bytes.len() }),
        }
    }

    /// The offset of a column of fixed length in each row, in bytes.
    ///
    /// # Errors
    /// [`SchemaError::NotThere`] for a column of the primary key, a text or a blob, which has no
    /// fixed offset; [`SchemaError::UnknownColumn`].
    pub fn offset_of(&self, column: ColumnId) -> Result<usize, SchemaError> {
        let name = &self.column_at(column, "offset_of")?.name;
        match self.locations[column.index()] {
            Place::Fixed(offset) => Ok(offset),
            _ => Err(SchemaError::NotThere {
                column: name.clone(),
                place: format!("the part of fixed length of {}", self.whose_row()),
            }),
        }
    }

    /// Writes a column of fixed length into a row, in place.
    ///
    /// # Errors
    /// As [`offset_of`](Schema::offset_of); [`SchemaError::WrongValue`]; [`SchemaError::BadRow`]
    /// for a row that is too short. After an error the row is unchanged.
    pub fn write(
        &self,
        row: &mut [u8],
        column: ColumnId,
        value: &ColumnValue<'_>,
    ) -> Result<(), SchemaError> {
        let offset = self.offset_of(column)?;
        let (bytes, len) = (&self.columns[column.index()], row.len());
        let number;
        let bytes = match bytes.kind {
            ColumnType::Bytes(_) => bytes.bytes(value)?,
            kind => {
                number = bytes.number(value)?;
                &number[..kind.fixed_len().unwrap_or(0)]
            }
        };
        match row.get_mut(offset..offset + bytes.len()) {
            Some(place) => place.copy_from_slice(bytes),
            None => return Err(SchemaError::BadRow { table: self.name.clone(), len }),
        }
        Ok(())
    }

    pub(super) fn whose_row(&self) -> String {
        format!("a row of table {}", self.name)
    }
}

/// A row that is read column by column, without a copy.
#[derive(Clone, Copy, Debug)]
pub struct RowRef<'a> {
    schema: &'a Schema,
    bytes: &'a [u8],
}

macro_rules! numbers {
    ($($read:ident: $Int:ident = $Type:ident),*) => {$(
        #[doc = concat!("A column of type [`ColumnType::", stringify!($Type), "`].")]
        ///
        /// # Errors
        /// [`SchemaError::WrongType`] for a column of another type; otherwise as
        /// [`get`](RowRef::get).
        #[inline]
        pub fn $read(&self, column: ColumnId) -> Result<$Int, SchemaError> {
            let (kind, bytes) = self.find(column)?;
            match (kind, bytes.try_into()) {
                (ColumnType::$Type, Ok(bytes)) => Ok($Int::from_le_bytes(bytes)),
                _ => Err(self.wrong_type(column, stringify!($Int))),
            }
        }
    )*};
}

impl<'a> RowRef<'a> {
    numbers!(u8: u8 = U8, u16: u16 = U16, u32: u32 = U32, u64: u64 = U64);
    numbers!(i16: i16 = I16, i32: i32 = I32, i64: i64 = I64);

    /// Reads a column of bytes, a text or a blob.
    ///
    /// # Errors
    /// [`SchemaError::WrongType`] for a column of numbers; otherwise as [`get`](RowRef::get).
    #[inline]
    pub fn bytes(&self, column: ColumnId) -> Result<&'a [u8], SchemaError> {
        match self.find(column)? {
            (kind, _) if kind.is_number() => Err(self.wrong_type(column, "bytes")),
            (_, bytes) => Ok(bytes),
        }
    }

    /// Reads the value of a column.
    ///
    /// # Errors
    /// [`SchemaError::NotThere`] for a column of the primary key; [`SchemaError::UnknownColumn`]
    /// for one that is not in the table.
    #[inline]
    pub fn get(&self, column: ColumnId) -> Result<ColumnValue<'a>, SchemaError> {
        let (kind, bytes) = self.find(column)?;
        Ok(if kind.is_number() { number(kind, bytes) } else { ColumnValue::from(bytes) })
    }

    /// The values of all columns in the order of their declaration, without the columns of the
    /// primary key, which are not in the row.
    pub fn values(&self) -> impl Iterator<Item = ColumnValue<'a>> + '_ {
        // All these columns exist.
        self.schema.in_row.iter().filter_map(|&column| self.get(column).ok())
    }

    /// The type of a column and its bytes.
    #[inline]
    pub(super) fn find(&self, column: ColumnId) -> Result<(ColumnType, &'a [u8]), SchemaError> {
        let schema = self.schema;
        let kind = schema.column_at(column, "a reader of rows")?.kind;
        let head = schema.fixed_len + schema.texts.len();
        let lens = self.bytes.get(schema.fixed_len..head).unwrap_or_default();
        let text_at = |nth| head + sum(&lens[..nth]);
        let range = match schema.locations[column.index()] {
            Place::Key(_) => {
                let column = schema.columns[column.index()].name.clone();
                return Err(SchemaError::NotThere { column, place: schema.whose_row() });
            }
            Place::Fixed(offset) => offset..offset + kind.fixed_len().unwrap_or(0),
            Place::Text(nth) if nth < lens.len() => {
                let start = text_at(nth);
                start..start + usize::from(lens[nth])
            }
            Place::Text(_) | Place::Blob => text_at(lens.len())..self.bytes.len(),
        };
        match self.bytes.get(range) {
            Some(bytes) => Ok((kind, bytes)),
            None => {
                let (table, len) = (schema.name.clone(), self.bytes.len());
                Err(SchemaError::BadRow { table, len })
            }
        }
    }

    /// The end of the texts in the row.
    pub(super) fn texts_end(&self) -> usize {
        let (fixed_len, head) = (self.schema.fixed_len, self.schema.row_len_min());
        head + sum(self.bytes.get(fixed_len..head).unwrap_or_default())
    }

    #[cold]
    fn wrong_type(&self, column: ColumnId, read_as: &'static str) -> SchemaError {
        let Column { name, kind } = &self.schema.columns[column.index()];
        SchemaError::WrongType { column: name.clone(), wanted: *kind, read_as }
    }
}

/// The sum of the lengths of texts.
fn sum(lens: &[u8]) -> usize {
    lens.iter().map(|&len| usize::from(len)).sum()
}
