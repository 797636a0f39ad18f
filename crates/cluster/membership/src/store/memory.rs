//! [`MemoryStore`]: a store in the memory of one process.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::error::MembershipError;
use crate::store::state::State;
use crate::store::{Compare, Grant, KeyChange, LeaseId, Snapshot, Store, StoreEntry};
use crate::time::{Deadline, since_boot};

/// A store in the memory of this process: for tests, and clusters of threads.
#[derive(Default)]
pub struct MemoryStore {
    state: Mutex<State>,
    changed: Condvar,
}

impl MemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        MemoryStore::default()
    }

    /// The state. The call first ends the leases whose time is over.
    fn state(&self) -> MutexGuard<'_, State> {
        // A panic cannot leave the data under the lock half changed.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.expire(since_boot()) {
            self.changed.notify_all();
        }
        state
    }
}

impl Store for MemoryStore {
    fn describe(&self) -> String {
        "the store in memory".into()
    }

    fn grant(&self, ttl: Duration, _limit: Duration) -> Result<Grant, MembershipError> {
        let id = self.state().grant(ttl, since_boot());
        // A waiter sleeps until the next lease ends, so a new lease must wake the waiter.
        self.changed.notify_all();
        Ok(Grant { id, ttl })
    }

    fn keep_alive(&self, lease: LeaseId, _limit: Duration) -> Result<Duration, MembershipError> {
        self.state().keep_alive(lease, since_boot())
    }

    fn revoke(&self, lease: LeaseId, _limit: Duration) -> Result<(), MembershipError> {
        self.state().revoke(lease);
        self.changed.notify_all();
        Ok(())
    }

    fn commit(
        &self,
        compares: &[Compare],
        changes: &[KeyChange],
        _limit: Duration,
    ) -> Result<Option<u64>, MembershipError> {
        let result = self.state().commit(compares, changes);
        self.changed.notify_all();
        result
    }

    fn get(&self, key: &str, _limit: Duration) -> Result<Option<StoreEntry>, MembershipError> {
        Ok(self.state().get(key))
    }

    fn range(&self, prefix: &str, _limit: Duration) -> Result<Snapshot, MembershipError> {
        Ok(self.state().range(prefix))
    }

    fn wait(&self, _prefix: &str, after: u64, limit: Duration) -> Result<bool, MembershipError> {
        let deadline = Deadline::after(limit);
        let mut state = self.state();
        loop {
            if state.revision != after {
                return Ok(true);
            }
            let Some(left) = deadline.left() else { return Ok(false) };
            let end = state.next_end().map(|end| end.saturating_sub(since_boot()));
            let pause = end.map_or(left, |end| end.min(left));
            state =
                self.changed.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
            if state.expire(since_boot()) {
                self.changed.notify_all();
            }
        }
    }
}
