//! The order in which a node admits, fences, forgets and reclaims its peers, as a pure state
//! machine.
//!
//! Every node runs one [`Peers`]. The inputs of the machine are views of the membership and the
//! ends of effects. The outputs are effects, which a driver carries out. The machine does no I/O,
//! reads no clock and takes no lock. So the membership thread of a process, the simulated worlds
//! and the model checker run the same code.
//!
//! ```text
//!   membership store ── View ──────►┌─────────┐── Admit, Fence, Forget ──► fabric, local waits ──┐
//!         ▲                         │  Peers  │── Reclaim ───────────────► epoch slot ───────────┤
//!         └── reports of all ◄──────│         │── Report ────────────────► own contact ──────────┤
//!                                   └─────────┘◄── Ended { effect, done } ───────────────────────┘
//! ```
//!
//! # The order of a death
//!
//! ```text
//!   C3 is dead      each member:        Fence C3 ──┬──► Report "fenced C3"
//!   in a view                                      └──► Forget C3           (known peers only)
//!                        all members have reported, in one view
//!                   each compute node:  Reclaim C3: its epoch slot is emptied
//!                                       (the others find it empty)
//! ```
//!
//! - The node repeats a failed attempt to fence. It forgets the peer after the first attempt has
//!   ended, with or without success.
//! - The node forgets a peer that left gracefully, and neither fences nor reclaims the peer.
//! - The node admits a peer after it has forgotten the earlier holder of the peer's id.
//!
//! An agent of a memory node is a peer of compute nodes, and has no epoch slot. So no node reclaims
//! it, and compute nodes wait for it by [`Peers::is_mutual`]. The memory node has one machine for
//! itself and its agent.
//!
//! # Invariants
//!
//! - **S1** A reclaim empties the epoch slot of a dead node only after every living node that the
//!   dead node could reach has fenced it.
//! - **S2** No reclaim empties the slot of a living node.
//! - **S3** No living node fences a living node, and no living node forgets a member.
//! - **S4** The fabric of a node knows at most one holder of an id.
//! - **S5** Of two living compute nodes that act (touch lines), each knows the other.
//! - **L** (liveness) If no more nodes die and a compute node lives, the slot of every dead node
//!   becomes empty, and each living compute node acts.
//!
//! Why S1 holds:
//!
//! 1. A node asks for the reclaim of D only after a view V that shows D dead, and the fence of D
//!    reported by every member.
//! 2. A member reports only a fence that its fabric has confirmed, and no fence is undone. So D can
//!    change nothing at the members of V.
//! 3. A living node that is not a member in V joined after V. The lease of D had ended before V,
//!    and D submits nothing without a lease. So D has sent no request to that node.
//! 4. By 2 and 3, D can change nothing at any living node from V on.
//!
//! Requests in the other direction, from a living node to D, need no order:
//!
//! 1. Such a request can reach D before the living node forgets D.
//! 2. From the fence on, the living node accepts no answer of D.
//! 3. So the request can matter only to the next holder of the id.
//! 4. By S4 the fabric has removed D when it knows the next holder.
//!
//! S2 holds in clusters without recovery because the membership never gives the id of a dead node
//! to another node. The model also covers clusters that reuse an id as soon as its slot is empty.
//! There S2 needs one more rule: a reclaim names a member epoch, and leaves the slot of any other
//! epoch unchanged. With recovery, [the condition for an id](#when-an-id-is-free) takes its place.
//!
//! [Recovery](#recovery) has S6 to S9.
//!
//! `tests/model` explores up to three nodes, and joins under used ids. A node dies at any step.
//! Views arrive late, skipped, repeated and out of order. Effects end in any order, and may fail.
//! The model also refutes the machine without each rule of [`PeerRules`].
//!
//! # Recovery
//!
//! With [`PeerRules::recovers`], each compute node takes the steps of [`RecoveryStep`] between
//! `Forget` and `Reclaim`. A node reports the end of each step. The next step begins when a view
//! shows the reports of all compute nodes.
//!
//! ```text
//!   LetGo ── all ──► Drain ── all ──► Close ── all ──► Sweep ── one ──► Clear ── all ──► Reclaim
//! ```
//!
//! - The first compute node sweeps. If it dies, the next one sweeps again.
//! - A step begins only after all members have fenced the dead node, and this node has forgotten
//!   it.
//! - A node closes all dead nodes together: it closes one only after all have drained for each dead
//!   node that it knows of.
//! - A node that acts takes all steps, also for a dead node that it never met. Another node may
//!   have met it, and closes what it has asked of this node.
//! - A compute node that joins in the meantime acts only after all have closed. It reports `Close`
//!   at once, because it has nothing to close, and takes the later steps.
//! - A reclaim waits until all members have fenced every dead compute node.
//!
//! Of the compute nodes that act, or have acted:
//!
//! - **S6** All living ones have ended `LetGo` of a dead node before one begins `Drain`, and all
//!   have ended `Drain` before one begins `Close`.
//! - **S7** A sweep takes effect only when each living one has ended `Close` of the dead node, or
//!   began to act after all had closed. No sweep takes effect when the id has a later holder.
//! - **S8** `Clear` begins only after a sweep has ended. A reclaim takes effect only when each one
//!   has ended `Clear`, or began to act after a sweep, or has left, or is dead and fenced by all
//!   living nodes that it could reach.
//! - **S9** A node begins `Close` of D only when each other one, X, has ended `Drain` of D, or has
//!   left, or is dead and all living ones have ended `Drain` of X.
//!
//! S9 is about lines whose giver has not reported. If X has ended `Drain` of D, X had no forward in
//! flight, so no line at this node waits for X. X may still die while this node closes D. Otherwise
//! all have fenced X, and the line may be resolved like one of D.
//!
//! Why S6 and S7 hold:
//!
//! 1. A node begins a step after a view V that shows D dead, and the step before reported by all
//!    compute nodes that are members. A report on a later step stands for it.
//! 2. A member that acts takes the steps one by one, and reports each after its end. So each member
//!    of V that acts has ended the step before.
//! 3. A node that has reported `Close` without taking steps did not act when its first view
//!    showed D dead. It acts only after a view that shows `Close` reported by all members. The same
//!    holds for a node that joins after V. So it acts after this node has ended `Close`.
//! 4. No step is undone, so S7 holds also for a sweep whose node has died in the meantime.
//! 5. The id of a node that has acted has a later holder only after the reclaim. By S8, the node of
//!    each sweep has ended it then, or can change nothing any more. A sweep finds nothing of a node
//!    that has never acted.
//!
//! Why S8 holds: of a view V in which all members have reported `Clear`,
//!
//! 1. a member of V has ended `Clear` after a sweep, or began to act after all had closed, and then
//!    also takes `Clear`, because it has reported it;
//! 2. a node that joins after V acts after the sweep;
//! 3. a node that is dead in V is known to be dead by the node that reclaims, which waits until all
//!    have fenced it.
//!
//! Why S9 holds: of the view V in which all members have reported `Drain` of D,
//!
//! 1. a member of V that acts has ended `Drain` of D, by S6;
//! 2. a node that is dead in V is known to be dead by the node that closes, which waits until all
//!    have drained for it;
//! 3. a node that begins to act later does so after this node has closed.
//!
//! ## When an id is free
//!
//! Each compute node reports the end of its reclaim: `Reclaimed`. The id of a dead compute node may
//! be given to another node when a view shows the report of all compute nodes, at least one, and
//! the fence of every dead compute node by all members ([`ClusterView::is_free`]). The transaction
//! that takes the id fails when another node has joined or left since that view.
//!
//! 1. Of the nodes of the view, the living ones have taken all steps, and have no reclaim left. The
//!    dead ones have nothing in flight.
//! 2. A node that joins later finds the next holder in its first view.
//! 3. So nothing of the last holder's death is left that could concern the next one, and S2 and S7
//!    hold although a slot does not say to which member epoch it belongs.
//!
//! An empty slot is not enough: a node that dies before it acts has an empty slot. The later holder
//! would take its place in the machines. Then a node that has let go of the dead node would never
//! close, and never send requests again.
//!
//! The model refutes the machine without each of these rules.
//!
//! # Example
//!
//! ```
//! use std::collections::{BTreeMap, BTreeSet};
//! use latchwork_peers::*;
//!
//! let joined = |epoch, has_slot| NodeView {
//!     epoch, has_slot, state: NodeState::Joined, is_reachable: true, reports: BTreeSet::new(),
//! };
//! let nodes = BTreeMap::from([("C1", joined(1, true)), ("C2", joined(2, true))]);
//! let mut view = ClusterView { nodes };
//! let [me, dead] = [("C1", 1), ("C2", 2)].map(|(node, epoch)| NodeEpoch { node, epoch });
//! let mut peers = Peers::new(me, true, PeerRules::default());
//! let mut after = |input: PeerInput<'_, &'static str>| {
//!     let mut out = Vec::new();
//!     peers.step(input, &mut out);
//!     out
//! };
//! assert_eq!(after(PeerInput::Serving), []);
//! assert_eq!(after(PeerInput::View(&view)), [PeerEffect::Admit(dead)]);
//! // C2 dies before C1 has admitted it.
//! view.nodes.get_mut("C2").unwrap().state = NodeState::Dead;
//! assert_eq!(after(PeerInput::View(&view)), []);
//! let ended = |effect| PeerInput::Ended { effect, done: true };
//! assert_eq!(after(ended(PeerEffect::Admit(dead))), [PeerEffect::Fence(dead)]);
//! let fenced = PeerReport::Fenced(dead);
//! let forget = PeerEffect::Forget { peer: dead, has_left: false };
//! assert_eq!(after(ended(PeerEffect::Fence(dead))), [PeerEffect::Report(fenced), forget]);
//! // The report of C1 appears in a view. C1 is the only member that is left.
//! view.nodes.get_mut("C1").unwrap().reports.insert(fenced);
//! assert_eq!(after(PeerInput::View(&view)), [PeerEffect::Reclaim(dead)]);
//! ```

#![forbid(unsafe_code)]

mod peer;
mod peers;
mod progress;
mod recovery;
mod rules;
mod view;

pub use peers::{PeerEffect, PeerInput, Peers};
pub use recovery::RecoveryStep;
pub use rules::PeerRules;
pub use view::{ClusterView, NodeEpoch, NodeState, NodeView, PeerReport};
