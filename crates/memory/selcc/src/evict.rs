//! Eviction: lines are given up so that there are frames for others (SELCC 5.2).
//!
//! Whoever polls evicts, on every sweep on which frames run short, so that a miss finds a free one.
//! The victims of a sweep go in batches, one for each memory node, behind one doorbell each. What
//! is evicted leaves its frame at once if it is clean, or if its changes can be copied
//! ([`crate::write_back`]); otherwise when its release is complete. The record stays until then in
//! either case: whoever wants the line again gets another frame, and waits there for the line's own
//! release (rule R1), and what others ask meanwhile is answered behind it.

use latchwork_cache::{FrameState, Ownership};
use latchwork_coherence::MemoryError;
use latchwork_latch::{Event, Hold};
use latchwork_runtime::sync::Ordering;
use latchwork_verbs::{GlobalAddr, VerbError};

use crate::node::Node;
use crate::record::Record;
use crate::worker::{Inner, LEAVE_STEP, Worker};

/// Lines that a node which leaves gives back between two sweeps.
const GIVE_BACK: usize = 64;

impl Worker {
    /// Gives back every line that the node holds, changes written back, so that the node can leave:
    /// afterwards no latch word names it, and its cache may go. For a node whose other workers, all
    /// but the handler, have left; nobody may begin an access meanwhile.
    ///
    /// # Errors
    /// [`MemoryError::Stuck`] when nothing was given back for as long as the deadline, as when
    /// lines are locked or a memory node is gone; [`MemoryError::Fabric`] when the node may not
    /// touch memory any more.
    pub async fn give_back(&self) -> Result<(), MemoryError> {
        let (inner, node) = (&self.inner, &self.inner.node);
        let waited = node.settings.deadline;
        let mut deadline = inner.handle.now() + waited;
        let mut least = usize::MAX;
        loop {
            let is_held = |state: FrameState| state.ownership() != Ownership::Invalid;
            let held = node.cache.lines().filter(|(_, state)| is_held(*state));
            let held: Vec<_> = held.map(|(addr, _)| addr).collect();
            let left = held.len() + node.lines_under_way();
            if left == 0 {
                return Ok(());
            }
            if inner.port.is_barred() {
                return Err(VerbError::Barred.into());
            }
            if left < least {
                least = left;
                deadline = inner.handle.now() + waited;
            } else if inner.handle.now() >= deadline {
                return Err(MemoryError::Stuck { in_flight: left, waited });
            }
            for batch in held.chunks(GIVE_BACK) {
                batch.iter().for_each(|line| _ = inner.evict(*line));
                inner.handle.sleep(LEAVE_STEP).await;
            }
            inner.handle.sleep(LEAVE_STEP).await;
        }
    }
}

impl Inner {
    /// How many frames are missing: none as long as it is not worth an eviction. Asked on every
    /// sweep.
    #[inline]
    fn shortage(&self) -> usize {
        let Node { cache, reserve, frame_waiters, releasing, .. } = &*self.node;
        let waiting = frame_waiters.len();
        let coming = cache.free_frames() + releasing.load(Ordering::Relaxed);
        if coming < reserve.enough + waiting { reserve.wanted + waiting - coming } else { 0 }
    }

    /// Whether frames run short, so that lines should be given up.
    pub(crate) fn is_short(&self) -> bool {
        self.shortage() > 0
    }

    /// Gives lines up, in batches, when frames run short. Whoever polls does it, so a miss finds a
    /// free frame.
    #[inline]
    pub(crate) fn evict_if_short(&self) -> bool {
        let shortage = self.shortage();
        shortage > 0 && self.evict_some(shortage)
    }

    fn evict_some(&self, shortage: usize) -> bool {
        let most = self.node.settings.evict_batch;
        let mut victims = self.victims.take();
        self.node.cache.victims(shortage.min(most), &mut victims);
        victims.sort_unstable();
        let mut any = false;
        for batch in victims.chunk_by(|a, b| a.node() == b.node()) {
            any |= self.evict_batch(batch);
        }
        victims.clear();
        self.victims.replace(victims);
        any
    }

    /// Gives up lines of one memory node, as far as they are not in use. The doorbell rings for all
    /// of them at the end of the sweep; where they go one at a time, for each at once.
    fn evict_batch(&self, lines: &[GlobalAddr]) -> bool {
        let gone = lines.iter().filter(|line| self.evict(**line)).count();
        self.counters.victims_in_use.add((lines.len() - gone) as u64);
        if gone > 0 {
            self.counters.evictions_for_room.add(gone as u64);
            self.counters.eviction_batches.add(1);
            if self.node.settings.evict_batch == 1 {
                self.port.ring();
            }
        }
        gone > 0
    }

    /// Gives a line up, unless it is in use. Returns whether its release was posted.
    pub(crate) fn evict(&self, addr: GlobalAddr) -> bool {
        let mut records = self.node.records.shard(addr).lock();
        let record = self.record(&mut records, addr);
        let held = record.line.hold() != Hold::Nothing;
        if held && record.failed.is_none() {
            self.drive(addr, record, Event::Evict);
        }
        let gone = held && record.line.hold() == Hold::Nothing;
        if gone {
            self.counters.evictions.add(1);
            self.recycle(record);
        }
        self.finish(&mut records, addr);
        gone
    }

    /// Frees the frame of a line whose release was just posted, or has it freed when that is
    /// complete.
    ///
    /// The line was at rest: no verb but the release was in flight, no question was open (R5), and
    /// nobody had reserved it. So unless the release itself reads the frame, nothing does. Whoever
    /// has waited for the line and does not know yet how that ended finds the frame where it was.
    /// What other threads still read in it does not validate: the state changed before. What this
    /// one has copied from it was loaded before the frame is pushed into the free list, which
    /// releases, and whoever fills it has popped it from there, which acquires.
    fn recycle(&self, record: &mut Record) {
        if record.failed.is_some() {
            // It could not be posted.
            self.give_frame_back(record);
            return;
        }
        let awaited = !record.waiters.is_empty();
        if record.frame_in_verb || awaited || self.node.settings.write_back_ring == 0 {
            record.evicting = true;
            self.node.releasing.fetch_add(1, Ordering::Relaxed);
        } else if let Some(id) = record.frame.take() {
            self.node.cache.detach(id);
            self.node.frame_waiters.wake();
        }
    }
}
