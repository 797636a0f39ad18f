//! [`Keys`]: the keys of a cluster in its store. `docs/internals/membership.md` has the table.

use latchwork_strict::strict_assert;
use serde::{Deserialize, Serialize};

use crate::error::MembershipError;
use crate::key_name::checked;
use crate::name::NodeName;
use crate::role::Role;
use crate::store::{Compare, StoreEntry};

/// The keys of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    root: String,
}

impl Keys {
    pub(crate) fn new(cluster: &str) -> Result<Self, MembershipError> {
        Ok(Keys { root: format!("/latchwork/{}/", checked("cluster", cluster)?) })
    }

    /// The prefix of all keys of the cluster.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// The prefix of all keys that make up a view.
    pub(crate) fn view(&self) -> String {
        strict_assert!(
            self.root.starts_with('/') && self.root.ends_with('/'),
            "a root that other clusters share"
        );
        format!("{}view/", self.root)
    }

    /// The key of a node's [`Record`]. The key is never deleted.
    pub(crate) fn node(&self, node: NodeName) -> String {
        format!("{}view/node/{node}", self.root)
    }

    /// A key that exists until the node leaves or its lease ends.
    pub(crate) fn alive(&self, node: NodeName) -> String {
        format!("{}view/alive/{node}", self.root)
    }

    /// The prefix of the contacts of a node.
    pub(crate) fn contacts(&self, node: NodeName) -> String {
        format!("{}view/contact/{node}/", self.root)
    }

    pub(crate) fn contact(&self, node: NodeName, key: &str) -> Result<String, MembershipError> {
        Ok(format!("{}{}", self.contacts(node), checked("contact", key)?))
    }

    pub(crate) fn fact(&self, name: &str) -> Result<String, MembershipError> {
        Ok(format!("{}fact/{}", self.root, checked("fact", name)?))
    }

    /// The prefix of the control messages to a node at one member epoch, and of the answers to the
    /// node's own messages.
    pub(crate) fn messages(&self, node: NodeName, epoch: u64) -> String {
        format!("{}mail/{node}@{epoch}/", self.root)
    }

    /// The comparison that holds exactly while the node with this member epoch is in the cluster.
    pub(crate) fn is_alive(&self, node: NodeName, epoch: u64) -> Compare {
        Compare::Unchanged(self.alive(node), epoch)
    }

    /// The prefix of the [`Call`]s of an exchange.
    pub(crate) fn exchange(&self, name: &str) -> Result<String, MembershipError> {
        Ok(format!("{}exchange/{}/", self.root, checked("exchange", name)?))
    }

    /// The prefix of the values of an exchange.
    pub(crate) fn values(&self, name: &str) -> Result<String, MembershipError> {
        Ok(format!("{}value/{}/", self.root, checked("exchange", name)?))
    }
}

/// The permanent record of a node. A node is dead when it has a `Joined` record and no `alive` key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum Record {
    /// Put at the join, and unchanged until the node leaves. The revision of the record is the
    /// member epoch.
    Joined { role: Role, lease: u64 },
    /// The node has left, and the id is free.
    Left { role: Role, epoch: u64 },
}

/// The record with which a node says that it has given its value in an exchange.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) epoch: u64,
    /// The parties of the exchange, as the node names them.
    pub(crate) parties: Vec<String>,
}

/// The bytes of a record or call.
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    // Encoding fails only for maps with keys that are not text and for failing writers. No type
    // here is such a map.
    serde_json::to_vec(value).unwrap_or_default()
}

/// The record or call that an entry holds.
pub(crate) fn decode<T: for<'a> Deserialize<'a>>(
    store: &str,
    entry: &StoreEntry,
) -> Result<T, MembershipError> {
    serde_json::from_slice(&entry.value).map_err(|error| foreign(store, entry, &error.to_string()))
}

pub(crate) fn foreign(store: &str, entry: &StoreEntry, why: &str) -> MembershipError {
    MembershipError::Foreign { store: store.into(), key: entry.key.clone(), why: why.into() }
}
