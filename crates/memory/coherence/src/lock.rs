//! [`LineLocks`]: line locks, which keep lines at a node until a transaction ends.

use std::future::Future;

use latchwork_cache::Hint;
use latchwork_verbs::GlobalAddr;

use crate::{CoherentMemory, MemoryError, Need};

/// The result of an attempt to lock a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum LockOutcome<L> {
    /// The line is locked.
    Got(L),
    /// Another transaction, of this node or another, has locked the line in an incompatible mode.
    Locked,
}

/// Coherent memory with line locks: two-phase locking by the ownership that the protocol maintains
/// anyway (SELCC 6.4).
///
/// A locked line stays at this node, in the locked mode at least, until the lock is dropped. The
/// node does not evict the line, and refuses the requests of other nodes that the lock excludes. In
/// the whole cluster, any number of transactions may lock a line to read, or one may lock it to
/// write. No call waits for the end of a lock: it returns [`LockOutcome::Locked`]. So locks cannot
/// deadlock. A call waits only for a line in transfer and for short accesses of other tasks, up to
/// the deadline.
///
/// At this node, a lock excludes only other locks. An access of this node that takes no lock reads
/// or writes a locked line as if the lock did not exist.
pub trait LineLocks: CoherentMemory {
    /// The lock of one line, until the value is dropped.
    type Lock;

    /// Obtains a line and locks it, to read or to write. A transaction that has locked the line
    /// already may get a conflict with its own lock; see [`upgrade_lock`](LineLocks::upgrade_lock).
    ///
    /// Under SEL a refused node sends no request, so no answer says whether the line is locked.
    /// There, a line that another node uses counts as locked.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure), and [`MemoryError::TooManyLocks`].
    fn lock(
        &self,
        need: Need,
    ) -> impl Future<Output = Result<LockOutcome<Self::Lock>, MemoryError>>;

    /// Locks a line that this node owns in the needed mode, or reports an incompatible lock of this
    /// node. Does not wait and sends no request.
    ///
    /// # Errors
    /// The need, in all other cases. Then call [`lock`](LineLocks::lock), which obtains the line or
    /// returns the error.
    fn try_lock(&self, need: Need) -> Result<LockOutcome<Self::Lock>, Need>;

    /// Like [`try_lock`](LineLocks::try_lock), for a line that is probably in the frame of `hint`.
    /// A wrong hint is corrected.
    ///
    /// # Errors
    /// As [`try_lock`](LineLocks::try_lock).
    fn try_lock_at(&self, need: Need, _hint: &Hint) -> Result<LockOutcome<Self::Lock>, Need> {
        self.try_lock(need)
    }

    /// Turns a lock to write into a node lock. A node lock excludes no transaction of this node,
    /// but other nodes can neither read nor write the line until the node lock is dropped. Use a
    /// node lock for bytes that transactions of this node may see, but no other node may see yet. A
    /// lock to read does not change, nor does a node lock.
    ///
    /// After several refusals of other nodes, the line is not locked again before all its node
    /// locks have ended. A transaction must not upgrade a lock that it turned into a node lock.
    fn convert_to_node_lock(&self, lock: &mut Self::Lock);

    /// Whether the line, probably in the frame of `hint`, has a node lock. If the result is `false`
    /// after a read, no node lock hides the bytes of that read from other nodes.
    fn has_node_lock(&self, line: GlobalAddr, hint: &Hint) -> bool;

    /// Like [`ensure`](CoherentMemory::ensure), for an access that does not wait for the end of
    /// another transaction. Returns `Locked` as soon as another node answers that it has an
    /// incompatible lock. Also returns `Locked` when this node has no room for one more refused
    /// reader, because each refused reader keeps a frame until the lock ends. Locks of this node
    /// are not checked, because they do not exclude this node's accesses.
    ///
    /// Under SEL, a line that another node uses counts as locked.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn ensure_unlocked(
        &self,
        need: Need,
    ) -> impl Future<Output = Result<LockOutcome<Self::Ticket>, MemoryError>>;

    /// Like [`upgrade_lock`](LineLocks::upgrade_lock), for a line that this node owns in the needed
    /// mode. Does not wait and sends no request. Returns `false` in all other cases; the lock does
    /// not change then.
    fn try_upgrade_lock(&self, _lock: &mut Self::Lock) -> bool {
        false
    }

    /// Turns a lock to read into a lock to write, if no other transaction has locked the line. No
    /// other node changes the line in between. Otherwise, and after an error, the lock does not
    /// change.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn upgrade_lock(
        &self,
        lock: &mut Self::Lock,
    ) -> impl Future<Output = Result<LockOutcome<()>, MemoryError>>;
}
