//! Who is in a cluster: node ids, contacts, leases, epochs and views, kept in etcd, in a directory
//! or in memory.
//!
//! This crate owns the control plane. A node that joins takes an id that nobody else has, in one
//! transaction, and holds it by a lease that a thread renews. Another thread follows the view: who
//! has joined, left, died. The data path asks one thing only, [`Lease::is_valid`].
//!
//! ```text
//!   process of node C1                                           process of node C2
//!  ┌──────────────────────────────────────┐                     ┌─────────────────────────┐
//!  │ workers ── Lease::is_valid()         │                     │                         │
//!  │              ▲ a load, a look at     │                     │                         │
//!  │              │ the clock             │                     │                         │
//!  │ keeper ──────┘ renews ───────────┐   │                     │   ┌── keeper            │
//!  │ follower ──► view, callbacks ─┐  │   │                     │   │   follower          │
//!  └───────────────────────────────┼──┼───┘                     └───┼───────┼─────────────┘
//!                                  ▼  ▼                             ▼       ▼
//!           ┌────────────────────────────────────────────────────────────────────┐
//!           │ Store: keys, revisions, transactions, leases                       │
//!           │ MemoryStore (tests) │ FileStore (one machine) │ EtcdStore (etcd)   │
//!           └────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! # Invariants
//!
//! - Two nodes never hold one id at a time: it is created if absent, in one transaction.
//! - The epoch of a node is the store's revision at which it joined. Whoever takes an id later has
//!   a higher one.
//! - A node whose lease ends before it has left is dead for ever, and so is its id: a latch word
//!   may still carry it.
//! - A node's own [`Lease`] is invalid before anybody else can see the node dead: its time counts
//!   from before the renewal was sent, and the last fifth is not used. Once invalid, it is never
//!   valid again.
//! - Whatever a node writes (contacts, facts, values) it writes only while it is in the cluster, by
//!   the same transaction.
//! - No call waits without a deadline, and no callback can delay the renewal of the lease.
//!
//! It survives processes that are killed or stopped at any moment, stores that go away (leases are
//! lost in time, calls fail with a reason), answers that get lost (transactions are looked for
//! before they are repeated), state files that were damaged. It does not survive a store that loses
//! what it has acknowledged.
//!
//! # Example
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//! use latchwork_membership::{Joining, MemberState, Membership, MemoryStore, Role};
//!
//! let store = Arc::new(MemoryStore::new());
//! let a = Membership::join(store.clone(), "demo", Joining::new(Role::Compute))?;
//! let b = Membership::join(store.clone(), "demo", Joining::new(Role::Compute))?;
//! assert_eq!((a.me().node.to_string(), b.me().node.to_string()), ("C1".into(), "C2".into()));
//!
//! // Both get the value of the first.
//! assert_eq!(a.decide("pool", b"mine")?, b"mine");
//! assert_eq!(b.decide("pool", b"no, mine")?, b"mine");
//!
//! b.leave()?;
//! assert!(!b.lease().is_valid());
//! let c2 = b.me().node;
//! a.wait(Duration::from_secs(5), |view| view.state(c2) == Some(MemberState::Left))?;
//! let next = Membership::join(store, "demo", Joining::new(Role::Compute))?;
//! assert_eq!(next.me().node, c2);
//! assert!(next.me().epoch > b.me().epoch);
//! # Ok::<(), latchwork_membership::MembershipError>(())
//! ```

#![forbid(unsafe_code)]

mod board;
mod endpoint;
mod error;
mod exchange;
mod facts;
mod join;
mod keeper;
mod keys;
mod lease;
mod mail;
mod membership;
mod name;
mod store;
mod time;
mod view;

pub use endpoint::{open, without_password};
pub use error::MembershipError;
pub use exchange::Patience;
pub use join::{Joining, TTL_MAX, TTL_MIN};
pub use lease::Lease;
pub use mail::{Answer, Handler, LETTER_MAX, Mail};
pub use membership::Membership;
pub use name::{NodeName, Party, Role};
#[cfg(feature = "etcd")]
pub use store::EtcdStore;
pub use store::{
    Change, Compare, Entry, FileStore, Grant, LeaseId, MemoryStore, Snapshot, Store, VALUE_MAX,
};
pub use view::{Member, MemberState, View};
