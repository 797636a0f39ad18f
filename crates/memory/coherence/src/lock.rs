//! [`LineLocks`]: lines that stay with a node until a transaction ends.

use std::future::Future;

use latchwork_cache::Hint;
use latchwork_verbs::GlobalAddr;

use crate::{CoherentMemory, MemoryError, Need};

/// What became of the wish to lock a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum LockOutcome<L> {
    /// It is locked.
    Got(L),
    /// A transaction of this node or of another has locked it in a mode that does not go together
    /// with this.
    Locked,
}

/// Coherent memory whose lines transactions can lock: two-phase locking by the ownership that the
/// protocol keeps in any case (SELCC 6.4).
///
/// A locked line stays at this node, shared or exclusive as it was locked, until the lock is
/// dropped: it is neither given to another node nor evicted. Many may lock a line to read, or one
/// to write, in the whole cluster. Nobody waits for a lock, so there are no deadlocks: whoever
/// meets one is told at once. What is waited for is a line on its way, and short accesses of
/// others, until the deadline.
///
/// Locks exclude locks. An access of another worker of this node that is not under a lock goes on
/// as if there were none.
pub trait LineLocks: CoherentMemory {
    /// Keeps a line at this node until it is dropped.
    type Lock;

    /// Obtains a line and locks it: to read or to write. A transaction that has locked it already
    /// meets its own lock; see [`upgrade_lock`](LineLocks::upgrade_lock).
    ///
    /// Where the protocol asks nobody but tries the word (SEL), a line in use counts as locked.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure), and [`MemoryError::TooManyLocks`].
    fn lock(
        &self,
        need: Need,
    ) -> impl Future<Output = Result<LockOutcome<Self::Lock>, MemoryError>>;

    /// Locks a line that is here in the right mode, or says that another lock of this node is in
    /// the way. Waits for nothing and asks nobody.
    ///
    /// # Errors
    /// The need, when there is more to it: [`lock`](LineLocks::lock) the line then, which also says
    /// what is wrong if something is.
    fn try_lock(&self, need: Need) -> Result<LockOutcome<Self::Lock>, Need>;

    /// As [`try_lock`](LineLocks::try_lock), of a line that is probably where `hint` says. A wrong
    /// hint is corrected.
    ///
    /// # Errors
    /// As [`try_lock`](LineLocks::try_lock).
    fn try_lock_at(&self, need: Need, _hint: &Hint) -> Result<LockOutcome<Self::Lock>, Need> {
        self.try_lock(need)
    }

    /// Turns a lock to write into a detention: it locks out no transaction of this node any more,
    /// while the line goes on to stay here, and to be locked for all other nodes, until the lock is
    /// dropped. For what a transaction has written that others of this node may build on, and that
    /// no other node may see yet. A lock to read, and one that detains already, stays what it is.
    ///
    /// A line that others want is not locked anew before all who detain it have let it go. A
    /// transaction must not upgrade a lock that it has so given up.
    fn detain(&self, lock: &mut Self::Lock);

    /// Whether any transaction of this node detains the line, which is probably where `hint` says.
    /// Of a line that was read: once this is false, what was seen in it is no secret of this node.
    fn is_detained(&self, line: GlobalAddr, hint: &Hint) -> bool;

    /// As [`ensure`](CoherentMemory::ensure), for an access that does not wait for the end of
    /// another transaction: `Locked` as soon as another node turns out to have locked the line in a
    /// mode that is in the way. What this node has locked is not looked at: it keeps no line from
    /// this node's accesses.
    ///
    /// Where the protocol asks nobody but tries the word (SEL), a line in use counts as locked.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn ensure_unlocked(
        &self,
        need: Need,
    ) -> impl Future<Output = Result<LockOutcome<Self::Ticket>, MemoryError>>;

    /// As [`upgrade_lock`](LineLocks::upgrade_lock), of a line that is here in the right mode.
    /// Waits for nothing and asks nobody; false when there is more to it: the lock is what it was
    /// then.
    fn try_upgrade_lock(&self, _lock: &mut Self::Lock) -> bool {
        false
    }

    /// Turns a lock to read into one to write, if nobody else has locked the line. The line has not
    /// changed in between. Otherwise, and after an error, the lock is what it was.
    ///
    /// # Errors
    /// As [`ensure`](CoherentMemory::ensure).
    fn upgrade_lock(
        &self,
        lock: &mut Self::Lock,
    ) -> impl Future<Output = Result<LockOutcome<()>, MemoryError>>;
}
