//! [`EpochWorker`]: a worker's seat, and the operations that the seat counts.

use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use latchwork_fabric::Port;
use latchwork_runtime::sync::{AtomicU64, Ordering, fence};
use latchwork_runtime::{Handle, Poller, Time};
use latchwork_strict::{strict_assert, strict_check};

use super::seat::Seat;
use super::{Epoch, Epochs};
use crate::PoolError;

/// The operations in progress of one worker, in two groups; see "the worker" in [`crate::epoch`].
#[derive(Clone, Copy, Debug)]
struct Groups {
    /// The bound of each group. The bound of an empty older group has no meaning.
    bound: [Epoch; 2],
    /// The number of operations in progress of each group.
    count: [u32; 2],
    /// The group that new operations join.
    newer: usize,
}

impl Groups {
    /// The bound of the seat protects every operation in progress.
    fn check(&self) {
        let older = 1 - self.newer;
        assert!(self.newer < 2, "there are two groups");
        assert!(self.bound.iter().all(|bound| bound.0 > 0), "an epoch begins at 1");
        assert!(
            self.count[older] == 0 || self.bound[older] <= self.bound[self.newer],
            "the older group has the later bound: {self:?}"
        );
        assert!(self.oldest() <= self.bound[self.newer], "a bound above that of new operations");
    }

    fn is_empty(&self) -> bool {
        strict_assert!(self.newer < 2);
        self.count == [0; 2]
    }

    /// Starts a new group with bound `current` if possible, and returns whether it did.
    fn renew(&mut self, current: Epoch) -> bool {
        let can = self.bound[self.newer] != current && self.count[1 - self.newer] == 0;
        if can {
            strict_assert!(self.bound[self.newer] <= current, "the node's epoch runs backwards");
            if self.count[self.newer] > 0 {
                self.newer = 1 - self.newer;
            }
            self.bound[self.newer] = current;
        }
        can
    }

    /// The bound of all operations that are in progress or may still join.
    fn oldest(&self) -> Epoch {
        let older = 1 - self.newer;
        strict_assert!(
            self.count[older] == 0 || self.bound[older] <= self.bound[self.newer],
            "the older group has the later bound"
        );
        self.bound[if self.count[older] > 0 { older } else { self.newer }]
    }
}

/// A worker's part in its node's epochs. The value stays on the worker's thread.
///
/// An `EpochWorker` is a [`Poller`] of the worker's executor, and has three duties:
///
/// - It ticks ([`Epochs::tick`]) while the worker is online.
/// - It rests a worker without an operation before the worker parks, or after
///   [`idle_after`](crate::PoolSettings::idle_after).
/// - It makes the node idle when this worker has had no operation for `idle_after` and no worker is
///   online.
///
/// An online worker that stops sweeping without [`EpochWorker::stop`] delays the reuse of lines on
/// all nodes.
pub struct EpochWorker {
    epochs: Arc<Epochs>,
    port: Rc<Port>,
    seat: Arc<Seat>,
    online: Cell<bool>,
    groups: Cell<Groups>,
    job: RefCell<Option<Job>>,
    now: Cell<Time>,
    /// An operation began since the last sweep.
    entered: Cell<bool>,
    /// The time of the last sweep that found an operation in progress or begun.
    busy_at: Cell<Time>,
    /// The time at which a resting worker tries to make the node idle.
    idle_at: Cell<Option<Time>>,
    /// The last attempt to make the node idle failed. The next attempt waits for its time, even if
    /// [`EpochWorker::stop`] is called.
    idle_failed: Cell<bool>,
    last_error: RefCell<Option<PoolError>>,
}

/// The verbs of a tick, or of making the node idle. The poller drives the job, so that the job does
/// not depend on the future of an operation, which may be dropped.
struct Job {
    future: Pin<Box<dyn Future<Output = Result<bool, PoolError>>>>,
    goes_idle: bool,
}

impl EpochWorker {
    /// Gives the worker of `handle` a seat, and adds the result to the pollers. Call
    /// [`EpochWorker::stop`] before the worker ends.
    pub fn start(epochs: &Arc<Epochs>, port: &Rc<Port>, handle: &Handle) -> Rc<EpochWorker> {
        let worker = EpochWorker::new(epochs, port, handle.sweep_time());
        handle.add_poller(worker.clone());
        worker
    }

    pub(super) fn new(epochs: &Arc<Epochs>, port: &Rc<Port>, now: Time) -> Rc<EpochWorker> {
        let seat = Arc::new(Seat(AtomicU64::new(Seat::RESTING.0)));
        epochs.add_seat(&seat);
        let never = epochs.current();
        Rc::new(EpochWorker {
            epochs: epochs.clone(),
            port: port.clone(),
            seat,
            online: Cell::new(false),
            groups: Cell::new(Groups { bound: [never; 2], count: [0; 2], newer: 0 }),
            job: RefCell::new(None),
            now: Cell::new(now),
            entered: Cell::new(false),
            busy_at: Cell::new(now),
            idle_at: Cell::new(None),
            idle_failed: Cell::new(false),
            last_error: RefCell::new(None),
        })
    }

    /// The node's epochs.
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// Begins an operation if the node is active. Costs two loads and a private counter when the
    /// worker is online, one more store when a new group starts, and a memory fence when the worker
    /// rested. Returns `None` when the node is not active: then call [`EpochWorker::enter`].
    #[inline]
    pub fn try_enter(self: &Rc<Self>) -> Option<EpochGuard> {
        if !self.online.get() && !self.come_online() {
            return None;
        }
        let mut groups = self.groups.get();
        if groups.renew(self.epochs.current()) {
            self.seat.set(groups.oldest());
        }
        strict_assert!(groups.oldest() <= self.epochs.current(), "a bound above the epoch");
        groups.count[groups.newer] += 1;
        strict_check!(groups);
        strict_assert!(groups.count[groups.newer] > 0, "the operation is in a group");
        self.groups.set(groups);
        strict_assert!(
            self.seat.bound() <= groups.bound[groups.newer],
            "the seat delays no operation that began later"
        );
        self.entered.set(true);
        Some(EpochGuard { worker: self.clone(), group: groups.newer })
    }

    /// Begins an operation, after making the node active if it is idle (one verb).
    ///
    /// # Errors
    /// As [`Epochs::set_active`], and [`PoolError::Timeout`] when the node became idle again and
    /// again.
    pub async fn enter(self: &Rc<Self>, handle: &Handle) -> Result<EpochGuard, PoolError> {
        // The node can become idle again between `set_active` and `try_enter`, but seldom. Only a
        // worker without an operation for `idle_after` makes the node idle, and only while no
        // worker is online.
        const TRIES: u32 = 1000;
        for _ in 0..TRIES {
            match self.try_enter() {
                Some(guard) => return Ok(guard),
                None => {
                    // If this future is dropped, the slot keeps a bound that no operation needs. So
                    // a time is set at which the worker makes the node idle again.
                    self.idle_at.set(Some(handle.now() + self.epochs.settings().idle_after));
                    self.epochs.set_active(&self.port, handle).await?;
                }
            }
        }
        let waited = self.epochs.settings().deadline;
        Err(PoolError::Timeout { what: "beginning an operation", waited })
    }

    /// The number of operations in progress on this worker.
    pub fn operations(&self) -> usize {
        self.groups.get().count.iter().map(|&count| count as usize).sum()
    }

    /// Raises the worker's bound to the node's epoch, as far as the operations in progress permit.
    pub(crate) fn refresh(&self) {
        if self.online.get() {
            let mut groups = self.groups.get();
            strict_assert!(self.seat.bound() != Seat::RESTING, "an online worker has a bound");
            if groups.renew(self.epochs.current()) {
                self.seat.set(groups.oldest());
                self.groups.set(groups);
            }
        }
    }

    /// Rests the worker if it has no operation in progress, and returns whether the worker rests. A
    /// resting worker delays no reuse of lines, once its node has published a bound or IDLE again.
    pub fn rest(&self) -> bool {
        if self.online.get() && self.groups.get().is_empty() {
            strict_assert!(self.seat.bound() != Seat::RESTING, "an online worker has a bound");
            self.seat.set(Seat::RESTING);
            self.online.set(false);
            strict_assert!(
                self.seat.bound() == Seat::RESTING && self.operations() == 0,
                "a worker with an operation rests"
            );
            self.idle_at.set(Some(self.idle_due()));
        }
        !self.online.get()
    }

    /// Rests the worker and removes it from the executor's pollers. Returns `false` while the
    /// worker stays in the pollers; call again some sweeps later. The reasons are: operations in
    /// progress, a tick in flight, or an idle node whose last worker has yet to publish that state.
    pub fn stop(self: &Rc<Self>, handle: &Handle) -> bool {
        if !self.rest() || self.job.borrow().is_some() {
            return false;
        }
        let others = self.epochs.is_active() && self.epochs.any_online();
        if self.idle_at.get().is_some() && !others {
            if !self.idle_failed.get() {
                self.idle_at.set(Some(self.now.get()));
            }
            return false;
        }
        strict_assert!(
            !self.online.get() && self.job.borrow().is_none(),
            "a worker that is removed still works"
        );
        let poller: Rc<dyn Poller> = self.clone();
        handle.remove_poller(&poller);
        true
    }

    /// The last error of a tick or of going idle, if one failed since the last call.
    pub fn take_error(&self) -> Option<PoolError> {
        self.last_error.take()
    }

    #[cold]
    fn come_online(&self) -> bool {
        let current = self.epochs.current();
        strict_assert!(!self.online.get(), "an online worker comes online");
        strict_assert!(self.operations() == 0, "a resting worker has an operation");
        self.seat.set(current);
        // This memory fence pairs with the one in `Epochs::oldest`. Either the node that goes idle
        // sees this seat, or this worker sees the node's phase.
        fence(Ordering::SeqCst);
        if !self.epochs.is_active() {
            self.seat.set(Seat::RESTING);
            return false;
        }
        strict_assert!(current <= self.epochs.current(), "the node's epoch runs backwards");
        self.groups.set(Groups { bound: [current; 2], count: [0; 2], newer: 0 });
        self.idle_at.set(None);
        self.online.set(true);
        true
    }

    fn leave(&self, group: usize) {
        let mut groups = self.groups.get();
        strict_assert!(group < 2 && groups.count[group] > 0, "an operation ended twice");
        strict_assert!(self.online.get(), "an operation ends on a worker that rests");
        groups.count[group] -= 1;
        strict_check!(groups);
        self.groups.set(groups);
        if groups.count[group] == 0 && group != groups.newer {
            strict_assert!(
                groups.count[group] == 0 || self.seat.bound() <= groups.bound[group],
                "an operation in progress lost its bound"
            );
            self.seat.set(groups.oldest());
        }
    }

    /// The time at which the worker will have had no operation for long enough.
    fn idle_due(&self) -> Time {
        let busy_at = if self.entered.get() { self.now.get() } else { self.busy_at.get() };
        busy_at + self.epochs.settings().idle_after
    }

    fn next_job(&self, now: Time) -> Option<Job> {
        // Cloned only for a job: a sweep must not change a reference count that all workers share.
        let parts = || (self.epochs.clone(), self.port.clone());
        if self.online.get() && self.epochs.tick_is_due(now) {
            let (epochs, port) = parts();
            let future = Box::pin(async move { epochs.tick(&port, now).await });
            return Some(Job { future, goes_idle: false });
        }
        if self.idle_at.get().is_some_and(|at| now >= at) {
            // The online worker makes the node idle after it rests. But that worker could be
            // dropped before, so this worker tries again later.
            if self.epochs.is_active() && self.epochs.any_online() {
                self.idle_at.set(Some(now + self.epochs.settings().idle_after));
                return None;
            }
            let (epochs, port) = parts();
            let future = Box::pin(async move { epochs.set_idle(&port).await });
            return Some(Job { future, goes_idle: true });
        }
        None
    }

    fn finish(&self, goes_idle: bool, result: Result<bool, PoolError>) {
        if goes_idle {
            self.idle_failed.set(result.is_err());
        }
        if goes_idle && self.idle_at.get().is_some() {
            let idle = result == Ok(true) && !self.epochs.is_active();
            let again = self.now.get() + self.epochs.settings().idle_after;
            self.idle_at.set(if idle { None } else { Some(again) });
        }
        if let Err(error) = result {
            self.last_error.replace(Some(error));
        }
    }
}

impl Poller for EpochWorker {
    fn poll(&self, now: Time) -> bool {
        self.now.set(now);
        strict_assert!(now >= self.busy_at.get(), "the clock of the worker runs backwards");
        if self.entered.take() || !self.groups.get().is_empty() {
            self.busy_at.set(now);
        }
        self.refresh();
        if self.online.get() && now >= self.idle_due() {
            self.rest();
            strict_assert!(
                !self.online.get() || self.operations() > 0 || self.entered.get(),
                "a worker without an operation rests"
            );
        }
        let mut slot = self.job.borrow_mut();
        if slot.is_none() {
            *slot = self.next_job(now);
        }
        let Some(job) = &mut *slot else { return false };
        // No waker is needed: the completion wakes the worker, and every sweep polls the job.
        match job.future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => false,
            Poll::Ready(result) => {
                let goes_idle = job.goes_idle;
                *slot = None;
                self.finish(goes_idle, result);
                true
            }
        }
    }

    fn flush(&self) {}

    fn is_settled(&self) -> bool {
        // A job has no waker of its own. A worker that rests between all its operations must tick
        // too.
        let tick = self.online.get() && self.epochs.tick_is_due(self.now.get());
        !tick && self.job.borrow().is_none()
    }

    fn next_deadline(&self) -> Option<Time> {
        if self.job.borrow().is_some() {
            None
        } else if self.online.get() {
            // The same deadline, whether or not `may_park` rests the worker now.
            self.groups.get().is_empty().then(|| self.idle_due())
        } else {
            self.idle_at.get()
        }
    }

    fn may_park(&self) -> bool {
        self.rest();
        true
    }
}

impl fmt::Debug for EpochWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochWorker")
            .field("online", &self.online.get())
            .field("bound", &self.seat.bound())
            .field("operations", &self.operations())
            .finish_non_exhaustive()
    }
}

/// An operation in progress. A line that is freed after the operation began is not reused before
/// this guard is dropped. Keep no address of a line longer than the guard.
#[must_use = "the operation ends when this is dropped"]
pub struct EpochGuard {
    worker: Rc<EpochWorker>,
    group: usize,
}

impl Drop for EpochGuard {
    fn drop(&mut self) {
        self.worker.leave(self.group);
    }
}

impl fmt::Debug for EpochGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EpochGuard").field("group", &self.group).finish_non_exhaustive()
    }
}
