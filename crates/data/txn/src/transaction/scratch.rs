//! [`Scratch`]: the buffers of a scan.

use latchwork_blink::Leaf;
use latchwork_cache::Hint;

use crate::RowId;

/// Copied index entries.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) keys: Vec<u8>,
    /// For each entry, the end of its key and its row id.
    pub(super) entries: Vec<(u32, RowId)>,
    pub(super) leaves: Vec<Leaf>,
    pub(super) ended: bool,
}

/// The buffers of a scan, kept for the next scan so that it need not allocate.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) batch: Batch,
    /// Guesses of the frames of prefetched rows.
    pub(super) hints: Vec<Hint>,
    pub(super) key: Vec<u8>,
    pub(super) row: Vec<u8>,
}

impl Batch {
    pub(super) fn clear(&mut self) {
        self.keys.clear();
        self.entries.clear();
        self.leaves.clear();
        self.ended = false;
    }

    pub(super) fn key(&self, at: usize) -> &[u8] {
        let from = at.checked_sub(1).map_or(0, |before| self.entries[before].0 as usize);
        &self.keys[from..self.entries[at].0 as usize]
    }
}
