//! The order in which a node admits, fences, forgets and reclaims its peers, as a pure state
//! machine.
//!
//! Every node runs one [`Peers`]. Views of the membership and ends of effects enter the machine,
//! effects leave the machine. The machine does no I/O, reads no clock and takes no lock. So the
//! membership thread of a process, the simulated worlds and the model checker run the same code.
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
//! - A failed attempt to fence is repeated. The node forgets the peer after the first attempt has
//!   ended, with or without success.
//! - A peer that left gracefully is forgotten, and neither fenced nor reclaimed.
//! - A peer is admitted after the earlier holder of its id is forgotten.
//!
//! # Invariants
//!
//! - **S1** When the slot of a dead node is emptied, every living node that the dead node could
//!   reach has fenced it.
//! - **S2** No reclaim empties the slot of a living node.
//! - **S3** No living node fences a living node, and none forgets a member.
//! - **S4** The fabric of a node knows at most one holder of an id.
//! - **S5** Of two living compute nodes that act, each knows the other.
//! - **L** If no more nodes die and a compute node lives, the slot of every dead node becomes
//!   empty.
//!
//! Why S1 holds:
//!
//! 1. A node asks for the reclaim of D only after a view V in which D is dead and every member has
//!    reported the fence of D.
//! 2. A member reports only a fence that its fabric has confirmed. A fence is never undone.
//! 3. A living node that is not a member in V joined after V. The lease of D had ended before V,
//!    and D submits nothing without a lease. So no request of D is to that node.
//! 4. So at every time after V, D can change nothing at any living node.
//!
//! The other direction needs no order. A request of a living node to D can reach D before the
//! living node forgets D. From the fence on, every answer of D fails at that node. The request can
//! matter only to the next holder of the id. By S4 the fabric does not know D any more when it
//! knows the next holder.
//!
//! S2 holds in today's clusters for a simple reason: the membership never gives the id of a dead
//! node again. The model also gives ids again, as soon as the slot is empty. Then S2 needs the rule
//! that a reclaim names the member epoch, and changes no slot of another one.
//!
//! `tests/model` explores up to three nodes: deaths at every step, views late, skipped, repeated
//! and out of order, effects in any order, effects that fail, and joins under ids that were used.
//! It also refutes the machine without each rule of [`PeerRules`].
//!
//! # Recovery
//!
//! No recovery of a dead node exists yet. A recovery adds steps between `Forget` and `Reclaim`.
//! Each step is an effect, with a [`PeerReport`] of its own. The next step begins when
//! [`have_all_reported`](ClusterView::have_all_reported) holds for that report. `Forget` is local:
//! a recovery that needs `Forget` on all nodes adds a report for its end.
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
mod rules;
mod view;

pub use peers::{PeerEffect, PeerInput, Peers};
pub use rules::PeerRules;
pub use view::{ClusterView, NodeEpoch, NodeState, NodeView, PeerReport};
