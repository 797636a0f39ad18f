//! The encoding of schemas in bytes, for the catalogue and the log.
//!
//! ```text
//!   version 1 | name | columns 2, of each: type 1, length 2, name | key: columns 1, of each: number 2
//!     | rows per line 2 | indexes 1, of each: name, flags 1, columns 1, of each: number 2, order 1
//! ```
//!
//! Each number is little-endian with that many bytes. A name begins with one byte of length. A
//! schema has exactly one encoding: decoded bytes equal the encoding of the result. The encoding
//! has no checksum, because log records and checkpoints have checksums of their own.

use latchwork_strict::strict_assert;

use super::Schema;
use super::builder::{Definition, IndexDefinition};
use super::column::{Column, ColumnId};
use super::column_type::ColumnType;
use super::error::SchemaError;
use super::ordered::Order;

/// The version of the encoding.
const VERSION: u8 = 1;
const _: () = assert!(
    super::COLUMNS_MAX <= u16::MAX as usize
        && super::INDEXES_MAX <= u8::MAX as usize
        && super::NAME_MAX <= u8::MAX as usize,
    "the counts of a schema fit into its encoding"
);

/// FNV-1a with 64 bits: the offset basis and the prime.
const FNV: (u64, u64) = (0xCBF2_9CE4_8422_2325, 0x0000_0100_0000_01B3);

impl Schema {
    /// Encodes the schema, for [`decode`](Schema::decode).
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        // The builder has limited every count and length.
        let name = |name: &str, out: &mut Vec<u8>| {
            out.push(name.len() as u8);
            out.extend_from_slice(name.as_bytes());
        };
        name(&self.name, &mut out);
        out.extend_from_slice(&(self.columns.len() as u16).to_le_bytes());
        for column in &self.columns {
            let (tag, len) = tag(column.kind);
            out.push(tag);
            out.extend_from_slice(&len.to_le_bytes());
            name(&column.name, &mut out);
        }
        out.push(self.key.parts.len() as u8);
        for part in &self.key.parts {
            out.extend_from_slice(&part.column.0.to_le_bytes());
        }
        out.extend_from_slice(&self.rows_per_line.unwrap_or(0).to_le_bytes());
        out.push(self.indexes.len() as u8);
        for index in &self.indexes {
            name(&index.name, &mut out);
            out.push(u8::from(index.unique));
            out.push(index.columns.len() as u8);
            for (column, order) in &index.columns {
                out.extend_from_slice(&column.0.to_le_bytes());
                out.push(u8::from(*order == Order::Descending));
            }
        }
        strict_assert!(
            self.columns.len() <= super::COLUMNS_MAX && self.indexes.len() <= super::INDEXES_MAX,
            "a schema that was not checked"
        );
        out
    }

    /// Decodes a schema from the bytes of [`encode`](Schema::encode). The result is checked like a
    /// new schema.
    ///
    /// # Errors
    /// [`SchemaError::Version`] and [`SchemaError::BadDefinition`] for other bytes, and all errors
    /// of [`SchemaBuilder::build`](super::SchemaBuilder::build).
    pub fn decode(bytes: &[u8]) -> Result<Schema, SchemaError> {
        let mut bytes = Bytes { all: bytes, at: 0 };
        let version = bytes.u8("no version")?;
        if version != VERSION {
            return Err(SchemaError::Version { found: version, known: VERSION });
        }
        let table = bytes.name()?;
        let columns = (0..bytes.u16("no count of columns")?).map(|_| bytes.column());
        let columns = columns.collect::<Result<_, _>>()?;
        let mut definition = Definition::of_columns(table, columns)?;
        let key = (0..bytes.u8("no count of the key's columns")?).map(|_| bytes.column_id());
        definition.key = key.collect::<Result<_, _>>()?;
        definition.rows_per_line = Some(bytes.u16("no rows per line")?).filter(|&rows| rows != 0);
        let indexes = (0..bytes.u8("no count of indexes")?).map(|_| bytes.index());
        definition.indexes = indexes.collect::<Result<_, _>>()?;
        if bytes.at != bytes.all.len() {
            return Err(bytes.bad("more bytes than a schema has"));
        }
        definition.check()
    }

    /// A hash of the [encoding](Schema::encode), the same on every platform. Two different schemas
    /// almost certainly have different fingerprints.
    pub fn fingerprint(&self) -> u64 {
        self.encode().iter().fold(FNV.0, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(FNV.1))
    }
}

/// The encoding of a type: its number, and its length, which is 0 for types without a length.
fn tag(kind: ColumnType) -> (u8, u16) {
    match kind {
        ColumnType::U8 => (1, 0),
        ColumnType::U16 => (2, 0),
        ColumnType::U32 => (3, 0),
        ColumnType::U64 => (4, 0),
        ColumnType::I16 => (5, 0),
        ColumnType::I32 => (6, 0),
        ColumnType::I64 => (7, 0),
        ColumnType::Bytes(len) => (8, len),
        ColumnType::Text(max) => (9, max.into()),
        ColumnType::Blob => (10, 0),
    }
}

fn column_type(tag: u8, len: u16) -> Option<ColumnType> {
    Some(match (tag, len) {
        (1, 0) => ColumnType::U8,
        (2, 0) => ColumnType::U16,
        (3, 0) => ColumnType::U32,
        (4, 0) => ColumnType::U64,
        (5, 0) => ColumnType::I16,
        (6, 0) => ColumnType::I32,
        (7, 0) => ColumnType::I64,
        (8, len) => ColumnType::Bytes(len),
        (9, max) => ColumnType::Text(u8::try_from(max).ok()?),
        (10, 0) => ColumnType::Blob,
        _ => return None,
    })
}

/// The bytes of a schema, read from the first to the last.
struct Bytes<'a> {
    all: &'a [u8],
    at: usize,
}

impl Bytes<'_> {
    fn bad(&self, what: &'static str) -> SchemaError {
        SchemaError::BadDefinition { what, at: self.at }
    }

    fn take(&mut self, len: usize, what: &'static str) -> Result<&[u8], SchemaError> {
        let Some(found) = self.all.get(self.at..).and_then(|rest| rest.get(..len)) else {
            return Err(self.bad(what));
        };
        self.at += len;
        strict_assert!(self.at <= self.all.len(), "the reader is behind the definition");
        Ok(found)
    }

    fn u8(&mut self, what: &'static str) -> Result<u8, SchemaError> {
        Ok(self.take(1, what)?[0])
    }

    fn u16(&mut self, what: &'static str) -> Result<u16, SchemaError> {
        let bytes = self.take(2, what)?;
        Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
    }

    fn name(&mut self) -> Result<String, SchemaError> {
        let len = self.u8("no name")?;
        let start = self.at;
        match std::str::from_utf8(self.take(usize::from(len), "a name that is cut off")?) {
            Ok(name) => Ok(name.to_owned()),
            Err(_) => {
                Err(SchemaError::BadDefinition { what: "a name that is not UTF-8", at: start })
            }
        }
    }

    fn column(&mut self) -> Result<Column, SchemaError> {
        let start = self.at;
        let (tag, len) = (self.u8("no type of a column")?, self.u16("no length of a column")?);
        let Some(kind) = column_type(tag, len) else {
            return Err(SchemaError::BadDefinition { what: "an unknown type", at: start });
        };
        Ok(Column { name: self.name()?, kind })
    }

    fn column_id(&mut self) -> Result<ColumnId, SchemaError> {
        Ok(ColumnId(self.u16("no column's number")?))
    }

    /// Reads a byte that is 0 or 1.
    fn flag(&mut self, what: &'static str) -> Result<bool, SchemaError> {
        let at = self.at;
        match self.u8(what)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(SchemaError::BadDefinition { what, at }),
        }
    }

    fn index(&mut self) -> Result<IndexDefinition<ColumnId>, SchemaError> {
        let (name, unique) = (self.name()?, self.flag("no flag of uniqueness")?);
        let columns = (0..self.u8("no count of an index's columns")?).map(|_| {
            let column = self.column_id()?;
            let descending = self.flag("no order of a column")?;
            Ok((column, if descending { Order::Descending } else { Order::Ascending }))
        });
        let columns = columns.collect::<Result<_, SchemaError>>()?;
        Ok(IndexDefinition { name, unique, columns })
    }
}
