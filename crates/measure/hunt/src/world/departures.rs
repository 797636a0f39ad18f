//! The reaction of the other nodes to a crash or a lost lease, in worlds with death notices.
//!
//! ```text
//!   C3 dies, or loses its lease
//!        ├── each member, at a time of its own:       fences C3
//!        │        └── each compute node, later:       gives up C3, and its requests to C3
//!        └── as soon as all members have fenced it:
//!                 └── each compute node, later:       reclaims C3
//! ```
//!
//! The steps and their order are those of a cluster of processes (`joined` of `latchwork_cluster`).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use latchwork_cluster::{Simulated, SimulatedNode};
use latchwork_runtime::JoinHandle;
use latchwork_verbs::MemoryNodeId;
use latchwork_workload::random::Random;

use super::strikes::Strike;
use crate::Scenario;

/// The random stream of the reactions. With its own stream, the faults do not depend on them.
const STREAM: u64 = u64::MAX - 1;

/// A death notice: the reaction of one node to the loss of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tiding {
    KeepOut { by: SimulatedNode, dead: usize },
    Forget { node: usize, dead: usize },
    Bury { node: usize, dead: usize },
}

/// The coming faults and reactions, by time since the workload began. The number orders entries of
/// the same time.
pub(super) type Agenda = BTreeMap<(Duration, usize), Coming>;

/// A fault, or a reaction to a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coming {
    Strike(Strike),
    Tiding(Tiding),
}

/// Adds an entry to the agenda.
pub(super) fn add(agenda: &mut Agenda, at: Duration, coming: Coming) {
    // The earlier of two entries with the same time has the lower number, so no entry is lost.
    let last = agenda.range((at, 0)..=(at, usize::MAX)).next_back().map_or(0, |((_, n), _)| n + 1);
    agenda.insert((at, last), coming);
}

/// The lost nodes, the nodes that have fenced them, and the tasks that reclaim them.
pub(super) struct Departures {
    told: Duration,
    random: RefCell<Random>,
    gone: RefCell<Vec<usize>>,
    kept_out: RefCell<BTreeSet<(SimulatedNode, usize)>>,
    /// Lost nodes that all members have fenced.
    ready: RefCell<BTreeSet<usize>>,
    burials: RefCell<Vec<(usize, usize, JoinHandle<bool>)>>,
}

impl Departures {
    pub(super) fn new(scenario: &Scenario) -> Departures {
        Departures {
            told: Duration::from_micros(scenario.faults.told_us),
            random: RefCell::new(Random::for_stream(scenario.seed, STREAM)),
            gone: RefCell::default(),
            kept_out: RefCell::default(),
            ready: RefCell::default(),
            burials: RefCell::default(),
        }
    }

    fn up_to(&self, most: Duration) -> Duration {
        Duration::from_nanos(self.random.borrow_mut().below(most.as_nanos() as u64 + 1))
    }

    /// Schedules the reactions of all other nodes to the loss of a node at `at`.
    pub(super) fn gone(&self, cluster: &Simulated, at: Duration, dead: usize, agenda: &mut Agenda) {
        if self.told.is_zero() {
            return;
        }
        self.gone.borrow_mut().push(dead);
        for by in keepers(cluster).filter(|by| *by != SimulatedNode::Compute(dead)) {
            let kept_out = at + self.up_to(self.told);
            add(agenda, kept_out, Coming::Tiding(Tiding::KeepOut { by, dead }));
            if let SimulatedNode::Compute(node) = by {
                let forgotten = kept_out + self.up_to(self.told / 4);
                add(agenda, forgotten, Coming::Tiding(Tiding::Forget { node, dead }));
            }
        }
        self.look(cluster, at, agenda);
    }

    /// Carries out a reaction. Returns false if the reacting node is lost itself.
    pub(super) fn tell(
        &self,
        cluster: &Simulated,
        at: Duration,
        tiding: Tiding,
        agenda: &mut Agenda,
    ) -> bool {
        match tiding {
            Tiding::KeepOut { by: SimulatedNode::Compute(node), .. }
            | Tiding::Forget { node, .. }
            | Tiding::Bury { node, .. }
                if !cluster.lives(node) =>
            {
                return false;
            }
            Tiding::KeepOut { by, dead } => {
                cluster.fence(by, dead);
                self.kept_out.borrow_mut().insert((by, dead));
                self.look(cluster, at, agenda);
            }
            Tiding::Forget { node, dead } => cluster.forget(node, dead),
            Tiding::Bury { node, dead } => {
                let task = cluster.reclaim(node, dead).expect("room for one more port");
                self.burials.borrow_mut().push((node, dead, task));
            }
        }
        true
    }

    /// Schedules the reclaim of each lost node that all members have fenced.
    fn look(&self, cluster: &Simulated, at: Duration, agenda: &mut Agenda) {
        for &dead in self.gone.borrow().iter() {
            let keeps_out = |by| self.kept_out.borrow().contains(&(by, dead));
            if cluster.may_reclaim(keeps_out) && self.ready.borrow_mut().insert(dead) {
                for node in (0..cluster.nodes().len()).filter(|node| cluster.lives(*node)) {
                    let later = at + self.up_to(self.told / 4);
                    add(agenda, later, Coming::Tiding(Tiding::Bury { node, dead }));
                }
            }
        }
    }

    /// Whether all reclaims have ended, except those of lost nodes.
    pub(super) fn are_over(&self, cluster: &Simulated) -> bool {
        let burials = self.burials.borrow();
        burials.iter().all(|(node, _, task)| task.is_finished() || !cluster.lives(*node))
    }

    /// The number of nodes that a live node has reclaimed. An error names a node that could not be
    /// reclaimed.
    pub(super) fn buried(&self, cluster: &Simulated) -> Result<u64, String> {
        let mut buried = BTreeSet::new();
        for (node, dead, task) in self.burials.borrow().iter() {
            match task.take() {
                Some(Ok(true)) => _ = buried.insert(*dead),
                _ if !cluster.lives(*node) => {}
                end => return Err(format!("C{} cannot bury C{}: {end:?}", node + 1, dead + 1)),
            }
        }
        let left = self.gone.borrow().iter().copied().find(|dead| !buried.contains(dead));
        left.map_or(Ok(buried.len() as u64), |left| Err(format!("nobody buries C{}", left + 1)))
    }
}

fn keepers(cluster: &Simulated) -> impl Iterator<Item = SimulatedNode> {
    let (compute, memory) = (cluster.nodes().len(), cluster.config().memory_nodes as u16);
    let memory = (0..memory).map(|node| SimulatedNode::Memory(MemoryNodeId(node)));
    (0..compute).map(SimulatedNode::Compute).chain(memory)
}

impl Tiding {
    /// The reaction for messages: a compute node's index, and the text.
    pub(super) fn told(self) -> (usize, String) {
        match self {
            Tiding::KeepOut { by: SimulatedNode::Compute(node), dead } => {
                (node, format!("keeps C{} out", dead + 1))
            }
            Tiding::KeepOut { by: SimulatedNode::Memory(node), dead } => {
                (dead, format!("memory node {} keeps it out", node.0))
            }
            Tiding::Forget { node, dead } => (node, format!("gives C{} up", dead + 1)),
            Tiding::Bury { node, dead } => (node, format!("buries C{}", dead + 1)),
        }
    }
}
