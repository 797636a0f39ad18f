//! Scratch memory of a port: registered, cut into slots, for the reads and writes of the control
//! plane.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::task::{Poll, Waker};

use latchwork_verbs::{LocalBuffer, Region, RegionKey, Words};

use crate::operations::SlotIndex;

/// Bytes in one slot; longer transfers are cut.
pub(crate) const SLOT_BYTES: usize = 4096;

/// Slots of one port: transfers of the control plane at a time.
pub(crate) const SLOTS: u16 = 16;

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
    /// `region` is registered under `key` and `SLOTS * SLOT_BYTES` long.
    pub(crate) fn new(region: Arc<Region>, key: RegionKey) -> Self {
        let state = State { free: (0..SLOTS).collect(), waiting: Vec::new() };
        Scratch { region, key, state: RefCell::new(state) }
    }

    /// A free slot, as soon as there is one. The wait is for a completion, which every fabric
    /// gives.
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

    /// Takes over a slot that a batch had.
    pub(crate) fn adopt(&self, index: SlotIndex) -> Slot<'_> {
        Slot { index, scratch: self }
    }
}

/// A slot that no verb uses; free again when dropped.
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

    /// Leaves the slot taken: a batch that was posted has its index now.
    pub(crate) fn leave_to_batch(self) {
        std::mem::forget(self);
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let waiting = {
            let mut state = self.scratch.state.borrow_mut();
            state.free.push(self.index);
            std::mem::take(&mut state.waiting)
        };
        // All of them: the one that would be chosen may have been dropped meanwhile.
        waiting.into_iter().for_each(Waker::wake);
    }
}
