//! [`Place`]: the queue of aged transactions, which were aborted so often that other transactions
//! wait for them.
//!
//! ```text
//!   root line         | .. | drawn | served |       drawn = served: the queue is empty
//!
//!   aged transaction  place = drawn++ ──► served = place? ──► attempts, soon alone ──► served++
//!   the others        read before some of their attempts ──► drawn ≠ served: wait
//! ```
//!
//! - The queue is two words of the root line, the line at [`Database::root`]. Readers use their
//!   node's cached copy. Each change of the queue invalidates all copies.
//! - Places are served in order, so an aged transaction waits only for those before it.
//! - A waiting transaction that sees the same `served` for
//!   [`elder_for`](crate::TransactionSettings::elder_for) increments `served` itself. So an aged
//!   transaction that is slow, or whose node is dead, delays the others for about that time. That
//!   aged transaction loses its place, and nothing else.
//! - The root line has the signatures of the nodes with the last places. If a node [has
//!   ended](latchwork_coherence::CoherentMemory::has_ended), its place is passed at once. A later
//!   place may have replaced the signature: then the place is passed too late, or too early.
//! - The line may be out of reach, for example because a dead node owns it. One access to the line
//!   waits at most `elder_for`. After such a wait the worker ignores the queue for
//!   [`retry_for`](crate::TransactionSettings::retry_for): its transactions do not wait for aged
//!   ones, and none becomes aged. Transactions that already have a place still use the line.
//! - Serializability does not depend on the queue. A transaction that does not wait for an aged one
//!   may conflict with it, and then one of the two aborts.

use std::future::Future;
use std::time::Duration;

use latchwork_cache::WriteGuard;
use latchwork_coherence::{LineLocks, MemoryError};
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;

use crate::Database;
use crate::database::words::{DRAWN, OWNERS, PLACES, SERVED};

/// The pause between two reads of the queue is random. Its upper bound begins at `LOOK` and doubles
/// with each read, up to `LOOK_MAX`.
const LOOK: Duration = Duration::from_micros(2);
const LOOK_MAX: Duration = Duration::from_micros(64);
const _: () = assert!(LOOK.as_nanos() > 0 && LOOK.as_nanos() <= LOOK_MAX.as_nanos());

/// The word with the signature of the node that has this place.
fn owner_of(place: u64) -> usize {
    OWNERS + (place % PLACES as u64) as usize
}

/// A place in the queue. Dropping this value without [`leave`](Place::leave) spawns a task that
/// leaves the queue.
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
    /// Waits for the turn of this place. Returns whether this place is served now. `false`: the
    /// deadline has passed, the place was passed over, or memory failed.
    pub(crate) async fn turn(&self, until: Time) -> bool {
        self.database.wait_for(Some(self.number), until).await == Some(self.number)
    }

    /// Leaves the queue, so that the next place is served.
    pub(crate) async fn leave(mut self) {
        let until = self.database.patience();
        self.database.leave(self.number, until).await;
        self.left = true;
    }
}

impl<M: LineLocks> Database<M> {
    /// Takes the last place; `None` if memory fails or the worker ignores the queue.
    pub(crate) async fn become_aged(&self) -> Option<Place<M>> {
        if self.looks_away() {
            return None;
        }
        let signature = self.memory().signature();
        let draw = |line: &mut WriteGuard<'_>| {
            let number = line.words().word(DRAWN);
            line.words().set_word(DRAWN, number.wrapping_add(1));
            line.mark_dirty(8 * DRAWN..8 * DRAWN + 8);
            let owner = owner_of(number);
            if line.words().word(owner) != signature {
                line.words().set_word(owner, signature);
                line.mark_dirty(8 * owner..8 * owner + 8);
            }
            number
        };
        // `write` returns in the same poll in which `draw` runs, so dropping this future loses no
        // place.
        let number = self.in_time(self.memory().write(self.root(), draw)).await?;
        Some(Place { database: self.clone(), number, left: false })
    }

    /// Waits at most `elder_for` for an access to the root line. After an error or a timeout the
    /// worker ignores the queue for `retry_for`. The error is dropped, because correctness does not
    /// depend on the queue.
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

    /// Waits until the queue is empty, until `until`, or until an access to the queue fails.
    pub(crate) async fn make_way(&self, until: Time) {
        self.wait_for(None, until).await;
    }

    /// Whether this node's cached copy of the root line shows an empty queue, or the worker ignores
    /// the queue.
    pub(crate) fn sees_no_aged_transaction(&self) -> bool {
        let Ok(line) = self.memory().try_read(self.root()) else { return self.looks_away() };
        let none = line.words().word(DRAWN) == line.words().word(SERVED);
        (line.validate() && none) || self.looks_away()
    }

    /// Waits until place `number` is served or passed over; without a number, until the queue is
    /// empty. The wait ends at `until` at the latest. Returns the place that is served at the end,
    /// or `None` if memory fails.
    async fn wait_for(&self, number: Option<u64>, until: Time) -> Option<u64> {
        let handle = self.memory().handle();
        // The place that is served, and the time at which this task first saw that place served.
        let mut seen: Option<(u64, Time)> = None;
        let mut apart = LOOK;
        loop {
            let look = |line: latchwork_verbs::Words<'_>| {
                let served = line.word(SERVED);
                (line.word(DRAWN), served, line.word(owner_of(served)))
            };
            let looked = self.in_time(self.memory().read(self.root(), look)).await?;
            let (drawn, served, owner) = looked;
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
            let is_late = now >= since + self.node().settings().elder_for;
            if is_late || self.memory().has_ended(owner) {
                self.pass_on(served).await?;
            }
            let nanos = handle.random_below(apart.as_nanos() as u64).max(1);
            handle.sleep(Duration::from_nanos(nanos)).await;
            apart = (2 * apart).min(LOOK_MAX);
            strict_assert!(apart <= LOOK_MAX, "two looks are too far apart");
        }
    }

    /// Waits for the turn of place `number`, and serves the next place.
    async fn leave(&self, number: u64, until: Time) {
        if self.wait_for(Some(number), until).await == Some(number) {
            // If this fails, a waiting transaction serves the next place later.
            let _ = self.pass_on(number).await;
        }
    }

    /// Serves the next place, if `number` is served.
    async fn pass_on(&self, number: u64) -> Option<()> {
        let next = |line: &mut WriteGuard<'_>| {
            if line.words().word(SERVED) == number {
                line.words().set_word(SERVED, number.wrapping_add(1));
                line.mark_dirty(8 * SERVED..8 * SERVED + 8);
            }
        };
        self.in_time(self.memory().write(self.root(), next)).await
    }

    /// The deadline for leaving the queue after a transaction has ended.
    fn patience(&self) -> Time {
        self.memory().handle().now() + self.node().settings().retry_for
    }
}
