//! [`Order`]: the peer machines of all nodes of a world. The machines decide what each node does
//! after a death.

use std::collections::{BTreeMap, BTreeSet};

use latchwork_cluster::{Simulated, SimulatedNode};
use latchwork_peers::{
    ClusterView, NodeEpoch, NodeState, NodeView, PeerEffect, PeerInput, PeerReport, PeerRules,
    Peers, RecoveryStep,
};
use latchwork_verbs::MemoryNodeId;

/// The member epoch of all nodes with which a world starts. No node dies that replaces another one,
/// so all dead nodes have this epoch.
const EPOCH: u64 = 1;

/// A step after a death that a machine has asked for: the node that takes it, and the dead node.
/// `None`: the reclaim.
pub(super) type Due = (usize, Option<RecoveryStep>, usize);

/// The peer machines of all nodes, and the one view that all machines get.
///
/// A world has no membership store, and a new view reaches all machines at once. Instead, the world
/// draws at which time each effect begins. This time includes the delay with which a node learns of
/// a death.
pub(super) struct Order {
    view: ClusterView<SimulatedNode>,
    machines: BTreeMap<SimulatedNode, Peers<SimulatedNode>>,
    /// The effects that machines have asked for and that have not begun, with the asking node.
    asked: BTreeSet<(SimulatedNode, PeerEffect<SimulatedNode>)>,
    /// The dead nodes, in the order of their deaths.
    dead: Vec<usize>,
    rules: PeerRules,
}

/// All nodes of a cluster, compute nodes first.
pub(super) fn nodes_of(cluster: &Simulated) -> impl Iterator<Item = SimulatedNode> {
    let (compute, memory) = (cluster.nodes().len(), cluster.config().memory_nodes as u16);
    let memory = (0..memory).map(|node| SimulatedNode::Memory(MemoryNodeId(node)));
    (0..compute).map(SimulatedNode::Compute).chain(memory)
}

fn of(node: SimulatedNode) -> NodeEpoch<SimulatedNode> {
    NodeEpoch { node, epoch: EPOCH }
}

/// The effect that fences a dead compute node.
pub(super) fn fence(dead: usize) -> PeerEffect<SimulatedNode> {
    PeerEffect::Fence(of(SimulatedNode::Compute(dead)))
}

/// The effect that makes a node forget a dead compute node.
pub(super) fn forget(dead: usize) -> PeerEffect<SimulatedNode> {
    PeerEffect::Forget { peer: of(SimulatedNode::Compute(dead)), has_left: false }
}

/// The effect of a step after the death of a compute node; `None`: the reclaim.
pub(super) fn step(step: Option<RecoveryStep>, dead: usize) -> PeerEffect<SimulatedNode> {
    let dead = of(SimulatedNode::Compute(dead));
    step.map_or(PeerEffect::Reclaim(dead), |step| PeerEffect::Recover(step, dead))
}

impl Order {
    /// The machines of a cluster in which each node already knows all other nodes.
    pub(super) fn new(cluster: &Simulated) -> Order {
        let has_slot = |node| matches!(node, SimulatedNode::Compute(_));
        let member = |node| NodeView {
            epoch: EPOCH,
            state: NodeState::Joined,
            has_slot: has_slot(node),
            is_reachable: true,
            reports: BTreeSet::new(),
        };
        let recovers = cluster.nodes().iter().all(|node| node.survives());
        let rules = PeerRules { recovers, ..PeerRules::default() };
        let machine = |node| Peers::new(of(node), has_slot(node), rules);
        let mut order = Order {
            view: ClusterView { nodes: nodes_of(cluster).map(|n| (n, member(n))).collect() },
            machines: nodes_of(cluster).map(|node| (node, machine(node))).collect(),
            asked: BTreeSet::new(),
            dead: Vec::new(),
            rules,
        };
        for node in nodes_of(cluster) {
            order.step(node, PeerInput::Serving);
        }
        order.publish();
        assert!(order.asked.is_empty(), "nothing is due while all nodes live");
        order
    }

    /// Records that a compute node has died or lost its lease. Returns the steps that are due now.
    pub(super) fn died(&mut self, dead: usize) -> Vec<Due> {
        let node = SimulatedNode::Compute(dead);
        self.dead.push(dead);
        self.machines.remove(&node);
        self.asked.retain(|(by, _)| *by != node);
        self.view.nodes.get_mut(&node).expect("a node of this world").state = NodeState::Dead;
        self.publish()
    }

    /// Whether other nodes may have the ids of all that are dead. A node does not join while
    /// recoveries run, because it would have to wait before it acts. The model of the peers has
    /// that.
    pub(super) fn are_free(&self) -> bool {
        let dead = self.view.nodes.iter().filter(|(_, node)| node.state == NodeState::Dead);
        dead.into_iter().all(|(node, _)| self.view.is_free(of(*node)))
    }

    /// Whether the node lives.
    pub(super) fn has(&self, node: SimulatedNode) -> bool {
        self.machines.contains_key(&node)
    }

    /// Whether the node has replaced another one.
    pub(super) fn has_replaced(&self, node: SimulatedNode) -> bool {
        self.view.nodes.get(&node).is_some_and(|node| node.epoch > EPOCH)
    }

    /// Whether the machine of a node has asked for an effect that has not begun.
    pub(super) fn is_asked(&self, by: SimulatedNode, effect: PeerEffect<SimulatedNode>) -> bool {
        self.asked.contains(&(by, effect))
    }

    /// An effect for which the machine of a node has asked.
    pub(super) fn asked_by(&self, node: SimulatedNode) -> Option<PeerEffect<SimulatedNode>> {
        self.asked.iter().find(|(by, _)| *by == node).map(|(_, effect)| *effect)
    }

    /// Records that a node with this epoch has the id of a dead one.
    pub(super) fn joins(&mut self, index: usize, epoch: u64) {
        let node = SimulatedNode::Compute(index);
        let view = self.view.nodes.get_mut(&node).expect("a node of this world");
        (view.epoch, view.state) = (epoch, NodeState::Joined);
        view.reports.clear();
        let me = NodeEpoch { node, epoch };
        self.machines.insert(node, Peers::new(me, true, self.rules));
        self.publish();
    }

    /// Records that a node which has joined acts from now on. Returns the steps that are due now.
    pub(super) fn serves(&mut self, index: usize) -> Vec<Due> {
        let (node, before) = (SimulatedNode::Compute(index), self.asked.clone());
        assert!(self.machines[&node].is_introduced(), "{node:?} is not known to all");
        self.step(node, PeerInput::Serving);
        self.due_since(&before, true)
    }

    /// The dead nodes that a compute node may take out of latch words.
    pub(super) fn mendable(&self, node: usize) -> impl Iterator<Item = usize> {
        let machine = self.machines.get(&SimulatedNode::Compute(node));
        let dead = machine.into_iter().flat_map(Peers::mendable).map(|dead| dead.node);
        dead.filter_map(|node| match node {
            SimulatedNode::Compute(node) => Some(node),
            SimulatedNode::Memory(_) => None,
        })
    }

    /// Records that the node `by` begins an effect.
    ///
    /// # Panics
    /// When the machine of this node has not asked for the effect.
    pub(super) fn begins(&mut self, by: SimulatedNode, effect: PeerEffect<SimulatedNode>) {
        assert!(self.asked.remove(&(by, effect)), "{by:?} is not asked for {effect:?}");
    }

    /// Records that an effect has ended, with success if `done`. Returns the steps that are due
    /// now.
    pub(super) fn ended(
        &mut self,
        by: SimulatedNode,
        effect: PeerEffect<SimulatedNode>,
        done: bool,
    ) -> Vec<Due> {
        let before = self.asked.clone();
        let mut is_new = self.step(by, PeerInput::Ended { effect, done });
        if !done {
            is_new |= self.step(by, PeerInput::Retry);
        }
        self.due_since(&before, is_new)
    }

    /// The text of an effect that a machine has asked for, and that has not begun. `None` if there
    /// is no such effect.
    pub(super) fn open_effect(&self) -> Option<String> {
        let (by, effect) = self.asked.first()?;
        Some(format!("{by:?} has not begun {effect:?}"))
    }

    /// Gives the view to all machines, again and again, until no machine adds a report. Returns the
    /// steps that have become due, in the order of the deaths.
    fn publish(&mut self) -> Vec<Due> {
        let before = self.asked.clone();
        self.due_since(&before, true)
    }

    /// As [`publish`](Order::publish), for all that was asked since `before`. `is_new`: there is a
    /// new report.
    fn due_since(
        &mut self,
        before: &BTreeSet<(SimulatedNode, PeerEffect<SimulatedNode>)>,
        mut is_new: bool,
    ) -> Vec<Due> {
        while is_new {
            let (view, nodes) =
                (self.view.clone(), self.machines.keys().copied().collect::<Vec<_>>());
            is_new = false;
            for node in nodes {
                is_new |= self.step(node, PeerInput::View(&view));
            }
        }
        let place = |dead: usize| self.dead.iter().position(|other| *other == dead);
        let due = self.asked.difference(before).filter_map(|(by, effect)| {
            let step = match effect {
                PeerEffect::Reclaim(_) => None,
                PeerEffect::Recover(step, _) => Some(*step),
                _ => return None,
            };
            match (by, effect.peer().node) {
                (SimulatedNode::Compute(node), SimulatedNode::Compute(dead)) => {
                    Some((place(dead), *node, step, dead))
                }
                _ => None,
            }
        });
        let mut due: Vec<_> = due.collect();
        due.sort_unstable();
        due.into_iter().map(|(_, node, step, dead)| (node, step, dead)).collect()
    }

    /// Gives one input to a machine. Some effects take no time in a world and end at once:
    /// admissions, reports, and the forgetting of a peer by memory nodes. Returns whether the view
    /// has new reports.
    fn step(&mut self, by: SimulatedNode, input: PeerInput<'_, SimulatedNode>) -> bool {
        let Some(machine) = self.machines.get_mut(&by) else { return false };
        let mut out = Vec::new();
        machine.step(input, &mut out);
        let mut is_new = false;
        for effect in out {
            match effect {
                PeerEffect::Report(report) => is_new |= self.report(by, report),
                PeerEffect::Admit(_) => {}
                PeerEffect::Forget { .. } if matches!(by, SimulatedNode::Memory(_)) => {}
                _ => {
                    self.asked.insert((by, effect));
                    continue;
                }
            }
            is_new |= self.step(by, PeerInput::Ended { effect, done: true });
        }
        is_new
    }

    fn report(&mut self, by: SimulatedNode, report: PeerReport<SimulatedNode>) -> bool {
        self.view.nodes.get_mut(&by).is_some_and(|node| node.reports.insert(report))
    }
}
