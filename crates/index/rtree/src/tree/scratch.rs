//! [`Scratch`]: the memory of a query.

use latchwork_verbs::GlobalAddr;

use super::seen::Seen;
use crate::Rect;
use crate::page::Record;

/// The memory that a query uses. A handle keeps it for the next query.
#[derive(Debug)]
pub(super) struct Scratch<const D: usize> {
    pub(super) hits: Vec<(Rect<D>, u64)>,
    /// The columns of a leaf of which every entry is a hit, and their number.
    pub(super) columns: Vec<u8>,
    pub(super) whole: usize,
    pub(super) payloads: Vec<u8>,
    /// The page that was read last.
    pub(super) page: GlobalAddr,
    /// The hits with records, by their positions.
    pub(super) moving: Vec<(usize, Record)>,
    /// The hits that do not count.
    pub(super) skipped: Vec<usize>,
    /// The hits that are shown where their entries had departed from.
    pub(super) answered: Vec<usize>,
    pub(super) seen: Seen<u64>,
}

impl<const D: usize> Default for Scratch<D> {
    fn default() -> Self {
        Scratch {
            hits: Vec::new(),
            columns: Vec::new(),
            whole: 0,
            payloads: Vec::new(),
            page: GlobalAddr::NULL,
            moving: Vec::new(),
            skipped: Vec::new(),
            answered: Vec::new(),
            seen: Seen::default(),
        }
    }
}

impl<const D: usize> Scratch<D> {
    /// Forgets the page that was read last. A visitor may have ended a query in the middle of a
    /// page, so this comes before each page and not behind it.
    pub(super) fn clear(&mut self) {
        self.hits.clear();
        self.columns.clear();
        self.whole = 0;
        self.payloads.clear();
        self.moving.clear();
        self.skipped.clear();
        self.answered.clear();
    }
}
