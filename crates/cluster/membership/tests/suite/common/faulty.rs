//! [`Faulty`]: a store whose connection can be cut.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use latchwork_membership::{
    Compare, Grant, KeyChange, LeaseId, MembershipError, Snapshot, Store, StoreEntry,
};

use super::{now, sleep};

/// The fault of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Fault {
    None,
    /// Calls fail at once, without effect.
    Cut,
    /// A renewal takes effect, and its answer arrives at the end of the call's time limit.
    LateAnswers,
    /// A renewal takes effect, and its answer arrives much later. After it the connection is cut.
    SlowAnswer,
    /// The next transaction takes effect. After that, the connection is cut.
    CutAfterCommit,
    /// One transaction takes effect, and its answer is lost. Later calls are normal.
    LostAnswer,
}

/// The connection of one node to a store.
pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    fault: AtomicU8,
    /// The start times of the successful renewals.
    renewals: Mutex<Vec<Instant>>,
}

impl Faulty {
    pub(crate) fn new(inner: Arc<dyn Store>) -> Arc<Self> {
        let (fault, renewals) = (AtomicU8::new(Fault::None as u8), Mutex::default());
        Arc::new(Faulty { inner, fault, renewals })
    }

    pub(crate) fn set(&self, fault: Fault) {
        self.fault.store(fault as u8, Ordering::SeqCst);
    }

    /// The start times of the renewals that the store has confirmed.
    pub(crate) fn renewals(&self) -> Vec<Instant> {
        self.renewals.lock().unwrap().clone()
    }

    fn has(&self, fault: Fault) -> bool {
        self.fault.load(Ordering::SeqCst) == fault as u8
    }

    fn lost(&self) -> MembershipError {
        MembershipError::Unreachable { store: self.inner.describe(), why: "it was cut off".into() }
    }

    fn connected(&self) -> Result<&dyn Store, MembershipError> {
        if self.has(Fault::Cut) { Err(self.lost()) } else { Ok(&*self.inner) }
    }
}

impl Store for Faulty {
    fn describe(&self) -> String {
        self.inner.describe()
    }

    fn grant(&self, ttl: Duration, limit: Duration) -> Result<Grant, MembershipError> {
        self.connected()?.grant(ttl, limit)
    }

    fn keep_alive(&self, lease: LeaseId, limit: Duration) -> Result<Duration, MembershipError> {
        let begin = now();
        let result = self.connected()?.keep_alive(lease, limit);
        if result.is_ok() {
            self.renewals.lock().unwrap().push(begin);
        }
        if self.has(Fault::LateAnswers) {
            sleep(limit);
            return Err(self.lost());
        }
        if self.has(Fault::SlowAnswer) {
            // A pause of two fifths of the lease, so that the answer still arrives in time.
            sleep(2 * limit);
            self.set(Fault::Cut);
        }
        result
    }

    fn revoke(&self, lease: LeaseId, limit: Duration) -> Result<(), MembershipError> {
        self.connected()?.revoke(lease, limit)
    }

    fn commit(
        &self,
        compares: &[Compare],
        changes: &[KeyChange],
        limit: Duration,
    ) -> Result<Option<u64>, MembershipError> {
        let result = self.connected()?.commit(compares, changes, limit);
        if self.has(Fault::CutAfterCommit) {
            self.set(Fault::Cut);
        }
        let (lost, none) = (Fault::LostAnswer as u8, Fault::None as u8);
        let once = self.fault.compare_exchange(lost, none, Ordering::SeqCst, Ordering::SeqCst);
        if once.is_ok() { Err(self.lost()) } else { result }
    }

    fn get(&self, key: &str, limit: Duration) -> Result<Option<StoreEntry>, MembershipError> {
        self.connected()?.get(key, limit)
    }

    fn range(&self, prefix: &str, limit: Duration) -> Result<Snapshot, MembershipError> {
        self.connected()?.range(prefix, limit)
    }

    fn wait(&self, prefix: &str, after: u64, limit: Duration) -> Result<bool, MembershipError> {
        self.connected()?.wait(prefix, after, limit)
    }
}
