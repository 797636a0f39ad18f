//! Accesses: hits, waiting for a line, and tickets. Implements [`CoherentMemory`] for [`Worker`].

mod ticket;
mod unused;

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::ops::Range;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use latchwork_cache::{Cache, FrameId, Hint, OptimisticRead, Ownership, ReadVersion, WriteGuard};
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need, Upgrade};
use latchwork_memnode::{EpochGuard, Epochs, LineHeader, PoolError};
use latchwork_runtime::{Handle, Time};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{GlobalAddr, LINE_HEADER};

use crate::inner::Inner;
use crate::protocol::{CoherenceProtocol, LineState};
use crate::record::Record;
use crate::waiters::{LineAccess, Outcome, meets};
use crate::worker::Worker;
use crate::worker_core::WorkerCore;

pub use ticket::Ticket;
use unused::Unused;

/// The result of one attempt to use a line.
enum Attempt {
    /// The line is here, and reserved.
    Here(FrameId),
    /// The line is here, but a local writer holds its latch.
    Latched(FrameId),
    /// The line is here, but the access waits until this virtual time. A writer holds the latch
    /// until then, or other accesses wait for the latch already.
    Held(FrameId, Time),
    /// The line is not here, and no frame is free for it.
    NoFrame,
    /// The access waits in the record of the line, under this number.
    Asked(u64),
    /// No request was sent, and the line counts as locked: the node has no room for one more
    /// refused reader.
    Locked,
}

/// An access that waits for the local latch of a frame. It comes before requests of other nodes
/// until the line lease is over, or until no access got the latch for
/// [`NodeSettings::lapse`](crate::NodeSettings::lapse).
struct Turn<'a> {
    core: &'a WorkerCore,
    frame: FrameId,
}

impl<'a> Turn<'a> {
    /// Notes the wait in `frame`, unless it is noted already. Without lazy release no wait is
    /// noted, because each access releases the line.
    fn await_at(turn: &mut Option<Self>, core: &'a WorkerCore, frame: FrameId) {
        let lazy = core.node.lazy_release;
        if lazy && turn.as_ref().is_none_or(|turn| turn.frame != frame) {
            core.node.cache.frame(frame).begin_wait();
            *turn = Some(Turn { core, frame });
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.core.node.cache.frame(self.frame).end_wait();
        self.core.let_go.set(true);
    }
}

/// How the wait for a line ended.
pub(crate) enum End {
    Here(FrameId),
    GaveWay,
    Locked,
}

/// A waiter that leaves the record when the access is dropped.
struct Waiting<'a, P: CoherenceProtocol> {
    inner: &'a Rc<Inner<P>>,
    addr: GlobalAddr,
    /// The number of the waiter in the record. `None` once the waiter has left. A later record of
    /// the line counts from zero, so the old number means nothing then.
    id: Cell<Option<u64>>,
    /// Set until the first poll. The attempt has just registered the waker, so the first poll only
    /// returns pending.
    fresh: Cell<bool>,
}

// After this many attempts at a latched line, the access assumes that the thread of the local
// writer is not running. The access then sleeps for `LATCHED_PAUSE` before each further attempt.
const LATCHED_LOOKS: u32 = 3;
const LATCHED_PAUSE: Duration = Duration::from_micros(20);

impl<P: CoherenceProtocol> Inner<P> {
    pub(crate) fn check(&self, addr: GlobalAddr) -> Result<(), MemoryError> {
        if self.core.node.geometry.is_line(addr) {
            Ok(())
        } else {
            Err(MemoryError::BadAddress { addr })
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
        if let Some(costs) = &self.core.costs
            && !self.core.charge_read(costs, read.version().frame)
        {
            return Err(Need { addr, mode: AccessMode::Shared });
        }
        self.core.counters.cache_hits.add(1);
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
        if self.core.costs.is_some() && self.core.is_held(addr) {
            return Err(need);
        }
        let guard = latch(&self.core.node.cache).ok_or(need)?;
        if let Some(costs) = &self.core.costs {
            self.core.charge_write(costs, guard.version().frame);
        }
        self.core.counters.cache_hits.add(1);
        Ok(guard)
    }

    /// Tries once: reserves the line if it is here and free, or requests it if it is not here.
    /// `first`: this is the first attempt of the access.
    fn attempt(
        &self,
        access: LineAccess,
        first: bool,
        waker: &Waker,
    ) -> Result<Attempt, MemoryError> {
        let addr = access.need.addr;
        let mut records = self.node.records.shard(addr).lock();
        let record = self.record(&mut records, addr);
        let result = self.attempt_with(access, first, record, waker);
        self.finish(&mut records, addr);
        if let Ok(Attempt::Asked(_)) = result {
            self.core.counters.cache_misses.add(1);
        }
        result
    }

    fn attempt_with(
        &self,
        access: LineAccess,
        first: bool,
        record: &mut Record<P::Line>,
        waker: &Waker,
    ) -> Result<Attempt, MemoryError> {
        let Need { addr, mode } = access.need;
        if let Some(error) = record.local.failed {
            return Err(error.into());
        }
        let is_here = |_: &FrameId| meets(record.line.hold(), mode);
        if let Some(id) = record.local.frame.filter(is_here) {
            let frame = self.core.node.cache.frame(id);
            strict_assert_eq!(frame.addr(), addr, "a record and its frame serve one line");
            strict_assert!(
                meets(frame.state().ownership(), mode),
                "{addr} is here, but not usable"
            );
            let held =
                if first { self.core.held_for_newcomer(id, mode) } else { self.core.held(id) };
            let attempt = match held {
                // The line lease is over, so requests of other nodes come first. Afterwards the
                // waiter gets the ownership that is left, or the node requests the line.
                _ if record.line.gives_way() => {
                    return Ok(Attempt::Asked(record.local.waiters.wait(access, waker)));
                }
                _ if frame.state().is_latched() => Attempt::Latched(id),
                Some(until) => Attempt::Held(id, until),
                None => {
                    frame.reserve();
                    Attempt::Here(id)
                }
            };
            match attempt {
                Attempt::Here(_) if first => record.line.latch_was_free(),
                Attempt::Here(_) => record.local.passed_at = self.core.handle.now(),
                _ if first => record.line.latch_was_held(mode),
                _ => {}
            }
            return Ok(attempt);
        }
        if access.no_wait && mode == AccessMode::Shared && !self.may_be_refused(record) {
            return Ok(Attempt::Locked);
        }
        if record.local.frame.is_none() {
            let Some(id) = self.core.node.cache.attach(addr) else { return Ok(Attempt::NoFrame) };
            strict_assert_eq!(
                record.line.hold(),
                Ownership::Invalid,
                "{addr} is owned without a frame"
            );
            record.local.frame = Some(id);
        }
        let id = record.local.waiters.wait(access, waker);
        self.node.protocol.want(&mut self.site(addr, record), access);
        Ok(Attempt::Asked(id))
    }

    /// Obtains and reserves the line.
    pub(crate) async fn obtain(self: &Rc<Self>, access: LineAccess) -> Result<End, MemoryError> {
        let mut looks = 0;
        let mut first = true;
        // Kept from one attempt to the next, so that requests of other nodes wait between the
        // attempts. Dropped before a wait for a frame or for the line, and before a long wait for
        // the latch.
        let mut turn = None;
        loop {
            let first = std::mem::take(&mut first);
            let attempt = poll_fn(|cx| Poll::Ready(self.attempt(access, first, cx.waker())));
            match attempt.await? {
                Attempt::Here(frame) => return Ok(End::Here(frame)),
                Attempt::Locked => return Ok(End::Locked),
                Attempt::Latched(id) => {
                    looks += 1;
                    if looks > LATCHED_LOOKS {
                        // A wait that is noted in the frame would keep other nodes waiting, too.
                        drop(turn.take());
                        self.core.handle.sleep(LATCHED_PAUSE).await;
                    } else {
                        Turn::await_at(&mut turn, &self.core, id);
                        self.core.handle.yield_now().await;
                    }
                }
                Attempt::Held(id, until) => {
                    Turn::await_at(&mut turn, &self.core, id);
                    self.core.handle.sleep_until(until).await;
                }
                Attempt::NoFrame => {
                    drop(turn.take());
                    self.core.counters.frame_waits.add(1);
                    poll_fn(|cx| self.poll_free_frame(cx)).await;
                }
                Attempt::Asked(id) => {
                    drop(turn);
                    let waiting = Waiting::new(self, access.need.addr, id);
                    return poll_fn(|cx| waiting.poll(cx)).await;
                }
            }
        }
    }

    fn poll_free_frame(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.core.node.cache.free_frames() > 0 {
            return Poll::Ready(());
        }
        self.core.node.frame_waiters.add(cx.waker());
        // Checked again: a frame may have been freed before the waker was added.
        if self.core.node.cache.free_frames() > 0 { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Awaits `future`. Fails when the line does not come before the deadline.
    pub(crate) async fn in_time<T>(
        &self,
        need: Need,
        future: impl Future<Output = Result<T, MemoryError>>,
    ) -> Result<T, MemoryError> {
        let waited = self.core.node.settings.deadline;
        match self.core.handle.timeout(self.core.handle.sweep_time() + waited, future).await {
            Ok(result) => result,
            Err(_) => Err(MemoryError::Timeout { addr: need.addr, mode: need.mode, waited }),
        }
    }
}

impl<'a, P: CoherenceProtocol> Waiting<'a, P> {
    /// Makes this value responsible for the waiter `id`, in the poll that added the waiter.
    fn new(inner: &'a Rc<Inner<P>>, addr: GlobalAddr, id: u64) -> Waiting<'a, P> {
        inner.core.waiting.update(|n| n + 1);
        Waiting { inner, addr, id: Cell::new(Some(id)), fresh: Cell::new(true) }
    }

    fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<End, MemoryError>> {
        if self.fresh.take() {
            return Poll::Pending;
        }
        let mut records = self.inner.node.records.shard(self.addr).lock();
        let record = records.get_mut(&self.addr).expect("a record with waiters stays");
        let id = self.id.get().expect("still waiting");
        let waiter = record.local.waiters.get(id).expect("still waiting");
        let end = match waiter.outcome {
            Outcome::Waiting => {
                waiter.waker = Some(cx.waker().clone());
                return Poll::Pending;
            }
            Outcome::Granted => match (record.local.frame, record.local.failed) {
                (Some(frame), _) => {
                    strict_assert!(
                        self.inner.core.node.cache.frame(frame).is_reserved(),
                        "a grant of {} without a reservation",
                        self.addr
                    );
                    Ok(End::Here(frame))
                }
                // The line was granted, and then an operation of the node failed.
                (None, Some(error)) => Err(error.into()),
                (None, None) => unreachable!("what is granted has a frame"),
            },
            Outcome::GaveWay => Ok(End::GaveWay),
            Outcome::Locked => Ok(End::Locked),
            Outcome::Failed(error) => Err(error.into()),
        };
        record.local.waiters.remove(id);
        self.id.set(None);
        self.inner.finish(&mut records, self.addr);
        Poll::Ready(end)
    }
}

impl<P: CoherenceProtocol> Drop for Waiting<'_, P> {
    fn drop(&mut self) {
        self.inner.core.waiting.update(|n| n - 1);
        let Some(id) = self.id.get() else { return };
        let mut records = self.inner.node.records.shard(self.addr).lock();
        let Some(record) = records.get_mut(&self.addr) else { return };
        let Some(waiter) = record.local.waiters.drop(id) else { return };
        // The grant came, but the access was dropped. The reservation ends, and `finish` decides
        // about the line.
        if let (Outcome::Granted, Some(id)) = (waiter.outcome, record.local.frame) {
            self.inner.core.node.cache.frame(id).unreserve();
            self.inner.core.let_go.set(true);
        }
        self.inner.finish(&mut records, self.addr);
    }
}

impl<P: CoherenceProtocol> Worker<P> {
    pub(crate) fn ticket(&self, addr: GlobalAddr, frame: FrameId) -> Ticket<P> {
        Ticket { worker: self.clone(), addr, frame, ends_access: self.inner.core.minds_ends }
    }

    /// Writes to the whole line, header included.
    async fn write_line<R>(
        &self,
        addr: GlobalAddr,
        write: impl FnOnce(&mut WriteGuard<'_>) -> R,
    ) -> Result<R, MemoryError> {
        self.inner.check(addr)?;
        self.write(addr, write).await
    }

    /// Obtains the line and returns a ticket. `None`: another node has locked the line, or the line
    /// counts as locked, and the access does not wait for locks.
    pub(crate) async fn obtain(
        &self,
        access: LineAccess,
    ) -> Result<Option<Ticket<P>>, MemoryError> {
        let need = access.need;
        self.inner.check(need.addr)?;
        match self.inner.in_time(need, pin!(self.inner.obtain(access))).await? {
            End::Here(frame) => Ok(Some(self.ticket(need.addr, frame))),
            End::GaveWay => unreachable!("only upgrades give way"),
            End::Locked => Ok(None),
        }
    }

    async fn obtain_in_any_case(&self, access: LineAccess) -> Result<Ticket<P>, MemoryError> {
        Ok(self.obtain(access).await?.expect("it waits for locks"))
    }

    fn atomic_addr(&self, addr: GlobalAddr, offset: usize) -> Result<GlobalAddr, MemoryError> {
        self.inner.check(addr)?;
        if !offset.is_multiple_of(8) || offset + 8 > self.payload_len() {
            return Err(MemoryError::BadAddress { addr });
        }
        let word = GlobalAddr::new(addr.node(), addr.offset() + (LINE_HEADER + offset) as u64);
        let end = addr.offset() + self.inner.core.node.cache.line_size() as u64;
        strict_assert!(word.offset() + 8 <= end, "an atomic on {word} leaves the line at {addr}");
        Ok(word)
    }
}

impl<P: CoherenceProtocol> CoherentMemory for Worker<P> {
    type Ticket = Ticket<P>;
    type Operation = EpochGuard;

    #[inline]
    fn try_read(&self, addr: GlobalAddr) -> Result<OptimisticRead<'_>, Need> {
        self.inner.read(self.inner.core.node.cache.try_read(addr), addr)
    }

    #[inline(always)]
    fn try_read_at(&self, addr: GlobalAddr, hint: &Hint) -> Result<OptimisticRead<'_>, Need> {
        self.inner.read(self.inner.core.node.cache.try_read_at(addr, hint), addr)
    }

    #[inline]
    fn try_write(&self, addr: GlobalAddr) -> Result<WriteGuard<'_>, Need> {
        self.inner.write(addr, |cache| cache.try_write(addr))
    }

    #[inline]
    fn try_write_at(&self, addr: GlobalAddr, hint: &Hint) -> Result<WriteGuard<'_>, Need> {
        self.inner.write(addr, |cache| cache.try_write_at(addr, hint))
    }

    #[inline]
    fn try_latch<'a>(&'a self, seen: OptimisticRead<'a>) -> Result<WriteGuard<'a>, Need> {
        let (addr, frame) = (seen.addr(), seen.version().frame);
        let guard = seen.latch().ok_or(Need { addr, mode: AccessMode::Exclusive })?;
        if let Some(costs) = &self.inner.core.costs {
            self.inner.core.charge_latch(costs, frame);
        }
        Ok(guard)
    }

    #[inline]
    fn hints(&self, read: &OptimisticRead<'_>) -> &[Hint] {
        self.inner.core.node.cache.hints(read)
    }

    // Inlined always, like the function of the cache that this function calls.
    #[inline(always)]
    fn prefetch(&self, hint: &Hint, payload: Range<usize>) {
        self.inner.core.node.cache.prefetch(hint, payload);
    }

    #[inline]
    fn guess(&self, addr: GlobalAddr) -> Hint {
        self.inner.core.node.cache.guess(addr)
    }

    #[inline]
    fn prefetch_guess(&self, addr: GlobalAddr) {
        self.inner.core.node.cache.prefetch_guess(addr);
    }

    #[inline]
    fn prefetch_lock(&self, hint: &Hint) {
        self.inner.core.node.cache.prefetch_lock(hint);
    }

    #[inline]
    fn peek(&self, hint: &Hint, offset: usize) -> u64 {
        self.inner.core.node.cache.peek(hint, offset)
    }

    async fn ensure(&self, need: Need) -> Result<Ticket<P>, MemoryError> {
        self.obtain_in_any_case(LineAccess::patient(need)).await
    }

    async fn ensure_by(&self, need: Need, by: Time) -> Result<Ticket<P>, MemoryError> {
        self.obtain_in_any_case(LineAccess { by: Some(by), ..LineAccess::patient(need) }).await
    }

    fn keeps_lines(&self) -> bool {
        self.inner.core.node.lazy_release
    }

    async fn upgrade(
        &self,
        seen: ReadVersion,
        ticket: Option<Ticket<P>>,
    ) -> Result<(Upgrade, Option<Ticket<P>>), MemoryError> {
        let need = Need { addr: seen.addr, mode: AccessMode::Exclusive };
        self.inner.check(need.addr)?;
        let cache = &self.inner.core.node.cache;
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
        match self.inner.in_time(need, pin!(self.inner.obtain(access))).await? {
            End::GaveWay | End::Locked => Ok((Upgrade::Busy, None)),
            End::Here(frame) => {
                let ticket = self.ticket(seen.addr, frame);
                Ok((if is_seen(frame) { Upgrade::Kept } else { Upgrade::Changed }, Some(ticket)))
            }
        }
    }

    async fn allocate(&self) -> Result<GlobalAddr, MemoryError> {
        let inner = &*self.inner;
        let allocator = &inner.core.node.allocator;
        let addr =
            allocator.allocate(&inner.core.port, &inner.core.handle).await.map_err(pool_error)?;
        strict_assert!(
            inner.core.node.geometry.is_line(addr),
            "{addr} was allocated, and is no line"
        );
        let unused = Unused { allocator, addr };
        let begun = self
            .write_line(addr, |guard| {
                LineHeader::of(guard.line()).begin_life();
                guard.mark_line_dirty(0..LINE_HEADER);
            })
            .await;
        match begun {
            Ok(()) => Ok(unused.keep()),
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
        self.inner.evict(addr);
        self.inner.core.node.allocator.retire(addr).map_err(pool_error)
    }

    async fn fetch_add(
        &self,
        addr: GlobalAddr,
        offset: usize,
        add: u64,
    ) -> Result<u64, MemoryError> {
        let word = self.atomic_addr(addr, offset)?;
        self.inner.core.counters.verbs_faa.add(1);
        Ok(self.inner.core.port.fetch_add(word, add).await?)
    }

    async fn compare_swap(
        &self,
        addr: GlobalAddr,
        offset: usize,
        expected: u64,
        desired: u64,
    ) -> Result<u64, MemoryError> {
        let word = self.atomic_addr(addr, offset)?;
        self.inner.core.counters.verbs_cas.add(1);
        Ok(self.inner.core.port.compare_swap(word, expected, desired).await?)
    }

    fn payload_len(&self) -> usize {
        self.inner.core.node.cache.line_size() - LINE_HEADER
    }

    fn handle(&self) -> &Handle {
        &self.inner.core.handle
    }

    fn try_enter(&self) -> Option<EpochGuard> {
        self.inner.epochs.try_enter()
    }

    async fn enter(&self) -> Result<EpochGuard, MemoryError> {
        self.inner.epochs.enter(&self.inner.core.handle).await.map_err(pool_error)
    }

    async fn mark(&self) -> Result<u64, MemoryError> {
        Ok(Epochs::mark(&self.inner.core.port).await.map_err(pool_error)?.get())
    }

    async fn ended(&self) -> Result<u64, MemoryError> {
        Ok(Epochs::oldest_bound(&self.inner.core.port).await.map_err(pool_error)?.get())
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
