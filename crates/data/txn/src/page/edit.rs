//! Page changes, under the write guard. Every change returns a range that contains the bytes that
//! the change wrote. A page is sound if [`check`] finds no defect. On a sound page, a change that
//! fails writes nothing.

use std::ops::Range;

use latchwork_strict::{STRICT, strict_assert};
use latchwork_verbs::{WORD, Words};
use latchwork_wal::Timestamp;

use super::header::{Header, Slot};
use super::read::{Page, TupleRef};
use super::{
    Broken, HEADER, READ_STAMP, SLOT, State, TUPLE, TUPLE_MIN, check, slots_max, tuple_size,
};

/// Tuples of at most this number of bytes are built in a buffer before they are written.
const SHORT: usize = 128;
const _: () = assert!(SHORT.is_multiple_of(WORD) && SHORT > TUPLE, "a short tuple is whole words");

/// The reason why a page could not be changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edit {
    /// The page has no room.
    Full,
    /// The page is corrupt.
    Broken(Broken),
}

impl Edit {
    pub(crate) fn of(what: &'static str) -> Edit {
        Edit::Broken(Broken(what))
    }
}

impl From<Broken> for Edit {
    fn from(broken: Broken) -> Edit {
        Edit::Broken(broken)
    }
}

/// The byte range that contains all bytes that a change wrote; empty at first.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Dirty(Option<Range<usize>>);

impl Dirty {
    fn add(&mut self, range: Range<usize>) {
        let all = self
            .0
            .take()
            .map_or(range.clone(), |old| old.start.min(range.start)..old.end.max(range.end));
        self.0 = Some(all);
    }

    pub(crate) fn range(&self) -> Range<usize> {
        self.0.clone().unwrap_or(0..0)
    }
}

/// A tuple that is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct New<'a> {
    pub(crate) state: State,
    pub(crate) cts: Timestamp,
    pub(crate) key: &'a [u8],
    pub(crate) value: &'a [u8],
}

impl New<'_> {
    fn size(&self) -> usize {
        tuple_size(self.key.len(), self.value.len())
    }
}

/// Formats the words as an empty page.
pub(crate) fn format(words: Words<'_>, table: u32) -> Dirty {
    Header::empty(words.len(), table).store(words);
    words.set_word(READ_STAMP, 0);
    Dirty(Some(0..HEADER))
}

impl TupleRef<'_> {
    /// Like [`Page::set_part`]. Returns the range of changed bytes, which includes unchanged bytes
    /// between them.
    #[inline]
    pub(crate) fn set_part(
        &self,
        cts: Timestamp,
        offset: usize,
        bytes: &[u8],
    ) -> Result<Range<usize>, Broken> {
        if offset + bytes.len() > self.value {
            return Err(Broken("a change beyond the end of a value"));
        }
        let (from, at) = (self.slot.offset, self.value_at() + offset);
        self.words.set_u64(from, cts.0);
        if bytes.is_empty() {
            return Ok(from..from + 8);
        }
        self.words.write_bytes(at, bytes);
        Ok(from..at + bytes.len())
    }
}

/// The maximum number of slots of a page that strict builds check as a whole around every edit.
const CHECKED_MAX: u16 = 32;

impl Page<'_> {
    /// Runs `edit` on the page. A sound page stays sound, which strict builds assert for pages with
    /// few slots. A damaged page may stay damaged.
    fn soundly<T>(mut self, edit: impl FnOnce(&mut Self) -> Result<T, Edit>) -> Result<T, Edit> {
        let (words, before) = (self.words, self.header);
        let was_sound = STRICT && before.slots <= CHECKED_MAX && check(&self).is_ok();
        let edited = edit(&mut self);
        if was_sound {
            let after = Header::load(words, before.table);
            assert!(after.is_ok(), "an edit has damaged the header of a sound page");
            if let Ok(header) = after {
                let after = Page { words, header };
                assert_eq!(check(&after).err(), None, "an edit has damaged a sound page");
                assert!(edited.is_ok() || header == before, "a refused edit has an effect");
                assert!(after.header.slots >= before.slots, "a page loses a slot");
            }
        }
        edited
    }

    /// Adds a tuple and returns its slot. `self` has the new header afterwards.
    pub(crate) fn insert(&mut self, new: New<'_>) -> Result<(usize, Dirty), Edit> {
        let inserted = self.soundly(|page| page.insert_here(new).map(|done| (done, page.header)));
        inserted.map(|(done, header)| {
            self.header = header;
            done
        })
    }

    fn insert_here(&mut self, new: New<'_>) -> Result<(usize, Dirty), Edit> {
        let size = new.size();
        let slots = usize::from(self.header.slots);
        let slot = match self.header.free_slots {
            0 => slots,
            _ => (0..slots)
                .find(|&slot| Slot::load(self.words, slot) == Slot::FREE)
                .ok_or(Broken("it counts a free slot that it has not"))?,
        };
        let fresh = slot == slots;
        let more = if fresh { SLOT } else { 0 };
        if fresh && slots >= slots_max(self.words.len())
            || size > self.header.room(self.words.len())
        {
            return Err(Edit::Full);
        }
        let mut dirty = Dirty::default();
        if size + more > self.header.gap() {
            self.compact(&mut dirty)?;
            if size + more > self.header.gap() {
                return Err(Broken("its garbage is not as much as it counts").into());
            }
        }
        if fresh {
            self.header.slots += 1;
        } else {
            self.header.free_slots -= 1;
        }
        self.place(slot, new, size, &mut dirty);
        strict_assert!(
            usize::from(self.header.slots) <= slots_max(self.words.len()),
            "more slots than a line can have"
        );
        self.header.tombstones += u16::from(new.state == State::Tombstone);
        self.store_header(&mut dirty);
        Ok((slot, dirty))
    }

    /// Adds tuples to a page without free slots, while there is room without compaction and the
    /// page has fewer than `most` slots. Returns the new slots. `self` has the new header
    /// afterwards.
    pub(crate) fn append<'n>(
        &mut self,
        run: impl Iterator<Item = New<'n>>,
        most: usize,
    ) -> (Range<usize>, Dirty) {
        let (first, end) = (usize::from(self.header.slots), usize::from(self.header.heap));
        let most =
            if self.header.free_slots > 0 { 0 } else { most.min(slots_max(self.words.len())) };
        let mut slots = first..first;
        let mut dirty = Dirty::default();
        for new in run {
            let size = new.size();
            if slots.end >= most || size + SLOT > self.header.gap() {
                break;
            }
            self.header.heap -= size as u16;
            self.header.slots += 1;
            self.header.tombstones += u16::from(new.state == State::Tombstone);
            let place = Slot { offset: self.header.heap.into(), size };
            place.store(self.words, slots.end);
            self.write(place, new, &mut dirty);
            slots.end += 1;
        }
        strict_assert!(slots.end == usize::from(self.header.slots), "a row has no slot");
        if !slots.is_empty() {
            self.header.store(self.words);
            dirty = Dirty(Some(0..end));
        }
        (slots, dirty)
    }

    /// Replaces the tuple of a slot by `new`: in place if its allotment suffices, otherwise
    /// elsewhere on the page.
    pub(crate) fn set(self, slot: usize, new: New<'_>) -> Result<Dirty, Edit> {
        self.set_in(slot, new, new.size())
    }

    /// Allots enough bytes to the tuple of a slot for a value of `value` bytes, and changes nothing
    /// else.
    pub(crate) fn widen(self, slot: usize, value: usize) -> Result<Dirty, Edit> {
        let old = self.tuple(slot)?.ok_or(Broken("a slot without a tuple is to grow"))?;
        let size = tuple_size(old.key, value);
        if size <= old.slot.size {
            return Ok(Dirty::default());
        }
        let (mut key, mut value) = (Vec::new(), Vec::new());
        old.append_key(&mut key);
        old.append_value(&mut value);
        self.set_in(slot, New { state: old.state, cts: old.cts, key: &key, value: &value }, size)
    }

    fn set_in(self, slot: usize, new: New<'_>, size: usize) -> Result<Dirty, Edit> {
        self.soundly(|page| page.set_here(slot, new, size))
    }

    fn set_here(&mut self, slot: usize, new: New<'_>, size: usize) -> Result<Dirty, Edit> {
        let old = self.tuple(slot)?.ok_or(Broken("a slot without a tuple is to change"))?;
        let header = self.header;
        let mut dirty = Dirty::default();
        self.forget(old.state);
        self.header.tombstones += u16::from(new.state == State::Tombstone);
        if size <= old.slot.size {
            // A row keeps its longest allotment. A tombstone or a stub does not.
            let keeps = matches!(new.state, State::Live | State::Away);
            let size = if keeps { old.slot.size } else { size };
            self.add_garbage(old.slot.size - size);
            let place = Slot { offset: old.slot.offset, size };
            if place != old.slot {
                place.store(self.words, slot);
                dirty.add(Slot::at(slot)..Slot::at(slot) + SLOT);
            }
            self.write(place, new, &mut dirty);
        } else {
            if size > (header.gap() + usize::from(header.garbage)) / 8 * 8 + old.slot.size {
                return Err(Edit::Full);
            }
            self.add_garbage(old.slot.size);
            if size > self.header.gap() {
                Slot::FREE.store(self.words, slot);
                self.compact(&mut dirty)?;
                if size > self.header.gap() {
                    return Err(Broken("its garbage is not as much as it counts").into());
                }
            }
            self.place(slot, new, size, &mut dirty);
        }
        if self.header != header {
            self.store_header(&mut dirty);
        }
        Ok(dirty)
    }

    /// Overwrites a part of a value, and the commit timestamp.
    pub(crate) fn set_part(
        self,
        slot: usize,
        cts: Timestamp,
        offset: usize,
        bytes: &[u8],
    ) -> Result<Dirty, Edit> {
        let old = self.tuple(slot)?.ok_or(Broken("a slot without a tuple is to change"))?;
        Ok(Dirty(Some(old.set_part(cts, offset, bytes)?)))
    }

    /// Makes the pending rows of a committed transaction live.
    pub(crate) fn publish(
        self,
        slots: impl Iterator<Item = usize> + Clone,
        cts: Timestamp,
    ) -> Result<Dirty, Edit> {
        // This check comes first, so that all rows become live or none.
        for slot in slots.clone() {
            if !self.tuple(slot)?.is_some_and(|old| old.state == State::Pending) {
                return Err(Edit::of("a row is to be published that is not pending"));
            }
        }
        let mut dirty = Dirty::default();
        for slot in slots {
            let at = Slot::load(self.words, slot).offset;
            self.words.set_u64(at, cts.0);
            self.words.set_u8(at + 12, State::Live as u8);
            dirty.add(at..at + TUPLE);
        }
        Ok(dirty)
    }

    /// Raises the read timestamp of the page to `to`.
    pub(crate) fn raise_read_timestamp(self, to: Timestamp) -> Dirty {
        if self.read_stamp() >= to {
            return Dirty::default();
        }
        self.words.set_word(READ_STAMP, to.0);
        Dirty(Some(8 * READ_STAMP..HEADER))
    }

    /// Removes a tuple. The slot of the tuple may be reused.
    pub(crate) fn erase(self, slot: usize) -> Result<Dirty, Edit> {
        self.soundly(|page| page.erase_here(slot))
    }

    fn erase_here(&mut self, slot: usize) -> Result<Dirty, Edit> {
        let old = self.tuple(slot)?.ok_or(Broken("a slot without a tuple is to be erased"))?;
        self.add_garbage(old.slot.size);
        self.forget(old.state);
        Slot::FREE.store(self.words, slot);
        self.header.free_slots += 1;
        let mut dirty = Dirty::default();
        dirty.add(Slot::at(slot)..Slot::at(slot) + SLOT);
        self.store_header(&mut dirty);
        Ok(dirty)
    }

    // Saturating, because on a corrupt page the counter may have any value.
    fn add_garbage(&mut self, bytes: usize) {
        self.header.garbage = self.header.garbage.saturating_add(bytes as u16);
    }

    fn forget(&mut self, state: State) {
        let less = u16::from(state == State::Tombstone);
        self.header.tombstones = self.header.tombstones.saturating_sub(less);
    }

    fn store_header(&self, dirty: &mut Dirty) {
        self.header.store(self.words);
        dirty.add(0..HEADER);
    }

    /// Writes a tuple below the other tuples, where there is room for it.
    fn place(&mut self, slot: usize, new: New<'_>, size: usize, dirty: &mut Dirty) {
        self.header.heap -= size as u16;
        strict_assert!(size >= TUPLE_MIN && size.is_multiple_of(8), "an allotment of {size} bytes");
        let place = Slot { offset: self.header.heap.into(), size };
        strict_assert!(
            usize::from(self.header.heap) >= self.header.slots_end(),
            "a tuple runs into the slots"
        );
        place.store(self.words, slot);
        dirty.add(Slot::at(slot)..Slot::at(slot) + SLOT);
        self.write(place, new, dirty);
    }

    #[inline]
    fn write(&self, place: Slot, new: New<'_>, dirty: &mut Dirty) {
        let New { state, cts, key, value } = new;
        let (at, len) = (place.offset, TUPLE + key.len() + value.len());
        strict_assert!(len <= place.size, "a tuple of {len} bytes in {} bytes", place.size);
        let lengths = (value.len() as u32 | (key.len() as u32) << 16).to_le_bytes();
        // The write ends with a whole word. The allotment is a multiple of a word, so it contains
        // that word.
        let end = len.next_multiple_of(WORD);
        strict_assert!(at + end <= self.words.len(), "a tuple leaves the page");
        let mut tuple = [0; SHORT];
        // A short tuple is built in a buffer and written at once.
        match tuple.get_mut(..end) {
            Some(tuple) => {
                let (head, rest) = tuple.split_at_mut(TUPLE);
                head[..8].copy_from_slice(&cts.0.to_le_bytes());
                head[8..12].copy_from_slice(&lengths);
                head[12] = state as u8;
                let (to_key, rest) = rest.split_at_mut(key.len());
                to_key.copy_from_slice(key);
                rest[..value.len()].copy_from_slice(value);
                self.words.write_bytes(at, tuple);
            }
            None => {
                self.words.set_u64(at, cts.0);
                self.words.write_bytes(at + 8, &lengths);
                self.words.set_u8(at + 12, state as u8);
                self.words.write_bytes(at + TUPLE, key);
                self.words.write_bytes(at + TUPLE + key.len(), value);
            }
        }
        dirty.add(at..at + end);
    }

    /// Moves the tuples together, so that no garbage is left.
    fn compact(&mut self, dirty: &mut Dirty) -> Result<(), Broken> {
        let len = self.words.len();
        let mut places = Vec::with_capacity(self.header.slots.into());
        for number in 0..usize::from(self.header.slots) {
            let slot = Slot::load(self.words, number);
            if slot.size > 0 {
                places.push((slot, number));
            }
        }
        places.sort_unstable_by_key(|(slot, _)| std::cmp::Reverse(slot.offset));
        // This check of the tuples comes before the first move, so a corrupt page is left as it
        // was.
        let mut above = len;
        for (slot, _) in &places {
            if slot.offset + slot.size > above
                || slot.offset < usize::from(self.header.heap)
                || slot.size < TUPLE_MIN
            {
                return Err(Broken("tuples overlap"));
            }
            above = slot.offset;
        }
        let mut end = len;
        for (slot, number) in places {
            end -= slot.size;
            if end != slot.offset {
                self.words.move_words(slot.offset..slot.offset + slot.size, end);
                Slot { offset: end, size: slot.size }.store(self.words, number);
            }
        }
        strict_assert!(end >= self.header.slots_end(), "the tuples run into the slots");
        self.header.heap = end as u16;
        self.header.garbage = 0;
        dirty.add(HEADER..len);
        Ok(())
    }
}
