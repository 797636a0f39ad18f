//! The places of nodes in a recovery from a death ([`Round`]), and of the whole ([`Recovery`]).

use latchwork_verbs::ComputeNodeId;

/// The place of a living node in the recovery. A message carries the place of its sender: the mark
/// with which a place begins is behind all messages of lower places.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Round {
    /// The node has not let go.
    Apart,
    /// The node has let go, and has sent its first marks.
    First,
    /// The node has all first marks, and has sent its second.
    Second,
    /// The node has all second marks.
    Closed,
    /// The node's line is clear of the dead node.
    Claimed,
}

/// The recovery from the death of the mortal node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Recovery {
    pub(crate) mortal: ComputeNodeId,
    pub(crate) fenced: bool,
    pub(crate) forgotten: bool,
    /// A node has found the bit of the dead node, and will clear it by an addition
    /// ([`Breach::MendsByAddition`]).
    pub(crate) found: bool,
}

impl Recovery {
    pub(crate) fn of(mortal: u8) -> Self {
        let mortal = ComputeNodeId::new(mortal).expect("a valid id");
        Recovery { mortal, fenced: false, forgotten: false, found: false }
    }
}
