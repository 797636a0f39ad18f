//! The lock word of a frame: how transactions of this node keep its line here.
//!
//! ```text
//!   63     58 57      32   31   30                                    0
//!  +---------+----------+-----+--------------------------------------+
//!  | refused | detained | ask | 0, how many readers, or one writer   |   all ones: a writer
//!  +---------+----------+-----+--------------------------------------+
//! ```
//!
//! A line is *detained* by transactions that have written it and lock it no more, since others of
//! this node may go on with it, while other nodes must not see it yet. Only a writer's lock turns
//! into one more of them. For all that takes a line away a detained one is as locked as by a
//! writer; for locks it is as if it were not. But those of this node may follow one another without
//! a gap: so it is counted how often others were *refused* since, and when that was too often, no
//! lock is taken until nobody detains the line any more.
//!
//! Who locks a line that is here needs no lock of the protocol for it: it changes the word, and
//! then looks whether the line is still here as it has to be. Who takes a line away, always under a
//! lock of the protocol, sets *ask* by an atomic exchange of the word, and only if it finds no lock
//! in the way changes the state of the frame and clears *ask* again, releasing. All changes of the
//! word have one order. If the lock comes first, the other finds it. If *ask* comes first, the lock
//! is not taken while it is set; and a lock that is taken behind it acquires the word as it was
//! cleared, or a later value whose place in the order continues that release, since all that others
//! do to the word meanwhile are exchanges. So its look at the state finds the line gone, and the
//! lock is given up again.
//!
//! *Ask* also stays set while nobody shall have the line without asking the protocol: others are
//! waiting for it.

use latchwork_runtime::sync::{AtomicU64, Ordering};

use crate::Ownership;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct LockWord(AtomicU64);

const ASK: u64 = 1 << 31;
const EXCLUSIVE: u64 = ASK - 1;
const DETAINED: u64 = 1 << 32;
const REFUSED: u64 = 1 << 58;

/// So many times others are refused before the line is to be let go.
const REFUSED_MAX: u64 = 8;

/// What the end of a lock has left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Unlocked {
    /// It was the line's last lock, and nobody detains it.
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

fn count(bits: u64) -> u64 {
    bits & EXCLUSIVE
}

fn is_detained(bits: u64) -> bool {
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

/// What the node must keep of the line.
fn kept(bits: u64) -> Ownership {
    if is_detained(bits) { Ownership::Exclusive } else { locked(bits) }
}

/// The word with one more lock.
fn and(bits: u64, ownership: Ownership) -> Option<u64> {
    match ownership {
        _ if is_draining(bits) => None,
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

    /// How the line has to stay at this node. Acquire: as [`locked`](LockWord::locked).
    pub(crate) fn kept(&self) -> Ownership {
        kept(self.0.load(Ordering::Acquire))
    }

    /// Acquire, behind a look at what was written: of a writer that detains the line, what it wrote
    /// is published later than its lock was taken, so whoever has seen that sees the lock, or what
    /// came after it.
    pub(crate) fn is_detained(&self) -> bool {
        is_detained(self.0.load(Ordering::Acquire))
    }

    pub(crate) fn is_locked_once(&self) -> bool {
        count(self.0.load(Ordering::Relaxed)) == 1
    }

    /// One more lock, of whoever has asked. `Some` says whether it is the first.
    pub(crate) fn try_lock(&self, ownership: Ownership) -> Option<bool> {
        let next = |old| and(old, ownership);
        // Acquire pairs with the release of whoever unlocked: this transaction follows that one.
        let old = self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next).ok()?;
        Some(old & !ASK == 0)
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
        let next = |old| (count(old) == 1 && old & ASK == 0).then_some(old | EXCLUSIVE);
        match self.0.fetch_update(Ordering::Acquire, Ordering::Relaxed, next) {
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
        Unlocked { last: old & !ASK == step, asked: old & ASK != 0 }
    }

    /// Turns the lock to write into one more who detains the line.
    pub(crate) fn detain(&self) {
        // Release: as the end of a lock, which it is for the next who locks the line.
        let old = self.0.fetch_add(DETAINED - EXCLUSIVE, Ordering::Release);
        debug_assert!(count(old) == EXCLUSIVE, "not locked to write");
    }

    /// Ends that. With the last one it is forgotten who was refused.
    pub(crate) fn let_go(&self) -> Unlocked {
        let next = |old: u64| {
            let left = old - DETAINED;
            Some(if is_detained(left) { left } else { left % REFUSED })
        };
        // Release: who takes the line away follows on what was done before it may go.
        let old = self.0.fetch_update(Ordering::Release, Ordering::Relaxed, next);
        let old = old.unwrap_or_else(|now| now);
        debug_assert!(is_detained(old), "not detained");
        Unlocked { last: (old % REFUSED) & !ASK == DETAINED, asked: old & ASK != 0 }
    }

    /// Another node was refused. Only about whose turn it is: relaxed.
    pub(crate) fn refused(&self) {
        let next = |old| (is_detained(old) && !is_draining(old)).then_some(old + REFUSED);
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
    }

    pub(crate) fn is_draining(&self) -> bool {
        is_draining(self.0.load(Ordering::Relaxed))
    }

    /// Whether one has to ask, as only the protocol changes it under its lock.
    pub(crate) fn asks_first(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ASK != 0
    }

    /// From now on one has to ask. How the line has to stay at this moment.
    pub(crate) fn ask_first(&self) -> Ownership {
        // Acquire: what transactions did that have unlocked is done.
        kept(self.0.fetch_or(ASK, Ordering::Acquire))
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

    /// `change`, which takes so much away that only locks are kept which need no more than `left`;
    /// not at all when there is another. What it returns, or false.
    pub(crate) fn leave(&self, left: Ownership, change: impl FnOnce() -> bool) -> bool {
        let asks = self.asks_first();
        let changed = self.ask_first() <= left && change();
        if !asks {
            self.ask_no_more();
        }
        changed
    }
}
