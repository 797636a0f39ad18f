//! [`Updates`]: whose turn it is, where writes wait until updates have ended.
//!
//! ```text
//!   update A  |──────────────|                    |────────── ...     begins behind the write
//!   update B        |──────────────|                     |─── ...
//!   write                 held back ──────────────| taken
//! ```
//!
//! No write is taken while an update is under way. So updates that overlap, or that follow each
//! other without a pause, would hold a write back for ever; therefore an update does not begin
//! while a write is held back. A write that finds none under way any more, and no room either,
//! waits for that as any other, and lets updates begin: they make room.
//!
//! Either may be a future that its task keeps and does not poll, so either waits until a deadline
//! only: a write fails then, and an update begins.

use std::cell::Cell;

use latchwork_runtime::Time;

use crate::signal::Signal;

/// The updates under way, and the writes that they hold back.
pub(crate) struct Updates {
    under_way: Cell<usize>,
    held_back: Cell<usize>,
    /// The last deadline of a write that was held back.
    until: Cell<Time>,
}

impl Default for Updates {
    fn default() -> Self {
        let (under_way, held_back) = Default::default();
        Updates { under_way, held_back, until: Cell::new(Time::ZERO) }
    }
}

/// An update that is under way, or a write that is held back, until it is dropped.
pub(crate) struct Counted<'a> {
    count: &'a Cell<usize>,
    /// Where the others wait.
    room: &'a Signal,
}

impl<'a> Counted<'a> {
    fn new(count: &'a Cell<usize>, room: &'a Signal) -> Counted<'a> {
        count.set(count.get() + 1);
        Counted { count, room }
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.count.set(self.count.get() - 1);
        self.room.wake();
    }
}

impl Updates {
    /// Whether one is under way.
    pub(crate) fn go_on(&self) -> bool {
        self.under_way.get() > 0
    }

    /// Until when an update that is to begin lets writes go first; `None` where there is none.
    pub(crate) fn waits_until(&self) -> Option<Time> {
        (self.held_back.get() > 0).then(|| self.until.get())
    }

    /// An update begins; the end of it wakes `room`.
    pub(crate) fn begin<'a>(&'a self, room: &'a Signal) -> Counted<'a> {
        Counted::new(&self.under_way, room)
    }

    /// A write is held back, and fails when it still is at `by`; the end of it wakes `room`.
    pub(crate) fn hold_back<'a>(&'a self, by: Time, room: &'a Signal) -> Counted<'a> {
        self.until.set(by.max(self.until.get()));
        Counted::new(&self.held_back, room)
    }
}
