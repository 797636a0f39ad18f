//! Replacement: which lines leave when frames run short.

mod epoch;
mod lru;

use latchwork_runtime::sync::{AtomicU32, Ordering};
use latchwork_verbs::GlobalAddr;

use crate::FrameId;
use crate::frame::Frame;
use epoch::Epoch;
use lru::Lru;

/// How lines are chosen that leave when frames run short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReplacementPolicy {
    /// Of a sample, those that were used longest ago, told by the epoch of their last use
    /// (ScaleStore 4.1). A hit writes shared memory once in an epoch.
    Epoch {
        /// Frames that are looked at for each that is wanted.
        sample: usize,
        /// A new epoch begins when one frame in this many was replaced.
        share: usize,
    },
    /// Those that were used longest ago (SELCC 5.2). Every hit locks and writes a list that all
    /// workers share.
    Lru,
}

impl Default for ReplacementPolicy {
    fn default() -> Self {
        ReplacementPolicy::Epoch { sample: 4, share: 10 }
    }
}

/// A policy at work. All may be called by any thread at any time, with frames that have changed
/// hands since: whatever is said about them is a guess.
pub(crate) trait Replacement {
    /// The frame got a line.
    fn enter(&self, frames: &[Frame], id: FrameId);

    /// The frame's line was used, in a way that [`Policy::is_noted`] does not know of yet.
    fn touch(&self, frames: &[Frame], id: FrameId);

    /// The frame is free.
    fn leave(&self, frames: &[Frame], id: FrameId);

    /// Adds up to `wanted` lines that are not in use to `out`, those that were used longest ago as
    /// far as the policy knows.
    fn victims(&self, frames: &[Frame], wanted: usize, out: &mut Vec<GlobalAddr>);
}

/// The policy of a cache.
///
/// No hit asks which one it is. It compares the frame's last use with the clock; with epochs they
/// differ once in an epoch, and with LRU always, since the clock shows a time that no frame has.
/// What follows is a call, and only then the policies part.
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

/// No frame's last use, nor what a frame says that is watched.
const NEVER: u32 = u32::MAX - 1;

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

    /// Whether there is nothing to note about a use of this frame now.
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

/// The line in the frame, if it may be a victim: not one that is being fetched, written or awaited.
fn evictable(frame: &Frame) -> Option<GlobalAddr> {
    let free = frame.state().is_readable() && !frame.is_reserved() && !frame.is_kept();
    Some(frame.addr()).filter(|addr| free && !addr.is_null())
}
