//! [`WorkerCore`]: the state of a worker under any protocol.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use latchwork_fabric::Port;
use latchwork_memnode::EpochWorker;
use latchwork_runtime::Handle;
use latchwork_verbs::{GlobalAddr, Target, VerbError, WorkRequest};
use slab::Slab;

use crate::costs::CpuCosts;
use crate::counters::WorkerCounters;
use crate::deduplicate::Numbers;
use crate::journal::WorkerJournal;
use crate::lines::{Node, WorkerLines};
use crate::messages::Sent;
use crate::node_core::NodeCore;
use crate::permits::Permits;
use crate::rounds::Mark;
use crate::tag::Tag;
use crate::write_back::WriteBackRing;

/// What a worker is for: tasks, or cover for the workers that run them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Worker,
    Handler,
}

/// The lines that a worker obtained last, the latest last. A line leaves when the worker has
/// obtained [`linger`](crate::NodeSettings::linger) later lines. The second field: the line is kept
/// although the line is contested ([`History`](crate::line_history::History)).
pub(crate) type RecentLines = VecDeque<(GlobalAddr, bool)>;

/// The state of a worker under any protocol: its port, its messages in flight, its counters, and
/// the state of its accesses. The protocol posts, sends and counts through this type.
pub struct WorkerCore {
    /// The node.
    pub node: Arc<NodeCore>,
    /// The node, with the door to its lines.
    pub(crate) of: Arc<Node>,
    /// The door to the lines: `Some` from the start of the worker until its last handle is dropped.
    pub(crate) lines: RefCell<Option<Rc<dyn WorkerLines>>>,
    /// The port that connects the worker to the fabric.
    pub port: Rc<Port>,
    /// The worker's runtime.
    pub handle: Handle,
    /// The worker's counters.
    pub counters: Arc<WorkerCounters>,
    pub(crate) costs: Option<CpuCosts>,
    /// Whether a hit does more than to read the frame: in a world it is charged, and where the node
    /// may not touch memory any more, it fails. One load, so other hits pay nothing for either.
    pub(crate) minds_hits: Cell<bool>,
    /// The worker's part in the cluster's epochs.
    pub(crate) epochs: Rc<EpochWorker>,
    /// The numbers of the worker's messages; `Some` until the worker ends.
    pub(crate) numbers: Option<Numbers>,
    /// The write-back slots of evicted lines.
    pub(crate) write_backs: WriteBackRing,
    /// The journal slots, if the death of the node can tear a write-back.
    pub(crate) journal: Option<WorkerJournal>,
    /// The messages in flight.
    pub(crate) letters: RefCell<Slab<Sent>>,
    /// Whether a ticket, a wait for a latch or a granted access was dropped since the last sweep. A
    /// request of another node may have waited for that drop.
    pub(crate) let_go: Cell<bool>,
    /// The lines that the next sweep releases.
    pub(crate) releases: RefCell<Vec<GlobalAddr>>,
    /// The lines that this worker obtained last.
    pub(crate) lingering: RefCell<RecentLines>,
    /// The number of accesses that wait for their lines.
    pub(crate) waiting: Cell<usize>,
    /// The shared copies with an open prediction of this worker.
    pub(crate) predictions: RefCell<VecDeque<GlobalAddr>>,
    /// The permits for the lines that the worker's transactions lock.
    pub(crate) permits: Permits,
    /// The latest step of a [round](crate::rounds) that this worker has met.
    pub(crate) marked: Cell<u64>,
    /// The same for other threads.
    pub(crate) mark: Arc<Mark>,
    /// Whether the end of an access decides about its line; see [`NodeCore::minds_ends`].
    pub(crate) minds_ends: bool,
}

impl WorkerCore {
    pub(crate) fn new(
        of: &Arc<Node>,
        node: &Arc<NodeCore>,
        port: Rc<Port>,
        handle: &Handle,
    ) -> WorkerCore {
        // A write-back in place needs a slot.
        let slots = node.settings.write_back_ring.max(usize::from(node.persists));
        WorkerCore {
            epochs: EpochWorker::start(&node.epochs, &port, handle),
            journal: node
                .journal
                .get()
                .and_then(|journal| WorkerJournal::new(journal, &port, node.cache.line_size())),
            node: node.clone(),
            of: of.clone(),
            lines: RefCell::default(),
            port,
            handle: handle.clone(),
            counters: node.new_counters(),
            costs: node.settings.costs,
            minds_hits: Cell::new(node.settings.costs.is_some()),
            numbers: Some(node.numbers.take()),
            write_backs: WriteBackRing::new(slots, node.cache.line_size()),
            letters: RefCell::default(),
            let_go: Cell::new(false),
            releases: RefCell::default(),
            lingering: RefCell::default(),
            waiting: Cell::new(0),
            predictions: RefCell::default(),
            permits: Permits::new(&node.lock_share),
            marked: Cell::new(node.rounds.number()),
            mark: node.rounds.new_mark(),
            minds_ends: node.minds_ends(),
        }
    }

    pub(crate) fn numbers(&self) -> &Numbers {
        self.numbers.as_ref().expect("there until the worker ends")
    }

    /// The number of batches in flight and of releases not yet posted.
    pub(crate) fn unfinished(&self) -> usize {
        self.port.in_flight() + self.releases.borrow().len()
    }

    /// Posts a batch of the protocol. The completion of the batch comes back with `tag`, which has
    /// at most 63 bits.
    #[inline]
    pub fn post(
        &self,
        target: Target,
        requests: &[WorkRequest],
        tag: u64,
    ) -> Result<(), VerbError> {
        self.port.post(target, requests, Tag::Protocol(tag).bits())
    }
}

impl Drop for WorkerCore {
    fn drop(&mut self) {
        if let Some(numbers) = self.numbers.take() {
            self.node.numbers.give_back(numbers);
        }
        self.permits.leave(&self.node.lock_share);
    }
}
