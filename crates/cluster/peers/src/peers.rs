//! [`Peers`]: the machine of one node, with its inputs and its effects.

use std::collections::BTreeMap;
use std::fmt::Debug;

use latchwork_strict::{STRICT, strict_assert, strict_assert_eq};

use crate::peer::{Link, Peer};
use crate::progress::Progress;
use crate::{ClusterView, NodeEpoch, NodeState, NodeView, PeerReport, PeerRules, RecoveryStep};

/// An input of a [`Peers`]. The node's driver passes it to [`Peers::step`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerInput<'a, N: Ord> {
    /// A view of the membership. Views may be skipped, repeated, and out of order.
    View(&'a ClusterView<N>),
    /// A compute node can reclaim dead nodes from now on, because its own part of the memory pool
    /// is open. A memory node has an agent from now on, so it also reports which compute nodes it
    /// knows.
    Serving,
    /// An effect has ended. `done` says whether the effect had success. An effect without success
    /// may have taken effect all the same.
    Ended {
        /// The effect, as the machine asked for it.
        effect: PeerEffect<N>,
        /// Whether the effect had success.
        done: bool,
    },
    /// Some time has passed. The machine asks again for effects that failed.
    Retry,
}

/// What a [`Peers`] asks its driver to do. The driver reports each end by [`PeerInput::Ended`]. The
/// effects of one step may run in any order, and at the same time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PeerEffect<N> {
    /// Make the fabric know the peer, and expect the peer's message numbers from the first one on.
    Admit(NodeEpoch<N>),
    /// Fence the peer at this node. After success, no request of this member epoch, or of an
    /// earlier one, changes anything at this node. Requests in flight are included.
    Fence(NodeEpoch<N>),
    /// Publish the report. Without success the report may be published all the same.
    Report(PeerReport<N>),
    /// Remove the peer from the fabric, and end every local wait for an answer of the peer. The
    /// effect cannot fail: the machine ignores `done` at its end.
    Forget {
        /// The peer and its member epoch.
        peer: NodeEpoch<N>,
        /// Whether the peer left gracefully. A peer that left has returned its chunks, which may be
        /// free.
        has_left: bool,
    },
    /// Take this step of the recovery from the death of the peer. The driver takes the steps of
    /// several peers one after the other.
    Recover(RecoveryStep, NodeEpoch<N>),
    /// Empty the epoch slot of the dead node. The slot names no member epoch: the id is given to
    /// another node only when [no reclaim is left](ClusterView::is_free).
    Reclaim(NodeEpoch<N>),
}

impl<N: Copy> PeerEffect<N> {
    /// The peer of the effect.
    pub fn peer(&self) -> NodeEpoch<N> {
        match self {
            PeerEffect::Report(report) => report.peer(),
            PeerEffect::Admit(peer)
            | PeerEffect::Fence(peer)
            | PeerEffect::Forget { peer, .. }
            | PeerEffect::Recover(_, peer)
            | PeerEffect::Reclaim(peer) => *peer,
        }
    }
}

/// One node's part in the joins, leaves and deaths of all its peers. The [crate's page](crate) has
/// the order and its proof.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Peers<N: Ord> {
    rules: PeerRules,
    me: NodeEpoch<N>,
    /// Whether this node is a compute node. Memory nodes reclaim no node.
    has_slot: bool,
    has_view: bool,
    is_serving: bool,
    /// Whether this node was introduced at any time.
    was_introduced: bool,
    /// Whether the compute node of the lowest member epoch in the latest view is this node.
    is_first: bool,
    peers: BTreeMap<N, Peer>,
}

impl<N: Copy + Ord + Debug> Peers<N> {
    /// The machine of a node that knows no peer. `has_slot` says whether the node is a compute
    /// node.
    pub fn new(me: NodeEpoch<N>, has_slot: bool, rules: PeerRules) -> Self {
        Peers {
            rules,
            me,
            has_slot,
            has_view: false,
            is_serving: false,
            was_introduced: false,
            is_first: false,
            peers: BTreeMap::new(),
        }
    }

    /// The member epoch under which the fabric knows a node, or `None`. A node that the fabric is
    /// forgetting is not known.
    pub fn known(&self, node: N) -> Option<u64> {
        match self.peers.get(&node)?.link {
            Link::Known(epoch) => Some(epoch),
            _ => None,
        }
    }

    /// Whether this node may act: touch lines, as a compute node. No node acts before its first
    /// view. Of two compute nodes, the node with the higher member epoch waits until each of the
    /// two knows the other. A compute node that joins during a recovery waits until all nodes have
    /// closed: its requests would be none of those that the steps account for.
    pub fn is_introduced(&self) -> bool {
        if self.was_introduced {
            return true;
        }
        let before_me = |peer: &&Peer| {
            peer.has_slot && peer.state == NodeState::Joined && peer.epoch < self.me.epoch
        };
        let is_mutual = |peer: &Peer| {
            let says_so = peer.knows_me || !self.rules.mutual_introduction;
            peer.link == Link::Known(peer.epoch) && says_so
        };
        let is_closed = |peer: &Peer| {
            let is_dead = peer.has_slot && peer.state == NodeState::Dead;
            let waits = self.rules.recovers && self.rules.act_after_close;
            !waits || !is_dead || peer.recovery.is_over(RecoveryStep::Close)
        };
        let all = |is: &dyn Fn(&Peer) -> bool, of: &dyn Fn(&&Peer) -> bool| {
            self.peers.values().filter(|peer| of(peer)).all(is)
        };
        self.has_view
            && (!self.has_slot || all(&is_mutual, &before_me) && all(&is_closed, &|_| true))
    }

    /// Whether this node and the peer know each other, by the peer's report.
    pub fn is_mutual(&self, peer: NodeEpoch<N>) -> bool {
        let knows_me = self.peers.get(&peer.node).is_some_and(|peer| peer.knows_me);
        knows_me && self.known(peer.node) == Some(peer.epoch)
    }

    /// The dead nodes that all nodes have closed and no node has swept yet, by the latest view.
    /// This node may take them out of words that its accesses wait for, ahead of the sweep. It ends
    /// that in the step [`RecoveryStep::Clear`]. So S7 and S8 hold as for a sweep of this node.
    pub fn mendable(&self) -> impl Iterator<Item = NodeEpoch<N>> {
        let is_closed = |peer: &Peer| {
            peer.state == NodeState::Dead && peer.recovery.over == Some(RecoveryStep::Close)
        };
        let closed = self.peers.iter().filter(move |(_, peer)| is_closed(peer));
        closed.map(|(node, peer)| NodeEpoch { node: *node, epoch: peer.epoch })
    }

    /// Whether an effect has failed, so that a [`PeerInput::Retry`] may ask for it again.
    pub fn has_failed(&self) -> bool {
        self.peers.values().any(Peer::has_failed)
    }

    /// Takes one input, and appends the resulting effects to `out`. A driver that carries out one
    /// effect at a time follows the order of `out`, except that [`PeerEffect::Recover`] comes last:
    /// such a step may wait for requests to a dead node that is not forgotten yet.
    ///
    /// # Panics
    /// When assertions are on (`latchwork_strict`) and an invariant does not hold.
    pub fn step(&mut self, input: PeerInput<'_, N>, out: &mut Vec<PeerEffect<N>>) {
        match input {
            PeerInput::View(view) => {
                for (&node, seen) in &view.nodes {
                    if node != self.me.node {
                        self.see(node, seen);
                        self.count_reports(node, view);
                    }
                }
                self.has_view = true;
                self.was_introduced = self.is_introduced();
                let computes = view
                    .nodes
                    .values()
                    .filter(|node| node.has_slot && node.state == NodeState::Joined);
                let first = computes.map(|node| node.epoch).min();
                self.is_first = first == Some(self.me.epoch);
                self.advance_all(out);
            }
            PeerInput::Serving => {
                self.is_serving = true;
                self.advance_all(out);
            }
            PeerInput::Ended { effect, done } => {
                self.ended(effect, done);
                self.was_introduced = self.is_introduced();
                self.advance(effect.peer().node, out);
            }
            PeerInput::Retry => {
                self.peers.values_mut().for_each(Peer::retry);
                self.advance_all(out);
            }
        }
        if STRICT && self.rules.are_whole() {
            self.check();
        }
    }

    /// Asserts the invariants of the machine between two steps.
    ///
    /// # Panics
    /// When an invariant does not hold.
    pub fn check(&self) {
        assert!(!self.peers.contains_key(&self.me.node), "this node is its own peer");
        assert!(self.has_view || self.peers.is_empty(), "a peer from no view");
        for peer in self.peers.values() {
            peer.check(self.is_serving && self.has_slot);
            assert!(
                (self.has_slot || self.is_serving) && peer.has_slot || peer.knows == Progress::Open,
                "only compute nodes and agents know compute nodes"
            );
        }
    }

    /// Takes over what a view says of one peer. A node dies or leaves at most once, and a later
    /// holder of its id has a higher member epoch. A view that is older changes nothing. So the
    /// order in which views arrive does not matter.
    fn see(&mut self, node: N, seen: &NodeView<N>) {
        let me = self.me;
        let acts = self.rules.recovers && self.rules.actors_let_go && self.was_introduced;
        let is_late = seen.state == NodeState::Dead && !acts;
        let peer = self.peers.entry(node).or_insert_with(|| Peer::new(seen, is_late));
        let is_later = seen.epoch > peer.epoch;
        let is_other = (seen.epoch, seen.state) != (peer.epoch, peer.state);
        let before = (peer.epoch, peer.state);
        if is_later || is_other && !self.rules.latest_counts {
            peer.replace(seen, is_late);
        }
        if seen.epoch == peer.epoch {
            if peer.state == NodeState::Joined {
                peer.state = seen.state;
            }
            peer.is_reachable |= seen.is_reachable;
            peer.knows_me |= seen.reports.contains(&PeerReport::Knows(me));
        }
        let is_strict = self.rules.latest_counts;
        strict_assert!(!is_strict || peer.epoch >= before.0, "an earlier holder comes back");
        strict_assert!(
            !is_strict
                || peer.epoch > before.0
                || before.1 == NodeState::Joined
                || peer.state == before.1,
            "a node ends twice: it was {:?}, and is {:?}",
            before.1,
            peer.state
        );
    }

    /// Remembers that all members have fenced a dead peer, when a view shows their reports.
    fn count_reports(&mut self, node: N, view: &ClusterView<N>) {
        let (rules, seen) = (self.rules, &view.nodes[&node]);
        let Some(peer) = self.peers.get_mut(&node) else { return };
        if seen.state != NodeState::Dead || seen.epoch != peer.epoch {
            return;
        }
        let report = PeerReport::Fenced(NodeEpoch { node, epoch: peer.epoch });
        let of_any_epoch = |member: &NodeView<N>| {
            let is_of_node =
                |r: &PeerReport<N>| matches!(r, PeerReport::Fenced(p) if p.node == node);
            member.reports.iter().any(is_of_node)
        };
        peer.is_fenced_by_all |= !rules.all_report
            || view.have_all_reported(&report)
            || !rules.epoch_counts && view.joined().all(of_any_epoch);
        let (peer_then, recovery) = (report.peer(), &mut peer.recovery);
        while let Some(step) = RecoveryStep::ALL.get(recovery.over.map_or(0, |s| s as usize + 1))
            && peer.is_fenced_by_all
            && view.is_over(*step, peer_then)
        {
            recovery.over = Some(*step);
        }
    }

    fn ended(&mut self, effect: PeerEffect<N>, done: bool) {
        let NodeEpoch { node, epoch } = effect.peer();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        // The end of an effect for an earlier holder does not change the state of the latest
        // holder.
        let is_latest = epoch == peer.epoch;
        strict_assert!(
            !self.rules.are_whole() || awaits(peer, &effect),
            "{effect:?} has ended, and nothing asked for it: {peer:?}"
        );
        match effect {
            PeerEffect::Admit(_) if peer.link == Link::Admitting(epoch) => {
                peer.link = if done { Link::Known(epoch) } else { Link::Refused(epoch) };
            }
            PeerEffect::Forget { .. } if peer.link == Link::Forgetting(epoch) => {
                peer.link = Link::None;
            }
            PeerEffect::Fence(_) if peer.fencing == Some(epoch) => {
                peer.fencing = None;
                if is_latest && peer.state == NodeState::Dead {
                    peer.fence = Progress::ended(done || !self.rules.certain_fence);
                }
            }
            PeerEffect::Report(PeerReport::Knows(_)) if is_latest => {
                peer.knows = Progress::ended(done);
            }
            PeerEffect::Report(PeerReport::Fenced(_)) if is_latest => {
                peer.fenced = Progress::ended(done);
            }
            PeerEffect::Report(PeerReport::Recovered(step, _)) if is_latest => {
                strict_assert_eq!(peer.recovery.step, Some(step), "one step at a time");
                peer.recovery.report = Progress::ended(done);
            }
            PeerEffect::Recover(step, _) if is_latest => {
                strict_assert_eq!(peer.recovery.step, Some(step), "one step at a time");
                peer.recovery.effect = Progress::ended(done);
            }
            PeerEffect::Report(PeerReport::Reclaimed(_)) if is_latest => {
                peer.reclaimed = Progress::ended(done);
            }
            PeerEffect::Reclaim(_) if is_latest => peer.reclaim = Progress::ended(done),
            _ => {}
        }
    }

    /// Whether this node may close: a line whose giver has not reported may come from any dead
    /// node. So all dead nodes are closed together, when none of them has a request of a living
    /// node that is not accounted for.
    fn may_close(&self) -> bool {
        self.peers.values().all(|peer| {
            let is_dead = peer.has_slot && peer.state == NodeState::Dead;
            !is_dead || peer.recovery.is_over(RecoveryStep::Drain)
        }) || !self.rules.close_together
    }

    /// Whether this node may reclaim: no dead node can change anything. Those that died before they
    /// had cleared may have operations in flight that name the node that is reclaimed.
    fn may_reclaim(&self) -> bool {
        let is_fenced = |peer: &Peer| {
            let is_dead = peer.has_slot && peer.state == NodeState::Dead;
            !is_dead || peer.is_fenced_by_all
        };
        let waits = self.rules.recovers && self.rules.fence_all_first;
        !waits || self.peers.values().all(is_fenced)
    }

    fn advance_all(&mut self, out: &mut Vec<PeerEffect<N>>) {
        let nodes: Vec<N> = self.peers.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.advance(node, out));
    }

    /// Appends the effects that are due for one peer.
    fn advance(&mut self, node: N, out: &mut Vec<PeerEffect<N>>) {
        use Progress::{Done, Open, Running};
        let (rules, is_compute, is_serving) = (self.rules, self.has_slot, self.is_serving);
        let (may_close, is_first) = (self.may_close(), self.is_first);
        let may_reclaim = self.may_reclaim();
        let Some(peer) = self.peers.get_mut(&node) else { return };
        peer.tidy();
        let (latest, first) = (NodeEpoch { node, epoch: peer.epoch }, out.len());
        let (is_joined, is_dead) = (peer.state == NodeState::Joined, peer.state == NodeState::Dead);

        // Fencing comes first, because the dead node may change memory here until the fence is
        // complete. The node also fences a dead node that its fabric does not know, because the
        // dead node may be connecting to this node.
        if is_dead && peer.fence == Open && !peer.is_busy() {
            peer.fencing = Some(latest.epoch);
            out.push(PeerEffect::Fence(latest));
        }
        if is_dead && peer.fence == Done && peer.fenced == Open {
            peer.fenced = Running;
            out.push(PeerEffect::Report(PeerReport::Fenced(latest)));
        }
        let is_met = is_joined && peer.link == Link::Known(latest.epoch);
        if is_met && (is_compute || is_serving) && peer.has_slot && peer.knows == Open {
            peer.knows = Running;
            out.push(PeerEffect::Report(PeerReport::Knows(latest)));
        }
        match peer.link {
            Link::Known(epoch) if epoch != latest.epoch || !is_joined => {
                let waits = peer.is_busy() && rules.fence_before_forget;
                if is_joined && peer.is_reachable && !rules.forget_before_admit {
                    peer.link = Link::Admitting(latest.epoch);
                    out.push(PeerEffect::Admit(latest));
                } else if !waits {
                    peer.link = Link::Forgetting(epoch);
                    let peer_then = NodeEpoch { node, epoch };
                    let has_left = epoch == latest.epoch && peer.state == NodeState::Left;
                    out.push(PeerEffect::Forget { peer: peer_then, has_left });
                }
            }
            Link::None if is_joined && peer.is_reachable && !peer.is_busy() => {
                peer.link = Link::Admitting(latest.epoch);
                out.push(PeerEffect::Admit(latest));
            }
            _ => {}
        }
        // The steps of the recovery begin when one view has shown the fence reports of all members,
        // and this node takes nothing more of the dead node.
        let is_unlinked = match peer.link {
            Link::None | Link::Refused(_) => true,
            Link::Admitting(epoch) | Link::Known(epoch) | Link::Forgetting(epoch) => {
                epoch > latest.epoch
            }
        };
        let recovers = rules.recovers && is_dead && peer.has_slot && is_compute;
        if recovers && peer.is_fenced_by_all && peer.fence == Done && is_unlinked {
            peer.recovery.go_on(rules.let_go_first);
            if let Some(step) = peer.recovery.step {
                let is_mine = match step {
                    RecoveryStep::Close => may_close,
                    RecoveryStep::Sweep => is_first && is_serving,
                    _ => true,
                };
                if peer.recovery.effect == Open && is_mine {
                    peer.recovery.effect = Running;
                    out.push(PeerEffect::Recover(step, latest));
                }
                if peer.recovery.effect == Done && peer.recovery.report == Open {
                    peer.recovery.report = Running;
                    out.push(PeerEffect::Report(PeerReport::Recovered(step, latest)));
                }
            }
        }
        // A dead compute node is reclaimed when nothing names it any more.
        let is_over = !rules.recovers || peer.recovery.is_over(RecoveryStep::Clear);
        let is_fenced = peer.is_fenced_by_all && peer.fence == Done;
        let is_due = is_fenced && is_over && may_reclaim && peer.reclaim == Open;
        if is_dead && is_due && peer.has_slot && is_compute && is_serving {
            peer.reclaim = Running;
            out.push(PeerEffect::Reclaim(latest));
        }
        if rules.recovers && is_dead && peer.reclaim == Done && peer.reclaimed == Open {
            peer.reclaimed = Running;
            out.push(PeerEffect::Report(PeerReport::Reclaimed(latest)));
        }
        for effect in &out[first..] {
            strict_assert_eq!(effect.peer().node, node, "{effect:?} is for another peer");
            strict_assert!(effect.peer().epoch <= latest.epoch, "{effect:?} is for no holder");
            strict_assert!(
                !rules.are_whole() || awaits(peer, effect),
                "the end of {effect:?} would be lost: {peer:?}"
            );
        }
    }
}

/// Whether the machine waits for the end of this effect: it has asked for the effect, and the
/// effect has not ended. For a report on an earlier holder, and for its reclaim, the answer is
/// `true`: their ends are accepted and ignored.
fn awaits<N: Copy>(peer: &Peer, effect: &PeerEffect<N>) -> bool {
    let epoch = effect.peer().epoch;
    let is_running = |progress| progress == Progress::Running || epoch < peer.epoch;
    match effect {
        PeerEffect::Admit(_) => peer.link == Link::Admitting(epoch),
        PeerEffect::Forget { .. } => peer.link == Link::Forgetting(epoch),
        PeerEffect::Fence(_) => peer.fencing == Some(epoch),
        PeerEffect::Report(PeerReport::Knows(_)) => is_running(peer.knows),
        PeerEffect::Report(PeerReport::Fenced(_)) => is_running(peer.fenced),
        PeerEffect::Report(PeerReport::Recovered(..)) => is_running(peer.recovery.report),
        PeerEffect::Report(PeerReport::Reclaimed(_)) => is_running(peer.reclaimed),
        PeerEffect::Recover(..) => is_running(peer.recovery.effect),
        PeerEffect::Reclaim(_) => is_running(peer.reclaim),
    }
}
