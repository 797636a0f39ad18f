//! Operations on latch words: posting them, their ends, and what is done when an end is ambiguous.
//!
//! A connection that fails under a batch cuts it off at some request. What is behind the cut never
//! takes effect, so the word can be read at leisure: one's own field tells whether the operation
//! was applied ([`Inspection`], with the argument). If it was, the operation has ended as if
//! nothing had happened; the look at the word has the line's READ behind it where the operation has
//! one. If it was not, it is posted again, with its write-back: the writers are shut out until the
//! operation is complete, or the bytes were copied ([`crate::write_back`]), so they are still
//! those, and the bounds are kept with the operation.

use latchwork_cache::{DirtyBounds, FrameId};
use latchwork_latch::{Event, Inspection, LatchWord, WordOp, WordVerb};
use latchwork_runtime::sync::Ordering;
use latchwork_verbs::{BATCH_MAX, GlobalAddr, LocalBuffer, Request as Verb, Target, VerbError};

use crate::record::{Outcome, Record, Waiter};
use crate::worker::Inner;
use crate::write_back::Slot;

/// How often an operation or a message that ended ambiguous is taken up again. Then the connection
/// counts as gone.
pub(crate) const TRIES_MAX: u8 = 16;

/// What a batch of this worker is, as the tag of its completion says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tag {
    /// An operation on a word: the key of its group.
    Operation(usize),
    /// A look at the word of an operation that ended ambiguous: the key of its group.
    Inspection(usize),
    /// A message, and the line that was forwarded with it: the key among the letters.
    Letter(usize),
}

impl Tag {
    pub(crate) fn bits(self) -> u64 {
        let (key, kind) = match self {
            Tag::Operation(key) => (key, 0),
            Tag::Inspection(key) => (key, 1),
            Tag::Letter(key) => (key, 2),
        };
        (key as u64) << 2 | kind
    }

    pub(crate) fn from_bits(bits: u64) -> Tag {
        let key = (bits >> 2) as usize;
        match bits & 3 {
            0 => Tag::Operation(key),
            1 => Tag::Inspection(key),
            _ => Tag::Letter(key),
        }
    }
}

/// An operation on a word, with the forwards that go with it.
#[derive(Debug)]
pub(crate) struct Group {
    addr: GlobalAddr,
    /// Set when the operation is posted, with where the line's bytes go to or come from: the
    /// forwards come first.
    op: Option<(WordOp, LocalBuffer)>,
    /// What the operation writes back.
    dirty: DirtyBounds,
    /// The copy that it is written back from, where that is not the frame.
    slot: Option<Slot>,
    old: u64,
    left: u32,
    tries: u8,
    failed: Option<VerbError>,
}

impl Inner {
    /// One more batch of this group, or of a new one.
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

    /// Posts an operation on the word of a line in frame `id`. Returns whether its verbs read or
    /// write the frame, which has to stay as it is until the operation is complete.
    ///
    /// Forwards of the same group do, too: only an operation without one may say that they do not.
    pub(crate) fn post_operation(
        &self,
        addr: GlobalAddr,
        id: FrameId,
        op: WordOp,
        mut group: Option<usize>,
    ) -> Result<bool, VerbError> {
        let key = self.join_group(&mut group, addr);
        let dirty = if op.writes_back() { self.take_dirty(id) } else { DirtyBounds::EMPTY };
        // Nobody evicts what he hands on or keeps a copy of, so no other release is worth the
        // copying.
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
            // No completion will come; where forwards are out, theirs end the group.
            group.left -= 1;
            group.op = None;
            if group.left == 0 {
                self.give_slot_back(groups.remove(key).slot);
            }
            return Err(error);
        }
        Ok(frame_in_verb)
    }

    /// What is to be written back of a frame whose writers are shut out already, so that nothing is
    /// added to the bounds any more.
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

    /// Posts the group's operation, for the first time or again.
    fn submit_operation(&self, key: usize, group: &Group) -> Result<(), VerbError> {
        let (op, buffer) = group.op.expect("a group that has its operation");
        let mut batch = Batch::new();
        self.write_back(group.addr, buffer, group.dirty, &mut batch);
        let latch = self.node.geometry.latch_addr(group.addr).offset();
        // What the atomic must find for the line to be read at all: the word that is swapped, or
        // nobody in the exclusive field. Otherwise the line comes from whoever the word names.
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

    /// Posts a batch that ends with an atomic on the line's word, with the READ behind it that the
    /// operation has, of use if the atomic finds the value of `found` under its mask.
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

    /// Adds the WRITE of what changed in the line that lies in `whole`.
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

    /// A batch of this worker has completed.
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

    /// Looks at the word, to find out whether the operation was applied.
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
                // The look may find this node as the holder already: read whatever it finds.
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

    /// One batch of a group has come to its end: the operation, with what it found, or a forward.
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
        // However it ended, nothing of it is posted again.
        self.give_slot_back(group.slot.take());
        let mut records = self.node.records.shard(group.addr).lock();
        let Some(record) = records.get_mut(&group.addr) else { return };
        if record.evicting {
            record.evicting = false;
            self.node.releasing.fetch_sub(1, Ordering::Relaxed);
        }
        match (group.failed, group.op) {
            // Whether the word changed is unknown: nobody here may touch the line again.
            (Some(error), _) => {
                record.fail(error);
                self.give_frame_back(record);
            }
            // The discipline writes no such word. Its line was not read, and whom to ask it does
            // not say.
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
            // The operation could not be posted, and has failed the line.
            (None, None) => {}
        }
        self.finish(&mut records, group.addr);
    }

    /// Takes the frame from a line whose operation has failed. The operation is over and no
    /// question is out (R1, R5), so nothing can write into the frame or read it any more, unless a
    /// forward from it is in doubt.
    pub(crate) fn give_frame_back(&self, record: &mut Record) {
        let cache = &self.node.cache;
        // Not while it is locked: it is tried again when the lock ends.
        let free = |id: &mut FrameId| record.doubts.is_empty() && cache.frame(*id).try_invalidate();
        if let Some(id) = record.frame.take_if(free) {
            // Who was granted the line and has not come yet to use it is told instead that it is
            // lost, and reserves nothing.
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

    /// Reports an operation complete, when nothing that went with it is in doubt.
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

/// The requests of one batch.
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
