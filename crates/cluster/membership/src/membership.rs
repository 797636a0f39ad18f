//! [`Membership`]: the membership of one node in its cluster.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use latchwork_strict::strict_assert;

use crate::board::{Board, Callback};
use crate::error::MembershipError;
use crate::exchange::Completed;
use crate::join::{self, Joined, Joining};
use crate::keeper;
use crate::keys::{Keys, Record, encode};
use crate::lease::Lease;
use crate::store::{Compare, KeyChange, LeaseId, Store, VALUE_MAX};
use crate::time::Deadline;
use crate::view::{MemberState, View, ViewMember};

/// The most time that giving up the lease may take. If it fails, other nodes see the node dead when
/// the lease ends.
const DYING: Duration = Duration::from_secs(1);

/// The membership of one node; copies belong to the same node. Two threads renew the lease and
/// follow the view.
///
/// When the last copy is dropped without [`Membership::leave`], the threads end and the node's
/// [`Lease`] is invalid. All other nodes see the node die when the lease ends in the store.
#[derive(Clone)]
pub struct Membership(Arc<Handle>);

/// Ends the threads when dropped. The threads hold the other copies of [`Shared`].
struct Handle(Arc<Shared>);

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
    /// The number of control messages sent so far.
    pub(crate) letters: AtomicU64,
    pub(crate) has_messages: AtomicBool,
    left: AtomicBool,
    on_loss: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Membership {
    /// Takes an id in `cluster`. The first node creates the cluster.
    ///
    /// # Errors
    /// [`MembershipError::Taken`] or [`MembershipError::Dead`] when the wanted id is not free;
    /// [`MembershipError::Full`] when no id is free; an error of a wrong field of `joining`; an
    /// error of the store.
    pub fn join(
        store: Arc<dyn Store>,
        cluster: &str,
        joining: Joining,
    ) -> Result<Self, MembershipError> {
        let keys = Keys::new(cluster)?;
        let Joined { me, view, lease_id, lease } = join::join(&*store, &keys, &joining)?;
        tracing::info!(
            node = %me.node,
            epoch = me.epoch,
            cluster,
            store = store.describe(),
            lease = ?joining.ttl,
            others = view.joined().filter(|member| member.node != me.node).count(),
            "joined"
        );
        strict_assert!(view.is_there(me.party()), "a node that has joined is not in its view");
        let shared = Arc::new(Shared {
            store,
            keys,
            me,
            lease,
            lease_id,
            ttl: joining.ttl,
            limit: joining.limit,
            board: Board::new(view),
            completed: Mutex::new(None),
            letters: AtomicU64::new(0),
            has_messages: AtomicBool::new(false),
            left: AtomicBool::new(false),
            on_loss: Mutex::default(),
        });
        let membership = Membership(Arc::new(Handle(Arc::clone(&shared))));
        if let Err(error) = keeper::start(&shared) {
            // The caller gets the first error, so this one is dropped.
            let _ = membership.leave();
            return Err(error);
        }
        Ok(membership)
    }

    /// This node as it joined. The view also has the contacts that were added later.
    pub fn me(&self) -> &ViewMember {
        &self.shared().me
    }

    /// The latest view that this node knows.
    pub fn view(&self) -> Arc<View> {
        self.shared().board.view()
    }

    /// Waits until a view satisfies `condition`, and returns that view.
    ///
    /// # Errors
    /// [`MembershipError::Deadline`] when no view does within `limit`;
    /// [`MembershipError::LeaseEnded`] as soon as this node's lease has ended.
    pub fn wait(
        &self,
        limit: Duration,
        mut condition: impl FnMut(&View) -> bool,
    ) -> Result<Arc<View>, MembershipError> {
        let deadline = Deadline::after(limit);
        loop {
            let view = self.view();
            if condition(&view) {
                return Ok(view);
            }
            self.shared().check()?;
            let Some(left) = deadline.left() else {
                return Err(self.shared().deadline("a change of the view", limit));
            };
            // The keeper wakes this wait. The lease can also end without the keeper, so the wait is
            // at most one lease long.
            self.shared().board.wait(&view, left.min(self.shared().ttl));
        }
    }

    /// Calls `callback` with the present view at once, and later with each view that has other
    /// members. The later calls come from a thread of this node. Two calls never overlap. Views may
    /// be skipped, but the callback gets the latest state.
    pub fn follow(&self, callback: Callback) {
        self.shared().board.follow(callback);
    }

    /// The lease. Check it before each access to memory.
    pub fn lease(&self) -> Lease {
        self.shared().lease.clone()
    }

    /// Calls `callback` once, from a thread of this node, when the lease is found to have ended. A
    /// graceful leave does not count. If the lease has already ended, the call comes at once.
    pub fn on_loss(&self, callback: Box<dyn FnOnce() + Send>) {
        let shared = self.shared();
        shared.on_loss.lock().unwrap_or_else(PoisonError::into_inner).push(callback);
        // The keeper may have run the callbacks before this one was added.
        if !shared.lease.is_valid() && !shared.left.load(Ordering::Acquire) {
            shared.lost();
        }
    }

    /// Adds a contact of this node, or changes one.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`], [`MembershipError::Left`], [`MembershipError::Name`],
    /// [`MembershipError::TooLong`]; an error of the store.
    pub fn contact(&self, key: &str, value: &str) -> Result<(), MembershipError> {
        let shared = self.shared();
        let key = shared.keys.contact(shared.me.node, key)?;
        let put = KeyChange::Put { key, value: value.as_bytes().to_vec(), lease: None };
        shared.put("a contact", put)
    }

    /// Leaves the cluster gracefully, so that the id can be reused. The caller no longer touches
    /// memory: the lease is invalid from the start of this call. A second call does nothing.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`] when the lease ended before; an error of the store. After an
    /// error the node dies with its lease, unless the leave took effect.
    pub fn leave(&self) -> Result<(), MembershipError> {
        self.shared().leave()
    }

    /// Ends this node at once without a graceful leave. The node gives its lease up and is dead for
    /// all nodes, as if the lease had ended. The caller has stopped touching memory as far as it
    /// could. The call does nothing after a leave.
    pub fn die(&self) {
        let shared = self.shared();
        if shared.left.swap(true, Ordering::AcqRel) {
            return;
        }
        shared.lease.end();
        shared.board.stop();
        tracing::info!(node = %shared.me.node, "gone without leaving: its id is not given again");
        if let Err(error) = shared.store.revoke(shared.lease_id, DYING.min(shared.limit)) {
            tracing::debug!(%error, "the lease has to end by itself");
        }
    }

    /// The shared state for threads, which must not keep the node alive.
    pub(crate) fn shared_arc(&self) -> Arc<Shared> {
        Arc::clone(&self.0.0)
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.0
    }
}

impl fmt::Debug for Membership {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { me, lease, .. } = self.shared();
        f.debug_struct("Membership").field("me", me).field("lease", lease).finish()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.lease.end();
        self.0.board.stop();
    }
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

    /// The comparison that holds exactly while this node is in the cluster.
    pub(crate) fn alive(&self) -> Compare {
        self.keys.is_alive(self.me.node, self.me.epoch)
    }

    /// Puts a key, in a transaction that holds only while this node is in the cluster. When an
    /// answer is lost, the put may take effect twice.
    fn put(&self, what: &str, put: KeyChange) -> Result<(), MembershipError> {
        self.check()?;
        fits(what, &put)?;
        match self.store.commit(&[self.alive()], &[put], self.limit)? {
            Some(_) => Ok(()),
            None => Err(self.found_ended()),
        }
    }

    /// Handles the store's report that this node is not in the cluster.
    pub(crate) fn found_ended(&self) -> MembershipError {
        if self.left.load(Ordering::Acquire) {
            return MembershipError::Left;
        }
        self.lost();
        MembershipError::LeaseEnded
    }

    /// Ends the lease, wakes all waiters and runs the callbacks of [`Membership::on_loss`].
    pub(crate) fn lost(&self) {
        self.lease.end();
        self.board.wake();
        if self.left.load(Ordering::Acquire) {
            return;
        }
        let mut callbacks = self.on_loss.lock().unwrap_or_else(PoisonError::into_inner);
        let callbacks = std::mem::take(&mut *callbacks);
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

    fn leave(&self) -> Result<(), MembershipError> {
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
                    // No key is attached to the lease any more.
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
