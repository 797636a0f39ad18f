//! [`DirectoryLine`]: the part of a line record that belongs to a directory protocol.

use std::collections::VecDeque;

use latchwork_cache::{DirtyBounds, Frame, Ownership};
use latchwork_coherence::AccessMode;
use latchwork_directory::{Era, Hold, Home, Line, LocalCopy, Message, Party, Rules, Sent, Want};
use latchwork_engine::{FrameCopy, LineState};
use latchwork_runtime::Time;
use latchwork_verbs::ComputeNodeId;

/// A line at a compute node, or at its home.
#[derive(Debug)]
pub struct DirectoryLine {
    pub(crate) rules: Rules,
    pub(crate) machine: Line,
    /// The home's entry, at the home of the line.
    pub(crate) home: Option<Box<Home>>,
    /// The home of the line.
    pub(crate) home_node: ComputeNodeId,
    /// The messages of this node to itself: to the home, or as the home to the node.
    pub(crate) own: VecDeque<(Party, Message)>,
    /// A step hands these messages over.
    pub(crate) hands_over: bool,
    /// The dirty bounds that came with the line, for the copy that is published next.
    pub(crate) incoming: DirtyBounds,
    /// The batches in flight that read the frame, or the home's memory.
    pub(crate) forwards: u32,
    /// A forward may or may not have arrived.
    pub(crate) in_doubt: bool,
    /// The home's answer to the eviction, until no batch reads the frame any more.
    pub(crate) evicted: Option<bool>,
    /// The report to a home that resolves conflicts, until the line has arrived at the requester.
    /// So when a holder dies, the home knows whether the line may be missing.
    pub(crate) report: Option<Sent>,
    /// The refusals of the present request.
    pub(crate) refusals: u32,
    /// The evictions that the home has declined since the tenure began or served a copy.
    pub(crate) declined: u8,
    /// A back-off after a declined eviction runs. Until its end the node does not evict the line.
    pub(crate) stays: bool,
    /// Demands of the home that this node cannot meet yet.
    pub(crate) deferred: Vec<Message>,
}

impl DirectoryLine {
    pub(crate) fn at_rest(
        rules: Rules,
        node: ComputeNodeId,
        home_node: ComputeNodeId,
        hold: Ownership,
        frame: Option<&Frame>,
    ) -> DirectoryLine {
        let note = frame.map_or(0, Frame::note);
        let (era, served, declined) = (Era(note as u8), (note >> 8) as u8, (note >> 16) as u8);
        let hold = match hold {
            Ownership::Invalid => Hold::Nothing,
            Ownership::Shared => Hold::Shared,
            Ownership::Exclusive => Hold::Exclusive,
        };
        DirectoryLine {
            rules,
            machine: Line::at_rest(node, hold, era, served),
            home: None,
            home_node,
            own: VecDeque::new(),
            hands_over: false,
            incoming: DirtyBounds::EMPTY,
            forwards: 0,
            in_doubt: false,
            evicted: None,
            report: None,
            refusals: 0,
            declined,
            stays: false,
            deferred: Vec::new(),
        }
    }

    /// What the frame keeps of a tenure.
    pub(crate) fn note(&self) -> u32 {
        let (Era(era), served) = self.machine.tenure();
        u32::from(era) | u32::from(served) << 8 | u32::from(self.declined) << 16
    }

    /// Whether no batch in flight reads the frame or the home's memory.
    pub(crate) fn is_still(&self) -> bool {
        self.forwards == 0 && !self.in_doubt
    }
}

impl LineState for DirectoryLine {
    #[inline]
    fn hold(&self) -> Ownership {
        ownership(self.machine.hold())
    }

    #[inline]
    fn is_wanted(&self) -> bool {
        self.machine.is_wanted()
    }

    #[inline]
    fn is_at_rest(&self) -> bool {
        self.machine.is_at_rest()
            && self.is_still()
            && self.report.is_none()
            && !self.stays
            && self.deferred.is_empty()
    }

    /// The entry stays in the record.
    #[inline]
    fn is_over(&self, _now: Time) -> bool {
        self.is_at_rest() && self.home.is_none()
    }

    #[inline]
    fn is_for_others(&self) -> bool {
        self.is_at_rest() && self.home.is_some()
    }

    #[inline]
    fn is_asked_for(&self) -> bool {
        self.machine.has_directives()
    }

    #[inline]
    fn is_blocked(&self) -> bool {
        self.machine.is_blocked(&self.rules)
    }

    #[inline]
    fn is_idle(&self) -> bool {
        self.machine.is_idle() && self.is_still()
    }

    /// Also beside a copy, which cannot be evicted while an upgrade waits. An idle line gives its
    /// frame back.
    #[inline]
    fn keeps_refused(&self) -> bool {
        self.machine.is_requesting() && !self.machine.is_idle()
    }

    fn is_asking(&self, peer: ComputeNodeId) -> bool {
        peer == self.home_node && self.machine.awaits_home()
    }

    fn recovers_from(&self, peer: ComputeNodeId) -> bool {
        self.home.as_ref().is_some_and(|home| home.recovers_from(peer))
    }
}

/// The frame and the waiters, as the line machine sees them.
pub(crate) struct Copy<'a> {
    pub(crate) copy: FrameCopy<'a>,
    /// All bytes of the line.
    pub(crate) whole: DirtyBounds,
}

impl LocalCopy for Copy<'_> {
    fn publish(&mut self, hold: Hold) {
        self.copy.publish(ownership(hold));
    }

    fn promote(&mut self) {
        self.copy.promote();
    }

    fn try_exclude(&mut self) -> bool {
        self.copy.try_invalidate()
    }

    fn adopt(&mut self) {
        self.copy.add_dirty(self.whole);
    }

    fn is_changed(&self) -> bool {
        self.copy.is_dirty()
    }

    fn restore(&mut self, hold: Hold) {
        // The home's memory has the changes, so the copy has none.
        self.copy.publish(ownership(hold));
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
