//! [`Node`]: what the workers of one compute node share.

use std::sync::{Arc, OnceLock};
use std::task::Waker;

use latchwork_cache::Cache;
use latchwork_coherence::MailBox;
use latchwork_latch::Rules;
use latchwork_memnode::{Epochs, Geometry, LineAllocator};
use latchwork_runtime::sync::{AtomicU64, AtomicUsize, Mutex, Ordering, fence};
use latchwork_runtime::{Notifier, Time};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, RegionKey};

use crate::Settings;
use crate::counters::{Counters, WorkerCounters};
use crate::cover::Cover;
use crate::history::History;
use crate::lock::Share;
use crate::record::{RecordTable, Records};
use crate::repeats::{NumberPool, Seen};
use crate::timers::Timers;

#[cfg(all(test, loom))]
mod interleavings;

/// What a node is made of.
#[derive(Debug)]
pub struct NodeParts {
    /// The node's id.
    pub id: ComputeNodeId,
    /// Its frames.
    pub cache: Cache,
    /// The key under which the cache's arena was registered with the fabric. Other nodes forward
    /// into it, so it is the same on all nodes.
    pub arena: RegionKey,
    /// How the pool is divided into lines.
    pub geometry: Geometry,
    /// Allocates lines.
    pub allocator: Arc<LineAllocator>,
    /// Tells when freed lines may be used again.
    pub epochs: Arc<Epochs>,
    /// Settings.
    pub settings: Settings,
}

/// A compute node: its cache, and the lines that are under way. Shared by its workers.
pub struct Node {
    pub(crate) id: ComputeNodeId,
    pub(crate) cache: Cache,
    pub(crate) arena: RegionKey,
    pub(crate) geometry: Geometry,
    pub(crate) allocator: Arc<LineAllocator>,
    pub(crate) epochs: Arc<Epochs>,
    pub(crate) settings: Settings,
    /// What the settings say of the lines' machines.
    pub(crate) rules: Rules,
    pub(crate) reserve: Reserve,
    pub(crate) records: RecordTable,
    /// Which lines others take away.
    pub(crate) history: History,
    pub(crate) timers: Timers,
    pub(crate) blocked: Blocked,
    pub(crate) frame_waiters: FrameWaiters,
    /// Evictions whose release has not completed.
    pub(crate) releasing: AtomicUsize,
    /// How many lines transactions may lock.
    pub(crate) lock_share: Share,
    /// Lines that are asked for by readers that do not wait for locks, and such that were refused
    /// to them: these keep their frames until the lock ends.
    pub(crate) refused: AtomicUsize,
    /// Which messages have arrived.
    pub(crate) seen: Seen,
    pub(crate) numbers: NumberPool,
    /// Gets what is none of the protocol's.
    pub(crate) mail_box: OnceLock<MailBox>,
    /// Wakes the handler.
    pub(crate) handler: Mutex<Option<Notifier>>,
    /// Workers, the handler not counted, that are not parked.
    pub(crate) awake: AtomicUsize,
    /// Until when the handler polls beside them.
    pub(crate) cover: Cover,
    /// Workers, the handler not counted.
    pub(crate) workers: AtomicUsize,
    /// Nodes that are gone, a bit for each, until whoever polls has seen to it.
    pub(crate) missed: AtomicU64,
    /// Nodes that are gone, a bit for each, until another one of that id is let in.
    gone: AtomicU64,
    counters: Mutex<Vec<Arc<WorkerCounters>>>,
}

/// The bit of a node in [`Node::missed`].
pub(crate) fn bit(node: ComputeNodeId) -> u64 {
    1 << node.index()
}

/// How many frames eviction keeps free, besides those that accesses wait for.
pub(crate) struct Reserve {
    /// So many, when it is at it.
    pub(crate) wanted: usize,
    /// With so many it does not begin: not as soon as one is missing, since to choose among many
    /// costs less for each that is chosen.
    pub(crate) enough: usize,
}

impl Reserve {
    fn new(frames: usize, settings: &Settings) -> Reserve {
        let (share, batch) = (settings.evict_share.max(1), settings.evict_batch.max(1));
        if batch == 1 {
            // Not ahead: only for accesses that wait for a frame.
            return Reserve { wanted: 0, enough: 0 };
        }
        let wanted = (frames / share).clamp(1, batch * 8);
        Reserve { wanted, enough: wanted - (wanted / 2).min(batch) }
    }
}

impl Node {
    /// Puts a node together.
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

    /// Its frames.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Where its lines come from.
    pub fn allocator(&self) -> &Arc<LineAllocator> {
        &self.allocator
    }

    /// Its part in the cluster's epochs.
    pub fn epochs(&self) -> &Arc<Epochs> {
        &self.epochs
    }

    /// How many lines transactions have locked.
    pub fn locked_lines(&self) -> usize {
        self.lock_share.locked()
    }

    /// What its workers counted.
    pub fn counters(&self) -> Counters {
        let mut sum = Counters::default();
        self.counters.lock().iter().for_each(|worker| sum.add_worker(worker));
        sum
    }

    /// Whether this line is under way: see [`Node::lines_under_way`]. What was evicted has left its
    /// frame before, but has not arrived in memory.
    pub fn is_under_way(&self, line: GlobalAddr) -> bool {
        self.records.shard(line).lock().contains_key(&line)
    }

    /// How many lines are under way: being obtained, given up, or asked for. Zero on a node at
    /// rest.
    pub fn lines_under_way(&self) -> usize {
        self.records.len()
    }

    /// How many frames lines keep that this node has given up, since an answer to a question about
    /// them may still be written there.
    pub fn lost_frames(&self) -> usize {
        let lost = |shard: &Mutex<Records>| {
            let records = shard.lock();
            records.values().filter(|r| r.failed.is_some() && r.frame.is_some()).count()
        };
        self.records.shards().map(lost).sum()
    }

    /// Forgets a compute node that has left, before another one of that id sends a message here:
    /// that one counts its messages anew. Nothing that the old one has sent may still be on its
    /// way.
    pub fn forget(&self, peer: ComputeNodeId) {
        self.seen.forget(peer);
        self.gone.fetch_and(!bit(peer), Ordering::Relaxed);
    }

    /// Whether this compute node is gone, as far as this node was told, so that it need not be
    /// asked for anything.
    pub(crate) fn is_gone(&self, peer: ComputeNodeId) -> bool {
        // Relaxed: whoever does not see it yet asks, and the question fails.
        self.gone.load(Ordering::Relaxed) & bit(peer) != 0
    }

    /// Says that a compute node is gone: it answers nothing any more, and verbs to it fail already.
    /// Lines for which it was asked cannot be had any more, as if the question had failed; accesses
    /// that wait for them end with an error. A node that has left in order held nothing, and was
    /// asked nothing by [operations](crate::Worker::give_back) that it waited for.
    ///
    /// It takes effect when [`minds`](Node::minds) is false for it.
    pub fn miss(&self, peer: ComputeNodeId) {
        self.gone.fetch_or(bit(peer), Ordering::Relaxed);
        // Release: whoever sees the bit posts nothing to the peer that could arrive.
        self.missed.fetch_or(bit(peer), Ordering::Release);
        if let Some(handler) = &*self.handler.lock() {
            handler.notify();
        }
    }

    /// Whether it is still to be seen to that `peer` is [missed](Node::miss).
    pub fn minds(&self, peer: ComputeNodeId) -> bool {
        self.missed.load(Ordering::Acquire) & bit(peer) != 0
    }

    /// A worker finds at `now` that other programs want its core until then.
    pub(crate) fn cover(&self, now: Time, until: Time) {
        if self.cover.extend(now, until)
            && let Some(handler) = &*self.handler.lock()
        {
            handler.notify();
        }
    }

    /// How many workers it has. One that comes or goes this very moment may not be counted right.
    pub(crate) fn workers(&self) -> u32 {
        self.workers.load(Ordering::Relaxed) as u32
    }

    pub(crate) fn new_counters(&self) -> Arc<WorkerCounters> {
        let counters = Arc::new(WorkerCounters::default());
        self.counters.lock().push(counters.clone());
        counters
    }
}

/// Lines whose remembered requests wait for local code.
#[derive(Default)]
pub(crate) struct Blocked {
    lines: Mutex<Vec<GlobalAddr>>,
    count: AtomicUsize,
}

impl Blocked {
    pub(crate) fn add(&self, addr: GlobalAddr) {
        let mut lines = self.lines.lock();
        lines.push(addr);
        self.count.store(lines.len(), Ordering::Relaxed);
    }

    /// Takes them all.
    pub(crate) fn take(&self) -> Vec<GlobalAddr> {
        if self.is_empty() {
            return Vec::new();
        }
        let mut lines = self.lines.lock();
        self.count.store(0, Ordering::Relaxed);
        std::mem::take(&mut *lines)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }
}

/// Accesses that wait for a free frame.
///
/// No wake is lost: whoever waits counts, then looks at the free list; whoever frees a frame puts
/// it into the list, then looks at the count; each with a full fence between the two. The fences
/// are ordered one way or the other, and the second to come sees what the first has done.
#[derive(Default)]
pub(crate) struct FrameWaiters {
    wakers: Mutex<Vec<Waker>>,
    count: AtomicUsize,
}

impl FrameWaiters {
    /// To be called before the last look at the free list.
    pub(crate) fn add(&self, waker: &Waker) {
        let mut wakers = self.wakers.lock();
        if !wakers.iter().any(|other| other.will_wake(waker)) {
            wakers.push(waker.clone());
        }
        self.count.store(wakers.len(), Ordering::Relaxed);
        drop(wakers);
        fence(Ordering::SeqCst);
    }

    /// To be called after a frame was freed. All of them look again: some may be gone.
    pub(crate) fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.len() == 0 {
            return;
        }
        let wakers = {
            let mut wakers = self.wakers.lock();
            self.count.store(0, Ordering::Relaxed);
            std::mem::take(&mut *wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn len(&self) -> usize {
        self.count.load(Ordering::Relaxed)
    }
}
