//! Secondary indexes: the computation of their keys from rows.
//!
//! ```text
//!   | columns of the index | columns of the primary key that are not among them |
//!                            not if the index is unique
//! ```
//!
//! So two rows have the same key only in a unique index, where they must not both exist.

use std::ops::Range;

use latchwork_strict::strict_assert;

use super::column::{Column, ColumnId, ColumnValue};
use super::layout::Place;
use super::ordered::{KEY_COLUMNS_MAX, KeyLayout, KeyRef, Order, Part, put_fixed, put_text};
use super::{Schema, SchemaError};

/// A secondary index of a table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SecondaryIndex {
    pub(super) name: String,
    pub(super) unique: bool,
    pub(super) columns: Vec<(ColumnId, Order)>,
    pub(super) layout: KeyLayout,
    /// The byte ranges of rows on which its keys depend.
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

    /// The columns with which it was declared.
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

    /// Whether an overwrite of `len` bytes of a row from `offset`, without a change of its length,
    /// may change its key here. If `false`, the key need not be computed again.
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

impl Schema {
    /// Computes the key of a row in the secondary index number `index` into `out`, which is cleared
    /// first. Allocates only if `out` is too small.
    ///
    /// # Errors
    /// [`SchemaError::UnknownIndex`]; [`SchemaError::BadKey`] and [`SchemaError::BadRow`] for bytes
    /// that are not a key or a row of the table. After an error the content of `out` is
    /// unspecified.
    pub fn index_key(
        &self,
        index: usize,
        key: &[u8],
        row: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), SchemaError> {
        let (key, row) = (self.key(key)?, self.row(row)?);
        out.clear();
        for part in &self.index_at(index)?.layout.parts {
            let start = out.len();
            match self.locations[part.column.index()] {
                // The bytes are copied unchanged, because columns of primary keys are ascending.
                Place::Key(at) => out.extend_from_slice(key.encoded(at)),
                Place::Fixed(_) => put_fixed(part.kind, row.find(part.column)?.1, out),
                // A blob is in no key.
                Place::Text(_) | Place::Blob => put_text(row.find(part.column)?.1, out),
            }
            part.turn(start, out);
        }
        Ok(())
    }

    /// Whether the key of a row in the secondary index number `index` may change from `before` to
    /// `after`. If `false`, the row has a key there, which need not be computed again.
    pub fn may_move(&self, index: usize, before: &[u8], after: &[u8]) -> bool {
        let (Some(index), Ok(row), Ok(_)) =
            (self.indexes.get(index), self.row(before), self.row(after))
        else {
            return true;
        };
        // Texts are compared together with their lengths. If the lengths are equal, the texts of
        // both rows end here.
        let end = row.texts_end();
        let differs = |reads: &Range<usize>| {
            let reads = reads.start..reads.end.min(end);
            before.get(reads.clone()) != after.get(reads)
        };
        index.reads.iter().any(differs)
    }

    /// Encodes the first columns (`SecondaryIndex::key_columns`) of keys in the secondary index
    /// number `index`, one for each value, into `out`, which is cleared first.
    ///
    /// # Errors
    /// [`SchemaError::UnknownIndex`]; [`SchemaError::WrongCount`] for more values than columns;
    /// [`SchemaError::WrongValue`].
    pub fn index_prefix(
        &self,
        index: usize,
        values: &[ColumnValue<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), SchemaError> {
        out.clear();
        self.index_at(index)?.layout.put(&self.columns, values, out)
    }

    /// Reads a key of the secondary index number `index`.
    ///
    /// # Errors
    /// [`SchemaError::UnknownIndex`]; [`SchemaError::BadKey`] for bytes that are not such a key.
    pub fn index_key_ref<'a>(
        &'a self,
        index: usize,
        bytes: &'a [u8],
    ) -> Result<KeyRef<'a>, SchemaError> {
        self.index_at(index)?.layout.read(self, bytes)
    }

    fn index_at(&self, index: usize) -> Result<&SecondaryIndex, SchemaError> {
        self.indexes.get(index).ok_or_else(|| SchemaError::UnknownIndex {
            table: self.name.clone(),
            index,
            count: self.indexes.len(),
        })
    }
}
