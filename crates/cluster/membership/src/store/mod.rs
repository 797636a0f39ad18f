//! [`Store`]: what a cluster keeps its state in.

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

/// The longest value that every store takes, in bytes.
pub const VALUE_MAX: usize = 1 << 20;

/// A lease of a store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeaseId(pub u64);

/// A key with its value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The key.
    pub key: String,
    /// The value.
    pub value: Vec<u8>,
    /// The revision at which its value was put.
    pub modified: u64,
    /// The lease with whose end it is deleted.
    pub lease: Option<LeaseId>,
}

/// Entries as they were at one revision, by key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The store's revision then.
    pub revision: u64,
    /// The entries.
    pub entries: Vec<Entry>,
}

/// What has to be so for changes to be made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Compare {
    /// There is no such key.
    Absent(String),
    /// The key is there, and was put at this revision.
    Unchanged(String, u64),
}

/// A change of one key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Puts a value.
    Put {
        /// The key.
        key: String,
        /// The value, [`VALUE_MAX`] bytes at most.
        value: Vec<u8>,
        /// The lease with whose end the key is deleted.
        lease: Option<LeaseId>,
    },
    /// Deletes a key, when it is there.
    Delete(String),
}

/// A lease as it was granted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The lease.
    pub id: LeaseId,
    /// How long it lasts without being kept alive. A store may give more than was asked for.
    pub ttl: Duration,
}

/// A transactional store of keys with leases. Every call returns within about its `limit`, with an
/// error if need be; a transaction whose call failed may have been made all the same.
///
/// Revisions count the changes of the whole store: they only grow, and all changes of one
/// transaction have one.
pub trait Store: Send + Sync {
    /// What it is, for messages: never a password.
    fn describe(&self) -> String;

    /// Grants a lease of `ttl`, or a little more.
    ///
    /// # Errors
    /// What keeps the store from answering, as for all calls.
    fn grant(&self, ttl: Duration, limit: Duration) -> Result<Grant, MembershipError>;

    /// Lets a lease last its whole length from now. Returns that length.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`] when there is no such lease any more.
    fn keep_alive(&self, lease: LeaseId, limit: Duration) -> Result<Duration, MembershipError>;

    /// Ends a lease, and deletes its keys. One that has ended already is fine.
    ///
    /// # Errors
    /// What keeps the store from answering.
    fn revoke(&self, lease: LeaseId, limit: Duration) -> Result<(), MembershipError>;

    /// Makes all changes, each of another key, if all comparisons hold, and returns their revision;
    /// `None` when one does not hold.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`] when a put names a lease that has ended.
    fn commit(
        &self,
        compares: &[Compare],
        changes: &[Change],
        limit: Duration,
    ) -> Result<Option<u64>, MembershipError>;

    /// The entry of a key.
    ///
    /// # Errors
    /// What keeps the store from answering.
    fn get(&self, key: &str, limit: Duration) -> Result<Option<Entry>, MembershipError>;

    /// All entries whose keys begin with `prefix`.
    ///
    /// # Errors
    /// What keeps the store from answering.
    fn range(&self, prefix: &str, limit: Duration) -> Result<Snapshot, MembershipError>;

    /// Waits until a key that begins with `prefix` may have changed since revision `after`: `false`
    /// when nothing has within `limit`. May return `true` for no reason, but not over and over
    /// again.
    ///
    /// # Errors
    /// What keeps the store from answering.
    fn wait(&self, prefix: &str, after: u64, limit: Duration) -> Result<bool, MembershipError>;
}
