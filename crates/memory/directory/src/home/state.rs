//! The parts of a home's entry.

use latchwork_latch::NodeSet;
use latchwork_verbs::ComputeNodeId;

use crate::message::Reply;

/// The holder that has the bytes, and the number of copies for which its tenure was asked.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Holder {
    pub(super) node: ComputeNodeId,
    pub(super) copies: u8,
}

/// The nodes whose tenure lasts.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Holders {
    None,
    /// `source` has changes that the home's memory lacks.
    Shared {
        nodes: NodeSet,
        source: Option<Holder>,
    },
    Exclusive(Holder),
}

impl Holders {
    pub(super) fn shared(nodes: NodeSet, source: Option<Holder>) -> Holders {
        if nodes.is_empty() { Holders::None } else { Holders::Shared { nodes, source } }
    }
}

/// A request in progress, during which the home serves no other.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Transition {
    pub(super) requester: ComputeNodeId,
    /// The holder that gives the requester the line.
    pub(super) supplier: Option<ComputeNodeId>,
    /// The nodes whose reports end it.
    pub(super) awaited: NodeSet,
    /// The answer that the requester gets at the end, and its frame.
    pub(super) then: Option<(ComputeNodeId, Reply, u64)>,
    /// A lock keeps it waiting.
    pub(super) locked: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Round {
    Settle,
    Rebase,
    Adopt,
}

/// The recovery of a line in progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Recovery {
    pub(super) round: Round,
    /// The nodes that have not answered in this round.
    pub(super) awaited: NodeSet,
    // The copies that the nodes have reported.
    pub(super) exclusive: Option<ComputeNodeId>,
    pub(super) shared: NodeSet,
    pub(super) changed: Option<ComputeNodeId>,
}
