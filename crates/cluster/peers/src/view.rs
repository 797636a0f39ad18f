//! [`ClusterView`]: what the membership store says of all nodes, as far as [`Peers`](crate::Peers)
//! needs it.

use std::collections::{BTreeMap, BTreeSet};

use crate::RecoveryStep;

/// An id with the member epoch of one holder. A later holder of the id has a higher member epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeEpoch<N> {
    /// The id of the node.
    pub node: N,
    /// The member epoch.
    pub epoch: u64,
}

/// The state of a node in a view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum NodeState {
    /// The node is a member.
    Joined,
    /// The node has left gracefully.
    Left,
    /// The lease of the node ended before the node left.
    Dead,
}

/// What a member has published about a peer. All members read the report in their views.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PeerReport<N> {
    /// The member has admitted the peer.
    Knows(NodeEpoch<N>),
    /// The member has fenced the peer. The peer can change nothing at the member any more.
    Fenced(NodeEpoch<N>),
    /// The member has taken this step of the recovery from the death of the peer.
    Recovered(RecoveryStep, NodeEpoch<N>),
    /// The member has ended the reclaim of the peer after the last step. It has nothing left to do
    /// for the peer.
    Reclaimed(NodeEpoch<N>),
}

impl<N: Copy> PeerReport<N> {
    /// The peer of the report.
    pub fn peer(&self) -> NodeEpoch<N> {
        match self {
            PeerReport::Knows(peer)
            | PeerReport::Fenced(peer)
            | PeerReport::Recovered(_, peer)
            | PeerReport::Reclaimed(peer) => *peer,
        }
    }
}

/// A node in a view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NodeView<N> {
    /// The member epoch.
    pub epoch: u64,
    /// The state of the node.
    pub state: NodeState,
    /// Whether the node has an epoch slot in the memory pool. Only compute nodes have one.
    pub has_slot: bool,
    /// Whether the node has published its address.
    pub is_reachable: bool,
    /// The reports of the node.
    pub reports: BTreeSet<PeerReport<N>>,
}

/// The latest holder of each id, at one revision of the membership store.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ClusterView<N: Ord> {
    /// The nodes, by id.
    pub nodes: BTreeMap<N, NodeView<N>>,
}

impl<N: Ord> Default for ClusterView<N> {
    fn default() -> Self {
        ClusterView { nodes: BTreeMap::new() }
    }
}

impl<N: Copy + Ord> ClusterView<N> {
    /// The members.
    pub fn joined(&self) -> impl Iterator<Item = &NodeView<N>> {
        self.nodes.values().filter(|node| node.state == NodeState::Joined)
    }

    /// Whether every member has published this report. The order of a death uses this condition as
    /// the barrier between two of its steps.
    ///
    /// The view itself decides which members count:
    ///
    /// - A node that joins after the view has an address that the dead node never learned. A memory
    ///   node that joins later is not part of the pool.
    /// - A member that died or left before the report has nothing that the dead node could still
    ///   change for another node. The content of a dead memory node is lost. What a dead compute
    ///   node had not reported yet belongs to its own recovery.
    pub fn have_all_reported(&self, report: &PeerReport<N>) -> bool {
        self.joined().all(|node| node.reports.contains(report))
    }

    /// Whether a step of the recovery from the death of `peer` is over. All compute nodes that are
    /// members take part; one of them is enough to [sweep](RecoveryStep::Sweep). The report on a
    /// step stands for all steps before it.
    pub fn is_over(&self, step: RecoveryStep, peer: NodeEpoch<N>) -> bool {
        let has_taken = |node: &NodeView<N>| {
            let from_then = RecoveryStep::ALL.into_iter().filter(|other| *other >= step);
            let reports = from_then.map(|step| PeerReport::Recovered(step, peer));
            reports.into_iter().any(|report| node.reports.contains(&report))
        };
        let mut members = self.joined().filter(|node| node.has_slot);
        match step {
            RecoveryStep::Sweep => members.any(has_taken),
            _ => members.all(has_taken),
        }
    }

    /// Whether the id of the dead compute node `dead` may be given to another node, at the moment
    /// of this view. It needs a living compute node, because one that has died may have ended
    /// nothing.
    ///
    /// - All compute nodes that are members have ended the reclaim. So none of them takes a step or
    ///   empties the slot later.
    /// - All members have fenced every dead compute node. So nothing in flight of a dead node
    ///   empties the slot, or sweeps, any more.
    pub fn is_free(&self, dead: NodeEpoch<N>) -> bool {
        let is_it = |node: &NodeView<N>| node.epoch == dead.epoch && node.has_slot;
        let is_dead = |node: &NodeView<N>| node.state == NodeState::Dead;
        let has_reclaimed =
            |node: &NodeView<N>| node.reports.contains(&PeerReport::Reclaimed(dead));
        let of_dead = self.nodes.iter().filter(|(_, node)| node.has_slot && is_dead(node));
        let fences = of_dead
            .map(|(id, node)| PeerReport::Fenced(NodeEpoch { node: *id, epoch: node.epoch }));
        let mut members = self.joined().filter(|node| node.has_slot).peekable();
        self.nodes.get(&dead.node).is_some_and(|node| is_it(node) && is_dead(node))
            && members.peek().is_some()
            && members.all(has_reclaimed)
            && fences.into_iter().all(|fence| self.have_all_reported(&fence))
    }
}
