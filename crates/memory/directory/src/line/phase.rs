//! The phases of a line at a node.

use latchwork_latch::{Hold, NodeSet, Want};
use latchwork_verbs::ComputeNodeId;

use crate::message::Era;

/// The state of the machine between events.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Phase {
    /// No request, eviction or back-off is outstanding.
    Rest,
    /// The home has not answered the request.
    Asking,
    /// The home has answered, and other nodes have to act first.
    Gathering(Gathering),
    /// The home refused the request: a back-off runs.
    Pausing,
    /// The home has not answered the eviction of a copy with this ownership.
    Leaving(Hold),
    /// The tenure has failed, because the line was to come from a dead node. The home recovers the
    /// line.
    Stuck,
}

/// What is missing of a new tenure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Gathering {
    pub(super) mode: Want,
    pub(super) era: Era,
    /// The holder from which the line comes.
    pub(super) line: Option<ComputeNodeId>,
    /// The nodes that have not discarded their copies.
    pub(super) sharers: NodeSet,
    /// The own copy stays.
    pub(super) kept: bool,
    /// The number of copies that the ending tenure has to serve, if the copy stays.
    pub(super) copies: u8,
    /// Other nodes had to act, so the home may wait for the report.
    pub(super) reports: bool,
    /// The line does not come.
    pub(super) failed: bool,
    /// The copy that stays counts as changed.
    pub(super) adopts: bool,
}

/// The recovery of the line by its home, as the node knows it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Recovery {
    None,
    /// The home waits until no request is open. See [`Message::Settle`].
    Asked {
        era: Era,
        dead: NodeSet,
        failed: bool,
    },
    /// No request is open. The node requests nothing until its copy has the era of the recovery.
    Settled(Era),
    /// The home waits until the copy counts as changed.
    Adopt(Era),
}

impl Recovery {
    pub(super) fn era(self) -> Option<Era> {
        match self {
            Recovery::None => None,
            Recovery::Asked { era, .. } | Recovery::Settled(era) | Recovery::Adopt(era) => {
                Some(era)
            }
        }
    }
}
