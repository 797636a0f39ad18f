//! [`Setting`]: the nodes of a world, the faults that may happen, and the steps of the model.

use std::collections::{BTreeSet, HashSet};
use std::fmt::Write as _;
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};
use std::sync::{Arc, Mutex};

use latchwork_peers::{NodeEpoch, NodeState, PeerEffect, PeerInput, PeerRules, RecoveryStep};
use stateright::{Checker, HasDiscoveries, Model, Property};

use crate::world::{How, Id, World, actors_are_introduced, is_compute, is_settled};

/// The highest number of due steps that a world may need until no step is due.
const DUE_MAX: usize = 400;

#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) ids: Vec<Id>,
    /// Whether the nodes know each other when the world begins. Otherwise they have just joined.
    pub(crate) met: bool,
    /// The ids whose holders may die and leave.
    pub(crate) mortal: Vec<Id>,
    pub(crate) deaths: u8,
    pub(crate) leaves: u8,
    /// The number of joins after the beginning, and the ids that they take.
    pub(crate) joins: u8,
    pub(crate) joining: Vec<Id>,
    /// Whether a new node may take the id of a dead node.
    pub(crate) reuse: bool,
    /// When it may, if the cluster recovers lines. Otherwise as soon as the slot is empty.
    pub(crate) reuse_when: Reuse,
    /// The number of effects that may fail.
    pub(crate) failures: u8,
    pub(crate) rules: PeerRules,
    /// Whether a reclaim leaves the slot of another member epoch unchanged.
    pub(crate) reclaim_names_epoch: bool,
    /// Whether views arrive late and out of order. Otherwise a node receives the last view or none.
    pub(crate) has_late_views: bool,
    /// The worlds from which the due steps lead to a settled one: their fingerprints. The search
    /// asks for many worlds on one way.
    pub(crate) settling: Arc<Mutex<HashSet<u64>>>,
}

/// When the id of a dead node may be used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reuse {
    /// As the view says: [`ClusterView::is_free`](latchwork_peers::ClusterView::is_free).
    Free,
    /// When all have cleared, and the slot is empty.
    Cleared,
    /// When the slot is empty.
    Empty,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Step {
    /// A view arrives: any view since the node's join, and so also one that is older than the last
    /// arrival.
    Deliver {
        at: usize,
        revision: u64,
    },
    End {
        at: usize,
        effect: PeerEffect<Id>,
        how: How,
    },
    Retry {
        at: usize,
    },
    Act {
        at: usize,
    },
    Die {
        at: usize,
    },
    Leave {
        at: usize,
    },
    Join {
        id: Id,
    },
}

impl Setting {
    /// Nodes that know each other, and each of which may die.
    pub(crate) fn of(ids: &[Id], deaths: u8) -> Setting {
        Setting {
            ids: ids.to_vec(),
            met: true,
            mortal: ids.to_vec(),
            deaths,
            leaves: 0,
            joins: 0,
            joining: Vec::new(),
            reuse: false,
            reuse_when: Reuse::Free,
            failures: 0,
            rules: PeerRules::default(),
            reclaim_names_epoch: true,
            has_late_views: true,
            settling: Arc::default(),
        }
    }

    fn first(&self) -> World {
        let mut world = World::new(&self.ids, self.rules);
        if self.met {
            world = self.run_down(world).expect("the nodes meet").without_history();
        }
        World {
            deaths: self.deaths,
            leaves: self.leaves,
            joins: self.joins,
            failures: self.failures,
            has_late_views: self.has_late_views,
            ..world
        }
    }

    /// Takes due steps until no step is due. Returns `None` if that needs more than `DUE_MAX`
    /// steps.
    fn run_down(&self, mut world: World) -> Option<World> {
        let mut steps = Vec::new();
        for _ in 0..DUE_MAX {
            steps.clear();
            self.due(&world, &mut steps);
            let Some(next) = steps.iter().find_map(|step| self.take(&world, *step)) else {
                return Some(world);
            };
            world = next;
        }
        None
    }

    /// Whether the due steps lead to a settled world.
    fn settles(&self, world: &World) -> bool {
        let (mut steps, mut way, mut now) = (Vec::new(), Vec::new(), world.clone());
        let mut settling = self.settling.lock().expect("no check has panicked");
        for _ in 0..DUE_MAX {
            let print = BuildHasherDefault::<DefaultHasher>::default().hash_one(&now);
            if settling.contains(&print) {
                settling.extend(way);
                return true;
            }
            way.push(print);
            steps.clear();
            self.due(&now, &mut steps);
            let next = steps.iter().find_map(|step| self.take(&now, *step));
            let Some(next) = next else {
                let is_settled = is_settled(&now);
                settling.extend(way.into_iter().filter(|_| is_settled));
                return is_settled;
            };
            now = next;
        }
        false
    }

    /// The steps that happen sooner or later: the last view arrives, effects have success, the
    /// machine repeats failed effects, and nodes that may act begin to act.
    fn due(&self, world: &World, steps: &mut Vec<Step>) {
        let last = world.revision();
        for (at, life) in world.lives.iter().enumerate().filter(|(_, life)| life.lives()) {
            let machine = life.machine.as_ref().expect("it lives");
            let done = |effect: &PeerEffect<Id>| Step::End { at, effect: *effect, how: How::Done };
            steps.extend(life.running.iter().map(done));
            steps.push(Step::Deliver { at, revision: last });
            if machine.has_failed() {
                steps.push(Step::Retry { at });
            }
            let slot = world.slots[usize::from(life.me.node)];
            let may_act = is_compute(life.me.node) && !life.acts && slot.is_none();
            if may_act && machine.is_introduced() {
                steps.push(Step::Act { at });
            }
        }
    }

    fn steps(&self, world: &World, steps: &mut Vec<Step>) {
        self.due(world, steps);
        for (at, life) in world.lives.iter().enumerate() {
            let end = |effect, how| Step::End { at, effect, how };
            if !life.lives() {
                // The fence also ends what is in flight of a dead node.
                let in_flight = life.running.iter().filter(|_| !world.is_cut_off(life));
                steps.extend(in_flight.map(|effect| end(*effect, How::Done)));
                continue;
            }
            let late = world.views.range(life.me.epoch..world.revision());
            steps.extend(late.map(|(revision, _)| Step::Deliver { at, revision: *revision }));
            if world.failures > 0 {
                for &effect in &life.running {
                    match effect {
                        PeerEffect::Forget { .. } => {}
                        PeerEffect::Recover(step, _) if step != RecoveryStep::Sweep => {
                            steps.push(end(effect, How::Failed));
                        }
                        PeerEffect::Admit(_) => steps.push(end(effect, How::Failed)),
                        PeerEffect::Recover(..)
                        | PeerEffect::Fence(_)
                        | PeerEffect::Report(_)
                        | PeerEffect::Reclaim(_) => {
                            steps.extend(
                                [How::Failed, How::Unconfirmed].map(|how| end(effect, how)),
                            );
                        }
                    }
                }
            }
            if self.mortal.contains(&life.me.node) {
                steps.extend((world.deaths > 0).then_some(Step::Die { at }));
                let leaves = world.leaves > 0 && is_compute(life.me.node);
                steps.extend(leaves.then_some(Step::Leave { at }));
            }
        }
        for &id in self.joining.iter().filter(|_| world.joins > 0) {
            let view = world.last_view();
            let is_clear = |epoch| {
                let dead = NodeEpoch { node: id, epoch };
                let is_empty = world.slots[usize::from(id)].is_none();
                match self.reuse_when {
                    Reuse::Free if self.rules.recovers => view.is_free(dead),
                    Reuse::Cleared => is_empty && view.is_over(RecoveryStep::Clear, dead),
                    Reuse::Free | Reuse::Empty => is_empty,
                }
            };
            let is_free = match view.nodes.get(&id).map(|node| (node.state, node.epoch)) {
                None | Some((NodeState::Left, _)) => true,
                Some((NodeState::Joined, _)) => false,
                Some((NodeState::Dead, epoch)) => self.reuse && is_clear(epoch),
            };
            steps.extend(is_free.then_some(Step::Join { id }));
        }
    }

    fn take(&self, world: &World, step: Step) -> Option<World> {
        let mut next = world.clone();
        match step {
            Step::Deliver { at, revision } => next.deliver(at, revision),
            Step::End { at, effect, how } => {
                next.ends(at, effect, how, self.reclaim_names_epoch);
                next.failures -= u8::from(how != How::Done);
            }
            Step::Retry { at } => next.step(at, PeerInput::Retry),
            Step::Act { at } => next.act(at),
            Step::Die { at } => {
                next.end(at, true);
                next.deaths -= 1;
            }
            Step::Leave { at } => {
                next.end(at, false);
                next.leaves -= 1;
            }
            Step::Join { id } => {
                next.join(id, self.rules);
                next.joins -= 1;
            }
        }
        (next != *world).then_some(next)
    }
}

const NO_FAULT: &str = "no step breaks an invariant";
const MENDS: &str = "S7: what is mended ahead of a sweep is as swept";
const INTRODUCED: &str = "S5: of two that act, each knows the other";
const SETTLES: &str = "L: slots of dead nodes become empty, and all nodes act";

impl Model for Setting {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        vec![self.first()]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        self.steps(world, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        self.take(world, step)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(NO_FAULT, |_, world: &World| world.fault.is_none()),
            Property::always(INTRODUCED, |_, world| actors_are_introduced(world)),
            Property::always(MENDS, |setting: &Setting, world: &World| {
                let recovers = setting.rules.recovers;
                setting.rules != PeerRules { recovers, ..PeerRules::default() } || world.may_mend()
            }),
            // Every order of due steps ends in a world in which nothing is due. The search visits
            // each such world as a state of its own, so one order is enough here.
            Property::always(SETTLES, |setting: &Setting, world: &World| {
                world.fault.is_some() || setting.settles(world)
            }),
        ]
    }
}

/// Searches all states of the setting, and panics when one breaks a property.
pub(crate) fn holds(name: &str, setting: Setting) {
    let checker = setting.checker().finish_when(HasDiscoveries::Any).spawn_bfs().join();
    println!("{name}: {} states", checker.unique_state_count());
    if let Some((property, path)) = checker.discoveries().into_iter().next() {
        panic!("{name}: {property}\n{}", story(&path.into_vec()));
    }
}

/// Searches until a state breaks a property, and panics when none does. `what` is the name of the
/// property, or of the invariant that a step breaks.
pub(crate) fn is_refuted(name: &str, setting: Setting, what: &str) {
    let wanted = [INTRODUCED, SETTLES].into_iter().find(|property| property.starts_with(what));
    let wanted = HasDiscoveries::AnyOf(BTreeSet::from([wanted.unwrap_or(NO_FAULT)]));
    let checker = setting.checker().finish_when(wanted).spawn_bfs().join();
    println!("{name}: {} states", checker.unique_state_count());
    let mut found = Vec::new();
    for (property, path) in checker.discoveries() {
        let fault = path.last_state().fault.unwrap_or(property);
        println!("{name}: {fault}\n{}", story(&path.into_vec()));
        found.push(fault);
    }
    assert!(found.iter().any(|found| found.starts_with(what)), "{name}: {found:?}");
}

fn story(path: &[(World, Option<Step>)]) -> String {
    let mut text = String::new();
    for (world, step) in path {
        let Some(step) = step else { continue };
        let of = |at: usize| {
            let me = world.lives[at].me;
            format!("node {}@{}", me.node, me.epoch)
        };
        let line = match *step {
            Step::Deliver { at, revision } => format!("{}: view {revision} arrives", of(at)),
            Step::End { at, effect, how } => format!("{}: {effect:?} {how:?}", of(at)),
            Step::Retry { at } => format!("{}: retry", of(at)),
            Step::Act { at } => format!("{}: acts", of(at)),
            Step::Die { at } => format!("{}: dies, view {}", of(at), world.revision() + 1),
            Step::Leave { at } => format!("{}: leaves, view {}", of(at), world.revision() + 1),
            Step::Join { id } => format!("node {id} joins, view {}", world.revision() + 1),
        };
        writeln!(text, "  {line}").expect("a string takes all");
    }
    text
}
