//! [`Inner`]: the state of one worker, which its handles, its tickets and its poller share.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};
use std::sync::Arc;

use latchwork_fabric::{Inbox, Port, Subscription};
use latchwork_latch::Action;
use latchwork_memnode::EpochWorker;
use latchwork_runtime::sync::Ordering;
use latchwork_runtime::{Handle, Time};
use latchwork_verbs::{GlobalAddr, Outcome, VerbError};
use slab::Slab;

use crate::costs::CpuCosts;
use crate::counters::WorkerCounters;
use crate::groups::Group;
use crate::letters::Sent;
use crate::node::Node;
use crate::permits::Permits;
use crate::repeats::Numbers;
use crate::write_back::WriteBackRing;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Worker,
    Handler,
}

/// A worker without a handle, kept until its completions have arrived; see [`Inner::outlive`].
pub(crate) type Kept = RefCell<Option<Rc<Inner>>>;

/// The recent lines of a worker, the latest last: they may be used again at once, until the worker
/// has obtained enough other lines. The second field: the line is kept although it is contested.
pub(crate) type Lingering = VecDeque<(GlobalAddr, bool)>;

pub(crate) struct Inner {
    pub(crate) role: Role,
    pub(crate) node: Arc<Node>,
    pub(crate) port: Rc<Port>,
    pub(crate) handle: Handle,
    pub(crate) epochs: Rc<EpochWorker>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) costs: Option<CpuCosts>,
    /// The numbers of the worker's messages; `Some` until the worker ends.
    pub(crate) numbers: Option<Numbers>,
    pub(crate) inbox: Inbox,
    pub(crate) subscription: Subscription,
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
    /// Whether the end of an access decides about its line; see
    /// `Settings::minds_ends`.
    pub(crate) minds_ends: bool,
    // Empty between calls; kept for their capacity.
    pub(crate) actions: RefCell<Vec<Action>>,
    pub(crate) victims: RefCell<Vec<GlobalAddr>>,
    pub(crate) completions: RefCell<Vec<(u64, Result<Outcome, VerbError>)>>,
    /// Whether the worker is parked, so that the node does not count it as awake.
    pub(crate) parked: Cell<bool>,
    /// Whether completions were polled at the end of a sweep, since the last sweep began.
    pub(crate) polled_late: Cell<bool>,
    /// The alarm in the deadline that the executor got last.
    pub(crate) reported: Cell<Option<Time>>,
    /// Whether the deadline that the executor got last includes the node's [cover](crate::cover).
    pub(crate) covers: Cell<bool>,
    /// The slot of the poller that can keep this worker, while the poller lives.
    pub(crate) kept: Weak<Kept>,
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
    /// Makes the state of a worker that starts. `kept` is the slot of its poller.
    pub(crate) fn new(
        role: Role,
        node: &Arc<Node>,
        port: Rc<Port>,
        inbox: Inbox,
        handle: &Handle,
        kept: &Rc<Kept>,
    ) -> Rc<Inner> {
        if role == Role::Handler {
            *node.handler.lock() = Some(handle.notifier());
        }
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
            minds_ends: node.settings.minds_ends(),
            actions: RefCell::default(),
            victims: RefCell::default(),
            completions: RefCell::default(),
            parked: Cell::new(false),
            polled_late: Cell::new(false),
            reported: Cell::new(None),
            covers: Cell::new(false),
            kept: Rc::downgrade(kept),
        });
        inner.count_awake(1);
        if role == Role::Worker {
            node.workers.fetch_add(1, Ordering::Relaxed);
        }
        inner
    }

    /// The number of batches in flight and of releases not yet posted.
    pub(crate) fn unfinished(&self) -> usize {
        self.port.in_flight() + self.releases.borrow().len()
    }

    /// Keeps the worker alive after its last handle is dropped.
    ///
    /// 1. An operation in flight has changed the latch word of its line, or will change it.
    /// 2. If no worker took the completion, the node's other workers would wait for the end of the
    ///    operation, and other nodes would wait for an answer. All would wait until their
    ///    deadlines.
    /// 3. So the poller keeps the worker until the completion has arrived.
    pub(crate) fn outlive(self: &Rc<Self>) {
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

    pub(crate) fn count_awake(&self, change: isize) {
        if self.role == Role::Worker {
            self.node.awake.fetch_add(change as usize, Ordering::Relaxed);
        }
    }
}
