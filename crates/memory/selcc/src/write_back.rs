//! The write-back slots (SELCC 5.2.1): registered memory for copies of the changes of evicted
//! lines. The frame of a copied line is free before its changes have arrived in memory.
//!
//! Each worker has a fixed number of slots for each memory node, that is, for each of its queue
//! pairs. A slot belongs to one write-back operation until that operation is complete, however
//! often it is posted. Eviction never waits for a slot: without a free slot, the line is written
//! back from its frame, and the frame is free when that is complete.
//!
//! Free slots are in a list and not in the order of a ring. In a ring, an operation that has to be
//! posted again would hold up the slots of all later operations.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use latchwork_cache::{DirtyBounds, FrameId};
use latchwork_fabric::Port;
use latchwork_verbs::{GlobalAddr, LocalBuffer, MemoryNodeId, Region, RegionKey};

use crate::worker::Inner;

/// The slots of one worker.
pub(crate) struct WriteBackRing {
    /// The number of slots for each memory node.
    slots: usize,
    line_size: usize,
    /// The memory nodes that this worker has written back to. Ordered by id, so that replays of a
    /// world are equal.
    queues: RefCell<BTreeMap<MemoryNodeId, Queue>>,
}

/// The slots for one memory node.
struct Queue {
    /// `None` when no memory or no key was available.
    memory: Option<(Arc<Region>, RegionKey)>,
    free: Vec<usize>,
}

/// A write-back slot: room for one line. The changes are at the same offsets as in the line.
#[derive(Debug)]
pub(crate) struct Slot {
    node: MemoryNodeId,
    index: usize,
    buffer: LocalBuffer,
}

impl Slot {
    pub(crate) fn buffer(&self) -> LocalBuffer {
        self.buffer
    }
}

impl WriteBackRing {
    /// Makes `slots` slots for each memory node. The first write-back to a memory node allocates
    /// them.
    pub(crate) fn new(slots: usize, line_size: usize) -> Self {
        WriteBackRing { slots, line_size, queues: RefCell::default() }
    }

    /// The number of slots in use.
    pub(crate) fn taken(&self) -> usize {
        let queues = self.queues.borrow();
        let used =
            |queue: &Queue| queue.memory.as_ref().map_or(0, |_| self.slots - queue.free.len());
        queues.values().map(used).sum()
    }

    /// Takes a free slot for a line of `node`, with the memory that contains the slot.
    fn take(&self, node: MemoryNodeId, port: &Port) -> Option<(Slot, Arc<Region>)> {
        if self.slots == 0 {
            return None;
        }
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(node).or_insert_with(|| self.new_queue(port));
        let (memory, region) = queue.memory.as_ref()?;
        let index = queue.free.pop()?;
        let (offset, len) = ((index * self.line_size) as u64, self.line_size as u32);
        let buffer = LocalBuffer { region: *region, offset, len };
        Some((Slot { node, index, buffer }, memory.clone()))
    }

    fn new_queue(&self, port: &Port) -> Queue {
        let bytes = self.slots.checked_mul(self.line_size);
        let memory = bytes.and_then(|bytes| Region::zeroed(bytes).ok()).and_then(|region| {
            let key = port.register(region.clone()).ok()?;
            Some((region, key))
        });
        let free = if memory.is_some() { (0..self.slots).rev().collect() } else { Vec::new() };
        Queue { memory, free }
    }

    fn give_back(&self, slot: &Slot) {
        if let Some(queue) = self.queues.borrow_mut().get_mut(&slot.node) {
            queue.free.push(slot.index);
        }
    }
}

impl Inner {
    /// Copies the dirty bytes of a line whose writers are shut out. `None` when the line is clean
    /// or no slot is free.
    pub(crate) fn copy_out(
        &self,
        addr: GlobalAddr,
        id: FrameId,
        dirty: &DirtyBounds,
    ) -> Option<Slot> {
        let range = dirty.range();
        if range.is_empty() {
            return None;
        }
        let Some((slot, memory)) = self.write_backs.take(addr.node(), &self.port) else {
            self.counters.write_backs_in_frame.add(1);
            return None;
        };
        let start = slot.buffer.offset as usize + range.start;
        let to = memory.words().slice(start..start + range.len());
        to.copy_from(self.node.cache.line(id).slice(range.clone()));
        if let Some(costs) = &self.costs {
            self.handle.charge(costs.copy(range.len()));
        }
        self.counters.write_backs_copied.add(1);
        Some(slot)
    }

    /// Returns the slot, if any, of an operation that is over.
    pub(crate) fn give_slot_back(&self, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.write_backs.give_back(&slot);
        }
    }
}
