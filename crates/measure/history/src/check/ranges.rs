//! Edges of range reads. The edges concern the keys of a scan's range that the scan did not find.
//!
//! Each such key is a read of an absent key, in a version that the scan does not know. Times decide
//! which state the scan saw (see [`presence`](super::presence)). For keys without a write while the
//! reader ran, the helper nodes of [`Snapshots`] stand for the edges. Keys with a write while the
//! reader ran are few, and get edges of their own.

use std::ops::{Bound, Range};

use latchwork_strict::strict_assert;

use super::choice::Choice;
use super::graph::Builder;
use super::index::Index;
use super::presence::{Observation, Times};
use super::report::Findings;
use super::snapshots::{Present, Snapshots, Way};
use crate::{RecordedOperation, Scan};

/// The written keys of scanned tables. A *slot* is the index of a key in `keys`.
struct Slots {
    keys: Vec<u32>,
    /// Slots of keys for which times do not decide what a reader saw. Either time disagrees with
    /// the order of versions, or a transaction of unknown outcome wrote the key. These keys always
    /// get edges of their own.
    special: Vec<usize>,
    /// The writes, by writer: the writer, the slot, and the version's index among the versions of
    /// the key.
    written: Vec<(u32, usize, usize)>,
}

impl Slots {
    fn new(index: &Index<'_>, times: &Times) -> Slots {
        let mut tables: Vec<u32> = index
            .counted()
            .flat_map(|(_, transaction)| &transaction.operations)
            .filter_map(|operation| match operation {
                RecordedOperation::Scan(scan) => Some(scan.table),
                RecordedOperation::Read { .. } | RecordedOperation::Write { .. } => None,
            })
            .collect();
        tables.sort_unstable();
        tables.dedup();
        let is_scanned = |key: &u32| tables.binary_search(&index.keys[*key as usize].0).is_ok();
        let is_written = |key: &u32| !index.versions.of(*key).is_empty();
        let all = if tables.is_empty() { 0 } else { index.keys.len() as u32 };
        let keys: Vec<u32> = (0..all).filter(is_scanned).filter(is_written).collect();
        let is_special = |slot: &usize| {
            let key = keys[*slot];
            !times.in_time(key) || !index.open.of(key).is_empty()
        };
        let special = (0..keys.len()).filter(is_special).collect();
        let mut written = Vec::new();
        for (slot, key) in keys.iter().enumerate() {
            let versions = index.versions.of(*key).iter().enumerate();
            written.extend(versions.map(|(place, version)| (version.writer, slot, place)));
        }
        written.sort_unstable();
        strict_assert!(keys.windows(2).all(|pair| pair[0] < pair[1]), "slots are out of order");
        strict_assert!(
            written.windows(2).all(|pair| pair[0] <= pair[1]),
            "writes are out of order"
        );
        Slots { keys, special, written }
    }

    /// The writes of a transaction.
    fn of(&self, writer: u32) -> &[(u32, usize, usize)] {
        let start = self.written.partition_point(|(one, ..)| *one < writer);
        let count = self.written[start..].partition_point(|(one, ..)| *one == writer);
        &self.written[start..start + count]
    }

    /// The slots that a scan covered.
    fn range(&self, index: &Index<'_>, scan: &Scan) -> Range<usize> {
        let slot = |is_below: &dyn Fn(&[u8]) -> bool| {
            self.keys.partition_point(|key| {
                let (table, key) = index.keys[*key as usize];
                table < scan.table || table == scan.table && is_below(key)
            })
        };
        let (mut from, mut to) = (borrowed(&scan.from), borrowed(&scan.to));
        if let Some(stopped) = &scan.stopped {
            match scan.direction {
                crate::Direction::Up => to = Bound::Included(&**stopped),
                crate::Direction::Down => from = Bound::Included(&**stopped),
            }
        }
        let start = slot(&|key| match from {
            Bound::Unbounded => false,
            Bound::Included(from) => key < from,
            Bound::Excluded(from) => key <= from,
        });
        let end = slot(&|key| match to {
            Bound::Unbounded => true,
            Bound::Included(to) => key <= to,
            Bound::Excluded(to) => key < to,
        });
        start..end.max(start)
    }
}

fn borrowed(bound: &Bound<Box<[u8]>>) -> Bound<&[u8]> {
    match bound {
        Bound::Unbounded => Bound::Unbounded,
        Bound::Included(key) => Bound::Included(key),
        Bound::Excluded(key) => Bound::Excluded(key),
    }
}

/// A part of a range in which the scan found no key.
struct Gap {
    reader: u32,
    slots: Range<usize>,
}

pub(crate) struct Ranges<'a, 'h> {
    pub(crate) index: &'a Index<'h>,
    pub(crate) times: &'a Times,
    pub(crate) graph: &'a mut Builder,
    pub(crate) findings: &'a mut Findings,
    pub(crate) choices: &'a mut Vec<Choice>,
    /// Gives every key edges of its own instead of helper nodes. Only tests set this, to compare
    /// both methods.
    pub(crate) every_key: bool,
}

impl Ranges<'_, '_> {
    pub(crate) fn add(&mut self) {
        let mut slots = Slots::new(self.index, self.times);
        if self.every_key {
            slots.special = (0..slots.keys.len()).collect();
        }
        if !slots.keys.is_empty() {
            let gaps = self.before(&slots);
            self.after(&slots, gaps);
        }
    }

    /// Visits readers in the order in which they began. Adds the edges from deletions that were
    /// over when the reader began, and the edges of keys with a write while the reader ran. Returns
    /// the gaps of all scans.
    fn before(&mut self, slots: &Slots) -> Vec<Gap> {
        let index = self.index;
        let begin = |number: u32| index.transaction(number).begin;
        let end = |number: u32| index.over(number);
        let mut over: Vec<&(u32, usize, usize)> = slots.written.iter().collect();
        over.sort_by_key(|(writer, ..)| end(*writer));
        let mut over = over.into_iter().peekable();
        let mut writers: Vec<u32> = slots.written.iter().map(|(writer, ..)| *writer).collect();
        writers.dedup();
        writers.sort_by_key(|writer| begin(*writer));
        let mut readers: Vec<u32> = index.counted().map(|(number, _)| number).collect();
        readers.retain(|number| {
            index
                .operations(*number)
                .any(|(operation, _)| matches!(operation, RecordedOperation::Scan(_)))
        });
        readers.sort_by_key(|reader| begin(*reader));

        let mut gone = Snapshots::new(slots.keys.len(), Way::ToReaders);
        let mut present = Present::new(slots.keys.len());
        // For each slot, the index of the last version (the last deletion) with a writer that is
        // over, plus one.
        let (mut last, mut last_gone) = (vec![0; slots.keys.len()], vec![0; slots.keys.len()]);
        let (mut running, mut begun) = (Vec::new(), 0);
        let mut gaps = Vec::new();
        for reader in readers {
            while let Some((writer, slot, place)) =
                over.next_if(|(writer, ..)| end(*writer) < begin(reader))
            {
                let (writer, slot, place) = (*writer, *slot, *place);
                let key = slots.keys[slot];
                let is_there = index.versions.of(key)[place].change.is_put();
                if place >= last[slot] {
                    last[slot] = place + 1;
                    present.set(slot, is_there);
                }
                let is_special = slots.special.binary_search(&slot).is_ok();
                let went =
                    !is_there && place > 0 && index.versions.of(key)[place - 1].change.is_put();
                if went && place >= last_gone[slot] && !is_special {
                    last_gone[slot] = place + 1;
                    gone.insert(self.graph, slot, writer, key);
                }
            }
            // The writers that ran when the reader began, and the writers that began while it ran.
            let started = writers.partition_point(|writer| begin(*writer) <= begin(reader));
            running.extend_from_slice(&writers[begun..started.max(begun)]);
            begun = started.max(begun);
            running.retain(|writer| end(*writer) >= begin(reader));
            let reader_end = index.transaction(reader).end;
            let count = writers[begun..].partition_point(|writer| begin(*writer) <= reader_end);
            let beside = running.iter().chain(&writers[begun..begun + count]);
            let mut touched: Vec<usize> = beside
                .filter(|writer| **writer != reader)
                .flat_map(|writer| slots.of(*writer).iter().map(|(_, slot, _)| *slot))
                .collect();
            touched.sort_unstable();
            touched.dedup();
            strict_assert!(touched.iter().all(|slot| *slot < slots.keys.len()), "a slot of no key");
            self.reader(slots, reader, &touched, &present, &mut gone, &mut gaps);
        }
        gaps
    }

    fn reader(
        &mut self,
        slots: &Slots,
        reader: u32,
        touched: &[usize],
        present: &Present,
        gone: &mut Snapshots,
        gaps: &mut Vec<Gap>,
    ) {
        let index = self.index;
        let mut own: Vec<u32> = Vec::new();
        for (operation, keys) in index.operations(reader) {
            let scan = match operation {
                RecordedOperation::Read { .. } => continue,
                RecordedOperation::Write { .. } => {
                    own.push(keys[0]);
                    continue;
                }
                RecordedOperation::Scan(scan) => scan,
            };
            own.sort_unstable();
            let range = slots.range(index, scan);
            let mut found: Vec<usize> =
                keys.iter().filter_map(|key| slots.keys.binary_search(key).ok()).collect();
            found.sort_unstable();
            found.dedup();
            found.retain(|slot| range.contains(slot));
            let starts = std::iter::once(range.start).chain(found.iter().map(|slot| slot + 1));
            let ends = found.iter().copied().chain(std::iter::once(range.end));
            for (from, to) in starts.zip(ends).filter(|(from, to)| from < to) {
                strict_assert!(
                    found.windows(2).all(|pair| pair[0] < pair[1]),
                    "a key is found twice"
                );
                let mut alone = Vec::new();
                present.find(from, to, &mut alone);
                for some in [touched, &slots.special] {
                    let some = &some[some.partition_point(|slot| *slot < from)..];
                    alone.extend_from_slice(&some[..some.partition_point(|slot| *slot < to)]);
                }
                alone.sort_unstable();
                alone.dedup();
                strict_assert!(
                    alone.iter().all(|slot| (from..to).contains(slot)),
                    "a key outside the gap"
                );
                for slot in alone {
                    if own.binary_search(&slots.keys[slot]).is_err() {
                        self.missed(reader, slots.keys[slot]);
                    }
                }
                gone.take(self.graph, from, to, reader);
                gaps.push(Gap { reader, slots: from..to });
            }
        }
    }

    /// Handles an absent key that gets edges of its own.
    fn missed(&mut self, reader: u32, key: u32) {
        let missed = Observation { reader, key, is_there: false, is_range: true };
        missed.settle(self.index, self.times, self.graph, self.findings, self.choices);
    }

    /// Visits gaps from the latest end of the reader to the earliest. Adds edges from a reader to
    /// the puts that began after the reader's end.
    fn after(&mut self, slots: &Slots, mut gaps: Vec<Gap>) {
        let index = self.index;
        let begin = |number: u32| index.transaction(number).begin;
        let mut puts: Vec<&(u32, usize, usize)> = slots
            .written
            .iter()
            .filter(|(_, slot, place)| {
                let versions = index.versions.of(slots.keys[*slot]);
                let came = versions[*place].change.is_put()
                    && (*place == 0 || !versions[*place - 1].change.is_put());
                came && slots.special.binary_search(slot).is_err()
            })
            .collect();
        puts.sort_by_key(|(writer, ..)| std::cmp::Reverse(begin(*writer)));
        let mut puts = puts.into_iter().peekable();
        gaps.sort_by_key(|gap| std::cmp::Reverse(index.transaction(gap.reader).end));
        let mut first = vec![usize::MAX; slots.keys.len()];
        let mut came = Snapshots::new(slots.keys.len(), Way::FromReaders);
        for gap in gaps {
            let end = index.transaction(gap.reader).end;
            while let Some((writer, slot, place)) =
                puts.next_if(|(writer, ..)| begin(*writer) > end)
            {
                if *place < first[*slot] {
                    first[*slot] = *place;
                    came.insert(self.graph, *slot, *writer, slots.keys[*slot]);
                }
            }
            came.take(self.graph, gap.slots.start, gap.slots.end, gap.reader);
        }
    }
}
