//! [`Updates`]: the turns of writes and updates, where writes wait until updates have ended.
//!
//! ```text
//!   update A  |──────────────|                    |────────── ...     begins behind the write
//!   update B        |──────────────|                     |─── ...
//!   write                 held back ──────────────| taken
//! ```
//!
//! No write is taken while an update is in progress. Updates that overlap or follow each other
//! without a gap would hold a write back without bound. So no update begins while a write is held
//! back. When no update is in progress any more but the buffer has no room, the write waits for
//! room like any other write. Then updates may begin, because they make room.
//!
//! A task may keep the future of a write or of an update and not poll it. So a write and an update
//! wait for each other only until a deadline. At the deadline the write fails, and the update
//! begins.

use std::cell::Cell;

use latchwork_runtime::Time;
use latchwork_strict::strict_assert;

use crate::signal::Signal;

/// The updates in progress, and the writes that they hold back.
pub(crate) struct Updates {
    under_way: Cell<usize>,
    held_back: Cell<usize>,
    /// The latest deadline of a write that was held back.
    until: Cell<Time>,
}

impl Default for Updates {
    fn default() -> Self {
        let (under_way, held_back) = Default::default();
        Updates { under_way, held_back, until: Cell::new(Time::ZERO) }
    }
}

/// An update in progress, or a write that is held back, until the value is dropped.
pub(crate) struct Counted<'a> {
    count: &'a Cell<usize>,
    /// The signal on which the other tasks wait.
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
        strict_assert!(self.count.get() > 0, "an update ends twice");
        self.count.set(self.count.get() - 1);
        self.room.wake();
    }
}

impl Updates {
    /// Whether an update is in progress.
    pub(crate) fn go_on(&self) -> bool {
        self.under_way.get() > 0
    }

    /// The time until which a new update lets held-back writes go first; `None` if no write is held
    /// back.
    pub(crate) fn waits_until(&self) -> Option<Time> {
        (self.held_back.get() > 0).then(|| self.until.get())
    }

    /// Begins an update; its end wakes `room`.
    pub(crate) fn begin<'a>(&'a self, room: &'a Signal) -> Counted<'a> {
        Counted::new(&self.under_way, room)
    }

    /// Notes a held-back write, which fails if it is still held back at `by`; its end wakes `room`.
    pub(crate) fn hold_back<'a>(&'a self, by: Time, room: &'a Signal) -> Counted<'a> {
        self.until.set(by.max(self.until.get()));
        strict_assert!(self.until.get() >= by, "a write is held back for less than it asked");
        Counted::new(&self.held_back, room)
    }
}
