//! [`Epochs`]: a compute node's part in the cluster's epochs.

use std::fmt;
use std::sync::{Arc, Weak};

use latchwork_fabric::Port;
use latchwork_runtime::sync::{AtomicU8, AtomicU64, Mutex, Ordering, fence};
use latchwork_runtime::{Handle, Time};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_assert_ne};
use latchwork_verbs::{ComputeNodeId, GlobalAddr, VerbError};

use super::seat::Seat;
use super::{Epoch, SlotWord};
use crate::again::repeatedly;
use crate::layout;
use crate::retired::Limbo;
use crate::task_mutex::{Turn, TurnGuard};
use crate::{Pool, PoolError, PoolSettings};

/// No operation begins. The slot has IDLE, or a later attempt writes IDLE.
const IDLE: u8 = 0;
/// The slot has a bound, so workers may begin operations.
const ACTIVE: u8 = 1;
/// The node is no longer registered.
const LEFT: u8 = 2;
const _: () =
    assert!(IDLE != ACTIVE && ACTIVE != LEFT && IDLE != LEFT, "each phase has its number");

/// A compute node's part in the cluster's epochs, shared by the node's workers. The protocol and
/// its proof are in [`crate::epoch`].
///
/// Each worker takes part through an [`EpochWorker`](super::EpochWorker), which calls these
/// functions at the right times. Every future may be dropped at any await.
pub struct Epochs {
    pool: Pool,
    node: ComputeNodeId,
    settings: PoolSettings,
    registration: u64,
    /// A copy of the cluster's epoch. The copy never exceeds the epoch and only grows.
    current: AtomicU64,
    phase: AtomicU8,
    next_tick: AtomicU64,
    seats: Mutex<Vec<Weak<Seat>>>,
    slot: Turn<Slot>,
    limbo: Limbo,
}

/// The node's knowledge of its own slot.
struct Slot {
    /// The last known word of the slot.
    word: SlotWord,
    /// No write is in flight or was abandoned in flight: the slot contains `word`.
    settled: bool,
    sequence: u64,
}

impl Epochs {
    /// Registers compute node `node`, as idle.
    ///
    /// # Errors
    /// [`PoolError::NodeIdTaken`] when a compute node with this id is registered, and failures of
    /// the fabric. A failure or a future that is dropped before its end may leave the id taken.
    pub async fn register(
        pool: &Pool,
        port: &Port,
        node: ComputeNodeId,
        settings: PoolSettings,
    ) -> Result<Arc<Epochs>, PoolError> {
        let word = SlotWord::new(Epoch::NONE_OLDER, 0);
        strict_assert!(word.epoch() == Some(Epoch::NONE_OLDER), "a new node delays no other node");
        let old = port.compare_swap(slot_addr(node), SlotWord::EMPTY.bits(), word.bits()).await?;
        if old != SlotWord::EMPTY.bits() {
            return Err(PoolError::NodeIdTaken { node: node.get() });
        }
        // This call advances the epoch, so no other registration gets the returned number.
        let registration = port.advance(layout::EPOCH, 1).await?;
        strict_assert!(registration > 0, "the cluster's epoch begins at 1");
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

    /// Ends the registration, so that the id can be registered again. The node's retired lines and
    /// the rest of its chunks are not allocated any more.
    ///
    /// # Errors
    /// [`PoolError::Busy`] while a worker is online, [`PoolError::NotRegistered`] when the slot is
    /// empty already, [`PoolError::Corrupt`] when the slot keeps changing, and failures of the
    /// fabric.
    pub async fn unregister(&self, port: &Port) -> Result<(), PoolError> {
        let mut slot = self.slot.take().await;
        let before = self.phase.swap(LEFT, Ordering::SeqCst);
        if self.any_online() {
            self.phase.store(before, Ordering::SeqCst);
            return Err(PoolError::Busy { node: self.node.get() });
        }
        self.replace(port, &mut slot, None).await
    }

    /// Reclaims a dead node: empties its slot, so that the slot delays no reuse of lines any more.
    /// Does nothing when the slot is empty.
    ///
    /// Call this only when every memory node and every compute node fences that node, requests in
    /// flight included, and no other node has its id: [`crate::epoch`] gives the reason.
    ///
    /// # Errors
    /// [`PoolError::Busy`] when the slot changed during the call, which shows that the dead node is
    /// not fenced everywhere; failures of the fabric.
    pub async fn retire(port: &Port, dead: ComputeNodeId) -> Result<(), PoolError> {
        let (slot, empty) = (slot_addr(dead), SlotWord::EMPTY.bits());
        let standing = port.read_word(slot).await?;
        // Two calls may run at the same time, and one call may not know its outcome. The later
        // compare-and-swap then finds the slot empty.
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

    /// The memory pool.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// The settings of the registration.
    pub fn settings(&self) -> &PoolSettings {
        &self.settings
    }

    /// A number that no other registration of the pool has.
    pub fn registration(&self) -> u64 {
        self.registration
    }

    /// The cluster's epoch that this node saw last.
    pub fn current(&self) -> Epoch {
        Epoch(self.current.load(Ordering::Acquire))
    }

    /// Whether operations may begin without [`Epochs::set_active`].
    pub fn is_active(&self) -> bool {
        self.phase.load(Ordering::Acquire) == ACTIVE
    }

    /// Whether [`Epochs::tick`] has work at `now`. Costs a few loads.
    pub(crate) fn tick_is_due(&self, now: Time) -> bool {
        self.is_active() && now.as_nanos() >= self.next_tick.load(Ordering::Relaxed)
    }

    /// Publishes a bound, marks freed lines and makes old ones ready. Runs about once in
    /// [`PoolSettings::tick_interval`], and only while the node is active. A tick is one
    /// fetch-and-add, then a compare-and-swap when the bound advances, and a read of the slots when
    /// marked lines wait. Returns whether the tick ran: `false` when no tick was due or another
    /// task writes the slot.
    ///
    /// # Errors
    /// Failures of the fabric; the next tick tries again.
    pub async fn tick(&self, port: &Port, now: Time) -> Result<bool, PoolError> {
        if !self.tick_is_due(now) {
            return Ok(false);
        }
        self.advance(port, now).await
    }

    /// Like [`Epochs::tick`], but at once and on an idle node too: for an allocation that depends
    /// on retired lines of this node. Does nothing while another task writes the slot.
    pub(crate) async fn advance(&self, port: &Port, now: Time) -> Result<bool, PoolError> {
        let Some(mut slot) = self.slot.try_take() else { return Ok(false) };
        let next = now + self.settings.tick_interval;
        self.next_tick.store(next.as_nanos(), Ordering::Relaxed);
        let fresh = self.limbo.fresh();
        let add = u64::from(fresh > 0);
        strict_assert!(add <= 1, "a tick advances the epoch by one at most");
        let old = port.advance(layout::EPOCH, add).await?;
        self.limbo.stamp(fresh, Epoch(old));
        let seen = Epoch(old + add);
        strict_assert!(
            self.current.load(Ordering::Acquire) <= seen.0,
            "the copy of the epoch is ahead of the epoch"
        );
        self.current.fetch_max(seen.0, Ordering::AcqRel);
        strict_assert!(self.current() >= seen, "the copy of the epoch runs backwards");
        // The phase changes only in the turn that is held here.
        if self.is_active() {
            let bound = self.oldest(seen);
            strict_assert!(bound <= seen, "a node publishes a bound above the epoch");
            if slot.word.epoch().is_some_and(|standing| bound > standing) {
                self.replace(port, &mut slot, Some(bound)).await?;
                strict_assert!(slot.settled, "a published bound is in the slot");
            }
        }
        if self.limbo.has_stamped() {
            let safe = scan(port).await?;
            strict_assert!(
                !self.is_active() || safe <= self.current() || safe == Epoch::NONE_OLDER,
                "lines are released above the epoch of an active node"
            );
            self.limbo.release(safe);
        }
        Ok(true)
    }

    /// Waits until all operations have ended that were in progress on any node at the call.
    ///
    /// The call advances the cluster's epoch, and reads all slots about once in
    /// [`PoolSettings::tick_interval`] until each slot is empty, IDLE or above that epoch. The
    /// caller's own node must have no operation in progress. Returns `false` if an operation is
    /// still in progress at `deadline`, or if a dead node's slot still has a bound.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn outlast(
        &self,
        port: &Port,
        handle: &Handle,
        deadline: Time,
    ) -> Result<bool, PoolError> {
        // The reuse rule, as for a line that was made unreachable before the call and is marked
        // with `now`.
        let now = Epochs::mark(port).await?;
        while scan(port).await? <= now {
            if handle.now() >= deadline {
                return Ok(false);
            }
            handle.sleep(self.settings.tick_interval).await;
        }
        Ok(true)
    }

    /// Advances the cluster's epoch, and returns the epoch from before. What became unreachable
    /// before the call has this epoch as its mark, like a freed line.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn mark(port: &Port) -> Result<Epoch, PoolError> {
        Ok(Epoch(port.advance(layout::EPOCH, 1).await?))
    }

    /// The smallest bound of all registered nodes: by the reuse rule, all operations have ended
    /// that had begun before a mark below it.
    ///
    /// # Errors
    /// Failures of the fabric.
    pub async fn oldest_bound(port: &Port) -> Result<Epoch, PoolError> {
        scan(port).await
    }

    /// Publishes that no operation is in progress. Returns whether the node is idle or no longer
    /// registered. Does nothing and returns `false` while a worker is online, or while another task
    /// writes the slot.
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
        // The phase was idle before if another call was dropped or failed before its end.
        let published = slot.settled && slot.word.epoch() == Some(Epoch::NONE_OLDER);
        if !published && self.phase.load(Ordering::Acquire) == IDLE {
            self.replace(port, &mut slot, Some(Epoch::NONE_OLDER)).await?;
        }
        strict_assert!(
            !self.any_online() || self.is_active(),
            "the node is idle while a worker is online"
        );
        Ok(true)
    }

    /// Publishes a bound, so that workers may begin operations. Costs one compare-and-swap, and one
    /// more for each write that was abandoned before; no verb when the node is active.
    /// The caller must ensure that [`Epochs::set_idle`] follows later, even if this future was
    /// dropped. [`EpochWorker::enter`](super::EpochWorker::enter) ensures that.
    ///
    /// # Errors
    /// [`PoolError::NotRegistered`] after [`Epochs::unregister`], [`PoolError::Timeout`] after
    /// [`PoolSettings::deadline`], [`PoolError::Corrupt`] when the slot keeps changing, and
    /// failures of the fabric.
    pub async fn set_active(&self, port: &Port, handle: &Handle) -> Result<(), PoolError> {
        let activate = async {
            let mut slot = self.slot.take().await;
            match self.phase.load(Ordering::Acquire) {
                ACTIVE => return Ok(()),
                LEFT => return Err(self.not_registered()),
                _ => {}
            }
            self.replace(port, &mut slot, Some(self.current())).await?;
            strict_assert!(
                self.phase.load(Ordering::Acquire) == IDLE,
                "only an idle node becomes active"
            );
            strict_assert_ne!(
                slot.word.epoch(),
                Some(Epoch::NONE_OLDER),
                "an active node publishes a bound"
            );
            // The bound is old, so the first tick is due at once.
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
        strict_assert!(
            seats.iter().filter_map(Weak::upgrade).filter(|other| Arc::ptr_eq(other, seat)).count()
                == 1,
            "a worker has one seat"
        );
    }

    /// Whether any worker is online. The call contains the memory fence that the proof requires
    /// after the store of `phase`.
    pub(super) fn any_online(&self) -> bool {
        self.oldest(Epoch::NONE_OLDER) != Epoch::NONE_OLDER
    }

    /// The smallest of `seen` and all seats. The seats are read after a SeqCst memory fence.
    fn oldest(&self, seen: Epoch) -> Epoch {
        fence(Ordering::SeqCst);
        let seats = self.seats.lock();
        // A dropped worker has no operation: its guards would keep the seat alive.
        seats.iter().filter_map(Weak::upgrade).map(|seat| seat.bound()).fold(seen, Epoch::min)
    }

    /// Writes the slot: a bound, or empty. The previous word is known only after a success, because
    /// an earlier write may have been abandoned in flight.
    async fn replace(
        &self,
        port: &Port,
        slot: &mut TurnGuard<'_, Slot>,
        bound: Option<Epoch>,
    ) -> Result<(), PoolError> {
        // An attempt fails only if an earlier write has landed whose future was dropped or whose
        // outcome was ambiguous. There are few such writes. No write of a bound or IDLE is applied
        // twice, because the sequence numbers differ.
        strict_assert!(
            slot.sequence < u64::MAX - u64::from(ABANDONED_MAX),
            "the sequence numbers wrap"
        );
        const ABANDONED_MAX: u32 = 1000;
        let mut was_ambiguous = false;
        for _ in 0..ABANDONED_MAX {
            slot.sequence += 1;
            slot.settled = false;
            let sequence = slot.sequence;
            let desired = bound.map_or(SlotWord::EMPTY, |epoch| SlotWord::new(epoch, sequence));
            let expected = slot.word.bits();
            strict_assert_ne!(
                slot.word.bits(),
                desired.bits(),
                "two writes of a slot have different words"
            );
            let old = match port.compare_swap(slot_addr(self.node), expected, desired.bits()).await
            {
                Err(VerbError::Ambiguous { .. }) => {
                    was_ambiguous = true;
                    continue;
                }
                end => end?,
            };
            // An emptied slot changes only when a node registers with this id, and that needs an
            // empty slot. So an empty slot after an ambiguous write of empty is its effect.
            let took_effect = was_ambiguous && old == desired.bits() && bound.is_none();
            if old == expected || took_effect {
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

/// The smallest bound that any registered node has published: lines with a mark below it are safe.
async fn scan(port: &Port) -> Result<Epoch, PoolError> {
    let slots = port.read_words(layout::epoch_slot(0), ComputeNodeId::MAX as usize).await?;
    strict_assert_eq!(slots.len(), ComputeNodeId::MAX as usize, "each node has a slot");
    let bounds = slots.into_iter().filter_map(|bits| SlotWord::from_bits(bits).epoch());
    Ok(bounds.min().unwrap_or(Epoch::NONE_OLDER))
}
