//! The columns of the tables, as data: names, types, and the longest row.
//!
//! [`row`](super::row) declares each column once. The row's struct, its encoding, and the column
//! data here follow from that declaration. A store can make its own schema from the column data.

/// The type of a column. Numbers are little-endian in rows, and big-endian in keys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TpccColumnType {
    /// A number of 1 byte.
    U8,
    /// A number of 2 bytes.
    U16,
    /// A number of 4 bytes.
    U32,
    /// A number of 8 bytes.
    U64,
    /// A signed number of 2 bytes.
    I16,
    /// A signed number of 4 bytes.
    I32,
    /// A signed number of 8 bytes.
    I64,
    /// Text of this fixed length.
    Bytes(u16),
    /// Text of at most this length. The row has one byte with the text's length, before all texts.
    Text(u8),
    /// Text of at most this length, at the end of the row. The length of the row gives the text's
    /// length.
    Rest(usize),
}

impl TpccColumnType {
    /// Number of bytes of the longest value in a row, including the length byte of a
    /// [`Text`](TpccColumnType::Text).
    pub(super) fn len_max(self) -> usize {
        match self {
            TpccColumnType::U8 => 1,
            TpccColumnType::U16 | TpccColumnType::I16 => 2,
            TpccColumnType::U32 | TpccColumnType::I32 => 4,
            TpccColumnType::U64 | TpccColumnType::I64 => 8,
            TpccColumnType::Bytes(len) => usize::from(len),
            TpccColumnType::Rest(len) => len,
            TpccColumnType::Text(len) => 1 + usize::from(len),
        }
    }
}

/// A column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TpccColumn {
    /// The standard's name of the column. `H_NUMBER` is a name of this crate: the standard defines
    /// no key of HISTORY.
    pub name: &'static str,
    /// The type.
    pub kind: TpccColumnType,
}

/// The columns that one field of a row's struct has: one column, or several of equal length.
pub(super) struct Columns {
    names: &'static [&'static str],
    /// The type of each column.
    kind: TpccColumnType,
}

impl Columns {
    /// The columns of a field of type `field`. The callers are constants, so a field that cannot be
    /// divided equally fails the build.
    pub(super) const fn new(names: &'static [&'static str], field: TpccColumnType) -> Columns {
        let kind = match field {
            kind if names.len() == 1 => kind,
            TpccColumnType::Bytes(len) if (len as usize).is_multiple_of(names.len()) => {
                TpccColumnType::Bytes(len / names.len() as u16)
            }
            _ => panic!("only texts of fixed and equal lengths can share a field"),
        };
        Columns { names, kind }
    }

    pub(super) fn each(&self) -> impl Iterator<Item = TpccColumn> + use<> {
        let kind = self.kind;
        self.names.iter().map(move |name| TpccColumn { name, kind })
    }
}

/// A table: its name and its columns.
pub(super) struct Declaration {
    /// The standard's name.
    pub(super) name: &'static str,
    pub(super) key: &'static [Columns],
    pub(super) row: &'static [Columns],
}
