//! [`LineAllocator`]: a compute node's lines.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use latchwork_fabric::Port;
use latchwork_runtime::Handle;
use latchwork_runtime::sync::{AtomicBool, Mutex, Ordering};
use latchwork_verbs::GlobalAddr;

use crate::chunks::{Claims, Fresh};
use crate::turn::Turn;
use crate::{Epochs, Pool, PoolError};

/// Gives out the lines of a compute node, and takes freed ones back. One per node, shared by its
/// workers.
///
/// ```text
///   pool's chunks ──claim──► fresh lines ──┐
///                                          ├──► allocate ──► user ──► retire ──┐
///   ready lines ───────────────────────────┘                                   │
///        ▲──────────── every node has published a later epoch ─────────────────┘
/// ```
///
/// A line that is freed belongs to the node that freed it, whoever allocated it. A node that leaves
/// gives back what it never gave out of its chunks
/// ([`give_back_rests`](LineAllocator::give_back_rests)), or all of its chunks with what is in them
/// ([`give_back_chunks`](LineAllocator::give_back_chunks)); lines that it freed are not handed out
/// any more, except with their chunks.
///
/// Neither the allocator nor [`Epochs`] touches a line. Its user takes it exclusively and begins a
/// new life in its [`LineHeader`](crate::LineHeader) after allocating, and ends it before retiring.
///
/// Futures may be dropped at any await: no line and no chunk is lost or given out twice.
pub struct LineAllocator {
    pool: Pool,
    epochs: Arc<Epochs>,
    /// What is left of chunks; lines are taken from them by turns.
    fresh: Mutex<VecDeque<Fresh>>,
    /// Chunks to take lines from at a time.
    stripes: usize,
    /// No chunk is left to claim.
    exhausted: AtomicBool,
    /// Others have given chunks back since it was looked for some.
    look_again: AtomicBool,
    claims: Turn<Claims>,
}

impl LineAllocator {
    /// An allocator for the node that `epochs` belongs to.
    pub fn new(epochs: &Arc<Epochs>) -> Arc<LineAllocator> {
        let pool = epochs.pool().clone();
        let claims = Claims::new(&pool, epochs.node(), epochs.registration());
        Arc::new(LineAllocator {
            epochs: epochs.clone(),
            fresh: Mutex::new(VecDeque::new()),
            stripes: epochs.settings().stripes.max(1),
            exhausted: AtomicBool::new(false),
            look_again: AtomicBool::new(false),
            claims: Turn::new(claims),
            pool,
        })
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// A line, if the node has one at hand. No verbs.
    pub fn try_allocate(&self) -> Option<GlobalAddr> {
        if let Some(line) = self.epochs.limbo().take() {
            return Some(line);
        }
        let mut fresh = self.fresh.lock();
        // One chunk less than there should be: whoever allocates takes another one first.
        if fresh.len() < self.stripes && !self.exhausted.load(Ordering::Relaxed) {
            return None;
        }
        self.take_fresh(&mut fresh)
    }

    /// A line of the chunk whose turn it is.
    fn take_fresh(&self, fresh: &mut VecDeque<Fresh>) -> Option<GlobalAddr> {
        let geometry = self.pool.geometry();
        let mut first = fresh.pop_front()?;
        let line = geometry.line_addr(first.chunk, first.next);
        first.next += 1;
        if first.next < geometry.lines_per_chunk() {
            fresh.push_back(first);
        }
        Some(line)
    }

    /// A line: one at hand, else the first of a chunk that is taken now, else one that becomes
    /// reusable within [`reuse_wait`](crate::PoolSettings::reuse_wait). Only one task of the node
    /// takes a chunk at a time. Lines that were freed since the caller's own operation began do not
    /// become reusable before it ends.
    ///
    /// # Errors
    /// [`PoolError::OutOfMemory`], [`PoolError::Timeout`] after
    /// [`deadline`](crate::PoolSettings::deadline), and failures of the fabric.
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
        {
            let mut claims = self.claims.take().await;
            if self.look_again.swap(false, Ordering::Relaxed) {
                claims.rewind();
                self.exhausted.store(false, Ordering::Relaxed);
            }
            loop {
                if let Some(line) = self.try_allocate() {
                    return Ok(line);
                }
                let Some(fresh) = claims.claim(port, &self.pool).await? else { break };
                self.fresh.lock().push_back(fresh);
            }
            // Relaxed: it only spares looking for chunks, under the lock that orders what is left
            // of them.
            self.exhausted.store(true, Ordering::Relaxed);
        }
        let settings = self.epochs.settings();
        let until = handle.now() + settings.reuse_wait;
        loop {
            // Before looking for ready lines: a line that rests now may be ready then.
            let resting = self.resting();
            if let Some(line) = self.try_allocate() {
                return Ok(line);
            }
            let now = handle.now();
            if resting == 0 || now >= until {
                return Err(self.out_of_memory());
            }
            self.epochs.advance(port, now).await?;
            if let Some(line) = self.try_allocate() {
                return Ok(line);
            }
            handle.sleep(settings.tick_interval).await;
        }
    }

    /// Frees a line. Its user has made it unreachable for every node before, and does not touch it
    /// any more. It is handed out again when no operation can know its address; see
    /// [`crate::epoch`].
    ///
    /// # Errors
    /// [`PoolError::BadAddress`].
    pub fn retire(&self, line: GlobalAddr) -> Result<(), PoolError> {
        self.pool.check_line(line)?;
        self.epochs.limbo().retire(line);
        Ok(())
    }

    /// Takes back a line whose address nobody else ever had, for use at once: an operation
    /// allocated it and ended before linking it anywhere.
    ///
    /// # Errors
    /// [`PoolError::BadAddress`].
    pub fn give_back(&self, line: GlobalAddr) -> Result<(), PoolError> {
        self.pool.check_line(line)?;
        self.epochs.limbo().give_back(line);
        Ok(())
    }

    /// Says that others may have given chunks back: the next allocation that needs one looks at all
    /// of them.
    pub fn look_again(&self) {
        // Relaxed: it orders nothing. What was given back is seen by the verbs that look for it.
        self.look_again.store(true, Ordering::Relaxed);
    }

    /// Gives back to the pool what was never given out of this node's chunks, for a node that
    /// leaves: it allocates nothing any more, and no allocation of its is in flight.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn give_back_rests(&self, port: &Port) -> Result<(), PoolError> {
        let mut claims = self.claims.take().await;
        claims.give_back_tried(port).await?;
        loop {
            // Out of everybody's reach before others can have it.
            let rest = self.fresh.lock().pop_front();
            let Some(rest) = rest else { return Ok(()) };
            claims.give_back_rest(port, &self.pool, rest).await?;
        }
    }

    /// Gives all of this node's chunks back to the pool, with whatever is in them, and says how
    /// many that were. For a node that leaves, and that has seen to it that
    ///
    /// - nobody uses a line in them any more: no name and no other line leads there, and of the
    ///   nodes that used them none allocates any more, since each has lines at hand that it freed,
    ///   whoever had allocated them;
    /// - all operations are over that were in progress when that became so ([`Epochs::outlast`]),
    ///   as before any reuse.
    ///
    /// A chunk in which a latch word still names a node is kept: it is not used again.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn give_back_chunks(&self, port: &Port) -> Result<u64, PoolError> {
        let mut claims = self.claims.take().await;
        claims.give_back_tried(port).await?;
        self.fresh.lock().clear();
        claims.give_back_all(port, &self.pool).await
    }

    /// Lines that [`LineAllocator::try_allocate`] could give out now.
    pub fn available(&self) -> usize {
        let lines = self.pool.geometry().lines_per_chunk();
        let fresh: u32 = self.fresh.lock().iter().map(|fresh| lines - fresh.next).sum();
        fresh as usize + self.epochs.limbo().ready()
    }

    /// Freed lines that cannot be given out yet.
    pub fn resting(&self) -> usize {
        self.epochs.limbo().waiting()
    }

    /// Chunks that this node has taken so far; `None` while it is taking one.
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
