//! The lock word of a frame: the locks by which transactions of this node keep the line here.
//!
//! ```text
//!   63     58 57      32   31   30                                    0
//!  +---------+----------+-----+--------------------------------------+
//!  | refused | detained | ask | 0, how many readers, or one writer   |   all ones: a writer
//!  +---------+----------+-----+--------------------------------------+
//! ```
//!
//! # Node locks
//!
//! *Detained* counts the node locks of the line. With early lock release, a transaction that has
//! written the line turns its lock into a node lock. Other transactions of this node may then lock
//! the line, but other nodes must not see the written bytes yet.
//!
//! - Code that takes a line away treats a node lock like a writer's lock.
//! - Code that locks a line for a transaction ignores node locks, but not the count of refusals.
//! - The transactions of this node could follow one another without a gap. So the word counts how
//!   often other nodes were *refused* since the first node lock. After [`REFUSED_MAX`] refusals the
//!   line *drains*: no transaction takes a new lock until the last node lock has ended.
//!
//! # Why no lock stays on a line that leaves
//!
//! A transaction that locks a line holds no lock of the protocol, if the line is here:
//!
//! 1. The transaction changes the word by a compare-and-swap with acquire ordering, unless *ask* is
//!    set.
//! 2. Then the transaction checks that the line is still here in the needed mode. If not, the
//!    transaction gives the lock up.
//!
//! Code that takes a line away always holds a lock of the protocol. This code has three steps:
//!
//! 1. Set *ask* by an atomic or.
//! 2. If the word contains no conflicting lock, change the state of the frame.
//! 3. Clear *ask* with release ordering, if *ask* was clear before.
//!
//! All changes of the word have one order:
//!
//! 1. If the lock comes before *ask* is set, the code that takes the line away finds the lock.
//! 2. If *ask* is set first, the lock is not taken while *ask* is set.
//! 3. A lock that is taken later acquires the word with *ask* cleared, or a later value. A later
//!    value belongs to the same release sequence, because all changes by locks and unlocks are
//!    atomic read-modify-write operations.
//! 4. So the check of the transaction sees the changed state, and the transaction gives the lock
//!    up.
//!
//! *Ask* also stays set while other nodes wait for the line: then every lock goes through the
//! protocol.

use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_strict::{strict_assert, strict_assert_eq};

use crate::Ownership;

/// The lock word; the module has its layout, and the proof that no lock stays on a line that
/// leaves.
#[derive(Debug, Default)]
pub(crate) struct LockWord(AtomicU64);

const ASK: u64 = 1 << 31;
const EXCLUSIVE: u64 = ASK - 1;
const DETAINED: u64 = 1 << 32;
const REFUSED: u64 = 1 << 58;

/// After this many refusals of other nodes, no transaction takes a new lock of the line until its
/// node locks end.
const REFUSED_MAX: u64 = 8;
const _: () =
    assert!(EXCLUSIVE & ASK == 0 && DETAINED > ASK, "the fields of the word do not overlap");
const _: () =
    assert!(REFUSED_MAX * REFUSED > REFUSED, "the count of refusals fits above the node locks");
const _: () = assert!(REFUSED_MAX < u64::MAX / REFUSED, "the count of refusals does not wrap");

/// The state of the line after the end of a lock or of a node lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unlocked {
    /// No lock and no node lock is left.
    pub last: bool,
    /// The protocol has set *ask*, so the caller must notify the protocol of this end.
    pub asked: bool,
}

/// The result of an attempt to lock a line without the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryLock<T> {
    /// The line is locked.
    Locked(T),
    /// A conflicting lock exists, or the line takes no new lock before its node locks end.
    Refused,
    /// The line is not here in the needed mode, or *ask* is set: the protocol must decide.
    Ask,
}

fn count(bits: u64) -> u64 {
    bits & EXCLUSIVE
}

fn has_node_lock(bits: u64) -> bool {
    bits % REFUSED >= DETAINED
}

fn locked(bits: u64) -> Ownership {
    match count(bits) {
        0 => Ownership::Invalid,
        EXCLUSIVE => Ownership::Exclusive,
        _ => Ownership::Shared,
    }
}

fn is_draining(bits: u64) -> bool {
    bits / REFUSED >= REFUSED_MAX
}

/// The ownership that the node must keep.
fn kept(bits: u64) -> Ownership {
    if has_node_lock(bits) { Ownership::Exclusive } else { locked(bits) }
}

/// The word with one more lock, or `None` if the lock conflicts or the line drains.
fn and(bits: u64, ownership: Ownership) -> Option<u64> {
    match ownership {
        _ if is_draining(bits) => None,
        Ownership::Exclusive => (count(bits) == 0).then_some(bits | EXCLUSIVE),
        // The highest reader count stays unused, so that no count equals the mark of a writer.
        _ => (count(bits) < EXCLUSIVE - 1).then(|| bits + 1),
    }
}

impl LockWord {
    /// The mode of the locks. Acquire ordering: a reader that sees the end of a lock also sees the
    /// actions of the transaction before that end.
    #[inline]
    pub(crate) fn locked(&self) -> Ownership {
        locked(self.0.load(Ordering::Acquire))
    }

    /// The mode in which the line must stay at this node. Acquire ordering, as in
    /// [`locked`](LockWord::locked).
    pub(crate) fn kept(&self) -> Ownership {
        kept(self.0.load(Ordering::Acquire))
    }

    /// Whether the line has a node lock.
    ///
    /// Acquire ordering, for callers that have read bytes of the line before. A transaction takes
    /// its lock before it publishes bytes. So a reader of these bytes sees the lock, or a later
    /// value of the word.
    pub(crate) fn is_detained(&self) -> bool {
        has_node_lock(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn is_locked_once(&self) -> bool {
        count(self.0.load(Ordering::Relaxed)) == 1
    }

    /// Takes one more lock for a caller that goes through the protocol. `None` if the lock
    /// conflicts or the line drains. `Some(true)`: the line had no lock and no node lock before.
    pub(crate) fn try_lock(&self, ownership: Ownership) -> Option<bool> {
        let next = |old| and(old, ownership);
        // Acquire pairs with the release of an unlock: this transaction follows that one.
        let old = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next).ok()?;
        strict_assert!(!is_draining(old), "a line that drains was locked");
        strict_assert!(count(old) < EXCLUSIVE - 1);
        strict_assert!(
            ownership != Ownership::Exclusive || count(old) == 0,
            "a writer locked a locked line"
        );
        Some(old & !ASK == 0)
    }

    /// Like [`try_lock`](LockWord::try_lock), unless *ask* is set.
    #[inline]
    pub(crate) fn try_lock_unasked(&self, ownership: Ownership) -> TryLock<bool> {
        let mut old = self.0.load(Ordering::Relaxed);
        loop {
            if old & ASK != 0 {
                return TryLock::Ask;
            }
            let Some(new) = and(old, ownership) else { return TryLock::Refused };
            // Acquire, as in `try_lock`, and for the caller's check of the frame state after this.
            match self.0.compare_exchange_weak(old, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return TryLock::Locked(old == 0),
                Err(now) => old = now,
            }
        }
    }

    /// Turns the only reader's lock into a writer's lock, and returns whether that was possible.
    pub(crate) fn try_upgrade(&self) -> bool {
        let next = |old| (count(old) == 1).then_some(old | EXCLUSIVE);
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next).is_ok()
    }

    /// Like [`try_upgrade`](LockWord::try_upgrade), unless *ask* is set.
    pub(crate) fn try_upgrade_unasked(&self) -> TryLock<()> {
        let next = |old| (count(old) == 1 && old & ASK == 0).then_some(old | EXCLUSIVE);
        match self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next) {
            Ok(_) => TryLock::Locked(()),
            Err(old) if old & ASK != 0 => TryLock::Ask,
            Err(_) => TryLock::Refused,
        }
    }

    /// Turns a writer's lock into a reader's lock.
    pub(crate) fn downgrade(&self) {
        let old = self.0.fetch_sub(EXCLUSIVE - 1, Ordering::Release);
        strict_assert_eq!(locked(old), Ownership::Exclusive, "only a lock to write is downgraded");
    }

    #[inline]
    pub(crate) fn unlock(&self, ownership: Ownership) -> Unlocked {
        let step = if ownership == Ownership::Exclusive { EXCLUSIVE } else { 1 };
        // Release: the next holder of a lock, here or after a transfer, sees this holder's actions.
        let old = self.0.fetch_sub(step, Ordering::Release);
        strict_assert!(
            step == EXCLUSIVE || count(old) != EXCLUSIVE,
            "a reader ended the lock of a writer"
        );
        let held = if ownership == Ownership::Exclusive {
            count(old) == EXCLUSIVE
        } else {
            count(old) != 0
        };
        debug_assert!(held, "not locked so");
        Unlocked { last: old & !ASK == step, asked: old & ASK != 0 }
    }

    /// Turns a writer's lock into a node lock.
    pub(crate) fn convert_to_node_lock(&self) {
        // Release: for the next transaction that locks the line, this is the end of a lock.
        let old = self.0.fetch_add(DETAINED - EXCLUSIVE, Ordering::Release);
        strict_assert!((old % REFUSED) < REFUSED - DETAINED, "the count of node locks wraps");
        debug_assert!(count(old) == EXCLUSIVE, "not locked to write");
    }

    /// Ends a node lock. The end of the last node lock resets the count of refusals.
    pub(crate) fn let_go(&self) -> Unlocked {
        let next = |old: u64| {
            let left = old - DETAINED;
            Some(if has_node_lock(left) { left } else { left % REFUSED })
        };
        // Release: code that takes the line away follows everything that was done before this end.
        let old = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, next);
        let old = old.unwrap_or_else(|now| now);
        strict_assert!(has_node_lock(old) || !is_draining(old), "refusals without a node lock");
        debug_assert!(has_node_lock(old), "not detained");
        Unlocked { last: (old % REFUSED) & !ASK == DETAINED, asked: old & ASK != 0 }
    }

    /// Counts a refusal of another node. Relaxed: the count only decides whose turn it is.
    pub(crate) fn refused(&self) {
        let next = |old| (has_node_lock(old) && !is_draining(old)).then_some(old + REFUSED);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    pub(crate) fn is_draining(&self) -> bool {
        is_draining(self.0.load(Ordering::Relaxed))
    }

    /// Whether *ask* is set. Only the protocol changes *ask*, under its lock.
    pub(crate) fn has_request_mark(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ASK != 0
    }

    /// Sets *ask*, and returns the mode in which the line must stay at this moment.
    pub(crate) fn set_request_mark(&self) -> Ownership {
        // Acquire: the actions of all transactions that have unlocked are visible.
        kept(self.0.fetch_or(ASK, Ordering::Acquire))
    }

    /// Clears *ask*. Release ordering: a transaction that locks later sees the changed state of the
    /// frame. Acquire ordering: that transaction also sees the actions of transactions whose locks
    /// ended before this call.
    pub(crate) fn clear_request_mark(&self) {
        if self.0.load(Ordering::Acquire) == ASK {
            // No other task changes this value: no lock exists that could end. While *ask* is set,
            // locks are taken only under the lock of the protocol, which the caller has.
            strict_assert_eq!(self.locked(), Ownership::Invalid);
            self.0.store(0, Ordering::Release);
        } else {
            self.0.fetch_and(!ASK, Ordering::AcqRel);
        }
    }

    /// Calls `change`, which takes ownership away and leaves `left`, if every lock of the line
    /// needs at most `left`. Returns the result of `change`, or `false` without a call.
    pub(crate) fn leave(&self, left: Ownership, change: impl FnOnce() -> bool) -> bool {
        let asks = self.has_request_mark();
        strict_assert!(
            left != Ownership::Exclusive,
            "a line that leaves keeps less than exclusive ownership"
        );
        let changed = self.set_request_mark() <= left && change();
        if !asks {
            self.clear_request_mark();
        }
        changed
    }
}
