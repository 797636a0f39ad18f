//! The cache of a compute node: an arena of frames within an exact memory limit.

use std::ops::Range;
use std::sync::Arc;

use latchwork_verbs::{
    GlobalAddr, LINE_HEADER, LocalBuffer, Region, RegionKey, WORD, Words, large_slice,
};
use thiserror::Error;

use crate::frame::Frame;
use crate::free::FreeFrames;
use crate::guard::{OptimisticRead, WriteGuard};
use crate::hint::{Hint, HintBlocks};
use crate::index::Index;
use crate::replacement::Policy;
use crate::{FrameId, FrameState, Ownership, ReplacementPolicy, TryLock};

/// Why a cache cannot be made.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CacheError {
    /// The limit is too small.
    #[error(
        "a cache of {bytes} bytes holds {frames} lines of {line_size} bytes; it needs {least} lines, which take {least_bytes} bytes"
    )]
    TooSmall {
        /// The limit asked for.
        bytes: usize,
        /// How many frames fit.
        frames: usize,
        /// The line size.
        line_size: usize,
        /// How many frames it must have.
        least: usize,
        /// How many bytes these take.
        least_bytes: usize,
    },
    /// The operating system gave no memory.
    #[error("no memory for a cache of {bytes} bytes")]
    OutOfMemory {
        /// The limit asked for.
        bytes: usize,
    },
}

// Between lines, so that the heads of lines do not all fall into the same sets of the CPU's caches.
const STAGGER: usize = 64;

/// The frames of one compute node, shared by its workers.
///
/// Every hit reads these fields, so nothing that is written all the time stands in their CPU cache
/// lines, whatever this is a part of.
#[derive(Debug)]
#[repr(align(128))]
pub struct Cache {
    frames: Box<[Frame]>,
    arena: Arc<Region>,
    index: Index,
    hints: HintBlocks,
    free: FreeFrames,
    line_size: usize,
    replacement: Policy,
}

impl Cache {
    /// The fewest frames a cache can have.
    pub const MIN_FRAMES: usize = 2;

    /// A cache whose frames, headers, index and hints together take at most `bytes` bytes.
    ///
    /// # Errors
    /// [`CacheError::TooSmall`] when fewer than `least` frames fit, and when memory is refused.
    pub fn with_memory(bytes: usize, line_size: usize, least: usize) -> Result<Self, CacheError> {
        Self::with_memory_in(bytes, line_size, least, |arena| {
            let refused = |_| CacheError::OutOfMemory { bytes };
            Region::zeroed(arena).map_err(refused)
        })
    }

    /// As [`with_memory`](Cache::with_memory), with lines in memory of another origin: `make` is
    /// told how many bytes.
    ///
    /// # Errors
    /// As there, and those of `make`.
    pub fn with_memory_in<E: From<CacheError>>(
        bytes: usize,
        line_size: usize,
        least: usize,
        make: impl FnOnce(usize) -> Result<Arc<Region>, E>,
    ) -> Result<Self, E> {
        let least = least.max(Self::MIN_FRAMES);
        let mut low = 0;
        let mut high = bytes / line_size + 1;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if Self::footprint(middle, line_size) <= bytes {
                low = middle;
            } else {
                high = middle;
            }
        }
        if low < least {
            let least_bytes = Self::footprint(least, line_size);
            let too_small =
                CacheError::TooSmall { bytes, frames: low, line_size, least, least_bytes };
            return Err(too_small.into());
        }
        Ok(Self::in_arena(low, line_size, make(Self::arena_bytes(low, line_size))?))
    }

    /// A cache of exactly `frames` frames.
    ///
    /// # Errors
    /// When memory is refused.
    pub fn with_frames(frames: usize, line_size: usize) -> Result<Self, CacheError> {
        let arena = Region::zeroed(Self::arena_bytes(frames, line_size))
            .map_err(|_| CacheError::OutOfMemory { bytes: Self::footprint(frames, line_size) })?;
        Ok(Self::in_arena(frames, line_size, arena))
    }

    fn arena_bytes(frames: usize, line_size: usize) -> usize {
        frames * (line_size + STAGGER)
    }

    fn in_arena(frames: usize, line_size: usize, arena: Arc<Region>) -> Self {
        Cache {
            frames: large_slice(frames, Frame::default),
            arena,
            index: Index::new(frames),
            hints: HintBlocks::new(frames, line_size),
            free: FreeFrames::all(frames),
            line_size,
            replacement: Policy::new(ReplacementPolicy::default()),
        }
    }

    /// The same cache, still empty, with another replacement policy.
    #[must_use]
    pub fn with_replacement(self, policy: ReplacementPolicy) -> Self {
        debug_assert_eq!(self.free_frames(), self.capacity(), "there are lines in it already");
        Cache { replacement: Policy::new(policy), ..self }
    }

    /// Bytes that a cache of `frames` frames takes in all: lines, headers, index, hints, free list.
    pub fn footprint(frames: usize, line_size: usize) -> usize {
        frames * (line_size + STAGGER + size_of::<Frame>() + FreeFrames::ENTRY)
            + Index::footprint(frames)
            + HintBlocks::footprint(frames, line_size)
    }

    /// How many frames there are.
    pub fn capacity(&self) -> usize {
        self.frames.len()
    }

    /// How many frames are free.
    pub fn free_frames(&self) -> usize {
        self.free.len()
    }

    /// The line size in bytes, header included.
    pub fn line_size(&self) -> usize {
        self.line_size
    }

    /// The memory of the lines, to be registered with the fabric.
    pub fn arena(&self) -> &Arc<Region> {
        &self.arena
    }

    /// The frame's header.
    #[inline]
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    fn offset(&self, id: FrameId) -> usize {
        id.0 as usize * (self.line_size + STAGGER)
    }

    /// The whole line, header included.
    #[inline]
    pub fn line(&self, id: FrameId) -> Words<'_> {
        let (first, words) = (self.offset(id) / WORD, self.line_size / WORD);
        Words::new(&self.arena.atomics()[first..first + words])
    }

    /// The whole line as a buffer in the arena, which was registered as `region`.
    pub fn buffer(&self, id: FrameId, region: RegionKey) -> LocalBuffer {
        LocalBuffer { region, offset: self.offset(id) as u64, len: self.line_size as u32 }
    }

    /// The frame that holds `addr`, if any.
    #[inline]
    pub fn find(&self, addr: GlobalAddr) -> Option<FrameId> {
        self.index.find(addr, |id| self.frame(id).addr() == addr)
    }

    /// Takes a free frame for `addr` and puts it into the index, invalid and clean. `None` when no
    /// frame is free. Calls for one address are serialised by the caller.
    pub fn attach(&self, addr: GlobalAddr) -> Option<FrameId> {
        let id = FrameId(self.free.pop()?);
        let frame = self.frame(id);
        debug_assert_eq!(frame.state().ownership(), Ownership::Invalid);
        // A reader of the last line may have asked for some when that was gone.
        self.hints.take(frame);
        frame.set_addr(addr);
        frame.set_dirty(crate::DirtyBounds::EMPTY);
        frame.end_watch();
        if frame.asks_first() {
            // About the last line.
            frame.ask_no_more();
        }
        self.replacement.enter(&self.frames, id);
        self.index.insert(addr, id);
        Some(id)
    }

    /// Takes the frame, which is invalid and in no verb, out of the index and frees it.
    pub fn detach(&self, id: FrameId) {
        let frame = self.frame(id);
        debug_assert_eq!(frame.state().ownership(), Ownership::Invalid);
        self.index.remove(frame.addr(), id);
        self.hints.take(frame);
        self.replacement.leave(&self.frames, id);
        frame.set_addr(GlobalAddr::NULL);
        self.free.push(id.0);
    }

    /// Starts an optimistic read; `None` unless the line is cached, readable and not being written.
    #[inline]
    pub fn try_read(&self, addr: GlobalAddr) -> Option<OptimisticRead<'_>> {
        self.read_in(self.find(addr)?, addr)
    }

    /// As [`try_read`](Cache::try_read), of a line that is probably where `hint` says.
    #[inline(always)]
    pub fn try_read_at(&self, addr: GlobalAddr, hint: &Hint) -> Option<OptimisticRead<'_>> {
        match self.read_in(hint.guess(), addr) {
            Some(read) => Some(read),
            None => self.read_anew(addr, hint),
        }
    }

    /// Takes the local latch of a line that the node owns exclusively; `None` when it does not, or
    /// when another local writer is at work.
    #[inline]
    pub fn try_write(&self, addr: GlobalAddr) -> Option<WriteGuard<'_>> {
        self.write_in(self.find(addr)?, addr)
    }

    /// As [`try_write`](Cache::try_write), of a line that is probably where `hint` says.
    #[inline]
    pub fn try_write_at(&self, addr: GlobalAddr, hint: &Hint) -> Option<WriteGuard<'_>> {
        self.write_in(self.find_at(addr, hint)?, addr)
    }

    #[inline]
    fn write_in(&self, id: FrameId, addr: GlobalAddr) -> Option<WriteGuard<'_>> {
        let frame = self.frame(id);
        let held = frame.try_latch()?;
        if frame.addr() != addr {
            frame.unlatch(held);
            return None;
        }
        self.touch(id, frame);
        Some(WriteGuard::new((id, frame), self.line(id), addr, held))
    }

    /// Locks a line for a transaction, if it is here and owned at least so; see [`Frame::locked`].
    /// `Locked` says in which frame it is, and whether it is the line's first lock.
    ///
    /// Needs no lock of the protocol. A frame that changes hands at this very moment may make
    /// another line seem locked for an instant, which refuses others for nothing.
    #[inline]
    pub fn try_lock(&self, addr: GlobalAddr, ownership: Ownership) -> TryLock<(FrameId, bool)> {
        self.lock_in(self.find(addr), addr, ownership)
    }

    /// As [`try_lock`](Cache::try_lock), of a line that is probably where `hint` says.
    #[inline]
    pub fn try_lock_at(
        &self,
        addr: GlobalAddr,
        ownership: Ownership,
        hint: &Hint,
    ) -> TryLock<(FrameId, bool)> {
        self.lock_in(self.find_at(addr, hint), addr, ownership)
    }

    #[inline]
    fn lock_in(
        &self,
        id: Option<FrameId>,
        addr: GlobalAddr,
        ownership: Ownership,
    ) -> TryLock<(FrameId, bool)> {
        let Some(id) = id else { return TryLock::Ask };
        match self.frame(id).try_lock_unasked(addr, ownership) {
            TryLock::Locked(first) => TryLock::Locked((id, first)),
            TryLock::Refused => TryLock::Refused,
            TryLock::Ask => TryLock::Ask,
        }
    }

    /// Whether a transaction of this node [detains](Frame::detain) a line, which is probably where
    /// `hint` says.
    ///
    /// Of a line that was read: once this is false, all that was seen in it is there for all nodes.
    /// While it is detained a line stays where it is, so one that is not here is not.
    #[inline]
    pub fn is_detained(&self, addr: GlobalAddr, hint: &Hint) -> bool {
        let Some(id) = self.find_at(addr, hint) else { return false };
        self.frame(id).is_detained()
    }

    #[inline(always)]
    fn touch(&self, id: FrameId, frame: &Frame) {
        if !self.replacement.is_noted(frame) {
            self.replacement.touch(&self.frames, id);
        }
    }

    #[inline(always)]
    fn read_in(&self, id: FrameId, addr: GlobalAddr) -> Option<OptimisticRead<'_>> {
        let frame = self.frames.get(id.0 as usize)?;
        let state = frame.state();
        // The address after the state: the frame may have changed hands since somebody looked where
        // the line is, and from here on a change of hands changes the state.
        if !state.is_readable() || frame.addr() != addr {
            return None;
        }
        self.touch(id, frame);
        Some(OptimisticRead::new((id, frame), self.line(id), addr, state))
    }

    #[cold]
    #[inline(never)]
    fn read_anew(&self, addr: GlobalAddr, hint: &Hint) -> Option<OptimisticRead<'_>> {
        self.read_in(self.find_anew(addr, hint)?, addr)
    }

    /// Looks the line up, since the guess was wrong or the line cannot be had.
    #[cold]
    #[inline(never)]
    fn find_anew(&self, addr: GlobalAddr, hint: &Hint) -> Option<FrameId> {
        let id = self.find(addr)?;
        if id == hint.guess() {
            return None;
        }
        hint.correct(id);
        Some(id)
    }

    /// Where the line is, most likely where `hint` says, which is corrected otherwise. The frame
    /// may change hands at any moment, as with [`find`](Cache::find).
    #[inline]
    fn find_at(&self, addr: GlobalAddr, hint: &Hint) -> Option<FrameId> {
        let id = hint.guess();
        if self.frames.get(id.0 as usize).is_some_and(|frame| frame.addr() == addr) {
            return Some(id);
        }
        let id = self.find(addr)?;
        hint.correct(id);
        Some(id)
    }

    /// Guesses where the lines are that the line of `read` leads to, for
    /// [`try_read_at`](Cache::try_read_at): for the first so many of them, in the order that their
    /// user numbers them in. None at all when too many frames have some already.
    #[inline]
    pub fn hints(&self, read: &OptimisticRead<'_>) -> &[Hint] {
        self.hints.of(read.frame())
    }

    /// Asks the processor for the header and the payload's byte range `bytes` of the frame that
    /// `hint` says. Reads neither.
    #[inline]
    pub fn prefetch(&self, hint: &Hint, bytes: Range<usize>) {
        let id = hint.guess();
        if let Some(frame) = self.frames.get(id.0 as usize) {
            frame.prefetch();
            self.line(id).prefetch(LINE_HEADER + bytes.start..LINE_HEADER + bytes.end);
        }
    }

    /// Where the line is at the moment, if it is here: for whoever will read it soon, and again.
    #[inline]
    pub fn guess(&self, addr: GlobalAddr) -> Hint {
        self.find(addr).map_or_else(Hint::default, Hint::at)
    }

    /// Asks the processor for what [`guess`](Cache::guess) reads.
    #[inline]
    pub fn prefetch_guess(&self, addr: GlobalAddr) {
        self.index.prefetch(addr);
    }

    /// Asks the processor for what a lock of the line that is probably where `hint` says writes of
    /// its header.
    #[inline]
    pub fn prefetch_lock(&self, hint: &Hint) {
        if let Some(frame) = self.frames.get(hint.guess().0 as usize) {
            frame.prefetch_write();
        }
    }

    /// The word at byte `offset` of the payload of whatever line is in the frame that `hint` says:
    /// for guesses at what to prefetch, since it may be torn, and another line's.
    #[inline]
    pub fn peek(&self, hint: &Hint, offset: usize) -> u64 {
        let id = hint.guess();
        match self.frames.get(id.0 as usize) {
            Some(_) => self.line(id).word((LINE_HEADER + offset) / WORD),
            None => 0,
        }
    }

    /// Up to `wanted` lines to evict: those used longest ago, as far as the replacement policy
    /// knows.
    ///
    /// Only a proposal: whoever evicts asks again under the protocol's own lock.
    pub fn victims(&self, wanted: usize, out: &mut Vec<GlobalAddr>) {
        self.replacement.victims(&self.frames, wanted, out);
    }

    /// Every line in the cache with its state, for checks of a node at rest.
    pub fn lines(&self) -> impl Iterator<Item = (GlobalAddr, FrameState)> {
        self.frames.iter().filter(|f| !f.addr().is_null()).map(|f| (f.addr(), f.state()))
    }
}
