//! [`Worker`]: one worker's view of coherent memory, and the poller behind it.

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

use crate::CpuCosts;
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
/// Clones are cheap and the same worker. While one exists, or anything that the worker posted is in
/// flight, its executor polls for the node: completions, messages, alarms, eviction. All of a
/// node's workers do, and whoever polls serves.
#[derive(Clone)]
pub struct Worker {
    pub(crate) inner: Rc<Inner>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Worker,
    Handler,
}

/// A worker that nobody has any more, until its completions have come; see [`Inner::outlive`].
type Kept = RefCell<Option<Rc<Inner>>>;

/// How often a handler looks at requests that the workers should have seen to.
const COVER_INTERVAL: Duration = Duration::from_millis(1);

/// How often a sweep rings its doorbell again for what follows from completions. An access that is
/// refused takes two; beyond a few, the messages of others have waited long enough.
const RINGS_MAX: usize = 4;

// Between two looks at whether all is over; most of the time it is at the first.
pub(crate) const LEAVE_STEP: Duration = Duration::from_micros(5);
/// The same when leaving has taken longer than a hundred of these. Then it waits for something that
/// failed, as for a memory node that does not answer.
const LEAVE_STEP_MAX: Duration = Duration::from_millis(1);

pub(crate) struct Inner {
    role: Role,
    pub(crate) node: Arc<Node>,
    pub(crate) port: Rc<Port>,
    pub(crate) handle: Handle,
    pub(crate) epochs: Rc<EpochWorker>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) costs: Option<CpuCosts>,
    /// The numbers of what it sends; there until it ends.
    numbers: Option<Numbers>,
    inbox: Inbox,
    subscription: Subscription,
    /// Operations on words that are in flight, with their forwards.
    pub(crate) groups: RefCell<Slab<Group>>,
    /// Where evicted lines wait for their write-back.
    pub(crate) write_backs: WriteBackRing,
    /// Messages that are in flight.
    pub(crate) letters: RefCell<Slab<Sent>>,
    /// Whether a ticket was dropped since the last sweep: somebody may have waited for it.
    pub(crate) let_go: Cell<bool>,
    /// Lines to give back.
    pub(crate) releases: RefCell<Vec<GlobalAddr>>,
    /// Lines that came lately.
    pub(crate) lingering: RefCell<Lingering>,
    /// Accesses that wait for their lines.
    pub(crate) waiting: Cell<usize>,
    /// Copies to read that this worker bets on.
    pub(crate) bets: RefCell<VecDeque<GlobalAddr>>,
    /// For the lines that its transactions lock.
    pub(crate) permits: Permits,
    /// Whether anything becomes of a line when an access is over.
    pub(crate) minds_ends: bool,
    // Kept for their capacity.
    pub(crate) actions: RefCell<Vec<Action>>,
    pub(crate) victims: RefCell<Vec<GlobalAddr>>,
    completions: RefCell<Vec<(u64, Result<Outcome, VerbError>)>>,
    /// The worker is parked: not among the node's awake ones.
    parked: Cell<bool>,
    /// Completions were polled at the end of a sweep, since the last one began.
    polled_late: Cell<bool>,
    /// The alarm that the executor was last told of.
    reported: Cell<Option<Time>>,
    /// The deadline that the executor was last given has the node's [cover](crate::cover) in it.
    covers: Cell<bool>,
    /// The place at its poller, while that lives.
    kept: Weak<Kept>,
}

impl Worker {
    /// Starts a worker of `node` on the executor of `handle`, with its way into the fabric.
    pub fn start(node: &Arc<Node>, port: Rc<Port>, inbox: Inbox, handle: &Handle) -> Worker {
        Self::start_as(Role::Worker, node, port, inbox, handle)
    }

    /// Starts the worker that covers for the others: it runs no tasks, parks whenever it can, and
    /// is woken for messages that arrive while no other worker polls. Every node needs one.
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

    /// The worker's way into the fabric.
    pub fn port(&self) -> &Rc<Port> {
        &self.inner.port
    }

    /// Gives a line back to the pool now, as eviction would, unless it is in use or under way.
    /// Returns whether its release was posted. For whoever knows that the node is done with it.
    pub fn evict(&self, addr: GlobalAddr) -> bool {
        self.inner.node.geometry.is_line(addr) && self.inner.evict(addr)
    }

    /// Evicted lines whose bytes this worker has copied and not written back yet.
    pub fn write_backs(&self) -> usize {
        self.inner.write_backs.taken()
    }

    /// Waits for the worker's [finishers](Handle::spawn_finisher), and until nothing that this
    /// worker posted is in flight, each within the deadline. Then gives up its part in the node's
    /// epochs. To be awaited before the worker's thread ends: no other thread can take its
    /// completions. What clones post after it has returned is taken as long as the executor runs,
    /// whether they live or not.
    ///
    /// # Errors
    /// [`MemoryError::Stuck`] when that takes longer than the deadline; [`MemoryError::Fabric`]
    /// when the node may not touch memory any more, so that it cannot give up anything.
    pub async fn leave(self) -> Result<(), MemoryError> {
        let inner = &self.inner;
        let waited = inner.node.settings.deadline;
        let deadline = inner.handle.now() + waited;
        // The code that started them reports what they leave undone.
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
        // Whatever this worker would have looked at again is the handler's now.
        if let Some(handler) = &*self.node.handler.lock() {
            handler.notify();
        }
    }
}

impl Inner {
    /// What it posted and is in flight, or is about to post.
    fn unfinished(&self) -> usize {
        self.port.in_flight() + self.releases.borrow().len()
    }

    /// The last handle is about to go. An operation that is in flight has changed the line's word,
    /// or will; if nobody learned of it, the node's other workers would wait for its end and other
    /// nodes for an answer, all until their deadlines. So the poller keeps the worker until that
    /// has come.
    fn outlive(self: &Rc<Self>) {
        // Otherwise the executor has ended.
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

    /// When the first alarm of the node has to be looked at by this worker.
    ///
    /// While workers are awake, alarms are theirs: they look on every sweep, and whoever parks
    /// takes the first alarm along as its deadline; whoever leaves wakes the handler. A handler
    /// that woke for each would take the core from just those workers, and with more alarms in
    /// sight it would never rest. So it only covers for workers that are away for long, or that
    /// parked in the moment in which it set an alarm itself. When all are parked, the alarm is its
    /// own.
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
        // Also when only a future's batch completed: whoever drives that future without a waker has
        // to have another sweep before the worker parks.
        let any = self.port.poll(&mut |tag, result| completions.push((tag, result)));
        for (tag, result) in completions.drain(..) {
            self.completed(tag, result.map(|outcome| outcome.old[0]));
        }
        self.completions.replace(completions);
        any
    }

    /// Submits what was posted. Where batches complete as they are submitted, what follows from
    /// them is submitted in the same stroke: the question after a refused operation, the notice
    /// after a hand-over. It waits for no sweep; on other fabrics there is nothing to poll yet.
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

/// Looks for work on every sweep, as long as its worker lives.
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
            // Now rather than on the next sweep: the tasks of this one have had their turn.
            if inner.let_go.take() {
                inner.serve_blocked();
            }
            // So that what makes room leaves with what took it.
            inner.evict_if_short();
            inner.ring();
            if inner.unfinished() == 0 {
                // Mostly nobody. It goes when `inner` does: the place is free again by then.
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
        // A handler only covers for the workers, which look again when they let go of a line.
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
        // Whoever drives a future of the port without a waker has to have one more sweep.
        let seen = !inner.polled_late.get();
        let idle = seen && inner.port.may_park() && inner.releases.borrow().is_empty();
        // A worker that has just ended may have left an alarm behind since the handler looked. Its
        // word to the handler comes before that has announced that it parks, and this look, or
        // after.
        let missed = inner.role == Role::Handler
            && inner
                .next_alarm()
                .is_some_and(|alarm| inner.reported.get().is_none_or(|at| alarm < at));
        // A worker may have asked for cover since the deadline was computed. It stores the time
        // before it notifies, and this look comes after the announcement: so the handler meets one
        // of them.
        let uncovered = inner.role == Role::Handler
            && !inner.covers.get()
            && inner.node.cover.next(inner.handle.sweep_time()).is_some();
        if !idle || missed || uncovered || !inner.subscription.park() {
            return false;
        }
        inner.parked.set(true);
        inner.count_awake(-1);
        // Every worker comes here soon after it learns that its core is contended: it parks instead
        // of yielding.
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
