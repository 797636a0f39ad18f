//! [`LatchLine`]: the part of a line record that belongs to the protocols of the latch word.

use latchwork_cache::{DirtyBounds, Frame, Ownership};
use latchwork_coherence::AccessMode;
use latchwork_engine::{FrameCopy, LineState, LocalSide};
use latchwork_latch::{Hold, LatchWord, Line, LocalCopy, NodeSet, Seq, Want, WordOp};
use latchwork_runtime::Time;
use latchwork_verbs::ComputeNodeId;

use crate::line_lease::Lease;

/// The part of a line record that belongs to the protocols of the latch word: the line machine, the
/// hold-off, the back-off and the line lease.
#[derive(Debug)]
pub struct LatchLine {
    pub(crate) machine: Line,
    /// The dirty bounds from a grant, for the copy that is published next.
    pub(crate) incoming_dirty: DirtyBounds,
    /// The end of the hold-off of local readers.
    pub(crate) hold_off_until: Time,
    /// The time of the first refusal since a want of the node was last met or withdrawn. Zero: no
    /// refusal.
    pub(crate) refused_since: Time,
    /// An alarm is still set for the end of a back-off that ended early.
    pub(crate) retry_is_set: bool,
    /// The line lease.
    pub(crate) lease: Lease,
    /// An operation that is complete except for the pending probes.
    pub(crate) landed: Option<(WordOp, LatchWord)>,
}

impl LatchLine {
    /// A line at rest.
    #[inline]
    pub(crate) fn at_rest(node: ComputeNodeId, hold: Ownership) -> LatchLine {
        let hold = match hold {
            Ownership::Invalid => Hold::Nothing,
            Ownership::Shared => Hold::Shared,
            Ownership::Exclusive => Hold::Exclusive,
        };
        LatchLine {
            machine: Line::at_rest(node, hold, Seq::default()),
            incoming_dirty: DirtyBounds::EMPTY,
            hold_off_until: Time::ZERO,
            refused_since: Time::ZERO,
            retry_is_set: false,
            lease: Lease::Off,
            landed: None,
        }
    }
}

impl LatchLine {
    /// The relations of the fields after each step of the record. `local`: the engine's part.
    pub(crate) fn check(&self, local: &LocalSide) {
        assert!(
            self.landed.is_none() || local.is_in_doubt(),
            "an operation has landed, and waits for no probe: {self:?}"
        );
        assert!(
            self.incoming_dirty.is_empty(),
            "the dirty bounds of a message would count for the next copy: {self:?}"
        );
        assert!(
            self.lease == Lease::Off || self.machine.has_requests(),
            "a lease runs, and no other node requests the line: {self:?}"
        );
        assert!(
            self.lease != Lease::Off || !self.machine.is_blocked(),
            "local code keeps requests waiting without a lease: {self:?}"
        );
        if local.failed.is_some() {
            return;
        }
        assert!(
            self.machine.is_wanted() || self.refused_since == Time::ZERO,
            "the time of a refusal outlives the want: {self:?}"
        );
    }
}

impl LineState for LatchLine {
    #[inline]
    fn hold(&self) -> Ownership {
        ownership(self.machine.hold())
    }

    #[inline]
    fn is_wanted(&self) -> bool {
        self.machine.is_wanted()
    }

    #[inline]
    fn is_asked_for(&self) -> bool {
        self.machine.has_requests()
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        self.machine.is_blocked()
    }

    #[inline]
    fn is_at_rest(&self) -> bool {
        self.machine.is_at_rest()
    }

    #[inline]
    fn is_over(&self, now: Time) -> bool {
        self.machine.is_at_rest() && self.hold_off_until <= now
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.machine.is_idle()
    }

    fn is_asking(&self, peer: ComputeNodeId) -> bool {
        self.machine.is_asking(peer)
    }

    fn gives(&self, gone: u64) -> bool {
        self.machine.gives(NodeSet::from_bits(gone))
    }

    fn is_clear_of(&self, peer: ComputeNodeId) -> bool {
        self.machine.is_clear_of(peer)
    }

    #[inline]
    fn gives_way(&self) -> bool {
        self.lease == Lease::Over
    }

    #[inline]
    fn latch_was_free(&mut self) {
        self.lease.has_not_waited();
    }

    fn latch_was_held(&mut self, mode: AccessMode) {
        self.lease.has_waited(mode);
    }
}

/// The bit of a frame's [note](Frame::note) beside the priority of a starved writer: memory may
/// have an older version of any byte. The dirty bounds cannot say so, because a local writer may
/// change them at this moment.
const WHOLE: u32 = 1 << 8;

/// Notes that the next write-back of the line is one of the whole line: the node took the place of
/// a dead holder.
pub(crate) fn mark_whole(frame: &Frame) {
    frame.set_note(frame.note() | WHOLE);
}

/// Whether the frame has the mark of [`mark_whole`].
pub(crate) fn is_whole(frame: &Frame) -> bool {
    frame.note() & WHOLE != 0
}

/// Ends the mark of [`mark_whole`]. Returns whether it was there.
pub(crate) fn take_whole(frame: &Frame) -> bool {
    let was_there = is_whole(frame);
    frame.set_note(frame.note() & !WHOLE);
    was_there
}

/// The frame and the waiters, as the line machine sees them.
pub(crate) struct Copy<'a> {
    pub(crate) copy: FrameCopy<'a>,
}

impl LocalCopy for Copy<'_> {
    fn starved(&self) -> u8 {
        self.copy.note() as u8
    }

    fn set_starved(&mut self, priority: u8) {
        self.copy.set_note(self.copy.note() & WHOLE | u32::from(priority));
    }

    fn publish(&mut self, hold: Hold) {
        self.copy.publish(ownership(hold));
    }

    fn promote(&mut self) {
        self.copy.promote();
    }

    fn try_suspend(&mut self) -> bool {
        self.copy.try_suspend()
    }

    fn lose(&mut self) {
        self.copy.lose();
    }

    fn restore(&mut self) {
        self.copy.restore();
    }

    fn try_invalidate(&mut self) -> bool {
        self.copy.try_invalidate()
    }

    fn try_demote(&mut self) -> bool {
        self.copy.try_demote()
    }

    fn locked(&self) -> Option<Want> {
        self.copy.locked().map(want)
    }

    fn locked_out(&mut self, want: Want) -> Option<Want> {
        let mode = match want {
            Want::Shared => AccessMode::Shared,
            Want::Exclusive => AccessMode::Exclusive,
        };
        self.copy.locked_out(mode).map(self::want)
    }
}

/// The want of the line machine for this mode.
#[inline]
pub(crate) fn want(mode: AccessMode) -> Want {
    match mode {
        AccessMode::Shared => Want::Shared,
        AccessMode::Exclusive => Want::Exclusive,
    }
}

#[inline]
pub(crate) fn ownership(hold: Hold) -> Ownership {
    match hold {
        Hold::Nothing => Ownership::Invalid,
        Hold::Shared => Ownership::Shared,
        Hold::Exclusive => Ownership::Exclusive,
    }
}
