//! [`Place`]: where the value of a column stands.

/// The location of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    /// In the primary key, at this position.
    Key(usize),
    /// In the row, at this byte.
    Fixed(usize),
    /// In the row, as the text with this number, from 0.
    Text(usize),
    /// In the row, after the texts.
    Blob,
}
