//! [`Keys`]: where a cluster keeps what. `docs/membership.md` has the table.

use serde::{Deserialize, Serialize};

use crate::error::MembershipError;
use crate::name::{NodeName, Role, checked};
use crate::store::{Compare, Entry};

/// The keys of one cluster.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    root: String,
}

impl Keys {
    pub(crate) fn new(cluster: &str) -> Result<Self, MembershipError> {
        Ok(Keys { root: format!("/latchwork/{}/", checked("cluster", cluster)?) })
    }

    /// Before all keys of the cluster.
    pub(crate) fn root(&self) -> &str {
        &self.root
    }

    /// Before all that a view is made of.
    pub(crate) fn view(&self) -> String {
        format!("{}view/", self.root)
    }

    /// The [`Record`] of a node; there for ever.
    pub(crate) fn node(&self, node: NodeName) -> String {
        format!("{}view/node/{node}", self.root)
    }

    /// There as long as the node's lease.
    pub(crate) fn alive(&self, node: NodeName) -> String {
        format!("{}view/alive/{node}", self.root)
    }

    /// Before the contacts of a node.
    pub(crate) fn contacts(&self, node: NodeName) -> String {
        format!("{}view/contact/{node}/", self.root)
    }

    pub(crate) fn contact(&self, node: NodeName, key: &str) -> Result<String, MembershipError> {
        Ok(format!("{}{}", self.contacts(node), checked("contact", key)?))
    }

    pub(crate) fn fact(&self, name: &str) -> Result<String, MembershipError> {
        Ok(format!("{}fact/{}", self.root, checked("fact", name)?))
    }

    /// Before all letters for a node, as it joined at this epoch, and answers to its own.
    pub(crate) fn mail(&self, node: NodeName, epoch: u64) -> String {
        format!("{}mail/{node}@{epoch}/", self.root)
    }

    /// Holds exactly while the node that joined at this epoch is in the cluster.
    pub(crate) fn is_alive(&self, node: NodeName, epoch: u64) -> Compare {
        Compare::Unchanged(self.alive(node), epoch)
    }

    /// Before the [`Call`]s of an exchange.
    pub(crate) fn exchange(&self, name: &str) -> Result<String, MembershipError> {
        Ok(format!("{}exchange/{}/", self.root, checked("exchange", name)?))
    }

    /// Before the values of an exchange.
    pub(crate) fn values(&self, name: &str) -> Result<String, MembershipError> {
        Ok(format!("{}value/{}/", self.root, checked("exchange", name)?))
    }
}

/// What is kept of a node for ever. A node is dead when it has joined and its `alive` key is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "lowercase")]
pub(crate) enum Record {
    /// Put when it joined and not touched until it leaves: its epoch is the record's revision.
    Joined { role: Role, lease: u64 },
    /// The id is free.
    Left { role: Role, epoch: u64 },
}

/// What a node says of an exchange: that it has given its value.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) epoch: u64,
    /// Whom it waits for.
    pub(crate) parties: Vec<String>,
}

/// The bytes of a record or call.
pub(crate) fn encode(value: &impl Serialize) -> Vec<u8> {
    // Only maps with keys that are no text, and failing writers, can fail.
    serde_json::to_vec(value).unwrap_or_default()
}

/// The record or call that an entry holds.
pub(crate) fn decode<T: for<'a> Deserialize<'a>>(
    store: &str,
    entry: &Entry,
) -> Result<T, MembershipError> {
    serde_json::from_slice(&entry.value).map_err(|error| foreign(store, entry, &error.to_string()))
}

pub(crate) fn foreign(store: &str, entry: &Entry, why: &str) -> MembershipError {
    MembershipError::Foreign { store: store.into(), key: entry.key.clone(), why: why.into() }
}
