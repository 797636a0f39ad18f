//! Errors of schemas.

use thiserror::Error;

use super::column::ColumnType;

/// Why a schema was refused, or values or bytes that are not of its shape.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SchemaError {
    /// Something has no name.
    #[error("{what} has no name: give it 1 to {max} bytes", max = super::NAME_MAX)]
    NameEmpty {
        /// What it is.
        what: &'static str,
    },
    /// A name is too long.
    #[error(
        "the name \"{name}\" of {what} has {} bytes: at most {max} are possible",
        .name.len(), max = super::NAME_MAX
    )]
    NameTooLong {
        /// What has it.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// A name could not be shown in a line of text.
    #[error("the name {name:?} of {what} has control characters: leave them out")]
    NameControl {
        /// What has it.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// There are too many columns or indexes.
    #[error("{whose} has {count} {what}: at most {max} are possible")]
    TooMany {
        /// What has them.
        whose: String,
        /// What they are.
        what: &'static str,
        /// How many.
        count: usize,
        /// The most possible.
        max: usize,
    },
    /// A table, a key or an index has no columns.
    #[error("{whose} has no columns: give it at least one")]
    NoColumns {
        /// What should have them.
        whose: String,
    },
    /// Two columns of a table have one name, or two indexes.
    #[error("table {table} has two {what} named {name}: give each its own name")]
    Duplicate {
        /// The table.
        table: String,
        /// What they are.
        what: &'static str,
        /// Their name.
        name: String,
    },
    /// A column that can hold nothing.
    #[error("column {column} has length 0: give it at least 1")]
    LengthZero {
        /// The column.
        column: String,
    },
    /// A blob ends with the row, and so can only be the last column.
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
        /// The column: its name, or its number.
        column: String,
        /// What asked for it.
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
    /// A blob has no limit, so no key can have it.
    #[error("{whose} has column {column}, a blob: only numbers, bytes and texts can be in a key")]
    BlobInKey {
        /// The key.
        whose: String,
        /// The column.
        column: String,
    },
    /// The longest of the keys would not fit a page of an index.
    #[error(
        "{whose} can be {len} bytes long, but a key has at most {max}: shorten its texts (two bytes \
         are needed for each of a text's, and two more), or choose larger lines if that allows more"
    )]
    KeyTooLong {
        /// The key.
        whose: String,
        /// The longest that is possible, in bytes.
        len: usize,
        /// The longest that the index takes.
        max: usize,
    },
    /// Not even a row with empty texts fits the longest line.
    #[error("a row of table {table} has at least {len} bytes: at most {max} fit any line")]
    RowTooLong {
        /// The table.
        table: String,
        /// The shortest row, in bytes.
        len: usize,
        /// The most bytes possible.
        max: usize,
    },
    /// Lines of a table hold rows.
    #[error("table {table} wants 0 rows in a line: give at least 1, or no limit")]
    NoRowsPerLine {
        /// The table.
        table: String,
    },
    /// An index is asked for by a number that it does not have.
    #[error("table {table} has {count} secondary indexes, counted from 0: none has number {index}")]
    UnknownIndex {
        /// The table.
        table: String,
        /// The number.
        index: usize,
        /// How many there are.
        count: usize,
    },

    /// Not as many values as columns.
    #[error("{given} values for the {columns} columns of {whose}")]
    WrongCount {
        /// The key or the row.
        whose: String,
        /// Values.
        given: usize,
        /// Columns.
        columns: usize,
    },
    /// A value is not one of its column's type.
    #[error("column {column} is {wanted} and cannot hold {given}")]
    WrongValue {
        /// The column.
        column: String,
        /// Its type.
        wanted: ColumnType,
        /// The value, or how it is too long.
        given: String,
    },
    /// A column is read as another type than its own.
    #[error("column {column} is {wanted} and cannot be read as {read_as}")]
    WrongType {
        /// The column.
        column: String,
        /// Its type.
        wanted: ColumnType,
        /// As what it was read.
        read_as: &'static str,
    },
    /// A column is somewhere else.
    #[error("column {column} is not in {place}")]
    NotThere {
        /// The column.
        column: String,
        /// Where it was looked for.
        place: String,
    },
    /// Bytes that are no row.
    #[error(
        "{len} bytes are no row of table {table}: the database is damaged or of another layout"
    )]
    BadRow {
        /// The table.
        table: String,
        /// How many bytes there are.
        len: usize,
    },
    /// Bytes that are no key.
    #[error("{len} bytes are no key of {whose}: the database is damaged or of another layout")]
    BadKey {
        /// The key.
        whose: String,
        /// How many bytes there are.
        len: usize,
    },

    /// A stored schema has a version that is not known here.
    #[error(
        "a stored schema has version {found}, but this program knows {known} only: use the program that wrote it"
    )]
    Version {
        /// The version that stands there.
        found: u8,
        /// The version that is written here.
        known: u8,
    },
    /// Bytes that are no stored schema.
    #[error("bytes are no stored schema: {what} at byte {at}")]
    BadDefinition {
        /// What is wrong.
        what: &'static str,
        /// Where, from 0.
        at: usize,
    },
}
