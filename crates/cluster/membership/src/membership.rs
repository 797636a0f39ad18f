//! [`Membership`]: the membership of one node in its cluster.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use latchwork_runtime::sync::{Arc, AtomicBool, AtomicU64, Ordering};
use latchwork_strict::strict_assert;

use crate::board::{Board, Callback};
use crate::error::MembershipError;
use crate::join::{self, Joined, Joining};
use crate::keeper;
use crate::keys::Keys;
use crate::lease::Lease;
use crate::shared::Shared;
use crate::store::{KeyChange, Store};
use crate::time::Deadline;
use crate::view::{View, ViewMember};

/// The longest time that [`Membership::die`] takes to revoke the lease. If the call fails, other
/// nodes see the node dead when the lease ends.
const DYING: Duration = Duration::from_secs(1);

/// The membership of one node; copies belong to the same node. Threads renew the lease, follow the
/// view, and see the ends of other processes.
///
/// When the last copy is dropped without [`Membership::leave`], the threads end and the node's
/// [`Lease`] is invalid. All other nodes see the node die when the lease ends in the store.
#[derive(Clone)]
pub struct Membership(Arc<Handle>);

/// Ends the threads when the last user copy is dropped. The threads have copies of [`Shared`] only.
struct Handle(Arc<Shared>);

impl Membership {
    /// Takes an id in `cluster`. The first node creates the cluster.
    ///
    /// # Errors
    /// [`MembershipError::Taken`] or [`MembershipError::Dead`] when the wanted id is not free;
    /// [`MembershipError::Full`] when no id is free; an error of a wrong name or of a wrong field
    /// of `joining`; [`MembershipError::LeaseEnded`] or [`MembershipError::Deadline`] when the join
    /// took too long; [`MembershipError::Thread`]; an error of the store.
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
            // The caller gets the error of the start. An error of the leave is dropped.
            let _ = membership.leave();
            return Err(error);
        }
        Ok(membership)
    }

    /// This node as it joined. [`Membership::view`] also has the contacts that were added later.
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
    /// [`MembershipError::LeaseEnded`] when this node's lease has ended, at the latest one length
    /// of the lease after the end; [`MembershipError::Left`] after a leave.
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
            // The lease may end while the keeper does not run, and so without a wake. So the wait
            // lasts at most one length of the lease.
            let is_over = || self.shared().check().is_err();
            self.shared().board.wait(&view, left.min(self.shared().ttl), is_over);
        }
    }

    /// Calls `callback` with the present view at once, and later with each view that has other
    /// members. A thread of this node makes the later calls. Two calls never overlap. The node may
    /// skip a view when a later view has arrived.
    pub fn follow(&self, callback: Callback) {
        self.shared().board.follow(callback);
    }

    /// The lease. A port checks it before each doorbell.
    pub fn lease(&self) -> Lease {
        self.shared().lease.clone()
    }

    /// Calls `callback` at most once, when a check finds that the lease has ended. The thread that
    /// finds the end makes the call: a thread of this node, or a caller of this type. A leave and a
    /// [`die`](Membership::die) make no call. If the lease has already ended, the call comes at
    /// once. `callback` may call `on_loss`.
    pub fn on_loss(&self, callback: Box<dyn FnOnce() + Send>) {
        let shared = self.shared();
        shared.on_loss.lock().unwrap_or_else(PoisonError::into_inner).push(callback);
        // The keeper may have run the callbacks before this callback was added.
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

    /// Leaves the cluster gracefully, so that the id can be reused. The lease is invalid from the
    /// start of this call, so the caller must have stopped touching memory. A second call does
    /// nothing.
    ///
    /// # Errors
    /// [`MembershipError::LeaseEnded`] when the lease ended before; an error of the store. After an
    /// error the node dies with its lease, unless the leave took effect.
    pub fn leave(&self) -> Result<(), MembershipError> {
        self.shared().leave()
    }

    /// Ends this node at once, without a graceful leave. The node revokes its lease and is dead for
    /// all nodes. If the store does not answer, the node is dead when the lease ends. Before this
    /// call, the caller stops its own accesses to memory as far as possible. After a leave the call
    /// does nothing.
    pub fn die(&self) {
        let shared = self.shared();
        if shared.left.swap(true, Ordering::AcqRel) {
            return;
        }
        shared.lease.end();
        shared.board.stop();
        tracing::info!(node = %shared.me.node, "gone without leaving");
        if let Err(error) = shared.store.revoke(shared.lease_id, DYING.min(shared.limit)) {
            tracing::debug!(%error, "the lease has to end by itself");
        }
    }

    /// The shared state, for threads that must not keep the node in the cluster.
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
