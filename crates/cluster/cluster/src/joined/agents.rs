//! The protocols and the agents of memory nodes, as members publish them in their contacts.
//!
//! ```text
//!   contact of C1:  protocol = gam                   C1 runs GAM
//!   contact of M0:  agent = gam 127.0.0.1:40123      M0 has an agent of GAM, at this address
//! ```
//!
//! With a protocol stand the settings of its homes that differ from their defaults:
//! `scalestore,chaining=fifo,home-cores=2`. All nodes and agents of a cluster have the same.
//!
//! An agent is no member. It joins, leaves and dies with its memory node, whose member epoch is
//! also the agent's, and whose reports count for both.

use latchwork_membership::{NodeIncarnation, NodeName, View, ViewMember};
use latchwork_peers::NodeEpoch;

use crate::config::check_processes;
use crate::protocol::{Protocol, agent};
use crate::{ClusterConfig, JoinError};

/// The key of a compute node's protocol in its contact.
pub(crate) const PROTOCOL: &str = "protocol";

/// The key of a memory node's agent in its contact.
const AGENT: &str = "agent";

/// The setting of the terms of a cluster that recovers the lines of dead nodes.
const SURVIVE: &str = "survive";

/// The protocol of a cluster with the changed settings of its homes, as in a contact, and whether
/// its nodes recover the lines of dead nodes. It has no space.
pub(crate) fn terms_of(config: &ClusterConfig) -> String {
    let survives = config.selcc.survive && !config.protocol.has_homes();
    let settings = config.changed_home_settings().chain(survives.then_some(SURVIVE));
    let words =
        settings.map(|name| format!(",{name}={}", config.setting(name).unwrap_or_default()));
    words.fold(config.protocol.name().to_owned(), |terms, word| terms + &word)
}

/// The configuration of a cluster with these terms. `None`: a peer of another version wrote them.
pub(crate) fn config_of(terms: &str) -> Option<ClusterConfig> {
    let mut words = terms.split(',');
    let protocol = words.next()?.parse().ok()?;
    let mut config = ClusterConfig { protocol, ..ClusterConfig::default() };
    for word in words {
        let (name, text) = word.split_once('=')?;
        config.set(name, text).ok()?;
    }
    check_processes(&config).ok().map(|()| config)
}

/// Whether the protocol of these terms has homes.
pub(super) fn has_homes(terms: &str) -> bool {
    let name = terms.split(',').next();
    name.and_then(|name| name.parse::<Protocol>().ok()).is_some_and(Protocol::has_homes)
}

/// Whether the nodes of a cluster with these terms recover the lines of dead nodes. All nodes take
/// part, so all must have the same setting.
pub(super) fn survives(terms: &str) -> bool {
    terms.split(',').any(|word| word.split_once('=') == Some((SURVIVE, "on")))
}

/// The entry in the contact of a memory node that has an agent at `address`.
pub(crate) fn contact_of(terms: &str, address: &str) -> (&'static str, String) {
    (AGENT, format!("{terms} {address}"))
}

/// The id of a memory node's agent, with its member epoch.
pub(super) fn agent_of(memory: NodeIncarnation) -> Option<NodeEpoch<NodeName>> {
    let node = NodeName::Compute(agent(memory.node.memory()?)?);
    Some(NodeEpoch { node, epoch: memory.epoch })
}

/// The terms and the address of a memory node's agent.
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

/// The terms that need agents, if a compute node has such. The node that joined first counts.
pub(crate) fn wanted(view: &View) -> Option<String> {
    let all =
        view.compute().filter_map(|member| Some((member.epoch, member.contact.get(PROTOCOL)?)));
    let wanted = all.filter(|(_, terms)| has_homes(terms) && config_of(terms).is_some());
    wanted.min_by_key(|(epoch, _)| *epoch).map(|(_, terms)| terms.clone())
}

/// An error that names a member of another protocol, or with other settings of homes, if one of the
/// two protocols has homes.
pub(super) fn disagreement(view: &View, ours: &str) -> Option<JoinError> {
    let told = |terms: &str| terms.replacen(',', " with ", 1);
    view.joined().find_map(|member| {
        let theirs = match member.node {
            NodeName::Compute(_) => member.contact.get(PROTOCOL)?,
            // The agent of an earlier run hinders no protocol without homes.
            NodeName::Memory(_) => published(member).filter(|_| has_homes(ours))?.0,
        };
        let need_the_same =
            has_homes(ours) || has_homes(theirs) || survives(ours) != survives(theirs);
        let is_other = theirs != ours && need_the_same;
        let (node, theirs, ours) = (member.node, told(theirs), told(ours));
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
                NodeName::Memory(_) => Role::Memory { bytes: 1 << 20, chip_bytes: 0 },
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
        let (key, value) = contact_of("gam,home-cores=2", "shm1:2:3:/a b");
        let view = view(&[("M0", "agent", ""), ("M3", key, &value)]);
        let found: Vec<_> = all(&view).collect();
        let agent = NodeEpoch { node: "C55".parse().expect("a name"), epoch: 2 };
        assert_eq!(found, [(agent, &view.members[&"M3".parse().unwrap()], "shm1:2:3:/a b")]);
    }

    #[test]
    fn the_first_compute_node_with_homes_decides_and_the_others_are_refused() {
        let gam = ("C1", PROTOCOL, "gam");
        let view = |other| view(&[("C3", PROTOCOL, "scalestore"), gam, other]);
        assert_eq!(wanted(&view(("C2", PROTOCOL, "selcc"))), Some("scalestore".to_owned()));
        let other = |members: &[(&str, &str, &str)], ours| {
            disagreement(&self::view(members), ours).map(|error| error.to_string())
        };
        let latch_words = [("C1", PROTOCOL, "selcc"), ("M0", AGENT, "gam x")];
        assert_eq!(other(&latch_words, "sel"), None);
        assert_eq!(other(&[gam, ("M0", AGENT, "gam x")], "gam"), None);
        let cores = ("C1", PROTOCOL, "gam,home-cores=2");
        for (members, ours, told) in [
            (&latch_words[..1], "gam", "C1 runs selcc, and this node gam: "),
            (&[gam], "selcc", "C1 runs gam, and this node selcc: "),
            (&[("M0", AGENT, "gam x")], "scalestore", "M0 runs gam, and this node scalestore: "),
            (&[cores], "gam", "C1 runs gam with home-cores=2, and this node gam: "),
            (&[cores], "gam,home-cores=3", "C1 runs gam with home-cores=2, and this node gam with"),
        ] {
            let line = other(members, ours).expect("a disagreement");
            assert!(line.starts_with(told) && line.contains("same --protocol"), "{line}");
        }
    }

    #[test]
    fn terms_come_back_and_those_of_other_versions_are_no_terms() {
        let mut config = ClusterConfig { protocol: Protocol::ScaleStore, ..Default::default() };
        assert_eq!(terms_of(&config), "scalestore");
        for (name, text) in [("chaining", "fifo"), ("reader-takes", "move"), ("home-cores", "3")] {
            config.set(name, text).expect("a value");
        }
        let terms = terms_of(&config);
        assert!(!terms.contains(' ') && terms.split(',').count() == 4, "{terms}");
        let read = config_of(&terms).expect("terms");
        assert_eq!(format!("{read:?}"), format!("{config:?}"));
        for other in
            ["mesi", "gam,cores=2", "gam,home-cores", "gam,home-cores=0", "gam,home=compute"]
        {
            assert!(config_of(other).is_none(), "{other}");
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
