//! [`FreeFrames`]: the frames without a line; the frame that was freed last is on top.
//!
//! The list is a stack and not a queue, because the frame that was freed last is most likely still
//! in the processor's caches. A queue would use all frames in turn.

use latchwork_runtime::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};

#[cfg(all(test, loom))]
mod interleavings;

/// A lock-free stack of frame numbers: Treiber's stack, with a count in the head against the ABA
/// problem.
///
/// The head is a frame number and a count of all changes, 32 bits each. `below` has the next frame
/// under each frame in the stack. Only the thread that owns a frame writes the frame's entry.
///
/// Why a pop never installs an old entry:
///
/// 1. A popping thread reads the entry under the head, and then exchanges the head.
/// 2. If other threads popped and pushed in between, the entry may be old. But then the count has
///    changed, and the exchange fails.
/// 3. The same head returns only after an exact multiple of 2^32 changes between these two steps.
#[derive(Debug)]
pub(crate) struct FreeFrames {
    head: Padded<AtomicU64>,
    len: Padded<AtomicUsize>,
    below: Box<[AtomicU32]>,
}

/// A value that nearly every operation writes, on CPU cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// No frame: the entry under the lowest frame.
const BOTTOM: u32 = u32::MAX;

const COUNT_ONE: u64 = 1 << 32;

fn head_of(seen: u64, top: u32) -> u64 {
    (seen & !(COUNT_ONE - 1)).wrapping_add(COUNT_ONE) | u64::from(top)
}

impl FreeFrames {
    /// All of `frames` frames, the first on top.
    ///
    /// Frame `u32::MAX` cannot exist: such a cache would need terabytes of memory.
    pub(crate) fn all(frames: usize) -> Self {
        let below = |frame| if frame + 1 < frames { frame as u32 + 1 } else { BOTTOM };
        strict_assert!(frames < BOTTOM as usize, "a frame number equals the mark of the bottom");
        FreeFrames {
            head: Padded(AtomicU64::new(if frames > 0 { 0 } else { u64::from(BOTTOM) })),
            len: Padded(AtomicUsize::new(frames)),
            below: (0..frames).map(|frame| AtomicU32::new(below(frame))).collect(),
        }
    }

    /// The number of bytes that the list takes for each frame.
    pub(crate) const ENTRY: usize = size_of::<u32>();

    /// Takes the top frame. Acquire ordering: everything that was done to the frame before it was
    /// freed is visible.
    pub(crate) fn pop(&self) -> Option<u32> {
        let mut head = self.head.0.load(Ordering::Acquire);
        loop {
            let top = head as u32;
            if top == BOTTOM {
                return None;
            }
            let below = self.below[top as usize].load(Ordering::Relaxed);
            let next = head_of(head, below);
            strict_assert!((top as usize) < self.below.len(), "frame {top} does not exist");
            strict_assert_ne!(next, head, "every change counts");
            // Acquire again: the failed exchange may return a newer head.
            match self.head.0.compare_exchange_weak(
                head,
                next,
                Ordering::Acquire,
                Ordering::Acquire,
            ) {
                Ok(_) => {
                    self.len.0.fetch_sub(1, Ordering::Relaxed);
                    return Some(top);
                }
                Err(now) => head = now,
            }
        }
    }

    /// Puts `frame`, which only the caller has, on top. Release ordering: see [`FreeFrames::pop`].
    ///
    /// Every exchange of the head continues the release sequences of the earlier ones. So a pop of
    /// a frame from deep in the stack has acquired the push of that frame.
    pub(crate) fn push(&self, frame: u32) {
        // Counted before the push, so that the count is never below zero.
        self.len.0.fetch_add(1, Ordering::Relaxed);
        strict_assert!((frame as usize) < self.below.len(), "frame {frame} does not exist");
        strict_assert_ne!(frame, BOTTOM);
        let mut head = self.head.0.load(Ordering::Relaxed);
        loop {
            strict_assert_ne!(head as u32, frame, "frame {frame} is freed twice");
            self.below[frame as usize].store(head as u32, Ordering::Relaxed);
            let next = head_of(head, frame);
            strict_assert_eq!(next as u32, frame);
            match self.head.0.compare_exchange_weak(
                head,
                next,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// The number of free frames, which may be a moment old. Zero only if no frame was free at that
    /// moment. The loads order nothing: a task that waits for a frame has its own memory fence.
    pub(crate) fn len(&self) -> usize {
        let empty = self.head.0.load(Ordering::Relaxed) as u32 == BOTTOM;
        if empty { 0 } else { self.len.0.load(Ordering::Relaxed).max(1) }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn the_frame_that_was_freed_last_is_taken_first() {
        let free = FreeFrames::all(3);
        assert_eq!((free.pop(), free.pop(), free.len()), (Some(0), Some(1), 1));
        free.push(0);
        assert_eq!((free.len(), free.pop(), free.pop(), free.pop()), (2, Some(0), Some(2), None));
        assert_eq!(free.len(), 0);
        free.push(1);
        assert_eq!((free.pop(), free.pop()), (Some(1), None));
        assert_eq!(FreeFrames::all(0).pop(), None);
    }

    #[test]
    fn no_frame_is_in_two_hands_and_none_is_lost() {
        const FRAMES: usize = 3;
        let free = FreeFrames::all(FRAMES);
        let taken: Vec<_> = (0..FRAMES).map(|_| AtomicBool::new(false)).collect();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for round in 0..20_000 {
                        let Some(frame) = free.pop() else { continue };
                        assert!(
                            !taken[frame as usize].swap(true, Ordering::Relaxed),
                            "in two hands"
                        );
                        if round % 64 == 0 {
                            thread::yield_now();
                        }
                        taken[frame as usize].store(false, Ordering::Relaxed);
                        free.push(frame);
                    }
                });
            }
        });
        let mut all: Vec<_> = std::iter::from_fn(|| free.pop()).collect();
        all.sort_unstable();
        assert_eq!(all, [0, 1, 2]);
    }
}
