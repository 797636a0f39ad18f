//! A frame's header: who may do what with the line's copy.

use latchwork_runtime::sync::{AtomicU32, AtomicU64, Ordering, fence};
use latchwork_verbs::{GlobalAddr, WORD, Words};

use crate::lock::{LockWord, TryLock, Unlocked};
use crate::{DirtyBounds, FrameState, Ownership};

/// Index of a frame in its [`Cache`](crate::Cache).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FrameId(pub u32);

/// Two CPU cache lines: one that a hit reads, one that writers and handlers write.
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
    // Not 0: local writers without a reservation give way.
    gives_way: AtomicU32,
    // Accesses that wait for the latch.
    awaiting: AtomicU32,
    // The priority of the starved writer that won the line.
    starved: AtomicU32,
    held_until: AtomicU64,
    // Epoch; 0: not watched.
    watched_since: AtomicU32,
    lock: LockWord,
    links: Links,
}

/// Neighbours in a list of frames, for replacement to keep.
#[derive(Debug)]
pub(crate) struct Links {
    pub(crate) newer: AtomicU32,
    pub(crate) older: AtomicU32,
}

impl Links {
    /// In place of a neighbour, of a frame that is in no list.
    pub(crate) const OUT: u32 = u32::MAX - 1;
}

/// The epoch of last use that says: not since it is watched. Epochs count from 1 and do not come
/// that far.
const WATCHED: u32 = u32::MAX;
/// With the epoch when a watch began, says that it is a short one.
const SHORT: u32 = 1 << 31;

/// For how long a frame is watched: its user's affair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Watch {
    /// For a short while after the line came.
    Short,
    /// For as long as the line stays.
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
                starved: AtomicU32::new(0),
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
    /// The line in this frame, null when it is free.
    #[inline]
    pub fn addr(&self) -> GlobalAddr {
        GlobalAddr::from_bits(self.read.addr.load(Ordering::Relaxed))
    }

    /// Gives the frame, which is invalid, to another line.
    ///
    /// The release fence keeps the loss of the last line's state before the new address: a reader
    /// that sees the new address under a state from before fails in the end (see `is_still`),
    /// whichever thread has taken the last line away.
    pub(crate) fn set_addr(&self, addr: GlobalAddr) {
        fence(Ordering::Release);
        self.read.addr.store(addr.bits(), Ordering::Relaxed);
    }

    /// The state, with acquire ordering: bytes published with it are visible.
    #[inline]
    pub fn state(&self) -> FrameState {
        FrameState::from_bits(self.read.state.load(Ordering::Acquire))
    }

    /// Whether the state is still `seen`, for the end of an optimistic read.
    ///
    /// The acquire fence keeps the relaxed loads of the bytes before this load. A writer publishes
    /// its latched state before its bytes with a release fence in between, so a reader that saw one
    /// of its bytes sees the changed state here.
    #[inline]
    pub(crate) fn is_still(&self, seen: FrameState) -> bool {
        fence(Ordering::Acquire);
        self.read.state.load(Ordering::Relaxed) == seen.bits()
    }

    /// Acquire: what was done to the frame before `from` was stored is visible, also when it is not
    /// the `from` that was looked at before but one that came back. No release: an exchange
    /// continues what the store of `from` has published, and adds nothing to it.
    fn exchange(&self, from: FrameState, to: FrameState) -> bool {
        self.read
            .state
            .compare_exchange(from.bits(), to.bits(), Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
    }

    /// Takes the local latch for writing, when the node owns the line and nobody else writes.
    #[inline]
    pub(crate) fn try_latch(&self) -> Option<FrameState> {
        self.try_latch_from(self.state())
    }

    /// As [`try_latch`](Frame::try_latch), if the state is still `seen`: then the bytes are those
    /// that an optimistic read saw which began with that state.
    ///
    /// Unlike the load in `is_still`, the exchange needs no acquire fence before it. It succeeds
    /// only right behind `seen` in the order of the word's changes. A writer whose bytes were seen
    /// has either latched before, and then the word is not `seen` any more, or latches after this
    /// writer is done, which it learns by acquiring the word; then the read was before its bytes.
    #[inline]
    pub(crate) fn try_latch_from(&self, seen: FrameState) -> Option<FrameState> {
        if !seen.is_writable() || self.must_give_way() || !self.exchange(seen, seen.latched()) {
            return None;
        }
        // Orders the latched state before the bytes that the holder writes (see `is_still`).
        fence(Ordering::Release);
        Some(seen.latched())
    }

    /// Gives the local latch back: what was written becomes visible with the new state.
    #[inline]
    pub(crate) fn unlatch(&self, held: FrameState) {
        self.read.state.store(held.unlatched().bits(), Ordering::Release);
    }

    /// Publishes fetched or forwarded bytes under `ownership`. The frame was invalid, and whoever
    /// calls is the only one who may change that.
    pub fn publish(&self, ownership: Ownership) {
        let old = self.state();
        debug_assert_eq!(old.ownership(), Ownership::Invalid, "publishing over a valid copy");
        self.give_way(false);
        self.set_starved(0);
        self.read.state.store(old.replaced(ownership).bits(), Ordering::Release);
    }

    /// Shared becomes exclusive with the same bytes. Local readers go on unharmed.
    pub fn promote(&self) {
        let old = self.state();
        debug_assert_eq!(old.ownership(), Ownership::Shared, "only a shared copy is upgraded");
        self.read.state.store(old.with_ownership(Ownership::Exclusive).bits(), Ordering::Release);
    }

    /// Exclusive becomes shared with the same bytes, unless a local writer is at work, or a
    /// transaction has locked the line to write. To be called under a lock of the protocol.
    #[must_use]
    pub fn try_demote(&self) -> bool {
        let seen = self.state();
        let demote = || self.exchange(seen, seen.with_ownership(Ownership::Shared));
        seen.is_writable() && self.write.lock.leave(Ownership::Shared, demote)
    }

    /// Takes the right to read and write away, unless a local writer is at work or a transaction
    /// has locked the line. Optimistic reads that have not validated will fail. To be called under
    /// a lock of the protocol.
    ///
    /// The counter changes, so no later state can be taken for this one. Whoever fills the frame
    /// next does so behind a release fence, as every verb does that writes into a node's memory; so
    /// a reader that saw one of the next line's bytes sees the change here (see `is_still`).
    #[must_use]
    pub fn try_invalidate(&self) -> bool {
        let seen = self.state();
        if seen.ownership() == Ownership::Invalid {
            return true;
        }
        let invalidate = || self.exchange(seen, seen.replaced(Ownership::Invalid));
        !seen.is_latched() && self.write.lock.leave(Ownership::Invalid, invalidate)
    }

    /// What changed since the line was fetched.
    pub fn dirty(&self) -> DirtyBounds {
        DirtyBounds::from_bits(self.write.dirty.load(Ordering::Relaxed))
    }

    /// Sets the dirty bounds: by the holder of the latch, or when nobody can write.
    pub fn set_dirty(&self, bounds: DirtyBounds) {
        self.write.dirty.store(bounds.bits(), Ordering::Relaxed);
    }

    /// Whether somebody reserved the line for one local access.
    ///
    /// Reservations begin, and are looked at before a line is taken away, under a lock of the
    /// protocol, which orders the two. What an access does meanwhile is ordered by the state. So
    /// all is relaxed.
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

    /// Whether local writers shall leave the line to other nodes that have asked for it. Whoever
    /// has it reserved still uses it.
    pub fn give_way(&self, other_nodes_first: bool) {
        self.write.gives_way.store(u32::from(other_nodes_first), Ordering::Relaxed);
    }

    /// Only about whose turn it is, not about who may: a writer that sees it late writes once more.
    /// So it is relaxed, and stands where a writer writes its dirty bounds in any case. Whoever
    /// sees a reservation that is another's writes as well: there are no new ones meanwhile, and
    /// each lasts for one access.
    #[inline]
    fn must_give_way(&self) -> bool {
        self.write.gives_way.load(Ordering::Relaxed) != 0 && !self.is_reserved()
    }

    /// The priority with which a starved writer of this node won the line (SELCC 5.3.2); 0 when
    /// none did. Read and written under a lock of the protocol.
    pub fn starved(&self) -> u8 {
        self.write.starved.load(Ordering::Relaxed) as u8
    }

    /// Notes the priority of a starved writer.
    pub fn set_starved(&self, priority: u8) {
        self.write.starved.store(u32::from(priority), Ordering::Relaxed);
    }

    /// Whether local accesses wait for the latch. Relaxed, as what is said of
    /// [reservations](Frame::is_reserved).
    pub fn is_awaited(&self) -> bool {
        self.write.awaiting.load(Ordering::Relaxed) != 0
    }

    /// A local access begins to wait for the latch.
    pub fn begin_wait(&self) {
        self.write.awaiting.fetch_add(1, Ordering::Relaxed);
    }

    /// A local access has the latch, or waits no more.
    pub fn end_wait(&self) {
        let old = self.write.awaiting.fetch_sub(1, Ordering::Relaxed);
        debug_assert!(old > 0, "a wait ended twice");
    }

    /// How transactions have locked the line: [`Ownership::Invalid`] when none has. Besides them it
    /// keeps nobody of this node from the line; what it keeps is the node's ownership.
    ///
    /// Acquire: what a transaction did before it unlocked is visible to whoever sees that it has.
    #[inline]
    pub fn locked(&self) -> Ownership {
        self.write.lock.locked()
    }

    /// How the line has to stay at this node: as transactions have [locked](Frame::locked) it, and
    /// exclusive while it is [detained](Frame::detain).
    #[inline]
    pub fn kept(&self) -> Ownership {
        self.write.lock.kept()
    }

    /// Whether a transaction keeps the line here: it has locked it, or detains it.
    pub fn is_kept(&self) -> bool {
        self.kept() != Ownership::Invalid
    }

    /// Whether a transaction detains the line.
    #[inline]
    pub fn is_detained(&self) -> bool {
        self.write.lock.is_detained()
    }

    /// Turns a lock to write, which ends, into a detention: other transactions may lock the line,
    /// and it stays at this node until all who detain it have [let it go](Frame::let_go).
    pub fn detain(&self) {
        self.write.lock.detain();
    }

    /// Ends one detention.
    pub fn let_go(&self) -> Unlocked {
        self.write.lock.let_go()
    }

    /// Notes that another node was refused the line. After a few times since it is detained nobody
    /// locks it until it is not.
    pub fn note_refusal(&self) {
        self.write.lock.refused();
    }

    /// Whether nobody may lock the line before it is let go.
    pub fn is_draining(&self) -> bool {
        self.write.lock.is_draining()
    }

    /// Whether exactly one transaction has locked the line to read.
    pub fn is_locked_once(&self) -> bool {
        self.write.lock.is_locked_once()
    }

    /// Locks the line to read or to write, unless another lock is in the way. `Some` says whether
    /// nobody has kept the line before.
    ///
    /// To be called under a lock of the protocol, which knows that the line is owned at least so.
    /// Unlocking needs none, nor does [`Cache::try_lock`](crate::Cache::try_lock).
    #[must_use]
    pub fn try_lock(&self, ownership: Ownership) -> Option<bool> {
        self.write.lock.try_lock(ownership)
    }

    /// Turns the only lock to read into one to write; false when there are others. As
    /// [`try_lock`](Frame::try_lock), under a lock of the protocol.
    #[must_use]
    pub fn try_upgrade_lock(&self) -> bool {
        self.write.lock.try_upgrade()
    }

    /// Ends a lock that was taken so.
    #[inline]
    pub fn unlock(&self, ownership: Ownership) -> Unlocked {
        self.write.lock.unlock(ownership)
    }

    /// Whether the protocol wants to be asked for locks; see [`ask_first`](Frame::ask_first).
    pub fn asks_first(&self) -> bool {
        self.write.lock.asks_first()
    }

    /// From now on nobody locks the line without asking the protocol, under whose lock this is
    /// called. How it is kept.
    pub fn ask_first(&self) -> Ownership {
        self.write.lock.ask_first()
    }

    /// Ends that.
    pub fn ask_no_more(&self) {
        self.write.lock.ask_no_more();
    }

    /// For [`Cache::try_lock`](crate::Cache::try_lock): whether it is the first.
    #[inline]
    pub(crate) fn try_lock_unasked(&self, addr: GlobalAddr, ownership: Ownership) -> TryLock<bool> {
        // Before as well: a line that is here to read must not seem locked to write, not for a
        // moment.
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

    /// Turns the only lock to read that there is on the line into one to write, if the node owns it
    /// so. The caller has that lock.
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

    /// The address after the state, whose value was published behind it.
    #[inline]
    fn is_here(&self, addr: GlobalAddr, ownership: Ownership) -> bool {
        self.state().ownership() >= ownership && self.addr() == addr
    }

    /// Until when, in nanoseconds of virtual time, a local writer holds the line's latch: see
    /// [`Frame::hold_until`]. 0 where time is real.
    pub fn held_until(&self) -> u64 {
        self.write.held_until.load(Ordering::Relaxed)
    }

    /// Says that the writer that has the latch now keeps it until `nanos` of virtual time. In a
    /// simulated world its critical section is one instant, so the latch itself keeps nobody out;
    /// whoever comes with an earlier clock has to be turned away by this.
    pub fn hold_until(&self, nanos: u64) {
        self.write.held_until.store(nanos, Ordering::Relaxed);
    }

    /// Notes that the line was used in replacement epoch `epoch`.
    pub(crate) fn set_last_use(&self, epoch: u32) {
        self.read.last_use.store(epoch, Ordering::Relaxed);
    }

    /// What was noted last of the line's uses: an epoch, or that it is watched.
    #[inline]
    pub(crate) fn noted_use(&self) -> u32 {
        self.read.last_use.load(Ordering::Relaxed)
    }

    /// The epoch of its last use; of a frame that is watched, the one when that began.
    pub(crate) fn last_use(&self) -> u32 {
        match self.read.last_use.load(Ordering::Relaxed) {
            WATCHED => self.write.watched_since.load(Ordering::Relaxed) & !SHORT,
            epoch => epoch,
        }
    }

    /// Watches whether the line is used from now on. A hit notes it as it notes the epoch of its
    /// use, so the watching costs a store for the first one. A hint: races with hits and with a
    /// change of hands make the answer wrong now and then.
    pub fn watch(&self, watch: Watch) {
        let since = self.last_use();
        let kind = if watch == Watch::Short { SHORT } else { 0 };
        self.write.watched_since.store(since | kind, Ordering::Relaxed);
        self.read.last_use.store(WATCHED, Ordering::Relaxed);
    }

    /// Ends the watch, if there was one: which one, and whether the line was used.
    pub fn end_watch(&self) -> Option<(Watch, bool)> {
        let last_use = self.read.last_use.load(Ordering::Relaxed);
        let since = self.write.watched_since.swap(0, Ordering::Relaxed);
        if last_use == WATCHED {
            self.read.last_use.store(since & !SHORT, Ordering::Relaxed);
        }
        let watch = if since & SHORT != 0 { Watch::Short } else { Watch::Long };
        (since != 0).then_some((watch, last_use != WATCHED))
    }

    pub(crate) fn links(&self) -> &Links {
        &self.write.links
    }

    /// The number of its block of hints, from 1; 0 when it has none.
    #[inline]
    pub(crate) fn hints(&self) -> u32 {
        self.read.hints.load(Ordering::Relaxed)
    }

    /// Gives it a block of hints, unless it has one: then that is the error.
    pub(crate) fn add_hints(&self, block: u32) -> Result<(), u32> {
        let hints = &self.read.hints;
        hints.compare_exchange(0, block, Ordering::Relaxed, Ordering::Relaxed).map(|_| ())
    }

    /// Takes its block of hints, 0 when it has none.
    pub(crate) fn take_hints(&self) -> u32 {
        self.read.hints.swap(0, Ordering::Relaxed)
    }

    /// Asks the processor for what a hit reads of the header.
    #[inline]
    pub(crate) fn prefetch(&self) {
        Words::new(std::slice::from_ref(&self.read.state)).prefetch(0..WORD);
    }

    /// Asks the processor for what a lock of the line or a local latch writes of the header.
    #[inline]
    pub(crate) fn prefetch_write(&self) {
        Words::new(std::slice::from_ref(&self.write.held_until)).prefetch(0..WORD);
    }
}
