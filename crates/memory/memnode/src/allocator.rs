//! [`LineAllocator`]: the allocation of lines at a compute node.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use latchwork_fabric::Port;
use latchwork_runtime::Handle;
use latchwork_runtime::sync::{AtomicBool, Mutex, Ordering};
use latchwork_strict::strict_assert;
use latchwork_verbs::{ComputeNodeId, GlobalAddr, MemoryNodeId};

use crate::chunks::{Claims, Fresh};
use crate::task_mutex::Turn;
use crate::{Epochs, Pool, PoolError};

/// Allocates the lines of a compute node, and takes freed lines. One per node, shared by its
/// workers.
///
/// ```text
///   pool's chunks ──claim──► fresh lines ──┐
///                                          ├──► allocate ──► user ──► retire ──┐
///   ready lines ───────────────────────────┘                                   │
///        ▲──────────── every node has published a later epoch ─────────────────┘
/// ```
///
/// A freed line belongs to the node that freed the line, whichever node allocated it. A node that
/// leaves has two ways to return chunks: the unallocated rest of each chunk
/// ([`give_back_rests`](LineAllocator::give_back_rests)), or all of its chunks with their content
/// ([`give_back_chunks`](LineAllocator::give_back_chunks)). Lines that a node freed before it left
/// are allocated again only when their chunks are returned.
///
/// Neither the allocator nor [`Epochs`] accesses a line. After the allocation, the line's user
/// takes it exclusively and begins a new life in its [`LineHeader`](crate::LineHeader). The user
/// ends that life before it retires the line.
///
/// Futures may be dropped at any await: no line and no chunk is lost or allocated twice.
pub struct LineAllocator {
    pool: Pool,
    epochs: Arc<Epochs>,
    /// The unallocated rests of chunks; lines are taken from them in turn.
    fresh: Mutex<VecDeque<Fresh>>,
    /// The number of chunks from which lines are taken in turn.
    stripes: usize,
    /// The last search found no chunk to claim.
    exhausted: AtomicBool,
    /// Other nodes may have returned chunks since the last search for chunks.
    look_again: AtomicBool,
    aside: Mutex<Aside>,
    /// Whether `aside` names a memory node. Written under its lock.
    has_aside: AtomicBool,
    claims: Turn<Claims>,
}

/// Lines and rests of chunks that this node does not allocate now, because their memory nodes
/// failed a request.
#[derive(Debug, Default)]
struct Aside {
    nodes: BTreeSet<MemoryNodeId>,
    lines: Vec<GlobalAddr>,
    rests: Vec<Fresh>,
}

/// Makes the free lines in the chunks of a dead node on a memory node free for all nodes, if the
/// dead node had [marks](LineAllocator::mark_chunks). In each of its chunks, up to 64 lines before
/// the mark stay lost (in chunks of more than 262080 lines, a 4095th), and so do the lines that it
/// had freed. Nodes find the chunks after [`LineAllocator::look_again`].
///
/// To be called when all nodes have fenced the dead node, and before another node has its id. May
/// be called several times, also at the same time.
///
/// # Errors
/// Failures of the fabric.
pub async fn free_chunks(
    port: &Port,
    pool: &Pool,
    node: MemoryNodeId,
    dead: ComputeNodeId,
) -> Result<(), PoolError> {
    Claims::free_rests(port, pool, node, dead).await
}

impl LineAllocator {
    /// An allocator for the node of `epochs`.
    pub fn new(epochs: &Arc<Epochs>) -> Arc<LineAllocator> {
        LineAllocator::near(epochs, None)
    }

    /// Like [`new`](LineAllocator::new). The node claims chunks of the memory node `own` first.
    pub fn near(epochs: &Arc<Epochs>, own: Option<MemoryNodeId>) -> Arc<LineAllocator> {
        let pool = epochs.pool().clone();
        let claims = Claims::new(&pool, epochs.node(), epochs.registration(), own);
        Arc::new(LineAllocator {
            epochs: epochs.clone(),
            fresh: Mutex::new(VecDeque::new()),
            stripes: epochs.settings().stripes.max(1),
            exhausted: AtomicBool::new(false),
            look_again: AtomicBool::new(false),
            aside: Mutex::new(Aside::default()),
            has_aside: AtomicBool::new(false),
            claims: Turn::new(claims),
            pool,
        })
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// A line, if the node has one at hand. Posts no verb.
    pub fn try_allocate(&self) -> Option<GlobalAddr> {
        strict_assert!(self.stripes > 0, "lines come from one chunk at least");
        if let Some(line) = self.take_freed() {
            return Some(line);
        }
        let mut fresh = self.fresh.lock();
        // Fewer chunks than `stripes` are in turn: the allocating task must claim another chunk.
        if fresh.len() < self.stripes && !self.exhausted.load(Ordering::Relaxed) {
            return None;
        }
        self.take_fresh(&mut fresh)
    }

    /// A freed line that is ready, on a memory node that is not set aside.
    fn take_freed(&self) -> Option<GlobalAddr> {
        loop {
            let line = self.epochs.limbo().take()?;
            strict_assert!(
                self.pool.check_line(line).is_ok(),
                "a freed line {line} is no line of the pool"
            );
            // Relaxed: the flag only saves the lock. If the memory node was set aside just now, its
            // line fails at the first request, like the line that caused the setting aside.
            if self.has_aside.load(Ordering::Relaxed) {
                let mut aside = self.aside.lock();
                if aside.nodes.contains(&line.node()) {
                    aside.lines.push(line);
                    continue;
                }
            }
            return Some(line);
        }
    }

    /// A line at hand, even if fewer chunks than `stripes` are in turn.
    fn take_any(&self) -> Option<GlobalAddr> {
        self.take_freed().or_else(|| self.take_fresh(&mut self.fresh.lock()))
    }

    /// A line of the next chunk in turn.
    fn take_fresh(&self, fresh: &mut VecDeque<Fresh>) -> Option<GlobalAddr> {
        let geometry = self.pool.geometry();
        // Rests with their next line behind the mark wait for a task that moves the mark.
        let at = fresh.iter().position(Fresh::is_marked)?;
        let mut first = fresh.remove(at)?;
        strict_assert!(first.next < geometry.lines_per_chunk(), "a used-up chunk is still in turn");
        let line = geometry.line_addr(first.chunk, first.next);
        strict_assert!(
            self.pool.check_line(line).is_ok(),
            "an allocated line {line} is no line of the pool"
        );
        first.next += 1;
        if first.next < geometry.lines_per_chunk() {
            strict_assert!(
                !fresh.iter().any(|other| other.chunk == first.chunk),
                "a chunk is in turn twice"
            );
            fresh.push_back(first);
        }
        strict_assert!(
            fresh.iter().all(|rest| rest.next < geometry.lines_per_chunk()),
            "a used-up chunk is in turn"
        );
        Some(line)
    }

    /// Allocates a line, from the first source that has one:
    ///
    /// 1. a line at hand;
    /// 2. a line of a chunk that is claimed now;
    /// 3. a line that becomes ready within [`reuse_wait`](crate::PoolSettings::reuse_wait);
    /// 4. a line that was [set aside](LineAllocator::set_aside).
    ///
    /// A memory node that fails the claim of a chunk is passed over while another source has a
    /// line.
    ///
    /// Only one task of the node claims chunks at a time. Lines that were freed since the caller's
    /// own operation began do not become ready before that operation ends.
    ///
    /// # Errors
    /// [`PoolError::OutOfMemory`], [`PoolError::Timeout`] after
    /// [`deadline`](crate::PoolSettings::deadline), and failures of the fabric when no source has a
    /// line. [`PoolError::Corrupt`] once for a damaged owner word of a chunk; later allocations
    /// pass over the chunk.
    pub async fn allocate(&self, port: &Port, handle: &Handle) -> Result<GlobalAddr, PoolError> {
        if let Some(line) = self.try_allocate() {
            return Ok(line);
        }
        let waited = self.epochs.settings().deadline;
        let deadline = handle.now() + waited;
        let timeout = Err(PoolError::Timeout { what: "allocating a line", waited });
        handle.timeout(deadline, self.allocate_slowly(port, handle)).await.unwrap_or(timeout)
    }

    async fn allocate_slowly(&self, port: &Port, handle: &Handle) -> Result<GlobalAddr, PoolError> {
        let failure = {
            let mut claims = self.claims.take().await;
            if self.look_again.swap(false, Ordering::Relaxed) {
                claims.rewind();
                self.exhausted.store(false, Ordering::Relaxed);
            }
            loop {
                if let Some(line) = self.try_allocate() {
                    return Ok(line);
                }
                if self.move_marks(&mut claims, port).await {
                    continue;
                }
                let fresh = match claims.claim(port, &self.pool).await {
                    Ok(Some(fresh)) => fresh,
                    Ok(None) => {
                        // Relaxed: the flag only saves a search for chunks, and the lock orders the
                        // rests of chunks.
                        self.exhausted.store(true, Ordering::Relaxed);
                        break None;
                    }
                    // The next claim passes over the damage, so this error is the only report.
                    Err(error @ PoolError::Corrupt { .. }) => return Err(error),
                    Err(error) => break Some(error),
                };
                strict_assert!(
                    fresh.next < self.pool.geometry().lines_per_chunk(),
                    "a claimed chunk has no line left"
                );
                self.fresh.lock().push_back(fresh);
            }
        };
        let settings = self.epochs.settings();
        let until = handle.now() + settings.reuse_wait;
        loop {
            // Counted before the search for ready lines. A line that waits at the count may be
            // ready at the search, and then must not be missed.
            let resting = self.resting();
            if let Some(line) = self.take_any() {
                return Ok(line);
            }
            let now = handle.now();
            if resting == 0 || now >= until {
                self.restore_aside();
                if self.has_unmarked() {
                    self.move_marks(&mut *self.claims.take().await, port).await;
                }
                let error = || failure.unwrap_or_else(|| self.out_of_memory());
                return self.take_any().ok_or_else(error);
            }
            self.epochs.advance(port, now).await?;
            if let Some(line) = self.take_any() {
                return Ok(line);
            }
            handle.sleep(settings.tick_interval).await;
        }
    }

    /// Gives marks to the chunks that this node claims from now on: if the node dies, others can
    /// [get](crate::free_chunks) what is behind the marks. An allocation then costs one verb more
    /// for each 64 new lines. To be called before the first allocation.
    pub fn mark_chunks(&self) {
        if let Some(mut claims) = self.claims.try_take() {
            claims.mark();
        }
    }

    /// Whether all lines of the chunks in turn are behind the marks.
    fn has_unmarked(&self) -> bool {
        let fresh = self.fresh.lock();
        !fresh.is_empty() && !fresh.iter().any(Fresh::is_marked)
    }

    /// Moves the marks of the chunks in turn, when all lines at hand are behind them. Returns
    /// whether a line is before a mark now. A chunk is set aside if its memory node fails.
    async fn move_marks(&self, claims: &mut Claims, port: &Port) -> bool {
        if !self.has_unmarked() {
            return false;
        }
        let rests: Vec<Fresh> = self.fresh.lock().iter().copied().collect();
        let mut has_moved = false;
        for rest in rests {
            let moved = claims.move_mark(port, &self.pool, rest).await;
            let mut aside = self.aside.lock();
            let mut fresh = self.fresh.lock();
            // Another task may have set the rest aside.
            let mut all = fresh.iter_mut().chain(&mut aside.rests);
            let it = all.find(|other| other.chunk == rest.chunk);
            match (moved, it) {
                (Ok(marked), Some(it)) => {
                    it.marked = marked;
                    has_moved = true;
                }
                (Err(_), Some(_)) => {
                    fresh.retain(|other| other.chunk != rest.chunk);
                    aside.rests.retain(|other| other.chunk != rest.chunk);
                    aside.rests.push(rest);
                }
                (_, None) => {}
            }
        }
        has_moved
    }

    /// Frees a line. Before the call, the line's user has made the line unreachable for every node.
    /// After the call the user does not access the line. The line is reused when no operation can
    /// know its address; see [`crate::epoch`].
    ///
    /// # Errors
    /// [`PoolError::BadAddress`].
    pub fn retire(&self, line: GlobalAddr) -> Result<(), PoolError> {
        self.pool.check_line(line)?;
        self.epochs.limbo().retire(line);
        Ok(())
    }

    /// Takes back a line whose address no other task ever had, for immediate reuse. An operation
    /// allocated the line and ended before it stored the address anywhere.
    ///
    /// # Errors
    /// [`PoolError::BadAddress`].
    pub fn give_back(&self, line: GlobalAddr) -> Result<(), PoolError> {
        self.pool.check_line(line)?;
        strict_assert!(!line.is_null(), "the null address is given back");
        self.epochs.limbo().give_back(line);
        Ok(())
    }

    /// Like [`LineAllocator::give_back`], for a line whose memory node failed the first request for
    /// the line. The compute node's lines and rests of chunks on that memory node are allocated
    /// again only when no other line is left.
    ///
    /// # Errors
    /// [`PoolError::BadAddress`].
    pub fn set_aside(&self, line: GlobalAddr) -> Result<(), PoolError> {
        self.pool.check_line(line)?;
        let node = line.node();
        let mut aside = self.aside.lock();
        let mut fresh = self.fresh.lock();
        aside.rests.extend(fresh.iter().filter(|rest| rest.chunk.node() == node));
        fresh.retain(|rest| rest.chunk.node() != node);
        strict_assert!(!aside.lines.contains(&line), "{line} is set aside twice");
        aside.lines.push(line);
        aside.nodes.insert(node);
        self.has_aside.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Makes all lines and rests that were set aside allocatable.
    fn restore_aside(&self) {
        let mut aside = self.aside.lock();
        self.has_aside.store(false, Ordering::Relaxed);
        let Aside { lines, rests, .. } = std::mem::take(&mut *aside);
        for line in lines {
            self.epochs.limbo().give_back(line);
        }
        self.fresh.lock().extend(rests);
    }

    /// Notes that other nodes may have returned chunks. The next allocation that needs a chunk
    /// searches all chunks.
    pub fn look_again(&self) {
        // Relaxed: the flag orders nothing. The verbs of the search see the returned chunks.
        self.look_again.store(true, Ordering::Relaxed);
    }

    /// Returns the unallocated rests of this node's chunks to the pool. For a node that leaves:
    /// none of its allocations is in flight, and the node allocates nothing any more.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn give_back_rests(&self, port: &Port) -> Result<(), PoolError> {
        let mut claims = self.claims.take().await;
        claims.give_back_tried(port).await?;
        self.restore_aside();
        loop {
            // The rest is removed here before another node can claim it.
            let rest = self.fresh.lock().pop_front();
            let Some(rest) = rest else { return Ok(()) };
            claims.give_back_rest(port, &self.pool, rest).await?;
        }
    }

    /// Returns all of this node's chunks to the pool, with their content. The result is the number
    /// of these chunks. For a node that leaves, and that has ensured the following:
    ///
    /// - No node uses a line of these chunks any more: no name and no other line leads there.
    /// - No node that used these lines allocates any more. Each such node may have freed some of
    ///   these lines, and could allocate them again.
    /// - All operations are over that were in progress when the first condition became true
    ///   ([`Epochs::outlast`]), as before any reuse.
    ///
    /// A chunk in which a latch word still names a node is not returned, and is not used again.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn give_back_chunks(&self, port: &Port) -> Result<u64, PoolError> {
        let mut claims = self.claims.take().await;
        claims.give_back_tried(port).await?;
        self.restore_aside();
        self.fresh.lock().clear();
        claims.give_back_all(port, &self.pool).await
    }

    /// The number of lines that this node can allocate without another chunk, also those behind the
    /// marks of its chunks.
    pub fn available(&self) -> usize {
        let lines = self.pool.geometry().lines_per_chunk();
        let fresh: u32 = self.fresh.lock().iter().map(|fresh| lines - fresh.next).sum();
        fresh as usize + self.epochs.limbo().ready()
    }

    /// The number of freed lines that are not ready.
    pub fn resting(&self) -> usize {
        self.epochs.limbo().waiting()
    }

    /// The number of chunks that this node owns; `None` while a task claims or returns chunks.
    pub fn chunks_taken(&self) -> Option<u64> {
        self.claims.try_take().map(|claims| claims.taken())
    }

    fn out_of_memory(&self) -> PoolError {
        let geometry = self.pool.geometry();
        let chunks = self.pool.total_chunks();
        PoolError::OutOfMemory {
            line_size: geometry.line_size(),
            chunks,
            lines: self.pool.total_lines(),
            bytes: chunks * geometry.chunk_size(),
            memory_nodes: self.pool.memory_nodes(),
            resting: self.resting(),
        }
    }
}

impl fmt::Debug for LineAllocator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LineAllocator")
            .field("node", &self.epochs.node())
            .field("available", &self.available())
            .field("resting", &self.resting())
            .finish_non_exhaustive()
    }
}
