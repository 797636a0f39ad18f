//! Hints: guesses at the frame that holds a line, kept where the line's address was found.
//!
//! Pages hold addresses, since they travel between nodes, and an address costs a lookup in the
//! index. So the frame of an inner page gets a block of hints, one for each child: where that child
//! was found the last time. A guess is checked against the address in the frame's header, which a
//! reader loads anyway. A wrong one costs the lookup that it would have saved, and is corrected.
//!
//! Nothing depends on a guess, so all accesses are relaxed. Blocks go from frame to frame with
//! whatever is in them.

use latchwork_runtime::sync::{ArrayQueue, AtomicU32, Ordering};

use latchwork_verbs::large_slice;

use crate::FrameId;
use crate::frame::Frame;

/// A guess at the frame that holds a line.
#[derive(Debug, Default)]
#[repr(transparent)]
pub struct Hint(AtomicU32);

impl Hint {
    /// The guess that it is `frame`.
    #[inline]
    pub fn at(frame: FrameId) -> Hint {
        Hint(AtomicU32::new(frame.0 + 1))
    }

    /// The frame; out of bounds when there is no guess.
    #[inline]
    pub(crate) fn guess(&self) -> FrameId {
        FrameId(self.0.load(Ordering::Relaxed).wrapping_sub(1))
    }

    /// Takes over another's guess.
    #[inline]
    pub fn copy_from(&self, other: &Hint) {
        self.0.store(other.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Notes where the line was found. Readers come here when the guess was wrong, not on a plain
    /// hit.
    pub(crate) fn correct(&self, frame: FrameId) {
        self.0.store(frame.0 + 1, Ordering::Relaxed);
    }
}

/// Blocks of hints for the frames that ask for one.
#[derive(Debug)]
pub(crate) struct HintBlocks {
    hints: Box<[Hint]>,
    per_block: usize,
    free: ArrayQueue<u32>,
}

impl HintBlocks {
    // Inner pages have some 30 to 120 children; what finds no block makes do with the index.
    const FRAMES_PER_BLOCK: usize = 32;
    // A child takes 16 bytes of its page at least: separator and address.
    const BYTES_PER_CHILD: usize = 16;

    fn shape(frames: usize, line_size: usize) -> (usize, usize) {
        (frames.div_ceil(Self::FRAMES_PER_BLOCK), line_size.div_ceil(Self::BYTES_PER_CHILD))
    }

    /// Bytes that the blocks for `frames` frames take, their free list included.
    pub(crate) fn footprint(frames: usize, line_size: usize) -> usize {
        let (blocks, per_block) = Self::shape(frames, line_size);
        blocks * (per_block * size_of::<Hint>() + 2 * size_of::<usize>())
    }

    pub(crate) fn new(frames: usize, line_size: usize) -> HintBlocks {
        let (blocks, per_block) = Self::shape(frames, line_size);
        let free = ArrayQueue::new(blocks);
        for block in 0..blocks as u32 {
            // The queue has room for every block.
            let _ = free.push(block);
        }
        let hints = large_slice(blocks * per_block, Hint::default);
        HintBlocks { hints, per_block, free }
    }

    /// The hints of a frame; none when it has no block and there is none left.
    #[inline]
    pub(crate) fn of(&self, frame: &Frame) -> &[Hint] {
        match frame.hints() {
            0 => self.add(frame),
            block => self.block(block),
        }
    }

    #[inline]
    fn block(&self, block: u32) -> &[Hint] {
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
                // Another reader was faster. There is room for what was just taken out.
                let _ = self.free.push(block);
                self.block(other)
            }
        }
    }

    /// Takes the frame's block away, if it has one. A reader that still has it spoils a guess at
    /// most.
    pub(crate) fn take(&self, frame: &Frame) {
        if let Some(block) = frame.take_hints().checked_sub(1) {
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
