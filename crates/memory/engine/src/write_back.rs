//! The write-back slots (SELCC 5.2.1): registered memory for copies of the changes of evicted
//! lines. The frame of a copied line can be free before its changes have arrived in memory.
//!
//! Each worker has a fixed number of slots for each memory node, as SELCC has for each queue pair.
//! A slot belongs to one write-back operation until that operation is complete, however often the
//! operation is posted. Eviction never waits for a slot. Without a free slot, the line is written
//! back from its frame, and the frame is free when the write-back is complete.
//!
//! Free slots are in a list and not in the order of a ring. In a ring, an operation that has to be
//! posted again would delay the reuse of the slots of all later operations.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use latchwork_fabric::Port;
use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::{LocalBuffer, MemoryNodeId, Region, RegionKey, Words};

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
    /// `None` when the memory could not be allocated or registered with the fabric.
    memory: Option<(Arc<Region>, RegionKey)>,
    /// The offsets of the free slots in that memory.
    free: Vec<u64>,
}

impl Queue {
    fn check(&self, slots: usize) {
        assert!(self.free.len() <= slots, "{} of {slots} slots are free", self.free.len());
        assert!(
            self.memory.is_some() || self.free.is_empty(),
            "a slot is free in memory that does not exist"
        );
    }
}

/// A write-back slot: room for one line. The changes are at the same offsets as in the line.
#[derive(Debug)]
pub struct Slot {
    node: MemoryNodeId,
    buffer: LocalBuffer,
}

impl Slot {
    /// The slot as a buffer of the size of a line.
    #[inline]
    pub fn buffer(&self) -> LocalBuffer {
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

    /// Copies `range` of `line`, a line of `node`, into a free slot. `None` when no slot is free.
    pub(crate) fn copy_out(
        &self,
        node: MemoryNodeId,
        port: &Port,
        line: Words<'_>,
        range: Range<usize>,
    ) -> Option<Slot> {
        if self.slots == 0 {
            return None;
        }
        strict_assert!(!range.is_empty(), "a slot is taken to copy nothing");
        strict_assert!(range.end <= self.line_size, "a copy of {range:?} reaches the next slot");
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(node).or_insert_with(|| self.new_queue(port));
        let (memory, region) = queue.memory.as_ref()?;
        let (offset, len) = (queue.free.pop()?, self.line_size as u32);
        let start = offset as usize + range.start;
        memory.words().slice(start..start + range.len()).copy_from(line.slice(range));
        Some(Slot { node, buffer: LocalBuffer { region: *region, offset, len } })
    }

    fn new_queue(&self, port: &Port) -> Queue {
        let bytes = self.slots.checked_mul(self.line_size);
        let memory = bytes.and_then(|bytes| Region::zeroed(bytes).ok()).and_then(|region| {
            let key = port.register(region.clone()).ok()?;
            Some((region, key))
        });
        let offsets = (0..self.slots).rev().map(|index| (index * self.line_size) as u64);
        let free = if memory.is_some() { offsets.collect() } else { Vec::new() };
        let queue = Queue { memory, free };
        strict_check!(queue, self.slots);
        queue
    }

    /// Calls `act` with the words of a slot, which are those of a line.
    pub(crate) fn with<T>(&self, slot: &Slot, act: impl FnOnce(Words<'_>) -> T) -> T {
        let queues = self.queues.borrow();
        let memory = queues.get(&slot.node).and_then(|queue| queue.memory.as_ref());
        let (region, _) = memory.expect("a slot that this ring has given");
        let start = slot.buffer.offset as usize;
        act(region.words().slice(start..start + self.line_size))
    }

    /// Returns the slot of an operation that is over.
    #[inline]
    pub(crate) fn give_back(&self, slot: &Slot) {
        if let Some(queue) = self.queues.borrow_mut().get_mut(&slot.node) {
            let offset = slot.buffer.offset;
            strict_assert!(
                !queue.free.contains(&offset),
                "the slot at {offset} of {:?} is free already",
                slot.node
            );
            queue.free.push(offset);
            strict_check!(queue, self.slots);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Mistake: an operation that ends returns its slot twice. Two lines would be copied into one
    /// slot, and one of them would be written back with the bytes of the other.
    #[test]
    #[should_panic(expected = "is free already")]
    fn a_slot_that_is_given_back_twice_is_found() {
        let ring = WriteBackRing::new(2, 64);
        let region = Region::zeroed(128).expect("memory");
        let memory = Some((region, RegionKey(0)));
        let node = MemoryNodeId(0);
        ring.queues.borrow_mut().insert(node, Queue { memory, free: Vec::new() });
        let buffer = LocalBuffer { region: RegionKey(0), offset: 64, len: 64 };
        let slot = Slot { node, buffer };
        ring.give_back(&slot);
        ring.give_back(&slot);
    }
}
