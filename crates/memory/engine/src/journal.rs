//! The journal slots of one worker. A write-back that the death of this node could tear goes into a
//! slot first, in the same batch ([`latchwork_memnode::journal`] has the content of a slot).
//!
//! A slot belongs to one operation until the operation is over. When no slot is free, the protocol
//! posts the operation later. A slot of an operation that failed without an end is never used
//! again: its line may be torn, and only the slot has all bytes.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use latchwork_fabric::Port;
use latchwork_memnode::Journal;
use latchwork_memnode::journal::SLOT_HEAD;
use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::{
    GlobalAddr, LocalBuffer, MemoryNodeId, Region, RegionKey, Target, VerbError, Words, WorkRequest,
};

/// The slots of one worker.
pub(crate) struct WorkerJournal {
    journal: Arc<Journal>,
    /// WRITEs up to this length in bytes need no slot.
    whole: u32,
    /// The length in bytes of the image of a slot.
    image: usize,
    /// The memory nodes that this worker has written back to. Ordered by id, so that replays of a
    /// world are equal.
    queues: RefCell<BTreeMap<MemoryNodeId, Queue>>,
}

/// The slots on one memory node.
struct Queue {
    /// The images of all slots. `None` when the memory could not be allocated or registered.
    memory: Option<(Arc<Region>, RegionKey)>,
    /// The offsets of the slots on the memory node.
    slots: Vec<u64>,
    free: Vec<usize>,
    /// The number of slots that operations have.
    used: usize,
}

impl Queue {
    fn check(&self) {
        let (free, used, slots) = (self.free.len(), self.used, self.slots.len());
        assert!(free + used <= slots, "{free} free and {used} used journal slots of {slots}");
    }
}

/// A journal slot of an operation.
#[derive(Clone, Copy, Debug)]
pub struct JournalSlot {
    node: MemoryNodeId,
    index: u32,
}

/// How a write-back uses the journal.
#[derive(Debug)]
pub enum Journaled {
    /// Not at all: its WRITE is whole in any case.
    Whole,
    /// By this slot.
    Slot(JournalSlot),
    /// It has to wait until an operation of this worker returns a slot.
    Later,
}

impl WorkerJournal {
    /// The slots of a worker with this port. `None` when no write-back of the worker can be torn.
    pub(crate) fn new(journal: &Arc<Journal>, port: &Port, line_size: usize) -> Option<Self> {
        let whole = port.whole_write();
        (whole < line_size as u32).then(|| WorkerJournal {
            journal: journal.clone(),
            whole,
            image: SLOT_HEAD + line_size,
            queues: RefCell::default(),
        })
    }

    fn new_queue(&self, node: MemoryNodeId, port: &Port) -> Queue {
        let slots = self.journal.take(node);
        let region = Region::zeroed(slots.len() * self.image).ok();
        let memory = region.and_then(|region| Some((region.clone(), port.register(region).ok()?)));
        let free = if memory.is_some() { (0..slots.len()).rev().collect() } else { Vec::new() };
        Queue { memory, slots, free, used: 0 }
    }
}

impl Drop for WorkerJournal {
    fn drop(&mut self) {
        // A slot that an operation has is not returned: its batch may still take effect.
        for (node, queue) in self.queues.get_mut() {
            let slots = &queue.slots;
            self.journal.give_back(*node, queue.free.drain(..).map(|index| slots[index]));
        }
    }
}

impl WorkerJournal {
    /// Takes a slot for the write-back of these dirty bytes of `line`, and copies them. `words` has
    /// the words of the line, and does not change.
    ///
    /// # Errors
    /// [`VerbError::Unreachable`] when the worker has no slot on the memory node, and no operation
    /// will return one. Nothing was sent.
    pub(crate) fn take(
        &self,
        port: &Port,
        line: GlobalAddr,
        words: Words<'_>,
        range: Range<usize>,
    ) -> Result<Journaled, VerbError> {
        if range.len() <= self.whole as usize {
            return Ok(Journaled::Whole);
        }
        let node = line.node();
        let mut queues = self.queues.borrow_mut();
        let queue = queues.entry(node).or_insert_with(|| self.new_queue(node, port));
        let (Some((memory, _)), Some(index)) = (&queue.memory, queue.free.pop()) else {
            return match queue.used {
                0 => Err(VerbError::Unreachable { target: Target::Memory(node) }),
                _ => Ok(Journaled::Later),
            };
        };
        queue.used += 1;
        strict_check!(queue);
        let (start, len) = (index * self.image, SLOT_HEAD + range.len());
        let image = memory.words().slice(start..start + len);
        image.slice(SLOT_HEAD..len).copy_from(words.slice(range.clone()));
        self.journal.seal(image, line, range.clone());
        Ok(Journaled::Slot(JournalSlot { node, index: index as u32 }))
    }

    /// The requests of a write-back of these bytes of `line` through their slot, in their order.
    ///
    /// 1. The slot gets the bytes, with its seal.
    /// 2. The line gets the bytes.
    /// 3. The slot is cleared. This comes before the atomic of the batch, so an operation that was
    ///    applied has a clear slot.
    pub(crate) fn requests(
        &self,
        slot: JournalSlot,
        line: GlobalAddr,
        range: Range<usize>,
    ) -> [WorkRequest; 3] {
        let (queues, index) = (self.queues.borrow(), slot.index as usize);
        let queue = queues.get(&slot.node).expect("a slot that this journal has given");
        let (_, region) = queue.memory.as_ref().expect("slots have memory for their images");
        let (remote, offset) = (queue.slots[index], (index * self.image) as u64);
        let (head, len) = (SLOT_HEAD as u32, range.len() as u32);
        let image = LocalBuffer { region: *region, offset, len: head + len };
        let changes = LocalBuffer { offset: offset + u64::from(head), len, ..image };
        [
            WorkRequest::Write { remote, local: image },
            WorkRequest::Write { remote: line.offset() + range.start as u64, local: changes },
            WorkRequest::WriteWord { remote, value: 0 },
        ]
    }

    /// Returns the slot of an operation that is over. `ended`: the operation was applied or never
    /// will be. Otherwise the slot is kept for ever.
    pub(crate) fn give_back(&self, slot: JournalSlot, ended: bool) {
        if let Some(queue) = self.queues.borrow_mut().get_mut(&slot.node) {
            strict_assert!(queue.used > 0, "a journal slot is returned twice: {slot:?}");
            queue.used -= 1;
            match ended {
                true => queue.free.push(slot.index as usize),
                false => self.journal.keep(),
            }
            strict_check!(queue);
        }
    }

    /// The number of slots that operations have.
    pub(crate) fn taken(&self) -> usize {
        self.queues.borrow().values().map(|queue| queue.used).sum()
    }
}
