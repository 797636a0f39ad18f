//! Line locks of transactions: implements [`LineLocks`] for [`Worker`].
//!
//! A line lock is a count in the frame of the line. `latchwork-cache` describes the word of the
//! count and how the word stops all operations that take the line away. So a locked line stays at
//! its node. The line machine answers `Busy` to the requests that the lock refuses, also to those
//! that are queued when the lock is taken. No request waits for a lock, so the end of a lock sends
//! no message.
//!
//! A line that is here in the needed mode is locked without the lock of the line's shard, except in
//! three cases. The lock word marks two of them: other nodes have requested the line, or the line
//! has failed. In the third case the worker has no permit. In these cases the line is locked under
//! the shard lock, which has two effects:
//!
//! - Once the [line lease](crate::NodeSettings::lease) is over, the queued requests come first.
//! - A requester that the lock refuses is answered in the same step.

use std::fmt;
use std::pin::pin;

use latchwork_cache::{Frame, FrameId, Hint, Ownership, TryLock};
use latchwork_coherence::{AccessMode, LineLocks, LockOutcome, MemoryError, Need};
use latchwork_runtime::sync::Ordering;
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::GlobalAddr;

use crate::access::Ticket;
use crate::inner::Inner;
use crate::lines::{End, Try, Worker};
use crate::protocol::{CoherenceProtocol, LineState};
use crate::record::Record;
use crate::waiters::{LineAccess, meets};
use crate::worker_core::WorkerCore;

/// A line lock: a line that a transaction keeps at this node; see [`LineLocks::lock`].
pub struct Lock {
    worker: Worker,
    need: Need,
    frame: FrameId,
    /// Whether dropping the lock ends the access that obtained the line. Then the node decides
    /// whether to keep the line.
    ends_access: bool,
    /// Whether the lock is a node lock, which does not exclude other transactions of this node.
    detains: bool,
}

impl Lock {
    /// The line and the mode of the lock.
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
        let core = &*self.worker.core;
        let node = &*core.node;
        core.charge_lock();
        let frame = node.cache.frame(self.frame);
        let end = match self.detains {
            true => frame.let_go(),
            false => frame.unlock(ownership(self.need.mode)),
        };
        if end.last {
            core.permits.put_back(&node.lock_share);
        }
        if end.asked {
            self.worker.lines().unlocked(self.need.addr);
        }
        if self.ends_access {
            self.worker.lines().accessed(self.need.addr);
        }
    }
}

/// At most 1/N of the frames is kept for refused lines (N is this number), but at least one frame
/// may be kept.
const REFUSED_SHARE: usize = 4;

/// An access that ends where another node has locked the line.
pub(crate) fn no_wait(need: Need) -> LineAccess {
    LineAccess { no_wait: true, ..LineAccess::patient(need) }
}

fn ownership(mode: AccessMode) -> Ownership {
    match mode {
        AccessMode::Shared => Ownership::Shared,
        AccessMode::Exclusive => Ownership::Exclusive,
    }
}

impl WorkerCore {
    /// Locks the line without the lock of its shard. The line must be here in the needed mode,
    /// without a request of another node, a permit must be at hand, and the node must have its
    /// permission to touch memory. Otherwise the result is `Ask`.
    #[inline]
    fn try_lock_unasked(&self, need: Need, hint: Option<&Hint>) -> TryLock<FrameId> {
        let node = &*self.node;
        if self.minds_hits.get() && !self.charge_attempt() {
            return TryLock::Ask;
        }
        if !self.permits.provide(&node.lock_share, || node.workers()) {
            return TryLock::Ask;
        }
        let ownership = ownership(need.mode);
        let end = match hint {
            Some(hint) => node.cache.try_lock_at(need.addr, ownership, hint),
            None => node.cache.try_lock(need.addr, ownership),
        };
        match end {
            TryLock::Locked((_, true)) => self.permits.use_one(),
            _ => self.permits.settle(&node.lock_share),
        }
        match end {
            TryLock::Locked((frame, _)) => TryLock::Locked(frame),
            TryLock::Refused => TryLock::Refused,
            TryLock::Ask => TryLock::Ask,
        }
    }
}

impl<P: CoherenceProtocol> Inner<P> {
    /// Locks the line if no other node has to act. `upgrades`: the caller has a shared lock to
    /// upgrade. `reserved`: the caller has the line reserved, and so comes before requests of other
    /// nodes.
    pub(crate) fn try_lock(
        &self,
        need: Need,
        reserved: bool,
        upgrades: bool,
    ) -> Result<Try, MemoryError> {
        let Need { addr, mode } = need;
        let node = &*self.node_core;
        // Another node may own the line by now, and a lock would not exclude it.
        self.core.check_permission()?;
        let mut records = self.node.records.shard(addr).lock();
        let record = records.get(&addr);
        if let Some(error) = record.and_then(|record| record.local.failed) {
            return Err(error.into());
        }
        let frame = record.map_or_else(|| node.cache.find(addr), |record| record.local.frame);
        let Some(id) = frame else { return Ok(Try::NotHere) };
        let frame = node.cache.frame(id);
        // Checked before the line is requested: another node must not give the line up for nothing.
        let in_the_way = match (frame.locked(), mode) {
            _ if frame.is_draining() && !upgrades => true,
            (Ownership::Invalid, _) | (Ownership::Shared, AccessMode::Shared) => false,
            (Ownership::Shared, AccessMode::Exclusive) => !upgrades || !frame.is_locked_once(),
            (Ownership::Exclusive, _) => true,
        };
        if in_the_way {
            return Ok(Try::Refused);
        }
        let hold = record.map_or_else(|| frame.state().ownership(), |record| record.line.hold());
        let gives_way = !reserved && record.is_some_and(|record| record.line.gives_way());
        if !meets(hold, mode) || gives_way {
            return Ok(Try::NotHere);
        }
        let locked =
            if upgrades { frame.try_upgrade_lock() } else { self.count_lock(addr, frame, mode)? };
        if !locked {
            return Ok(Try::Refused);
        }
        strict_assert!(frame.locked() >= ownership(mode), "the lock of {addr} was not counted");
        strict_assert!(
            meets(frame.state().ownership(), mode),
            "{addr} is locked in a mode in which the node does not own it"
        );
        // Requesters that the lock refuses are answered now.
        if let Some(record) = records.get_mut(&addr).filter(|record| record.line.is_asked_for()) {
            self.node.protocol.serve(&mut self.site(addr, record));
            self.finish(&mut records, addr);
        }
        Ok(Try::Locked(id))
    }

    /// Handles the end of a lock on a line with the request mark: other nodes have requested the
    /// line, or the line has failed.
    #[cold]
    pub(crate) fn unlocked(&self, addr: GlobalAddr) {
        let mut records = self.node.records.shard(addr).lock();
        if let Some(record) = records.get_mut(&addr)
            && record.local.failed.is_some()
        {
            // The frame may have been kept for the lock.
            self.core.give_frame_back(&mut record.local);
        }
        self.finish(&mut records, addr);
    }

    /// Updates the request mark in the lock word: the mark is set while other nodes request the
    /// line, or after the line has failed. While the mark is set, locks are taken under the shard
    /// lock only. If an earlier lock refuses the requesters, this function answers them.
    pub(crate) fn see_to_locks(&self, addr: GlobalAddr, record: &mut Record<P::Line>) {
        let Some(id) = record.local.frame else { return };
        let frame = self.node_core.cache.frame(id);
        let failed = record.local.failed.is_some();
        if (record.line.is_asked_for() || failed) == frame.has_request_mark() {
            return;
        }
        if frame.has_request_mark() {
            frame.clear_request_mark();
        } else if frame.set_request_mark() != Ownership::Invalid && !failed {
            self.node.protocol.serve(&mut self.site(addr, record));
            if !record.line.is_asked_for() {
                frame.clear_request_mark();
            }
        }
        strict_assert!(
            record.local.failed.is_some() || frame.has_request_mark() == record.line.is_asked_for(),
            "the mark of {addr} hides a request from the next lock, or shows one that is over"
        );
    }

    /// Whether an access that does not wait for locks, and stays registered if it is refused, may
    /// request the line.
    ///
    /// 1. A refused reader stays registered until the lock ends: under SELCC by its bit in the
    ///    latch word, under the directory protocols by its place at the home, as a refused writer
    ///    does. Until then the line keeps its frame.
    /// 2. Such lines take a quarter of the frames at most. Lines that are locked here take a half
    ///    by default.
    /// 3. So by default a quarter of the frames is left for other lines, unless the cache is tiny.
    /// 4. Without the bound, two nodes could both wait for a frame: each node could keep frames for
    ///    accesses that the locks of the other node refused.
    pub(crate) fn may_be_refused(&self, record: &mut Record<P::Line>) -> bool {
        let node = &*self.node_core;
        let most = (node.cache.capacity() / REFUSED_SHARE).max(1);
        if !record.local.counts_as_refused {
            let next = |refused| (refused < most).then_some(refused + 1);
            // Relaxed: the number orders nothing else.
            let counted = node.refused.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
            record.local.counts_as_refused = counted.is_ok();
        }
        record.local.counts_as_refused
    }

    /// Ends the count of [`may_be_refused`](Inner::may_be_refused), once the line is here, has no
    /// frame or is not requested any more.
    pub(crate) fn see_to_refusal(&self, record: &mut Record<P::Line>) {
        let waits = record.line.hold() == Ownership::Invalid && !record.local.waiters.is_empty();
        // The frame of a line that has failed is lost, and would count for ever.
        let fails = record.local.failed.is_some() && self.node.protocol.registers_writers();
        let over = fails || !(waits || record.line.keeps_refused()) || record.local.frame.is_none();
        if record.local.counts_as_refused && over {
            record.local.counts_as_refused = false;
            let refused = self.node_core.refused.fetch_sub(1, Ordering::Relaxed);
            strict_assert!(refused > 0, "a refused access was not counted");
        }
    }

    /// Takes a lock, if this node may have one more locked line. Returns whether the lock was
    /// taken. A line that is locked already needs no permit. Fails with
    /// [`MemoryError::TooManyLocks`] when a permit is needed and none is left.
    fn count_lock(
        &self,
        addr: GlobalAddr,
        frame: &Frame,
        mode: AccessMode,
    ) -> Result<bool, MemoryError> {
        let share = &self.node_core.lock_share;
        strict_assert_eq!(frame.addr(), addr, "the lock is one of another line");
        let mode = ownership(mode);
        let provided = self.core.permits.provide(share, || self.node_core.workers());
        let too_many = || Err(MemoryError::TooManyLocks { addr, locked: share.locked() });
        if !provided && !frame.is_kept() {
            return too_many();
        }
        let first = frame.try_lock(mode);
        match first {
            Some(true) if provided => self.core.permits.use_one(),
            Some(true) => {
                // The other locks of the line have ended in the meantime.
                frame.unlock(mode);
                return too_many();
            }
            _ => self.core.permits.settle(share),
        }
        Ok(first.is_some())
    }
}

impl Worker {
    /// Locks the line, and obtains the line first if it is not here in the needed mode. Returns the
    /// ticket with which the line came.
    async fn obtain_lock(
        &self,
        need: Need,
        upgrades: bool,
    ) -> Result<LockOutcome<(FrameId, Option<Ticket>)>, MemoryError> {
        let core = &*self.core;
        let mut ticket: Option<Ticket> = None;
        loop {
            match self.lines().try_lock(need, ticket.is_some(), upgrades)? {
                Try::Locked(frame) => {
                    core.counters.locks.add(1);
                    return Ok(LockOutcome::Got((frame, ticket)));
                }
                Try::Refused => break,
                // Also when the reservation has expired.
                Try::NotHere => drop(ticket.take()),
            }
            match self.wait_for(no_wait(need)).await? {
                End::Here(frame) => {
                    core.charge_lock();
                    ticket = Some(self.ticket(need.addr, frame));
                }
                End::Locked => break,
                End::GaveWay => unreachable!("only upgrades give way"),
            }
        }
        core.counters.locks_refused.add(1);
        Ok(LockOutcome::Locked)
    }

    /// Makes the lock that was taken. `obtained`: the lock ends the access that obtained the line.
    fn locked(&self, need: Need, frame: FrameId, obtained: bool) -> Lock {
        let ends_access = obtained || !self.core.node.lazy_release;
        Lock { worker: self.clone(), need, frame, ends_access, detains: false }
    }

    #[inline(always)]
    fn try_lock_hinted(&self, need: Need, hint: Option<&Hint>) -> Result<LockOutcome<Lock>, Need> {
        let end = match self.core.try_lock_unasked(need, hint) {
            TryLock::Locked(frame) => Try::Locked(frame),
            TryLock::Refused => Try::Refused,
            TryLock::Ask => self.lines().try_lock(need, false, false).map_err(|_| need)?,
        };
        match end {
            Try::Locked(frame) => {
                self.core.counters.locks.add(1);
                Ok(LockOutcome::Got(self.locked(need, frame, false)))
            }
            Try::Refused => {
                self.core.counters.locks_refused.add(1);
                Ok(LockOutcome::Locked)
            }
            Try::NotHere => Err(need),
        }
    }

    async fn lock_in_time(
        &self,
        need: Need,
        upgrades: bool,
    ) -> Result<LockOutcome<(FrameId, Option<Ticket>)>, MemoryError> {
        self.in_time(need, pin!(self.obtain_lock(need, upgrades))).await
    }
}

impl LineLocks for Worker {
    type Lock = Lock;

    async fn lock(&self, need: Need) -> Result<LockOutcome<Lock>, MemoryError> {
        if let Ok(end) = self.try_lock(need) {
            return Ok(end);
        }
        self.core.check(need.addr)?;
        Ok(match self.lock_in_time(need, false).await? {
            LockOutcome::Locked => LockOutcome::Locked,
            LockOutcome::Got((frame, ticket)) => {
                // The access that obtained the line ends with the lock.
                let obtained =
                    ticket.is_some_and(|mut ticket| std::mem::take(&mut ticket.ends_access));
                LockOutcome::Got(self.locked(need, frame, obtained))
            }
        })
    }

    #[inline]
    fn try_lock(&self, need: Need) -> Result<LockOutcome<Lock>, Need> {
        self.try_lock_hinted(need, None)
    }

    #[inline]
    fn try_lock_at(&self, need: Need, hint: &Hint) -> Result<LockOutcome<Lock>, Need> {
        self.try_lock_hinted(need, Some(hint))
    }

    fn convert_to_node_lock(&self, lock: &mut Lock) {
        if lock.need.mode == AccessMode::Exclusive && !lock.detains {
            self.core.charge_lock();
            self.core.node.cache.frame(lock.frame).convert_to_node_lock();
            lock.detains = true;
        }
    }

    #[inline]
    fn has_node_lock(&self, line: GlobalAddr, hint: &Hint) -> bool {
        self.core.node.cache.has_node_lock(line, hint)
    }

    async fn ensure_unlocked(&self, need: Need) -> Result<LockOutcome<Ticket>, MemoryError> {
        let ticket = self.obtain(no_wait(need)).await?;
        Ok(ticket.map_or(LockOutcome::Locked, LockOutcome::Got))
    }

    fn try_upgrade_lock(&self, lock: &mut Lock) -> bool {
        if lock.need.mode == AccessMode::Exclusive {
            return true;
        }
        strict_assert!(!lock.detains, "only a lock to write becomes a node lock");
        if self.core.minds_hits.get() && !self.core.charge_attempt() {
            return false;
        }
        let frame = self.core.node.cache.frame(lock.frame);
        let upgraded = frame.try_upgrade_lock_unasked() == TryLock::Locked(());
        if upgraded {
            strict_assert_eq!(
                frame.locked(),
                Ownership::Exclusive,
                "the upgrade left a lock to read"
            );
            self.core.counters.locks.add(1);
            lock.need.mode = AccessMode::Exclusive;
        }
        upgraded
    }

    async fn upgrade_lock(&self, lock: &mut Lock) -> Result<LockOutcome<()>, MemoryError> {
        if self.try_upgrade_lock(lock) {
            return Ok(LockOutcome::Got(()));
        }
        let need = Need { mode: AccessMode::Exclusive, ..lock.need };
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
