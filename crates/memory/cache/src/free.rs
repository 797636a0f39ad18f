//! [`FreeFrames`]: the frames that hold no line, the one that was freed last on top.
//!
//! A stack and not a queue: the frame that was freed last is still in the processor's caches, while
//! a queue would lead every line that comes and goes through all the memory there is.

use latchwork_runtime::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

#[cfg(all(test, loom))]
mod interleavings;

/// A stack of frame numbers with many threads at both ends of every operation (Treiber's, with a
/// count in the head against the return of an old head).
///
/// The head is a number and a count of all changes, 32 bits each; `below` has what lies under each
/// frame that is in the stack. A frame's entry is written only by the thread that has it in its
/// hands.
///
/// A thread that pops reads the entry under the head and then exchanges the head. Where other
/// threads popped and pushed in between, the entry may be old, but then the count has changed and
/// the exchange fails: it would take exactly a multiple of 2^32 changes between two instructions of
/// one thread to bring the same head back.
#[derive(Debug)]
pub(crate) struct FreeFrames {
    head: Padded<AtomicU64>,
    len: Padded<AtomicUsize>,
    below: Box<[AtomicU32]>,
}

/// Written at every change, so in cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Padded<T>(T);

/// No frame: what lies under the lowest.
const BOTTOM: u32 = u32::MAX;

const COUNT_ONE: u64 = 1 << 32;

fn head_of(seen: u64, top: u32) -> u64 {
    (seen & !(COUNT_ONE - 1)).wrapping_add(COUNT_ONE) | u64::from(top)
}

impl FreeFrames {
    /// All of `frames` frames, the first on top.
    ///
    /// Frame `u32::MAX` cannot be: a cache of so many would take petabytes of headers.
    pub(crate) fn all(frames: usize) -> Self {
        let below = |frame| if frame + 1 < frames { frame as u32 + 1 } else { BOTTOM };
        FreeFrames {
            head: Padded(AtomicU64::new(if frames > 0 { 0 } else { u64::from(BOTTOM) })),
            len: Padded(AtomicUsize::new(frames)),
            below: (0..frames).map(|frame| AtomicU32::new(below(frame))).collect(),
        }
    }

    /// Bytes that the list takes for each frame.
    pub(crate) const ENTRY: usize = size_of::<u32>();

    /// Takes the frame on top. Acquire: whatever was done to it before it was freed is visible.
    pub(crate) fn pop(&self) -> Option<u32> {
        let mut head = self.head.0.load(Ordering::Acquire);
        loop {
            let top = head as u32;
            if top == BOTTOM {
                return None;
            }
            let below = self.below[top as usize].load(Ordering::Relaxed);
            let next = head_of(head, below);
            // Acquire again: the head may be one that came since.
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

    /// Puts `frame`, which is in nobody else's hands, on top. Release: see [`FreeFrames::pop`].
    ///
    /// Every exchange of the head, by whomever, continues the release of those before it, so
    /// whoever pops a frame from deep below has acquired the push of just that frame.
    pub(crate) fn push(&self, frame: u32) {
        // Counted before it is there, so that the count is never below zero.
        self.len.0.fetch_add(1, Ordering::Relaxed);
        let mut head = self.head.0.load(Ordering::Relaxed);
        loop {
            self.below[frame as usize].store(head as u32, Ordering::Relaxed);
            let next = head_of(head, frame);
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

    /// How many frames there are, or were a moment ago; zero only if there was none. Orders
    /// nothing: whoever waits for a frame has a fence.
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
