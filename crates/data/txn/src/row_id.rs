//! [`RowId`]: the permanent name of a row, as in an index entry.

use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

/// The name of a row while the row exists: the address of its home line and the slot of its home
/// tuple. The slot takes the low bits, which are zero in a line address. A stub contains the
/// location of its tuple in the same form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RowId(u64);

impl RowId {
    /// The tuple in slot `slot` of `line`. A page has fewer slots than a line has bytes.
    pub(crate) fn new(line: GlobalAddr, slot: usize) -> RowId {
        strict_assert!(
            line.bits() & slot as u64 == 0,
            "the slot changes the line of a row location"
        );
        RowId(line.bits() | slot as u64)
    }

    /// The row id with the 64-bit form `bits`.
    pub const fn from_bits(bits: u64) -> RowId {
        RowId(bits)
    }

    /// The 64-bit form, for indexes.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The home line. Lines have `line_size` bytes, a power of two. A lock of the row locks this
    /// line.
    pub const fn line(self, line_size: usize) -> GlobalAddr {
        GlobalAddr::from_bits(self.0 & !(line_size as u64 - 1))
    }

    pub(crate) const fn slot(self, line_size: usize) -> usize {
        (self.0 & (line_size as u64 - 1)) as usize
    }
}
