//! [`Worker`]: one worker's view of coherent memory, and its poller.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

use latchwork_coherence::MemoryError;
use latchwork_fabric::{Inbox, Port, Subscription};
use latchwork_latch::Action;
use latchwork_memnode::EpochWorker;
use latchwork_runtime::sync::Ordering;
use latchwork_runtime::{Handle, Poller, Time};
use latchwork_verbs::{GlobalAddr, Inbox as _, Outcome, Subscription as _, VerbError};
use slab::Slab;

use crate::costs::CpuCosts;
use crate::counters::WorkerCounters;
use crate::letters::Sent;
use crate::lock::Permits;
use crate::node::Node;
use crate::operations::Group;
use crate::release::{Lingering, minds_ends};
use crate::repeats::Numbers;
use crate::write_back::WriteBackRing;

/// One worker's view of its node's coherent memory.
///
/// Clones are cheap and stand for the same worker. The worker's executor polls for the node:
/// completions, messages, alarms and eviction. All workers of a node poll, and each worker that
/// polls serves the whole node. The polling ends when no clone exists and nothing that the worker
/// posted is in flight.
#[derive(Clone)]
pub struct Worker {
    pub(crate) inner: Rc<Inner>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Worker,
    Handler,
}

/// A worker without a handle, kept until its completions have arrived; see [`Inner::outlive`].
type Kept = RefCell<Option<Rc<Inner>>>;

/// How often a handler checks for requests that the workers should have served.
const COVER_INTERVAL: Duration = Duration::from_millis(1);

/// The bound of doorbells for the batches that follow from completions in one sweep. A refused
/// access takes two. Beyond a few, the messages of other nodes have waited long enough.
const RINGS_MAX: usize = 4;

// The time between two checks whether all is complete. Mostly the first check succeeds.
pub(crate) const LEAVE_STEP: Duration = Duration::from_micros(5);
/// The same time when leaving takes longer than a hundred times this value. Then the worker waits
/// for something that failed, such as a memory node that does not answer.
const LEAVE_STEP_MAX: Duration = Duration::from_millis(1);

pub(crate) struct Inner {
    role: Role,
    pub(crate) node: Arc<Node>,
    pub(crate) port: Rc<Port>,
    pub(crate) handle: Handle,
    pub(crate) epochs: Rc<EpochWorker>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) costs: Option<CpuCosts>,
    /// The numbers of the worker's messages; `Some` until the worker ends.
    numbers: Option<Numbers>,
    inbox: Inbox,
    subscription: Subscription,
    /// The word operations in flight, with their forwards.
    pub(crate) groups: RefCell<Slab<Group>>,
    /// The write-back slots of evicted lines.
    pub(crate) write_backs: WriteBackRing,
    /// The messages in flight.
    pub(crate) letters: RefCell<Slab<Sent>>,
    /// Whether a ticket, a wait for a latch or a granted access was dropped since the last sweep: a
    /// request may have waited for it.
    pub(crate) let_go: Cell<bool>,
    /// The lines to release.
    pub(crate) releases: RefCell<Vec<GlobalAddr>>,
    /// The lines that this worker obtained last.
    pub(crate) lingering: RefCell<Lingering>,
    /// The number of accesses that wait for their lines.
    pub(crate) waiting: Cell<usize>,
    /// The shared copies with an open prediction of this worker.
    pub(crate) bets: RefCell<VecDeque<GlobalAddr>>,
    /// The permits for the lines that the worker's transactions lock.
    pub(crate) permits: Permits,
    /// Whether the end of an access decides about its line; see [`minds_ends`].
    pub(crate) minds_ends: bool,
    // Empty between calls; kept for their capacity.
    pub(crate) actions: RefCell<Vec<Action>>,
    pub(crate) victims: RefCell<Vec<GlobalAddr>>,
    completions: RefCell<Vec<(u64, Result<Outcome, VerbError>)>>,
    /// Whether the worker is parked, so that the node does not count it as awake.
    parked: Cell<bool>,
    /// Whether completions were polled at the end of a sweep, since the last sweep began.
    polled_late: Cell<bool>,
    /// The alarm in the deadline that the executor got last.
    reported: Cell<Option<Time>>,
    /// Whether the deadline that the executor got last includes the node's [cover](crate::cover).
    covers: Cell<bool>,
    /// The slot of the poller that can keep this worker, while the poller lives.
    kept: Weak<Kept>,
}

impl Worker {
    /// Starts a worker of `node` on the executor of `handle`. `port` and `inbox` connect the worker
    /// to the fabric.
    pub fn start(node: &Arc<Node>, port: Rc<Port>, inbox: Inbox, handle: &Handle) -> Worker {
        Self::start_as(Role::Worker, node, port, inbox, handle)
    }

    /// Starts the handler, which covers for the other workers. The handler runs no tasks, parks
    /// whenever it can, and is woken for messages that arrive while no other worker polls. Every
    /// node needs a handler.
    pub fn start_handler(
        node: &Arc<Node>,
        port: Rc<Port>,
        inbox: Inbox,
        handle: &Handle,
    ) -> Worker {
        Self::start_as(Role::Handler, node, port, inbox, handle)
    }

    fn start_as(
        role: Role,
        node: &Arc<Node>,
        port: Rc<Port>,
        inbox: Inbox,
        handle: &Handle,
    ) -> Worker {
        if role == Role::Handler {
            *node.handler.lock() = Some(handle.notifier());
        }
        let kept = Rc::new(Kept::default());
        let inner = Rc::new(Inner {
            role,
            node: node.clone(),
            epochs: EpochWorker::start(&node.epochs, &port, handle),
            port,
            handle: handle.clone(),
            counters: node.new_counters(),
            costs: node.settings.costs,
            numbers: Some(node.numbers.take()),
            subscription: inbox.subscribe(handle.notifier()),
            inbox,
            groups: RefCell::default(),
            write_backs: WriteBackRing::new(node.settings.write_back_ring, node.cache.line_size()),
            letters: RefCell::default(),
            let_go: Cell::new(false),
            releases: RefCell::default(),
            lingering: RefCell::default(),
            waiting: Cell::new(0),
            bets: RefCell::default(),
            permits: Permits::new(&node.lock_share),
            minds_ends: minds_ends(&node.settings),
            actions: RefCell::default(),
            victims: RefCell::default(),
            completions: RefCell::default(),
            parked: Cell::new(false),
            polled_late: Cell::new(false),
            reported: Cell::new(None),
            covers: Cell::new(false),
            kept: Rc::downgrade(&kept),
        });
        inner.count_awake(1);
        if role == Role::Worker {
            node.workers.fetch_add(1, Ordering::Relaxed);
        }
        handle.add_poller(Rc::new(Pump { inner: Rc::downgrade(&inner), kept }));
        Worker { inner }
    }

    /// The node.
    pub fn node(&self) -> &Arc<Node> {
        &self.inner.node
    }

    /// The port that connects the worker to the fabric.
    pub fn port(&self) -> &Rc<Port> {
        &self.inner.port
    }

    /// Evicts a line now, unless the line is in use or has an operation outstanding. Returns
    /// whether its release was posted. For callers that know that the node is finished with the
    /// line.
    pub fn evict(&self, addr: GlobalAddr) -> bool {
        self.inner.node.geometry.is_line(addr) && self.inner.evict(addr)
    }

    /// The number of evicted lines that this worker has copied and not yet written back.
    pub fn write_backs(&self) -> usize {
        self.inner.write_backs.taken()
    }

    /// Ends the worker's part in the node.
    ///
    /// 1. The worker waits for its [finishers](Handle::spawn_finisher), at most until the deadline.
    /// 2. The worker waits until no batch of it is in flight, again at most until the deadline.
    /// 3. The worker gives up its part in the node's epochs.
    ///
    /// Callers await this before the worker's thread ends: no other thread can take the worker's
    /// completions. After the return, the completions of clones are taken as long as the executor
    /// runs, even those of dropped clones.
    ///
    /// # Errors
    /// [`MemoryError::Stuck`] when that takes longer than the deadline; [`MemoryError::Fabric`]
    /// when the node may no longer touch memory, so that the worker cannot give up anything.
    pub async fn leave(self) -> Result<(), MemoryError> {
        let inner = &self.inner;
        let waited = inner.node.settings.deadline;
        let deadline = inner.handle.now() + waited;
        // The code that started the finishers reports what they leave undone.
        while inner.handle.finishers() > 0
            && !inner.port.is_barred()
            && inner.handle.now() < deadline
        {
            inner.handle.sleep(LEAVE_STEP).await;
        }
        let (begin, deadline) = (inner.handle.now(), inner.handle.now() + waited);
        loop {
            let in_flight = inner.unfinished();
            if in_flight == 0 && inner.epochs.stop(&inner.handle) {
                return Ok(());
            }
            if in_flight == 0 && inner.port.is_barred() {
                return Err(VerbError::Barred.into());
            }
            if inner.handle.now() >= deadline {
                return Err(MemoryError::Stuck { in_flight, waited });
            }
            let is_late = inner.handle.now() - begin > 100 * LEAVE_STEP_MAX;
            inner.handle.sleep(if is_late { LEAVE_STEP_MAX } else { LEAVE_STEP }).await;
        }
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("node", &self.inner.node.id).finish_non_exhaustive()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if Rc::strong_count(&self.inner) == 1 {
            self.inner.outlive();
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(numbers) = self.numbers.take() {
            self.node.numbers.give_back(numbers);
        }
        self.permits.leave(&self.node.lock_share);
        if !self.parked.get() {
            self.count_awake(-1);
        }
        if self.role == Role::Worker {
            self.node.workers.fetch_sub(1, Ordering::Relaxed);
        }
        // The handler takes over the alarms and requests that this worker would have served.
        if let Some(handler) = &*self.node.handler.lock() {
            handler.notify();
        }
    }
}

impl Inner {
    /// The number of batches in flight and of releases not yet posted.
    fn unfinished(&self) -> usize {
        self.port.in_flight() + self.releases.borrow().len()
    }

    /// Keeps the worker alive after its last handle is dropped.
    ///
    /// 1. An operation in flight has changed the latch word of its line, or will change it.
    /// 2. If no worker took the completion, the node's other workers would wait for the end of the
    ///    operation, and other nodes would wait for an answer. All would wait until their
    ///    deadlines.
    /// 3. So the poller keeps the worker until the completion has arrived.
    fn outlive(self: &Rc<Self>) {
        // The upgrade fails only if the executor has ended.
        if self.unfinished() > 0
            && let Some(kept) = self.kept.upgrade()
        {
            kept.replace(Some(Rc::clone(self)));
        }
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        self.numbers.as_ref().expect("there until the worker ends")
    }

    fn count_awake(&self, change: isize) {
        if self.role == Role::Worker {
            self.node.awake.fetch_add(change as usize, Ordering::Relaxed);
        }
    }

    /// The time at which this worker must serve the first alarm of the node.
    ///
    /// While workers are awake, they serve the alarms: each worker checks on every sweep. A worker
    /// that parks takes the first alarm as its deadline, and a worker that ends wakes the handler.
    ///
    /// A handler that woke for each alarm would take the core from these workers, and with many
    /// alarms it would never rest. So while a worker is awake, the handler only covers for two
    /// kinds of workers: those that are away for long, and those that parked in the moment in which
    /// the handler set an alarm. When all workers are parked, the handler serves the alarm on time.
    fn next_alarm(&self) -> Option<Time> {
        let alarm = self.node.timers.next()?;
        let covers = self.role == Role::Handler && self.node.awake.load(Ordering::Relaxed) > 0;
        let cover = if covers { self.handle.sweep_time() + COVER_INTERVAL } else { alarm };
        Some(alarm.max(cover))
    }

    fn poll_port(&self) -> bool {
        if self.port.in_flight() == 0 {
            return false;
        }
        let mut completions = self.completions.take();
        // True also when only the batch of a future completed. A caller that drives that future
        // without a waker needs another sweep before the worker parks.
        let any = self.port.poll(&mut |tag, result| completions.push((tag, result)));
        for (tag, result) in completions.drain(..) {
            self.completed(tag, result.map(|outcome| outcome.old[0]));
        }
        self.completions.replace(completions);
        any
    }

    /// Submits the posted batches.
    ///
    /// Some fabrics complete batches as they are submitted. Then the following batches are
    /// submitted in the same step: the invalidation request after a refused operation, or the
    /// message after a hand-over. No batch waits for the next sweep. On other fabrics there is
    /// nothing to poll yet.
    fn ring(&self) {
        self.port.ring();
        for _ in 0..RINGS_MAX {
            if !self.poll_port() {
                return;
            }
            self.polled_late.set(true);
            self.port.ring();
        }
    }
}

/// The poller of a worker: it serves the node on every sweep, as long as the worker lives.
struct Pump {
    inner: Weak<Inner>,
    kept: Rc<Kept>,
}

impl Poller for Pump {
    fn poll(&self, _now: Time) -> bool {
        let Some(inner) = self.inner.upgrade() else { return false };
        let mut any = inner.polled_late.take();
        any |= inner.poll_port();
        any |= inner.inbox.receive(&mut |message| inner.received(&message));
        any |= inner.see_to_the_missed();
        any |= inner.ring_alarms();
        any |= inner.serve_blocked();
        any |= inner.release_what_is_over();
        any |= inner.evict_if_short();
        any
    }

    fn flush(&self) {
        if let Some(inner) = self.inner.upgrade() {
            // Served now rather than on the next sweep: the tasks of this sweep have run.
            if inner.let_go.take() {
                inner.serve_blocked();
            }
            // The evictions leave with the same doorbell as the operations that took the frames.
            inner.evict_if_short();
            inner.ring();
            if inner.unfinished() == 0 {
                // Mostly empty. A kept worker is dropped together with `inner`, so the slot is free
                // again by then.
                self.kept.take();
            }
        }
    }

    fn is_settled(&self) -> bool {
        let Some(inner) = self.inner.upgrade() else { return true };
        !inner.polled_late.get()
            && inner.node.blocked.is_empty()
            && inner.releases.borrow().is_empty()
            && !inner.is_short()
    }

    fn next_deadline(&self) -> Option<Time> {
        let inner = self.inner.upgrade()?;
        let alarm = inner.next_alarm();
        inner.reported.set(alarm);
        // A handler only covers for the workers, which serve blocked lines when they drop a ticket.
        let interval = match inner.role {
            Role::Worker => inner.node.settings.serve_interval,
            Role::Handler => COVER_INTERVAL,
        };
        let now = inner.handle.sweep_time();
        let serve = (!inner.node.blocked.is_empty()).then(|| now + interval);
        let cover = match inner.role {
            Role::Worker => None,
            Role::Handler => inner.node.cover.next(now),
        };
        inner.covers.set(cover.is_some());
        [alarm, serve, cover].into_iter().flatten().min()
    }

    fn may_park(&self) -> bool {
        let Some(inner) = self.inner.upgrade() else { return true };
        // A caller that drives a future of the port without a waker needs one more sweep.
        let seen = !inner.polled_late.get();
        let idle = seen && inner.port.may_park() && inner.releases.borrow().is_empty();
        // A worker that has just ended may have left an alarm since the handler last checked. That
        // worker notifies the handler either before or after the handler announces that it parks.
        // If before, this check sees the alarm. If after, the notification wakes the handler.
        let missed = inner.role == Role::Handler
            && inner
                .next_alarm()
                .is_some_and(|alarm| inner.reported.get().is_none_or(|at| alarm < at));
        // A worker may have requested cover since the deadline was computed. The worker stores the
        // time before it notifies, and this check comes after the announcement. So the handler sees
        // the time or gets the notification.
        let uncovered = inner.role == Role::Handler
            && !inner.covers.get()
            && inner.node.cover.next(inner.handle.sweep_time()).is_some();
        if !idle || missed || uncovered || !inner.subscription.park() {
            return false;
        }
        inner.parked.set(true);
        inner.count_awake(-1);
        // A worker that learns that its core is contended comes here soon: it parks instead of
        // yielding.
        let (now, until) = (inner.handle.sweep_time(), inner.handle.contended_until());
        if inner.role == Role::Worker && now < until {
            inner.node.cover(now, until);
        }
        true
    }

    fn nap(&self, time: Duration) -> bool {
        self.inner.upgrade().is_some_and(|inner| inner.port.nap(time))
    }

    fn unparked(&self) {
        let Some(inner) = self.inner.upgrade() else { return };
        inner.subscription.unparked();
        if inner.parked.take() {
            inner.count_awake(1);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
