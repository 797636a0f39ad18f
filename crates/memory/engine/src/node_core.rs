//! [`NodeCore`]: the state that the workers of one compute node share under any protocol.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use latchwork_cache::{Cache, FrameId};
use latchwork_coherence::MessageHandler;
use latchwork_memnode::{Epochs, Geometry, Journal, LineAllocator};
use latchwork_runtime::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use latchwork_runtime::{Notifier, Time};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, LocalBuffer, RegionKey};

use crate::alarms::Timers;
use crate::blocked::Blocked;
use crate::cleaner::Cleaner;
use crate::counters::{Counters, WorkerCounters};
use crate::deduplicate::{NumberPool, Seen};
use crate::frames::{FrameWaiters, Reserve};
use crate::gone::{Gone, bit, signature};
use crate::handler_cover::HandlerCover;
use crate::in_place::WriteBacks;
use crate::line_history::History;
use crate::permits::Share;
use crate::rounds::Rounds;
use crate::settings::{NodeSettings, Release};

/// The parts of a node.
#[derive(Debug)]
pub struct NodeParts {
    /// The node's id.
    pub id: ComputeNodeId,
    /// The frames of the node.
    pub cache: Cache,
    /// The key under which the cache's arena was registered with the fabric. Other nodes forward
    /// into the arena, so the key is the same on all nodes.
    pub arena: RegionKey,
    /// The division of the pool into lines.
    pub geometry: Geometry,
    /// Allocates lines.
    pub allocator: Arc<LineAllocator>,
    /// The node's part in the reclamation epochs, which decide when freed lines are reused.
    pub epochs: Arc<Epochs>,
    /// Settings.
    pub settings: NodeSettings,
}

/// The state that the workers of a compute node share under any protocol. [`Node`](crate::Node)
/// adds the protocol and the line records.
pub struct NodeCore {
    pub(crate) id: ComputeNodeId,
    pub(crate) cache: Cache,
    pub(crate) arena: RegionKey,
    pub(crate) geometry: Geometry,
    pub(crate) allocator: Arc<LineAllocator>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) settings: NodeSettings,
    /// Whether the node keeps a line after the access, until another node requests the line or its
    /// frame is needed (SELCC 4.1).
    pub(crate) lazy_release: bool,
    /// Whether a writer clears all shared copies of a line with one operation.
    pub(crate) clears_copies_at_once: bool,
    pub(crate) reserve: Reserve,
    /// The history of lines that other nodes take.
    pub(crate) history: History,
    pub(crate) timers: Timers,
    pub(crate) blocked: Blocked,
    pub(crate) frame_waiters: FrameWaiters,
    /// The number of evicted lines that still keep their frames, until their releases are complete.
    pub(crate) releasing: AtomicUsize,
    /// The bound on the lines that transactions lock.
    pub(crate) lock_share: Share,
    /// The number of lines that accesses without a wait for locks have requested, and that keep
    /// their frames until the lock ends if the access is refused. So
    /// [`may_be_refused`](crate::inner::Inner::may_be_refused) bounds this number.
    pub(crate) refused: AtomicUsize,
    /// The message numbers that have arrived.
    pub(crate) seen: Seen,
    pub(crate) numbers: NumberPool,
    /// Receives the user messages.
    pub(crate) message_handler: OnceLock<MessageHandler>,
    /// Wakes the handler.
    pub(crate) handler: Mutex<Option<Notifier>>,
    /// The number of workers that are not parked, without the handler.
    pub(crate) awake: AtomicUsize,
    /// The handler cover.
    pub(crate) cover: HandlerCover,
    /// The number of workers, without the handler.
    pub(crate) workers: AtomicUsize,
    /// The nodes that are dead or have left.
    pub(crate) gone: Gone,
    /// The member epoch of this node.
    member_epoch: AtomicU64,
    /// The rounds by which the node lets go of dead nodes.
    pub(crate) rounds: Rounds,
    /// The journal slots, if the death of the node can tear a write-back.
    pub(crate) journal: OnceLock<Arc<Journal>>,
    /// Whether [`CoherentMemory::persist`](latchwork_coherence::CoherentMemory::persist) does
    /// anything.
    pub(crate) persists: bool,
    /// The write-backs in place in flight.
    pub(crate) write_backs_in_place: WriteBacks,
    /// Writes lines back that have been dirty for long.
    pub(crate) cleaner: Option<Cleaner>,
    counters: Mutex<Vec<Arc<WorkerCounters>>>,
}

impl NodeCore {
    /// Builds the core of a node from its parts. The flags are those of the protocol. `persists`:
    /// see [`CoherenceProtocol::persists`](crate::CoherenceProtocol::persists).
    pub(crate) fn new(
        parts: NodeParts,
        lazy_release: bool,
        clears_copies_at_once: bool,
        persists: Option<Duration>,
    ) -> NodeCore {
        NodeCore {
            persists: persists.is_some(),
            write_backs_in_place: WriteBacks::default(),
            cleaner: persists.and_then(|interval| Cleaner::new(interval, parts.cache.capacity())),
            id: parts.id,
            history: History::new(parts.cache.capacity()),
            lock_share: Share::new(parts.cache.capacity() / parts.settings.lock_share.max(1)),
            reserve: Reserve::new(parts.cache.capacity(), &parts.settings),
            cache: parts.cache,
            arena: parts.arena,
            geometry: parts.geometry,
            allocator: parts.allocator,
            epochs: parts.epochs,
            seen: Seen::new(parts.settings.gaps_max),
            numbers: NumberPool::default(),
            message_handler: OnceLock::new(),
            lazy_release,
            clears_copies_at_once,
            settings: parts.settings,
            timers: Timers::new(),
            blocked: Blocked::default(),
            frame_waiters: FrameWaiters::default(),
            releasing: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            handler: Mutex::new(None),
            awake: AtomicUsize::new(0),
            cover: HandlerCover::default(),
            workers: AtomicUsize::new(0),
            gone: Gone::default(),
            member_epoch: AtomicU64::new(1),
            rounds: Rounds::default(),
            journal: OnceLock::new(),
            counters: Mutex::new(Vec::new()),
        }
    }

    /// The node's id.
    #[inline]
    pub fn id(&self) -> ComputeNodeId {
        self.id
    }

    /// The frames of the node.
    #[inline]
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The key of the cache's arena, which is the same on all nodes.
    #[inline]
    pub fn arena(&self) -> RegionKey {
        self.arena
    }

    /// The line in a frame, as a buffer in the arena.
    #[inline]
    pub fn buffer(&self, id: FrameId) -> LocalBuffer {
        self.cache.buffer(id, self.arena)
    }

    /// The division of the pool into lines.
    #[inline]
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The settings.
    #[inline]
    pub fn settings(&self) -> &NodeSettings {
        &self.settings
    }

    /// The alarms.
    #[inline]
    pub fn timers(&self) -> &Timers {
        &self.timers
    }

    /// Whether this node knows that the compute node is dead or has left, so that no request to it
    /// is of use.
    #[inline]
    pub fn is_gone(&self, peer: ComputeNodeId) -> bool {
        self.gone.contains(peer)
    }

    /// The allocator of lines.
    #[inline]
    pub fn allocator(&self) -> &Arc<LineAllocator> {
        &self.allocator
    }

    /// The node's part in the cluster's epochs.
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// Gives the node its journal slots, before its first worker starts. A second call has no
    /// effect.
    pub fn set_journal(&self, journal: Journal) {
        // Only a second call fails.
        let _ = self.journal.set(Arc::new(journal));
    }

    /// The journal slots of the node, if it has any.
    pub fn journal(&self) -> Option<&Arc<Journal>> {
        self.journal.get()
    }

    /// Sets the member epoch, before the first worker starts. A node of a cluster in one process
    /// has 1: there no id is used again.
    pub fn set_member_epoch(&self, member_epoch: u64) {
        self.member_epoch.store(member_epoch, Ordering::Relaxed);
        // The earlier holders of the id have ended, otherwise this node would not have it.
        self.gone.end_before(self.id, member_epoch);
    }

    /// The member epoch.
    pub fn member_epoch(&self) -> u64 {
        self.member_epoch.load(Ordering::Relaxed)
    }

    pub(crate) fn signature(&self) -> u64 {
        signature(self.id, self.member_epoch())
    }

    /// Reports that all nodes have ended that had this id before the member epoch: nothing of them
    /// can have an effect any more, and their lines are recovered.
    pub fn end_before(&self, node: ComputeNodeId, member_epoch: u64) {
        self.gone.end_before(node, member_epoch);
    }

    /// The number of lines that transactions have locked.
    pub fn locked_lines(&self) -> usize {
        self.lock_share.locked()
    }

    /// The counts of all present and past workers of the node.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.counters.lock().iter().for_each(|worker| sum.add_worker(worker));
        sum
    }

    /// Forgets the earlier compute node of this id, before another node of the id sends a message
    /// here. The new node starts its message numbers anew. No message of the earlier node may still
    /// be in flight.
    pub fn forget(&self, peer: ComputeNodeId) {
        self.seen.forget(peer);
        self.gone.forget(peer);
    }

    /// Reports that a compute node is dead or has left. The caller ensures that this peer answers
    /// nothing any more, and that verbs to this peer fail already.
    ///
    /// Lines with a request to that node fail as if the request had failed, and the waiters of
    /// these lines end with an error. A node that has left gracefully owns no line: its [release of
    /// all lines](crate::Worker::give_back) waited until it owned no line and had no queued
    /// request.
    ///
    /// The report takes effect when [`minds`](NodeCore::minds) returns false for the node.
    pub fn miss(&self, peer: ComputeNodeId) {
        self.gone.miss(peer);
        self.wake_handler();
    }

    pub(crate) fn wake_handler(&self) {
        if let Some(handler) = &*self.handler.lock() {
            handler.notify();
        }
    }

    /// The nodes that are dead or have left, as bits: bit id-1 for each.
    #[inline]
    pub fn gone(&self) -> u64 {
        self.gone.bits()
    }

    /// The step of a [round](crate::Node::let_go) for what is posted now.
    #[inline]
    pub fn step(&self) -> u64 {
        self.rounds.number()
    }

    /// Whether this node lets go of a dead node: it sends no requests and queues none.
    #[inline]
    pub fn is_quiet(&self) -> bool {
        self.rounds.is_quiet()
    }

    /// The dead nodes that this node may take out of latch words, as bits: bit id-1 for each; see
    /// [`Node::let_mend`](crate::Node::let_mend).
    #[inline]
    pub fn mendable(&self) -> u64 {
        self.rounds.mendable()
    }

    /// Begins to take `dead` out of the latch word of a line, until
    /// [`end_mend`](NodeCore::end_mend). Returns false if the node may not do so any more, or
    /// another worker does.
    pub fn begin_mend(&self, line: GlobalAddr, dead: ComputeNodeId) -> bool {
        self.rounds.begin_mend(line, bit(dead))
    }

    /// Ends what [`begin_mend`](NodeCore::begin_mend) began: no verb of it is in flight.
    pub fn end_mend(&self, line: GlobalAddr) {
        self.rounds.end_mend(line);
    }

    /// Whether a report of [`miss`](NodeCore::miss) about `peer` has not taken effect yet.
    pub fn minds(&self, peer: ComputeNodeId) -> bool {
        self.gone.minds(peer)
    }

    /// Whether lines are released early by their history.
    pub(crate) fn adapts(&self) -> bool {
        self.lazy_release && self.settings.release == Release::Adaptive
    }

    /// Whether the node decides at the end of an access whether to keep the line that the access
    /// obtained.
    pub(crate) fn minds_ends(&self) -> bool {
        !self.lazy_release || self.adapts()
    }

    /// Requests [handler cover](crate::handler_cover): at `now` a worker finds that its core is
    /// contended, and assumes so until `until`.
    pub(crate) fn cover(&self, now: Time, until: Time) {
        if self.cover.extend(now, until)
            && let Some(handler) = &*self.handler.lock()
        {
            handler.notify();
        }
    }

    /// The number of workers. A worker that starts or ends at this moment may be counted or not.
    #[inline]
    pub fn workers(&self) -> u32 {
        self.workers.load(Ordering::Relaxed) as u32
    }

    pub(crate) fn new_counters(&self) -> Arc<WorkerCounters> {
        let counters = Arc::new(WorkerCounters::default());
        self.counters.lock().push(counters.clone());
        counters
    }
}
