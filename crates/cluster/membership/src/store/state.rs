//! [`State`]: keys and leases as a plain value, in the memory store and the directory store.

use std::collections::BTreeMap;
use std::time::Duration;

use latchwork_strict::{strict_assert, strict_check};

use crate::error::MembershipError;
use crate::store::{Compare, KeyChange, LeaseId, Snapshot, StoreEntry};

/// The whole content of a store. Times count from the boot of the machine.
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

/// The length of a lease, and the time at which it ends without renewal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    pub(crate) ttl: Duration,
    pub(crate) end: Duration,
}

impl State {
    /// Ends the leases whose time is over. Returns whether a lease ended.
    pub(crate) fn expire(&mut self, now: Duration) -> bool {
        let ended: Vec<LeaseId> =
            self.leases.iter().filter(|(_, term)| term.end <= now).map(|(id, _)| *id).collect();
        ended.iter().for_each(|lease| self.revoke(*lease));
        strict_assert!(self.leases.values().all(|term| term.end > now), "an ended lease is kept");
        !ended.is_empty()
    }

    /// Asserts that no entry is newer than the store or outlives its lease, and that each lease was
    /// granted.
    pub(crate) fn check(&self) {
        for (key, kept) in &self.entries {
            assert!(kept.modified <= self.revision, "{key} is newer than its store");
            assert!(
                kept.lease.is_none_or(|lease| self.leases.contains_key(&lease)),
                "{key} outlives its lease"
            );
        }
        assert!(
            self.leases.keys().all(|id| (1..=self.last_lease).contains(&id.0)),
            "a lease that was never granted"
        );
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
        strict_assert!(
            self.leases.keys().all(|id| id.0 <= self.last_lease),
            "a lease number is given twice"
        );
        id
    }

    pub(crate) fn keep_alive(
        &mut self,
        lease: LeaseId,
        now: Duration,
    ) -> Result<Duration, MembershipError> {
        let term = self.leases.get_mut(&lease).ok_or(MembershipError::LeaseEnded)?;
        term.end = now.saturating_add(term.ttl);
        strict_assert!(term.end >= now, "a renewed lease has ended");
        Ok(term.ttl)
    }

    pub(crate) fn revoke(&mut self, lease: LeaseId) {
        self.leases.remove(&lease);
        let before = self.entries.len();
        self.entries.retain(|_, kept| kept.lease != Some(lease));
        strict_assert!(
            self.entries.values().all(|kept| kept.lease != Some(lease)),
            "an entry outlives its lease"
        );
        if self.entries.len() < before {
            self.revision += 1;
        }
    }

    pub(crate) fn commit(
        &mut self,
        compares: &[Compare],
        changes: &[KeyChange],
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
        let unknown = |change: &KeyChange| match change {
            KeyChange::Put { lease: Some(lease), .. } => !self.leases.contains_key(lease),
            _ => false,
        };
        if changes.iter().any(unknown) {
            return Err(MembershipError::LeaseEnded);
        }
        let revision = self.revision + 1;
        strict_assert!(
            changes.iter().enumerate().all(|(i, change)| changes[..i]
                .iter()
                .all(|other| key_of(other) != key_of(change))),
            "a transaction changes a key twice"
        );
        let mut changed = false;
        for change in changes {
            changed |= match change {
                KeyChange::Put { key, value, lease } => {
                    let kept = Kept { value: value.clone(), modified: revision, lease: *lease };
                    self.entries.insert(key.clone(), kept);
                    true
                }
                KeyChange::Delete(key) => self.entries.remove(key).is_some(),
            };
        }
        if changed {
            self.revision = revision;
        }
        strict_check!(self);
        Ok(Some(self.revision))
    }

    pub(crate) fn get(&self, key: &str) -> Option<StoreEntry> {
        self.entries.get(key).map(|kept| kept.entry(key))
    }

    pub(crate) fn range(&self, prefix: &str) -> Snapshot {
        let entries: Vec<StoreEntry> = self
            .entries
            .range(prefix.to_owned()..)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, kept)| kept.entry(key))
            .collect();
        strict_assert!(
            entries.iter().all(|entry| entry.modified <= self.revision),
            "an entry is newer than its store"
        );
        Snapshot { revision: self.revision, entries }
    }
}

/// The key that a change puts or deletes.
fn key_of(change: &KeyChange) -> &str {
    match change {
        KeyChange::Put { key, .. } | KeyChange::Delete(key) => key,
    }
}

impl Kept {
    fn entry(&self, key: &str) -> StoreEntry {
        let Kept { value, modified, lease } = self.clone();
        StoreEntry { key: key.to_owned(), value, modified, lease }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(modified: u64, lease: Option<LeaseId>) -> Kept {
        Kept { value: Vec::new(), modified, lease }
    }

    #[test]
    #[should_panic(expected = "outlives its lease")]
    fn an_entry_that_outlives_its_lease_is_found() {
        let mut state = State::default();
        let lease = state.grant(Duration::from_secs(1), Duration::ZERO);
        state.entries.insert("a".into(), kept(0, Some(lease)));
        state.leases.remove(&lease);
        state.check();
    }

    #[test]
    #[should_panic(expected = "is newer than its store")]
    fn a_revision_that_falls_is_found() {
        let mut state = State { revision: 3, ..State::default() };
        state.entries.insert("a".into(), kept(3, None));
        state.revision = 2;
        state.check();
    }
}
