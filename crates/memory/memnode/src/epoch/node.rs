//! [`Epochs`]: a compute node's part in the cluster's epochs.

use std::fmt;
use std::sync::{Arc, Weak};

use latchwork_fabric::Port;
use latchwork_runtime::sync::{AtomicU8, AtomicU64, Mutex, Ordering, fence};
use latchwork_runtime::{Handle, Time};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, VerbError};

use super::worker::Seat;
use super::{Epoch, SlotWord};
use crate::again::repeatedly;
use crate::layout;
use crate::limbo::Limbo;
use crate::turn::{Turn, TurnGuard};
use crate::{Pool, PoolError, PoolSettings};

/// The node has no operation, and its slot says so or is about to.
const IDLE: u8 = 0;
/// The slot has a bound: workers may begin operations.
const ACTIVE: u8 = 1;
/// The node is not registered any more.
const LEFT: u8 = 2;

/// A compute node's part in the cluster's epochs, shared by its workers; see [`crate::epoch`] for
/// the protocol and its proof.
///
/// Workers take part through an [`EpochWorker`](super::EpochWorker) each, which calls what is here
/// at the right times. All futures may be dropped at any await.
pub struct Epochs {
    pool: Pool,
    node: ComputeNodeId,
    settings: PoolSettings,
    registration: u64,
    /// A copy of the cluster's epoch: at most the epoch, and growing.
    current: AtomicU64,
    phase: AtomicU8,
    next_tick: AtomicU64,
    seats: Mutex<Vec<Weak<Seat>>>,
    slot: Turn<Slot>,
    limbo: Limbo,
}

/// What the node knows of its slot.
struct Slot {
    /// The word that was there last, as far as is known.
    word: SlotWord,
    /// No write is in flight, or was abandoned there: `word` is what stands.
    settled: bool,
    sequence: u64,
}

impl Epochs {
    /// Registers compute node `node`, as idle.
    ///
    /// # Errors
    /// [`PoolError::NodeIdTaken`] when a compute node with this id is registered, and failures of
    /// the fabric. A future that is dropped half way may leave the id taken.
    pub async fn register(
        pool: &Pool,
        port: &Port,
        node: ComputeNodeId,
        settings: PoolSettings,
    ) -> Result<Arc<Epochs>, PoolError> {
        let word = SlotWord::new(Epoch::NONE_OLDER, 0);
        let old = port.compare_swap(slot_addr(node), SlotWord::EMPTY.bits(), word.bits()).await?;
        if old != SlotWord::EMPTY.bits() {
            return Err(PoolError::NodeIdTaken { node: node.get() });
        }
        // Advancing the epoch makes what it was a number that no other registration gets.
        let registration = port.advance(layout::EPOCH, 1).await?;
        Ok(Arc::new(Epochs {
            pool: pool.clone(),
            node,
            settings,
            registration,
            current: AtomicU64::new(registration + 1),
            phase: AtomicU8::new(IDLE),
            next_tick: AtomicU64::new(0),
            seats: Mutex::new(Vec::new()),
            slot: Turn::new(Slot { word, settled: true, sequence: 0 }),
            limbo: Limbo::default(),
        }))
    }

    /// Ends the registration, so that the id can be registered again. Lines that rest here, and
    /// what is left of the node's chunks, are not handed out any more.
    ///
    /// # Errors
    /// [`PoolError::Busy`] while a worker is online, and failures of the fabric.
    pub async fn unregister(&self, port: &Port) -> Result<(), PoolError> {
        let mut slot = self.slot.take().await;
        let before = self.phase.swap(LEFT, Ordering::SeqCst);
        if self.any_online() {
            self.phase.store(before, Ordering::SeqCst);
            return Err(PoolError::Busy { node: self.node.get() });
        }
        self.replace(port, &mut slot, None).await
    }

    /// Empties the slot of a node that died, so that it holds nobody's lines back any more. Nothing
    /// happens when it is empty.
    ///
    /// To be called only when every memory node and every compute node keeps that node out, in
    /// flight requests included, and its id is not given again: [`crate::epoch`] says why.
    ///
    /// # Errors
    /// [`PoolError::Busy`] when the slot changed meanwhile, so that somebody is not kept out after
    /// all; failures of the fabric.
    pub async fn retire(port: &Port, dead: ComputeNodeId) -> Result<(), PoolError> {
        let (slot, empty) = (slot_addr(dead), SlotWord::EMPTY.bits());
        let standing = port.read_word(slot).await?;
        // Of two that do this at a time, or of one that does not know how it ended, the second
        // finds it done.
        let found = repeatedly(async || port.compare_swap(slot, standing, empty).await).await?;
        if found == standing || found == empty {
            Ok(())
        } else {
            Err(PoolError::Busy { node: dead.get() })
        }
    }

    /// The compute node.
    pub fn node(&self) -> ComputeNodeId {
        self.node
    }

    /// The pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The settings that the node was registered with.
    pub fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// A number that tells this registration from all others of the pool.
    pub fn registration(&self) -> u64 {
        self.registration
    }

    /// The cluster's epoch as last seen here.
    pub fn current(&self) -> Epoch {
        Epoch(self.current.load(Ordering::Acquire))
    }

    /// Whether operations may begin without [`Epochs::set_active`].
    pub fn is_active(&self) -> bool {
        self.phase.load(Ordering::Acquire) == ACTIVE
    }

    /// Whether a [`Epochs::tick`] would do something at `now`. A few loads.
    pub fn tick_is_due(&self, now: Time) -> bool {
        self.is_active() && now.as_nanos() >= self.next_tick.load(Ordering::Relaxed)
    }

    /// Publishes a bound, stamps and releases freed lines: about once in
    /// [`PoolSettings::tick_interval`], and only while the node is active. One fetch-and-add, then
    /// a compare-and-swap when the bound advances, and a read of the slots when lines rest here.
    /// Returns whether it did anything.
    ///
    /// # Errors
    /// Failures of the fabric; the next tick tries again.
    pub async fn tick(&self, port: &Port, now: Time) -> Result<bool, PoolError> {
        if !self.tick_is_due(now) {
            return Ok(false);
        }
        self.advance(port, now).await
    }

    /// As [`Epochs::tick`], but at once and on an idle node too: for an allocation that depends on
    /// lines that rest here. Does nothing while another task is at it.
    pub(crate) async fn advance(&self, port: &Port, now: Time) -> Result<bool, PoolError> {
        let Some(mut slot) = self.slot.try_take() else { return Ok(false) };
        let next = now + self.settings.tick_interval;
        self.next_tick.store(next.as_nanos(), Ordering::Relaxed);
        let fresh = self.limbo.fresh();
        let add = u64::from(fresh > 0);
        let old = port.advance(layout::EPOCH, add).await?;
        self.limbo.stamp(fresh, Epoch(old));
        let seen = Epoch(old + add);
        self.current.fetch_max(seen.0, Ordering::AcqRel);
        // The phase changes only under the turn that is held here.
        if self.is_active() {
            let bound = self.oldest(seen);
            if slot.word.epoch().is_some_and(|standing| bound > standing) {
                self.replace(port, &mut slot, Some(bound)).await?;
            }
        }
        if self.limbo.has_stamped() {
            let safe = scan(port).await?;
            self.limbo.release(safe);
        }
        Ok(true)
    }

    /// Waits until every operation is over that was in progress on any node when this was called:
    /// advances the cluster's epoch, and looks at all slots about once in
    /// [`PoolSettings::tick_interval`] until each is past it. On the caller's own node none may be
    /// in progress. False when that is not so at `deadline`, as behind a node that died.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn outlast(
        &self,
        port: &Port,
        handle: &Handle,
        deadline: Time,
    ) -> Result<bool, PoolError> {
        // As a line that was made unreachable before: the reuse rule, with the same proof.
        let now = Epoch(port.advance(layout::EPOCH, 1).await?);
        while scan(port).await? <= now {
            if handle.now() >= deadline {
                return Ok(false);
            }
            handle.sleep(self.settings.tick_interval).await;
        }
        Ok(true)
    }

    /// Publishes that no operation is in progress. Returns whether the node is idle now: not while
    /// a worker is online, or while another task writes the slot.
    ///
    /// # Errors
    /// Failures of the fabric. The slot may still have a bound then; call again.
    pub async fn set_idle(&self, port: &Port) -> Result<bool, PoolError> {
        let Some(mut slot) = self.slot.try_take() else { return Ok(false) };
        if self.is_active() {
            self.phase.store(IDLE, Ordering::SeqCst);
            if self.any_online() {
                self.phase.store(ACTIVE, Ordering::SeqCst);
                return Ok(false);
            }
        }
        // The phase was idle before when another call was abandoned, or failed, half way.
        let published = slot.settled && slot.word.epoch() == Some(Epoch::NONE_OLDER);
        if !published && self.phase.load(Ordering::Acquire) == IDLE {
            self.replace(port, &mut slot, Some(Epoch::NONE_OLDER)).await?;
        }
        Ok(true)
    }

    /// Publishes a bound, so that workers may begin operations. One compare-and-swap; nothing when
    /// the node is active. Whoever calls this sees to it that [`Epochs::set_idle`] follows some
    /// time, also when the future was dropped: [`EpochWorker::enter`](super::EpochWorker::enter)
    /// does.
    ///
    /// # Errors
    /// [`PoolError::NotRegistered`] after [`Epochs::unregister`], [`PoolError::Timeout`] after
    /// [`PoolSettings::deadline`], and failures of the fabric.
    pub async fn set_active(&self, port: &Port, handle: &Handle) -> Result<(), PoolError> {
        let activate = async {
            let mut slot = self.slot.take().await;
            match self.phase.load(Ordering::Acquire) {
                ACTIVE => return Ok(()),
                LEFT => return Err(self.not_registered()),
                _ => {}
            }
            self.replace(port, &mut slot, Some(self.current())).await?;
            // The bound is old: the first tick is due at once.
            self.next_tick.store(0, Ordering::Relaxed);
            self.phase.store(ACTIVE, Ordering::SeqCst);
            Ok(())
        };
        let deadline = handle.now() + self.settings.deadline;
        handle.timeout(deadline, activate).await.unwrap_or(Err(PoolError::Timeout {
            what: "publishing the compute node's epoch",
            waited: self.settings.deadline,
        }))
    }

    pub(crate) fn limbo(&self) -> &Limbo {
        &self.limbo
    }

    pub(super) fn add_seat(&self, seat: &Arc<Seat>) {
        let mut seats = self.seats.lock();
        seats.retain(|seat| seat.strong_count() > 0);
        seats.push(Arc::downgrade(seat));
    }

    /// Whether any worker is online. Also the fence that the proof wants after `phase` was stored.
    pub(super) fn any_online(&self) -> bool {
        self.oldest(Epoch::NONE_OLDER) != Epoch::NONE_OLDER
    }

    /// The smallest of `seen` and all seats, which are looked at after a SeqCst fence.
    fn oldest(&self, seen: Epoch) -> Epoch {
        fence(Ordering::SeqCst);
        let seats = self.seats.lock();
        // A worker that is gone has no operation: its guards would keep the seat.
        seats.iter().filter_map(Weak::upgrade).map(|seat| seat.bound()).fold(seen, Epoch::min)
    }

    /// Writes the slot: a bound, or empty. Knows what stood there only after it has succeeded,
    /// since an earlier write may have been abandoned in flight.
    async fn replace(
        &self,
        port: &Port,
        slot: &mut TurnGuard<'_, Slot>,
        bound: Option<Epoch>,
    ) -> Result<(), PoolError> {
        // Each failure is the landing of one write that was abandoned, or whose end was ambiguous
        // (none is applied twice: the sequence differs); there are not many.
        const ABANDONED_MAX: u32 = 1000;
        for _ in 0..ABANDONED_MAX {
            slot.sequence += 1;
            slot.settled = false;
            let sequence = slot.sequence;
            let desired = bound.map_or(SlotWord::EMPTY, |epoch| SlotWord::new(epoch, sequence));
            let expected = slot.word.bits();
            let old = match port.compare_swap(slot_addr(self.node), expected, desired.bits()).await
            {
                Err(VerbError::Ambiguous { .. }) => continue,
                end => end?,
            };
            if old == expected {
                slot.word = desired;
                slot.settled = true;
                return Ok(());
            }
            slot.word = SlotWord::from_bits(old);
            if slot.word.epoch().is_none() {
                self.phase.store(LEFT, Ordering::SeqCst);
                return Err(self.not_registered());
            }
        }
        Err(PoolError::Corrupt { what: "epoch slot", addr: slot_addr(self.node) })
    }

    fn not_registered(&self) -> PoolError {
        PoolError::NotRegistered { node: self.node.get() }
    }
}

impl fmt::Debug for Epochs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epochs")
            .field("node", &self.node)
            .field("current", &self.current())
            .field("active", &self.is_active())
            .field("resting_lines", &self.limbo.waiting())
            .finish_non_exhaustive()
    }
}

fn slot_addr(node: ComputeNodeId) -> GlobalAddr {
    layout::epoch_slot(node.index())
}

/// The smallest bound that any registered node has published: stamps below it are safe.
async fn scan(port: &Port) -> Result<Epoch, PoolError> {
    let slots = port.read_words(layout::epoch_slot(0), ComputeNodeId::MAX as usize).await?;
    let bounds = slots.into_iter().filter_map(|bits| SlotWord::from_bits(bits).epoch());
    Ok(bounds.min().unwrap_or(Epoch::NONE_OLDER))
}
