//! Schemas: the columns, keys and indexes of tables, defined at run time.
//!
//! ```text
//!   Schema ── values ──► key bytes (order like the columns)   ── key, row ──► keys of the indexes
//!                    ──► row bytes (fixed, texts, blob)      ──► RowRef: one column
//! ```
//!
//! The heap and the indexes treat keys and rows as bytes. A schema converts keys and rows between
//! values and bytes, and computes the keys of secondary indexes. A schema holds no data and
//! accesses no memory.
//!
//! # Example
//!
//! ```
//! use latchwork_txn::schema::{ColumnType, Order, Schema, end_of_prefix};
//!
//! let orders = Schema::builder("ORDER")
//!     .column("district", ColumnType::U8)
//!     .column("number", ColumnType::U32)
//!     .column("carrier", ColumnType::U8)
//!     .column("customer", ColumnType::U32)
//!     .column("note", ColumnType::Text(20))
//!     .primary_key(["district", "number"])
//!     .index("by customer", [
//!         ("district", Order::Ascending),
//!         ("customer", Order::Ascending),
//!         ("number", Order::Descending),
//!     ])
//!     .build()?;
//!
//! let (mut key, mut row) = (Vec::new(), Vec::new());
//! orders.encode_key(&[7_u8.into(), 3001_u32.into()], &mut key)?;
//! orders.encode_row(&[0_u8.into(), 42_u32.into(), "soon".into()], &mut row)?;
//!
//! // Names are looked up once. Columns are read in place.
//! let (carrier, customer) = (orders.column("carrier")?, orders.column("customer")?);
//! assert_eq!(orders.row(&row)?.u32(customer)?, 42);
//! // A delivery changes one byte of the row, on which no index depends.
//! assert_eq!(orders.offset_of(carrier)?, 0);
//! assert!(!orders.indexes()[0].may_change(0, 1));
//!
//! // The newest order of a customer is the first key that begins with these two columns.
//! let (mut indexed, mut from, mut to) = (Vec::new(), Vec::new(), Vec::new());
//! orders.index_key(0, &key, &row, &mut indexed)?;
//! orders.index_prefix(0, &[7_u8.into(), 42_u32.into()], &mut from)?;
//! assert!(end_of_prefix(&from, &mut to));
//! assert!(from <= indexed && indexed < to);
//!
//! assert_eq!(Schema::decode(&orders.encode())?, orders);
//! # Ok::<(), latchwork_txn::schema::SchemaError>(())
//! ```

mod builder;
mod column;
mod column_type;
mod encode;
mod error;
mod index;
mod index_keys;
mod key;
mod layout;
mod limits;
mod ordered;
mod place;
#[cfg(test)]
mod tests;

pub use builder::SchemaBuilder;
pub use column::{Column, ColumnId, ColumnValue};
pub use column_type::ColumnType;
pub use error::SchemaError;
pub use index::SecondaryIndex;
pub use key::KeyRef;
pub use layout::RowRef;
pub(crate) use limits::INDEXES_MAX;
pub use limits::{COLUMNS_MAX, NAME_MAX};
pub use ordered::{Order, end_of_prefix};

use ordered::{KEY_COLUMNS_MAX, KeyLayout};
use place::Place;

const _: () =
    assert!(NAME_MAX > 0 && COLUMNS_MAX > KEY_COLUMNS_MAX, "a table has columns beside its key");

/// The shape of a table's rows, and the keys by which rows are found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schema {
    name: String,
    columns: Vec<Column>,
    /// The location of each column.
    locations: Vec<Place>,
    /// The columns that are not in the primary key.
    in_row: Vec<ColumnId>,
    /// The text columns of `in_row`.
    texts: Vec<ColumnId>,
    /// The bytes of the columns of fixed length, at the beginning of a row.
    fixed_len: usize,
    key: KeyLayout,
    indexes: Vec<SecondaryIndex>,
    rows_per_line: Option<u16>,
}

impl Schema {
    /// The name of the table.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The columns, in the order of declaration.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The columns of the primary key, in the order of the key.
    pub fn key_columns(&self) -> impl Iterator<Item = ColumnId> + '_ {
        self.key.parts.iter().map(|part| part.column)
    }

    /// The columns that rows contain, in the order of declaration: all columns outside the primary
    /// key.
    pub fn row_columns(&self) -> &[ColumnId] {
        &self.in_row
    }

    /// The secondary indexes. The position in the slice is the number of the index.
    pub fn indexes(&self) -> &[SecondaryIndex] {
        &self.indexes
    }

    /// The maximum number of rows in a line, at least 1; `None`: as many as the line has room for.
    pub fn rows_per_line(&self) -> Option<u16> {
        self.rows_per_line
    }

    /// Looks a column up. A program does this once, not for each row.
    ///
    /// # Errors
    /// [`SchemaError::UnknownColumn`].
    pub fn column(&self, name: &str) -> Result<ColumnId, SchemaError> {
        let found = (0..).map(ColumnId).zip(&self.columns).find(|(_, column)| column.name == name);
        found.map(|(id, _)| id).ok_or_else(|| SchemaError::UnknownColumn {
            table: self.name.clone(),
            column: name.to_owned(),
            by: "its name".to_owned(),
        })
    }

    /// Encodes the primary key with these values, in the order of the key, into `out`, which is
    /// cleared first.
    ///
    /// # Errors
    /// [`SchemaError::WrongCount`], [`SchemaError::WrongValue`]. After an error the content of
    /// `out` is unspecified.
    pub fn encode_key(
        &self,
        values: &[ColumnValue<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), SchemaError> {
        if values.len() < self.key.parts.len() {
            return Err(self.key.wrong_count(values.len()));
        }
        self.key_prefix(values, out)
    }

    /// Encodes the first columns of primary keys, one for each value, into `out`, which is cleared
    /// first. All keys with this prefix are in the range from the prefix to its [`end_of_prefix`].
    ///
    /// # Errors
    /// [`SchemaError::WrongCount`] for more values than columns; [`SchemaError::WrongValue`].
    pub(crate) fn key_prefix(
        &self,
        values: &[ColumnValue<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), SchemaError> {
        out.clear();
        self.key.put(&self.columns, values, out)
    }

    /// The minimum length of a row in bytes.
    pub(crate) fn row_len_min(&self) -> usize {
        self.fixed_len + self.texts.len()
    }

    /// The maximum length of a row in bytes; `None` with a blob, which only the line limits.
    pub fn row_len_max(&self) -> Option<usize> {
        let text = |id: &ColumnId| match self.columns[id.index()].kind {
            ColumnType::Text(max) => usize::from(max),
            _ => 0,
        };
        let texts: usize = self.texts.iter().map(text).sum();
        (!self.has_blob()).then_some(self.row_len_min() + texts)
    }

    /// Checks that every key of the table and of its indexes fits into an index with keys of at
    /// most `key_max` bytes. This limit follows from the line size: see
    /// [`Limits`](latchwork_blink::TreeLimits).
    ///
    /// # Errors
    /// [`SchemaError::KeyTooLong`].
    pub fn check_keys(&self, key_max: usize) -> Result<(), SchemaError> {
        let keys = std::iter::once(&self.key).chain(self.indexes.iter().map(|index| &index.layout));
        for key in keys {
            let len = key.len_max();
            if len > key_max {
                return Err(SchemaError::KeyTooLong {
                    whose: key.whose.clone(),
                    len,
                    max: key_max,
                });
            }
        }
        Ok(())
    }

    fn has_blob(&self) -> bool {
        self.locations.last() == Some(&Place::Blob)
    }

    /// The column. `by` names the caller in the error.
    #[inline]
    fn column_at(&self, column: ColumnId, by: &str) -> Result<&Column, SchemaError> {
        self.columns.get(column.index()).ok_or_else(|| SchemaError::UnknownColumn {
            table: self.name.clone(),
            column: format!("number {}", column.index()),
            by: by.to_owned(),
        })
    }
}
