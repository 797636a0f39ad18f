//! [`Place`]: where the value of a column stands.

/// The location of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the primary key, at this position.
    Key(usize),
    /// In the row, at this byte.
    Fixed(usize),
    /// The text with this number.
    Text(usize),
    /// After the texts.
    Blob,
}
