//! Locks of transactions: [`LineLocks`] for [`Worker`].
//!
//! A lock is a count in the line's frame. It is taken under the lock of the line's shard and only while the node
//! owns the line as it has to; whatever takes a line away looks at it under the same lock. So a locked
//! line stays, and requests of others that it stands in the way of are answered `Busy` by the line's machine,
//! those included that are remembered at the moment. Nothing waits for a lock, so its end tells nobody.

use std::fmt;
use std::pin::pin;

use latchwork_cache::{Frame, FrameId, Ownership};
use latchwork_coherence::{LineLocks, LockOutcome, MemoryError, Mode, Need};
use latchwork_latch::Event;
use latchwork_runtime::sync::Ordering;
use latchwork_verbs::GlobalAddr;

use crate::access::{End, Ticket};
use crate::lease::Lease;
use crate::record::{Access, hold_at_rest, meets};
use crate::worker::{Inner, Worker};

/// A line that a transaction keeps at this node; see [`LineLocks::lock`].
pub struct Lock {
    worker: Worker,
    need: Need,
    frame: FrameId,
    /// Dropping it ends the access that the line was obtained for, and what then becomes of the line has
    /// to be decided.
    ends_access: bool,
}

impl Lock {
    /// The line, and how it is locked.
    pub fn need(&self) -> Need {
        self.need
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Lock").field(&self.need).finish()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        let inner = &self.worker.inner;
        if inner.node.cache.frame(self.frame).unlock(ownership(self.need.mode)) {
            inner.node.locked.fetch_sub(1, Ordering::Relaxed);
        }
        if self.ends_access {
            inner.accessed(self.need.addr);
        }
    }
}

/// How a look at a line that is to be locked went.
enum Try {
    /// It is locked now.
    Locked(FrameId),
    /// Another lock is in the way.
    Refused,
    /// The node does not own it as it has to.
    NotHere,
}

/// An access that ends where another node has locked the line.
fn no_wait(need: Need) -> Access {
    Access { no_wait: true, ..Access::patient(need) }
}

fn ownership(mode: Mode) -> Ownership {
    match mode {
        Mode::Shared => Ownership::Shared,
        Mode::Exclusive => Ownership::Exclusive,
    }
}

impl Inner {
    /// Locks the line if that needs nobody else; `upgrades`: the lock to read that the caller has. `reserved`: the
    /// caller has the line reserved, and so comes before requests of others in any case.
    fn try_lock(&self, need: Need, reserved: bool, upgrades: bool) -> Result<Try, MemoryError> {
        let Need { addr, mode } = need;
        let node = &*self.node;
        let mut records = node.records.shard(addr).lock();
        let record = records.get(&addr);
        if let Some(error) = record.and_then(|record| record.failed) {
            return Err(error.into());
        }
        let frame = record.map_or_else(|| node.cache.find(addr), |record| record.frame);
        let Some(id) = frame else { return Ok(Try::NotHere) };
        let frame = node.cache.frame(id);
        // Before the line is asked for: another node need not give it up for nothing.
        let in_the_way = match (frame.locked(), mode) {
            (Ownership::Invalid, _) | (Ownership::Shared, Mode::Shared) => false,
            (Ownership::Shared, Mode::Exclusive) => !upgrades || !frame.is_locked_once(),
            (Ownership::Exclusive, _) => true,
        };
        if in_the_way {
            return Ok(Try::Refused);
        }
        let hold = record.map_or_else(|| hold_at_rest(&node.cache, Some(id)), |r| r.line.hold());
        let gives_way = !reserved && record.is_some_and(|record| record.lease == Lease::Over);
        if !meets(hold, mode) || gives_way {
            return Ok(Try::NotHere);
        }
        if upgrades {
            if !frame.try_upgrade_lock() {
                return Ok(Try::Refused);
            }
        } else if !self.count_lock(addr, frame, mode)? {
            return Ok(Try::Refused);
        }
        // Who waits for the line is told.
        if let Some(record) = records.get_mut(&addr).filter(|record| record.line.is_asked_for()) {
            self.drive(addr, record, Event::Serve);
            self.finish(&mut records, addr);
        }
        Ok(Try::Locked(id))
    }

    /// Takes a lock, if this node may have one more locked line; whether it was taken.
    ///
    /// A line that is locked twice counts once, so a second lock to read is never one too many. Workers that lock
    /// different lines at the same moment may exceed the bound by one each.
    fn count_lock(&self, addr: GlobalAddr, frame: &Frame, mode: Mode) -> Result<bool, MemoryError> {
        let node = &*self.node;
        let most = (node.cache.capacity() / node.settings.lock_share.max(1)).max(1);
        let locked = node.locked.load(Ordering::Relaxed);
        if locked >= most && !frame.is_locked() {
            return Err(MemoryError::TooManyLocks { addr, locked });
        }
        let first = frame.try_lock(ownership(mode));
        // Before whoever locks can unlock, so it never falls below zero.
        if first == Some(true) {
            node.locked.fetch_add(1, Ordering::Relaxed);
        }
        Ok(first.is_some())
    }
}

impl Worker {
    /// Locks the line, which is obtained if it is not here as it has to be. The ticket is the one that it came with.
    async fn obtain_lock(
        &self,
        need: Need,
        upgrades: bool,
    ) -> Result<LockOutcome<(FrameId, Option<Ticket>)>, MemoryError> {
        let inner = &self.inner;
        let mut ticket: Option<Ticket> = None;
        loop {
            match inner.try_lock(need, ticket.is_some(), upgrades)? {
                Try::Locked(frame) => {
                    inner.counters.locks.add(1);
                    return Ok(LockOutcome::Got((frame, ticket)));
                }
                Try::Refused => break,
                // Also when the reservation has lapsed.
                Try::NotHere => drop(ticket.take()),
            }
            match inner.obtain(no_wait(need)).await? {
                End::Here(frame) => ticket = Some(self.ticket(need.addr, frame)),
                End::Locked => break,
                End::GaveWay => unreachable!("only upgrades give way"),
            }
        }
        inner.counters.locks_refused.add(1);
        Ok(LockOutcome::Locked)
    }

    /// The lock that was taken. `obtained`: it ends the access for which the line came.
    fn locked(&self, need: Need, frame: FrameId, obtained: bool) -> Lock {
        let ends_access = obtained || !self.inner.node.settings.policy.lazy_release;
        Lock { worker: self.clone(), need, frame, ends_access }
    }

    async fn lock_in_time(
        &self,
        need: Need,
        upgrades: bool,
    ) -> Result<LockOutcome<(FrameId, Option<Ticket>)>, MemoryError> {
        self.inner.in_time(need, pin!(self.obtain_lock(need, upgrades))).await
    }
}

impl LineLocks for Worker {
    type Lock = Lock;

    async fn lock(&self, need: Need) -> Result<LockOutcome<Lock>, MemoryError> {
        self.inner.check(need.addr)?;
        Ok(match self.lock_in_time(need, false).await? {
            LockOutcome::Locked => LockOutcome::Locked,
            LockOutcome::Got((frame, ticket)) => {
                // The access for which the line came ends with the lock.
                let obtained =
                    ticket.is_some_and(|mut ticket| std::mem::take(&mut ticket.ends_access));
                LockOutcome::Got(self.locked(need, frame, obtained))
            }
        })
    }

    fn try_lock(&self, need: Need) -> Result<LockOutcome<Lock>, Need> {
        let counters = &self.inner.counters;
        match self.inner.try_lock(need, false, false) {
            Ok(Try::Locked(frame)) => {
                counters.locks.add(1);
                Ok(LockOutcome::Got(self.locked(need, frame, false)))
            }
            Ok(Try::Refused) => {
                counters.locks_refused.add(1);
                Ok(LockOutcome::Locked)
            }
            Ok(Try::NotHere) | Err(_) => Err(need),
        }
    }

    async fn ensure_unlocked(&self, need: Need) -> Result<LockOutcome<Ticket>, MemoryError> {
        let ticket = self.obtain(no_wait(need)).await?;
        Ok(ticket.map_or(LockOutcome::Locked, LockOutcome::Got))
    }

    async fn upgrade_lock(&self, lock: &mut Lock) -> Result<LockOutcome<()>, MemoryError> {
        if lock.need.mode == Mode::Exclusive {
            return Ok(LockOutcome::Got(()));
        }
        let need = Need { mode: Mode::Exclusive, ..lock.need };
        Ok(match self.lock_in_time(need, true).await? {
            LockOutcome::Locked => LockOutcome::Locked,
            LockOutcome::Got((_, ticket)) => {
                let obtained =
                    ticket.is_some_and(|mut ticket| std::mem::take(&mut ticket.ends_access));
                lock.ends_access |= obtained;
                lock.need = need;
                LockOutcome::Got(())
            }
        })
    }
}
