//! Word operations: posting, completion, and recovery from an ambiguous completion.
//!
//! A connection that fails under a batch cuts the batch off at one of its requests. The requests
//! before the cut have taken effect, and the requests behind the cut never take effect. So the node
//! can probe the latch word at any later time: the node's own field shows whether the operation was
//! applied. The table of the module `probe` in `latchwork-latch` has the argument.
//!
//! - Applied: the operation has ended like any other. Where the operation reads the line, the probe
//!   has the READ of the line behind it.
//! - Not applied: the operation is posted again, together with its write-back. The bytes are still
//!   the same. Either writers are shut out until the operation is complete, or the bytes were
//!   copied ([`latchwork_engine`]). The dirty bounds are kept with the operation.
//! - Undecided, or probed [`TRIES_MAX`] times: the operation fails, and so does its line.
//!
//! With [`Rules::survive`] a write-back that the death of this node could tear goes through a
//! journal slot. Without a free slot the operation waits here until another one ends.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use latchwork_cache::{DirtyBounds, FrameId};
use latchwork_engine::{JournalSlot, Journaled, Slot, TRIES_MAX, WorkerCore};
use latchwork_latch::{Action, LatchWord, Rules, WordOp, WordProbe, WordVerb};
use latchwork_strict::{strict_assert, strict_assert_eq, strict_check};
use latchwork_verbs::{BATCH_MAX, GlobalAddr, LocalBuffer, Target, VerbError, WorkRequest as Verb};
use slab::Slab;

use crate::counts::LatchCount;
use crate::line::take_whole;

/// The kind of a batch of word operations, encoded in its tag.
#[derive(Clone, Copy, Debug)]
enum Tag {
    /// A word operation: the key of its group.
    Operation(usize),
    /// A probe of the latch word after an ambiguous completion: the key of the operation's group.
    Inspection(usize),
}

impl Tag {
    fn bits(self) -> u64 {
        match self {
            Tag::Operation(key) => (key as u64) << 1,
            Tag::Inspection(key) => (key as u64) << 1 | 1,
        }
    }

    fn from_bits(bits: u64) -> Tag {
        let key = (bits >> 1) as usize;
        if bits & 1 == 0 { Tag::Operation(key) } else { Tag::Inspection(key) }
    }
}

/// The rules under which most operations write back.
const SURVIVE: Rules = Rules { survive: true, ..Rules::DISCIPLINE };

/// A word operation with its forwards.
#[derive(Debug)]
struct Group {
    addr: GlobalAddr,
    /// The operation and the local buffer of the line's bytes. Set when the operation is posted:
    /// the forwards are posted before it.
    op: Option<(WordOp, LocalBuffer)>,
    /// The dirty bounds that the operation writes back.
    dirty: DirtyBounds,
    /// The write-back slot, if the operation does not write back from the frame.
    slot: Option<Slot>,
    /// The journal slot of the write-back, if its WRITE can be torn.
    journal: Option<JournalSlot>,
    old: u64,
    /// The step of a round in which the group was made. A node has no 2^32 of them.
    step: u32,
    /// The batches in flight: at most one for each node, and the operation.
    left: u16,
    tries: u8,
    failed: Option<VerbError>,
}

impl Group {
    /// The relations of the fields while a batch is in flight.
    fn check(&self) {
        assert!(self.left > 0, "no batch is in flight, and the operation has not ended: {self:?}");
        assert!(self.tries <= TRIES_MAX, "the word is probed without an end: {self:?}");
        assert!(self.op.is_some() || self.tries == 0, "only an operation is probed: {self:?}");
        assert!(
            self.dirty.is_empty() || self.op.is_some_and(|(op, _)| op.writes_back(&SURVIVE)),
            "bytes go to memory with an operation that does not write back: {self:?}"
        );
        let copies = |(op, _)| matches!(op, WordOp::ReleaseExclusive | WordOp::Persist);
        let copies = self.op.is_some_and(copies);
        assert!(self.slot.is_none() || copies, "no other operation copies its line: {self:?}");
        assert!(
            self.slot.is_none() || !self.dirty.is_empty(),
            "a slot is taken for a clean line: {self:?}"
        );
        assert!(
            self.journal.is_none() || !self.dirty.is_empty(),
            "a journal slot is taken for a clean line: {self:?}"
        );
    }
}

/// The end of a word operation and its forwards.
#[derive(Debug)]
pub struct Finished {
    /// The operation. `None`: it could not be posted.
    pub(crate) op: Option<WordOp>,
    /// The word before the operation.
    pub(crate) old: LatchWord,
    /// The error of the operation. Whether the operation was applied may be unknown.
    pub(crate) failed: Option<VerbError>,
}

/// The word operations of one worker in flight, with their forwards.
#[derive(Default)]
pub struct Operations {
    groups: RefCell<Slab<Group>>,
    /// The operations that wait for a journal slot, with the frames of their lines.
    waiting: RefCell<VecDeque<(usize, FrameId)>>,
    /// The ends of operations that waited for a slot and can get none.
    ended: RefCell<Vec<(GlobalAddr, Finished)>>,
    /// The copied changes for the next [`WordOp::Persist`].
    pub(crate) copied: Cell<Option<(DirtyBounds, Slot)>>,
    // Empty between calls; kept for its capacity.
    pub(crate) actions: RefCell<Vec<Action>>,
}

impl Operations {
    /// Adds a batch to this group, or to a new group. Returns the key of the group.
    #[inline]
    pub(crate) fn join(&self, key: &mut Option<usize>, addr: GlobalAddr, step: u64) -> usize {
        let mut groups = self.groups.borrow_mut();
        let key = *key.get_or_insert_with(|| {
            groups.insert(Group {
                addr,
                op: None,
                dirty: DirtyBounds::EMPTY,
                slot: None,
                journal: None,
                old: 0,
                step: step as u32,
                left: 0,
                tries: 0,
                failed: None,
            })
        });
        let group = &mut groups[key];
        strict_assert_eq!(group.addr, addr, "the batches of one operation are about one line");
        group.left += 1;
        strict_check!(group);
        key
    }

    /// Whether a group is in flight that was made before this step of a round.
    pub(crate) fn has_older(&self, step: u64) -> bool {
        self.groups.borrow().iter().any(|(_, group)| u64::from(group.step) < step)
    }

    /// Takes a batch that was not posted out of its group again, before the group's operation is
    /// posted.
    pub(crate) fn unjoin(&self, key: &mut Option<usize>) {
        let Some(group) = *key else { return };
        let mut groups = self.groups.borrow_mut();
        groups[group].left -= 1;
        if groups[group].left == 0 {
            groups.remove(group);
            *key = None;
        }
    }

    /// Posts a word operation on the line in frame `id`. Returns false only if no verb of the
    /// operation reads or writes the frame. Otherwise the frame must not change until the operation
    /// is complete.
    ///
    /// Forwards of the same group use the frame as well. So only an operation that has no forwards
    /// may return false.
    ///
    /// `SURVIVES` is [`Rules::survive`]. An operation that needs no journal pays nothing for it.
    #[inline]
    pub(crate) fn post<const SURVIVES: bool>(
        &self,
        worker: &WorkerCore,
        addr: GlobalAddr,
        id: FrameId,
        op: WordOp,
        rules: &Rules,
        mut group: Option<usize>,
    ) -> Result<bool, VerbError> {
        let key = self.join(&mut group, addr, worker.node.step());
        // Only a release can free its frame at once. A node that hands a line over or keeps a copy
        // does not release the line, so copying pays for no other operation.
        let evicts = op == WordOp::ReleaseExclusive;
        let (dirty, slot, journaled) = match SURVIVES {
            true => self.changes_that_survive(worker, addr, id, op, rules),
            false if op.writes_back(rules) => {
                let dirty = worker.take_dirty(id);
                (dirty, if evicts { worker.copy_out(addr, id, &dirty) } else { None }, None)
            }
            false => (DirtyBounds::EMPTY, None, None),
        };
        strict_assert_eq!(worker.node.cache().frame(id).addr(), addr, "the frame of another line");
        strict_assert!(
            dirty.range().end <= worker.node.cache().line_size(),
            "the dirty bounds {dirty:?} leave the line"
        );
        let in_journal = SURVIVES && matches!(journaled, Some(Ok(Journaled::Slot(_))));
        let buffer = match &slot {
            Some(slot) => slot.buffer(),
            None => worker.node.buffer(id),
        };
        let frame_in_verb = match op {
            WordOp::ReleaseShared | WordOp::Persist => false,
            WordOp::ReleaseExclusive => slot.is_none() && !in_journal && !dirty.is_empty(),
            _ => true,
        };
        match op {
            WordOp::HandOver(_) => worker.counters.handovers.add(1),
            WordOp::Upgrade | WordOp::UpgradeOver(_) => worker.counters.upgrades.add(1),
            WordOp::Persist if SURVIVES => LatchCount::Persists.count(worker),
            _ => {}
        }
        worker.counters.bytes_written_back.add(dirty.range().len() as u64);
        let mut groups = self.groups.borrow_mut();
        let group = &mut groups[key];
        strict_assert!(group.op.is_none(), "a group has one operation: {group:?}");
        strict_assert!(
            frame_in_verb || group.left == 1,
            "the frame is free, and a forward of the group reads it: {group:?}"
        );
        (group.op, group.dirty, group.slot) = (Some((op, buffer)), dirty, slot);
        strict_check!(group);
        let posted = match journaled {
            Some(journaled) if SURVIVES => self.submit_journaled(worker, key, id, group, journaled),
            _ => self.submit(worker, key, group),
        };
        if let Err(error) = posted {
            // The operation has no completion. If forwards are in flight, their completions end the
            // group.
            group.left -= 1;
            group.op = None;
            if group.left == 0 {
                worker.give_slot_back(groups.remove(key).slot);
            }
            return Err(error);
        }
        Ok(frame_in_verb)
    }

    /// The changes that an operation writes back with [`Rules::survive`]: their dirty bounds, the
    /// write-back slot with a copy, and the use of the journal.
    fn changes_that_survive(
        &self,
        worker: &WorkerCore,
        addr: GlobalAddr,
        id: FrameId,
        op: WordOp,
        rules: &Rules,
    ) -> (DirtyBounds, Option<Slot>, Option<Result<Journaled, VerbError>>) {
        let copied = if op == WordOp::Persist { self.copied.take() } else { None };
        let (dirty, copied) = match copied {
            Some((dirty, slot)) => (dirty, Some(slot)),
            None if op.writes_back(rules) => {
                let (cache, dirty) = (worker.node.cache(), worker.take_dirty(id));
                let is_whole = take_whole(cache.frame(id));
                (if is_whole { DirtyBounds::of(0..cache.line_size()) } else { dirty }, None)
            }
            None => (DirtyBounds::EMPTY, None),
        };
        let journaled = worker.journal(addr, id, copied.as_ref(), dirty);
        let copies = op == WordOp::ReleaseExclusive && matches!(journaled, Ok(Journaled::Whole));
        let slot = if copies { worker.copy_out(addr, id, &dirty) } else { copied };
        (dirty, slot, Some(journaled))
    }

    /// Posts the group's operation for the first time, or keeps it until a journal slot is free.
    fn submit_journaled(
        &self,
        worker: &WorkerCore,
        key: usize,
        id: FrameId,
        group: &mut Group,
        journaled: Result<Journaled, VerbError>,
    ) -> Result<(), VerbError> {
        match journaled? {
            Journaled::Later => {
                self.waiting.borrow_mut().push_back((key, id));
                return Ok(());
            }
            Journaled::Slot(slot) => group.journal = Some(slot),
            Journaled::Whole => {}
        }
        self.submit(worker, key, group).inspect_err(|_| {
            // A refused batch has no effect.
            if let Some(slot) = group.journal.take() {
                worker.give_journal_back(slot, true);
            }
        })
    }

    /// Posts the operations that wait for a journal slot, as far as slots are free.
    fn resume(&self, worker: &WorkerCore) {
        for (key, id) in self.waiting.take() {
            let posted = {
                let group = &mut self.groups.borrow_mut()[key];
                let journaled = worker.journal(group.addr, id, group.slot.as_ref(), group.dirty);
                self.submit_journaled(worker, key, id, group, journaled)
            };
            let end = posted.err().and_then(|error| self.leave(worker, key, Err(error)));
            self.ended.borrow_mut().extend(end);
        }
    }

    /// The end of an operation that waited for a journal slot and can get none.
    #[inline]
    pub(crate) fn also_ended(&self) -> Option<(GlobalAddr, Finished)> {
        self.ended.borrow_mut().pop()
    }

    /// Posts the group's operation, the first time or again.
    fn submit(&self, worker: &WorkerCore, key: usize, group: &Group) -> Result<(), VerbError> {
        let (op, buffer) = group.op.expect("a group that has its operation");
        let mut batch = Batch::new();
        match group.journal {
            Some(slot) => write_back_journaled(worker, slot, group, &mut batch),
            None => write_back(worker, group.addr, buffer, group.dirty, &mut batch),
        }
        let latch = worker.node.geometry().latch_addr(group.addr).offset();
        // A mask, and the value that the atomic must find under the mask: the expected word of a
        // compare-and-swap, or an empty exclusive field. With any other value the READ of the line
        // is useless, because the line comes from the nodes that the word names.
        let mut found = (LatchWord::EXCLUSIVE, 0);
        if op == WordOp::Poll && worker.node.gone() != 0 {
            // A node whose grant was lost with its giver may find itself as the holder, and takes
            // the line from memory.
            found = (0, 0);
        }
        batch.push(match op.verb(worker.node.id()) {
            WordVerb::Add(add) => {
                worker.counters.verbs_faa.add(1);
                Verb::FetchAdd { remote: latch, add }
            }
            WordVerb::CompareSwap { expected, desired } => {
                worker.counters.verbs_cas.add(1);
                found = (u64::MAX, expected.bits());
                Verb::CompareSwap {
                    remote: latch,
                    expected: expected.bits(),
                    desired: desired.bits(),
                }
            }
        });
        self.submit_word(worker, group, batch, found, Tag::Operation(key))
    }

    /// Posts a batch that ends with an atomic on the latch word. If the operation reads the line, a
    /// READ of the line follows. `found` is a mask and a value: the fabric may omit the READ if the
    /// atomic does not find the value under the mask.
    fn submit_word(
        &self,
        worker: &WorkerCore,
        group: &Group,
        mut batch: Batch,
        found: (u64, u64),
        tag: Tag,
    ) -> Result<(), VerbError> {
        let (op, local) = group.op.expect("a group that has its operation");
        if op.reads_line() {
            worker.counters.verbs_read.add(1);
            worker.counters.bytes_read.add(u64::from(local.len));
            let (remote, (mask, value)) = (group.addr.offset(), found);
            batch.push(Verb::ReadIf { remote, local, mask, value });
        }
        worker.post(Target::Memory(group.addr.node()), batch.requests(), tag.bits())
    }

    // ---- ends -----------------------------------------------------------------------------------

    /// Handles the completion of a batch under this tag. Returns the line and the end of the
    /// operation, if this was its last batch.
    #[inline]
    pub(crate) fn completed(
        &self,
        worker: &WorkerCore,
        tag: u64,
        result: Result<u64, VerbError>,
    ) -> Option<(GlobalAddr, Finished)> {
        match (Tag::from_bits(tag), result) {
            (Tag::Operation(key), Ok(old)) => self.leave(worker, key, Ok(Some(old))),
            (Tag::Inspection(key), Ok(now)) => {
                self.inspected(worker, key, LatchWord::from_bits(now))
            }
            (Tag::Operation(key) | Tag::Inspection(key), Err(VerbError::Ambiguous { target })) => {
                self.inspect(worker, key, VerbError::Ambiguous { target })
            }
            (Tag::Operation(key) | Tag::Inspection(key), Err(error)) => {
                self.leave(worker, key, Err(error))
            }
        }
    }

    /// Probes the latch word, to find out whether the operation was applied.
    fn inspect(
        &self,
        worker: &WorkerCore,
        key: usize,
        error: VerbError,
    ) -> Option<(GlobalAddr, Finished)> {
        let posted = {
            let group = &mut self.groups.borrow_mut()[key];
            if group.tries < TRIES_MAX {
                group.tries += 1;
                strict_check!(group);
                LatchCount::Inspections.count(worker);
                worker.counters.verbs_faa.add(1);
                let latch = worker.node.geometry().latch_addr(group.addr).offset();
                let mut batch = Batch::new();
                batch.push(Verb::FetchAdd { remote: latch, add: 0 });
                // The READ is unconditional: the probe may find this node as the holder already.
                self.submit_word(worker, group, batch, (0, 0), Tag::Inspection(key))
            } else {
                Err(error)
            }
        };
        posted.err().and_then(|error| self.leave(worker, key, Err(error)))
    }

    fn inspected(
        &self,
        worker: &WorkerCore,
        key: usize,
        now: LatchWord,
    ) -> Option<(GlobalAddr, Finished)> {
        let again = {
            let groups = self.groups.borrow();
            let (addr, op) = (groups[key].addr, groups[key].op);
            let (op, _) = op.expect("an operation that was posted");
            strict_assert!(groups[key].tries > 0, "the word was read, and no end was in doubt");
            match op.inspect(worker.node.id(), now) {
                Some(WordProbe::Over { old }) => Ok(Some(old.bits())),
                Some(WordProbe::Again) => self.submit(worker, key, &groups[key]).map(|()| None),
                None => Err(VerbError::Ambiguous { target: Target::Memory(addr.node()) }),
            }
        };
        match again {
            Ok(None) => None,
            end => self.leave(worker, key, end),
        }
    }

    /// Handles the end of one batch of a group: the operation, with the word that it found, or a
    /// forward. Returns the line and the end of the operation after the last batch.
    #[inline]
    pub(crate) fn leave(
        &self,
        worker: &WorkerCore,
        key: usize,
        end: Result<Option<u64>, VerbError>,
    ) -> Option<(GlobalAddr, Finished)> {
        let mut group = {
            let mut groups = self.groups.borrow_mut();
            let group = &mut groups[key];
            strict_check!(group);
            match end {
                Ok(Some(old)) => group.old = old,
                Ok(None) => {}
                Err(error) => group.failed = Some(error),
            }
            group.left -= 1;
            if group.left > 0 {
                return None;
            }
            groups.remove(key)
        };
        // No part of the group is posted again, whatever its end.
        worker.give_slot_back(group.slot.take());
        if let Some(slot) = group.journal.take() {
            // Whether a failed operation was applied is unknown, so its line may be torn.
            worker.give_journal_back(slot, group.failed.is_none());
            self.resume(worker);
        }
        let op = group.op.map(|(op, _)| op);
        let old = LatchWord::from_bits(group.old);
        Some((group.addr, Finished { op, old, failed: group.failed }))
    }
}

/// Adds the WRITE of the dirty bytes of the line that lies in `whole`.
fn write_back(
    worker: &WorkerCore,
    addr: GlobalAddr,
    whole: LocalBuffer,
    dirty: DirtyBounds,
    batch: &mut Batch,
) {
    let range = dirty.range();
    if range.is_empty() {
        return;
    }
    strict_assert!(range.end <= whole.len as usize, "{range:?} of a line of {} bytes", whole.len);
    strict_assert!(
        range.start.is_multiple_of(8) && range.end.is_multiple_of(8),
        "torn words go to memory: {range:?}"
    );
    let len = range.len() as u32;
    worker.counters.verbs_write.add(1);
    worker.counters.bytes_written.add(u64::from(len));
    batch.push(Verb::Write {
        remote: addr.offset() + range.start as u64,
        local: LocalBuffer { offset: whole.offset + range.start as u64, len, ..whole },
    });
}

/// Adds the requests of a write-back through a journal slot.
fn write_back_journaled(worker: &WorkerCore, slot: JournalSlot, group: &Group, batch: &mut Batch) {
    for request in worker.journal_requests(slot, group.addr, group.dirty) {
        worker.counters.verbs_write.add(1);
        worker.counters.bytes_written.add(request.remote().map_or(0, |(_, len)| len));
        batch.push(request);
    }
}

/// The work requests of one batch.
struct Batch {
    requests: [Verb; BATCH_MAX],
    len: usize,
}

impl Batch {
    fn new() -> Self {
        Batch { requests: [Verb::WriteWord { remote: 0, value: 0 }; BATCH_MAX], len: 0 }
    }

    fn push(&mut self, request: Verb) {
        self.requests[self.len] = request;
        self.len += 1;
    }

    fn requests(&self) -> &[Verb] {
        &self.requests[..self.len]
    }
}
