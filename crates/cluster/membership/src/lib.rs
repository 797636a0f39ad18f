//! Membership of a cluster: node ids, contacts, leases, member epochs and views. The state is kept
//! in etcd, in a directory or in memory.
//!
//! This crate owns the control plane. A joining node takes a free id in one transaction. The node
//! holds the id by a lease, and one thread renews the lease. A second thread follows the view:
//! which nodes have joined, left or died. A third sees the ends of other processes of its machine.
//! The data path only checks the [`Lease`].
//!
//! ```text
//!   process of node C1                                           process of node C2
//!  ┌──────────────────────────────────────┐                     ┌─────────────────────────┐
//!  │ workers ── Lease::is_valid()         │                     │                         │
//!  │              ▲ a load, a read of     │                     │                         │
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
//! - Two nodes never hold one id at a time. A join creates the key of the id only if the key is
//!   absent, in one transaction.
//! - The member epoch of a node is the store's revision at which the node joined. A later holder of
//!   the id has a higher member epoch.
//! - A node is dead when its lease ends before the node has left. A dead node stays dead. Its id is
//!   not reused while a latch word may still contain it: a joining node has to know when that is
//!   ([`Joining::reuse`]).
//! - A node whose process has ended is dead at once, if another node of its machine or its parent
//!   sees that ([`ProcessIdentity`], [`end_leases`]). Nothing else ends a lease early.
//! - The [`Lease`] of a node that runs is invalid before any other node can see the node dead, if
//!   the store keeps the lease for its length. The check is [`Lease::is_valid`]. Two rules give
//!   this:
//!   1. The time of the lease counts from before the renewal was sent.
//!   2. The node does not use the last fifth of the lease.
//! - A [`Lease`] that a check has found invalid never becomes valid again.
//! - A node writes contacts, facts and values only while the node is in the cluster. The
//!   transaction of the write checks this.
//! - Every call that waits has a deadline. No callback delays the renewal of a valid lease.
//!
//! The crate survives these faults:
//!
//! - A process is killed or stopped at any moment.
//! - The store is unreachable. Leases end in time, and calls fail with a reason.
//! - An answer of the store is lost, so the node does not know whether its transaction took effect.
//!   Either the node reads the store before it repeats the transaction, or a repetition changes
//!   nothing. The receiver discards a repeated control message.
//! - A state file is damaged below its first line. A checksum detects the damage, and calls fail
//!   with a reason.
//!
//! The crate does not survive a store that loses acknowledged changes.
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
mod control_messages;
mod endpoint;
mod error;
mod exchange;
mod facts;
mod join;
mod keeper;
mod key_name;
mod keys;
mod lease;
mod membership;
mod name;
mod password;
mod process;
mod process_watch;
mod role;
mod shared;
mod store;
mod time;
mod view;

pub use control_messages::{CONTROL_MESSAGE_MAX, ControlMessages, Handler, Replier};
pub use endpoint::open;
pub use error::MembershipError;
pub use exchange::ExchangePatience;
pub use join::Joining;
pub use lease::Lease;
pub use membership::Membership;
pub use name::{NodeIncarnation, NodeName};
pub use password::without_password;
pub use process::{ProcessIdentity, end_leases};
pub use role::Role;
#[cfg(feature = "etcd")]
pub use store::EtcdStore;
pub use store::{
    Compare, FileStore, Grant, KeyChange, LeaseId, MemoryStore, Snapshot, Store, StoreEntry,
    VALUE_MAX,
};
pub use view::{MemberState, View, ViewMember};
