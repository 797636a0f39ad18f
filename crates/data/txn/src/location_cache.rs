//! [`Places`]: the location cache of a worker, which spares the worker index lookups.
//!
//! An entry is a guess and decides nothing. A read checks the cached location as it checks a
//! location from the index. This check is sufficient for two reasons. A row is live under at most
//! one row id, and its tuple contains its key. If the slot has no live row or another row, the
//! check fails, and the worker uses the index.

use latchwork_cache::Hint;
use latchwork_strict::strict_assert;
use latchwork_verbs::prefetch;
use latchwork_wal::TableId;

use crate::RowId;

/// Row ids by table and hash of the key. Each slot holds the last row that was noted there.
pub(crate) struct Places {
    slots: Box<[Slot]>,
}

/// Four slots have the size of one line of the processor's cache.
struct Slot {
    /// 0 in an empty slot.
    id: u64,
    /// A hash of the table and the key.
    tag: u32,
    hint: Hint,
}

const _: () = assert!(size_of::<Slot>() == 16);

impl Places {
    /// A cache of at least `count` slots, rounded up to a power of two. For 0 the cache has no
    /// slots.
    pub(crate) fn new(count: usize) -> Places {
        let slots = if count == 0 { 0 } else { count.next_power_of_two() };
        strict_assert!(
            slots == 0 || slots.is_power_of_two(),
            "the hash chooses a slot by its low bits"
        );
        let empty = || Slot { id: 0, tag: 0, hint: Hint::default() };
        Places { slots: std::iter::repeat_with(empty).take(slots).collect() }
    }

    /// The slot number and the tag of a row.
    #[inline]
    fn slot_of(&self, table: TableId, hash: u32) -> (usize, u32) {
        let tag = hash ^ table.0.rotate_left(16);
        let mixed = tag.wrapping_mul(0x9e37_79b9);
        ((mixed ^ mixed >> 15) as usize & self.slots.len().wrapping_sub(1), tag)
    }

    /// Prefetches what [`find`](Places::find) reads.
    #[inline]
    pub(crate) fn prefetch(&self, table: TableId, hash: u32) {
        if let Some(slot) = self.slots.get(self.slot_of(table, hash).0) {
            prefetch(slot);
        }
    }

    /// The last known row id of a key with this hash, with a guess of its frame.
    #[inline]
    pub(crate) fn find(&self, table: TableId, hash: u32) -> Option<(RowId, Hint)> {
        let (at, tag) = self.slot_of(table, hash);
        let slot = self.slots.get(at)?;
        (slot.id != 0 && slot.tag == tag).then(|| {
            let hint = Hint::default();
            hint.copy_from(&slot.hint);
            (RowId::from_bits(slot.id), hint)
        })
    }

    /// Notes where a row was found.
    #[inline]
    pub(crate) fn note(&mut self, table: TableId, hash: u32, id: RowId, hint: &Hint) {
        let (at, tag) = self.slot_of(table, hash);
        if let Some(slot) = self.slots.get_mut(at) {
            (slot.id, slot.tag) = (id.bits(), tag);
            strict_assert!(slot.id != 0, "a row location of 0 stands for none");
            slot.hint.copy_from(hint);
        }
    }

    /// Removes the entry of a row that is no longer at that location, or that the fast path cannot
    /// read.
    pub(crate) fn forget(&mut self, table: TableId, hash: u32) {
        let (at, tag) = self.slot_of(table, hash);
        if let Some(slot) = self.slots.get_mut(at)
            && slot.tag == tag
        {
            slot.id = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_found_until_it_is_forgotten_or_another_comes() {
        let mut places = Places::new(3);
        let (one, other) = (TableId(1), TableId(2));
        let id = RowId::from_bits(0x1_0000_2000 | 3);
        places.note(one, 77, id, &Hint::default());
        assert_eq!(places.find(one, 77).map(|place| place.0), Some(id));
        assert!(places.find(other, 77).is_none() && places.find(one, 78).is_none());
        places.forget(one, 77);
        assert!(places.find(one, 77).is_none());
        for hash in 0..100 {
            places.note(one, hash, id, &Hint::default());
        }
        assert_eq!((0..100).filter(|&hash| places.find(one, hash).is_some()).count(), 4);
    }

    #[test]
    fn without_slots_nothing_is_remembered() {
        let mut places = Places::new(0);
        places.note(TableId(1), 5, RowId::from_bits(9), &Hint::default());
        places.forget(TableId(1), 5);
        assert!(places.find(TableId(1), 5).is_none());
    }
}
