//! The words of the root line, and of the line of global atomics.

/// The first word of the root line, and the version of the layout.
pub(super) const MAGIC: u64 = 0x4c57_5458_4e44_4231;
pub(super) const VERSION: u64 = 4;
const _: () = assert!(MAGIC != 0 && VERSION > 0, "a zeroed line is no database");

/// The words of the queue of aged transactions. The words before them describe the database.
pub(crate) const DRAWN: usize = 8;
pub(crate) const SERVED: usize = 9;
/// The signatures of the nodes that have the last places, place `n` at `n % PLACES`.
pub(crate) const OWNERS: usize = 10;
pub(crate) const PLACES: usize = 8;
const _: () = assert!(DRAWN < SERVED && SERVED < OWNERS, "each counter of places has a word");

/// Offsets in the line of global atomics.
pub(super) const TIMESTAMPS: usize = 0;
pub(super) const TABLES: usize = 8;
const _: () = assert!(TIMESTAMPS != TABLES && TABLES.is_multiple_of(8), "each counter has a word");
