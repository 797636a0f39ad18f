//! The limits of schemas.

/// The maximum length of the name of a table, a column or an index, in bytes. The catalogue of the
/// memory pool has the same limit.
pub const NAME_MAX: usize = 48;

/// The maximum number of columns of a table.
pub const COLUMNS_MAX: usize = 1024;

/// The maximum number of secondary indexes of a table.
pub(crate) const INDEXES_MAX: usize = 16;

/// The maximum length of a row in bytes, the payload of the longest line. A row is a little shorter
/// in practice, because its line also has headers.
pub(super) const ROW_MAX: usize = 65_504;
const _: () = assert!(ROW_MAX <= u16::MAX as usize, "the length of a row fits into a tuple");
