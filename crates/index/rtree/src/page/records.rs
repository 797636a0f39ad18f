//! [`Record`]: what a leaf knows of an entry that moves between two leaves.
//!
//! Records stand at the end of the columns, in cells that no entry uses: the last cells of all
//! columns belong to the first record. A leaf without records has room for entries only.

use latchwork_strict::strict_assert;
use latchwork_verbs::GlobalAddr;

use super::{Half, Layout, Page};
use crate::Rect;

/// The words of a record.
pub(super) const WORDS: usize = 4;

/// The part of an entry in a move. [`tree::update`](crate::tree) has the protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// The entry is at its new place. It counts if the other leaf has the record
    /// [`Departed`](Role::Departed) of the same move.
    Pending,
    /// The entry has left. It counts nowhere, and says where the object is.
    Departed,
    /// The entry is at its new place, and counts.
    Arrived,
}

/// What a leaf knows of an entry that moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) role: Role,
    /// The slot of the entry.
    pub(crate) slot: usize,
    /// The number of the move.
    pub(crate) number: u64,
    /// The leaf of the other place.
    pub(crate) leaf: GlobalAddr,
    /// A mark of operations: those that were in progress when the record got its role are before
    /// the mark. `None`: there is no mark yet.
    pub(crate) mark: Option<u64>,
}

impl Record {
    fn to_words(self) -> [u64; WORDS] {
        let first = (self.role as u64 + 1) | (self.slot as u64) << 8;
        [first, self.number, self.leaf.bits(), self.mark.map_or(0, |mark| mark + 1)]
    }

    fn from_words(words: [u64; WORDS]) -> Option<Record> {
        let [first, number, leaf, mark] = words;
        let role = match first as u8 {
            1 => Role::Pending,
            2 => Role::Departed,
            3 => Role::Arrived,
            _ => return None,
        };
        Some(Record {
            role,
            slot: (first >> 8 & 0xffff) as usize,
            number,
            leaf: GlobalAddr::from_bits(leaf),
            mark: mark.checked_sub(1),
        })
    }
}

impl Layout {
    /// The cells of an entry that a record takes.
    #[inline]
    pub(crate) fn record_cells(&self) -> usize {
        WORDS.div_ceil(2 * self.dimensions + 1)
    }

    /// The most records of a leaf that is full with `max` entries. They leave room for entries
    /// without records, so that a full leaf can be split.
    pub(crate) fn records_max(&self, max: usize) -> usize {
        (self.cap(0) / (2 * (1 + self.record_cells()))).min(max.saturating_sub(1))
    }
}

impl<const D: usize> Page<'_, D> {
    /// Whether there is room for `cells` more entries.
    pub(crate) fn has_room(&self, cells: usize) -> bool {
        let used = self.count() + self.record_count() * self.layout().record_cells();
        used + cells <= self.layout().cap(self.level())
    }

    fn word_of(&self, record: usize, word: usize) -> usize {
        let (layout, columns) = (self.layout(), 2 * D + 1);
        let cell = record * layout.record_cells() + word / columns;
        layout.column(0, word % columns) + (layout.cap(0) - 1).saturating_sub(cell)
    }

    /// A record, or `None` if its bytes are none.
    pub(crate) fn record(&self, at: usize) -> Option<Record> {
        let words = std::array::from_fn(|word| self.words().word(self.word_of(at, word)));
        Record::from_words(words)
    }

    pub(crate) fn set_record(&self, at: usize, record: Record) {
        strict_assert!(at < self.record_count(), "no such record");
        for (word, value) in record.to_words().into_iter().enumerate() {
            self.words().set_word(self.word_of(at, word), value);
        }
    }

    /// All records of a leaf, with their numbers.
    pub(crate) fn records(&self) -> impl Iterator<Item = (usize, Record)> {
        (0..self.record_count()).filter_map(|at| Some((at, self.record(at)?)))
    }

    /// The record of an entry, if the entry moves or has moved lately.
    pub(crate) fn record_of(&self, slot: usize) -> Option<Record> {
        self.records().map(|(_, record)| record).find(|record| record.slot == slot)
    }

    /// The record with this role in a move.
    pub(crate) fn record_in(&self, number: u64, role: Role) -> Option<(usize, Record)> {
        self.records().find(|(_, record)| record.number == number && record.role == role)
    }

    pub(crate) fn push_record(&self, record: Record) {
        strict_assert!(self.level() == 0 && record.slot < self.count(), "a record of no entry");
        strict_assert!(self.has_room(self.layout().record_cells()), "no room for a record");
        let at = self.record_count();
        self.set_record_count(at + 1);
        self.set_record(at, record);
    }

    /// The slot of an entry of a leaf that counts.
    pub(crate) fn find(&self, rect: &Rect<D>, id: u64) -> Option<usize> {
        self.slots_of(rect, id).find(|&slot| {
            let record = if self.record_count() == 0 { None } else { self.record_of(slot) };
            record.is_none_or(|record| record.role == Role::Arrived)
        })
    }

    /// Whether an entry may get a record, in a leaf that is full with `max` entries.
    pub(crate) fn can_record(&self, max: usize) -> bool {
        let layout = self.layout();
        self.has_room(layout.record_cells()) && self.record_count() < layout.records_max(max)
    }

    /// Lets all entries with records stay in the first half, so that they stay in their page.
    /// `None` if no entry is left for the second half.
    pub(crate) fn keep_records(&self, halves: [Half<D>; 2]) -> Option<[Half<D>; 2]> {
        if self.level() > 0 || self.record_count() == 0 {
            return Some(halves);
        }
        let stays = |slot: &usize| self.record_of(*slot).is_some();
        let [mut first, mut second] = halves;
        let count = |half: &Half<D>| half.slots.iter().filter(|slot| stays(slot)).count();
        if count(&first) < count(&second) {
            std::mem::swap(&mut first, &mut second);
        }
        let (staying, going): (Vec<usize>, Vec<usize>) = second.slots.into_iter().partition(stays);
        first.slots.extend(staying);
        second.slots = going;
        if second.slots.is_empty() {
            let at = first.slots.iter().position(|slot| !stays(slot))?;
            second.slots.push(first.slots.swap_remove(at));
        }
        Some([first, second].map(|Half { slots, .. }| {
            let rects = slots.iter().map(|&slot| self.rect(slot));
            let cover = rects.fold(Rect::NOTHING, |so_far, rect| so_far.union(&rect));
            Half { slots, cover }
        }))
    }

    /// Copies the record of an entry of another page, if the entry has one.
    pub(super) fn copy_record(&self, from: &Page<'_, D>, slot: usize, to: usize) {
        if self.level() == 0 && from.record_count() > 0 {
            let record = from.record_of(slot);
            record.into_iter().for_each(|record| self.push_record(Record { slot: to, ..record }));
        }
    }

    pub(crate) fn remove_record(&self, at: usize) {
        let last = self.record_count() - 1;
        if let Some(moved) = self.record(last).filter(|_| at != last) {
            self.set_record(at, moved);
        }
        self.set_record_count(last);
    }

    /// The entry in `slot` has left the page, and the one in `last` has taken its slot.
    pub(super) fn records_follow(&self, slot: usize, last: usize) {
        if self.level() > 0 || self.record_count() == 0 {
            return;
        }
        let gone = self.records().find(|(_, record)| record.slot == slot);
        gone.into_iter().for_each(|(at, _)| self.remove_record(at));
        let moved = self.records().find(|(_, record)| record.slot == last);
        moved.into_iter().for_each(|(at, record)| self.set_record(at, Record { slot, ..record }));
    }

    /// Asserts what holds of the records between two writes.
    pub(super) fn check_records(&self) {
        assert!(self.has_room(0), "records and entries overlap");
        for (at, record) in self.records() {
            assert!(record.slot < self.count(), "a record of an entry that is not there");
            let others = self.records().filter(|(other, _)| *other != at);
            assert!(
                others.into_iter().all(|(_, other)| other.slot != record.slot),
                "two records of one entry"
            );
        }
    }
}
