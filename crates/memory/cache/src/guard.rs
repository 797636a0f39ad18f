//! The two ways to touch a cached line: an optimistic read and a write under the local latch.

use std::marker::PhantomData;
use std::ops::Range;

use latchwork_verbs::{GlobalAddr, LINE_HEADER, WORD, Words};

use crate::frame::Frame;
use crate::{DirtyBounds, FrameId, FrameState, Ownership};

/// Which copy a read saw, to ask later whether it is still the same.
///
/// The frame belongs to it: a line that was away may come back into another frame, whose counter
/// may have come just as far.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadVersion {
    /// The line.
    pub addr: GlobalAddr,
    /// The frame that held the copy.
    pub frame: FrameId,
    /// The copy's counter in its frame.
    pub counter: u64,
}

/// A read of a cached line that holds nothing and writes nothing.
///
/// What it returns may be torn by a concurrent local writer or by the loss of the line, until
/// [`validate`](OptimisticRead::validate) says otherwise: check before acting on it.
#[derive(Clone, Copy, Debug)]
pub struct OptimisticRead<'a> {
    frame: &'a Frame,
    id: FrameId,
    line: Words<'a>,
    addr: GlobalAddr,
    state: FrameState,
}

impl<'a> OptimisticRead<'a> {
    pub(crate) fn new(
        (id, frame): (FrameId, &'a Frame),
        line: Words<'a>,
        addr: GlobalAddr,
        state: FrameState,
    ) -> Self {
        OptimisticRead { frame, id, line, addr, state }
    }

    /// The line's address.
    #[inline]
    pub fn addr(&self) -> GlobalAddr {
        self.addr
    }

    #[inline]
    pub(crate) fn frame(&self) -> &'a Frame {
        self.frame
    }

    /// The line's payload (without the pool's header of [`LINE_HEADER`] bytes).
    #[inline]
    pub fn words(&self) -> Words<'a> {
        payload(self.line)
    }

    /// The whole line, the pool's header included.
    #[inline]
    pub fn line(&self) -> Words<'a> {
        self.line
    }

    /// Whether everything read so far was one consistent copy, which this node had the right to
    /// read when the read began.
    #[inline]
    #[must_use]
    pub fn validate(&self) -> bool {
        self.frame.is_still(self.state)
    }

    /// Takes the local latch, if all that was read is one consistent copy and still the line's, and
    /// the node owns the line exclusively. What was found in it holds for the guard.
    #[inline]
    #[must_use]
    pub fn latch(self) -> Option<WriteGuard<'a>> {
        let held = self.frame.try_latch_from(self.state)?;
        Some(WriteGuard::new((self.id, self.frame), self.line, self.addr, held))
    }

    /// How the node owned the line when the read began.
    #[inline]
    pub fn ownership(&self) -> Ownership {
        self.state.ownership()
    }

    /// How transactions of this node have locked the line: [`Ownership::Invalid`] when none has. Of
    /// use only if the read validates afterwards; then the frame held the line at that moment.
    ///
    /// For a transaction that locks nothing that it only reads: it locks what it writes, says
    /// `fence(SeqCst)`, and then reads what it has read again and looks here, before it validates.
    /// Of two that write what the other reads, the fence of one comes first in the order of all
    /// such fences. What that one did before its fence, the other sees in everything that it loads
    /// behind its own: the lock, or what came after it in the word. That is the unlock, and to see
    /// it is to acquire all that was written under the lock: then the state is another than that of
    /// a read that began before, which does not validate. A read that began later has the new
    /// bytes. The same holds for the loss of the line to another node, which comes before that
    /// node's lock: there the line is not readable here.
    #[inline]
    pub fn locked(&self) -> Ownership {
        self.frame.locked()
    }

    /// Which copy this is.
    pub fn version(&self) -> ReadVersion {
        ReadVersion { addr: self.addr, frame: self.id, counter: self.state.counter() }
    }
}

/// The local latch of a line that the node owns exclusively. Dropping it publishes what was written
/// to the node's readers; the line itself stays with the node until another asks for it.
///
/// It must not be held across an await: it cannot leave its thread, and every accessor of the line
/// waits for it.
#[derive(Debug)]
pub struct WriteGuard<'a> {
    frame: &'a Frame,
    id: FrameId,
    line: Words<'a>,
    addr: GlobalAddr,
    held: FrameState,
    dirty: DirtyBounds,
    not_send: PhantomData<*const ()>,
}

impl<'a> WriteGuard<'a> {
    pub(crate) fn new(
        (id, frame): (FrameId, &'a Frame),
        line: Words<'a>,
        addr: GlobalAddr,
        held: FrameState,
    ) -> Self {
        let (dirty, not_send) = (DirtyBounds::EMPTY, PhantomData);
        WriteGuard { frame, id, line, addr, held, dirty, not_send }
    }

    /// The line's address.
    #[inline]
    pub fn addr(&self) -> GlobalAddr {
        self.addr
    }

    /// The line's payload, which the holder may write. Every change must be reported to
    /// [`mark_dirty`](WriteGuard::mark_dirty), or it can be lost when the line is given back.
    #[inline]
    pub fn words(&self) -> Words<'a> {
        payload(self.line)
    }

    /// The whole line, the pool's header included.
    #[inline]
    pub fn line(&self) -> Words<'a> {
        self.line
    }

    /// How transactions of this node have locked the line: [`Ownership::Invalid`] when none has.
    ///
    /// Who locks, and then looks at the line under its latch as well, misses nothing that was
    /// written under a guard that saw no lock: the one of the two that latches later acquires what
    /// the other did before. Who locks and then only reads needs `fence(SeqCst)` in between, and so
    /// does the holder of the guard before this look.
    #[inline]
    pub fn locked(&self) -> Ownership {
        self.frame.locked()
    }

    /// Which copy the writer found, to compare with what an earlier read saw.
    pub fn version(&self) -> ReadVersion {
        ReadVersion { addr: self.addr, frame: self.id, counter: self.held.counter() }
    }

    /// Reports that the payload's byte range `range` changed.
    #[inline]
    pub fn mark_dirty(&mut self, range: Range<usize>) {
        if !range.is_empty() {
            self.mark_line_dirty(range.start + LINE_HEADER..range.end + LINE_HEADER);
        }
    }

    /// Reports that the whole line's byte range `range` changed, the header counted.
    #[inline]
    pub fn mark_line_dirty(&mut self, range: Range<usize>) {
        debug_assert!(range.end <= self.line.len(), "dirty range {range:?} outside the line");
        self.dirty = self.dirty.union(DirtyBounds::of(range));
    }
}

#[inline]
fn payload(line: Words<'_>) -> Words<'_> {
    line.skip(LINE_HEADER / WORD)
}

impl Drop for WriteGuard<'_> {
    fn drop(&mut self) {
        if !self.dirty.is_empty() {
            self.frame.set_dirty(self.frame.dirty().union(self.dirty));
        }
        self.frame.unlatch(self.held);
    }
}
