//! The traits of the compared structures. They are monomorphised, so no measured call is dynamic.

use crate::content::{Content, Seen};
use crate::draws::{Range, SCANNED};
use crate::error::Wrong;

/// A structure in memory that threads share.
pub(crate) trait Map: Sync {
    type Value: Content;
    /// A thread's access, renewed with every batch. A structure that can keep a guard over several
    /// operations keeps it there.
    type Session<'m>: Session<Self::Value>
    where
        Self: 'm;

    /// Whether the structure has an order, so that it can be scanned.
    const ORDERED: bool;

    fn new() -> Self;
    fn session(&self) -> Self::Session<'_>;
}

/// One thread's operations.
pub(crate) trait Session<V: Content> {
    /// Adds a key. Returns whether it was new.
    fn insert(&mut self, key: u64, value: V) -> bool;
    /// Reads all bytes of a value.
    fn get(&mut self, key: u64) -> Option<Seen>;
    /// Replaces a value. Returns whether the key existed.
    fn update(&mut self, key: u64, value: V) -> bool;
    /// Passes up to [`SCANNED`] entries from `from` on to `visit`, in order.
    fn scan(&mut self, from: u64, visit: impl FnMut(u64, Seen));
}

/// The check of a scan's entries.
///
/// A scan is right if it starts at the first key, ends at the hundredth, and has a hundred
/// ascending keys. Then it left none out.
pub(crate) struct ScanCheck {
    range: Range,
    count: usize,
    last: u64,
    good: bool,
}

impl ScanCheck {
    #[inline]
    pub(crate) fn new(range: Range) -> ScanCheck {
        ScanCheck { range, count: 0, last: 0, good: true }
    }

    #[inline]
    pub(crate) fn visit<V: Content>(&mut self, key: u64, seen: Seen) {
        let rises = if self.count == 0 { key == self.range.from } else { key > self.last };
        self.good &= rises & V::is_of(key, seen);
        self.count += 1;
        self.last = key;
    }

    #[inline]
    pub(crate) fn end(self) -> Result<(), Wrong> {
        let whole = self.good && self.count == SCANNED && self.last == self.range.last;
        if whole { Ok(()) } else { Err(Wrong::Scan(self.range.from)) }
    }
}
