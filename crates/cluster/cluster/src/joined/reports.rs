//! The views of the membership as [`Peers`](latchwork_peers::Peers) reads them: members publish
//! their reports in their contacts.
//!
//! ```text
//!   contact of C1:  knows-C3 = 9      C1 has admitted C3, which joined at member epoch 9
//!                   fenced-C2 = 7     C1 has fenced C2, which had joined at member epoch 7
//!                   recovered-C2 = 7 drain   the last step of C2's recovery that C1 has taken
//!                   reclaimed-C2 = 7   C1 has nothing left to do for C2
//! ```

use std::collections::{BTreeMap, BTreeSet};

use latchwork_membership::{MemberState, NodeName, View, ViewMember};
use latchwork_peers::{ClusterView, NodeEpoch, NodeState, NodeView, PeerReport, RecoveryStep};
use latchwork_strict::strict_assert_eq;

use super::agents;

const KNOWS: &str = "knows-";
const FENCED: &str = "fenced-";
const RECOVERED: &str = "recovered-";
const RECLAIMED: &str = "reclaimed-";

/// The steps of a recovery, by name.
const STEPS: [(&str, RecoveryStep); 5] = [
    ("let-go", RecoveryStep::LetGo),
    ("drain", RecoveryStep::Drain),
    ("close", RecoveryStep::Close),
    ("sweep", RecoveryStep::Sweep),
    ("clear", RecoveryStep::Clear),
];

/// The key and the value of a report in the contact of the member that gives it.
pub(super) fn contact_of(report: &PeerReport<NodeName>) -> (String, String) {
    let NodeEpoch { node, epoch } = report.peer();
    let (kind, step) = match report {
        PeerReport::Knows(_) => (KNOWS, None),
        PeerReport::Fenced(_) => (FENCED, None),
        PeerReport::Reclaimed(_) => (RECLAIMED, None),
        PeerReport::Recovered(step, _) => (RECOVERED, STEPS.iter().find(|named| named.1 == *step)),
    };
    let step = step.map(|(name, _)| format!(" {name}")).unwrap_or_default();
    let (key, value) = (format!("{kind}{node}"), format!("{epoch}{step}"));
    strict_assert_eq!(
        report_in(&key, &value).as_ref(),
        Some(report),
        "members read another report"
    );
    (key, value)
}

/// The report of an entry in a contact, or `None` for any other entry.
fn report_in(key: &str, value: &str) -> Option<PeerReport<NodeName>> {
    let peer =
        |node: &str| Some(NodeEpoch { node: node.parse().ok()?, epoch: value.parse().ok()? });
    if let Some(node) = key.strip_prefix(KNOWS) {
        return peer(node).map(PeerReport::Knows);
    }
    if let Some(node) = key.strip_prefix(RECLAIMED) {
        return peer(node).map(PeerReport::Reclaimed);
    }
    if let Some(node) = key.strip_prefix(RECOVERED) {
        let (epoch, name) = value.split_once(' ')?;
        let (_, step) = STEPS.iter().find(|named| named.0 == name)?;
        let peer = NodeEpoch { node: node.parse().ok()?, epoch: epoch.parse().ok()? };
        return Some(PeerReport::Recovered(*step, peer));
    }
    peer(key.strip_prefix(FENCED)?).map(PeerReport::Fenced)
}

/// The view in the form that [`Peers`](latchwork_peers::Peers) reads. `address` is the key of the
/// fabric's addresses in contacts. Only compute nodes talk to agents, so the view of a memory node
/// is without them.
///
/// For a compute node, another one is reachable when all agents know it: an agent admits the next
/// holder of an id after its homes have recovered from the end of the last one. Until then, the
/// homes ask this node about the last holder.
pub(super) fn read(view: &View, address: &str, with_agents: bool) -> ClusterView<NodeName> {
    let is_met = |member: &ViewMember| {
        let is_known = PeerReport::Knows(NodeEpoch { node: member.node, epoch: member.epoch });
        let mut agents = agents::all(view).map(|(_, memory, _)| memory);
        agents.all(|memory| {
            memory.state != MemberState::Joined || reports_of(memory).contains(&is_known)
        })
    };
    let node = |member: &ViewMember| NodeView {
        epoch: member.epoch,
        state: match member.state {
            MemberState::Joined => NodeState::Joined,
            MemberState::Left => NodeState::Left,
            MemberState::Dead => NodeState::Dead,
        },
        has_slot: member.node.compute().is_some(),
        is_reachable: member.contact.contains_key(address)
            && (!with_agents || member.node.compute().is_none() || is_met(member)),
        reports: reports_of(member),
    };
    let mut nodes: BTreeMap<_, _> =
        view.members.iter().map(|(name, member)| (*name, node(member))).collect();
    for (agent, memory, _) in agents::all(view).filter(|_| with_agents) {
        nodes.entry(agent.node).or_insert_with(|| node(memory));
    }
    ClusterView { nodes }
}

/// Whether the id of a dead compute node may be given to another node: its recovery is over, as
/// [`ClusterView::is_free`] says. Always false in clusters without the setting `survive`. It is the
/// [condition](latchwork_membership::Joining::reuse) for the nodes of such clusters.
pub fn is_free(view: &View, dead: &ViewMember) -> bool {
    read(view, "", false).is_free(NodeEpoch { node: dead.node, epoch: dead.epoch })
}

fn reports_of(member: &ViewMember) -> BTreeSet<PeerReport<NodeName>> {
    member.contact.iter().filter_map(|(key, value)| report_in(key, value)).collect()
}

#[cfg(test)]
mod tests {
    use latchwork_membership::Role;

    use super::*;

    fn member(name: &str, state: MemberState, says: &[(&str, &str)]) -> ViewMember {
        let node: NodeName = name.parse().expect("a name");
        let role = match node {
            NodeName::Memory(_) => Role::Memory { bytes: 1 << 20, chip_bytes: 0 },
            NodeName::Compute(_) => Role::Compute,
        };
        let contact = says.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        ViewMember { node, epoch: 7, role, contact: contact.collect(), state }
    }

    fn of(name: &str, epoch: u64) -> NodeEpoch<NodeName> {
        NodeEpoch { node: name.parse().expect("a name"), epoch }
    }

    #[test]
    fn a_report_is_read_as_it_is_published() {
        let recovered =
            RecoveryStep::ALL.map(|step| PeerReport::Recovered(step, of("C3", 9))).into_iter();
        let others = [
            PeerReport::Knows(of("C12", 41)),
            PeerReport::Fenced(of("M0", 1)),
            PeerReport::Reclaimed(of("C3", 9)),
        ];
        for report in others.into_iter().chain(recovered) {
            let (key, value) = contact_of(&report);
            assert_eq!(report_in(&key, &value), Some(report));
        }
        // Members of earlier versions publish the same text.
        let (key, value) = contact_of(&PeerReport::Fenced(of("C3", 7)));
        assert_eq!((&*key, &*value), ("fenced-C3", "7"));
        let foreign = [
            ("tcp", "7"),
            ("fenced-C3", "x"),
            ("fenced-", "7"),
            ("fenced-C99", "7"),
            ("C3", "7"),
            ("recovered-C3", "7"),
            ("recovered-C3", "7 other"),
        ];
        for (key, value) in foreign {
            assert_eq!(report_in(key, value), None, "{key} = {value}");
        }
    }

    #[test]
    fn every_member_has_to_fence_the_dead_node_and_with_its_last_epoch() {
        use MemberState::{Dead, Joined, Left};
        let dead = member("C3", Dead, &[]);
        let judge = |members: &[ViewMember]| {
            let members: BTreeMap<_, _> = members.iter().map(|m| (m.node, m.clone())).collect();
            let view = read(&View { revision: 9, members }, "tcp", true);
            view.have_all_reported(&PeerReport::Fenced(of("C3", 7)))
        };
        let says: &[(&str, &str)] = &[("fenced-C3", "7")];
        let (m0, c1) = (member("M0", Joined, says), member("C1", Joined, says));
        assert!(judge(&[m0.clone(), c1.clone(), dead.clone()]));
        for silent in ["M1", "C2"] {
            let silent = member(silent, Joined, &[("fenced-C4", "7")]);
            assert!(!judge(&[m0.clone(), c1.clone(), dead.clone(), silent]));
        }
        let old = member("M1", Joined, &[("fenced-C3", "6")]);
        assert!(!judge(&[m0.clone(), c1.clone(), old]));
        // The dead node cannot change memory of a member that died or left, because none is in use.
        let gone = [member("M1", Dead, &[]), member("C2", Left, &[])];
        assert!(judge(&[m0, c1, dead.clone(), gone[0].clone(), gone[1].clone()]));
    }

    #[test]
    fn a_member_is_reachable_when_its_contact_has_an_address_of_this_fabric() {
        let there = member("C1", MemberState::Joined, &[("tcp", "127.0.0.1:1")]);
        let view = View { revision: 9, members: BTreeMap::from([(there.node, there)]) };
        let is_reachable =
            |address| read(&view, address, true).nodes.values().all(|n| n.is_reachable);
        assert!(is_reachable("tcp") && !is_reachable("shm"));
    }

    #[test]
    fn a_compute_node_is_reachable_for_others_when_all_agents_know_it() {
        let there = member("C1", MemberState::Joined, &[("tcp", "127.0.0.1:1")]);
        let is_reachable = |says: &[(&str, &str)], with_agents| {
            let agent = [&[("tcp", "127.0.0.1:2"), ("agent", "gam 127.0.0.1:3")], says].concat();
            let members = [there.clone(), member("M0", MemberState::Joined, &agent)];
            let members = members.into_iter().map(|member| (member.node, member)).collect();
            let view = read(&View { revision: 9, members }, "tcp", with_agents);
            assert!(view.nodes[&"M0".parse().expect("a name")].is_reachable);
            view.nodes[&there.node].is_reachable
        };
        assert!(!is_reachable(&[], true) && is_reachable(&[], false));
        // The agent knows an earlier holder of the id, and then this one.
        assert!(!is_reachable(&[("knows-C1", "6")], true));
        assert!(is_reachable(&[("knows-C1", "7")], true));
    }
}
