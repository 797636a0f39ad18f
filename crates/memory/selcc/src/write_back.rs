//! The write-back ring (SELCC 5.2.1): registered memory to which the changes of evicted lines are
//! copied, so that their frames are free before the changes have arrived.
//!
//! Each worker has so many slots for each memory node, which is each of its queue pairs. A slot
//! belongs to the operation that writes back from it until that is complete, however often it is
//! posted. When there is none left nobody waits: the line is written back from its frame, which is
//! free when that is complete.
//!
//! Slots are handed out from a list of free ones, not in a ring's order: an operation that has to
//! be posted again would hold up the slots of all behind it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use latchwork_cache::{DirtyBounds, FrameId};
use latchwork_fabric::Port;
use latchwork_verbs::{GlobalAddr, LocalBuffer, MemoryNodeId, Region, RegionKey};

use crate::worker::Inner;

/// The slots of one worker.
pub(crate) struct WriteBackRing {
    /// For each memory node.
    slots: usize,
    line_size: usize,
    /// Those that were written back to. In the order of their ids, so that worlds stay the same.
    queues: RefCell<BTreeMap<MemoryNodeId, Queue>>,
}

/// The slots for one memory node.
struct Queue {
    /// `None` when there was no memory for it, or no key.
    memory: Option<(Arc<Region>, RegionKey)>,
    free: Vec<usize>,
}

/// A place for one line; the changes are where they are in the line.
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
    /// Room for `slots` lines for each memory node. Takes memory when there is something to write
    /// back.
    pub(crate) fn new(slots: usize, line_size: usize) -> Self {
        WriteBackRing { slots, line_size, queues: RefCell::default() }
    }

    /// Slots that are in use.
    pub(crate) fn taken(&self) -> usize {
        let queues = self.queues.borrow();
        let used =
            |queue: &Queue| queue.memory.as_ref().map_or(0, |_| self.slots - queue.free.len());
        queues.values().map(used).sum()
    }

    /// A free slot for a line of `node`, with the memory that it is a part of.
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
    /// Copies what changed of a line that nobody can write any more. `None` when nothing did, and
    /// when there is no room.
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

    /// The operation that wrote back from it is over.
    pub(crate) fn give_slot_back(&self, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.write_backs.give_back(&slot);
        }
    }
}
