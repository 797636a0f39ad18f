//! Accesses: hits, and waiting for a line. Implements [`CoherentMemory`] for [`Worker`]. A hit
//! knows no protocol; what follows a miss goes through [`WorkerLines`](crate::lines::WorkerLines).

mod ticket;
mod unused;
mod waiting;

use std::ops::Range;
use std::pin::pin;
use std::time::Duration;

use latchwork_cache::{Cache, FrameId, Hint, OptimisticRead, Ownership, ReadVersion, WriteGuard};
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need, Upgrade};
use latchwork_memnode::{EpochGuard, Epochs, LineHeader, PoolError};
use latchwork_runtime::{Handle, Time};
use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, LINE_HEADER, VerbError};

use crate::lines::{End, Worker};
use crate::lock::no_wait;
use crate::waiters::LineAccess;
use crate::worker_core::WorkerCore;

pub use ticket::Ticket;
use unused::Unused;

/// The time between two looks whether a line has left the cache.
const LEAVES_EVERY: Duration = Duration::from_micros(10);

impl WorkerCore {
    pub(crate) fn check(&self, addr: GlobalAddr) -> Result<(), MemoryError> {
        self.check_permission()?;
        if self.node.geometry.is_line(addr) {
            Ok(())
        } else {
            Err(MemoryError::BadAddress { addr })
        }
    }

    pub(crate) fn check_permission(&self) -> Result<(), MemoryError> {
        match self.minds_hits.get() && self.port.is_barred() {
            true => Err(VerbError::SelfFenced.into()),
            false => Ok(()),
        }
    }

    /// Looks whether the node may still touch memory. When it may not, no access of this worker
    /// succeeds from now on, also none to a line that is here: other nodes may own the line.
    pub(crate) fn mind_permission(&self) {
        if !self.minds_hits.get() && self.port.is_barred() {
            self.minds_hits.set(true);
        }
    }

    /// Counts the hit and advances the virtual clock by its cost. `found` is `None` when the line
    /// is not readable here.
    #[inline(always)]
    fn read<'c>(
        &self,
        found: Option<OptimisticRead<'c>>,
        addr: GlobalAddr,
    ) -> Result<OptimisticRead<'c>, Need> {
        let Some(read) = found else { return Err(Need { addr, mode: AccessMode::Shared }) };
        if self.minds_hits.get() && !self.charge_read(read.version().frame) {
            return Err(Need { addr, mode: AccessMode::Shared });
        }
        self.counters.cache_hits.add(1);
        Ok(read)
    }

    /// As `read`, for a write.
    #[inline(always)]
    fn write<'c>(
        &'c self,
        addr: GlobalAddr,
        latch: impl FnOnce(&'c Cache) -> Option<WriteGuard<'c>>,
    ) -> Result<WriteGuard<'c>, Need> {
        let need = Need { addr, mode: AccessMode::Exclusive };
        if self.minds_hits.get() && self.is_held(addr) {
            return Err(need);
        }
        let guard = latch(&self.node.cache).ok_or(need)?;
        if self.minds_hits.get() {
            self.charge_write(guard.version().frame);
        }
        self.counters.cache_hits.add(1);
        Ok(guard)
    }
}

impl Worker {
    pub(crate) fn ticket(&self, addr: GlobalAddr, frame: FrameId) -> Ticket {
        Ticket { worker: self.clone(), addr, frame, ends_access: self.core.minds_ends }
    }

    /// Writes to the whole line, header included.
    async fn write_line<R>(
        &self,
        addr: GlobalAddr,
        write: impl FnOnce(&mut WriteGuard<'_>) -> R,
    ) -> Result<R, MemoryError> {
        self.core.check(addr)?;
        self.write(addr, write).await
    }

    /// Obtains the line and returns a ticket. `None`: another node has locked the line, or the line
    /// counts as locked, and the access does not wait for locks.
    pub(crate) async fn obtain(&self, access: LineAccess) -> Result<Option<Ticket>, MemoryError> {
        let need = access.need;
        self.core.check(need.addr)?;
        match self.in_time(need, pin!(self.wait_for(access))).await? {
            End::Here(frame) => Ok(Some(self.ticket(need.addr, frame))),
            End::GaveWay => unreachable!("only upgrades give way"),
            End::Locked => Ok(None),
        }
    }

    async fn obtain_in_any_case(&self, access: LineAccess) -> Result<Ticket, MemoryError> {
        Ok(self.obtain(access).await?.expect("it waits for locks"))
    }

    fn atomic_addr(&self, addr: GlobalAddr, offset: usize) -> Result<GlobalAddr, MemoryError> {
        self.core.check(addr)?;
        if !offset.is_multiple_of(8) || offset + 8 > self.payload_len() {
            return Err(MemoryError::BadAddress { addr });
        }
        let word = GlobalAddr::new(addr.node(), addr.offset() + (LINE_HEADER + offset) as u64);
        let end = addr.offset() + self.core.node.cache.line_size() as u64;
        strict_assert!(word.offset() + 8 <= end, "an atomic on {word} leaves the line at {addr}");
        Ok(word)
    }
}

impl CoherentMemory for Worker {
    type Ticket = Ticket;
    type Operation = EpochGuard;

    #[inline]
    fn try_read(&self, addr: GlobalAddr) -> Result<OptimisticRead<'_>, Need> {
        self.core.read(self.core.node.cache.try_read(addr), addr)
    }

    #[inline(always)]
    fn try_read_at(&self, addr: GlobalAddr, hint: &Hint) -> Result<OptimisticRead<'_>, Need> {
        self.core.read(self.core.node.cache.try_read_at(addr, hint), addr)
    }

    #[inline]
    fn try_write(&self, addr: GlobalAddr) -> Result<WriteGuard<'_>, Need> {
        self.core.write(addr, |cache| cache.try_write(addr))
    }

    #[inline]
    fn try_write_at(&self, addr: GlobalAddr, hint: &Hint) -> Result<WriteGuard<'_>, Need> {
        self.core.write(addr, |cache| cache.try_write_at(addr, hint))
    }

    #[inline]
    fn try_latch<'a>(&'a self, seen: OptimisticRead<'a>) -> Result<WriteGuard<'a>, Need> {
        let (addr, frame) = (seen.addr(), seen.version().frame);
        let guard = seen.latch().ok_or(Need { addr, mode: AccessMode::Exclusive })?;
        if self.core.minds_hits.get() && !self.core.charge_latch(frame) {
            return Err(Need { addr, mode: AccessMode::Exclusive });
        }
        Ok(guard)
    }

    #[inline]
    fn hints(&self, read: &OptimisticRead<'_>) -> &[Hint] {
        self.core.node.cache.hints(read)
    }

    // Inlined always, like the function of the cache that this function calls.
    #[inline(always)]
    fn prefetch(&self, hint: &Hint, payload: Range<usize>) {
        self.core.node.cache.prefetch(hint, payload);
    }

    #[inline]
    fn guess(&self, addr: GlobalAddr) -> Hint {
        self.core.node.cache.guess(addr)
    }

    #[inline]
    fn prefetch_guess(&self, addr: GlobalAddr) {
        self.core.node.cache.prefetch_guess(addr);
    }

    #[inline]
    fn prefetch_lock(&self, hint: &Hint) {
        self.core.node.cache.prefetch_lock(hint);
    }

    #[inline]
    fn peek(&self, hint: &Hint, offset: usize) -> u64 {
        self.core.node.cache.peek(hint, offset)
    }

    async fn ensure(&self, need: Need) -> Result<Ticket, MemoryError> {
        self.obtain_in_any_case(LineAccess::patient(need)).await
    }

    async fn ensure_stale(&self, need: Need) -> Result<Option<Ticket>, MemoryError> {
        if !self.keeps_lines() {
            // A line in use would count as locked.
            return self.ensure(need).await.map(Some);
        }
        self.obtain(no_wait(need)).await
    }

    async fn ensure_by(&self, need: Need, by: Time) -> Result<Ticket, MemoryError> {
        self.obtain_in_any_case(LineAccess { by: Some(by), ..LineAccess::patient(need) }).await
    }

    fn keeps_lines(&self) -> bool {
        self.core.node.lazy_release
    }

    async fn upgrade(
        &self,
        seen: ReadVersion,
        ticket: Option<Ticket>,
    ) -> Result<(Upgrade, Option<Ticket>), MemoryError> {
        let need = Need { addr: seen.addr, mode: AccessMode::Exclusive };
        self.core.check(need.addr)?;
        let cache = &self.core.node.cache;
        let is_seen =
            |id: FrameId| id == seen.frame && cache.frame(id).state().counter() == seen.counter;
        let here = cache.find(seen.addr).is_some_and(|id| {
            let state = cache.frame(id).state();
            state.ownership() == Ownership::Exclusive || (state.is_readable() && is_seen(id))
        });
        if !here {
            return Ok((Upgrade::Busy, None));
        }
        if let Some(mut ticket) = ticket {
            // The ticket is dropped here. The upgrade requests the line in the same poll. If
            // another worker gives the line away in between, the result of the upgrade shows it.
            ticket.ends_access = false;
        }
        let access = LineAccess { upgrade: true, ..LineAccess::patient(need) };
        match self.in_time(need, pin!(self.wait_for(access))).await? {
            End::GaveWay | End::Locked => Ok((Upgrade::Busy, None)),
            End::Here(frame) => {
                let ticket = self.ticket(seen.addr, frame);
                Ok((if is_seen(frame) { Upgrade::Kept } else { Upgrade::Changed }, Some(ticket)))
            }
        }
    }

    async fn persist(&self, addr: GlobalAddr) -> Result<(), MemoryError> {
        if !self.core.node.persists {
            return Ok(());
        }
        self.core.check(addr)?;
        let need = Need { addr, mode: AccessMode::Exclusive };
        self.in_time(need, pin!(self.write_back_in_place(addr))).await
    }

    fn persists(&self) -> bool {
        self.core.node.persists
    }

    fn signature(&self) -> u64 {
        if self.core.of.survives() { self.core.node.signature() } else { 0 }
    }

    fn has_ended(&self, signature: u64) -> bool {
        self.core.node.gone.has_ended(signature)
    }

    async fn allocate(&self) -> Result<GlobalAddr, MemoryError> {
        let core = &*self.core;
        let allocator = &core.node.allocator;
        let addr = allocator.allocate(&core.port, &core.handle).await.map_err(pool_error)?;
        strict_assert!(core.node.geometry.is_line(addr), "{addr} was allocated, and is no line");
        let unused = Unused { allocator, addr };
        let begun = self
            .write_line(addr, |guard| {
                LineHeader::of(guard.line()).begin_life();
                guard.mark_line_dirty(0..LINE_HEADER);
            })
            .await;
        match begun {
            Ok(()) => {
                core.counters.lines_allocated.add(1);
                Ok(unused.keep())
            }
            Err(error) => {
                unused.failed(&error);
                Err(error)
            }
        }
    }

    async fn free(&self, addr: GlobalAddr) -> Result<(), MemoryError> {
        let was_live = self
            .write_line(addr, |guard| {
                let was_live = LineHeader::of(guard.line()).end_life();
                guard.mark_line_dirty(0..LINE_HEADER);
                was_live
            })
            .await?;
        if !was_live {
            return Err(MemoryError::NotAllocated { addr });
        }
        self.lines().evict(addr);
        self.core.counters.lines_freed.add(1);
        self.core.node.allocator.retire(addr).map_err(pool_error)
    }

    fn count_leaves(&self, unlinked: u64, freed: u64) {
        self.core.counters.leaves_unlinked.add(unlinked);
        self.core.counters.leaves_freed.add(freed);
    }

    async fn leave_to_atomics(&self, addr: GlobalAddr) -> Result<(), MemoryError> {
        let core = &*self.core;
        core.check(addr)?;
        // The allocation has changed only the header, and dirty bounds hold no more than that.
        // Without them a write-back has the whole line, so it has to come before the atomics.
        if core.node.settings.dirty_bounds {
            return Ok(());
        }
        let waited = core.node.settings.deadline;
        let deadline = core.handle.now() + waited;
        while core.of.cache().find(addr).is_some() || core.of.is_in_flight(addr) {
            if core.handle.now() >= deadline {
                return Err(MemoryError::Timeout { addr, mode: AccessMode::Exclusive, waited });
            }
            self.evict(addr);
            core.handle.sleep(LEAVES_EVERY).await;
        }
        Ok(())
    }

    async fn fetch_add(
        &self,
        addr: GlobalAddr,
        offset: usize,
        add: u64,
    ) -> Result<u64, MemoryError> {
        let word = self.atomic_addr(addr, offset)?;
        self.core.counters.verbs_faa.add(1);
        Ok(self.core.port.fetch_add(word, add).await?)
    }

    async fn compare_swap(
        &self,
        addr: GlobalAddr,
        offset: usize,
        expected: u64,
        desired: u64,
    ) -> Result<u64, MemoryError> {
        let word = self.atomic_addr(addr, offset)?;
        self.core.counters.verbs_cas.add(1);
        Ok(self.core.port.compare_swap(word, expected, desired).await?)
    }

    fn payload_len(&self) -> usize {
        self.core.node.cache.line_size() - LINE_HEADER
    }

    fn handle(&self) -> &Handle {
        &self.core.handle
    }

    fn try_enter(&self) -> Option<EpochGuard> {
        self.core.epochs.try_enter()
    }

    async fn enter(&self) -> Result<EpochGuard, MemoryError> {
        self.core.epochs.enter(&self.core.handle).await.map_err(pool_error)
    }

    async fn mark(&self) -> Result<u64, MemoryError> {
        Ok(Epochs::mark(&self.core.port).await.map_err(pool_error)?.get())
    }

    async fn ended(&self) -> Result<u64, MemoryError> {
        Ok(Epochs::oldest_bound(&self.core.port).await.map_err(pool_error)?.get())
    }
}

fn pool_error(error: PoolError) -> MemoryError {
    match error {
        PoolError::OutOfMemory { .. } => MemoryError::OutOfMemory(error.to_string()),
        other => MemoryError::Pool(other.to_string()),
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
