//! The columns of the tables, as data: names, types, and the longest row.
//!
//! [`row`](super::row) declares each column once. From that declaration follow the row's struct,
//! its encoding, and the columns here, from which a store makes its own schema.

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
    /// Text of at most this length. A byte before all texts has its length.
    Text(u8),
    /// Text of at most this length, which ends with the row.
    Rest(usize),
}

impl TpccColumnType {
    /// Bytes of the longest value in a row, with the byte for its length if it has one.
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
    /// The standard's name. HISTORY has no key there, and its number is `H_NUMBER` here.
    pub name: &'static str,
    /// The type.
    pub kind: TpccColumnType,
}

/// The columns of one field: one, or several of equal length.
pub(super) struct Columns {
    names: &'static [&'static str],
    /// The type of each.
    kind: TpccColumnType,
}

impl Columns {
    /// The columns of a field of type `field`. In a constant, a field that does not divide into its
    /// columns is an error of compilation.
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

/// A table, as the declaration of its rows has it.
pub(super) struct Declaration {
    /// The standard's name.
    pub(super) name: &'static str,
    /// The primary key.
    pub(super) key: &'static [Columns],
    /// A row.
    pub(super) row: &'static [Columns],
}
