//! [`State`]: keys and leases as a plain value, for the memory store and the directory store.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::error::MembershipError;
use crate::store::{Change, Compare, Entry, LeaseId, Snapshot};

/// The whole content of a store. Times are since the boot.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct State {
    pub(crate) revision: u64,
    pub(crate) last_lease: u64,
    pub(crate) entries: BTreeMap<String, Kept>,
    pub(crate) leases: BTreeMap<LeaseId, Term>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Kept {
    pub(crate) value: Vec<u8>,
    pub(crate) modified: u64,
    pub(crate) lease: Option<LeaseId>,
}

/// The length of a lease, and its end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    pub(crate) ttl: Duration,
    pub(crate) end: Duration,
}

impl State {
    /// Ends the leases whose time is over. Returns whether there were any.
    pub(crate) fn expire(&mut self, now: Duration) -> bool {
        let ended: Vec<LeaseId> =
            self.leases.iter().filter(|(_, term)| term.end <= now).map(|(id, _)| *id).collect();
        ended.iter().for_each(|lease| self.revoke(*lease));
        !ended.is_empty()
    }

    /// Ends all leases, because no process that held one exists any more.
    pub(crate) fn expire_all(&mut self) {
        self.expire(Duration::MAX);
    }

    /// The end of the lease that ends next.
    pub(crate) fn next_end(&self) -> Option<Duration> {
        self.leases.values().map(|term| term.end).min()
    }

    pub(crate) fn grant(&mut self, ttl: Duration, now: Duration) -> LeaseId {
        self.last_lease += 1;
        let id = LeaseId(self.last_lease);
        self.leases.insert(id, Term { ttl, end: now.saturating_add(ttl) });
        id
    }

    pub(crate) fn keep_alive(
        &mut self,
        lease: LeaseId,
        now: Duration,
    ) -> Result<Duration, MembershipError> {
        let term = self.leases.get_mut(&lease).ok_or(MembershipError::LeaseEnded)?;
        term.end = now.saturating_add(term.ttl);
        Ok(term.ttl)
    }

    pub(crate) fn revoke(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        let before = self.entries.len();
        self.entries.retain(|_, kept| kept.lease != Some(lease));
        if self.entries.len() < before {
            self.revision += 1;
        }
    }

    pub(crate) fn commit(
        &mut self,
        compares: &[Compare],
        changes: &[Change],
    ) -> Result<Option<u64>, MembershipError> {
        let holds = |compare: &Compare| match compare {
            Compare::Absent(key) => !self.entries.contains_key(key),
            Compare::Unchanged(key, modified) => {
                self.entries.get(key).is_some_and(|kept| kept.modified == *modified)
            }
        };
        if !compares.iter().all(holds) {
            return Ok(None);
        }
        let unknown = |change: &Change| match change {
            Change::Put { lease: Some(lease), .. } => !self.leases.contains_key(lease),
            _ => false,
        };
        if changes.iter().any(unknown) {
            return Err(MembershipError::LeaseEnded);
        }
        let revision = self.revision + 1;
        let mut changed = false;
        for change in changes {
            changed |= match change {
                Change::Put { key, value, lease } => {
                    let kept = Kept { value: value.clone(), modified: revision, lease: *lease };
                    self.entries.insert(key.clone(), kept);
                    true
                }
                Change::Delete(key) => self.entries.remove(key).is_some(),
            };
        }
        if changed {
            self.revision = revision;
        }
        Ok(Some(self.revision))
    }

    pub(crate) fn get(&self, key: &str) -> Option<Entry> {
        self.entries.get(key).map(|kept| kept.entry(key))
    }

    pub(crate) fn range(&self, prefix: &str) -> Snapshot {
        let entries = self
            .entries
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, kept)| kept.entry(key))
            .collect();
        Snapshot { revision: self.revision, entries }
    }
}

impl Kept {
    fn entry(&self, key: &str) -> Entry {
        let Kept { value, modified, lease } = self.clone();
        Entry { key: key.to_owned(), value, modified, lease }
    }
}
