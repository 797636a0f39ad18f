//! [`View`]: the states of all nodes of a cluster.

use std::collections::BTreeMap;

use latchwork_strict::strict_assert;

use crate::error::MembershipError;
use crate::keys::{Keys, Record, decode, foreign};
use crate::name::{NodeIncarnation, NodeName};
use crate::role::Role;
use crate::store::Snapshot;

/// The state of a node in a view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemberState {
    /// The node is in the cluster, and its lease has not ended.
    Joined,
    /// The node has left gracefully. Its id may be reused.
    Left,
    /// The lease of the node ended before the node left. Its id is reused only if the next node
    /// [asks for that](crate::Joining::reuse).
    Dead,
}

/// A node in a view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewMember {
    /// The name of the node.
    pub node: NodeName,
    /// The member epoch: the store's revision at which the node joined. A later holder of the id
    /// has a higher member epoch.
    pub epoch: u64,
    /// The role of the node.
    pub role: Role,
    /// The contact, by key: how to reach the node. The contact of a node that left or died stays
    /// until the id is reused.
    pub contact: BTreeMap<String, String>,
    /// The state of the node.
    pub state: MemberState,
}

impl ViewMember {
    /// The node with its member epoch.
    pub fn party(&self) -> NodeIncarnation {
        NodeIncarnation { node: self.node, epoch: self.epoch }
    }
}

/// The latest holder of each id that was ever used, at one revision of the store.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// The revision of the store.
    pub revision: u64,
    /// The nodes, by name.
    pub members: BTreeMap<NodeName, ViewMember>,
}

impl View {
    /// The latest holder of a name.
    pub fn get(&self, node: NodeName) -> Option<&ViewMember> {
        self.members.get(&node)
    }

    /// The state of a node, or `None` if the node never joined.
    pub fn state(&self, node: NodeName) -> Option<MemberState> {
        self.get(node).map(|member| member.state)
    }

    /// Whether the party is in the cluster, with the same member epoch.
    pub fn is_there(&self, party: NodeIncarnation) -> bool {
        self.get(party.node).is_some_and(|member| {
            member.epoch == party.epoch && member.state == MemberState::Joined
        })
    }

    /// The nodes that are in the cluster.
    pub fn joined(&self) -> impl Iterator<Item = &ViewMember> {
        self.members.values().filter(|member| member.state == MemberState::Joined)
    }

    /// The compute nodes that are in the cluster.
    pub fn compute(&self) -> impl Iterator<Item = &ViewMember> {
        self.joined().filter(|member| member.node.compute().is_some())
    }

    /// The memory nodes that are in the cluster.
    pub fn memory(&self) -> impl Iterator<Item = &ViewMember> {
        self.joined().filter(|member| member.node.memory().is_some())
    }

    /// The nodes that have died.
    pub fn dead(&self) -> impl Iterator<Item = &ViewMember> {
        self.members.values().filter(|member| member.state == MemberState::Dead)
    }

    /// Reads a view from a snapshot of [`Keys::view`].
    pub(crate) fn read(
        store: &str,
        keys: &Keys,
        snapshot: &Snapshot,
    ) -> Result<Self, MembershipError> {
        let mut view = View { revision: snapshot.revision, members: BTreeMap::new() };
        let (nodes, alive, contacts) =
            (keys.view() + "node/", keys.view() + "alive/", keys.view() + "contact/");
        let mut living = Vec::new();
        for entry in &snapshot.entries {
            let name = |text: &str| {
                text.parse::<NodeName>().map_err(|()| foreign(store, entry, "it names no node"))
            };
            if let Some(node) = entry.key.strip_prefix(&nodes) {
                let node = name(node)?;
                let (state, role, epoch) = match decode(store, entry)? {
                    // The node counts as dead until the loop below finds its `alive` key.
                    Record::Joined { role, .. } => (MemberState::Dead, role, entry.modified),
                    Record::Left { role, epoch } => (MemberState::Left, role, epoch),
                };
                if role.kind() != node.kind() {
                    return Err(foreign(store, entry, "its role is another than its name's"));
                }
                let contact = BTreeMap::new();
                view.members.insert(node, ViewMember { node, epoch, role, contact, state });
            } else if let Some(node) = entry.key.strip_prefix(&alive) {
                living.push(name(node)?);
            }
        }
        for node in living {
            if let Some(member) = view.members.get_mut(&node)
                && member.state == MemberState::Dead
            {
                member.state = MemberState::Joined;
            }
        }
        strict_assert!(
            view.members.iter().all(|(node, member)| node.kind() == member.role.kind()),
            "a member of another kind than its name"
        );
        for entry in &snapshot.entries {
            let Some((node, key)) =
                entry.key.strip_prefix(&contacts).and_then(|rest| rest.split_once('/'))
            else {
                continue;
            };
            let node = node.parse().map_err(|()| foreign(store, entry, "it names no node"))?;
            let value = String::from_utf8(entry.value.clone())
                .map_err(|_| foreign(store, entry, "it is no text"))?;
            if let Some(member) = view.members.get_mut(&node) {
                member.contact.insert(key.to_owned(), value);
            }
        }
        Ok(view)
    }
}
