//! [`Store`]: the trait of a transactional key-value store that has the state of a cluster.

#[cfg(feature = "etcd")]
mod etcd;
mod file;
mod memory;
mod state;

use std::time::Duration;

use crate::error::MembershipError;

#[cfg(feature = "etcd")]
pub use etcd::EtcdStore;
pub use file::FileStore;
pub use memory::MemoryStore;

/// The longest value that every store accepts, in bytes.
pub const VALUE_MAX: usize = 1 << 20;

/// A lease of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseId(pub u64);

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StoreEntry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// The revision at which the value was put.
    pub modified: u64,
    /// The lease with which the store deletes the key.
    pub lease: Option<LeaseId>,
}

/// Entries at one revision, ordered by key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The store's revision at the time of the snapshot.
    pub revision: u64,
    /// The entries.
    pub entries: Vec<StoreEntry>,
}

/// A condition of a transaction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compare {
    /// The key does not exist.
    Absent(String),
    /// The key exists, and its value was put at this revision.
    Unchanged(String, u64),
}

/// A change of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyChange {
    /// Puts a value.
    Put {
        /// The key.
        key: String,
        /// The value, [`VALUE_MAX`] bytes at most.
        value: Vec<u8>,
        /// The lease with which the store deletes the key.
        lease: Option<LeaseId>,
    },
    /// Deletes a key, if it exists.
    Delete(String),
}

/// A lease that a store has granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The lease.
    pub id: LeaseId,
    /// The length of the lease without renewal. A store may give a longer lease than requested.
    pub ttl: Duration,
}

/// A transactional key-value store with leases.
///
/// Every call returns within about its `limit`, with an error if necessary. A transaction may have
/// taken effect although its call failed. Revisions count the changes of the whole store. A
/// revision only grows, and all changes of one transaction have the same revision.
pub trait Store: Send + Sync {
    /// The name of the store for messages, without a password.
    fn describe(&self) -> String;

    /// Grants a lease of `ttl`, or longer.
    ///
    /// # Errors
    /// An error of the store, as for all calls.
    fn grant(&self, ttl: Duration, limit: Duration) -> Result<Grant, MembershipError>;

    /// Renews a lease for its whole length from now on. Returns that length.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`] when the lease does not exist any more; an error of the
    /// store.
    fn keep_alive(&self, lease: LeaseId, limit: Duration) -> Result<Duration, MembershipError>;

    /// Ends a lease, and deletes its keys. The call succeeds if the lease has already ended.
    ///
    /// # Errors
    /// An error of the store.
    fn revoke(&self, lease: LeaseId, limit: Duration) -> Result<(), MembershipError>;

    /// Makes all changes if all comparisons hold, and returns the store's revision after them.
    /// Returns `None` if a comparison fails. No two changes have the same key.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`] when a put names a lease that has ended; an error of the
    /// store.
    fn commit(
        &self,
        compares: &[Compare],
        changes: &[KeyChange],
        limit: Duration,
    ) -> Result<Option<u64>, MembershipError>;

    /// The entry of a key.
    ///
    /// # Errors
    /// An error of the store.
    fn get(&self, key: &str, limit: Duration) -> Result<Option<StoreEntry>, MembershipError>;

    /// All entries with keys that begin with `prefix`.
    ///
    /// # Errors
    /// An error of the store.
    fn range(&self, prefix: &str, limit: Duration) -> Result<Snapshot, MembershipError>;

    /// Waits until a key that begins with `prefix` may have changed since revision `after`. Returns
    /// `false` when no such key has changed within `limit`. The call may return `true` without a
    /// change of such a key. It does not do so again for the same revision.
    ///
    /// # Errors
    /// An error of the store.
    fn wait(&self, prefix: &str, after: u64, limit: Duration) -> Result<bool, MembershipError>;
}
