//! Changes of a page in place, under its write guard.

use std::ops::Range;

use latchwork_strict::{STRICT, strict_assert};
use latchwork_verbs::WORD;

use super::build::relax;
use super::{
    Broken, Builder, Entry, HEAD, HEADER, Header, Image, Page, Place, SLOT, Seek, check,
    entry_size, head_behind, head_of,
};

/// A range of the page that contains all bytes that a change wrote.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Dirty(Range<usize>);

impl Dirty {
    /// Exactly these bytes.
    #[inline]
    pub(crate) fn range(range: Range<usize>) -> Dirty {
        Dirty(range)
    }

    /// This range, or the first word if nothing was written. So the caller treats the page as
    /// changed.
    pub(crate) fn or_first_word(self) -> Dirty {
        if self.0.is_empty() { Dirty(0..WORD) } else { self }
    }

    /// The bytes as non-empty ranges.
    #[inline]
    pub(crate) fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        Some(self.0).into_iter().filter(|range| !range.is_empty())
    }
}

/// The reason why a change did not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edit {
    /// The page has no room, even after a rebuild.
    Full,
    /// The page is damaged.
    Broken(Broken),
}

impl From<Broken> for Edit {
    fn from(broken: Broken) -> Edit {
        Edit::Broken(broken)
    }
}

/// The entry of a rebuilt page that replaces the entries in `slots`.
#[derive(Clone, Debug)]
struct Replace<'e> {
    slots: Range<usize>,
    key: &'e [u8],
    value: &'e [u8],
}

/// The most entries of a page that a strict build checks as a whole around an edit.
const CHECKED_MAX: usize = 32;

impl Page<'_> {
    /// Runs `edit` on the page. A sound page, in which [`check`] finds no damage, stays sound.
    /// Strict builds assert this for pages with few entries. A damaged page may stay damaged.
    fn soundly(&self, edit: impl FnOnce(&Self) -> Result<Dirty, Edit>) -> Result<Dirty, Edit> {
        let was_sound = STRICT && self.header.count() <= CHECKED_MAX && check(self).is_ok();
        let edited = edit(self);
        if was_sound {
            let after = Page { words: self.words, header: Header::load(self.words) };
            assert_eq!(check(&after).err(), None, "an edit has damaged a sound page");
            assert!(edited.is_ok() || after.header == self.header, "a refused edit has an effect");
            assert_eq!(after.header.tag, self.header.tag, "an edit moves a page to another tree");
            assert_eq!(after.header.level, self.header.level, "an edit moves a page");
            assert_eq!(after.header.right, self.header.right, "an edit changes the right link");
        }
        edited
    }

    /// Inserts `key` at `slot`, where [`Page::search`] missed it. The key lies within the fence
    /// keys.
    pub(crate) fn insert(&self, slot: usize, key: &[u8], value: &[u8]) -> Result<Dirty, Edit> {
        self.soundly(|page| page.insert_here(slot, key, value))
    }

    /// [`insert`](Page::insert) without the check of strict builds, for any page and any key.
    pub(super) fn insert_here(&self, slot: usize, key: &[u8], value: &[u8]) -> Result<Dirty, Edit> {
        let mut header = self.header;
        let suffix = key.get(header.prefix()..).unwrap_or(&[]);
        let slot = slot.min(header.count());
        strict_assert!(slot <= header.count());
        let is_full = header.count == header.cap;
        if !header.shape.is_slotted()
            && usize::from(header.width) == value.len()
            && (header.shape.holds(suffix) || relax(&mut header, self.words, suffix))
        {
            // A rebuild as a slotted page would not help, because a slotted page has room for fewer
            // entries.
            if is_full {
                return Err(Edit::Full);
            }
            let [heads, cells] = self.open_slots(slot, 1);
            self.words.set_u64(heads.start, head_behind(key, header.prefix()));
            self.words.write_bytes(cells.start, value);
            header.count += 1;
            strict_assert!(header.count <= header.cap, "more entries than slots");
            header.store_counts(self.words);
            return Ok(Dirty::range(0..cells.end));
        }
        let size = entry_size(suffix.len(), value.len());
        if header.shape.is_slotted() {
            if !is_full && size <= header.gap() {
                return Ok(self.insert_slotted(slot, suffix, value));
            }
            if SLOT + size > header.free()
                && !self.may_become_fixed(&(slot..slot), suffix.len(), value.len())
            {
                return Err(Edit::Full);
            }
        } else if self.size_slotted(header.count()) + SLOT + size > header.heap() {
            return Err(Edit::Full);
        }
        self.rebuild(&Replace { slots: slot..slot, key, value })
    }

    /// Like [`insert`](Page::insert), for several `entries`. Inserts the first entry. Also inserts
    /// as many of the following entries as meet these conditions:
    ///
    /// - Their keys are ascending and belong into the same position.
    /// - The entries have room without a rebuild.
    /// - The total is at most `most`.
    ///
    /// Returns the number of inserted entries.
    pub(crate) fn insert_run(
        &self,
        slot: usize,
        entries: &[(&[u8], &[u8])],
        most: usize,
    ) -> Result<(usize, Dirty), Edit> {
        let slot = slot.min(self.header.count());
        let most = most.min(usize::from(self.header.cap.saturating_sub(self.header.count)));
        let entries = &entries[..entries.len().min(most.max(1))];
        let (first, more) = entries.split_first().ok_or(Broken("nothing to insert"))?;
        let ascending = entries.windows(2).take_while(|pair| pair[0].0 < pair[1].0).count();
        let more = &more[..ascending];
        // Usually either all or none of the other entries belong into this position, so the last
        // one is tried first.
        let together = match more.last() {
            Some((last, _)) if self.comes_before(slot, last) => more.len(),
            _ => more.iter().take_while(|(key, _)| self.comes_before(slot, key)).count(),
        };
        if together > 0 {
            let run = &entries[..=together];
            let done = match self.header.shape.is_slotted() {
                true => self.insert_run_slotted(slot, run),
                false => self.insert_run_fixed(slot, run),
            };
            strict_assert!(done.0 <= run.len(), "more entries were added than came");
            if done.0 > 0 {
                return Ok(done);
            }
        }
        let (key, value) = *first;
        self.insert(slot, key, value).map(|dirty| (1, dirty))
    }

    /// Whether `key` belongs into `slot`, given that a lower key belongs there.
    fn comes_before(&self, slot: usize, key: &[u8]) -> bool {
        self.place(Seek::At(key)) == Ok(Place::Here)
            && (slot == self.header.count()
                || head_behind(key, self.header.prefix()) < self.head(slot)
                || self.search(key) == Err(slot))
    }

    /// Inserts the entries side by side into a fixed page that has slots for all of them. Stops at
    /// the first entry that does not fit the page's shape.
    fn insert_run_fixed(&self, slot: usize, entries: &[(&[u8], &[u8])]) -> (usize, Dirty) {
        let mut header = self.header;
        let holds = |(key, value): &&(&[u8], &[u8])| {
            usize::from(header.width) == value.len()
                && header.shape.holds(key.get(header.prefix()..).unwrap_or(&[]))
        };
        let new = entries.iter().take_while(holds).count();
        if new == 0 {
            return (0, Dirty::default());
        }
        let [heads, cells] = self.open_slots(slot, new);
        for (at, (key, value)) in entries[..new].iter().enumerate() {
            let head = head_behind(key, header.prefix());
            self.words.set_u64(heads.start + at * HEAD, head);
            self.words.write_bytes(cells.start + at * header.stride(), value);
        }
        header.count += new as u16;
        strict_assert!(header.count <= header.cap, "more entries than slots");
        header.store_counts(self.words);
        (new, Dirty::range(0..cells.end))
    }

    /// Like [`insert_run_fixed`](Page::insert_run_fixed), for a slotted page. Inserts as many
    /// entries as have room in the gap.
    fn insert_run_slotted(&self, slot: usize, entries: &[(&[u8], &[u8])]) -> (usize, Dirty) {
        let mut header = self.header;
        let suffix = |key: &'_ [u8]| key.len().saturating_sub(header.prefix());
        let mut left = header.gap();
        let fits = |(key, value): &&(&[u8], &[u8])| {
            let size = entry_size(suffix(key), value.len());
            left.checked_sub(size).inspect(|less| left = *less).is_some()
        };
        let new = entries.iter().take_while(fits).count();
        strict_assert!(left <= header.gap(), "entries take more room than the gap has");
        if new == 0 {
            return (0, Dirty::default());
        }
        let end = header.heap();
        let [heads, cells] = self.open_slots(slot, new);
        for (at, (key, value)) in entries[..new].iter().enumerate() {
            let suffix = key.get(header.prefix()..).unwrap_or(&[]);
            let cell = cells.start + at * header.stride();
            self.put_slotted(&mut header, heads.start + at * HEAD, cell, suffix, value);
        }
        strict_assert!(header.heap() >= header.cells_end(), "the heap runs into the cells");
        header.count += new as u16;
        strict_assert!(header.count <= header.cap, "more entries than slots");
        header.store_counts(self.words);
        (new, Dirty::range(0..end))
    }

    /// Writes an entry of a slotted page: its bytes below the other entries in the heap, its head
    /// and its cell. The heap has room for it.
    #[inline]
    fn put_slotted(
        &self,
        header: &mut Header,
        head: usize,
        cell: usize,
        suffix: &[u8],
        value: &[u8],
    ) {
        header.heap -= entry_size(suffix.len(), value.len()) as u16;
        strict_assert!(header.heap() >= header.cells_end(), "the heap runs into the cells");
        let entry =
            Entry { offset: header.heap, suffix: suffix.len() as u16, value: value.len() as u16 };
        self.words.write_bytes(entry.offset(), value);
        self.words.write_bytes(entry.rest().0, suffix.get(HEAD..).unwrap_or(&[]));
        self.words.set_u64(head, head_of(suffix));
        self.words.set_u64(cell, entry.bits());
    }

    /// Inserts into a slotted page that has room in its arrays and in the gap before its heap.
    fn insert_slotted(&self, slot: usize, suffix: &[u8], value: &[u8]) -> Dirty {
        let mut header = self.header;
        let end = header.heap();
        let [heads, cells] = self.open_slots(slot, 1);
        self.put_slotted(&mut header, heads.start, cells.start, suffix, value);
        header.count += 1;
        strict_assert!(header.count <= header.cap, "more entries than slots");
        header.store_counts(self.words);
        Dirty::range(0..end)
    }

    /// Removes the entry in `slot`.
    pub(crate) fn remove(&self, slot: usize) -> Result<Dirty, Edit> {
        self.soundly(|page| page.remove_here(slot))
    }

    fn remove_here(&self, slot: usize) -> Result<Dirty, Edit> {
        let mut header = self.header;
        let entry = self.checked_entry(slot)?;
        let count = header.count();
        let heads = Header::head_at(slot)..Header::head_at(count);
        let cells = header.cell_at(slot)..header.cell_at(count);
        self.words.move_words(heads.start + HEAD..heads.end, heads.start);
        self.words.move_words(cells.start + header.stride()..cells.end, cells.start);
        header.count -= 1;
        if header.shape.is_slotted() {
            release(&mut header, entry);
        }
        header.store_counts(self.words);
        Ok(Dirty::range(0..cells.end))
    }

    /// Removes the child in `slot`, which is not the first one, and notes that a child was lost.
    pub(crate) fn lose_child(&self, slot: usize) -> Result<Dirty, Edit> {
        strict_assert!(slot > 0, "the first child stands for the low fence");
        let dirty = self.remove(slot)?;
        Header::store_lost(self.words);
        Ok(dirty)
    }

    /// Replaces the value in `slot`.
    pub(crate) fn set_value(&self, slot: usize, value: &[u8]) -> Result<Dirty, Edit> {
        self.soundly(|page| page.set_value_here(slot, value))
    }

    fn set_value_here(&self, slot: usize, value: &[u8]) -> Result<Dirty, Edit> {
        let header = &self.header;
        let len = value.len();
        if !header.shape.is_slotted() && usize::from(header.width) == len && slot < header.count() {
            let at = header.cell_at(slot);
            self.words.write_bytes(at, value);
            return Ok(Dirty::range(at..at + len));
        }
        let entry = self.checked_entry(slot)?;
        if len == entry.value_len() {
            self.words.write_bytes(entry.offset(), value);
            return Ok(Dirty::range(entry.offset()..entry.offset() + value.len()));
        }
        let size = entry_size(entry.suffix_len(), value.len());
        let mut header = self.header;
        let others = header.count() - 1;
        let offset = if !header.shape.is_slotted() {
            if self.size_slotted(others) + SLOT + size > header.heap() {
                return Err(Edit::Full);
            }
            return self.rebuild_value(slot, value);
        } else if size <= entry.size() {
            add_garbage(&mut header, entry.size() - size);
            entry.offset()
        } else if size <= header.gap() {
            release(&mut header, entry);
            // `release` may have moved the start of the heap up. The new bytes are directly below
            // that start in both cases.
            header.heap -= size as u16;
            header.heap()
        } else if size <= header.free() + entry.size()
            || self.may_become_fixed(&(slot..slot + 1), entry.suffix_len(), value.len())
        {
            return self.rebuild_value(slot, value);
        } else {
            return Err(Edit::Full);
        };
        // The rest of the suffix moves with its value. The old and the new position may overlap.
        let mut rest = Vec::new();
        let (rest_at, rest_len) = entry.rest();
        self.words.append_to(rest_at, rest_len, &mut rest);
        self.words.write_bytes(offset, value);
        self.words.write_bytes(offset + value.len(), &rest);
        let entry = Entry { offset: offset as u16, value: value.len() as u16, ..entry };
        let cell = header.cell_at(slot);
        self.words.set_u64(cell, entry.bits());
        header.store_counts(self.words);
        Ok(Dirty::range(0..offset + size))
    }

    /// The bytes of the value in `slot`, checked to lie inside the page.
    pub(crate) fn value_range(&self, slot: usize) -> Result<Range<usize>, Broken> {
        let entry = self.checked_entry(slot)?;
        Ok(entry.offset()..entry.offset() + entry.value_len())
    }

    /// The entry of `slot`, checked to lie inside the page, so that no write leaves the page.
    pub(super) fn checked_entry(&self, slot: usize) -> Result<Entry, Broken> {
        let entry = self.entry(slot);
        let outside = entry.offset() < self.header.heap()
            || entry.offset() + entry.size() > self.words.len()
            || !entry.offset().is_multiple_of(WORD);
        // An entry without bytes has no position, and the header fixes the positions of cells.
        let outside = outside && entry.size() > 0 && self.header.shape.is_slotted();
        if slot >= self.header.count() || outside {
            return Err(Broken("an entry outside the heap"));
        }
        Ok(entry)
    }

    /// Moves the slots from `slot` on up by `new`. The page must have room. Returns the written
    /// bytes of the heads and of the cells.
    #[inline]
    fn open_slots(&self, slot: usize, new: usize) -> [Range<usize>; 2] {
        let (header, count) = (&self.header, self.header.count());
        strict_assert!(new > 0, "no slot is opened");
        strict_assert!(slot <= count, "a slot behind the last entry is opened");
        strict_assert!(
            count + new <= usize::from(header.cap),
            "more slots are opened than the page has"
        );
        let (head, cell) = (Header::head_at(slot), header.cell_at(slot));
        let (heads_end, cells_end) = (Header::head_at(count), header.cell_at(count));
        let (by_heads, by_cells) = (new * HEAD, new * header.stride());
        self.words.move_words(head..heads_end, head + by_heads);
        self.words.move_words(cell..cells_end, cell + by_cells);
        [head..heads_end + by_heads, cell..cells_end + by_cells]
    }

    /// The bytes of the header and of `count` entries of a fixed page, if the page were slotted.
    fn size_slotted(&self, count: usize) -> usize {
        HEADER + count * (SLOT + self.header.stride())
    }

    fn rebuild_value(&self, slot: usize, value: &[u8]) -> Result<Dirty, Edit> {
        let key = self.key(slot);
        self.rebuild(&Replace { slots: slot..slot + 1, key: &key, value })
    }

    /// Whether a slotted page may become fixed when an entry of these lengths replaces the entries
    /// in `slots`.
    fn may_become_fixed(&self, slots: &Range<usize>, suffix: usize, value: usize) -> bool {
        let others = (0..self.header.count()).filter(|slot| !slots.contains(slot));
        let fits = |entry: Entry| entry.value_len() == value && entry.suffix_len() <= HEAD;
        suffix <= HEAD && others.map(|slot| self.entry(slot)).all(fits)
    }

    /// Rebuilds the page without garbage, in the shape that is now best, if it has room.
    fn rebuild(&self, replace: &Replace<'_>) -> Result<Dirty, Edit> {
        let image = Image::new(self.words.len());
        let (low, high) = (self.low(), self.high());
        let mut to = Builder::new(image.words(), self.header.tag, self.header.level, &low, &high)?;
        let has_room = to.take(self, 0..replace.slots.start)?
            && to.push(replace.key, replace.value)
            && to.take(self, replace.slots.end..self.header.count())?;
        if !has_room {
            return Err(Edit::Full);
        }
        to.finish(self.header.right);
        self.words.copy_from(image.words());
        Ok(Dirty::range(0..self.words.len()))
    }
}

fn add_garbage(header: &mut Header, bytes: usize) {
    // Saturating, because the count of a damaged page may have any value.
    header.garbage = header.garbage.saturating_add(bytes as u16);
}

/// Frees the bytes of an entry in the heap.
fn release(header: &mut Header, entry: Entry) {
    if entry.offset == header.heap {
        header.heap += entry.size() as u16;
    } else {
        add_garbage(header, entry.size());
    }
}
