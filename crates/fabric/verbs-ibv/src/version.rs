//! The version of the connection data.

/// The version of the format of [connection data](crate::connection).
pub(crate) const VERSION: u16 = 2;
