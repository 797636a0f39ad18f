//! [`Shared`]: the state that the handles and the threads of a node share.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicBool, AtomicU64, Ordering};

use crate::board::Board;
use crate::error::MembershipError;
use crate::keys::{Keys, Record, encode};
use crate::lease::Lease;
use crate::name::NodeIncarnation;
use crate::store::{Compare, KeyChange, LeaseId, Store, VALUE_MAX};
use crate::time::Deadline;
use crate::view::{MemberState, View, ViewMember};

/// The last exchange that this node completed, with its parties.
pub(crate) struct Completed {
    pub(crate) name: String,
    pub(crate) parties: BTreeSet<NodeIncarnation>,
}

/// The state that the handles and the threads of a node share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keys: Keys,
    pub(crate) me: ViewMember,
    pub(crate) lease: Lease,
    pub(crate) lease_id: LeaseId,
    pub(crate) ttl: Duration,
    pub(crate) limit: Duration,
    pub(crate) board: Board,
    pub(crate) completed: Mutex<Option<Completed>>,
    /// The number of control messages that have got a number so far.
    pub(crate) letters: AtomicU64,
    pub(crate) has_messages: AtomicBool,
    pub(crate) left: AtomicBool,
    pub(crate) on_loss: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Shared {
    /// Checks that this node has not left and that its lease is valid.
    pub(crate) fn check(&self) -> Result<(), MembershipError> {
        match (self.left.load(Ordering::Acquire), self.lease.is_valid()) {
            (true, _) => Err(MembershipError::Left),
            (false, false) => Err(MembershipError::LeaseEnded),
            (false, true) => Ok(()),
        }
    }

    /// The comparison that holds while this node is in the cluster, and at no other time.
    pub(crate) fn alive(&self) -> Compare {
        self.keys.is_alive(self.me.node, self.me.epoch)
    }

    /// Puts a key, in a transaction that fails when this node is not in the cluster. After an error
    /// of the store, the put may have taken effect.
    pub(crate) fn put(&self, what: &str, put: KeyChange) -> Result<(), MembershipError> {
        self.check()?;
        fits(what, &put)?;
        match self.store.commit(&[self.alive()], &[put], self.limit)? {
            Some(_) => Ok(()),
            None => Err(self.found_ended()),
        }
    }

    /// Handles the store's report that this node is not in the cluster, and returns the error for
    /// the caller.
    pub(crate) fn found_ended(&self) -> MembershipError {
        if self.left.load(Ordering::Acquire) {
            return MembershipError::Left;
        }
        self.lost();
        MembershipError::LeaseEnded
    }

    /// Ends the lease and wakes all waiters. If the node has not left, the call also runs the
    /// callbacks of [`Membership::on_loss`](crate::Membership::on_loss), each once. No lock is held
    /// while a callback runs, so a callback may add another callback. The added callback runs at
    /// once.
    pub(crate) fn lost(&self) {
        self.lease.end();
        self.board.wake();
        if self.left.load(Ordering::Acquire) {
            return;
        }
        let callbacks = {
            let mut callbacks = self.on_loss.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *callbacks)
        };
        callbacks.into_iter().for_each(|callback| callback());
    }

    pub(crate) fn read_view(&self) -> Result<View, MembershipError> {
        let snapshot = self.store.range(&self.keys.view(), self.limit)?;
        View::read(&self.store.describe(), &self.keys, &snapshot)
    }

    pub(crate) fn deadline(&self, what: &str, limit: Duration) -> MembershipError {
        let trouble = self.board.troubles();
        MembershipError::Deadline { what: what.to_owned(), limit, trouble }
    }

    pub(crate) fn leave(&self) -> Result<(), MembershipError> {
        if self.left.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let was_valid = self.lease.is_valid();
        self.lease.end();
        self.board.stop();
        if !was_valid {
            return Err(MembershipError::LeaseEnded);
        }
        let (node, epoch) = (self.me.node, self.me.epoch);
        let record = Record::Left { role: self.me.role, epoch };
        let put = KeyChange::Put { key: self.keys.node(node), value: encode(&record), lease: None };
        let changes = [put, KeyChange::Delete(self.keys.alive(node))];
        let deadline = Deadline::after(self.limit);
        let mut trouble = None;
        while let Some(left) = deadline.left() {
            let left_now = self.store.commit(&[self.alive()], &changes, left).and_then(|made| {
                // The answer to an earlier attempt may have been lost.
                Ok(made.is_some() || {
                    let view = self.read_view()?;
                    let me = view.get(node);
                    me.is_some_and(|me| me.epoch > epoch || me.state == MemberState::Left)
                })
            });
            match left_now {
                Ok(true) => {
                    tracing::info!(%node, "left");
                    // The transaction has deleted the `alive` key. Only control messages are still
                    // attached to the lease. If this call fails, the store deletes them when the
                    // lease ends.
                    let _ = self.store.revoke(self.lease_id, left);
                    return Ok(());
                }
                Ok(false) => return Err(MembershipError::LeaseEnded),
                Err(error) if error.is_passing() => trouble = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(trouble.unwrap_or_else(|| self.deadline("leaving the cluster", self.limit)))
    }
}

/// Checks that the value of a put is short enough.
pub(crate) fn fits(what: &str, put: &KeyChange) -> Result<(), MembershipError> {
    match put {
        KeyChange::Put { value, .. } if value.len() > VALUE_MAX => Err(MembershipError::TooLong {
            what: what.to_owned(),
            len: value.len(),
            max: VALUE_MAX,
        }),
        _ => Ok(()),
    }
}
