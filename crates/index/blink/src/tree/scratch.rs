//! [`Scratch`]: the buffers of a scan.

use crate::page::Snapshot;

/// The buffers of a scan, which the next scan uses again without an allocation.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    pub(super) entries: Snapshot,
    /// The position of the scan, and the high fence of the page from which it took entries.
    pub(super) key: Vec<u8>,
    pub(super) high: Vec<u8>,
}
