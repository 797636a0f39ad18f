//! [`TupleId`]: what an index leads to.

use latchwork_verbs::GlobalAddr;

/// Names a tuple for as long as it exists: the address of its line, and its slot in the low bits,
/// which are zero in the address of a line.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TupleId(u64);

impl TupleId {
    /// The tuple in slot `slot` of `line`; a page has fewer slots than a line has bytes.
    pub(crate) fn new(line: GlobalAddr, slot: usize) -> TupleId {
        TupleId(line.bits() | slot as u64)
    }

    /// The name whose 64-bit form is `bits`.
    pub const fn from_bits(bits: u64) -> TupleId {
        TupleId(bits)
    }

    /// The 64-bit form, for indexes.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// The line, where lines have `line_size` bytes, a power of two. What locks rows locks it.
    pub const fn line(self, line_size: usize) -> GlobalAddr {
        GlobalAddr::from_bits(self.0 & !(line_size as u64 - 1))
    }

    pub(crate) const fn slot(self, line_size: usize) -> usize {
        (self.0 & (line_size as u64 - 1)) as usize
    }
}
