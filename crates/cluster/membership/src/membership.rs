//! [`Membership`]: one node's part in its cluster.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicBool, AtomicU64, Ordering};

use crate::board::{Board, Callback};
use crate::error::MembershipError;
use crate::exchange::Completed;
use crate::join::{self, Joined, Joining};
use crate::keeper;
use crate::keys::{Keys, Record, encode};
use crate::lease::Lease;
use crate::store::{Change, Compare, LeaseId, Store, VALUE_MAX};
use crate::time::Deadline;
use crate::view::{Member, MemberState, View};

/// How long giving a lease up may take. Without it others wait for the lease's end.
const DYING: Duration = Duration::from_secs(1);

/// One node's part in its cluster; copies are the same node's. Two threads renew its lease and
/// follow the view.
///
/// When the last copy is dropped without [`Membership::leave`], the threads end, its [`Lease`] is
/// invalid, and everybody else sees the node die when the lease ends in the store.
#[derive(Clone)]
pub struct Membership(Arc<Handle>);

/// Ends the threads, which have the rest.
struct Handle(Arc<Shared>);

/// What handles and threads of a node share.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) keys: Keys,
    pub(crate) me: Member,
    pub(crate) lease: Lease,
    pub(crate) lease_id: LeaseId,
    pub(crate) ttl: Duration,
    pub(crate) limit: Duration,
    pub(crate) board: Board,
    pub(crate) completed: Mutex<Option<Completed>>,
    /// Letters that were sent so far.
    pub(crate) letters: AtomicU64,
    pub(crate) has_mail: AtomicBool,
    left: AtomicBool,
    on_loss: Mutex<Vec<Box<dyn FnOnce() + Send>>>,
}

impl Membership {
    /// Takes an id in `cluster`, which begins to be with its first node.
    ///
    /// # Errors
    /// [`MembershipError::Taken`] or [`MembershipError::Dead`] when the wanted id is not free,
    /// [`MembershipError::Full`] when none is; what is wrong with `joining`; what keeps the store
    /// from answering.
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
            has_mail: AtomicBool::new(false),
            left: AtomicBool::new(false),
            on_loss: Mutex::default(),
        });
        let membership = Membership(Arc::new(Handle(Arc::clone(&shared))));
        if let Err(error) = keeper::start(&shared) {
            // The message of interest is the first.
            let _ = membership.leave();
            return Err(error);
        }
        Ok(membership)
    }

    /// This node as it joined. Contacts that were added later are in the view.
    pub fn me(&self) -> &Member {
        &self.shared().me
    }

    /// The present view, as far as this node knows.
    pub fn view(&self) -> Arc<View> {
        self.shared().board.view()
    }

    /// Waits until a view is as `condition` wants it, and returns that view.
    ///
    /// # Errors
    /// [`MembershipError::Deadline`] when that is not so within `limit`;
    /// [`MembershipError::LeaseEnded`] as soon as this node's has.
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
            // A lease can end without the keeper, which wakes this.
            self.shared().board.wait(&view, left.min(self.shared().ttl));
        }
    }

    /// Calls `callback` with the present view, now, and from a thread of this node's with every
    /// later one that says something else. It is never called twice at a time, and misses no state
    /// that lasts.
    pub fn follow(&self, callback: Callback) {
        self.shared().board.follow(callback);
    }

    /// The lease, to ask before touching memory.
    pub fn lease(&self) -> Lease {
        self.shared().lease.clone()
    }

    /// Calls `callback`, once, from a thread of this node's, when the lease is found to have ended,
    /// but not when the node leaves. At once when that is so already.
    pub fn on_loss(&self, callback: Box<dyn FnOnce() + Send>) {
        let shared = self.shared();
        shared.on_loss.lock().unwrap_or_else(PoisonError::into_inner).push(callback);
        // The keeper may have called the others before this one was there.
        if !shared.lease.is_valid() && !shared.left.load(Ordering::Acquire) {
            shared.lost();
        }
    }

    /// Adds to this node's contact, or changes it.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`], [`MembershipError::Left`], [`MembershipError::Name`],
    /// [`MembershipError::TooLong`]; what keeps the store from answering.
    pub fn contact(&self, key: &str, value: &str) -> Result<(), MembershipError> {
        let shared = self.shared();
        let key = shared.keys.contact(shared.me.node, key)?;
        let put = Change::Put { key, value: value.as_bytes().to_vec(), lease: None };
        shared.put("a contact", put)
    }

    /// Leaves the cluster in order: the id may be given again. The caller has stopped touching
    /// memory; the lease is invalid from the beginning of this call. Leaving twice is fine.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`] when it was too late; what keeps the store from answering.
    /// The node then dies with its lease, if it has not left after all.
    pub fn leave(&self) -> Result<(), MembershipError> {
        self.shared().leave()
    }

    /// Ends this node out of order, and at once: its lease is given up, and it is dead for
    /// everybody, as if the lease had ended. The caller has stopped touching memory, as far as it
    /// could. Nothing happens when the node has left.
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

    /// For threads, which must not keep the node alive.
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
    /// Whether this node may still speak for itself.
    pub(crate) fn check(&self) -> Result<(), MembershipError> {
        match (self.left.load(Ordering::Acquire), self.lease.is_valid()) {
            (true, _) => Err(MembershipError::Left),
            (false, false) => Err(MembershipError::LeaseEnded),
            (false, true) => Ok(()),
        }
    }

    /// Holds exactly while this node is in the cluster.
    pub(crate) fn alive(&self) -> Compare {
        self.keys.is_alive(self.me.node, self.me.epoch)
    }

    /// Puts a key, as long as this node is in the cluster. May be made twice when an answer is
    /// lost.
    fn put(&self, what: &str, put: Change) -> Result<(), MembershipError> {
        self.check()?;
        fits(what, &put)?;
        match self.store.commit(&[self.alive()], &[put], self.limit)? {
            Some(_) => Ok(()),
            None => Err(self.found_ended()),
        }
    }

    /// The store says that this node is not in the cluster.
    pub(crate) fn found_ended(&self) -> MembershipError {
        if self.left.load(Ordering::Acquire) {
            return MembershipError::Left;
        }
        self.lost();
        MembershipError::LeaseEnded
    }

    /// The lease has ended: everybody here has to know.
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
        let put = Change::Put { key: self.keys.node(node), value: encode(&record), lease: None };
        let changes = [put, Change::Delete(self.keys.alive(node))];
        let deadline = Deadline::after(self.limit);
        let mut trouble = None;
        while let Some(left) = deadline.left() {
            let left_now = self.store.commit(&[self.alive()], &changes, left).and_then(|made| {
                // The answer to an attempt before may have been lost.
                Ok(made.is_some() || {
                    let view = self.read_view()?;
                    let me = view.get(node);
                    me.is_some_and(|me| me.epoch > epoch || me.state == MemberState::Left)
                })
            });
            match left_now {
                Ok(true) => {
                    tracing::info!(%node, "left");
                    // Nothing hangs on it any more.
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

/// Whether the value of a put is short enough.
pub(crate) fn fits(what: &str, put: &Change) -> Result<(), MembershipError> {
    match put {
        Change::Put { value, .. } if value.len() > VALUE_MAX => Err(MembershipError::TooLong {
            what: what.to_owned(),
            len: value.len(),
            max: VALUE_MAX,
        }),
        _ => Ok(()),
    }
}
