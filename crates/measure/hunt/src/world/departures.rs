//! What the living are told of the dead, and what they do then; in a world in which they are told.
//!
//! ```text
//!   C3 dies, or loses its lease
//!        ├── each member, compute and memory nodes, at a time of its own:  keeps C3 out
//!        │        └── each compute node, some time later:                  gives C3 up, and what it has asked C3
//!        └── as soon as all that are left keep it out: each compute node, some time later, buries it
//! ```
//!
//! That order is the one of a cluster of processes (`latchwork_cluster`'s `joined`), whose steps
//! these are.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use latchwork_cluster::{Keeper, Simulated};
use latchwork_runtime::JoinHandle;
use latchwork_verbs::MemoryNodeId;
use latchwork_workload::random::Random;

use super::strikes::Strike;
use crate::Scenario;

/// A stream of its own: which faults strike does not depend on who is told of them.
const STREAM: u64 = u64::MAX - 1;

/// One who is told of one who is gone, and what he does then.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Tiding {
    KeepOut { by: Keeper, dead: usize },
    Forget { node: usize, dead: usize },
    Bury { node: usize, dead: usize },
}

/// What is to happen, by when: since the workload began, and of what is at one time, in this order.
pub(super) type Agenda = BTreeMap<(Duration, usize), Coming>;

/// A fault, or what follows from one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Coming {
    Strike(Strike),
    Tiding(Tiding),
}

/// Puts something on the agenda.
pub(super) fn add(agenda: &mut Agenda, at: Duration, coming: Coming) {
    // Nothing that is at the same time is lost: what came first is behind a lower number.
    let last = agenda.range((at, 0)..=(at, usize::MAX)).next_back().map_or(0, |((_, n), _)| n + 1);
    agenda.insert((at, last), coming);
}

/// Who is gone, who keeps them out, and who buries them.
pub(super) struct Departures {
    told: Duration,
    random: RefCell<Random>,
    gone: RefCell<Vec<usize>>,
    kept_out: RefCell<BTreeSet<(Keeper, usize)>>,
    /// Dead nodes that everybody keeps out.
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

    /// A node is gone, at `at`: whoever is to be told of it is told later.
    pub(super) fn gone(&self, cluster: &Simulated, at: Duration, dead: usize, agenda: &mut Agenda) {
        if self.told.is_zero() {
            return;
        }
        self.gone.borrow_mut().push(dead);
        for by in keepers(cluster).filter(|by| *by != Keeper::Compute(dead)) {
            let kept_out = at + self.up_to(self.told);
            add(agenda, kept_out, Coming::Tiding(Tiding::KeepOut { by, dead }));
            if let Keeper::Compute(node) = by {
                let forgotten = kept_out + self.up_to(self.told / 4);
                add(agenda, forgotten, Coming::Tiding(Tiding::Forget { node, dead }));
            }
        }
        self.look(cluster, at, agenda);
    }

    /// Does what somebody does who is told of a node that is gone; false when he is gone himself.
    pub(super) fn tell(
        &self,
        cluster: &Simulated,
        at: Duration,
        tiding: Tiding,
        agenda: &mut Agenda,
    ) -> bool {
        match tiding {
            Tiding::KeepOut { by: Keeper::Compute(node), .. }
            | Tiding::Forget { node, .. }
            | Tiding::Bury { node, .. }
                if !cluster.lives(node) =>
            {
                return false;
            }
            Tiding::KeepOut { by, dead } => {
                cluster.keep_out(by, dead);
                self.kept_out.borrow_mut().insert((by, dead));
                self.look(cluster, at, agenda);
            }
            Tiding::Forget { node, dead } => cluster.forget(node, dead),
            Tiding::Bury { node, dead } => {
                let task = cluster.bury(node, dead).expect("room for one more port");
                self.burials.borrow_mut().push((node, dead, task));
            }
        }
        true
    }

    /// Has those buried that everybody keeps out by now.
    fn look(&self, cluster: &Simulated, at: Duration, agenda: &mut Agenda) {
        for &dead in self.gone.borrow().iter() {
            let keeps_out = |by| self.kept_out.borrow().contains(&(by, dead));
            if cluster.may_bury(keeps_out) && self.ready.borrow_mut().insert(dead) {
                for node in (0..cluster.nodes().len()).filter(|node| cluster.lives(*node)) {
                    let later = at + self.up_to(self.told / 4);
                    add(agenda, later, Coming::Tiding(Tiding::Bury { node, dead }));
                }
            }
        }
    }

    /// Whether all burials are over that ever will be.
    pub(super) fn are_over(&self, cluster: &Simulated) -> bool {
        let burials = self.burials.borrow();
        burials.iter().all(|(node, _, task)| task.is_finished() || !cluster.lives(*node))
    }

    /// How many dead nodes were buried by somebody who lives, and whom someone could not bury.
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

fn keepers(cluster: &Simulated) -> impl Iterator<Item = Keeper> {
    let (compute, memory) = (cluster.nodes().len(), cluster.config().memory_nodes as u16);
    let memory = (0..memory).map(|node| Keeper::Memory(MemoryNodeId(node)));
    (0..compute).map(Keeper::Compute).chain(memory)
}

impl Tiding {
    /// For people: the node that is told, if it is a compute node, and what it does.
    pub(super) fn told(self) -> (usize, String) {
        match self {
            Tiding::KeepOut { by: Keeper::Compute(node), dead } => {
                (node, format!("keeps C{} out", dead + 1))
            }
            Tiding::KeepOut { by: Keeper::Memory(node), dead } => {
                (dead, format!("memory node {} keeps it out", node.0))
            }
            Tiding::Forget { node, dead } => (node, format!("gives C{} up", dead + 1)),
            Tiding::Bury { node, dead } => (node, format!("buries C{}", dead + 1)),
        }
    }
}
