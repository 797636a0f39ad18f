//! Errors of schemas.

use thiserror::Error;

use super::column_type::ColumnType;
use super::limits::NAME_MAX;

/// The reason why a schema was refused, or why values or bytes do not match a schema.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SchemaError {
    /// Something has an empty name.
    #[error("{what} has no name: give it 1 to {max} bytes", max = NAME_MAX)]
    NameEmpty {
        /// The kind of thing.
        what: &'static str,
    },
    /// A name is too long.
    #[error(
        "the name \"{name}\" of {what} has {} bytes: at most {max} are possible",
        .name.len(), max = NAME_MAX
    )]
    NameTooLong {
        /// The kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name contains control characters.
    #[error("the name {name:?} of {what} has control characters: leave them out")]
    NameControl {
        /// The kind of thing.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// There are too many columns or indexes.
    #[error("{whose} has {count} {what}: at most {max} are possible")]
    TooMany {
        /// The table or the key.
        whose: String,
        /// Columns or indexes.
        what: &'static str,
        /// Their number.
        count: usize,
        /// The maximum number.
        max: usize,
    },
    /// A table, a key or an index has no columns.
    #[error("{whose} has no columns: give it at least one")]
    NoColumns {
        /// The table, the key or the index.
        whose: String,
    },
    /// Two columns or two indexes of a table have the same name.
    #[error("table {table} has two {what} named {name}: give each its own name")]
    Duplicate {
        /// The table.
        table: String,
        /// Columns or indexes.
        what: &'static str,
        /// Their name.
        name: String,
    },
    /// A column has the maximum length zero.
    #[error("column {column} has length 0: give it at least 1")]
    LengthZero {
        /// The column.
        column: String,
    },
    /// A blob is not the last column. Only the last column can be a blob, because the row ends with
    /// it.
    #[error("column {column} is a blob but not the last: declare it last, and only one")]
    BlobNotLast {
        /// The column.
        column: String,
    },
    /// A column is not in the table.
    #[error("table {table} has no column {column}, which was asked for by {by}")]
    UnknownColumn {
        /// The table.
        table: String,
        /// The name or the number of the column.
        column: String,
        /// The key, the index or the function that named it.
        by: String,
    },
    /// A key names a column twice.
    #[error("{whose} has column {column} twice")]
    KeyRepeats {
        /// The key.
        whose: String,
        /// The column.
        column: String,
    },
    /// A key contains a blob, which has no maximum length.
    #[error("{whose} has column {column}, a blob: only numbers, bytes and texts can be in a key")]
    BlobInKey {
        /// The key.
        whose: String,
        /// The column.
        column: String,
    },
    /// The longest key would not fit into a page of an index.
    #[error(
        "{whose} can be {len} bytes long, but a key has at most {max}: shorten its texts (two bytes \
         are needed for each of a text's, and two more), or choose larger lines if that allows more"
    )]
    KeyTooLong {
        /// The key.
        whose: String,
        /// The maximum length of the key in bytes.
        len: usize,
        /// The maximum length that the index accepts.
        max: usize,
    },
    /// Even a row with empty texts does not fit into the longest line.
    #[error("a row of table {table} has at least {len} bytes: at most {max} fit any line")]
    RowTooLong {
        /// The table.
        table: String,
        /// The shortest row, in bytes.
        len: usize,
        /// The maximum length of a row in bytes.
        max: usize,
    },
    /// The maximum number of rows in a line is zero.
    #[error("table {table} wants 0 rows in a line: give at least 1, or no limit")]
    NoRowsPerLine {
        /// The table.
        table: String,
    },
    /// The table has no index with this number.
    #[error("table {table} has {count} secondary indexes, counted from 0: none has number {index}")]
    UnknownIndex {
        /// The table.
        table: String,
        /// The number.
        index: usize,
        /// The number of indexes.
        count: usize,
    },

    /// The number of values differs from the number of columns.
    #[error("{given} values for the {columns} columns of {whose}")]
    WrongCount {
        /// The key or the row.
        whose: String,
        /// The number of values.
        given: usize,
        /// The number of columns.
        columns: usize,
    },
    /// A value does not match the type of its column.
    #[error("column {column} is {wanted} and cannot hold {given}")]
    WrongValue {
        /// The column.
        column: String,
        /// Its type.
        wanted: ColumnType,
        /// The value, or its excess length.
        given: String,
    },
    /// A column is read as another type than its own.
    #[error("column {column} is {wanted} and cannot be read as {read_as}")]
    WrongType {
        /// The column.
        column: String,
        /// Its type.
        wanted: ColumnType,
        /// The type as which it was read.
        read_as: &'static str,
    },
    /// A column is not in this key or row.
    #[error("column {column} is not in {place}")]
    NotThere {
        /// The column.
        column: String,
        /// The key or the part of the row.
        place: String,
    },
    /// The bytes are not a row.
    #[error(
        "{len} bytes are no row of table {table}: the database is damaged or of another layout"
    )]
    BadRow {
        /// The table.
        table: String,
        /// The number of bytes.
        len: usize,
    },
    /// The bytes are not a key.
    #[error("{len} bytes are no key of {whose}: the database is damaged or of another layout")]
    BadKey {
        /// The key.
        whose: String,
        /// The number of bytes.
        len: usize,
    },

    /// A stored schema has an unknown version.
    #[error(
        "a stored schema has version {found}, but this program knows {known} only: use the program that wrote it"
    )]
    Version {
        /// The version of the stored schema.
        found: u8,
        /// The version that this program knows.
        known: u8,
    },
    /// The bytes are not a stored schema.
    #[error("bytes are no stored schema: {what} at byte {at}")]
    BadDefinition {
        /// The defect.
        what: &'static str,
        /// The offset of the defect, from 0.
        at: usize,
    },
}
