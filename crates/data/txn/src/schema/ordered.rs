//! The encoding of columns in bytes with the same order, and keys of several columns.
//!
//! ```text
//!   number     big-endian; of a signed one the sign's bit is turned
//!   Bytes(n)   as they are
//!   Text       0 ─► 0 255, and 0 0 behind the last
//!   descending all of it complemented
//! ```
//!
//! The encoded bytes of a value are never a prefix of the bytes of another value of the same type.
//! So the first different column decides the order of two keys, and no key is a prefix of another.

use std::borrow::Cow;

use super::column::{Column, ColumnId, ColumnValue, number};
use super::column_type::ColumnType;
use super::error::SchemaError;

/// The maximum number of columns of a key.
pub(crate) const KEY_COLUMNS_MAX: usize = 16;

/// The direction in which a column of an index orders its rows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Order {
    /// The smallest value first.
    Ascending,
    /// The largest value first.
    Descending,
}

/// A column of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Part {
    pub(super) column: ColumnId,
    pub(super) kind: ColumnType,
    pub(super) order: Order,
}

impl Part {
    /// The maximum number of bytes that the column takes.
    fn len_max(self) -> usize {
        match self.kind {
            ColumnType::Text(max) => 2 * usize::from(max) + 2,
            kind => kind.fixed_len().unwrap_or(usize::MAX),
        }
    }

    /// The bytes of the column at the beginning of `key`; `None` if the bytes are no such column.
    pub(super) fn len_in(self, key: &[u8]) -> Option<usize> {
        let ColumnType::Text(max) = self.kind else {
            return self.kind.fixed_len().filter(|&len| len <= key.len());
        };
        let mask = self.mask();
        let (mut at, mut len) = (0, 0);
        loop {
            if key.get(at)? ^ mask != 0 {
                at += 1;
            } else {
                match key.get(at + 1)? ^ mask {
                    0 => return (len <= usize::from(max)).then_some(at + 2),
                    0xff => at += 2,
                    _ => return None,
                }
            }
            len += 1;
        }
    }

    /// The mask of the column: each encoded byte is the ascending byte XOR this mask.
    fn mask(self) -> u8 {
        match self.order {
            Order::Ascending => 0,
            Order::Descending => 0xff,
        }
    }

    /// Complements the bytes from `start` on, if the column is descending.
    pub(super) fn turn(self, start: usize, out: &mut [u8]) {
        if self.order == Order::Descending {
            out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
    }

    /// The value of a column from its bytes, of the length that [`len_in`](Part::len_in) found.
    pub(super) fn value<'a>(self, bytes: &'a [u8]) -> ColumnValue<'a> {
        let mask = self.mask();
        match self.kind {
            ColumnType::Text(_) => {
                let text = &bytes[..bytes.len().saturating_sub(2)];
                if mask == 0 && !text.contains(&0) {
                    return ColumnValue::from(text);
                }
                let mut plain = Vec::with_capacity(text.len());
                let mut rest = text.iter().map(|byte| byte ^ mask);
                while let Some(byte) = rest.next() {
                    plain.push(byte);
                    if byte == 0 {
                        rest.next();
                    }
                }
                ColumnValue::Bytes(Cow::Owned(plain))
            }
            ColumnType::Bytes(_) if mask == 0 => ColumnValue::from(bytes),
            ColumnType::Bytes(_) => {
                ColumnValue::Bytes(Cow::Owned(bytes.iter().map(|byte| byte ^ mask).collect()))
            }
            kind => {
                let mut low_first = [0; 8];
                for (to, from) in low_first.iter_mut().zip(bytes.iter().rev()) {
                    *to = from ^ mask;
                }
                let used = &mut low_first[..bytes.len().min(8)];
                if let (true, Some(top)) = (kind.is_signed(), used.last_mut()) {
                    *top ^= 0x80;
                }
                number(kind, used)
            }
        }
    }
}

/// Appends a column of fixed length, ascending, from its bytes in a row.
pub(super) fn put_fixed(kind: ColumnType, in_row: &[u8], out: &mut Vec<u8>) {
    if !kind.is_number() {
        out.extend_from_slice(in_row);
        return;
    }
    let start = out.len();
    out.extend(in_row.iter().rev());
    if let (true, Some(top)) = (kind.is_signed(), out.get_mut(start)) {
        *top ^= 0x80;
    }
}

/// Appends a text, ascending.
pub(super) fn put_text(text: &[u8], out: &mut Vec<u8>) {
    let mut rest = text;
    while let Some(zero) = rest.iter().position(|&byte| byte == 0) {
        let (before, behind) = rest.split_at(zero + 1);
        out.extend_from_slice(before);
        out.push(0xff);
        rest = behind;
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 0]);
}

/// The columns of a key, one after the other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct KeyLayout {
    /// The name of the key in errors.
    pub(super) whose: String,
    pub(super) parts: Vec<Part>,
}

impl KeyLayout {
    /// The maximum length of a key in bytes.
    pub(super) fn len_max(&self) -> usize {
        self.parts.iter().fold(0, |len, part| len.saturating_add(part.len_max()))
    }

    /// Appends the first columns of a key, one for each value.
    pub(super) fn put(
        &self,
        columns: &[Column],
        values: &[ColumnValue<'_>],
        out: &mut Vec<u8>,
    ) -> Result<(), SchemaError> {
        if values.len() > self.parts.len() {
            return Err(self.wrong_count(values.len()));
        }
        for (part, value) in self.parts.iter().zip(values) {
            let start = out.len();
            let column = &columns[part.column.index()];
            match part.kind {
                ColumnType::Text(_) => put_text(column.bytes(value)?, out),
                ColumnType::Bytes(_) | ColumnType::Blob => {
                    out.extend_from_slice(column.bytes(value)?);
                }
                kind => {
                    let bytes = column.number(value)?;
                    put_fixed(kind, &bytes[..kind.fixed_len().unwrap_or(0)], out);
                }
            }
            part.turn(start, out);
        }
        Ok(())
    }

    pub(super) fn wrong_count(&self, given: usize) -> SchemaError {
        SchemaError::WrongCount { whose: self.whose.clone(), given, columns: self.parts.len() }
    }
}

/// Writes the end of the range of all keys with the prefix `prefix` into `out`, which is cleared
/// first. The end is the first byte string above all these keys. If all bytes of the prefix are
/// 255, the range has no end and the result is `false`.
///
/// ```
/// use latchwork_txn::schema::end_of_prefix;
/// let mut end = Vec::new();
/// assert!(end_of_prefix(&[7, 255], &mut end));
/// assert_eq!(end, [8]);
/// assert!(!end_of_prefix(&[255, 255], &mut end));
/// ```
pub fn end_of_prefix(prefix: &[u8], out: &mut Vec<u8>) -> bool {
    out.clear();
    let Some(last) = prefix.iter().rposition(|&byte| byte != 0xff) else { return false };
    out.extend_from_slice(&prefix[..=last]);
    out[last] += 1;
    true
}
