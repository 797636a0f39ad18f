//! Eviction: the release of lines to free their frames for other lines (SELCC 5.2).
//!
//! Each worker that polls evicts, on every sweep on which frames run short, so that a miss mostly
//! finds a free frame. The victims of a sweep form one batch of lines for each memory node, behind
//! one doorbell.
//!
//! - The frame of a clean line is free at once. So is the frame of a dirty line whose changes can
//!   be copied ([`crate::write_back`]).
//! - Otherwise a frame is free when the release of its line is complete. That holds if the changes
//!   could not be copied, if the line has waiters, or if the node has no write-back slots.
//!
//! In all cases the record stays until the release is complete. An access in the meantime waits for
//! the line's own release (rule R1), in a new frame if the old one is free already. Requests of
//! other nodes in the meantime are answered after the release.

use latchwork_cache::{FrameState, Ownership};
use latchwork_coherence::MemoryError;
use latchwork_runtime::sync::Ordering;
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{GlobalAddr, VerbError};

use crate::inner::Inner;
use crate::lines::Worker;
use crate::node_core::NodeCore;
use crate::protocol::{CoherenceProtocol, LineState};
use crate::record::LocalSide;
use crate::worker::LEAVE_STEP;

/// The most lines that a leaving node releases before it waits.
const GIVE_BACK: usize = 64;

impl Worker {
    /// Releases every line that the node holds, with write-back, so that the node can leave.
    /// Afterwards the node owns no line (under SELCC no latch word names the node), and its cache
    /// may be dropped. Callers call this when all other workers of the node except the handler have
    /// left. No task may begin an access in the meantime.
    ///
    /// # Errors
    /// [`MemoryError::Stuck`] when no line was released for as long as the deadline, for example
    /// because lines are locked, a line has failed or a memory node is dead.
    /// [`MemoryError::Fabric`] when the node may no longer touch memory.
    pub async fn give_back(&self) -> Result<(), MemoryError> {
        let (core, node) = (&*self.core, self.node());
        let waited = node.settings.deadline;
        let mut deadline = core.handle.now() + waited;
        let mut least = usize::MAX;
        loop {
            let is_held = |state: FrameState| state.ownership() != Ownership::Invalid;
            let held = node.cache.lines().filter(|(_, state)| is_held(*state));
            let held: Vec<_> = held.map(|(addr, _)| addr).collect();
            let left = held.len() + node.lines_in_flight();
            if left == 0 {
                return Ok(());
            }
            if core.port.is_barred() {
                return Err(VerbError::SelfFenced.into());
            }
            if left < least {
                least = left;
                deadline = core.handle.now() + waited;
            } else if core.handle.now() >= deadline {
                return Err(MemoryError::Stuck { in_flight: left, waited });
            }
            for batch in held.chunks(GIVE_BACK) {
                batch.iter().for_each(|line| _ = self.lines().evict(*line));
                core.handle.sleep(LEAVE_STEP).await;
            }
            core.handle.sleep(LEAVE_STEP).await;
        }
    }
}

impl<P: CoherenceProtocol> Inner<P> {
    /// The number of frames to free. Zero while enough frames are free or coming. Called on every
    /// sweep.
    #[inline]
    fn shortage(&self) -> usize {
        let NodeCore { cache, reserve, frame_waiters, releasing, .. } = &*self.node_core;
        let waiting = frame_waiters.len();
        let coming = cache.free_frames() + releasing.load(Ordering::Relaxed);
        if coming < reserve.enough + waiting { reserve.wanted + waiting - coming } else { 0 }
    }

    /// Whether frames run short, so that the node evicts lines.
    pub(crate) fn is_short(&self) -> bool {
        self.shortage() > 0
    }

    /// Evicts lines in batches when frames run short. Returns whether any line was evicted.
    #[inline]
    pub(crate) fn evict_if_short(&self) -> bool {
        let shortage = self.shortage();
        shortage > 0 && self.evict_some(shortage)
    }

    fn evict_some(&self, shortage: usize) -> bool {
        let most = self.node_core.settings.evict_batch;
        let mut victims = self.victims.take();
        strict_assert!(victims.is_empty(), "a sweep evicts within a sweep");
        self.node_core.cache.victims(shortage.min(most), &mut victims);
        strict_assert!(victims.len() <= shortage.min(most), "more victims than frames run short");
        victims.sort_unstable();
        let mut any = false;
        for batch in victims.chunk_by(|a, b| a.node() == b.node()) {
            any |= self.evict_batch(batch);
        }
        victims.clear();
        self.victims.replace(victims);
        any
    }

    /// Evicts the unused lines among these lines of one memory node. One doorbell at the end of the
    /// sweep submits the releases of all of them. With an `evict_batch` of 1 the doorbell rings at
    /// once.
    fn evict_batch(&self, lines: &[GlobalAddr]) -> bool {
        let gone = lines.iter().filter(|line| self.evict(**line)).count();
        self.core.counters.victims_in_use.add((lines.len() - gone) as u64);
        if gone > 0 {
            self.core.counters.evictions_for_room.add(gone as u64);
            self.core.counters.eviction_batches.add(1);
            if self.node_core.settings.evict_batch == 1 {
                self.core.port.ring();
            }
        }
        gone > 0
    }

    /// Evicts a line, unless the line is in use, has failed or has an operation outstanding.
    /// Returns whether the node gave the line up. If the release could not be posted, the line has
    /// failed.
    pub(crate) fn evict(&self, addr: GlobalAddr) -> bool {
        let mut records = self.node.records.shard(addr).lock();
        let record = self.record(&mut records, addr);
        let held = record.line.hold() != Ownership::Invalid;
        if held && record.local.failed.is_none() {
            self.node.protocol.evict(&mut self.site(addr, record));
        }
        let gone = held && record.line.hold() == Ownership::Invalid;
        if gone {
            self.core.counters.evictions.add(1);
            self.recycle(&mut record.local);
        }
        self.finish(&mut records, addr);
        gone
    }

    /// Frees the frame of a line whose release was just posted, or marks the frame to be freed when
    /// the release is complete. If the release could not be posted, the line has failed and its
    /// frame is released.
    ///
    /// After a post, the frame can be free at once for these reasons:
    ///
    /// 1. The line was at rest. No verb except the release was in flight, no invalidation request
    ///    was open (R5), and no access had reserved the line.
    /// 2. So unless the release itself reads the frame, no verb touches it.
    /// 3. A waiter that has not yet seen how its wait ended must find the frame. So a frame with
    ///    waiters stays until the release is complete.
    /// 4. Other threads may still read the frame. Their reads do not validate, because the state
    ///    changed before.
    /// 5. This thread has loaded all bytes that it copied before it pushes the frame into the free
    ///    list. The push has release ordering, and the pop of the next user has acquire ordering.
    ///    So the next user's writes come later.
    fn recycle(&self, local: &mut LocalSide) {
        if local.failed.is_some() {
            // The release could not be posted.
            self.core.give_frame_back(local);
            return;
        }
        strict_assert!(!local.evicting, "a line is evicted twice at one time");
        strict_assert!(!local.is_in_doubt(), "a forward reads the frame of a line at rest");
        let awaited = !local.waiters.is_empty();
        if local.frame_in_verb || awaited || self.node_core.settings.write_back_ring == 0 {
            local.evicting = true;
            let releasing = self.node_core.releasing.fetch_add(1, Ordering::Relaxed);
            strict_assert!(
                releasing < self.node_core.cache.capacity(),
                "{releasing} releases free the frames of a smaller cache"
            );
        } else if let Some(id) = local.frame.take() {
            let frame = self.node_core.cache.frame(id);
            strict_assert_eq!(frame.state().ownership(), Ownership::Invalid, "step 4 above");
            strict_assert!(!frame.is_reserved(), "an access has reserved a line at rest");
            strict_assert!(frame.dirty().is_empty(), "changes leave with the frame: {frame:?}");
            self.node_core.cache.detach(id);
            self.node_core.frame_waiters.wake();
        }
    }
}
