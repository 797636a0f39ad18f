//! [`Places`]: where a worker has found rows, so that it need not ask the index again.
//!
//! A guess, which decides nothing: a place is looked at as if the index had led there, and holds
//! the row only if it says so itself. A row is alive in one place at most, and that one knows its
//! key; what was deleted, moved or has made room for another row is no match, and then the index is
//! asked.

use latchwork_cache::Hint;
use latchwork_verbs::prefetch;
use latchwork_wal::TableId;

use crate::TupleId;

/// Places of rows by table and a hash of the key: the last that came to each slot.
pub(crate) struct Places {
    slots: Box<[Slot]>,
}

/// Four to a line of the processor's cache.
struct Slot {
    /// 0 where there is none.
    id: u64,
    /// Of table and key.
    tag: u32,
    hint: Hint,
}

const _: () = assert!(size_of::<Slot>() == 16);

impl Places {
    /// For up to `count` rows, or twice as many; none for 0.
    pub(crate) fn new(count: usize) -> Places {
        let slots = if count == 0 { 0 } else { count.next_power_of_two() };
        let empty = || Slot { id: 0, tag: 0, hint: Hint::default() };
        Places { slots: std::iter::repeat_with(empty).take(slots).collect() }
    }

    /// Which slot, and what stands there.
    #[inline]
    fn slot_of(&self, table: TableId, hash: u32) -> (usize, u32) {
        let tag = hash ^ table.0.rotate_left(16);
        let mixed = tag.wrapping_mul(0x9e37_79b9);
        ((mixed ^ mixed >> 15) as usize & self.slots.len().wrapping_sub(1), tag)
    }

    /// Asks the processor for what [`find`](Places::find) reads.
    #[inline]
    pub(crate) fn prefetch(&self, table: TableId, hash: u32) {
        if let Some(slot) = self.slots.get(self.slot_of(table, hash).0) {
            prefetch(slot);
        }
    }

    /// Where a row with a key of this hash was, and in which frame its line.
    #[inline]
    pub(crate) fn find(&self, table: TableId, hash: u32) -> Option<(TupleId, Hint)> {
        let (at, tag) = self.slot_of(table, hash);
        let slot = self.slots.get(at)?;
        (slot.id != 0 && slot.tag == tag).then(|| {
            let hint = Hint::default();
            hint.copy_from(&slot.hint);
            (TupleId::from_bits(slot.id), hint)
        })
    }

    /// Remembers where a row was found.
    #[inline]
    pub(crate) fn note(&mut self, table: TableId, hash: u32, id: TupleId, hint: &Hint) {
        let (at, tag) = self.slot_of(table, hash);
        if let Some(slot) = self.slots.get_mut(at) {
            (slot.id, slot.tag) = (id.bits(), tag);
            slot.hint.copy_from(hint);
        }
    }

    /// The row is not there any more, or not to be had.
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
        let id = TupleId::from_bits(0x1_0000_2000 | 3);
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
        places.note(TableId(1), 5, TupleId::from_bits(9), &Hint::default());
        places.forget(TableId(1), 5);
        assert!(places.find(TableId(1), 5).is_none());
    }
}
