//! Hints: guesses in which frame a line is, kept where the line's address was found.
//!
//! Pages contain addresses, because pages travel between nodes. An address costs a lookup in the
//! index. So the frame of an inner page of a tree gets a block of hints, one for each child. A hint
//! is the frame in which the child was found last. A reader compares the child's address with the
//! address in the header of that frame. The reader loads this header anyway. A wrong hint costs the
//! lookup that the hint should have saved, and is corrected.
//!
//! Correctness does not depend on a hint, so all accesses are relaxed. A block that moves to
//! another frame keeps its old hints, which are wrong there.

use latchwork_runtime::sync::{ArrayQueue, AtomicU32, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};

use latchwork_verbs::large_slice;

use crate::FrameId;
use crate::frame::Frame;

/// A guess in which frame a line is.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Hint(AtomicU32);

impl Hint {
    /// A hint at `frame`.
    #[inline]
    pub fn at(frame: FrameId) -> Hint {
        Hint(AtomicU32::new(frame.0 + 1))
    }

    /// The guessed frame. Without a guess, a number that no frame has.
    #[inline]
    pub(crate) fn guess(&self) -> FrameId {
        FrameId(self.0.load(Ordering::Relaxed).wrapping_sub(1))
    }

    /// Copies the guess of `other`.
    #[inline]
    pub fn copy_from(&self, other: &Hint) {
        self.0.store(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Notes the frame in which the line was found. Readers call this after a wrong hint, not on a
    /// plain hit.
    pub(crate) fn correct(&self, frame: FrameId) {
        strict_assert!(frame.0 < u32::MAX - 1, "{frame:?} is no frame");
        self.0.store(frame.0 + 1, Ordering::Relaxed);
    }
}

/// Blocks of hints for the frames that need one.
#[derive(Debug)]
pub(crate) struct HintBlocks {
    hints: Box<[Hint]>,
    per_block: usize,
    free: ArrayQueue<u32>,
}

impl HintBlocks {
    // An inner page has some 30 to 120 children, so at most about one page in 31 is an inner page.
    // A frame without a block uses the index.
    const FRAMES_PER_BLOCK: usize = 32;
    // A child takes at least 16 bytes of its page: separator and address.
    const BYTES_PER_CHILD: usize = 16;

    fn shape(frames: usize, line_size: usize) -> (usize, usize) {
        (frames.div_ceil(Self::FRAMES_PER_BLOCK), line_size.div_ceil(Self::BYTES_PER_CHILD))
    }

    /// The number of bytes that the blocks for `frames` frames take, free list included.
    pub(crate) fn footprint(frames: usize, line_size: usize) -> usize {
        let (blocks, per_block) = Self::shape(frames, line_size);
        blocks * (per_block * size_of::<Hint>() + 2 * size_of::<usize>())
    }

    pub(crate) fn new(frames: usize, line_size: usize) -> HintBlocks {
        let (blocks, per_block) = Self::shape(frames, line_size);
        strict_assert!(blocks < u32::MAX as usize, "blocks are numbered from 1");
        let free = ArrayQueue::new(blocks);
        for block in 0..blocks as u32 {
            // The queue has room for every block.
            let _ = free.push(block);
        }
        let hints = large_slice(blocks * per_block, Hint::default);
        strict_assert_eq!(free.len(), blocks, "every block is free");
        strict_assert!(per_block > 0, "a block without hints");
        HintBlocks { hints, per_block, free }
    }

    /// The hints of a frame; empty when the frame has no block and no block is free.
    #[inline]
    pub(crate) fn of(&self, frame: &Frame) -> &[Hint] {
        match frame.hints() {
            0 => self.add(frame),
            block => self.block(block),
        }
    }

    #[inline]
    fn block(&self, block: u32) -> &[Hint] {
        strict_assert_ne!(block, 0, "block 0 stands for none");
        strict_assert!(
            block as usize * self.per_block <= self.hints.len(),
            "block {block} does not exist"
        );
        let start = (block as usize - 1) * self.per_block;
        self.hints.get(start..start + self.per_block).unwrap_or(&[])
    }

    #[cold]
    #[inline(never)]
    fn add(&self, frame: &Frame) -> &[Hint] {
        let Some(block) = self.free.pop() else { return &[] };
        match frame.add_hints(block + 1) {
            Ok(()) => self.block(block + 1),
            Err(other) => {
                // Another reader was faster. The queue has room for the block that was just taken.
                let _ = self.free.push(block);
                self.block(other)
            }
        }
    }

    /// Takes the frame's block away, if it has one. A reader that still uses the block changes at
    /// most a guess.
    pub(crate) fn take(&self, frame: &Frame) {
        if let Some(block) = frame.take_hints().checked_sub(1) {
            strict_assert!(
                self.free.len() < self.hints.len() / self.per_block,
                "a block is freed twice"
            );
            // A block is in one frame or in the list.
            let _ = self.free.push(block);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_block_belongs_to_one_frame_until_it_is_taken() {
        let blocks = HintBlocks::new(2 * HintBlocks::FRAMES_PER_BLOCK, 1024);
        let frames: [Frame; 3] = Default::default();
        let block = |i: usize| blocks.of(&frames[i]).as_ptr();
        assert_eq!(blocks.of(&frames[0]).len(), 64);
        assert_eq!(block(0), block(0));
        assert_ne!(block(0), block(1));
        assert!(blocks.of(&frames[2]).is_empty(), "two blocks for so many frames");
        let first = block(0);
        blocks.take(&frames[0]);
        blocks.take(&frames[0]);
        assert_eq!(block(2), first);
        assert!(blocks.of(&frames[0]).is_empty());
    }
}
