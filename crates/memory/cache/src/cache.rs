//! The cache of a compute node: an arena of frames within an exact memory limit.

use std::ops::Range;
use std::sync::Arc;

use latchwork_strict::{strict_assert, strict_assert_eq};
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

/// Why a cache cannot be created.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum CacheError {
    /// The limit is too small.
    #[error(
        "a cache of {bytes} bytes holds {frames} lines of {line_size} bytes; it needs {least} lines, which take {least_bytes} bytes"
    )]
    TooSmall {
        /// The requested limit.
        bytes: usize,
        /// The number of frames that fit.
        frames: usize,
        /// The line size.
        line_size: usize,
        /// The required number of frames.
        least: usize,
        /// The number of bytes that these frames take.
        least_bytes: usize,
    },
    /// The operating system gave no memory.
    #[error("no memory for a cache of {bytes} bytes")]
    OutOfMemory {
        /// The requested limit.
        bytes: usize,
    },
}

// Padding between lines in bytes, so that the first bytes of all lines do not fall into the same
// sets of the CPU's caches.
const STAGGER: usize = 64;
const _: () = assert!(STAGGER.is_multiple_of(WORD), "lines begin at a word");
const _: () = assert!(LINE_HEADER.is_multiple_of(WORD), "payloads begin at a word");

/// The frames of one compute node, shared by its workers.
///
/// Every hit reads fields of this type. The alignment keeps frequently written data of an enclosing
/// type out of their CPU cache lines.
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
    /// The smallest number of frames of a cache that a memory limit sizes.
    pub(crate) const MIN_FRAMES: usize = 2;

    /// A cache whose frames, headers, index, hints and free list together take at most `bytes`
    /// bytes.
    ///
    /// # Errors
    /// [`CacheError::TooSmall`] when fewer than `least` or fewer than two frames
    /// fit. [`CacheError::OutOfMemory`] when the operating system gives no memory for the lines.
    pub fn with_memory(bytes: usize, line_size: usize, least: usize) -> Result<Self, CacheError> {
        Self::with_memory_in(bytes, line_size, least, |arena| {
            let refused = |_| CacheError::OutOfMemory { bytes };
            Region::zeroed(arena).map_err(refused)
        })
    }

    /// Like [`with_memory`](Cache::with_memory), with lines in memory that `make` creates. `make`
    /// gets the number of bytes.
    ///
    /// # Errors
    /// [`CacheError::TooSmall`] as there, and the errors of `make`.
    pub fn with_memory_in<E: From<CacheError>>(
        bytes: usize,
        line_size: usize,
        least: usize,
        make: impl FnOnce(usize) -> Result<Arc<Region>, E>,
    ) -> Result<Self, E> {
        let least = least.max(Self::MIN_FRAMES);
        strict_assert!(line_size > LINE_HEADER, "a line of {line_size} bytes has no payload");
        let mut low = 0;
        let mut high = bytes / line_size + 1;
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            strict_assert!(low < high, "the search keeps a frame count between its bounds");
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
        strict_assert!(Self::footprint(low, line_size) <= bytes, "the frames exceed the memory");
        strict_assert!(
            Self::footprint(low + 1, line_size) > bytes || low == bytes / line_size,
            "one more frame would fit"
        );
        Ok(Self::in_arena(low, line_size, make(Self::arena_bytes(low, line_size))?))
    }

    /// A cache of exactly `frames` frames.
    ///
    /// # Errors
    /// [`CacheError::OutOfMemory`] when the operating system gives no memory for the lines.
    pub fn with_frames(frames: usize, line_size: usize) -> Result<Self, CacheError> {
        let arena = Region::zeroed(Self::arena_bytes(frames, line_size))
            .map_err(|_| CacheError::OutOfMemory { bytes: Self::footprint(frames, line_size) })?;
        Ok(Self::in_arena(frames, line_size, arena))
    }

    fn arena_bytes(frames: usize, line_size: usize) -> usize {
        frames * (line_size + STAGGER)
    }

    fn in_arena(frames: usize, line_size: usize, arena: Arc<Region>) -> Self {
        strict_assert!(
            frames <= u32::MAX as usize - 2,
            "a frame number and its marks fit into 32 bits"
        );
        strict_assert!(
            arena.len() >= Self::arena_bytes(frames, line_size),
            "the arena is too small for {frames} frames"
        );
        strict_assert!(
            line_size.is_multiple_of(WORD),
            "a line of {line_size} bytes is not whole words"
        );
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

    /// The number of bytes that a cache of `frames` frames takes in all: lines, headers, index,
    /// hints, free list.
    pub fn footprint(frames: usize, line_size: usize) -> usize {
        frames * (line_size + STAGGER + size_of::<Frame>() + FreeFrames::ENTRY)
            + Index::footprint(frames)
            + HintBlocks::footprint(frames, line_size)
    }

    /// The number of frames.
    pub fn capacity(&self) -> usize {
        self.frames.len()
    }

    /// The number of free frames.
    pub fn free_frames(&self) -> usize {
        self.free.len()
    }

    /// The line size in bytes, header included.
    pub fn line_size(&self) -> usize {
        self.line_size
    }

    /// The memory of the lines, for registration with the fabric.
    pub fn arena(&self) -> &Arc<Region> {
        &self.arena
    }

    /// The frame's header.
    #[inline]
    pub fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id.0 as usize]
    }

    fn offset(&self, id: FrameId) -> usize {
        strict_assert!((id.0 as usize) < self.frames.len(), "{id:?} is no frame of this cache");
        id.0 as usize * (self.line_size + STAGGER)
    }

    /// The whole line, header included.
    #[inline]
    pub fn line(&self, id: FrameId) -> Words<'_> {
        let (first, words) = (self.offset(id) / WORD, self.line_size / WORD);
        strict_assert!(
            (first + words) * WORD <= self.arena.len(),
            "the line of {id:?} leaves the arena"
        );
        Words::new(&self.arena.atomics()[first..first + words])
    }

    /// The whole line as a buffer in the arena, which is registered as `region`.
    pub fn buffer(&self, id: FrameId, region: RegionKey) -> LocalBuffer {
        strict_assert!((self.offset(id) + self.line_size) as u64 <= self.arena.len() as u64);
        LocalBuffer { region, offset: self.offset(id) as u64, len: self.line_size as u32 }
    }

    /// The frame that holds `addr`, if any.
    #[inline]
    pub fn find(&self, addr: GlobalAddr) -> Option<FrameId> {
        self.index.find(addr, |id| self.frame(id).addr() == addr)
    }

    /// Takes a free frame for `addr` and puts it into the index, invalid and clean. `None` when no
    /// frame is free. The caller serialises the calls for one address.
    pub fn attach(&self, addr: GlobalAddr) -> Option<FrameId> {
        strict_assert!(!addr.is_null(), "the null address has no line");
        let id = FrameId(self.free.pop()?);
        let frame = self.frame(id);
        strict_assert!(frame.addr().is_null(), "a free frame holds {}", frame.addr());
        strict_assert_eq!(frame.locked(), Ownership::Invalid, "a free frame is locked");
        strict_assert!(!frame.has_node_lock(), "a free frame has a node lock");
        debug_assert_eq!(frame.state().ownership(), Ownership::Invalid);
        // A reader of the frame's earlier line may have added a block of hints after that line
        // left. A block that it adds from here on stays: its hints are wrong guesses, no more.
        self.hints.take(frame);
        frame.set_addr(addr);
        frame.set_dirty(crate::DirtyBounds::EMPTY);
        frame.end_watch();
        if frame.has_request_mark() {
            // The mark concerns the last line.
            frame.clear_request_mark();
        }
        self.replacement.enter(&self.frames, id);
        self.index.insert(addr, id);
        Some(id)
    }

    /// Removes the frame from the index and frees it. The frame must be invalid, and no verb may
    /// use it.
    pub fn detach(&self, id: FrameId) {
        let frame = self.frame(id);
        strict_assert!(!frame.addr().is_null(), "{id:?} is free already");
        strict_assert_eq!(frame.kept(), Ownership::Invalid, "a lock keeps the line that leaves");
        strict_assert!(!frame.state().is_latched(), "a writer has the latch of a line that leaves");
        debug_assert_eq!(frame.state().ownership(), Ownership::Invalid);
        self.index.remove(frame.addr(), id);
        self.hints.take(frame);
        self.replacement.leave(&self.frames, id);
        frame.set_addr(GlobalAddr::NULL);
        self.free.push(id.0);
        strict_assert!(
            self.free.len() <= self.capacity().max(1),
            "more frames are free than exist"
        );
    }

    /// Starts an optimistic read; `None` unless the line is cached, readable and not being written.
    #[inline]
    pub fn try_read(&self, addr: GlobalAddr) -> Option<OptimisticRead<'_>> {
        self.read_in(self.find(addr)?, addr)
    }

    /// Like [`try_read`](Cache::try_read), for a line that is probably in the frame of `hint`.
    #[inline(always)]
    pub fn try_read_at(&self, addr: GlobalAddr, hint: &Hint) -> Option<OptimisticRead<'_>> {
        match self.read_in(hint.guess(), addr) {
            Some(read) => Some(read),
            None => self.read_anew(addr, hint),
        }
    }

    /// Takes the local latch of a line that the node owns exclusively. `None` when the node does
    /// not, when another local writer has the latch, or when local writers [give
    /// way](Frame::give_way) to other nodes.
    #[inline]
    pub fn try_write(&self, addr: GlobalAddr) -> Option<WriteGuard<'_>> {
        self.write_in(self.find(addr)?, addr)
    }

    /// Like [`try_write`](Cache::try_write), for a line that is probably in the frame of `hint`.
    #[inline]
    pub fn try_write_at(&self, addr: GlobalAddr, hint: &Hint) -> Option<WriteGuard<'_>> {
        self.write_in(self.find_at(addr, hint)?, addr)
    }

    #[inline]
    fn write_in(&self, id: FrameId, addr: GlobalAddr) -> Option<WriteGuard<'_>> {
        let frame = self.frame(id);
        let held = frame.try_latch()?;
        strict_assert!(held.is_latched() && held.ownership() == Ownership::Exclusive);
        if frame.addr() != addr {
            frame.unlatch(held);
            return None;
        }
        self.touch(id, frame);
        strict_assert!(!addr.is_null(), "a free frame was latched");
        Some(WriteGuard::new((id, frame), self.line(id), addr, held))
    }

    /// Locks a line for a transaction, if the line is here and owned in that mode; see
    /// [`Frame::locked`]. [`TryLock::Locked`] has the frame, and whether the line had no lock and
    /// no node lock before.
    ///
    /// The caller needs no lock of the protocol. If the frame changes to another line at this
    /// moment, that other line may seem locked for an instant. Then a transaction may be refused
    /// although no other transaction has locked that line.
    #[inline]
    pub fn try_lock(&self, addr: GlobalAddr, ownership: Ownership) -> TryLock<(FrameId, bool)> {
        self.lock_in(self.find(addr), addr, ownership)
    }

    /// Like [`try_lock`](Cache::try_lock), for a line that is probably in the frame of `hint`.
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

    /// Whether the line, probably in the frame of `hint`, has a [node
    /// lock](Frame::convert_to_node_lock).
    ///
    /// Call this after a read of the line. If the result is `false`, no node lock hides the bytes
    /// of that read from other nodes. A line with a node lock stays in its frame, so a line that is
    /// not here has none.
    #[inline]
    pub fn has_node_lock(&self, addr: GlobalAddr, hint: &Hint) -> bool {
        let Some(id) = self.find_at(addr, hint) else { return false };
        self.frame(id).has_node_lock()
    }

    /// Counts the line in this frame as used now, so that other lines leave the cache first.
    pub fn note_use(&self, id: FrameId) {
        self.touch(id, self.frame(id));
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
        // The address is checked after the state, because the frame may have changed to another
        // line since the lookup. A change after these two loads also changes the state, so the read
        // does not validate.
        if !state.is_readable() || frame.addr() != addr {
            return None;
        }
        self.touch(id, frame);
        strict_assert!(!state.is_latched(), "an optimistic read begins without a writer");
        Some(OptimisticRead::new((id, frame), self.line(id), addr, state))
    }

    #[cold]
    #[inline(never)]
    fn read_anew(&self, addr: GlobalAddr, hint: &Hint) -> Option<OptimisticRead<'_>> {
        self.read_in(self.find_anew(addr, hint)?, addr)
    }

    /// Looks the line up, because the hint was wrong or the line is not readable.
    #[cold]
    #[inline(never)]
    fn find_anew(&self, addr: GlobalAddr, hint: &Hint) -> Option<FrameId> {
        let id = self.find(addr)?;
        if id == hint.guess() {
            return None;
        }
        hint.correct(id);
        strict_assert_eq!(hint.guess(), id);
        Some(id)
    }

    /// The frame of the line: most likely the frame of `hint`. A wrong hint is corrected. The frame
    /// may change to another line at any moment, as with [`find`](Cache::find).
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

    /// Hints for the lines whose addresses are in the line of `read`, for
    /// [`try_read_at`](Cache::try_read_at). Hint `i` is for the line to which the user gives the
    /// number `i`. The slice is empty when too many other frames have hints.
    #[inline]
    pub fn hints(&self, read: &OptimisticRead<'_>) -> &[Hint] {
        self.hints.of(read.frame())
    }

    /// Prefetches the header and the payload's byte range `bytes` of the frame of `hint`. Reads
    /// neither.
    // Inlined always: where the range is known, the loop over its CPU cache lines becomes a few
    // instructions. Without the inlining, an insert into a B-link tree takes 50 instructions more.
    #[inline(always)]
    pub fn prefetch(&self, hint: &Hint, bytes: Range<usize>) {
        let id = hint.guess();
        if let Some(frame) = self.frames.get(id.0 as usize) {
            frame.prefetch();
            self.line(id).prefetch(LINE_HEADER + bytes.start..LINE_HEADER + bytes.end);
        }
    }

    /// A hint with the frame of the line, or an empty hint if the line is not here.
    #[inline]
    pub fn guess(&self, addr: GlobalAddr) -> Hint {
        self.find(addr).map_or_else(Hint::default, Hint::at)
    }

    /// Prefetches the bytes that [`guess`](Cache::guess) reads.
    #[inline]
    pub fn prefetch_guess(&self, addr: GlobalAddr) {
        self.index.prefetch(addr);
    }

    /// Prefetches the part of the header that a lock writes, for a line that is probably in the
    /// frame of `hint`.
    #[inline]
    pub fn prefetch_lock(&self, hint: &Hint) {
        if let Some(frame) = self.frames.get(hint.guess().0 as usize) {
            frame.prefetch_write();
        }
    }

    /// The word at byte `offset` of the payload in the frame of `hint`. The word may be torn or may
    /// belong to another line. So use it only to decide what to prefetch.
    #[inline]
    pub fn peek(&self, hint: &Hint, offset: usize) -> u64 {
        let id = hint.guess();
        match self.frames.get(id.0 as usize) {
            Some(_) => self.line(id).word((LINE_HEADER + offset) / WORD),
            None => 0,
        }
    }

    /// Up to `wanted` lines to evict: those with the oldest last use, as far as the replacement
    /// policy knows.
    ///
    /// The result is only a proposal: the evicting code checks again under the protocol's own lock.
    pub fn victims(&self, wanted: usize, out: &mut Vec<GlobalAddr>) {
        self.replacement.victims(&self.frames, wanted, out);
    }

    /// Every line in the cache with its state, for checks of a node at rest.
    pub fn lines(&self) -> impl Iterator<Item = (GlobalAddr, FrameState)> {
        self.frames.iter().filter(|f| !f.addr().is_null()).map(|f| (f.addr(), f.state()))
    }
}
