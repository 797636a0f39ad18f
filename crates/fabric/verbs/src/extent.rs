//! [`Extent`]: the lengths of the two ranges of a target's memory.

use crate::address::{CHIP_BASE, WORD};
use crate::region::RegionError;

/// The lengths in bytes of a target's memory.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Extent {
    /// Bytes from offset 0.
    pub bytes: u64,
    /// Bytes from offset [`CHIP_BASE`]: the on-chip memory.
    pub chip_bytes: u64,
}

impl Extent {
    /// The lengths of memory without on-chip memory.
    pub const fn of(bytes: u64) -> Self {
        Extent { bytes, chip_bytes: 0 }
    }

    /// The place of an offset in one [`Region`](crate::Region) that has the on-chip memory behind
    /// the other memory.
    #[inline]
    pub const fn place(self, offset: u64) -> u64 {
        if offset < CHIP_BASE { offset } else { offset - CHIP_BASE + self.bytes }
    }

    /// The length in bytes of such a region. The first length must be positive, and both must be
    /// multiples of 8.
    ///
    /// # Errors
    /// [`RegionError::BadLength`] and [`RegionError::OutOfMemory`].
    pub fn region_bytes(self) -> Result<usize, RegionError> {
        let length = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX & !(WORD - 1));
        let (bytes, chip_bytes) = (length(self.bytes), length(self.chip_bytes));
        let is_bad = |bytes: &usize| !bytes.is_multiple_of(WORD);
        let bad = [bytes, chip_bytes].into_iter().find(is_bad);
        match bad.or((bytes == 0).then_some(0)) {
            Some(bytes) => Err(RegionError::BadLength { bytes }),
            // The first range does not reach the second one, because no process has room for 2^47
            // bytes.
            None => bytes.checked_add(chip_bytes).ok_or(RegionError::OutOfMemory { bytes }),
        }
    }
}

/// Memory without on-chip memory.
impl From<usize> for Extent {
    fn from(bytes: usize) -> Self {
        Extent::of(bytes as u64)
    }
}
