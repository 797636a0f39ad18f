//! [`View`]: who is in the cluster.

use std::collections::BTreeMap;

use crate::error::MembershipError;
use crate::keys::{Keys, Record, decode, foreign};
use crate::name::{NodeName, Party, Role};
use crate::store::Snapshot;

/// What became of a node.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MemberState {
    /// It is in the cluster, and its lease has not ended.
    Joined,
    /// It has left in order; its id may be given again.
    Left,
    /// Its lease has ended, and it had not left. Its id is never given again.
    Dead,
}

/// A node as a view has it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    /// Its name.
    pub node: NodeName,
    /// The store's revision at which it joined: whoever joins later has a higher one.
    pub epoch: u64,
    /// What it is there for.
    pub role: Role,
    /// How to reach it. Kept when it has left or died, until the id is given again.
    pub contact: BTreeMap<String, String>,
    /// What became of it.
    pub state: MemberState,
}

impl Member {
    /// The node, as it was started then.
    pub fn party(&self) -> Party {
        Party { node: self.node, epoch: self.epoch }
    }
}

/// All nodes that ever were in the cluster, each with its latest holder, as they were at one
/// revision.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct View {
    /// The store's revision.
    pub revision: u64,
    /// The nodes.
    pub members: BTreeMap<NodeName, Member>,
}

impl View {
    /// A node.
    pub fn get(&self, node: NodeName) -> Option<&Member> {
        self.members.get(&node)
    }

    /// What became of a node, if it ever was there.
    pub fn state(&self, node: NodeName) -> Option<MemberState> {
        self.get(node).map(|member| member.state)
    }

    /// Whether the node is in the cluster, and has not been started anew.
    pub fn is_there(&self, party: Party) -> bool {
        self.get(party.node).is_some_and(|member| {
            member.epoch == party.epoch && member.state == MemberState::Joined
        })
    }

    /// The nodes that are in the cluster.
    pub fn joined(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| member.state == MemberState::Joined)
    }

    /// The compute nodes that are in the cluster.
    pub fn compute(&self) -> impl Iterator<Item = &Member> {
        self.joined().filter(|member| member.node.compute().is_some())
    }

    /// The memory nodes that are in the cluster.
    pub fn memory(&self) -> impl Iterator<Item = &Member> {
        self.joined().filter(|member| member.node.memory().is_some())
    }

    /// The nodes that have died.
    pub fn dead(&self) -> impl Iterator<Item = &Member> {
        self.members.values().filter(|member| member.state == MemberState::Dead)
    }

    /// What a snapshot of [`Keys::view`] says.
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
                    // Until its `alive` key shows up.
                    Record::Joined { role, .. } => (MemberState::Dead, role, entry.modified),
                    Record::Left { role, epoch } => (MemberState::Left, role, epoch),
                };
                if role.kind() != node.kind() {
                    return Err(foreign(store, entry, "its role is another than its name's"));
                }
                let contact = BTreeMap::new();
                view.members.insert(node, Member { node, epoch, role, contact, state });
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
