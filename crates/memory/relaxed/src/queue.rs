//! [`Queue`]: the writes that are not visible yet, and the order of their processing. The queue is
//! plain data: it neither waits nor accesses memory.

use std::collections::VecDeque;
use std::ops::Range;

use latchwork_runtime::Time;
use latchwork_strict::{strict_assert, strict_check};
use latchwork_verbs::GlobalAddr;

use crate::pieces::Pieces;
use crate::{Consistency, LossCause, LostWrite, WriteBufferSettings};

/// A future access: writes to one line that become visible together.
pub(crate) struct Entry<O> {
    /// The entry's number in the order of creation; never reused.
    pub(crate) seq: u64,
    pub(crate) addr: GlobalAddr,
    /// The time at which the first of its writes was issued.
    pub(crate) issued: Time,
    /// The deadline for becoming visible.
    pub(crate) by: Time,
    pub(crate) pieces: Pieces,
    /// The drain task of this entry.
    pub(crate) lane: Option<usize>,
    /// The epoch guard of the entry's first write, kept until the entry is visible or lost. So the
    /// line is not reused earlier, even if it is freed.
    _operation: O,
}

impl<O> Entry<O> {
    /// The entry's writes, as lost writes.
    pub(crate) fn lose(self, cause: &LossCause) -> impl Iterator<Item = LostWrite> {
        let Entry { addr, issued, pieces, .. } = self;
        pieces.into_vec().into_iter().map(move |piece| LostWrite {
            addr,
            offset: piece.offset,
            bytes: piece.bytes,
            issued,
            cause: cause.clone(),
        })
    }
}

/// A write as it was issued.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Write<'a> {
    pub(crate) addr: GlobalAddr,
    pub(crate) offset: usize,
    pub(crate) bytes: &'a [u8],
}

pub(crate) struct Queue<O> {
    settings: WriteBufferSettings,
    /// In the order of `seq`.
    entries: VecDeque<Entry<O>>,
    /// The next entry's `seq`.
    next: u64,
    /// Entries below this number are due; the others wait for their batch.
    due: u64,
    bytes: usize,
}

impl<O> Queue<O> {
    /// The writes are in order and within their bounds.
    fn check(&self) {
        assert!(
            self.entries.iter().is_sorted_by(|one, next| one.seq < next.seq),
            "writes out of order"
        );
        assert!(self.entries.back().is_none_or(|last| last.seq < self.next), "a number is to come");
        assert!(self.due <= self.next, "a write is due that was not made");
        let bytes: usize = self.entries.iter().map(|entry| entry.pieces.len()).sum();
        assert_eq!(self.bytes, bytes, "the bytes that wait are counted wrong");
        assert!(self.bytes <= self.settings.bytes, "more bytes wait than the bound");
        assert!(self.entries.len() <= self.settings.entries, "more writes wait than the bound");
    }

    pub(crate) fn new(settings: WriteBufferSettings) -> Queue<O> {
        strict_assert!(
            settings.entries >= settings.batch || !settings.consistency.buffers(),
            "a batch that never fills"
        );
        Queue { settings, entries: VecDeque::new(), next: 0, due: 0, bytes: 0 }
    }

    /// The entry with which a write to this line may be merged.
    ///
    /// With partial store order, the entry of the line. With total store order, only the last entry
    /// of all. A merge into any other entry would make the write visible before the writes in
    /// between, or the earlier write visible after them. Entries that are applied at one instant
    /// share a latch instead; see `drain`.
    fn mergeable(&self, addr: GlobalAddr) -> Option<usize> {
        let of_line = |entry: &Entry<O>| entry.addr == addr;
        match self.settings.consistency {
            Consistency::Pso => self.entries.iter().position(of_line),
            _ => self.entries.back().filter(|last| of_line(last)).map(|_| self.entries.len() - 1),
        }
    }

    /// Whether there is room for a write.
    pub(crate) fn has_room(&self, write: Write<'_>) -> bool {
        // An upper bound: a write that overlaps others takes less.
        self.bytes + write.bytes.len() <= self.settings.bytes
            && (self.entries.len() < self.settings.entries || self.mergeable(write.addr).is_some())
    }

    /// Adds a write if there is room. Returns whether the write was merged into an entry.
    pub(crate) fn put(&mut self, write: Write<'_>, operation: O, now: Time) -> Option<bool> {
        if !self.has_room(write) {
            return None;
        }
        let Write { addr, offset, bytes } = write;
        let merges = self.mergeable(addr);
        let at = merges.unwrap_or_else(|| {
            let (seq, by) = (self.next, now + self.settings.deadline);
            self.next += 1;
            let pieces = Pieces::default();
            let _operation = operation;
            self.entries.push_back(Entry {
                seq,
                addr,
                issued: now,
                by,
                pieces,
                lane: None,
                _operation,
            });
            self.entries.len() - 1
        });
        self.bytes += self.entries[at].pieces.put(offset, bytes);
        strict_check!(self);
        Some(merges.is_some())
    }

    /// Copies the bytes of a line to `to`, if the entries contain all of these bytes.
    pub(crate) fn forward(&self, addr: GlobalAddr, offset: usize, to: &mut [u8]) -> bool {
        let range = offset..offset + to.len();
        let Some(from) = self.covering(addr, &range) else { return false };
        self.overlay_from(from, addr, offset, to);
        true
    }

    /// Copies the bytes of a line that the entries contain over those in `to`.
    pub(crate) fn overlay(&self, addr: GlobalAddr, offset: usize, to: &mut [u8]) {
        self.overlay_from(0, addr, offset, to);
    }

    fn covering(&self, addr: GlobalAddr, range: &Range<usize>) -> Option<usize> {
        self.entries.iter().rposition(|entry| entry.addr == addr && entry.pieces.cover(range))
    }

    fn overlay_from(&self, first: usize, addr: GlobalAddr, offset: usize, to: &mut [u8]) {
        // Later entries over earlier ones.
        for entry in self.entries.iter().skip(first).filter(|entry| entry.addr == addr) {
            entry.pieces.overlay(offset, to);
        }
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry<O>> {
        self.entries.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The smallest `seq` that no entry has had yet.
    pub(crate) fn next(&self) -> u64 {
        strict_assert!(self.due <= self.next, "a write is due that was not made");
        self.next
    }

    /// Whether all entries below `seq` are visible or lost.
    pub(crate) fn is_settled_below(&self, seq: u64) -> bool {
        self.entries.front().is_none_or(|first| first.seq >= seq)
    }

    fn at(&self, seq: u64) -> Option<usize> {
        self.entries.binary_search_by_key(&seq, |entry| entry.seq).ok()
    }

    /// The entry, while it is in the queue.
    pub(crate) fn get(&self, seq: u64) -> Option<&Entry<O>> {
        self.at(seq).map(|at| &self.entries[at])
    }

    /// Whether it is an entry's turn: with a total order only the first entry's, otherwise every
    /// entry's.
    pub(crate) fn is_turn(&self, seq: u64) -> bool {
        self.settings.consistency == Consistency::Pso
            || self.entries.front().is_some_and(|first| first.seq == seq)
    }

    pub(crate) fn remove(&mut self, seq: u64) -> Option<Entry<O>> {
        let entry = self.entries.remove(self.at(seq)?)?;
        strict_assert!(self.bytes >= entry.pieces.len(), "more bytes leave than came");
        self.bytes -= entry.pieces.len();
        strict_check!(self);
        Some(entry)
    }

    /// Removes the first entry.
    pub(crate) fn pop(&mut self) -> Option<Entry<O>> {
        self.remove(self.entries.front()?.seq)
    }

    // ---- what is to be done ---------------------------------------------------------------------

    /// Whether an entry is due.
    pub(crate) fn is_due(&self, entry: &Entry<O>) -> bool {
        entry.seq < self.due
    }

    /// Makes all entries due. Returns whether that adds due entries.
    pub(crate) fn make_all_due(&mut self) -> bool {
        let more = self.due < self.next;
        self.due = self.next;
        more
    }

    /// The number of entries that are not due.
    fn lingering(&self) -> usize {
        self.entries.len() - self.entries.partition_point(|entry| entry.seq < self.due)
    }

    /// Whether the entries that are not due fill a batch.
    pub(crate) fn has_batch(&self) -> bool {
        self.lingering() >= self.settings.batch
    }

    /// The end of the batch delay of the first entry that is not due.
    pub(crate) fn lingers_until(&self) -> Option<Time> {
        let at = self.entries.partition_point(|entry| entry.seq < self.due);
        self.entries.get(at).map(|entry| entry.issued + self.settings.linger)
    }

    /// The number of due entries without a drain task.
    pub(crate) fn jobs(&self) -> usize {
        self.entries.iter().filter(|entry| entry.seq < self.due && entry.lane.is_none()).count()
    }

    /// Gives the first due entry without a drain task to this drain task.
    pub(crate) fn take_job(&mut self, lane: usize) -> Option<&Entry<O>> {
        let due = self.due;
        let mut free = self.entries.iter_mut().filter(|entry| entry.lane.is_none());
        let entry = free.next().filter(|entry| entry.seq < due)?;
        strict_assert!(entry.lane.is_none(), "two lanes carry one write out");
        entry.lane = Some(lane);
        Some(entry)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn line(k: u64) -> GlobalAddr {
        GlobalAddr::from_bits(4096 * k)
    }

    fn queue(consistency: Consistency) -> Queue<()> {
        Queue::new(WriteBufferSettings {
            consistency,
            batch: 2,
            entries: 3,
            bytes: 64,
            ..WriteBufferSettings::default()
        })
    }

    fn put(queue: &mut Queue<()>, at: u64, offset: usize, bytes: &[u8]) -> Option<bool> {
        queue.put(Write { addr: line(at), offset, bytes }, (), Time::from_nanos(at))
    }

    #[test]
    fn only_neighbours_are_merged_where_all_stores_have_one_order() {
        let mut tso = queue(Consistency::Tso);
        let mut pso = queue(Consistency::Pso);
        let merged = [(1, Some(false)), (1, Some(true)), (2, Some(false))];
        for (at, answer) in merged {
            assert_eq!(put(&mut tso, at, 0, &[9]), answer);
            assert_eq!(put(&mut pso, at, 0, &[9]), answer);
        }
        assert_eq!(put(&mut tso, 1, 0, &[7]), Some(false), "line 2 was written in between");
        assert_eq!(put(&mut pso, 1, 0, &[7]), Some(true));
        let mut seen = [0];
        assert!(tso.forward(line(1), 0, &mut seen) && seen == [7]);
        assert!(pso.forward(line(1), 0, &mut seen) && seen == [7]);
    }

    #[test]
    fn a_full_buffer_takes_only_what_merges() {
        let mut queue = queue(Consistency::Pso);
        for at in 1..=3 {
            assert_eq!(put(&mut queue, at, 0, &[1; 16]), Some(false));
        }
        assert_eq!(put(&mut queue, 4, 0, &[1]), None, "no more entries");
        assert_eq!(put(&mut queue, 2, 16, &[1; 16]), Some(true));
        assert_eq!(put(&mut queue, 2, 32, &[1]), None, "no more bytes");
        queue.remove(0).expect("there");
        assert_eq!(put(&mut queue, 2, 32, &[1]), Some(true));
    }

    #[test]
    fn a_read_is_forwarded_only_when_all_of_it_is_here() {
        let mut queue = queue(Consistency::Tso);
        put(&mut queue, 1, 8, &[1; 8]);
        put(&mut queue, 2, 0, &[2; 8]);
        put(&mut queue, 1, 12, &[3; 2]);
        let mut seen = [0; 8];
        assert!(queue.forward(line(1), 8, &mut seen));
        assert_eq!(seen, [1, 1, 1, 1, 3, 3, 1, 1]);
        assert!(!queue.forward(line(1), 4, &mut seen));
        let mut wider = [9; 16];
        queue.overlay(line(1), 4, &mut wider);
        assert_eq!(wider, [9, 9, 9, 9, 1, 1, 1, 1, 3, 3, 1, 1, 9, 9, 9, 9]);
    }

    #[test]
    fn a_batch_is_due_and_lanes_take_it_in_order() {
        let mut queue = queue(Consistency::Tso);
        put(&mut queue, 5, 0, &[1]);
        assert!(!queue.has_batch() && queue.take_job(0).is_none());
        assert_eq!(queue.lingers_until(), Some(Time::from_nanos(5) + Duration::from_micros(20)));
        put(&mut queue, 6, 0, &[1]);
        assert!(queue.has_batch() && queue.make_all_due());
        put(&mut queue, 7, 0, &[1]);
        assert_eq!(queue.jobs(), 2);
        let jobs = [0, 1, 2].map(|lane| queue.take_job(lane).map(|entry| entry.addr));
        assert_eq!(jobs, [Some(line(5)), Some(line(6)), None]);
        assert!(queue.is_turn(0) && !queue.is_turn(1));
        queue.pop();
        assert!(queue.is_turn(1) && queue.is_settled_below(1) && !queue.is_settled_below(2));
    }
}
