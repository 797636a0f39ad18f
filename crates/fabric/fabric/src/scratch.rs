//! Scratch memory of a port: registered slots for the reads and writes of the control plane.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};

use latchwork_strict::{strict_assert, strict_assert_eq};
use latchwork_verbs::{LocalBuffer, Region, RegionKey, Words};

use crate::operations::SlotIndex;

/// The bytes of one slot. A longer transfer takes several pieces, one after another.
pub(crate) const SLOT_BYTES: usize = 4096;

/// The number of slots of one port. At most this many control-plane transfers with a buffer run at
/// one time.
pub(crate) const SLOTS: u16 = 16;
const _: () = assert!(SLOT_BYTES.is_multiple_of(8), "a slot holds whole words");
const _: () = assert!(SLOTS > 0, "a transfer of the control plane needs a slot");

/// The registered memory of a port, divided into slots, and the list of free slots.
pub(crate) struct Scratch {
    region: Arc<Region>,
    key: RegionKey,
    state: RefCell<State>,
}

struct State {
    free: Vec<SlotIndex>,
    waiting: Vec<Waker>,
}

impl Scratch {
    /// `region` is registered under `key` and is `SLOTS * SLOT_BYTES` long.
    pub(crate) fn new(region: Arc<Region>, key: RegionKey) -> Self {
        strict_assert_eq!(region.len(), usize::from(SLOTS) * SLOT_BYTES, "room for all slots");
        let state = State { free: (0..SLOTS).collect(), waiting: Vec::new() };
        Scratch { region, key, state: RefCell::new(state) }
    }

    /// The key of the slots' memory.
    pub(crate) fn key(&self) -> RegionKey {
        self.key
    }

    /// Waits for a free slot. The wait ends when any slot of this port is dropped. A slot of a
    /// batch is dropped at the latest after the completion, and the fabric completes every batch.
    pub(crate) async fn slot(&self) -> Slot<'_> {
        let index = std::future::poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            match state.free.pop() {
                Some(index) => Poll::Ready(index),
                None => {
                    state.waiting.push(context.waker().clone());
                    Poll::Pending
                }
            }
        });
        Slot { index: index.await, scratch: self }
    }

    /// Makes the value for the slot of a completed batch.
    pub(crate) fn adopt(&self, index: SlotIndex) -> Slot<'_> {
        // While a thread unwinds, its dropped futures adopt their slots, too, so the assertions do
        // not hold there.
        strict_assert!(index < SLOTS || std::thread::panicking(), "slot {index} of {SLOTS}");
        strict_assert!(
            !self.state.borrow().free.contains(&index) || std::thread::panicking(),
            "slot {index} of a completed batch is free already"
        );
        Slot { index, scratch: self }
    }
}

/// A slot that no verb uses. Dropping it frees the slot.
pub(crate) struct Slot<'a> {
    index: SlotIndex,
    scratch: &'a Scratch,
}

impl Slot<'_> {
    fn range(&self, len: usize) -> Range<usize> {
        assert!(len <= SLOT_BYTES, "longer than a slot");
        let start = usize::from(self.index) * SLOT_BYTES;
        start..start + len
    }

    /// The first `len` bytes as a local buffer.
    pub(crate) fn buffer(&self, len: usize) -> LocalBuffer {
        let offset = self.range(len).start as u64;
        LocalBuffer { region: self.scratch.key, offset, len: len as u32 }
    }

    /// The first `len` bytes.
    pub(crate) fn words(&self, len: usize) -> Words<'_> {
        self.scratch.region.words().slice(self.range(len))
    }

    pub(crate) fn index(&self) -> SlotIndex {
        self.index
    }

    /// Forgets the value without a release, because a posted batch now owns the slot by its index.
    pub(crate) fn leave_to_batch(self) {
        std::mem::forget(self);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.scratch.state.borrow_mut();
            // While a thread unwinds, it drops its slots, too, so the assertion does not hold
            // there.
            strict_assert!(
                !state.free.contains(&self.index) || std::thread::panicking(),
                "slot {} is freed twice",
                self.index
            );
            state.free.push(self.index);
            std::mem::take(&mut state.waiting)
        };
        // All waiters are woken, because the future of a single woken waiter may have been dropped
        // before its poll.
        waiting.into_iter().for_each(Waker::wake);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seeded bug: two owners have one slot, so two transfers would use the same bytes.
    #[test]
    #[should_panic(expected = "is freed twice")]
    fn a_slot_that_is_freed_twice_is_found() {
        let region = Region::zeroed(usize::from(SLOTS) * SLOT_BYTES).expect("memory");
        let scratch = Scratch::new(region, RegionKey(0));
        let taken = scratch.state.borrow_mut().free.pop().expect("all are free");
        let (first, second) = (scratch.adopt(taken), scratch.adopt(taken));
        drop(first);
        drop(second);
    }
}
