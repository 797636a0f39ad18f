//! The reactions of the other nodes to a crash or a lost lease, in worlds with death notices.
//!
//! ```text
//!   C3 dies, or loses its lease
//!        ├── each member, at a time of its own:       fences C3
//!        │        └── each compute node, later:       forgets C3, and its requests to C3
//!        └── as soon as all members have fenced it:
//!                 ├── each compute node, later:       takes the steps of its recovery, if there is one
//!                 └── each compute node, later:       reclaims C3
//! ```
//!
//! The peer machines ([`Order`]) decide what each node does, and in which order, as in a cluster of
//! processes. This file draws the times.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use latchwork_cluster::{Simulated, SimulatedNode};
use latchwork_peers::{PeerEffect, RecoveryStep};
use latchwork_runtime::JoinHandle;
use latchwork_workload::random::WorkloadRandom;

use super::injected_faults::Strike;
use super::order::{self, Due, Order, nodes_of};
use crate::{Scenario, SeededBug};

/// The random stream of the reactions. Reactions have a stream of their own, so that the faults do
/// not depend on the reactions.
const STREAM: u64 = u64::MAX - 1;

/// The reaction of one node to the loss of another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reaction {
    Fence {
        by: SimulatedNode,
        dead: usize,
    },
    Forget {
        node: usize,
        dead: usize,
    },
    Reclaim {
        node: usize,
        dead: usize,
    },
    /// Another node takes the id of the dead one, as soon as it may.
    Replace {
        dead: usize,
    },
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
    /// The dead nodes that some node has reclaimed, or the first error.
    reclaimed: RefCell<Result<BTreeSet<usize>, String>>,
    /// The steps of recoveries that are due or run.
    steps: RefCell<Vec<Step>>,
    /// The number of dead nodes that others will still replace.
    replacements: Cell<u32>,
    /// A seeded bug: nodes sweep when they should let go.
    sweeps_early: bool,
}

/// A step that `node` takes in the recovery from the death of `dead`, `delay` after it is due.
struct Step {
    node: usize,
    step: RecoveryStep,
    dead: usize,
    delay: Duration,
    /// `None`: the node takes another step first.
    task: Option<JoinHandle<bool>>,
}

impl Deaths {
    pub(super) fn new(scenario: &Scenario) -> Deaths {
        Deaths {
            notified: Duration::from_micros(scenario.faults.told_us),
            random: RefCell::new(WorkloadRandom::for_stream(scenario.seed, STREAM)),
            gone: RefCell::default(),
            machines: RefCell::default(),
            reclaims: RefCell::default(),
            reclaimed: RefCell::new(Ok(BTreeSet::new())),
            steps: RefCell::default(),
            replacements: Cell::new(if scenario.recovers() {
                scenario.faults.replacements
            } else {
                0
            }),
            sweeps_early: scenario.plant == Some(SeededBug::SweepsEarly),
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
        if let Some(left) = self.replacements.get().checked_sub(1) {
            self.replacements.set(left);
            let later = at + self.up_to(4 * self.notified);
            add(agenda, later, Coming::Reaction(Reaction::Replace { dead }));
        }
        let mut machines = self.machines.borrow_mut();
        let machines = machines.get_or_insert_with(|| Order::new(cluster));
        let due = machines.died(dead);
        self.schedule(machines, cluster, due, Some((at, agenda)));
    }

    /// Makes the node that now has the id of the dead one a member. All others admit it, and it
    /// fences and forgets those that are dead.
    pub(super) fn joins(&self, cluster: &Simulated, index: usize) {
        let mut machines = self.machines.borrow_mut();
        let machines = machines.as_mut().expect("a node that replaces another one");
        // What the dead node has begun never ends.
        self.reclaims.borrow_mut().retain(|(node, ..)| *node != index);
        self.steps.borrow_mut().retain(|step| step.node != index);
        let epoch = cluster.node(index).member_epoch();
        let by = SimulatedNode::Compute(index);
        machines.joins(index, epoch);
        for admits in nodes_of(cluster).filter(|node| *node != by && machines.has(*node)) {
            cluster.admit(admits, index, epoch);
        }
        while let Some(effect) = machines.asked_by(by) {
            machines.begins(by, effect);
            match (effect, effect.peer().node) {
                (PeerEffect::Fence(_), SimulatedNode::Compute(dead)) => cluster.fence(by, dead),
                (PeerEffect::Forget { .. }, SimulatedNode::Compute(dead)) => {
                    cluster.forget(index, dead);
                }
                // It has touched no line yet, so it has nothing to do in a recovery.
                _ => {}
            }
            let due = machines.ended(by, effect, true);
            assert!(due.iter().all(|(node, ..)| *node == index), "others have done their part");
        }
        let due = machines.serves(index);
        self.schedule(machines, cluster, due, None);
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
        // A node that has joined since then has done this at once.
        if let Some((by, effect)) = reaction.effect()
            && machines.has_replaced(by)
            && !machines.is_asked(by, effect)
        {
            return false;
        }
        match reaction {
            Reaction::Fence { by: SimulatedNode::Compute(node), .. }
            | Reaction::Forget { node, .. }
            | Reaction::Reclaim { node, .. }
                if !cluster.lives(node) =>
            {
                return false;
            }
            Reaction::Replace { .. } => {
                if !machines.are_free() {
                    let later = at + self.notified / 4 + Duration::from_micros(1);
                    add(agenda, later, Coming::Reaction(reaction));
                    return false;
                }
            }
            Reaction::Fence { by, dead } => {
                machines.begins(by, order::fence(dead));
                cluster.fence(by, dead);
                let due = machines.ended(by, order::fence(dead), true);
                self.schedule(machines, cluster, due, Some((at, agenda)));
            }
            Reaction::Forget { node, dead } => {
                let by = SimulatedNode::Compute(node);
                machines.begins(by, order::forget(dead));
                cluster.forget(node, dead);
                let due = machines.ended(by, order::forget(dead), true);
                self.schedule(machines, cluster, due, Some((at, agenda)));
            }
            Reaction::Reclaim { node, dead } => {
                self.reclaim(machines, cluster, node, dead);
            }
        }
        true
    }

    fn reclaim(&self, machines: &mut Order, cluster: &Simulated, node: usize, dead: usize) {
        machines.begins(SimulatedNode::Compute(node), order::step(None, dead));
        let task = cluster.reclaim(node, dead).expect("room for one more port");
        self.reclaims.borrow_mut().push((node, dead, task));
    }

    /// Schedules what has become due. Without an agenda, reclaims begin at once.
    fn schedule(
        &self,
        machines: &mut Order,
        cluster: &Simulated,
        due: Vec<Due>,
        mut agenda: Option<(Duration, &mut Agenda)>,
    ) {
        for node in (0..cluster.nodes().len()).filter(|node| cluster.lives(*node)) {
            cluster.let_mend(node, machines.mendable(node));
        }
        for (node, step, dead) in due {
            match (step, &mut agenda) {
                (Some(step), _) => {
                    let delay = self.up_to(self.notified / 4);
                    self.steps.borrow_mut().push(Step { node, step, dead, delay, task: None });
                }
                (None, Some((at, agenda))) => {
                    let later = *at + self.up_to(self.notified / 4);
                    add(agenda, later, Coming::Reaction(Reaction::Reclaim { node, dead }));
                }
                (None, None) => self.reclaim(machines, cluster, node, dead),
            }
        }
        self.start_steps(machines, cluster);
    }

    /// Starts the first waiting step of each node that takes none: a node takes one at a time.
    fn start_steps(&self, machines: &mut Order, cluster: &Simulated) {
        let mut steps = self.steps.borrow_mut();
        steps.retain(|step| cluster.lives(step.node));
        let mut busy: BTreeSet<usize> =
            steps.iter().filter(|step| step.task.is_some()).map(|step| step.node).collect();
        for Step { node, step, dead, delay, task } in steps.iter_mut() {
            if busy.insert(*node) {
                machines.begins(SimulatedNode::Compute(*node), order::step(Some(*step), *dead));
                if self.sweeps_early && *step == RecoveryStep::LetGo {
                    let early = cluster.recover(*node, (RecoveryStep::Sweep, *dead), *delay);
                    drop(early.expect("room for one more port"));
                }
                let begun = cluster.recover(*node, (*step, *dead), *delay);
                *task = Some(begun.expect("room for one more port"));
            }
        }
    }

    /// Goes on with the recoveries after an event of the world. `ended` gets each step that has
    /// ended: the node, and a text for the trace.
    pub(super) fn go_on(&self, cluster: &Simulated, ended: &dyn Fn(usize, String)) {
        self.end_reclaims(cluster);
        loop {
            let is_over = |step: &Step| step.task.as_ref().is_some_and(JoinHandle::is_finished);
            let at = self.steps.borrow().iter().position(is_over);
            let Some(at) = at else { return };
            let Step { node, step, dead, task, .. } = self.steps.borrow_mut().remove(at);
            let done = matches!(task.and_then(|task| task.take()), Some(Ok(true)));
            let end = if done { "" } else { ", and must try again" };
            ended(node, format!("{} C{}{end}", in_words(step), dead + 1));
            let mut machines = self.machines.borrow_mut();
            let machines = machines.as_mut().expect("a step after a loss");
            let due = match cluster.lives(node) {
                true => machines.ended(
                    SimulatedNode::Compute(node),
                    order::step(Some(step), dead),
                    done,
                ),
                false => Vec::new(),
            };
            self.schedule(machines, cluster, due, None);
        }
    }

    /// Reports the reclaims that have ended to the machines of their nodes.
    fn end_reclaims(&self, cluster: &Simulated) {
        let mut reclaims = self.reclaims.borrow_mut();
        if reclaims.is_empty() {
            return;
        }
        let ended: Vec<_> = reclaims.extract_if(.., |(.., task)| task.is_finished()).collect();
        drop(reclaims);
        let mut machines = self.machines.borrow_mut();
        let living = ended.into_iter().filter(|(node, ..)| cluster.lives(*node));
        for (node, dead, task) in living {
            let machines = machines.as_mut().expect("a reclaim after a loss");
            match (task.take(), &mut *self.reclaimed.borrow_mut()) {
                (Some(Ok(true)), Ok(reclaimed)) => {
                    let effect = order::step(None, dead);
                    let due = machines.ended(SimulatedNode::Compute(node), effect, true);
                    assert!(due.is_empty(), "the reclaim is the last step");
                    reclaimed.insert(dead);
                }
                (_, Err(_)) => {}
                (end, first) => {
                    *first = Err(format!("C{} cannot reclaim C{}: {end:?}", node + 1, dead + 1));
                }
            }
        }
    }

    /// Whether all reclaims have ended. Reclaims by nodes that are lost themselves do not count.
    pub(super) fn are_over(&self, cluster: &Simulated) -> bool {
        let reclaims = self.reclaims.borrow();
        let is_over =
            |node: usize, task: &JoinHandle<bool>| task.is_finished() || !cluster.lives(node);
        let recovered = self.steps.borrow().iter().all(|step| !cluster.lives(step.node));
        recovered && reclaims.iter().all(|(node, _, task)| is_over(*node, task))
    }

    /// The number of lost nodes that have been reclaimed. An error names a lost node that was not
    /// reclaimed.
    pub(super) fn reclaimed(&self, cluster: &Simulated) -> Result<u64, String> {
        self.end_reclaims(cluster);
        let machines = self.machines.borrow();
        let Some(machines) = machines.as_ref() else { return Ok(0) };
        let reclaimed = self.reclaimed.borrow().clone()?;
        let left = self.gone.borrow().iter().copied().find(|dead| !reclaimed.contains(dead));
        if let Some(left) = left {
            return Err(format!("no node reclaims C{}", left + 1));
        }
        machines.open_effect().map_or(Ok(reclaimed.len() as u64), Err)
    }
}

fn in_words(step: RecoveryStep) -> &'static str {
    match step {
        RecoveryStep::LetGo => "has let go of",
        RecoveryStep::Drain => "has drained its inbox for",
        RecoveryStep::Close => "has closed",
        RecoveryStep::Sweep => "has swept the words of",
        RecoveryStep::Clear => "is clear of",
    }
}

impl Reaction {
    /// The effect that a reaction is, and the node for whose machine.
    fn effect(self) -> Option<(SimulatedNode, PeerEffect<SimulatedNode>)> {
        match self {
            Reaction::Fence { by, dead } => Some((by, order::fence(dead))),
            Reaction::Forget { node, dead } => {
                Some((SimulatedNode::Compute(node), order::forget(dead)))
            }
            Reaction::Reclaim { node, dead } => {
                Some((SimulatedNode::Compute(node), order::step(None, dead)))
            }
            Reaction::Replace { .. } => None,
        }
    }

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
            Reaction::Replace { dead } => (dead, "joins again, with a higher epoch".to_owned()),
        }
    }
}
