//! [`Follower`]: the membership thread of a process. The thread gives each view to the node's
//! [`Peers`], and carries out the effects that the machine asks for.
//!
//! ```text
//!   Membership ── view ──► Peers ── effects ──► Link: admit, fence, remove
//!                            ▲                  Node: local waits, message numbers
//!                            │                  Membership: reports in the own contact
//!                            └── ends ───────── Reclaims: epoch slots
//! ```
//!
//! The thread carries out one effect at a time. The effects that follow from its end come next. So
//! the effects for one peer are not interleaved with those for another peer. Only the steps of
//! recoveries come after all others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use latchwork_engine::Node;
use latchwork_membership::{Membership, MembershipError, NodeName, View, ViewMember};
use latchwork_peers::{
    NodeEpoch, PeerEffect, PeerInput, PeerReport, PeerRules, Peers, RecoveryStep,
};
use latchwork_runtime::sync::{AtomicBool, Mutex, Ordering};
use latchwork_runtime::{Clock, Time};
use latchwork_strict::strict_assert_ne;

use super::reclaims::Reclaims;
use super::recoveries::Recoveries;
use super::{agents, reports};
use crate::ports::Ports;
use crate::recover::Swept;
use crate::transport::Link;

/// The longest wait for a change of the view. Failed effects are repeated after each wait.
const LOOK: Duration = Duration::from_millis(100);

/// The longest wait until the node's workers have noticed that another node has died or left.
const MISS: Duration = Duration::from_secs(5);

/// The interval between two checks whether the workers have noticed.
const NOTICE: Duration = Duration::from_millis(1);

/// The time limit of one attempt to fence a dead node.
const FENCE: Duration = Duration::from_secs(5);

/// The state that the membership thread shares with the rest of the process.
pub(super) struct Shared {
    pub(super) membership: Membership,
    pub(super) link: Link,
    pub(super) stop: AtomicBool,
    pub(super) peers: Mutex<Peers<NodeName>>,
    /// The reason why the fabric refused a node, with the member epoch of that node. The node may
    /// have died or left since the refusal.
    pub(super) refusals: Mutex<BTreeMap<NodeName, (u64, String)>>,
    /// This process's compute node or agent, with its ports, from the time when it exists.
    pub(super) node: Mutex<Option<(Arc<Node>, Ports)>>,
    pub(super) recoveries: Recoveries,
}

impl Shared {
    /// `recovers`: the nodes of the cluster recover the lines of dead nodes.
    pub(super) fn new(membership: &Membership, link: &Link, recovers: bool) -> Shared {
        let me = membership.me();
        let own = NodeEpoch { node: me.node, epoch: me.epoch };
        let rules = PeerRules { recovers, ..PeerRules::default() };
        let peers = Peers::new(own, me.node.compute().is_some(), rules);
        Shared {
            membership: membership.clone(),
            link: link.clone(),
            stop: AtomicBool::new(false),
            peers: Mutex::new(peers),
            refusals: Mutex::default(),
            node: Mutex::default(),
            recoveries: Recoveries::new(),
        }
    }
}

/// The state of the membership thread.
pub(super) struct Follower {
    shared: Arc<Shared>,
    /// The last view that the thread has given to the machine.
    view: Arc<View>,
    is_serving: bool,
    reclaims: Reclaims,
    /// The dead nodes for which a warning was printed, because their fence is not certain.
    doubtful: BTreeSet<NodeEpoch<NodeName>>,
}

/// Takes the next effect from those that are due, of which the last one comes first. A step of a
/// recovery may wait for what this node has sent to another dead node, until it forgets that one.
/// So such steps come after all other effects.
fn next(due: &mut Vec<PeerEffect<NodeName>>) -> Option<PeerEffect<NodeName>> {
    let is_step = |effect: &PeerEffect<_>| matches!(effect, PeerEffect::Recover(..));
    match due.iter().rposition(|effect| !is_step(effect)) {
        Some(at) => Some(due.remove(at)),
        None => due.pop(),
    }
}

impl Follower {
    pub(super) fn new(shared: Arc<Shared>) -> Follower {
        let view = shared.membership.view();
        let (reclaims, doubtful) = (Reclaims::default(), BTreeSet::new());
        Follower { shared, view, is_serving: false, reclaims, doubtful }
    }

    /// Follows the views until the process ends the thread.
    pub(super) fn follow(mut self) {
        let mut seen = None;
        while !self.is_stopped() {
            let mut due = Vec::new();
            match self.shared.membership.wait(LOOK, |view| Some(view.revision) != seen) {
                Ok(view) => {
                    seen = Some(view.revision);
                    self.shared.recoveries.see(&self.view, &view);
                    self.view = view;
                    let is_compute = self.shared.membership.me().node.compute().is_some();
                    let view = reports::read(&self.view, self.shared.link.key(), is_compute);
                    self.shared.peers.lock().step(PeerInput::View(&view), &mut due);
                }
                // No change came in time, or the store does not answer.
                Err(MembershipError::Deadline { .. }) => {}
                // Without a valid lease the call fails at once, so the thread pauses here.
                Err(_) => thread::park_timeout(LOOK),
            }
            let mut peers = self.shared.peers.lock();
            if !self.is_serving && self.shared.node.lock().is_some() {
                self.is_serving = true;
                peers.step(PeerInput::Serving, &mut due);
            }
            // An effect that failed before may now succeed.
            peers.step(PeerInput::Retry, &mut due);
            if let Some((own, _)) = &*self.shared.node.lock() {
                own.let_mend(peers.mendable().filter_map(|dead| dead.node.compute()));
            }
            drop(peers);
            self.carry_out(due);
        }
    }

    fn is_stopped(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    fn carry_out(&mut self, mut due: Vec<PeerEffect<NodeName>>) {
        due.reverse();
        while let Some(effect) = next(&mut due) {
            // The process ends, so it needs no peer any more.
            if self.is_stopped() {
                return;
            }
            let done = self.perform(effect);
            let mut next = Vec::new();
            self.shared.peers.lock().step(PeerInput::Ended { effect, done }, &mut next);
            due.extend(next.into_iter().rev());
        }
    }

    /// Carries out one effect. Returns whether it had success.
    fn perform(&mut self, effect: PeerEffect<NodeName>) -> bool {
        let me = self.shared.membership.me().node;
        strict_assert_ne!(effect.peer().node, me, "a node is its own peer: {effect:?}");
        match effect {
            PeerEffect::Admit(peer) => self.admit(peer),
            PeerEffect::Fence(peer) => self.fence(peer),
            PeerEffect::Report(report) => self.report(&report),
            PeerEffect::Forget { peer, has_left } => {
                self.forget(peer.node, has_left);
                true
            }
            PeerEffect::Recover(step, peer) => self.recover(step, peer),
            PeerEffect::Reclaim(peer) => self.reclaim(peer),
        }
    }

    /// The address in the contact of a node.
    fn address(&self, of: NodeEpoch<NodeName>) -> Option<&str> {
        match self.view.get(of.node).filter(|member| member.epoch == of.epoch) {
            Some(member) => member.contact.get(self.shared.link.key()).map(String::as_str),
            None => agents::all(&self.view).find(|(agent, ..)| *agent == of).map(|it| it.2),
        }
    }

    fn admit(&self, peer: NodeEpoch<NodeName>) -> bool {
        let Some(address) = self.address(peer) else { return false };
        let shared = &*self.shared;
        let NodeEpoch { node, epoch } = peer;
        let own = shared.node.lock().clone();
        if let (NodeName::Compute(id), Some((own, _))) = (node, &own)
            && own.recovers_from(id)
        {
            return false;
        }
        if let Err(error) = shared.link.add_peer(shared.membership.me().node, node, address) {
            let why = (epoch, error.to_string());
            let before = shared.refusals.lock().insert(node, why.clone());
            // The thread repeats the attempt later, so it prints an unchanged reason only once.
            if before != Some(why) {
                tracing::warn!(%node, epoch, %error, "a node cannot be reached");
            }
            return false;
        }
        if let (NodeName::Compute(id), Some((own, _))) = (node, &own) {
            // The earlier holder of the id is dead or has left. The new holder joined later. It
            // sends no message before this node has reported that it knows the new holder.
            own.forget(id);
            own.end_before(id, epoch);
        }
        shared.refusals.lock().remove(&node);
        tracing::info!(%node, epoch, contact = address, "a node can be reached");
        true
    }

    fn fence(&mut self, peer: NodeEpoch<NodeName>) -> bool {
        let NodeEpoch { node, epoch } = peer;
        let is_certain = self.shared.link.fence(node, epoch, self.address(peer), FENCE);
        if !is_certain && self.doubtful.insert(peer) {
            tracing::warn!(%node, "a dead node could not be fenced for certain");
        }
        is_certain
    }

    fn report(&self, report: &PeerReport<NodeName>) -> bool {
        let (key, value) = reports::contact_of(report);
        let done = self.shared.membership.contact(&key, &value).is_ok();
        if let (PeerReport::Fenced(peer), true) = (report, done) {
            tracing::info!(node = %peer.node, "a dead node is fenced");
        }
        done
    }

    fn forget(&self, node: NodeName, has_left: bool) {
        self.shared.link.remove_peer(node);
        let own = self.shared.node.lock().clone();
        let Some((own, _)) = own else { return };
        if let NodeName::Compute(id) = node {
            own.miss(id);
            // Wait until the workers have noticed, before the next holder of the id is admitted.
            let clock = Clock::start();
            // When this process ends, no worker remains that could notice, and the thread admits no
            // node.
            while own.minds(id) && !self.is_stopped() && clock.now() < Time::ZERO + MISS {
                thread::park_timeout(NOTICE);
            }
        }
        if has_left {
            // A node that leaves returns chunks, so the allocator looks for free chunks again.
            own.allocator().look_again();
        }
    }

    fn recover(&mut self, step: RecoveryStep, dead: NodeEpoch<NodeName>) -> bool {
        let node = self.shared.node.lock().clone();
        match (dead.node, node) {
            (NodeName::Compute(id), Some((own, ports))) => {
                let (recoveries, swept) = (&self.shared.recoveries, Swept::default());
                recoveries.begin(step, dead.node);
                let (membership, known) = (&self.shared.membership, &self.view);
                let is_known = |dead: &ViewMember| {
                    known.dead().any(|one| (one.node, one.epoch) == (dead.node, dead.epoch))
                };
                let goes_on = || membership.view().dead().all(is_known);
                let done = self.reclaims.recover(&own, &ports, (step, id), &swept, &goes_on);
                if step == RecoveryStep::Sweep {
                    recoveries.end_sweep(dead.node, &swept, done);
                }
                tracing::info!(node = %dead.node, ?step, done, "a dead node is recovered");
                done
            }
            // This node has no part in the memory pool yet, so it has touched no line.
            (_, None) => step != RecoveryStep::Sweep,
            _ => false,
        }
    }

    fn reclaim(&mut self, dead: NodeEpoch<NodeName>) -> bool {
        let node = self.shared.node.lock().clone();
        match (dead.node, node) {
            (NodeName::Compute(id), Some((own, ports))) => {
                let done = self.reclaims.reclaim(own.id(), &ports, id);
                if done && own.survives() {
                    own.end_before(id, dead.epoch + 1);
                }
                done
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use latchwork_verbs::ComputeNodeId;

    use super::*;

    #[test]
    fn a_step_that_may_wait_for_a_dead_node_comes_after_that_one_is_forgotten() {
        let dead =
            |id| NodeEpoch { node: NodeName::Compute(ComputeNodeId::new(id).unwrap()), epoch: 1 };
        let step = |id| PeerEffect::Recover(RecoveryStep::LetGo, dead(id));
        let forget = PeerEffect::Forget { peer: dead(3), has_left: false };
        // The last one comes first.
        let mut due = vec![step(4), forget, PeerEffect::Fence(dead(3)), step(2)];
        let order: Vec<_> = std::iter::from_fn(|| next(&mut due)).collect();
        assert_eq!(order, [PeerEffect::Fence(dead(3)), forget, step(2), step(4)]);
    }
}
