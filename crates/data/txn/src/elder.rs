//! [`Place`]: the queue of elders, transactions that were aborted so often that others make way for them.
//!
//! ```text
//!  root line   | .. | drawn | served |          drawn = served: there is no elder, and nobody has to look again
//!
//!  elder        place = drawn++ ──► served = place? ──► tries, alone soon ──► served++
//!  the others   look before some of their attempts ──► drawn ≠ served: wait
//! ```
//!
//! - Two words of a line like any other: writes have it alone, and whoever looks reads its own
//!   node's copy until an elder comes or goes.
//! - Places are served in their order, so no elder waits for more than those before it.
//! - Nobody has to trust anybody: who waits and sees the same place served for longer than
//!   [`Settings::elder_for`](crate::Settings::elder_for) passes it on. So an elder that is dead, or
//!   slow, holds nobody up for longer. It has lost nothing but its place.
//! - The line itself may not come, where a node that is gone has it. Nobody waits for it longer
//!   than for an elder, and who has looks away for a while: its worker goes on as if there were no
//!   elders, and has none.
//! - No answer of this queue is needed for serializability: who does not know of an elder, or does
//!   not wait, is in its way, and one of the two aborts.

use std::future::Future;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_coherence::{LineLocks, MemoryError};
use latchwork_runtime::Time;

use crate::Database;

/// Words of the root line.
pub(crate) const DRAWN: usize = 8;
pub(crate) const SERVED: usize = 9;

/// How often whoever waits looks: at first up to so long apart, and each time twice as long, up to
/// the second.
const LOOK: Duration = Duration::from_micros(2);
const LOOK_MAX: Duration = Duration::from_micros(64);

/// A place in the queue. Dropped, it is given back by a task of its own.
pub(crate) struct Place<M: LineLocks> {
    database: Database<M>,
    number: u64,
    left: bool,
}

impl<M: LineLocks> Drop for Place<M> {
    fn drop(&mut self) {
        if !self.left {
            let (database, number) = (self.database.clone(), self.number);
            let handle = database.memory().handle().clone();
            let leave = async move { database.leave(number, database.patience()).await };
            drop(handle.spawn_service(leave));
        }
    }
}

impl<M: LineLocks> Place<M> {
    /// Whether its turn has come, by `until`.
    pub(crate) async fn turn(&self, until: Time) -> bool {
        self.database.wait_for(Some(self.number), until).await == Some(self.number)
    }

    /// Lets the next one go on.
    pub(crate) async fn leave(mut self) {
        let until = self.database.patience();
        self.database.leave(self.number, until).await;
        self.left = true;
    }
}

impl<M: LineLocks> Database<M> {
    /// Takes the last place, unless memory is in the way.
    pub(crate) async fn become_elder(&self) -> Option<Place<M>> {
        if self.looks_away() {
            return None;
        }
        let draw = |line: &mut WriteGuard<'_>| {
            let number = line.words().word(DRAWN);
            line.words().set_word(DRAWN, number.wrapping_add(1));
            line.mark_dirty(8 * DRAWN..8 * DRAWN + 8);
            number
        };
        // Nothing is awaited between the write and its result: no place is lost when this is
        // dropped.
        let number = self.in_time(self.memory().write(self.root(), draw)).await?;
        Some(Place { database: self.clone(), number, left: false })
    }

    /// Waits for an access to the root line, but not for long: if it fails, whoever asks for a
    /// transaction finds out by itself what is wrong with memory.
    async fn in_time<T>(&self, access: impl Future<Output = Result<T, MemoryError>>) -> Option<T> {
        let handle = self.memory().handle();
        let settings = self.node().settings();
        match handle.timeout(handle.now() + settings.elder_for, access).await {
            Ok(Ok(done)) => Some(done),
            _ => {
                self.look_away_until(handle.now() + settings.retry_for);
                None
            }
        }
    }

    /// Waits until there is no elder.
    pub(crate) async fn make_way(&self, until: Time) {
        self.wait_for(None, until).await;
    }

    /// Whether there is no elder, as far as this node's copy tells at once.
    pub(crate) fn sees_no_elder(&self) -> bool {
        let Ok(line) = self.memory().try_read(self.root()) else { return self.looks_away() };
        let none = line.words().word(DRAWN) == line.words().word(SERVED);
        (line.validate() && none) || self.looks_away()
    }

    /// Waits until `number` is served, or passed by; without a number, until there is none to be.
    /// What is served then, if it is known.
    async fn wait_for(&self, number: Option<u64>, until: Time) -> Option<u64> {
        let handle = self.memory().handle();
        // What was served since when, as far as this has seen.
        let mut seen: Option<(u64, Time)> = None;
        let mut apart = LOOK;
        loop {
            let look = |line: latchwork_verbs::Words<'_>| (line.word(DRAWN), line.word(SERVED));
            let (drawn, served) = self.in_time(self.memory().read(self.root(), look)).await?;
            let now = handle.now();
            let over = number.map_or(drawn == served, |number| served >= number);
            if over || now >= until {
                return Some(served);
            }
            let since = match seen {
                Some((before, since)) if before == served => since,
                _ => {
                    seen = Some((served, now));
                    now
                }
            };
            if now >= since + self.node().settings().elder_for {
                self.pass_on(served).await?;
            }
            let nanos = handle.random_below(apart.as_nanos() as u64).max(1);
            handle.sleep(Duration::from_nanos(nanos)).await;
            apart = (2 * apart).min(LOOK_MAX);
        }
    }

    /// Gives a place back, as soon as its turn has come.
    async fn leave(&self, number: u64, until: Time) {
        if self.wait_for(Some(number), until).await == Some(number) {
            // If it fails, those who wait do it, later.
            let _ = self.pass_on(number).await;
        }
    }

    /// Has the next place served, if `number` is.
    async fn pass_on(&self, number: u64) -> Option<()> {
        let next = |line: &mut WriteGuard<'_>| {
            if line.words().word(SERVED) == number {
                line.words().set_word(SERVED, number.wrapping_add(1));
                line.mark_dirty(8 * SERVED..8 * SERVED + 8);
            }
        };
        self.in_time(self.memory().write(self.root(), next)).await
    }

    /// How long a place that nobody wants any more is looked after.
    fn patience(&self) -> Time {
        self.memory().handle().now() + self.node().settings().retry_for
    }
}
