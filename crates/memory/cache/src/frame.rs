//! The header of a frame: ownership, latch and locks of the line's copy.

use latchwork_runtime::sync::{AtomicU32, AtomicU64, Ordering, fence};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};
use latchwork_verbs::{GlobalAddr, WORD, Words};

use crate::lock::{LockWord, TryLock, Unlocked};
use crate::{DirtyBounds, FrameState, Ownership};

/// Index of a frame in its [`Cache`](crate::Cache).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameId(pub u32);

/// The header of a frame, in two CPU cache lines. A read hit needs only the first of them, except
/// with LRU. The second has the fields that local writers, waiters, transactions and the protocol
/// change.
#[derive(Debug)]
#[repr(C, align(128))]
pub struct Frame {
    read: ReadSide,
    write: WriteSide,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct ReadSide {
    state: AtomicU64,
    addr: AtomicU64,
    last_use: AtomicU32,
    // Block of hints plus one; 0: none.
    hints: AtomicU32,
}

#[derive(Debug)]
#[repr(C, align(64))]
struct WriteSide {
    dirty: AtomicU64,
    reservations: AtomicU32,
    // Not 0: local writers without a reservation give way to other nodes.
    gives_way: AtomicU32,
    // Accesses that wait for the latch.
    awaiting: AtomicU32,
    // A number of the protocol about the copy.
    note: AtomicU32,
    held_until: AtomicU64,
    // The last use before the watch, with the bit `SHORT` for a short watch; 0: not watched.
    watched_since: AtomicU32,
    lock: LockWord,
    links: Links,
}

/// Neighbours in a list of frames, maintained by the replacement policy.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) newer: AtomicU32,
    pub(crate) older: AtomicU32,
}

impl Links {
    /// Stands for a neighbour when the frame is in no list.
    pub(crate) const OUT: u32 = u32::MAX - 1;
}

/// In place of the replacement epoch of last use: not used since the [watch](Frame::watch) began.
/// Epochs count from 1 and do not reach this value.
const WATCHED: u32 = u32::MAX;
const _: () = assert!(WATCHED & SHORT != 0, "an epoch is below the mark of a short watch");
const _: () = assert!(Links::OUT < u32::MAX, "the mark of no list is not the mark of no neighbour");
/// The bit of `watched_since` that marks a short watch.
const SHORT: u32 = 1 << 31;

/// The kind of a [watch](Frame::watch). The user of the cache begins and ends each watch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FrameWatch {
    /// A watch for a short time after the line arrived.
    Short,
    /// A watch that may last until the line leaves.
    Long,
}

#[cfg(not(loom))]
const _: () = assert!(size_of::<Frame>() == 128, "a frame header is two cache lines");
#[cfg(not(loom))]
const _: () = assert!(size_of::<ReadSide>() == 64 && size_of::<WriteSide>() == 64);

impl Default for Frame {
    fn default() -> Self {
        Frame {
            read: ReadSide {
                state: AtomicU64::new(0),
                addr: AtomicU64::new(0),
                last_use: AtomicU32::new(0),
                hints: AtomicU32::new(0),
            },
            write: WriteSide {
                dirty: AtomicU64::new(DirtyBounds::EMPTY.bits()),
                reservations: AtomicU32::new(0),
                gives_way: AtomicU32::new(0),
                awaiting: AtomicU32::new(0),
                note: AtomicU32::new(0),
                held_until: AtomicU64::new(0),
                watched_since: AtomicU32::new(0),
                lock: LockWord::default(),
                links: Links {
                    newer: AtomicU32::new(Links::OUT),
                    older: AtomicU32::new(Links::OUT),
                },
            },
        }
    }
}

impl Frame {
    /// The line in this frame; null when the frame is free.
    #[inline]
    pub fn addr(&self) -> GlobalAddr {
        GlobalAddr::from_bits(self.read.addr.load(Ordering::Relaxed))
    }

    /// Sets the line of the frame, or null when the frame becomes free. The frame is invalid.
    ///
    /// The release fence orders the invalid state of the frame before the new address. So a reader
    /// that saw an older state and then the new address does not validate (see `is_still`). That
    /// holds whichever thread took the earlier line away.
    pub(crate) fn set_addr(&self, addr: GlobalAddr) {
        strict_assert_eq!(
            self.state().ownership(),
            Ownership::Invalid,
            "only an invalid frame changes its line"
        );
        fence(Ordering::Release);
        strict_assert!(
            addr.is_null() != self.addr().is_null(),
            "a frame goes from a line to free, or back"
        );
        self.read.addr.store(addr.bits(), Ordering::Relaxed);
    }

    /// The state, with acquire ordering: bytes published with it are visible.
    #[inline]
    pub fn state(&self) -> FrameState {
        FrameState::from_bits(self.read.state.load(Ordering::Acquire))
    }

    /// Whether the state is still `seen`, at the end of an optimistic read.
    ///
    /// The acquire fence keeps the relaxed loads of the bytes before this load. A writer stores its
    /// latched state before its bytes, with a release fence in between. So a reader that saw one of
    /// these bytes sees the changed state here.
    #[inline]
    pub(crate) fn is_still(&self, seen: FrameState) -> bool {
        fence(Ordering::Acquire);
        self.read.state.load(Ordering::Relaxed) == seen.bits()
    }

    /// Exchanges the state. Acquire ordering: everything that was done to the frame before `from`
    /// was stored is visible. That holds also if the word changed since the caller's load and
    /// returned to `from`. Release ordering is not needed: the exchange continues the release
    /// sequence of the store of `from`, and publishes nothing itself.
    fn exchange(&self, from: FrameState, to: FrameState) -> bool {
        strict_assert!(
            from.counter() <= to.counter() || to.counter() == 0,
            "the counter of a frame runs backwards"
        );
        strict_assert_ne!(from, to, "a transition changes the state");
        self.read
            .state
            .compare_exchange(from.bits(), to.bits(), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the local latch for writing, if the node owns the line exclusively, no other worker
    /// writes, and local writers need not [give way](Frame::give_way).
    #[inline]
    pub(crate) fn try_latch(&self) -> Option<FrameState> {
        self.try_latch_from(self.state())
    }

    /// Like [`try_latch`](Frame::try_latch), if the state is still `seen`. Then the frame has the
    /// bytes that an optimistic read with the state `seen` read.
    ///
    /// Unlike the load in `is_still`, the exchange needs no acquire fence before it:
    ///
    /// 1. The exchange succeeds only directly after `seen` in the order of the word's changes. What
    ///    [`between_writes`](Frame::between_writes) stored in between stands for the same bytes.
    /// 2. Suppose that the read saw a byte of another writer W, which latched after `seen` was
    ///    stored. If W latched before the exchange, the word is no longer `seen`, and the exchange
    ///    fails.
    /// 3. Otherwise W latches after this writer has unlatched, and acquires the word that this
    ///    writer stored. Then the read came before W's bytes, and cannot have seen them.
    #[inline]
    pub(crate) fn try_latch_from(&self, seen: FrameState) -> Option<FrameState> {
        if !seen.is_writable() || self.must_give_way() || !self.exchange(seen, seen.latched()) {
            return None;
        }
        // Orders the latched state before the bytes that the latch holder writes (see `is_still`).
        fence(Ordering::Release);
        strict_assert!(self.state().is_latched(), "the latch is taken");
        Some(seen.latched())
    }

    /// Releases the local latch. The written bytes become visible with the new state.
    #[inline]
    pub(crate) fn unlatch(&self, held: FrameState) {
        strict_assert!(held.is_latched(), "a guard ends a latch that it does not have");
        strict_assert_eq!(self.state(), held, "another task changed a latched frame");
        self.read.state.store(held.unlatched().bits(), Ordering::Release);
    }

    /// Runs `copy` while no local writer has the latch. `None` when a writer has it, or without
    /// exclusive ownership. `copy` may read the bytes, and change the dirty bounds. Call this under
    /// a lock of the protocol.
    ///
    /// The state is the same afterwards, because the bytes are: reads that began before, and those
    /// that begin later, validate. Acquire ordering of the exchange: `copy` sees the bytes and
    /// bounds of the last writer. Release ordering of the store: the next writer acquires it, so
    /// its bytes and bounds come after the copy.
    pub fn between_writes<R>(&self, copy: impl FnOnce() -> R) -> Option<R> {
        let seen = self.state();
        if !seen.is_writable() || !self.exchange(seen, seen.latched()) {
            return None;
        }
        let copied = copy();
        strict_assert_eq!(self.state(), seen.latched(), "another task changed a latched frame");
        self.read.state.store(seen.bits(), Ordering::Release);
        Some(copied)
    }

    /// Publishes fetched or forwarded bytes under `ownership`. The frame is invalid before the
    /// call, and no other task may change that.
    pub fn publish(&self, ownership: Ownership) {
        let old = self.state();
        strict_assert!(!self.addr().is_null(), "a free frame gets bytes");
        strict_assert_ne!(ownership, Ownership::Invalid, "a copy is published to be used");
        strict_assert!(!old.is_latched(), "a writer has the latch of an invalid frame");
        debug_assert_eq!(old.ownership(), Ownership::Invalid, "publishing over a valid copy");
        self.give_way(false);
        self.set_note(0);
        self.read.state.store(old.replaced(ownership).bits(), Ordering::Release);
        strict_assert!(self.state().counter() != old.counter(), "new bytes need a new counter");
    }

    /// Turns shared into exclusive ownership of the same bytes. Local readers continue.
    pub fn promote(&self) {
        let old = self.state();
        debug_assert_eq!(old.ownership(), Ownership::Shared, "only a shared copy is upgraded");
        self.read.state.store(old.with_ownership(Ownership::Exclusive).bits(), Ordering::Release);
    }

    /// Turns exclusive into shared ownership of the same bytes. Fails without exclusive ownership,
    /// and while a local writer has the latch. Fails also while a transaction has locked the line
    /// to write, or the line has a node lock. Call this under a lock of the protocol.
    #[must_use]
    pub fn try_demote(&self) -> bool {
        let seen = self.state();
        let demote = || self.exchange(seen, seen.with_ownership(Ownership::Shared));
        seen.is_writable() && self.write.lock.leave(Ownership::Shared, demote)
    }

    /// Takes the right to read and write away. Fails while a local writer has the latch, or while a
    /// lock or a node lock keeps the line. Optimistic reads that have not validated will fail. Call
    /// this under a lock of the protocol.
    ///
    /// The counter changes, so no later state equals this one. A thread that fills the frame for a
    /// verb executes a release fence before, in the shared-memory and the socket fabric. So a
    /// reader that saw a byte of the next line sees the change here (see `is_still`).
    #[must_use]
    pub fn try_invalidate(&self) -> bool {
        let seen = self.state();
        if seen.ownership() == Ownership::Invalid {
            return true;
        }
        let invalidate = || self.exchange(seen, seen.replaced(Ownership::Invalid));
        strict_assert_ne!(
            seen.replaced(Ownership::Invalid).counter(),
            seen.counter(),
            "an optimistic read must notice the loss"
        );
        !seen.is_latched() && self.write.lock.leave(Ownership::Invalid, invalidate)
    }

    /// The dirty bounds of the line: the bytes that changed since memory had the line, here or at
    /// an earlier holder.
    pub fn dirty(&self) -> DirtyBounds {
        DirtyBounds::from_bits(self.write.dirty.load(Ordering::Relaxed))
    }

    /// Sets the dirty bounds. The caller holds the latch, or no task can write.
    pub fn set_dirty(&self, bounds: DirtyBounds) {
        self.write.dirty.store(bounds.bits(), Ordering::Relaxed);
    }

    /// Whether an access has reserved the line for one local use.
    ///
    /// All accesses to the count are relaxed. A lock of the protocol orders the begin of a
    /// reservation and the check of the count before a line is taken away. The state orders the
    /// actions of the access in between.
    pub fn is_reserved(&self) -> bool {
        self.write.reservations.load(Ordering::Relaxed) != 0
    }

    /// Adds a reservation.
    pub fn reserve(&self) {
        self.write.reservations.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends a reservation.
    pub fn unreserve(&self) {
        let old = self.write.reservations.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(old > 0, "a reservation ended twice");
    }

    /// Sets whether local writers without a reservation leave the line to other nodes that have
    /// requested it.
    pub fn give_way(&self, other_nodes_first: bool) {
        self.write.gives_way.store(u32::from(other_nodes_first), Ordering::Relaxed);
    }

    /// Relaxed, because the flag decides only about the order of accesses: a writer that sees the
    /// flag late writes once more. The flag is in the CPU cache line that a writer changes anyway
    /// for its dirty bounds. A writer also writes while any other access has a reservation. That is
    /// bounded: no new access gets a reservation while the flag is set, and each reservation is for
    /// one access.
    #[inline]
    fn must_give_way(&self) -> bool {
        self.write.gives_way.load(Ordering::Relaxed) != 0 && !self.is_reserved()
    }

    /// The number that the protocol keeps with the copy: the line has no other state at rest. 0 for
    /// a [published](Frame::publish) copy. Read and written under a lock of the protocol.
    pub fn note(&self) -> u32 {
        self.write.note.load(Ordering::Relaxed)
    }

    /// Sets the number of the protocol.
    pub fn set_note(&self, note: u32) {
        self.write.note.store(note, Ordering::Relaxed);
    }

    /// Whether local accesses wait for the latch. Relaxed, for the reason given at
    /// [reservations](Frame::is_reserved).
    pub fn is_awaited(&self) -> bool {
        self.write.awaiting.load(Ordering::Relaxed) != 0
    }

    /// Notes that a local access begins to wait for the latch.
    pub fn begin_wait(&self) {
        self.write.awaiting.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes that a local access has the latch, or waits no longer.
    pub fn end_wait(&self) {
        let old = self.write.awaiting.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(old > 0, "a wait ended twice");
    }

    /// The mode in which transactions have locked the line; [`Ownership::Invalid`] without a lock.
    /// A lock keeps the node's ownership. It excludes conflicting locks of other transactions, but
    /// no access of this node.
    ///
    /// Acquire ordering: a caller that sees the end of a lock also sees the earlier actions of the
    /// transaction.
    #[inline]
    pub fn locked(&self) -> Ownership {
        self.write.lock.locked()
    }

    /// The mode in which the line must stay at this node: the mode of its [locks](Frame::locked),
    /// or exclusive while it has a [node lock](Frame::convert_to_node_lock).
    #[inline]
    pub fn kept(&self) -> Ownership {
        self.write.lock.kept()
    }

    /// Whether a lock or a node lock keeps the line here.
    pub fn is_kept(&self) -> bool {
        self.kept() != Ownership::Invalid
    }

    /// Whether the line has a node lock.
    #[inline]
    pub fn has_node_lock(&self) -> bool {
        self.write.lock.is_detained()
    }

    /// Turns a lock to write into a node lock. Other transactions of this node may then lock the
    /// line. The line stays at this node until all its node locks have [ended](Frame::let_go).
    pub fn convert_to_node_lock(&self) {
        self.write.lock.convert_to_node_lock();
    }

    /// Ends one node lock.
    pub fn let_go(&self) -> Unlocked {
        self.write.lock.let_go()
    }

    /// Counts a refusal of another node. After a few refusals since the first node lock, no
    /// transaction takes a new lock of the line until the last node lock has ended.
    pub fn note_refusal(&self) {
        self.write.lock.refused();
    }

    /// Whether no transaction may take a new lock of the line before its node locks end.
    pub fn is_draining(&self) -> bool {
        self.write.lock.is_draining()
    }

    /// Whether exactly one transaction has locked the line to read.
    pub fn is_locked_once(&self) -> bool {
        self.write.lock.is_locked_once()
    }

    /// Locks the line to read or to write, unless a conflicting lock exists or the line is
    /// [draining](Frame::is_draining). `Some(true)`: the line had no lock and no node lock before.
    ///
    /// Call this under a lock of the protocol, which ensures that the line is owned in at least
    /// that mode. Unlocking needs no such lock, nor does
    /// [`Cache::try_lock`](crate::Cache::try_lock).
    #[must_use]
    pub fn try_lock(&self, ownership: Ownership) -> Option<bool> {
        self.write.lock.try_lock(ownership)
    }

    /// Turns the only lock to read into a lock to write; `false` when there are other locks. Call
    /// this under a lock of the protocol, like [`try_lock`](Frame::try_lock).
    #[must_use]
    pub fn try_upgrade_lock(&self) -> bool {
        self.write.lock.try_upgrade()
    }

    /// Ends a lock of that mode.
    #[inline]
    pub fn unlock(&self, ownership: Ownership) -> Unlocked {
        self.write.lock.unlock(ownership)
    }

    /// Whether the request mark is set: every lock of the line must go through the protocol. See
    /// [`set_request_mark`](Frame::set_request_mark).
    pub fn has_request_mark(&self) -> bool {
        self.write.lock.has_request_mark()
    }

    /// Sets the request mark (*ask* in the lock word): from now on every lock of the line must go
    /// through the protocol. Returns the mode in which the line is kept. The caller holds a lock of
    /// the protocol.
    pub fn set_request_mark(&self) -> Ownership {
        self.write.lock.set_request_mark()
    }

    /// Clears the request mark, which [`set_request_mark`](Frame::set_request_mark) set.
    pub fn clear_request_mark(&self) {
        self.write.lock.clear_request_mark();
    }

    /// For [`Cache::try_lock`](crate::Cache::try_lock): locks the line without the protocol.
    /// `Locked(true)`: the line had no lock and no node lock before.
    #[inline]
    pub(crate) fn try_lock_unasked(&self, addr: GlobalAddr, ownership: Ownership) -> TryLock<bool> {
        // The check before the lock is needed, too. A line that is here only to read must not
        // appear locked to write, not even for a moment.
        if !self.is_here(addr, ownership) {
            return TryLock::Ask;
        }
        let end = self.write.lock.try_lock_unasked(ownership);
        if matches!(end, TryLock::Locked(_)) && !self.is_here(addr, ownership) {
            self.unlock(ownership);
            return TryLock::Ask;
        }
        end
    }

    /// Turns the line's only lock to read into a lock to write, if the node owns the line
    /// exclusively. The caller has that lock.
    pub fn try_upgrade_lock_unasked(&self) -> TryLock<()> {
        let is_exclusive = || self.state().ownership() == Ownership::Exclusive;
        if !is_exclusive() {
            return TryLock::Ask;
        }
        let end = self.write.lock.try_upgrade_unasked();
        if matches!(end, TryLock::Locked(())) && !is_exclusive() {
            self.write.lock.downgrade();
            return TryLock::Ask;
        }
        end
    }

    /// Whether the frame has this line, owned in at least this mode. The address is loaded after
    /// the state, because a state is published after the address to which the state belongs.
    #[inline]
    fn is_here(&self, addr: GlobalAddr, ownership: Ownership) -> bool {
        self.state().ownership() >= ownership && self.addr() == addr
    }

    /// The virtual time in nanoseconds until which a local writer holds the latch: see
    /// [`Frame::hold_until`]. 0 where time is real.
    pub fn held_until(&self) -> u64 {
        self.write.held_until.load(Ordering::Relaxed)
    }

    /// Notes that the present latch holder keeps the latch until `nanos`, in nanoseconds of virtual
    /// time. In a simulated world a critical section is one instant, so no task ever finds the
    /// latch held. A task with an earlier clock compares its clock with this time instead.
    pub fn hold_until(&self, nanos: u64) {
        self.write.held_until.store(nanos, Ordering::Relaxed);
    }

    /// Notes a use of the line in replacement epoch `epoch`.
    pub(crate) fn set_last_use(&self, epoch: u32) {
        self.read.last_use.store(epoch, Ordering::Relaxed);
    }

    /// The last noted use of the line: an epoch, or the mark of a watched line.
    #[inline]
    pub(crate) fn noted_use(&self) -> u32 {
        self.read.last_use.load(Ordering::Relaxed)
    }

    /// The epoch of the last use. For a watched frame, the last use before the watch began.
    pub(crate) fn last_use(&self) -> u32 {
        match self.read.last_use.load(Ordering::Relaxed) {
            WATCHED => self.write.watched_since.load(Ordering::Relaxed) & !SHORT,
            epoch => epoch,
        }
    }

    /// Begins a watch, whose [end](Frame::end_watch) says whether the line was used since. The mark
    /// of a watched frame stands in place of the epoch of last use, which a hit overwrites. So a
    /// watch costs one store at the first hit. The answer is a guess: a race with a hit, or with a
    /// transfer of the line, makes the answer wrong now and then.
    pub fn watch(&self, watch: FrameWatch) {
        let since = self.last_use();
        strict_assert!(since & SHORT == 0, "an epoch reached the mark of a short watch");
        let kind = if watch == FrameWatch::Short { SHORT } else { 0 };
        self.write.watched_since.store(since | kind, Ordering::Relaxed);
        self.read.last_use.store(WATCHED, Ordering::Relaxed);
    }

    /// Ends the watch, if there is one. Returns which watch, and whether the line was used.
    pub fn end_watch(&self) -> Option<(FrameWatch, bool)> {
        let last_use = self.read.last_use.load(Ordering::Relaxed);
        let since = self.write.watched_since.swap(0, Ordering::Relaxed);
        if last_use == WATCHED {
            self.read.last_use.store(since & !SHORT, Ordering::Relaxed);
        }
        let watch = if since & SHORT != 0 { FrameWatch::Short } else { FrameWatch::Long };
        (since != 0).then_some((watch, last_use != WATCHED))
    }

    pub(crate) fn links(&self) -> &Links {
        &self.write.links
    }

    /// The number of the frame's block of hints, from 1; 0 when it has none.
    #[inline]
    pub(crate) fn hints(&self) -> u32 {
        self.read.hints.load(Ordering::Relaxed)
    }

    /// Gives the frame a block of hints. If the frame has a block, that block is the error.
    pub(crate) fn add_hints(&self, block: u32) -> Result<(), u32> {
        let hints = &self.read.hints;
        strict_assert_ne!(block, 0, "block 0 stands for none");
        hints.compare_exchange(0, block, Ordering::Relaxed, Ordering::Relaxed).map(|_| ())
    }

    /// Takes the frame's block of hints; 0 when it has none.
    pub(crate) fn take_hints(&self) -> u32 {
        self.read.hints.swap(0, Ordering::Relaxed)
    }

    /// Prefetches the part of the header that a hit reads.
    #[inline]
    pub(crate) fn prefetch(&self) {
        Words::new(std::slice::from_ref(&self.read.state)).prefetch(0..WORD);
    }

    /// Prefetches the part of the header that a lock of the line or a local latch writes.
    #[inline]
    pub(crate) fn prefetch_write(&self) {
        Words::new(std::slice::from_ref(&self.write.held_until)).prefetch(0..WORD);
    }
}
