//! The epoch approximation of LRU (ScaleStore 4.1): each frame has the replacement epoch of its
//! last use, and the victims are the oldest frames of a sample.

use std::cmp::Reverse;

use latchwork_runtime::sync::{AtomicU32, AtomicUsize, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::GlobalAddr;

use super::rule::{Replacement, evictable};
use crate::FrameId;
use crate::frame::Frame;

/// The smallest sample, in frames. In a smaller sample, chance would mostly decide.
const SAMPLE_MIN: usize = 16;
const _: () = assert!(SAMPLE_MIN > 1, "the oldest of one frame is no choice");

/// The state that all evictions share.
#[derive(Debug)]
#[repr(align(128))]
pub(super) struct Epoch {
    sample: usize,
    share: usize,
    evicted_in_epoch: AtomicUsize,
    hand: AtomicUsize,
}

/// The policy with its clock, which counts replacement epochs. Hits read the clock, so the clock
/// does not share CPU cache lines with the data that every eviction writes.
pub(super) struct At<'a> {
    epoch: &'a Epoch,
    clock: &'a AtomicU32,
}

impl Epoch {
    pub(super) fn new(sample: usize, share: usize) -> Epoch {
        let (sample, share) = (sample.max(1), share.max(1));
        strict_assert!(sample > 0 && share > 0);
        Epoch { sample, share, evicted_in_epoch: AtomicUsize::new(0), hand: AtomicUsize::new(0) }
    }

    pub(super) fn at<'a>(&'a self, clock: &'a AtomicU32) -> At<'a> {
        At { epoch: self, clock }
    }
}

impl Replacement for At<'_> {
    fn enter(&self, frames: &[Frame], id: FrameId) {
        self.touch(frames, id);
    }

    fn touch(&self, frames: &[Frame], id: FrameId) {
        frames[id.0 as usize].set_last_use(self.clock.load(Ordering::Relaxed));
    }

    fn leave(&self, _frames: &[Frame], _id: FrameId) {}

    fn victims(&self, frames: &[Frame], wanted: usize, out: &mut Vec<GlobalAddr>) {
        let Epoch { sample, share, evicted_in_epoch, hand } = self.epoch;
        strict_assert!(!frames.is_empty(), "a cache has frames");
        let sample = wanted.saturating_mul(*sample).max(SAMPLE_MIN).min(frames.len());
        strict_assert!(sample <= frames.len());
        let start = hand.fetch_add(sample, Ordering::Relaxed) % frames.len();
        let now = self.clock.load(Ordering::Relaxed);
        let (behind, ahead) = frames.split_at(start);
        strict_assert_eq!(ahead.len() + behind.len(), frames.len());
        let mut seen = Vec::with_capacity(sample);
        for frame in ahead.iter().chain(behind).take(sample) {
            if let Some(addr) = evictable(frame) {
                seen.push((now.wrapping_sub(frame.last_use()), addr));
            }
        }
        seen.sort_unstable_by_key(|&(age, _)| Reverse(age));
        seen.truncate(wanted);
        strict_assert!(seen.len() <= wanted);
        strict_assert!(seen.is_sorted_by_key(|&(age, _)| Reverse(age)), "the oldest come first");
        let evicted = evicted_in_epoch.fetch_add(seen.len(), Ordering::Relaxed) + seen.len();
        if evicted * share >= frames.len() {
            evicted_in_epoch.store(0, Ordering::Relaxed);
            self.clock.fetch_add(1, Ordering::Relaxed);
        }
        out.extend(seen.into_iter().map(|(_, addr)| addr));
    }
}
