//! Word operations: posting, completion, and recovery from an ambiguous completion.
//!
//! A connection that fails under a batch cuts the batch off at one of its requests. The requests
//! before the cut have taken effect, and the requests behind the cut never take effect. So the node
//! can probe the latch word at any later time: the node's own field shows whether the operation was
//! applied ([`Inspection`] has the argument).
//!
//! - Applied: the operation has ended like any other. Where the operation reads the line, the probe
//!   has the READ of the line behind it.
//! - Not applied: the operation is posted again, together with its write-back. The bytes are still
//!   the same. Either writers are shut out until the operation is complete, or the bytes were
//!   copied ([`crate::write_back`]). The dirty bounds are kept with the operation.

use latchwork_cache::{DirtyBounds, FrameId};
use latchwork_latch::{Event, Inspection, LatchWord, WordOp, WordVerb};
use latchwork_runtime::sync::Ordering;
use latchwork_verbs::{BATCH_MAX, GlobalAddr, LocalBuffer, Request as Verb, Target, VerbError};

use crate::groups::{Group, TRIES_MAX, Tag};
use crate::record::{Outcome, Record, Waiter};
use crate::worker_core::Inner;
use crate::write_back::Slot;

impl Inner {
    /// Adds a batch to this group, or to a new group. Returns the key of the group.
    pub(crate) fn join_group(&self, key: &mut Option<usize>, addr: GlobalAddr) -> usize {
        let mut groups = self.groups.borrow_mut();
        let key = *key.get_or_insert_with(|| {
            groups.insert(Group {
                addr,
                op: None,
                dirty: DirtyBounds::EMPTY,
                slot: None,
                old: 0,
                left: 0,
                tries: 0,
                failed: None,
            })
        });
        groups[key].left += 1;
        key
    }

    /// Posts a word operation on the line in frame `id`. Returns whether the verbs of the operation
    /// read or write the frame. Such a frame must not change until the operation is complete.
    ///
    /// Forwards of the same group use the frame as well. So only an operation that has no forwards
    /// may return false.
    pub(crate) fn post_operation(
        &self,
        addr: GlobalAddr,
        id: FrameId,
        op: WordOp,
        mut group: Option<usize>,
    ) -> Result<bool, VerbError> {
        let key = self.join_group(&mut group, addr);
        let dirty = if op.writes_back() { self.take_dirty(id) } else { DirtyBounds::EMPTY };
        // Only an evicted line frees its frame. A node that hands a line over or keeps a copy does
        // not evict the line, so copying pays for no other operation.
        let evicts = op == WordOp::ReleaseExclusive;
        let slot = if evicts { self.copy_out(addr, id, &dirty) } else { None };
        let buffer = match &slot {
            Some(slot) => slot.buffer(),
            None => self.node.cache.buffer(id, self.node.arena),
        };
        let frame_in_verb = match op {
            WordOp::ReleaseShared => false,
            WordOp::ReleaseExclusive => slot.is_none() && !dirty.is_empty(),
            _ => true,
        };
        match op {
            WordOp::HandOver(_) => self.counters.handovers.add(1),
            WordOp::Upgrade | WordOp::UpgradeOver(_) => self.counters.upgrades.add(1),
            _ => {}
        }
        self.counters.bytes_written_back.add(dirty.range().len() as u64);
        let mut groups = self.groups.borrow_mut();
        let group = &mut groups[key];
        (group.op, group.dirty, group.slot) = (Some((op, buffer)), dirty, slot);
        if let Err(error) = self.submit_operation(key, group) {
            // The operation has no completion. If forwards are in flight, their completions end the
            // group.
            group.left -= 1;
            group.op = None;
            if group.left == 0 {
                self.give_slot_back(groups.remove(key).slot);
            }
            return Err(error);
        }
        Ok(frame_in_verb)
    }

    /// Copies the dirty bytes of a line whose writers are shut out. `None` when the line is clean
    /// or no slot is free.
    fn copy_out(&self, addr: GlobalAddr, id: FrameId, dirty: &DirtyBounds) -> Option<Slot> {
        let range = dirty.range();
        if range.is_empty() {
            return None;
        }
        let (len, line) = (range.len(), self.node.cache.line(id));
        let Some(slot) = self.write_backs.copy_out(addr.node(), &self.port, line, range) else {
            self.counters.write_backs_in_frame.add(1);
            return None;
        };
        if let Some(costs) = &self.costs {
            self.handle.charge(costs.copy(len));
        }
        self.counters.write_backs_copied.add(1);
        Some(slot)
    }

    /// Returns the slot, if any, of an operation that is over.
    fn give_slot_back(&self, slot: Option<Slot>) {
        if let Some(slot) = slot {
            self.write_backs.give_back(&slot);
        }
    }

    /// Takes the dirty bounds of a frame. Writers are shut out already, so the bounds cannot grow
    /// any more.
    fn take_dirty(&self, id: FrameId) -> DirtyBounds {
        let frame = self.node.cache.frame(id);
        let dirty = frame.dirty();
        frame.set_dirty(DirtyBounds::EMPTY);
        if dirty.is_empty() || self.node.settings.dirty_bounds {
            dirty
        } else {
            DirtyBounds::of(0..self.node.cache.line_size())
        }
    }

    /// Posts the group's operation, the first time or again.
    fn submit_operation(&self, key: usize, group: &Group) -> Result<(), VerbError> {
        let (op, buffer) = group.op.expect("a group that has its operation");
        let mut batch = Batch::new();
        self.write_back(group.addr, buffer, group.dirty, &mut batch);
        let latch = self.node.geometry.latch_addr(group.addr).offset();
        // The value that the atomic must find before the READ of the line is of use: the expected
        // word of a compare-and-swap, or an empty exclusive field. Otherwise the line comes from
        // the nodes that the word names.
        let mut found = (LatchWord::EXCLUSIVE, 0);
        batch.push(match op.verb(self.node.id) {
            WordVerb::Add(add) => {
                self.counters.verbs_faa.add(1);
                Verb::FetchAdd { remote: latch, add }
            }
            WordVerb::CompareSwap { expected, desired } => {
                self.counters.verbs_cas.add(1);
                found = (u64::MAX, expected.bits());
                Verb::CompareSwap {
                    remote: latch,
                    expected: expected.bits(),
                    desired: desired.bits(),
                }
            }
        });
        self.submit_word(group, batch, found, Tag::Operation(key))
    }

    /// Posts a batch that ends with an atomic on the latch word. If the operation reads the line, a
    /// READ of the line follows. The READ is of use if the atomic finds the value of `found` under
    /// the mask of `found`.
    fn submit_word(
        &self,
        group: &Group,
        mut batch: Batch,
        found: (u64, u64),
        tag: Tag,
    ) -> Result<(), VerbError> {
        let (op, local) = group.op.expect("a group that has its operation");
        if op.reads_line() {
            self.counters.verbs_read.add(1);
            self.counters.bytes_read.add(u64::from(local.len));
            let (remote, (mask, value)) = (group.addr.offset(), found);
            batch.push(Verb::ReadIf { remote, local, mask, value });
        }
        self.port.post(Target::Memory(group.addr.node()), batch.requests(), tag.bits())
    }

    /// Adds the WRITE of the dirty bytes of the line that lies in `whole`.
    fn write_back(
        &self,
        addr: GlobalAddr,
        whole: LocalBuffer,
        dirty: DirtyBounds,
        batch: &mut Batch,
    ) {
        let range = dirty.range();
        if range.is_empty() {
            return;
        }
        let len = range.len() as u32;
        self.counters.verbs_write.add(1);
        self.counters.bytes_written.add(u64::from(len));
        batch.push(Verb::Write {
            remote: addr.offset() + range.start as u64,
            local: LocalBuffer { offset: whole.offset + range.start as u64, len, ..whole },
        });
    }

    // ---- ends ------------------------------------------------------------------------------------

    /// Handles the completion of a batch of this worker.
    pub(crate) fn completed(&self, tag: u64, result: Result<u64, VerbError>) {
        match (Tag::from_bits(tag), result) {
            (Tag::Letter(key), result) => self.letter_completed(key, result.err()),
            (Tag::Operation(key), Ok(old)) => self.leave_group(key, Ok(Some(old))),
            (Tag::Inspection(key), Ok(now)) => self.inspected(key, LatchWord::from_bits(now)),
            (Tag::Operation(key) | Tag::Inspection(key), Err(VerbError::Ambiguous { target })) => {
                self.inspect(key, VerbError::Ambiguous { target });
            }
            (Tag::Operation(key) | Tag::Inspection(key), Err(error)) => {
                self.leave_group(key, Err(error));
            }
        }
    }

    /// Probes the latch word, to find out whether the operation was applied.
    fn inspect(&self, key: usize, error: VerbError) {
        let posted = {
            let group = &mut self.groups.borrow_mut()[key];
            if group.tries < TRIES_MAX {
                group.tries += 1;
                self.counters.inspections.add(1);
                self.counters.verbs_faa.add(1);
                let latch = self.node.geometry.latch_addr(group.addr).offset();
                let mut batch = Batch::new();
                batch.push(Verb::FetchAdd { remote: latch, add: 0 });
                // The READ is unconditional: the probe may find this node as the holder already.
                self.submit_word(group, batch, (0, 0), Tag::Inspection(key))
            } else {
                Err(error)
            }
        };
        if let Err(error) = posted {
            self.leave_group(key, Err(error));
        }
    }

    fn inspected(&self, key: usize, now: LatchWord) {
        let again = {
            let groups = self.groups.borrow();
            let (addr, op) = (groups[key].addr, groups[key].op);
            let (op, _) = op.expect("an operation that was posted");
            match op.inspect(self.node.id, now) {
                Some(Inspection::Over { old }) => Ok(Some(old.bits())),
                Some(Inspection::Again) => self.submit_operation(key, &groups[key]).map(|()| None),
                None => Err(VerbError::Ambiguous { target: Target::Memory(addr.node()) }),
            }
        };
        match again {
            Ok(None) => {}
            end => self.leave_group(key, end),
        }
    }

    /// Handles the end of one batch of a group: the operation, with the word that it found, or a
    /// forward. The last batch completes the group.
    pub(crate) fn leave_group(&self, key: usize, end: Result<Option<u64>, VerbError>) {
        let mut group = {
            let mut groups = self.groups.borrow_mut();
            let group = &mut groups[key];
            match end {
                Ok(Some(old)) => group.old = old,
                Ok(None) => {}
                Err(error) => group.failed = Some(error),
            }
            group.left -= 1;
            if group.left > 0 {
                return;
            }
            groups.remove(key)
        };
        // No part of the group is posted again, whatever its end.
        self.give_slot_back(group.slot.take());
        let mut records = self.node.records.shard(group.addr).lock();
        let Some(record) = records.get_mut(&group.addr) else { return };
        if record.evicting {
            record.evicting = false;
            self.node.releasing.fetch_sub(1, Ordering::Relaxed);
        }
        match (group.failed, group.op) {
            // Whether the word changed is unknown, so this node may not touch the line again.
            (Some(error), _) => {
                record.fail(error);
                self.give_frame_back(record);
            }
            // The word discipline never writes such a word. The line was not read, and the word
            // does not name the nodes to request the line from.
            (None, Some((op, _)))
                if op.reads_line() && LatchWord::from_bits(group.old).is_impossible() =>
            {
                record.fail(VerbError::Ambiguous { target: Target::Memory(group.addr.node()) });
                self.give_frame_back(record);
            }
            (None, Some((op, _))) => {
                record.landed = Some((op, LatchWord::from_bits(group.old)));
                self.complete_landed(group.addr, record);
            }
            // The operation could not be posted, which has failed the line already.
            (None, None) => {}
        }
        self.finish(&mut records, group.addr);
    }

    /// Releases the frame of a line whose operation has failed.
    ///
    /// 1. The operation is over (R1) and no invalidation request is open (R5).
    /// 2. So no verb reads or writes the frame any more, except a forward with a pending probe.
    /// 3. So the frame is released when no probe is pending.
    pub(crate) fn give_frame_back(&self, record: &mut Record) {
        let cache = &self.node.cache;
        // A locked frame stays. The release is tried again when the lock ends.
        let free = |id: &mut FrameId| record.doubts.is_empty() && cache.frame(*id).try_invalidate();
        if let Some(id) = record.frame.take_if(free) {
            // A waiter with a grant that has not used the line yet fails instead, and loses its
            // reservation.
            let granted = |waiter: &&mut Waiter| matches!(waiter.outcome, Outcome::Granted);
            if let Some(error) = record.failed {
                for waiter in record.waiters.iter_mut().filter(granted) {
                    cache.frame(id).unreserve();
                    waiter.outcome = Outcome::Failed(error);
                }
            }
            cache.detach(id);
            self.node.frame_waiters.wake();
        }
    }

    /// Reports an operation complete to the line machine, when no probe of its forwards is pending.
    pub(crate) fn complete_landed(&self, addr: GlobalAddr, record: &mut Record) {
        if record.doubts.is_empty()
            && let Some((op, old)) = record.landed.take()
        {
            let by_pledge = matches!(op, WordOp::TakeOver(_) | WordOp::UpgradeOver(_));
            if by_pledge && op.expected(self.node.id) == Some(old) {
                self.counters.takeovers.add(1);
            }
            self.drive(addr, record, Event::Completed { op, old });
        }
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
