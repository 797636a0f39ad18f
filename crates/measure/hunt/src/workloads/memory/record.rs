//! [`MemoryRecord`]: the counts of all clients, and their check.

use crate::WorldCheck;
use crate::checks::Verdict;

/// The counts of all clients.
#[derive(Clone, Copy, Default)]
pub(crate) struct MemoryRecord {
    pub(super) put: u64,
    pub(super) taken: u64,
    /// The number of puts and takes that may have taken effect or not.
    pub(super) unknown: u64,
    pub(super) full: Option<u64>,
}

impl MemoryRecord {
    pub(crate) fn merge(&mut self, other: MemoryRecord) {
        self.put += other.put;
        self.taken += other.taken;
        self.unknown += other.unknown;
        self.full = self.full.or(other.full);
    }

    /// Checks that the number of full slots is the number of puts minus the number of takes, up to
    /// the unknown ones.
    pub(crate) fn judge(&self) -> Verdict {
        let MemoryRecord { put, taken, unknown, full: Some(full) } = *self else { return Ok(()) };
        if (put - taken.min(put)).abs_diff(full) <= unknown {
            return Ok(());
        }
        let text = format!("{put} lines were put and {taken} taken, and {full} are there");
        Err((WorldCheck::Linearizability, text))
    }
}
