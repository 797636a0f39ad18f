//! Replacement: the choice of the lines that leave when frames run short.

mod epoch;
mod lru;
mod rule;

use latchwork_runtime::sync::{AtomicU32, Ordering};
use latchwork_verbs::GlobalAddr;

use crate::FrameId;
use crate::frame::Frame;
use epoch::Epoch;
use lru::Lru;
use rule::Replacement;

/// The rule that chooses the lines to evict when frames run short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplacementPolicy {
    /// Of a sample, the lines with the oldest replacement epoch of last use (ScaleStore 4.1). The
    /// first hit of a line in an epoch writes shared memory, the others do not.
    Epoch {
        /// Frames that are examined for each wanted frame; at least 16 in all, if the cache has as
        /// many.
        sample: usize,
        /// A new epoch begins after the policy has proposed one frame in this many for eviction.
        share: usize,
    },
    /// The lines with the oldest last use (SELCC 5.2). Every hit locks a list that all workers
    /// share, and moves the frame to the end of the list.
    Lru,
}

impl Default for ReplacementPolicy {
    fn default() -> Self {
        ReplacementPolicy::Epoch { sample: 4, share: 10 }
    }
}

/// The policy of a cache.
///
/// A hit does not branch on the kind of policy. The hit compares the note of the frame's last use
/// with the clock, and calls the policy only if the two differ. With epochs they differ at the
/// first hit of a frame in an epoch. With LRU they always differ, because the clock has a value
/// that no note has.
#[derive(Debug)]
pub(crate) struct Policy {
    clock: AtomicU32,
    chosen: Chosen,
}

#[derive(Debug)]
enum Chosen {
    Epoch(Epoch),
    Lru(Lru),
}

/// A value that is neither the last use of a frame nor the mark of a watched frame.
const NEVER: u32 = u32::MAX - 1;
const _: () = assert!(NEVER > 1 << 31, "no epoch reaches the clock of LRU");

impl Policy {
    pub(crate) fn new(policy: ReplacementPolicy) -> Policy {
        match policy {
            ReplacementPolicy::Epoch { sample, share } => {
                let chosen = Chosen::Epoch(Epoch::new(sample, share));
                Policy { clock: AtomicU32::new(1), chosen }
            }
            ReplacementPolicy::Lru => {
                Policy { clock: AtomicU32::new(NEVER), chosen: Chosen::Lru(Lru::default()) }
            }
        }
    }

    /// Whether a use of this frame now needs no note.
    #[inline(always)]
    pub(crate) fn is_noted(&self, frame: &Frame) -> bool {
        frame.noted_use() == self.clock.load(Ordering::Relaxed)
    }

    #[cold]
    #[inline(never)]
    pub(crate) fn touch(&self, frames: &[Frame], id: FrameId) {
        match &self.chosen {
            Chosen::Epoch(epoch) => epoch.at(&self.clock).touch(frames, id),
            Chosen::Lru(lru) => lru.touch(frames, id),
        }
    }

    pub(crate) fn enter(&self, frames: &[Frame], id: FrameId) {
        match &self.chosen {
            Chosen::Epoch(epoch) => epoch.at(&self.clock).enter(frames, id),
            Chosen::Lru(lru) => lru.enter(frames, id),
        }
    }

    pub(crate) fn leave(&self, frames: &[Frame], id: FrameId) {
        match &self.chosen {
            Chosen::Epoch(epoch) => epoch.at(&self.clock).leave(frames, id),
            Chosen::Lru(lru) => lru.leave(frames, id),
        }
    }

    pub(crate) fn victims(&self, frames: &[Frame], wanted: usize, out: &mut Vec<GlobalAddr>) {
        match &self.chosen {
            Chosen::Epoch(epoch) => epoch.at(&self.clock).victims(frames, wanted, out),
            Chosen::Lru(lru) => lru.victims(frames, wanted, out),
        }
    }
}
