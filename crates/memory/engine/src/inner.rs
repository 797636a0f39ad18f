//! [`Inner`]: the state of one worker, which its handles, its tickets and its poller share.

use std::cell::{Cell, RefCell};
use std::rc::{Rc, Weak};
use std::sync::Arc;

use latchwork_fabric::{AnyInbox, AnySubscription, Port};
use latchwork_runtime::sync::Ordering;
use latchwork_runtime::{Handle, Time};
use latchwork_strict::strict_assert;
use latchwork_verbs::{AtomicOutcome, GlobalAddr, VerbError};

use crate::lines::Node;
use crate::node::CoherenceNode;
use crate::node_core::NodeCore;
use crate::protocol::{CoherenceProtocol, LineSite};
use crate::record::Record;
use crate::worker_core::{Role, WorkerCore};

/// A worker without a handle, kept until its completions have arrived; see [`Inner::outlive`].
pub(crate) type Kept<P> = RefCell<Option<Rc<Inner<P>>>>;

pub(crate) struct Inner<P: CoherenceProtocol> {
    pub(crate) core: Rc<WorkerCore>,
    pub(crate) node: Arc<CoherenceNode<P>>,
    /// The node's part under any protocol, which every step reads.
    pub(crate) node_core: Arc<NodeCore>,
    /// The protocol's operations of this worker in flight.
    pub(crate) in_flight: P::InFlight,
    pub(crate) role: Role,
    pub(crate) inbox: AnyInbox,
    pub(crate) subscription: AnySubscription,
    // Empty between calls; kept for their capacity.
    pub(crate) victims: RefCell<Vec<GlobalAddr>>,
    pub(crate) completions: RefCell<Vec<(u64, Result<AtomicOutcome, VerbError>)>>,
    /// Whether the worker is parked, so that the node does not count it as awake.
    pub(crate) parked: Cell<bool>,
    /// Whether completions were polled at the end of the last sweep, after its doorbell.
    pub(crate) polled_late: Cell<bool>,
    /// The alarm in the deadline that the executor got last.
    pub(crate) reported: Cell<Option<Time>>,
    /// Whether the deadline that the executor got last includes the node's
    /// [cover](crate::handler_cover).
    pub(crate) covers: Cell<bool>,
    /// The slot of the poller that can keep this worker, while the poller lives.
    pub(crate) kept: Weak<Kept<P>>,
}

impl<P: CoherenceProtocol> Drop for Inner<P> {
    fn drop(&mut self) {
        let node = &self.node_core;
        if !self.parked.get() {
            self.count_awake(-1);
        }
        if self.role == Role::Worker {
            node.workers.fetch_sub(1, Ordering::Relaxed);
        }
        // The handler takes over the alarms and requests that this worker would have served.
        if let Some(handler) = &*node.handler.lock() {
            handler.notify();
        }
    }
}

impl<P: CoherenceProtocol> Inner<P> {
    /// Makes the state of a worker that starts. `kept` is the slot of its poller.
    pub(crate) fn new(
        role: Role,
        (of, node): (&Arc<Node>, &Arc<CoherenceNode<P>>),
        port: Rc<Port>,
        inbox: AnyInbox,
        handle: &Handle,
        kept: &Rc<Kept<P>>,
    ) -> Rc<Inner<P>> {
        if role == Role::Handler {
            *node.handler.lock() = Some(handle.notifier());
        }
        let inner = Rc::new(Inner {
            core: Rc::new(WorkerCore::new(of, &node.core, port, handle)),
            node: node.clone(),
            node_core: node.core.clone(),
            in_flight: P::InFlight::default(),
            role,
            subscription: inbox.subscribe(handle.notifier()),
            inbox,
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

    /// The line of this record at this worker, for a step of the protocol.
    #[inline]
    pub(crate) fn site<'a>(
        &'a self,
        addr: GlobalAddr,
        record: &'a mut Record<P::Line>,
    ) -> LineSite<'a, P> {
        let Record { line, local } = record;
        LineSite { worker: &self.core, in_flight: &self.in_flight, addr, line, local }
    }

    /// Keeps the worker alive after its last handle is dropped.
    ///
    /// 1. An operation in flight has changed the owners of its line, or will change them.
    /// 2. If no worker took the completion, the node's other workers would wait for the end of the
    ///    operation, and other nodes would wait for an answer. All would wait until their
    ///    deadlines.
    /// 3. So the poller keeps the worker until the completion has arrived.
    pub(crate) fn outlive(self: &Rc<Self>) {
        // The upgrade fails only if the executor has ended.
        if self.core.unfinished() > 0
            && let Some(kept) = self.kept.upgrade()
        {
            kept.replace(Some(Rc::clone(self)));
        }
    }

    pub(crate) fn count_awake(&self, change: isize) {
        if self.role == Role::Worker {
            let awake = self.node_core.awake.fetch_add(change as usize, Ordering::Relaxed);
            // A worker that ends calls this, also while its thread unwinds.
            strict_assert!(
                change > 0 || awake > 0 || std::thread::panicking(),
                "a worker falls asleep twice"
            );
        }
    }
}
