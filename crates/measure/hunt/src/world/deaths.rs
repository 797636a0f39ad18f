//! The reactions of the other nodes to a crash or a lost lease, in worlds with death notices.
//!
//! ```text
//!   C3 dies, or loses its lease
//!        ├── each member, at a time of its own:       fences C3
//!        │        └── each compute node, later:       forgets C3, and its requests to C3
//!        └── as soon as all members have fenced it:
//!                 └── each compute node, later:       reclaims C3
//! ```
//!
//! The peer machines ([`Order`]) decide what each node does, and in which order, as in a cluster of
//! processes. This file draws the times.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use latchwork_cluster::{Simulated, SimulatedNode};
use latchwork_runtime::JoinHandle;
use latchwork_workload::random::WorkloadRandom;

use super::injected_faults::Strike;
use super::order::{self, Due, Order, nodes_of};
use crate::Scenario;

/// The random stream of the reactions. Reactions have a stream of their own, so that the faults do
/// not depend on the reactions.
const STREAM: u64 = u64::MAX - 1;

/// The reaction of one node to the loss of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reaction {
    Fence { by: SimulatedNode, dead: usize },
    Forget { node: usize, dead: usize },
    Reclaim { node: usize, dead: usize },
}

/// The coming faults and reactions, by the time since the start of the workload. The number orders
/// entries of the same time.
pub(super) type Agenda = BTreeMap<(Duration, usize), Coming>;

/// A fault, or a reaction to a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coming {
    Strike(Strike),
    Reaction(Reaction),
}

/// Adds an entry to the agenda.
pub(super) fn add(agenda: &mut Agenda, at: Duration, coming: Coming) {
    // A later entry of the same time gets the next number, so no entry is overwritten.
    let last = agenda.range((at, 0)..=(at, usize::MAX)).next_back().map_or(0, |((_, n), _)| n + 1);
    agenda.insert((at, last), coming);
}

/// The lost nodes, the peer machines of the others, and the tasks that reclaim lost nodes.
pub(super) struct Deaths {
    notified: Duration,
    random: RefCell<WorkloadRandom>,
    gone: RefCell<Vec<usize>>,
    /// Made at the first loss, because most worlds lose no node.
    machines: RefCell<Option<Order>>,
    reclaims: RefCell<Vec<(usize, usize, JoinHandle<bool>)>>,
}

impl Deaths {
    pub(super) fn new(scenario: &Scenario) -> Deaths {
        Deaths {
            notified: Duration::from_micros(scenario.faults.told_us),
            random: RefCell::new(WorkloadRandom::for_stream(scenario.seed, STREAM)),
            gone: RefCell::default(),
            machines: RefCell::default(),
            reclaims: RefCell::default(),
        }
    }

    fn up_to(&self, most: Duration) -> Duration {
        Duration::from_nanos(self.random.borrow_mut().below(most.as_nanos() as u64 + 1))
    }

    /// Schedules the reactions of all other nodes to the loss of the node `dead` at the time `at`.
    pub(super) fn gone(&self, cluster: &Simulated, at: Duration, dead: usize, agenda: &mut Agenda) {
        if self.notified.is_zero() {
            return;
        }
        self.gone.borrow_mut().push(dead);
        for by in nodes_of(cluster).filter(|by| *by != SimulatedNode::Compute(dead)) {
            let fenced = at + self.up_to(self.notified);
            add(agenda, fenced, Coming::Reaction(Reaction::Fence { by, dead }));
            if let SimulatedNode::Compute(node) = by {
                let forgotten = fenced + self.up_to(self.notified / 4);
                add(agenda, forgotten, Coming::Reaction(Reaction::Forget { node, dead }));
            }
        }
        let due = self.machines.borrow_mut().get_or_insert_with(|| Order::new(cluster)).died(dead);
        self.schedule(at, due, agenda);
    }

    /// Carries out a reaction. Returns false if the reacting node is lost itself.
    ///
    /// # Panics
    /// When the peer machine of the node has not asked for the reaction.
    pub(super) fn react(
        &self,
        cluster: &Simulated,
        at: Duration,
        reaction: Reaction,
        agenda: &mut Agenda,
    ) -> bool {
        let mut machines = self.machines.borrow_mut();
        let machines = machines.as_mut().expect("a reaction to a loss");
        match reaction {
            Reaction::Fence { by: SimulatedNode::Compute(node), .. }
            | Reaction::Forget { node, .. }
            | Reaction::Reclaim { node, .. }
                if !cluster.lives(node) =>
            {
                return false;
            }
            Reaction::Fence { by, dead } => {
                machines.begins(by, order::fence(dead));
                cluster.fence(by, dead);
                self.schedule(at, machines.ended(by, order::fence(dead), true), agenda);
            }
            Reaction::Forget { node, dead } => {
                let by = SimulatedNode::Compute(node);
                machines.begins(by, order::forget(dead));
                cluster.forget(node, dead);
                machines.ended(by, order::forget(dead), true);
            }
            Reaction::Reclaim { node, dead } => {
                machines.begins(SimulatedNode::Compute(node), order::reclaim(dead));
                let task = cluster.reclaim(node, dead).expect("room for one more port");
                self.reclaims.borrow_mut().push((node, dead, task));
            }
        }
        true
    }

    /// Schedules the reclaims that have become due.
    fn schedule(&self, at: Duration, due: Vec<Due>, agenda: &mut Agenda) {
        for (node, dead) in due {
            let later = at + self.up_to(self.notified / 4);
            add(agenda, later, Coming::Reaction(Reaction::Reclaim { node, dead }));
        }
    }

    /// Whether all reclaims have ended. Reclaims by nodes that are lost themselves do not count.
    pub(super) fn are_over(&self, cluster: &Simulated) -> bool {
        let reclaims = self.reclaims.borrow();
        reclaims.iter().all(|(node, _, task)| task.is_finished() || !cluster.lives(*node))
    }

    /// The number of lost nodes that have been reclaimed. An error names a lost node that was not
    /// reclaimed.
    pub(super) fn reclaimed(&self, cluster: &Simulated) -> Result<u64, String> {
        let mut machines = self.machines.borrow_mut();
        let Some(machines) = machines.as_mut() else { return Ok(0) };
        let mut reclaimed = BTreeSet::new();
        for (node, dead, task) in self.reclaims.borrow().iter() {
            match task.take() {
                Some(Ok(true)) => {
                    machines.ended(SimulatedNode::Compute(*node), order::reclaim(*dead), true);
                    reclaimed.insert(*dead);
                }
                _ if !cluster.lives(*node) => {}
                end => return Err(format!("C{} cannot reclaim C{}: {end:?}", node + 1, dead + 1)),
            }
        }
        let left = self.gone.borrow().iter().copied().find(|dead| !reclaimed.contains(dead));
        if let Some(left) = left {
            return Err(format!("no node reclaims C{}", left + 1));
        }
        machines.open_effect().map_or(Ok(reclaimed.len() as u64), Err)
    }
}

impl Reaction {
    /// The reaction as text for the trace, and the compute node to show it at.
    pub(super) fn notified(self) -> (usize, String) {
        match self {
            Reaction::Fence { by: SimulatedNode::Compute(node), dead } => {
                (node, format!("fences C{}", dead + 1))
            }
            Reaction::Fence { by: SimulatedNode::Memory(node), dead } => {
                (dead, format!("memory node {} fences it", node.0))
            }
            Reaction::Forget { node, dead } => (node, format!("forgets C{}", dead + 1)),
            Reaction::Reclaim { node, dead } => (node, format!("reclaims C{}", dead + 1)),
        }
    }
}
