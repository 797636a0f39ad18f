//! The protocols and the agents of memory nodes, as members publish them in their contacts.
//!
//! ```text
//!   contact of C1:  protocol = gam                   C1 runs GAM
//!   contact of M0:  agent = gam 127.0.0.1:40123      M0 has an agent of GAM, at this address
//! ```
//!
//! An agent is no member. It joins, leaves and dies with its memory node, whose member epoch is
//! also the agent's, and whose reports count for both.

use latchwork_membership::{NodeIncarnation, NodeName, View, ViewMember};
use latchwork_peers::NodeEpoch;

use crate::JoinError;
use crate::protocol::{Protocol, agent};

/// The key of a compute node's protocol in its contact.
pub(crate) const PROTOCOL: &str = "protocol";

/// The key of a memory node's agent in its contact.
const AGENT: &str = "agent";

/// The entry in the contact of a memory node that has an agent at `address`.
pub(crate) fn contact_of(protocol: Protocol, address: &str) -> (&'static str, String) {
    (AGENT, format!("{protocol} {address}"))
}

/// The id of a memory node's agent, with its member epoch.
pub(super) fn agent_of(memory: NodeIncarnation) -> Option<NodeEpoch<NodeName>> {
    let node = NodeName::Compute(agent(memory.node.memory()?)?);
    Some(NodeEpoch { node, epoch: memory.epoch })
}

/// The protocol and the address of a memory node's agent.
fn published(memory: &ViewMember) -> Option<(&str, &str)> {
    memory.contact.get(AGENT)?.split_once(' ')
}

/// The agents that memory nodes have published, each with its memory node and its address.
pub(super) fn all(
    view: &View,
) -> impl Iterator<Item = (NodeEpoch<NodeName>, &ViewMember, &str)> + '_ {
    view.members
        .values()
        .filter_map(|member| Some((agent_of(member.party())?, member, published(member)?.1)))
}

/// The protocol that needs agents, if a compute node runs one. The node that joined first counts.
pub(crate) fn wanted(view: &View) -> Option<Protocol> {
    let protocol = |member: &ViewMember| member.contact.get(PROTOCOL)?.parse::<Protocol>().ok();
    let all = view.compute().filter_map(|member| Some((member.epoch, protocol(member)?)));
    all.filter(|(_, protocol)| protocol.has_homes()).min_by_key(|(epoch, _)| *epoch).map(|it| it.1)
}

/// An error that names a member of another protocol, if one of the two protocols has homes.
pub(super) fn disagreement(view: &View, ours: Protocol) -> Option<JoinError> {
    let has_homes =
        |theirs: &str| theirs.parse::<Protocol>().is_ok_and(|theirs| theirs.has_homes());
    view.joined().find_map(|member| {
        let theirs = match member.node {
            NodeName::Compute(_) => member.contact.get(PROTOCOL)?,
            // The agent of an earlier run hinders no protocol without homes.
            NodeName::Memory(_) => published(member).filter(|_| ours.has_homes())?.0,
        };
        let is_other = theirs != ours.name() && (ours.has_homes() || has_homes(theirs));
        let (node, theirs) = (member.node, theirs.to_owned());
        is_other.then_some(JoinError::OtherProtocol { node, theirs, ours })
    })
}

/// An error that names a memory node whose agent has no id of its own, if there is one.
pub(crate) fn without_id(view: &View) -> Option<JoinError> {
    let is_taken = |id: NodeEpoch<NodeName>| view.members.contains_key(&id.node);
    let memory = view.memory().find(|member| agent_of(member.party()).is_none_or(is_taken))?;
    Some(JoinError::NoIdForAgent { node: memory.node })
}

#[cfg(test)]
mod tests {
    use latchwork_membership::{MemberState, Role};

    use super::*;

    fn view(members: &[(&str, &str, &str)]) -> View {
        let member = |(epoch, &(name, key, value)): (usize, &(&str, &str, &str))| {
            let node: NodeName = name.parse().expect("a name");
            let role = match node {
                NodeName::Memory(_) => Role::Memory { bytes: 1 << 20 },
                NodeName::Compute(_) => Role::Compute,
            };
            let contact = [(key.to_owned(), value.to_owned())].into();
            let (epoch, state) = (epoch as u64 + 1, MemberState::Joined);
            (node, ViewMember { node, epoch, role, contact, state })
        };
        View { revision: 9, members: members.iter().enumerate().map(member).collect() }
    }

    #[test]
    fn an_agent_is_read_as_it_is_published() {
        let (key, value) = contact_of(Protocol::Gam, "shm1:2:3:/a b");
        let view = view(&[("M0", "agent", ""), ("M3", key, &value)]);
        let found: Vec<_> = all(&view).collect();
        let agent = NodeEpoch { node: "C55".parse().expect("a name"), epoch: 2 };
        assert_eq!(found, [(agent, &view.members[&"M3".parse().unwrap()], "shm1:2:3:/a b")]);
    }

    #[test]
    fn the_first_compute_node_with_homes_decides_and_the_others_are_refused() {
        let gam = ("C1", PROTOCOL, "gam");
        let view = |other| view(&[("C3", PROTOCOL, "scalestore"), gam, other]);
        assert_eq!(wanted(&view(("C2", PROTOCOL, "selcc"))), Some(Protocol::ScaleStore));
        let other = |members: &[(&str, &str, &str)], ours| {
            disagreement(&self::view(members), ours).map(|error| error.to_string())
        };
        let latch_words = [("C1", PROTOCOL, "selcc"), ("M0", AGENT, "gam x")];
        assert_eq!(other(&latch_words, Protocol::Sel), None);
        assert_eq!(other(&[gam, ("M0", AGENT, "gam x")], Protocol::Gam), None);
        for (members, ours, told) in [
            (&latch_words[..1], Protocol::Gam, "C1 runs selcc, and this node gam: "),
            (&[gam], Protocol::Selcc, "C1 runs gam, and this node selcc: "),
            (&[("M0", AGENT, "gam x")], Protocol::ScaleStore, "M0 runs gam, and this node scale"),
        ] {
            let line = other(members, ours).expect("a disagreement");
            assert!(line.starts_with(told) && line.contains("same --protocol"), "{line}");
        }
    }

    #[test]
    fn an_agent_takes_no_id_that_was_ever_used() {
        let told = |members: &[(&str, &str, &str)]| without_id(&view(members)).is_some();
        assert!(!told(&[("M1", "", ""), ("C58", "", "")]));
        assert!(told(&[("M1", "", ""), ("C57", "", "")]));
        assert!(told(&[("M58", "", "")]));
    }
}
