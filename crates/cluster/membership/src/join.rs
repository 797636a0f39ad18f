//! [`Joining`]: a node's request for an id, and the transaction that takes the id.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_strict::{strict_assert, strict_assert_eq};

use crate::error::MembershipError;
use crate::keys::{Keys, Record, decode, encode};
use crate::lease::Lease;
use crate::name::NodeName;
use crate::process::{self, ProcessIdentity};
use crate::role::Role;
use crate::store::{Compare, Grant, KeyChange, LeaseId, Snapshot, Store};
use crate::time::{Deadline, since_boot};
use crate::view::{MemberState, View, ViewMember};

/// The shortest length of a lease that a node may request.
pub(crate) const TTL_MIN: Duration = Duration::from_millis(100);
/// The longest length of a lease that a node may request.
pub(crate) const TTL_MAX: Duration = Duration::from_secs(3600);
const _: () = assert!(TTL_MIN.as_millis() > 0 && TTL_MIN.as_millis() < TTL_MAX.as_millis());

/// The request of a joining node. [`Joining::new`] has a default for every field except the role.
#[derive(Clone, Debug)]
pub struct Joining {
    /// The role of the node.
    pub role: Role,
    /// The wanted id, or `None` for the lowest free id.
    pub id: Option<u16>,
    /// The contact: the texts with which other nodes reach this node, by key. The join adds
    /// `process`, the [`ProcessIdentity`].
    pub contact: BTreeMap<String, String>,
    /// Whether the id of a dead node is free, in this view. `None`: never. Each call in one cluster
    /// gives the same answer for a view, and true only while no trace of the dead node is left. The
    /// id is taken only if no other node has joined or left since the view.
    pub reuse: Option<fn(&View, &ViewMember) -> bool>,
    /// The length of the lease without renewal. Other nodes see a crash of this node about this
    /// time after the last renewal. A store may give a longer lease: etcd counts in whole seconds,
    /// by default at least two.
    pub ttl: Duration,
    /// The longest time that the join may take, and later each call without a deadline of its own.
    /// A failed join may take three seconds more, because it undoes its changes.
    pub limit: Duration,
}

impl Joining {
    /// The lowest free id, no contact, a lease of ten seconds, and a limit of five seconds per
    /// call.
    pub fn new(role: Role) -> Self {
        Joining {
            role,
            id: None,
            contact: BTreeMap::new(),
            reuse: None,
            ttl: Duration::from_secs(10),
            limit: Duration::from_secs(5),
        }
    }

    fn check(&self, keys: &Keys) -> Result<(), MembershipError> {
        if !(TTL_MIN..=TTL_MAX).contains(&self.ttl) {
            return Err(MembershipError::Ttl { ttl: self.ttl, min: TTL_MIN, max: TTL_MAX });
        }
        let node = self.role.node(self.id.unwrap_or(1))?;
        self.contact.keys().try_for_each(|key| keys.contact(node, key).map(drop))
    }
}

/// The result of a join.
pub(crate) struct Joined {
    pub(crate) me: ViewMember,
    pub(crate) view: View,
    pub(crate) lease_id: LeaseId,
    pub(crate) lease: Lease,
}

/// Takes a lease, and an id that is attached to the lease.
pub(crate) fn join(
    store: &dyn Store,
    keys: &Keys,
    joining: &Joining,
) -> Result<Joined, MembershipError> {
    joining.check(keys)?;
    let deadline = Deadline::after(joining.limit);
    let sent = since_boot();
    let grant = store.grant(joining.ttl, joining.limit)?;
    let lease = Lease::new(sent, joining.ttl.min(grant.ttl));
    strict_assert!(joining.ttl >= TTL_MIN && joining.ttl <= TTL_MAX);
    let attempt = Attempt { store, keys, joining, grant, lease, deadline };
    attempt.run().inspect_err(|_| attempt.undo())
}

struct Attempt<'a> {
    store: &'a dyn Store,
    keys: &'a Keys,
    joining: &'a Joining,
    grant: Grant,
    lease: Lease,
    deadline: Deadline,
}

impl Attempt<'_> {
    fn run(&self) -> Result<Joined, MembershipError> {
        let mut trouble = None;
        loop {
            let left = match self.deadline.left() {
                Some(left) if self.lease.is_valid() => left,
                _ => break,
            };
            let snapshot = self.store.range(&self.keys.view(), left)?;
            let view = View::read(&self.store.describe(), self.keys, &snapshot)?;
            if let Some((node, _)) = self.mine(&snapshot)? {
                // The snapshot shows whether this node has an id, because the answer to a
                // transaction may have been lost.
                let Some(me) = view.get(node).filter(|me| me.state == MemberState::Joined) else {
                    return Err(MembershipError::LeaseEnded);
                };
                let (me, lease, lease_id) = (me.clone(), self.lease.clone(), self.grant.id);
                strict_assert_eq!(me.node, node);
                return Ok(Joined { me, view, lease_id, lease });
            }
            let node = self.choose(&view)?;
            strict_assert!(node.kind() == self.joining.role.kind(), "a node joins as another kind");
            strict_assert!(
                view.get(node).is_none_or(|member| self.is_free(&view, member)),
                "an id that is in use is given again"
            );
            let (compares, changes) = self.transaction(node, &snapshot, &view)?;
            match self.store.commit(&compares, &changes, left) {
                // Another node was faster, or the next snapshot shows this node.
                Ok(_) => {}
                Err(error) if error.is_passing() => trouble = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(trouble.unwrap_or(MembershipError::Deadline {
            what: format!("an id in {}", self.store.describe()),
            limit: self.deadline.limit.min(self.joining.ttl),
            trouble: String::new(),
        }))
    }

    /// The node and the member epoch that this attempt has got, if any.
    fn mine(&self, snapshot: &Snapshot) -> Result<Option<(NodeName, u64)>, MembershipError> {
        let nodes = self.keys.view() + "node/";
        for entry in &snapshot.entries {
            let Some(node) = entry.key.strip_prefix(&nodes) else { continue };
            match decode(&self.store.describe(), entry)? {
                Record::Joined { lease, .. } if lease == self.grant.id.0 => {
                    return Ok(node.parse().ok().map(|node| (node, entry.modified)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Whether the id of this member is free.
    fn is_free(&self, view: &View, member: &ViewMember) -> bool {
        match member.state {
            MemberState::Left => true,
            MemberState::Joined => false,
            MemberState::Dead => self.joining.reuse.is_some_and(|reuse| reuse(view, member)),
        }
    }

    fn choose(&self, view: &View) -> Result<NodeName, MembershipError> {
        let role = self.joining.role;
        let free =
            |node: &NodeName| view.get(*node).is_none_or(|member| self.is_free(view, member));
        let Some(id) = self.joining.id else {
            let dead = view.dead().filter(|member| member.node.kind() == role.kind()).count();
            let full = MembershipError::Full { kind: role.kind(), dead };
            return role.nodes().find(free).ok_or(full);
        };
        let node = role.node(id)?;
        let Some(member) = view.get(node).filter(|member| !self.is_free(view, member)) else {
            return Ok(node);
        };
        let epoch = member.epoch;
        Err(match member.state {
            MemberState::Joined => MembershipError::Taken { node, epoch },
            MemberState::Left | MemberState::Dead => MembershipError::Dead { node, epoch },
        })
    }

    /// The transaction that takes `node`. It fails if another node has taken the id since the
    /// snapshot. If the id is one of a dead node, it fails if any node has joined or left since
    /// then. It also deletes contacts of the previous holder.
    fn transaction(
        &self,
        node: NodeName,
        snapshot: &Snapshot,
        view: &View,
    ) -> Result<(Vec<Compare>, Vec<KeyChange>), MembershipError> {
        let record_key = self.keys.node(node);
        let alive_key = self.keys.alive(node);
        let is_unchanged = |node: NodeName| {
            let key = self.keys.node(node);
            match snapshot.entries.iter().find(|entry| entry.key == key) {
                Some(old) => Compare::Unchanged(key, old.modified),
                None => Compare::Absent(key),
            }
        };
        let mut compares = vec![is_unchanged(node), Compare::Absent(alive_key.clone())];
        if view.state(node) == Some(MemberState::Dead) {
            let others = self.joining.role.nodes().filter(|other| *other != node);
            compares.extend(others.map(is_unchanged));
        }

        let lease = Some(self.grant.id);
        let record = Record::Joined { role: self.joining.role, lease: self.grant.id.0 };
        let mut changes = vec![
            KeyChange::Put { key: record_key, value: encode(&record), lease: None },
            KeyChange::Put { key: alive_key, value: Vec::new(), lease },
        ];
        let mut contacts = BTreeMap::new();
        if let Some(process) = ProcessIdentity::own() {
            let key = self.keys.contact(node, process::CONTACT)?;
            contacts.insert(key, process.to_string().into_bytes());
        }
        for (key, value) in &self.joining.contact {
            contacts.insert(self.keys.contact(node, key)?, value.clone().into_bytes());
        }
        let prefix = self.keys.contacts(node);
        let stale = snapshot.entries.iter().filter(|entry| entry.key.starts_with(&prefix));
        let stale = stale.filter(|entry| !contacts.contains_key(&entry.key));
        changes.extend(stale.map(|entry| KeyChange::Delete(entry.key.clone())));
        let puts =
            contacts.into_iter().map(|(key, value)| KeyChange::Put { key, value, lease: None });
        changes.extend(puts);
        Ok((compares, changes))
    }

    /// Tries to return the id and the lease that the failed attempt may have taken.
    fn undo(&self) {
        let limit = self.joining.limit.min(Duration::from_secs(1));
        let undone = self.store.range(&self.keys.view(), limit).and_then(|snapshot| {
            let Some((node, epoch)) = self.mine(&snapshot)? else { return Ok(None) };
            let record = Record::Left { role: self.joining.role, epoch };
            let (key, alive) = (self.keys.node(node), self.keys.alive(node));
            let compares = [Compare::Unchanged(alive.clone(), epoch)];
            let put = KeyChange::Put { key, value: encode(&record), lease: None };
            self.store.commit(&compares, &[put, KeyChange::Delete(alive)], limit)
        });
        if let Err(error) = undone.and_then(|_| self.store.revoke(self.grant.id, limit)) {
            tracing::debug!(%error, "a lease of a node that did not join was not given back");
        }
    }
}
