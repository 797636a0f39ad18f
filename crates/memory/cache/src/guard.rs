//! The two ways to access a cached line: an optimistic read, and a write under the local latch.

use std::marker::PhantomData;
use std::ops::Range;

use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{GlobalAddr, LINE_HEADER, WORD, Words};

use crate::frame::Frame;
use crate::{DirtyBounds, FrameId, FrameState, Ownership};

/// The copy that a read saw, to check later whether it is still the same.
///
/// The version contains the frame, because a line may leave and return into another frame. The
/// counter of that frame may have the same value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReadVersion {
    /// The line.
    pub addr: GlobalAddr,
    /// The frame that held the copy.
    pub frame: FrameId,
    /// The copy's counter in its frame.
    pub counter: u64,
}

/// A read of a cached line that takes no latch.
///
/// A concurrent local writer or the loss of the line may tear the bytes that this read returns. Do
/// not act on them before [`validate`](OptimisticRead::validate) returns `true`.
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
        strict_assert!(state.is_readable(), "a read begins on a readable copy");
        strict_assert!(!addr.is_null());
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

    /// Returns `true` only if everything read so far was one consistent copy that this node had the
    /// right to read when the read began. A change of ownership of the same bytes also makes the
    /// result `false`.
    #[inline]
    #[must_use]
    pub fn validate(&self) -> bool {
        self.frame.is_still(self.state)
    }

    /// Takes the local latch. Succeeds only if everything read so far is one consistent copy that
    /// is still current. Fails also if the node does not own the line exclusively, or if local
    /// writers give way to other nodes. After a success, the guard has the bytes that were read.
    #[inline]
    #[must_use]
    pub fn latch(self) -> Option<WriteGuard<'a>> {
        let held = self.frame.try_latch_from(self.state)?;
        strict_assert!(
            held.counter() == self.state.counter(),
            "the bytes changed between the read and the latch"
        );
        strict_assert_eq!(
            self.frame.addr(),
            self.addr,
            "the frame changed its line under a valid read"
        );
        Some(WriteGuard::new((self.id, self.frame), self.line, self.addr, held))
    }

    /// The node's ownership of the line when the read began.
    #[inline]
    pub fn ownership(&self) -> Ownership {
        self.state.ownership()
    }

    /// The mode in which transactions of this node have locked the line; [`Ownership::Invalid`]
    /// without a lock. Use the result only if the read validates afterwards: then the frame held
    /// the line at that moment.
    ///
    /// This serves transactions that do not lock the lines that they only read. Such a transaction
    /// locks the lines that it writes and executes `fence(SeqCst)`. Then it reads its other lines
    /// again, calls this function, and validates. Suppose that each of two transactions writes a
    /// line that the other reads:
    ///
    /// 1. The memory fence of one transaction, T1, comes first in the order of all such fences.
    /// 2. The other transaction, T2, sees T1's actions before that memory fence in all loads after
    ///    its own. So T2 sees T1's lock, or a later value of the lock word.
    /// 3. A later value comes from T1's unlock or a later change. A load of that value acquires all
    ///    that T1 wrote under the lock. So a read that T2 began before finds another state and does
    ///    not validate. A read that T2 began later has the new bytes.
    /// 4. If T1 is on another node, the line left T2's node before T1 locked it. Then the line is
    ///    not readable at T2's node.
    #[inline]
    pub fn locked(&self) -> Ownership {
        self.frame.locked()
    }

    /// The version of this copy.
    pub fn version(&self) -> ReadVersion {
        ReadVersion { addr: self.addr, frame: self.id, counter: self.state.counter() }
    }
}

/// The local latch of a line that the node owns exclusively. Dropping the guard publishes the
/// written bytes to the node's readers. With lazy release, the node then keeps the line until
/// another node requests it or the cache evicts it.
///
/// Do not hold the guard across an await: the guard cannot leave its thread, and every other access
/// to the line waits for it.
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
        strict_assert!(held.is_latched(), "a guard without the latch");
        strict_assert_eq!(held.ownership(), Ownership::Exclusive, "a writer does not own the line");
        strict_assert_eq!(frame.addr(), addr, "the guard is for another line");
        WriteGuard { frame, id, line, addr, held, dirty, not_send }
    }

    /// The line's address.
    #[inline]
    pub fn addr(&self) -> GlobalAddr {
        self.addr
    }

    /// The line's payload, which the holder may write. Report every change to
    /// [`mark_dirty`](WriteGuard::mark_dirty). Otherwise the change can be lost when the line
    /// leaves the node.
    #[inline]
    pub fn words(&self) -> Words<'a> {
        payload(self.line)
    }

    /// The whole line, the pool's header included.
    #[inline]
    pub fn line(&self) -> Words<'a> {
        self.line
    }

    /// The mode in which transactions of this node have locked the line; [`Ownership::Invalid`]
    /// without a lock.
    ///
    /// Suppose that a guard saw no lock, and that a transaction locks the line and then reads it:
    ///
    /// - Under the latch, the transaction sees all writes of the guard. Each latch holder acquires
    ///   the actions of the earlier ones, and the transaction holds the latch after the guard.
    ///   Otherwise the guard would have seen the lock.
    /// - Without the latch, the transaction needs `fence(SeqCst)` between the lock and the read.
    ///   The holder of the guard then needs `fence(SeqCst)` before this call, too.
    #[inline]
    pub fn locked(&self) -> Ownership {
        self.frame.locked()
    }

    /// The version that the writer found, for a comparison with the version of an earlier read.
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

    /// Reports that the byte range `range` of the whole line changed, the header included.
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
        strict_assert_eq!(self.frame.state(), self.held, "another task changed a latched frame");
        strict_assert_eq!(self.frame.addr(), self.addr, "the line left under its writer");
        if !self.dirty.is_empty() {
            self.frame.set_dirty(self.frame.dirty().union(self.dirty));
            strict_assert!(
                self.frame.dirty().range().end <= self.line.len(),
                "dirty bytes behind the line"
            );
        }
        self.frame.unlatch(self.held);
    }
}
