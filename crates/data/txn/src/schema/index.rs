//! [`SecondaryIndex`]: the columns of a secondary index.

use std::ops::Range;

use latchwork_strict::strict_assert;

use super::column::{Column, ColumnId};
use super::error::SchemaError;
use super::ordered::{KEY_COLUMNS_MAX, KeyLayout, Order, Part};
use super::place::Place;

/// A secondary index of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecondaryIndex {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) columns: Vec<(ColumnId, Order)>,
    pub(super) layout: KeyLayout,
    /// The byte ranges of rows on which the keys of this index depend.
    pub(super) reads: Vec<Range<usize>>,
}

impl SecondaryIndex {
    /// The name of the index.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether no two rows may have the same values in all its columns.
    pub(crate) fn is_unique(&self) -> bool {
        self.unique
    }

    /// The columns with which the index was declared.
    pub fn columns(&self) -> &[(ColumnId, Order)] {
        &self.columns
    }

    /// The columns of its keys: the declared columns, followed by those columns of the primary key
    /// that make the keys distinct.
    #[cfg(test)]
    pub(crate) fn key_columns(&self) -> impl Iterator<Item = (ColumnId, Order)> + '_ {
        self.layout.parts.iter().map(|part| (part.column, part.order))
    }

    /// The maximum length of a key in bytes.
    #[cfg(test)]
    pub(crate) fn key_len_max(&self) -> usize {
        self.layout.len_max()
    }

    /// Whether an overwrite of `len` bytes of a row from `offset` may change the key of the row in
    /// this index. The overwrite must keep the length of the row. If the result is `false`, the key
    /// need not be computed again.
    pub fn may_change(&self, offset: usize, len: usize) -> bool {
        let end = offset.saturating_add(len);
        self.reads.iter().any(|reads| offset < reads.end && reads.start < end)
    }

    /// Makes an index of columns that exist in the table and are not blobs.
    pub(super) fn new(
        table: &str,
        name: String,
        unique: bool,
        columns: Vec<(ColumnId, Order)>,
        (all, places, primary): (&[Column], &[Place], &KeyLayout),
        head: Range<usize>,
    ) -> Result<SecondaryIndex, SchemaError> {
        let whose = format!("index {name} of table {table}");
        let part = |&(column, order): &(ColumnId, Order)| {
            let kind = all[column.index()].kind;
            Part { column, kind, order }
        };
        let mut parts: Vec<Part> = columns.iter().map(part).collect();
        if !unique {
            let declared = |part: &&Part| columns.iter().all(|&(column, _)| column != part.column);
            parts.extend(primary.parts.iter().filter(declared));
        }
        if parts.len() > KEY_COLUMNS_MAX {
            let (count, max) = (parts.len(), KEY_COLUMNS_MAX);
            let what = "columns, those of the primary key included";
            return Err(SchemaError::TooMany { whose, what, count, max });
        }
        let reads = parts.iter().filter_map(|part| match places[part.column.index()] {
            Place::Fixed(at) => Some(at..at + part.kind.fixed_len().unwrap_or(0)),
            // The offset of a text depends on the lengths of the texts before it.
            Place::Text(_) => Some(head.end..usize::MAX),
            Place::Key(_) | Place::Blob => None,
        });
        let mut reads: Vec<Range<usize>> = reads.collect();
        if reads.iter().any(|range| range.end == usize::MAX) {
            reads.push(head);
        }
        strict_assert!(parts.len() >= columns.len(), "an index loses a column");
        strict_assert!(
            reads.iter().all(|range| range.start <= range.end),
            "an index reads a range that ends before it begins"
        );
        Ok(SecondaryIndex { name, unique, columns, layout: KeyLayout { whose, parts }, reads })
    }
}
