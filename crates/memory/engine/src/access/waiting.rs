//! The waits of an access: for the local latch, for a frame, and for the line.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::task::{Context, Poll};
use std::time::Duration;

use latchwork_cache::FrameId;
use latchwork_coherence::{MemoryError, Need};
use latchwork_verbs::{GlobalAddr, VerbError};

use crate::lines::{Attempt, End, Worker};
use crate::waiters::LineAccess;
use crate::worker_core::WorkerCore;

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

/// The interval at which a waiting access looks whether the lease of its node has ended.
const LOOK: Duration = Duration::from_millis(100);

// After this many attempts at a latched line, the access assumes that the thread of the local
// writer is not running. The access then sleeps for `LATCHED_PAUSE` before each further attempt.
const LATCHED_LOOKS: u32 = 3;
const LATCHED_PAUSE: Duration = Duration::from_micros(20);

impl Worker {
    /// Obtains and reserves the line.
    pub(crate) async fn wait_for(&self, access: LineAccess) -> Result<End, MemoryError> {
        let mut looks = 0;
        let mut first = true;
        // Kept from one attempt to the next, so that requests of other nodes wait between the
        // attempts. Dropped before a wait for a frame or for the line, and before a long wait for
        // the latch.
        let mut turn = None;
        loop {
            let first = std::mem::take(&mut first);
            let attempt =
                poll_fn(|cx| Poll::Ready(self.lines().attempt(access, first, cx.waker())));
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

    /// Awaits `future`. Fails when the line does not come before the deadline, or when the lease of
    /// the node has ended. An access that waits for the answer of another node has no verb in
    /// flight that would fail then, and no answer comes any more. A simulated node keeps its
    /// timers few, and its accesses end at their deadline.
    pub(crate) async fn in_time<T>(
        &self,
        need: Need,
        mut future: impl Future<Output = Result<T, MemoryError>> + Unpin,
    ) -> Result<T, MemoryError> {
        let WorkerCore { node, port, handle, .. } = &*self.core;
        let waited = node.settings.deadline;
        let deadline = handle.sweep_time() + waited;
        let looks = port.can_be_barred() && node.settings.costs.is_none();
        loop {
            let look = if looks { deadline.min(handle.sweep_time() + LOOK) } else { deadline };
            match handle.timeout(look, &mut future).await {
                Ok(result) => return result,
                Err(_) if looks && port.is_barred() => return Err(VerbError::SelfFenced.into()),
                Err(_) if look < deadline => {}
                Err(_) => {
                    return Err(MemoryError::Timeout { addr: need.addr, mode: need.mode, waited });
                }
            }
        }
    }
}

/// A waiter that leaves the record when the access is dropped.
pub(super) struct Waiting<'a> {
    worker: &'a Worker,
    addr: GlobalAddr,
    /// The number of the waiter in the record. `None` once the waiter has left. A later record of
    /// the line counts from zero, so the old number means nothing then.
    id: Cell<Option<u64>>,
    /// Set until the first poll. The attempt has just registered the waker, so the first poll only
    /// returns pending.
    fresh: Cell<bool>,
}

impl<'a> Waiting<'a> {
    /// Makes this value responsible for the waiter `id`, in the poll that added the waiter.
    pub(super) fn new(worker: &'a Worker, addr: GlobalAddr, id: u64) -> Waiting<'a> {
        worker.core.waiting.update(|n| n + 1);
        Waiting { worker, addr, id: Cell::new(Some(id)), fresh: Cell::new(true) }
    }

    pub(super) fn poll(&self, cx: &mut Context<'_>) -> Poll<Result<End, MemoryError>> {
        if self.fresh.take() {
            return Poll::Pending;
        }
        let id = self.id.get().expect("still waiting");
        let end = self.worker.lines().poll_waiter(self.addr, id, cx.waker());
        if end.is_ready() {
            self.id.set(None);
        }
        end
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.worker.core.waiting.update(|n| n - 1);
        if let Some(id) = self.id.get() {
            self.worker.lines().drop_waiter(self.addr, id);
        }
    }
}
