//! Coherent memory of one node without a cluster, for tests of indexes. The test chooses the size
//! of the cache and how often lines leave the cache.
//!
//! A second free of a line panics.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use latchwork_cache::{
    Cache, DirtyBounds, FrameId, Hint, LINE_HEADER, OptimisticRead, Ownership, ReadVersion,
    WriteGuard,
};
use latchwork_runtime::sync::Mutex;
use latchwork_runtime::{Executor, ExecutorConfig, Handle, RealDriver};
use latchwork_verbs::{GlobalAddr, MemoryNodeId, WORD};

use crate::{AccessMode, CoherentMemory, MemoryError, Need, Upgrade};

/// The behaviour of a [`LocalMemory`].
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Bytes of a line.
    pub line_size: usize,
    /// Frames of the cache.
    pub frames: usize,
    /// Each successful `ensure` chooses this number of random lines and evicts those without a
    /// reservation. So lines leave the cache as if other nodes requested them.
    pub thefts: u64,
    /// Lines are present only while a ticket reserves them, as without a cache.
    pub without_cache: bool,
    /// [`persist`](CoherentMemory::persist) writes lines back, and [`LocalNode::after_death`] shows
    /// what the death of the node leaves.
    pub survives: bool,
    /// Allocation fails beyond this number of lines.
    pub lines_max: usize,
}

impl Settings {
    /// All lines stay in the cache.
    pub const CALM: Settings = Settings {
        line_size: 512,
        frames: 4096,
        thefts: 0,
        without_cache: false,
        survives: false,
        lines_max: usize::MAX,
    };
    /// Four frames, and each `ensure` tries to evict a random line.
    pub const TINY: Settings = Settings { frames: 4, thefts: 1, ..Settings::CALM };
    /// No line outlives its ticket.
    pub const WITHOUT_CACHE: Settings =
        Settings { frames: 64, without_cache: true, ..Settings::CALM };
}

struct Shared {
    cache: Cache,
    settings: Settings,
    // Held by every thread that changes which lines are in the cache.
    pool: Mutex<Pool>,
    // The calls that tried to access a line, to read or to write it.
    reads: AtomicU64,
}

#[derive(Default)]
struct Pool {
    lines: BTreeMap<GlobalAddr, Vec<u64>>,
    free: Vec<GlobalAddr>,
    /// The lines that were freed and may still be seen. Each has the number of the operation that
    /// began last before the free.
    freed: Vec<(u64, GlobalAddr)>,
    /// The number of operations that have begun.
    begun: u64,
    /// The numbers of the operations in progress.
    operations: BTreeSet<u64>,
    live: BTreeSet<GlobalAddr>,
    cached: BTreeSet<GlobalAddr>,
}

/// One worker's memory.
#[derive(Clone)]
pub struct LocalMemory {
    shared: Arc<Shared>,
    handle: Handle,
}

/// The state that the workers of a node share. [`LocalNode::worker`] makes a memory for one worker.
#[derive(Clone)]
pub struct LocalNode(Arc<Shared>);

impl LocalNode {
    /// A node without lines.
    ///
    /// # Panics
    /// When there is no memory for the cache.
    pub fn new(settings: Settings) -> LocalNode {
        let cache = Cache::with_frames(settings.frames, settings.line_size).expect("memory");
        LocalNode(Arc::new(Shared {
            cache,
            settings,
            pool: Mutex::default(),
            reads: AtomicU64::new(0),
        }))
    }

    /// The memory of one more worker.
    pub fn worker(&self, handle: Handle) -> LocalMemory {
        LocalMemory { shared: self.0.clone(), handle }
    }

    /// The lines that were ever allocated.
    pub fn addresses(&self) -> Vec<GlobalAddr> {
        self.0.pool.lock().lines.keys().copied().collect()
    }

    /// The node that another one would find after the death of this node: no line is cached. A line
    /// is as this node has it if `arrived` says so, and otherwise as memory has it.
    ///
    /// # Panics
    /// When there is no memory for the cache.
    pub fn after_death(&self, mut arrived: impl FnMut(GlobalAddr) -> bool) -> LocalNode {
        let node = LocalNode::new(self.0.settings);
        let (old, mut new) = (self.0.pool.lock(), node.0.pool.lock());
        (new.lines, new.live) = (old.lines.clone(), old.live.clone());
        for (&addr, home) in &mut new.lines {
            if let Some(id) = self.0.cache.find(addr)
                && arrived(addr)
            {
                write_back(&self.0.cache, id, home);
            }
        }
        drop(new);
        node
    }

    /// The number of cached lines that memory does not have as this node has them.
    pub fn dirty_lines(&self) -> usize {
        let pool = self.0.pool.lock();
        let found = pool.cached.iter().filter_map(|addr| self.0.cache.find(*addr));
        found.filter(|id| !self.0.cache.frame(*id).dirty().is_empty()).count()
    }

    /// The number of calls that tried to access a line, to read or to write it.
    pub fn reads(&self) -> u64 {
        self.0.reads.load(Ordering::Relaxed)
    }

    /// The number of lines that are allocated and not freed.
    pub fn live_lines(&self) -> usize {
        self.0.pool.lock().live.len()
    }
}

/// An executor that changes between tasks often.
pub fn executor(seed: u64) -> Executor<RealDriver> {
    // A small budget, so that operations with only hits also take turns.
    let config = ExecutorConfig { seed, coop_budget: 2, ..ExecutorConfig::default() };
    Executor::new(RealDriver::new(), config)
}

/// Keeps a line in the cache.
pub struct LocalTicket {
    shared: Arc<Shared>,
    frame: FrameId,
}

/// An operation in progress: lines that are freed after its begin are not allocated again.
pub struct LocalOperation {
    shared: Arc<Shared>,
    number: u64,
}

impl Drop for LocalOperation {
    fn drop(&mut self) {
        self.shared.pool.lock().operations.remove(&self.number);
    }
}

impl Drop for LocalTicket {
    fn drop(&mut self) {
        let mut pool = self.shared.pool.lock();
        let frame = self.shared.cache.frame(self.frame);
        frame.unreserve();
        if self.shared.settings.without_cache {
            let addr = frame.addr();
            self.shared.evict(&mut pool, addr);
        }
    }
}

/// Copies the bytes that were marked dirty: only they survive, as over a fabric.
fn write_back(cache: &Cache, id: FrameId, home: &mut [u64]) {
    let dirty = cache.frame(id).dirty().range();
    let (line, words) = (cache.line(id), dirty.start / WORD..dirty.end / WORD);
    for (word, value) in words.clone().zip(&mut home[words]) {
        *value = line.word(word);
    }
}

impl Shared {
    /// Writes a line back and removes it from the cache, unless the line is used or reserved.
    fn evict(&self, pool: &mut Pool, addr: GlobalAddr) -> bool {
        let Some(id) = self.cache.find(addr) else { return false };
        let frame = self.cache.frame(id);
        if frame.is_reserved() || !frame.try_invalidate() {
            return false;
        }
        write_back(&self.cache, id, pool.lines.get_mut(&addr).expect("cached lines have a home"));
        self.cache.detach(id);
        pool.cached.remove(&addr);
        true
    }

    /// Writes a line back that stays in the cache. Returns false while a writer has its latch.
    fn persist(&self, addr: GlobalAddr) -> bool {
        let mut pool = self.pool.lock();
        let Some(id) = self.cache.find(addr) else { return true };
        let frame = self.cache.frame(id);
        if frame.state().ownership() != Ownership::Exclusive {
            return true;
        }
        let home = pool.lines.get_mut(&addr).expect("cached lines have a home");
        let written = frame.between_writes(|| {
            write_back(&self.cache, id, home);
            frame.set_dirty(DirtyBounds::EMPTY);
        });
        written.is_some()
    }

    fn evict_random(&self, pool: &mut Pool, random: u64) -> bool {
        let victim = pool.cached.iter().nth(random as usize % pool.cached.len().max(1)).copied();
        victim.is_some_and(|victim| self.evict(pool, victim))
    }

    fn try_obtain(&self, need: Need, random: u64) -> Result<Option<FrameId>, MemoryError> {
        let mut pool = self.pool.lock();
        if !pool.lines.contains_key(&need.addr) {
            return Err(MemoryError::BadAddress { addr: need.addr });
        }
        let id = match self.cache.find(need.addr) {
            Some(id) => id,
            None => {
                let Some(id) = self.cache.attach(need.addr) else {
                    self.evict_random(&mut pool, random);
                    return Ok(None);
                };
                let line = self.cache.line(id);
                for (word, value) in pool.lines[&need.addr].iter().enumerate() {
                    line.set_word(word, *value);
                }
                self.cache.frame(id).publish(match need.mode {
                    AccessMode::Shared => Ownership::Shared,
                    AccessMode::Exclusive => Ownership::Exclusive,
                });
                pool.cached.insert(need.addr);
                id
            }
        };
        let frame = self.cache.frame(id);
        if need.mode == AccessMode::Exclusive && frame.state().ownership() == Ownership::Shared {
            frame.promote();
        }
        frame.reserve();
        for theft in 0..self.settings.thefts {
            // Each theft has its own eight low bits of the number.
            let bits = random.rotate_right((theft / 8 % 64) as u32);
            self.evict_random(&mut pool, bits >> (theft % 8 * 8));
        }
        Ok(Some(id))
    }

    fn is_there(&self, addr: GlobalAddr) -> bool {
        self.reads.fetch_add(1, Ordering::Relaxed);
        !self.settings.without_cache
            || self.cache.find(addr).is_some_and(|id| self.cache.frame(id).is_reserved())
    }
}

impl CoherentMemory for LocalMemory {
    type Ticket = LocalTicket;
    type Operation = LocalOperation;

    fn try_read(&self, addr: GlobalAddr) -> Result<OptimisticRead<'_>, Need> {
        let need = Need { addr, mode: AccessMode::Shared };
        let there = self.shared.is_there(addr).then(|| self.shared.cache.try_read(addr));
        there.flatten().ok_or(need)
    }

    fn try_write(&self, addr: GlobalAddr) -> Result<WriteGuard<'_>, Need> {
        let need = Need { addr, mode: AccessMode::Exclusive };
        let there = self.shared.is_there(addr).then(|| self.shared.cache.try_write(addr));
        there.flatten().ok_or(need)
    }

    fn try_read_at(&self, addr: GlobalAddr, hint: &Hint) -> Result<OptimisticRead<'_>, Need> {
        let need = Need { addr, mode: AccessMode::Shared };
        let there = self.shared.is_there(addr).then(|| self.shared.cache.try_read_at(addr, hint));
        there.flatten().ok_or(need)
    }

    fn try_latch<'a>(&'a self, seen: OptimisticRead<'a>) -> Result<WriteGuard<'a>, Need> {
        seen.latch().ok_or(Need { addr: seen.addr(), mode: AccessMode::Exclusive })
    }

    fn hints(&self, read: &OptimisticRead<'_>) -> &[Hint] {
        self.shared.cache.hints(read)
    }

    fn prefetch(&self, hint: &Hint, payload: Range<usize>) {
        self.shared.cache.prefetch(hint, payload);
    }

    async fn ensure(&self, need: Need) -> Result<LocalTicket, MemoryError> {
        for _ in 0..1_000_000 {
            for _ in 0..self.handle.random_below(3) {
                self.handle.yield_now().await;
            }
            if let Some(frame) = self.shared.try_obtain(need, self.handle.random())? {
                let ticket = LocalTicket { shared: self.shared.clone(), frame };
                self.handle.yield_now().await;
                return Ok(ticket);
            }
        }
        Err(MemoryError::Timeout { addr: need.addr, mode: need.mode, waited: Duration::ZERO })
    }

    fn keeps_lines(&self) -> bool {
        !self.shared.settings.without_cache
    }

    async fn upgrade(
        &self,
        seen: ReadVersion,
        ticket: Option<LocalTicket>,
    ) -> Result<(Upgrade, Option<LocalTicket>), MemoryError> {
        drop(ticket);
        let ticket = self.ensure(Need { addr: seen.addr, mode: AccessMode::Exclusive }).await?;
        Ok((Upgrade::Changed, Some(ticket)))
    }

    async fn persist(&self, addr: GlobalAddr) -> Result<(), MemoryError> {
        if !self.shared.settings.survives {
            return Ok(());
        }
        for _ in 0..1_000_000 {
            self.handle.yield_now().await;
            if self.shared.persist(addr) {
                return Ok(());
            }
        }
        Err(MemoryError::Timeout { addr, mode: AccessMode::Exclusive, waited: Duration::ZERO })
    }

    fn persists(&self) -> bool {
        self.shared.settings.survives
    }

    async fn allocate(&self) -> Result<GlobalAddr, MemoryError> {
        self.handle.yield_now().await;
        let mut pool = self.shared.pool.lock();
        if pool.live.len() >= self.shared.settings.lines_max {
            return Err(MemoryError::OutOfMemory("the test's limit is reached".into()));
        }
        let line_size = self.shared.settings.line_size;
        let fresh =
            GlobalAddr::new(MemoryNodeId(0), (pool.lines.len() + 1) as u64 * line_size as u64);
        let (mut seen, free) = (Vec::new(), std::mem::take(&mut pool.freed));
        for (last, addr) in free {
            match pool.operations.first().is_some_and(|oldest| *oldest <= last) {
                true => seen.push((last, addr)),
                false => pool.free.push(addr),
            }
        }
        pool.freed = seen;
        // A line in use stays free for now: the next life is counted in memory.
        let is_cached = |addr: &GlobalAddr| self.shared.cache.find(*addr).is_some();
        let free = std::mem::take(&mut pool.free);
        for addr in &free {
            self.shared.evict(&mut pool, *addr);
        }
        pool.free = free;
        let unused = pool.free.iter().rposition(|addr| !is_cached(addr));
        let addr = unused.map_or(fresh, |at| pool.free.remove(at));
        pool.live.insert(addr);
        // The content of new lines is unspecified.
        let line = pool.lines.entry(addr);
        let line = line.or_insert_with(|| {
            let mut line = vec![0xdead_beef_dead_beef; line_size / WORD];
            line[0] = 0;
            line
        });
        line[0] += 1;
        Ok(addr)
    }

    async fn free(&self, addr: GlobalAddr) -> Result<(), MemoryError> {
        let mut pool = self.shared.pool.lock();
        assert!(pool.live.remove(&addr), "{addr} freed twice");
        let last = pool.begun;
        pool.freed.push((last, addr));
        Ok(())
    }

    async fn fetch_add(&self, addr: GlobalAddr, at: usize, add: u64) -> Result<u64, MemoryError> {
        let mut pool = self.shared.pool.lock();
        let line = pool.lines.get_mut(&addr).ok_or(MemoryError::BadAddress { addr })?;
        let word = &mut line[(LINE_HEADER + at) / WORD];
        let old = *word;
        *word = old.wrapping_add(add);
        Ok(old)
    }

    async fn compare_swap(
        &self,
        addr: GlobalAddr,
        at: usize,
        expected: u64,
        desired: u64,
    ) -> Result<u64, MemoryError> {
        let mut pool = self.shared.pool.lock();
        let line = pool.lines.get_mut(&addr).ok_or(MemoryError::BadAddress { addr })?;
        let word = &mut line[(LINE_HEADER + at) / WORD];
        let old = *word;
        if old == expected {
            *word = desired;
        }
        Ok(old)
    }

    fn payload_len(&self) -> usize {
        self.shared.settings.line_size - LINE_HEADER
    }

    fn handle(&self) -> &Handle {
        &self.handle
    }

    fn try_enter(&self) -> Option<LocalOperation> {
        let mut pool = self.shared.pool.lock();
        pool.begun += 1;
        let number = pool.begun;
        pool.operations.insert(number);
        Some(LocalOperation { shared: self.shared.clone(), number })
    }

    async fn enter(&self) -> Result<LocalOperation, MemoryError> {
        match self.try_enter() {
            Some(operation) => Ok(operation),
            None => unreachable!("there is no epoch to publish"),
        }
    }

    async fn mark(&self) -> Result<u64, MemoryError> {
        self.handle.yield_now().await;
        Ok(self.shared.pool.lock().begun)
    }

    async fn ended(&self) -> Result<u64, MemoryError> {
        self.handle.yield_now().await;
        let pool = self.shared.pool.lock();
        Ok(pool.operations.first().copied().unwrap_or(pool.begun + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bug: more than eight thefts panicked, or evicted the same line again. Mechanism: the random
    /// number was shifted by more bits than it has. Fix: eight thefts share one rotation of it.
    #[test]
    fn any_number_of_thefts_evicts_lines() {
        let node = LocalNode::new(Settings { thefts: 20, ..Settings::CALM });
        let mut executor = executor(1);
        let memory = node.worker(executor.handle());
        executor.block_on(async {
            let mut lines = Vec::new();
            for _ in 0..64 {
                lines.push(memory.allocate().await.expect("room"));
            }
            for &addr in &lines {
                drop(memory.ensure(Need { addr, mode: AccessMode::Shared }).await.expect("a line"));
            }
            let cached = node.0.pool.lock().cached.len();
            assert!(cached < 32, "{cached} of 64 lines are still in the cache");
        });
    }
}
