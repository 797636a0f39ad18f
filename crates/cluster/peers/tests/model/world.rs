//! [`World`]: the membership store, the fabric of each node, and the epoch slots.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use latchwork_peers::{
    ClusterView, NodeEpoch, NodeState, NodeView, PeerEffect, PeerInput, PeerRules, Peers,
    RecoveryStep,
};

/// Node 0 is a memory node, nodes 1 and above are compute nodes.
pub(crate) type Id = u8;

/// The number of ids of a world: node 0 and four compute nodes.
pub(crate) const IDS: usize = 5;

pub(crate) fn is_compute(id: Id) -> bool {
    id > 0
}

/// One holder of an id, from its join on.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Life {
    pub(crate) me: NodeEpoch<Id>,
    /// The revision at which the node died or left. The flag says whether the node died.
    pub(crate) end: Option<(u64, bool)>,
    /// The node's machine, or `None` after the end.
    pub(crate) machine: Option<Peers<Id>>,
    /// The effects that are running. After the end: the reclaims and sweeps with verbs
    /// still in flight.
    pub(crate) running: BTreeSet<PeerEffect<Id>>,
    /// The holder of each id that the fabric of this node knows.
    pub(crate) link: [Option<u64>; IDS],
    /// The highest member epoch of each id that the fabric of this node fences.
    pub(crate) fenced: [u64; IDS],
    /// The highest member epoch of each id that this node has tried to fence.
    pub(crate) tried: [u64; IDS],
    /// Whether the node has its epoch slot and touches lines.
    pub(crate) acts: bool,
}

impl Life {
    pub(crate) fn lives(&self) -> bool {
        self.end.is_none()
    }
}

/// The steps of all recoveries so far. A node that begins to act after all had closed counts as one
/// that has closed: it has met nothing of the dead node. In the same way, a node that begins to act
/// after a sweep counts as one that has cleared.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Steps {
    /// The compute nodes that have acted.
    pub(crate) acted: BTreeSet<NodeEpoch<Id>>,
    /// The step, the dead node, and the node that has ended the step.
    pub(crate) ended: BTreeSet<(RecoveryStep, NodeEpoch<Id>, NodeEpoch<Id>)>,
}

/// How an effect ends.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum How {
    Done,
    /// The effect ended without success, and changed nothing.
    Failed,
    /// The effect changed what it should, but its node gets the answer "without success".
    Unconfirmed,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World {
    pub(crate) views: BTreeMap<u64, Arc<ClusterView<Id>>>,
    pub(crate) lives: Vec<Life>,
    /// The member epoch that each epoch slot belongs to.
    pub(crate) slots: [Option<u64>; IDS],
    pub(crate) deaths: u8,
    pub(crate) leaves: u8,
    pub(crate) joins: u8,
    pub(crate) failures: u8,
    /// The steps of the recoveries. `None`: the cluster recovers no lines.
    pub(crate) recovered: Option<Steps>,
    /// Whether nodes receive late views. Otherwise they receive only the last view.
    pub(crate) has_late_views: bool,
    /// The invariant that a step has broken, if any.
    pub(crate) fault: Option<&'static str>,
}

impl World {
    /// A world in which the nodes have just joined, and no node has received a view.
    pub(crate) fn new(ids: &[Id], rules: PeerRules) -> World {
        let mut world = World {
            views: BTreeMap::from([(0, Arc::default())]),
            lives: Vec::new(),
            slots: [None; IDS],
            deaths: 0,
            leaves: 0,
            joins: 0,
            failures: 0,
            recovered: rules.recovers.then(Steps::default),
            has_late_views: true,
            fault: None,
        };
        ids.iter().for_each(|id| world.join(*id, rules));
        world
    }

    /// Drops the views before the last one, so that no node receives them.
    pub(crate) fn without_history(mut self) -> World {
        let (revision, last) = (self.revision(), self.last_view().clone());
        self.views = BTreeMap::from([(revision, last)]);
        self
    }

    pub(crate) fn revision(&self) -> u64 {
        *self.views.last_key_value().expect("a first view").0
    }

    pub(crate) fn last_view(&self) -> &Arc<ClusterView<Id>> {
        self.views.last_key_value().expect("a first view").1
    }

    pub(crate) fn life(&self, of: NodeEpoch<Id>) -> &Life {
        self.lives.iter().find(|life| life.me == of).expect("a node that has joined")
    }

    /// Publishes a change of the last view.
    fn publish(&mut self, change: impl FnOnce(&mut ClusterView<Id>)) {
        let mut view = ClusterView::clone(self.last_view());
        change(&mut view);
        if view != **self.last_view() {
            let revision = self.revision() + 1;
            if !self.has_late_views {
                self.views.clear();
            }
            self.views.insert(revision, Arc::new(view));
        }
    }

    // ---- what happens to nodes -----------------------------------------------------------------

    pub(crate) fn join(&mut self, id: Id, rules: PeerRules) {
        let me = NodeEpoch { node: id, epoch: self.revision() + 1 };
        self.publish(|view| {
            let node = NodeView {
                epoch: me.epoch,
                state: NodeState::Joined,
                has_slot: is_compute(id),
                is_reachable: true,
                reports: BTreeSet::new(),
            };
            view.nodes.insert(id, node);
        });
        self.lives.push(Life {
            me,
            end: None,
            machine: Some(Peers::new(me, is_compute(id), rules)),
            running: BTreeSet::new(),
            link: [None; IDS],
            fenced: [0; IDS],
            tried: [0; IDS],
            acts: false,
        });
    }

    /// A node dies, or leaves after it has emptied its own slot. The verbs of its last reclaims
    /// and sweeps may still take effect.
    pub(crate) fn end(&mut self, at: usize, dies: bool) {
        let me = self.lives[at].me;
        self.publish(|view| {
            let node = view.nodes.get_mut(&me.node).expect("it is a member");
            node.state = if dies { NodeState::Dead } else { NodeState::Left };
        });
        if !dies && self.slots[usize::from(me.node)] == Some(me.epoch) {
            self.slots[usize::from(me.node)] = None;
        }
        let end = Some((self.revision(), dies));
        let life = &mut self.lives[at];
        let in_flight = |effect: &PeerEffect<Id>| {
            use PeerEffect::{Reclaim, Recover};
            matches!(effect, Reclaim(_) | Recover(RecoveryStep::Sweep, _))
        };
        let running = life.running.iter().copied().filter(in_flight).collect();
        let (link, fenced, tried) = ([None; IDS], [0; IDS], [0; IDS]);
        *life = Life { me, end, machine: None, running, link, fenced, tried, acts: false };
    }

    // ---- what nodes do -------------------------------------------------------------------------

    pub(crate) fn deliver(&mut self, at: usize, revision: u64) {
        let view = self.views[&revision].clone();
        self.step(at, PeerInput::View(&view));
    }

    pub(crate) fn step(&mut self, at: usize, input: PeerInput<'_, Id>) {
        let life = &mut self.lives[at];
        let mut out = Vec::new();
        life.machine.as_mut().expect("it lives").step(input, &mut out);
        for effect in out {
            let life = &mut self.lives[at];
            let is_new = life.running.insert(effect);
            if !is_new {
                self.fault = Some("an effect is asked for once");
            }
            if let PeerEffect::Recover(step, dead) = effect {
                let by = life.me;
                self.fault = self.fault.or(self.begins(by, step, dead));
            }
        }
    }

    /// The node takes its epoch slot and begins to touch lines.
    pub(crate) fn act(&mut self, at: usize) {
        self.credit(self.lives[at].me);
        let life = &mut self.lives[at];
        life.acts = true;
        self.slots[usize::from(life.me.node)] = Some(life.me.epoch);
        self.step(at, PeerInput::Serving);
    }

    /// Ends an effect. Without `names_epoch`, a reclaim empties the slot whichever epoch the slot
    /// has.
    pub(crate) fn ends(&mut self, at: usize, effect: PeerEffect<Id>, how: How, names_epoch: bool) {
        self.lives[at].running.remove(&effect);
        if let PeerEffect::Fence(peer) = effect {
            let tried = &mut self.lives[at].tried[usize::from(peer.node)];
            *tried = (*tried).max(peer.epoch);
        }
        if how != How::Failed {
            self.take_effect(at, effect, how, names_epoch);
        }
        if self.lives[at].lives() {
            self.step(at, PeerInput::Ended { effect, done: how == How::Done });
        }
    }

    fn take_effect(&mut self, at: usize, effect: PeerEffect<Id>, how: How, names_epoch: bool) {
        let peer = effect.peer();
        let slot = usize::from(peer.node);
        let (lives, end) = (self.life(peer).lives(), self.life(peer).end);
        let mut fault = None;
        let mut found = |is_wrong: bool, what: &'static str| {
            if is_wrong {
                fault = Some(what);
            }
        };
        match effect {
            PeerEffect::Admit(_) => {
                let is_fenced = self.lives[at].fenced[slot] >= peer.epoch;
                found(is_fenced, "S3: no fenced node is admitted");
                let link = &mut self.lives[at].link[slot];
                found(link.is_some(), "S4: the fabric knows one holder of an id");
                *link = Some(peer.epoch);
            }
            PeerEffect::Fence(_) => {
                found(lives, "S3: no living node is fenced");
                let fenced = &mut self.lives[at].fenced[slot];
                *fenced = (*fenced).max(peer.epoch);
            }
            PeerEffect::Report(report) => {
                let id = self.lives[at].me.node;
                self.publish(|view| {
                    let own = view.nodes.get_mut(&id).expect("it is a member");
                    own.reports.insert(report);
                });
            }
            PeerEffect::Forget { .. } => {
                found(lives, "S3: no member is forgotten");
                let life = &mut self.lives[at];
                let is_tried = life.tried[slot] >= peer.epoch;
                found(
                    end.is_some_and(|(_, died)| died) && !is_tried,
                    "a dead node is forgotten after an attempt to fence it",
                );
                found(life.link[slot] != Some(peer.epoch), "what is forgotten was known");
                life.link[slot] = None;
            }
            PeerEffect::Recover(step, _) => {
                let by = self.lives[at].me;
                fault = self.recovers(by, step, peer, how == How::Done);
            }
            PeerEffect::Reclaim(_) => {
                let wrong = self.reclaims(peer);
                found(wrong.is_some(), wrong.unwrap_or_default());
                let Some((death, true)) = end else {
                    self.fault = Some("S2: a node that has not died is reclaimed");
                    return;
                };
                // The dead node may have reached every node that joined before its death.
                let met = |life: &&Life| life.lives() && life.me.epoch < death;
                let reaches = |life: &Life| life.fenced[slot] < peer.epoch;
                found(
                    self.lives.iter().filter(met).any(reaches),
                    "S1: a reclaimed node reaches no living node",
                );
                if self.slots[slot] == Some(peer.epoch) || !names_epoch {
                    let holder = self.slots[slot].take();
                    found(
                        holder.is_some_and(|epoch| epoch != peer.epoch),
                        "S2: no reclaim empties the slot of another holder",
                    );
                }
            }
        }
        self.fault = self.fault.or(fault);
    }
}

// ---- properties of one state -------------------------------------------------------------------

/// S5: of two living compute nodes that act, each knows the other.
pub(crate) fn actors_are_introduced(world: &World) -> bool {
    let actors = || world.lives.iter().filter(|life| life.acts);
    actors().all(|one| {
        actors().all(|other| {
            one.me == other.me || one.link[usize::from(other.me.node)] == Some(other.me.epoch)
        })
    })
}

/// L: the property of a world in which no step is due.
pub(crate) fn is_settled(world: &World) -> bool {
    let living = || world.lives.iter().filter(|life| life.lives());
    let compute = || living().filter(|life| is_compute(life.me.node));
    let is_free = |id: usize| match world.slots[id] {
        None => true,
        Some(epoch) => world.life(NodeEpoch { node: id as Id, epoch }).lives(),
    };
    let slots = compute().next().is_none() || (0..IDS).all(is_free);
    let links = living().all(|life| {
        (0..IDS as Id).filter(|id| *id != life.me.node).all(|id| {
            let node = world.last_view().nodes.get(&id);
            let member = node.filter(|node| node.state == NodeState::Joined);
            life.link[usize::from(id)] == member.map(|node| node.epoch)
        })
    });
    slots && links && world.is_none_quiet() && compute().all(|life| life.acts)
}
