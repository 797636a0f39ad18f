//! The version of the notes that two nodes exchange to connect.

/// The version of the format of [notes](crate::connection). Nodes with different versions do not
/// connect.
pub(crate) const VERSION: u16 = 2;
