//! The lock word of a frame: how transactions of this node keep its line here.
//!
//! ```text
//!   31   30                                    0
//!  +-----+--------------------------------------+
//!  | ask | 0, how many readers, or one writer   |   all ones: a writer
//!  +-----+--------------------------------------+
//! ```
//!
//! Who locks a line that is here needs no lock of the protocol for it: it changes the word, and then looks whether the
//! line is still here as it has to be. Who takes a line away, always under a lock of the protocol, sets *ask* by
//! an atomic exchange of the word, and only if it finds no lock in the way changes the state of the frame and clears
//! *ask* again, releasing. All changes of the word have one order. If the lock comes first, the other finds it. If *ask* comes
//! first, the lock is not taken while it is set; and a lock that is taken behind it acquires the word as it was
//! cleared, or a later value whose place in the order continues that release, since all that others do to the word
//! meanwhile are exchanges. So its look at the state finds the line gone, and the lock is given up again.
//!
//! *Ask* also stays set while nobody shall have the line without asking the protocol: others are waiting for it.

use latchwork_runtime::sync::{AtomicU32, Ordering};

use crate::Ownership;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LockWord(AtomicU32);

const ASK: u32 = 1 << 31;
const EXCLUSIVE: u32 = ASK - 1;

/// What the end of a lock has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unlocked {
    /// It was the line's last lock.
    pub last: bool,
    /// The protocol wants to be asked about this line.
    pub asked: bool,
}

/// How a try to lock a line went that asks no protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TryLock<T> {
    /// It is locked.
    Locked(T),
    /// Another lock is in the way.
    Refused,
    /// The line is not here in that way, or the protocol wants to be asked about it.
    Ask,
}

fn count(bits: u32) -> u32 {
    bits & !ASK
}

fn locked(bits: u32) -> Ownership {
    match count(bits) {
        0 => Ownership::Invalid,
        EXCLUSIVE => Ownership::Exclusive,
        _ => Ownership::Shared,
    }
}

/// The word with one more lock.
fn and(bits: u32, ownership: Ownership) -> Option<u32> {
    match ownership {
        Ownership::Exclusive => (count(bits) == 0).then_some(bits | EXCLUSIVE),
        // One below the mark stays free, so that no count is taken for it.
        _ => (count(bits) < EXCLUSIVE - 1).then(|| bits + 1),
    }
}

impl LockWord {
    /// Acquire: what a transaction did before it unlocked is visible to whoever sees that it has.
    #[inline]
    pub(crate) fn locked(&self) -> Ownership {
        locked(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn is_locked_once(&self) -> bool {
        count(self.0.load(Ordering::Relaxed)) == 1
    }

    /// One more lock, of whoever has asked. `Some` says whether it is the first.
    pub(crate) fn try_lock(&self, ownership: Ownership) -> Option<bool> {
        let next = |old| and(old, ownership);
        // Acquire pairs with the release of whoever unlocked: this transaction follows that one.
        let old = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next).ok()?;
        Some(count(old) == 0)
    }

    /// As [`try_lock`](LockWord::try_lock), unless one has to ask first.
    #[inline]
    pub(crate) fn try_lock_unasked(&self, ownership: Ownership) -> TryLock<bool> {
        let mut old = self.0.load(Ordering::Relaxed);
        loop {
            if old & ASK != 0 {
                return TryLock::Ask;
            }
            let Some(new) = and(old, ownership) else { return TryLock::Refused };
            // Acquire: as above, and for the look at the state that comes behind it.
            match self.0.compare_exchange_weak(old, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return TryLock::Locked(old == 0),
                Err(now) => old = now,
            }
        }
    }

    /// Turns the only lock to read into one to write; whether that was possible.
    pub(crate) fn try_upgrade(&self) -> bool {
        let next = |old| (count(old) == 1).then_some(old | EXCLUSIVE);
        self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next).is_ok()
    }

    /// As [`try_upgrade`](LockWord::try_upgrade), unless one has to ask first.
    pub(crate) fn try_upgrade_unasked(&self) -> TryLock<()> {
        match self.0.compare_exchange(1, EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => TryLock::Locked(()),
            Err(old) if old & ASK != 0 => TryLock::Ask,
            Err(_) => TryLock::Refused,
        }
    }

    /// Turns a lock to write into one to read.
    pub(crate) fn downgrade(&self) {
        self.0.fetch_sub(EXCLUSIVE - 1, Ordering::Release);
    }

    #[inline]
    pub(crate) fn unlock(&self, ownership: Ownership) -> Unlocked {
        let step = if ownership == Ownership::Exclusive { EXCLUSIVE } else { 1 };
        // Release: the next holder, here or behind a transfer, sees what this one did.
        let old = self.0.fetch_sub(step, Ordering::Release);
        let held = if ownership == Ownership::Exclusive {
            count(old) == EXCLUSIVE
        } else {
            count(old) != 0
        };
        debug_assert!(held, "not locked so");
        Unlocked { last: count(old) == step, asked: old & ASK != 0 }
    }

    /// Whether one has to ask, as only the protocol changes it under its lock.
    pub(crate) fn asks_first(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ASK != 0
    }

    /// From now on one has to ask. How the line is locked at this moment.
    pub(crate) fn ask_first(&self) -> Ownership {
        // Acquire: what transactions did that have unlocked is done.
        locked(self.0.fetch_or(ASK, Ordering::Acquire))
    }

    /// One has to ask no more. Release: whoever locks behind this sees what happened to the line.
    pub(crate) fn ask_no_more(&self) {
        if self.0.load(Ordering::Relaxed) == ASK {
            // Nobody else changes this value: there is no lock that could end, and none is taken.
            self.0.store(0, Ordering::Release);
        } else {
            self.0.fetch_and(!ASK, Ordering::Release);
        }
    }

    /// `change`, which takes so much away that only locks are kept which need no more than `left`; not at all when there is
    /// another. What it returns, or false.
    pub(crate) fn leave(&self, left: Ownership, change: impl FnOnce() -> bool) -> bool {
        let asks = self.asks_first();
        let changed = self.ask_first() <= left && change();
        if !asks {
            self.ask_no_more();
        }
        changed
    }
}
