//! [`Node`]: the state that the workers of one compute node share.

use std::sync::{Arc, OnceLock};

use latchwork_cache::Cache;
use latchwork_coherence::MailBox;
use latchwork_latch::Rules;
use latchwork_memnode::{Epochs, Geometry, LineAllocator};
use latchwork_runtime::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use latchwork_runtime::{Notifier, Time};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, RegionKey};

use crate::blocked::Blocked;
use crate::counters::{Counters, WorkerCounters};
use crate::cover::Cover;
use crate::frames::{FrameWaiters, Reserve};
use crate::history::History;
use crate::permits::Share;
use crate::record::{RecordTable, Records};
use crate::repeats::{NumberPool, Seen};
use crate::settings::Settings;
use crate::timers::Timers;

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
    /// Decides when freed lines may be used again.
    pub epochs: Arc<Epochs>,
    /// Settings.
    pub settings: Settings,
}

/// A compute node: its cache and the records of its lines. All workers of the node share it.
pub struct Node {
    pub(crate) id: ComputeNodeId,
    pub(crate) cache: Cache,
    pub(crate) arena: RegionKey,
    pub(crate) geometry: Geometry,
    pub(crate) allocator: Arc<LineAllocator>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) settings: Settings,
    /// The rules of the line machines, from the settings.
    pub(crate) rules: Rules,
    pub(crate) reserve: Reserve,
    pub(crate) records: RecordTable,
    /// The history of lines that other nodes take.
    pub(crate) history: History,
    pub(crate) timers: Timers,
    pub(crate) blocked: Blocked,
    pub(crate) frame_waiters: FrameWaiters,
    /// The number of evictions that free their frame when their release is complete.
    pub(crate) releasing: AtomicUsize,
    /// The bound on the lines that transactions lock.
    pub(crate) lock_share: Share,
    /// The number of lines that readers without a wait for locks have requested, or were refused.
    /// Such lines keep their frames until the lock ends.
    pub(crate) refused: AtomicUsize,
    /// The message numbers that have arrived.
    pub(crate) seen: Seen,
    pub(crate) numbers: NumberPool,
    /// Receives the user messages.
    pub(crate) mail_box: OnceLock<MailBox>,
    /// Wakes the handler.
    pub(crate) handler: Mutex<Option<Notifier>>,
    /// The number of workers that are not parked, without the handler.
    pub(crate) awake: AtomicUsize,
    /// The handler cover.
    pub(crate) cover: Cover,
    /// The number of workers, without the handler.
    pub(crate) workers: AtomicUsize,
    /// The nodes that are dead or have left, one bit for each, until a poll has failed the lines
    /// that wait for them.
    pub(crate) missed: AtomicU64,
    /// The nodes that are dead or have left, one bit for each, until another node of that id is
    /// admitted.
    gone: AtomicU64,
    counters: Mutex<Vec<Arc<WorkerCounters>>>,
}

/// The bit of a node in [`Node::missed`].
pub(crate) fn bit(node: ComputeNodeId) -> u64 {
    1 << node.index()
}

impl Node {
    /// Builds a node from its parts.
    pub fn new(parts: NodeParts) -> Arc<Node> {
        Arc::new(Node {
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
            mail_box: OnceLock::new(),
            rules: parts.settings.rules(),
            settings: parts.settings,
            records: RecordTable::new(),
            timers: Timers::new(),
            blocked: Blocked::default(),
            frame_waiters: FrameWaiters::default(),
            releasing: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            handler: Mutex::new(None),
            awake: AtomicUsize::new(0),
            cover: Cover::default(),
            workers: AtomicUsize::new(0),
            missed: AtomicU64::new(0),
            gone: AtomicU64::new(0),
            counters: Mutex::new(Vec::new()),
        })
    }

    /// The node's id.
    pub fn id(&self) -> ComputeNodeId {
        self.id
    }

    /// The frames of the node.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// The allocator of lines.
    pub fn allocator(&self) -> &Arc<LineAllocator> {
        &self.allocator
    }

    /// The node's part in the cluster's epochs.
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// The number of lines that transactions have locked.
    pub fn locked_lines(&self) -> usize {
        self.lock_share.locked()
    }

    /// The counts of all workers of the node.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.counters.lock().iter().for_each(|worker| sum.add_worker(worker));
        sum
    }

    /// Whether this line has a record: see [`Node::lines_under_way`]. An evicted line keeps its
    /// record after it has left its frame, until its changes have arrived in memory.
    pub fn is_under_way(&self, line: GlobalAddr) -> bool {
        self.records.shard(line).lock().contains_key(&line)
    }

    /// The number of lines with a record: lines that are being obtained, released or requested.
    /// Zero on a node at rest.
    pub fn lines_under_way(&self) -> usize {
        self.records.len()
    }

    /// The number of frames of failed lines. Such a frame serves no other line, because an answer
    /// to an invalidation request may still be written into it.
    pub fn lost_frames(&self) -> usize {
        let lost = |shard: &Mutex<Records>| {
            let records = shard.lock();
            records.values().filter(|r| r.failed.is_some() && r.frame.is_some()).count()
        };
        self.records.shards().map(lost).sum()
    }

    /// Forgets the earlier compute node of this id, before another node of the id sends a message
    /// here. The new node starts its message numbers anew. No message of the earlier node may still
    /// be in flight.
    pub fn forget(&self, peer: ComputeNodeId) {
        self.seen.forget(peer);
        self.gone.fetch_and(!bit(peer), Ordering::Relaxed);
    }

    /// Whether this node knows that the compute node is dead or has left, so that no request to it
    /// is of use.
    pub(crate) fn is_gone(&self, peer: ComputeNodeId) -> bool {
        // Relaxed: a worker that does not see the bit yet sends a request, and the request fails.
        self.gone.load(Ordering::Relaxed) & bit(peer) != 0
    }

    /// Reports that a compute node is dead or has left: it answers nothing any more, and verbs to
    /// it fail already.
    ///
    /// Lines with a request to that node fail as if the request had failed, and the waiters of
    /// these lines end with an error. A node after a graceful leave held nothing: its [release of
    /// all lines](crate::Worker::give_back) waited until no latch word named the node and no
    /// request was queued at the node.
    ///
    /// The report takes effect when [`minds`](Node::minds) returns false for the node.
    pub fn miss(&self, peer: ComputeNodeId) {
        self.gone.fetch_or(bit(peer), Ordering::Relaxed);
        // Release ordering: a worker that sees the bit posts nothing to the peer that could arrive.
        self.missed.fetch_or(bit(peer), Ordering::Release);
        if let Some(handler) = &*self.handler.lock() {
            handler.notify();
        }
    }

    /// Whether a report of [`miss`](Node::miss) about `peer` has not taken effect yet.
    pub fn minds(&self, peer: ComputeNodeId) -> bool {
        self.missed.load(Ordering::Acquire) & bit(peer) != 0
    }

    /// Requests handler cover: a worker finds at `now` that other programs want its core until
    /// `until`.
    pub(crate) fn cover(&self, now: Time, until: Time) {
        if self.cover.extend(now, until)
            && let Some(handler) = &*self.handler.lock()
        {
            handler.notify();
        }
    }

    /// The number of workers. A worker that starts or ends at this moment may be counted or not.
    pub(crate) fn workers(&self) -> u32 {
        self.workers.load(Ordering::Relaxed) as u32
    }

    pub(crate) fn new_counters(&self) -> Arc<WorkerCounters> {
        let counters = Arc::new(WorkerCounters::default());
        self.counters.lock().push(counters.clone());
        counters
    }
}
