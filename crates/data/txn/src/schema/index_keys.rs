//! Secondary indexes: the computation of their keys from rows.
//!
//! ```text
//!   | columns of the index | columns of the primary key that are not among them |
//! ```
//!
//! The second part is missing if the index is unique. So two rows can have the same key only in a
//! unique index, which refuses the second row.

use std::ops::Range;

use super::Schema;
use super::column::ColumnValue;
use super::error::SchemaError;
use super::index::SecondaryIndex;
use super::key::KeyRef;
use super::ordered::{put_fixed, put_text};
use super::place::Place;

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
                // All columns of a primary key are ascending. `turn` below inverts the bytes if the
                // index has the column in descending order.
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
    /// `after`. Both rows have the same primary key. If the result is `false`, they have the same
    /// key in the index, which need not be computed again.
    pub(crate) fn may_move(&self, index: usize, before: &[u8], after: &[u8]) -> bool {
        let (Some(index), Ok(row), Ok(_)) =
            (self.indexes.get(index), self.row(before), self.row(after))
        else {
            return true;
        };
        // `reads` has the ranges of a row's bytes that the index depends on. For a text these are
        // also the lengths of all texts. If the lengths are equal, the texts of both rows end at
        // `end`.
        let end = row.texts_end();
        let differs = |reads: &Range<usize>| {
            let reads = reads.start..reads.end.min(end);
            before.get(reads.clone()) != after.get(reads)
        };
        index.reads.iter().any(differs)
    }

    /// Encodes the beginning of a key in the secondary index number `index` into `out`, which is
    /// cleared first. `values` are the values of the first columns of the key. The columns of the
    /// key are those of the index; unless the index is unique, the remaining columns of the primary
    /// key follow.
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
