//! Facts: named values of a cluster. The first writer of a name decides its value permanently.

use std::time::Duration;

use crate::error::MembershipError;
use crate::membership::Membership;
use crate::shared::fits;
use crate::store::{Compare, KeyChange};
use crate::time::Deadline;

/// The interval at which a waiting node checks its lease.
const LOOK: Duration = Duration::from_millis(200);
const _: () = assert!(!LOOK.is_zero(), "a waiting node spins");

impl Membership {
    /// Decides `name` to be `value` (at most 1 MiB), unless `name` is already decided. All callers
    /// get the value of the first caller.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`], [`MembershipError::Left`], [`MembershipError::Name`],
    /// [`MembershipError::TooLong`]; an error of the store. After an error of the store the fact
    /// may be decided or not.
    pub fn decide(&self, name: &str, value: &[u8]) -> Result<Vec<u8>, MembershipError> {
        let shared = self.shared();
        shared.check()?;
        let key = shared.keys.fact(name)?;
        let put = KeyChange::Put { key: key.clone(), value: value.to_vec(), lease: None };
        fits(&format!("the fact {name:?}"), &put)?;
        let compares = [Compare::Absent(key), shared.alive()];
        if shared.store.commit(&compares, &[put], shared.limit)?.is_some() {
            return Ok(value.to_vec());
        }
        // No call removes a fact. So if there is no fact, the comparison failed that this node is
        // in the cluster.
        self.fact(name)?.ok_or_else(|| shared.found_ended())
    }

    /// The value of a fact, or `None` if it is not decided.
    ///
    /// # Errors
    /// [`MembershipError::Name`]; an error of the store.
    pub fn fact(&self, name: &str) -> Result<Option<Vec<u8>>, MembershipError> {
        let shared = self.shared();
        let entry = shared.store.get(&shared.keys.fact(name)?, shared.limit)?;
        Ok(entry.map(|entry| entry.value))
    }

    /// Waits until a node has decided `name`.
    ///
    /// # Errors
    /// [`MembershipError::Deadline`] when no node decides within `limit`;
    /// [`MembershipError::LeaseEnded`] and [`MembershipError::Left`] of this node;
    /// [`MembershipError::Name`]; an error of the store.
    pub fn wait_for_fact(&self, name: &str, limit: Duration) -> Result<Vec<u8>, MembershipError> {
        let shared = self.shared();
        let (key, root) = (shared.keys.fact(name)?, shared.keys.root());
        let deadline = Deadline::after(limit);
        while let Some(left) = deadline.left() {
            shared.check()?;
            let pause = left.min(LOOK);
            let looked = shared.store.range(&key, left).and_then(|snapshot| {
                // The name of another fact may begin with this name.
                let fact = snapshot.entries.into_iter().find(|entry| entry.key == key);
                match fact {
                    Some(fact) => Ok(Some(fact.value)),
                    None => shared.store.wait(root, snapshot.revision, pause).map(|_| None),
                }
            });
            match looked {
                Ok(None) => {}
                Ok(Some(value)) => return Ok(value),
                Err(error) if error.is_passing() => {
                    shared.board.trouble(error.to_string());
                    shared.board.pause(pause / 4);
                }
                Err(error) => return Err(error),
            }
        }
        Err(shared.deadline(&format!("the fact {name:?}"), limit))
    }
}
