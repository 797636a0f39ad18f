//! Changing a page in place, under its write guard.

use std::ops::Range;

use latchwork_verbs::{WORD, Words};

use super::build::put_entry;
use super::{Broken, Builder, Entry, HEADER, Header, Image, Page, SLOT, entry_size};

/// Which bytes of the page a change wrote; empty ranges count for nothing.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Dirty([Range<usize>; 3]);

impl Dirty {
    /// One range.
    pub(crate) fn range(range: Range<usize>) -> Dirty {
        Dirty([range, 0..0, 0..0])
    }

    /// The ranges that are not empty.
    pub(crate) fn ranges(self) -> impl Iterator<Item = Range<usize>> {
        self.0.into_iter().filter(|range| !range.is_empty())
    }
}

/// Why a change did not happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edit {
    /// No room, even compacted.
    Full,
    /// The page is not what it should be.
    Broken(Broken),
}

impl From<Broken> for Edit {
    fn from(broken: Broken) -> Edit {
        Edit::Broken(broken)
    }
}

/// What a rebuild does differently from a plain copy.
#[derive(Clone, Copy)]
struct Replace<'v> {
    slot: usize,
    value: &'v [u8],
}

impl Page<'_> {
    /// Inserts `key`, which lies within the fences, at `slot`, where [`Page::search`] missed it.
    pub(crate) fn insert(&self, slot: usize, key: &[u8], value: &[u8]) -> Result<Dirty, Edit> {
        let suffix = key.get(self.header.prefix()..).unwrap_or(&[]);
        let size = entry_size(suffix.len(), value.len());
        if size + SLOT > self.header.free() {
            return Err(Edit::Full);
        }
        let compacted = size + SLOT > self.header.gap();
        let mut header = self.header;
        if compacted {
            self.rebuild(None)?;
            header = Header::load(self.words);
        }
        let offset = header.heap().checked_sub(size);
        let Some(offset) = offset.filter(|at| header.slots_end() + SLOT <= *at) else {
            return Err(Broken("compaction won less than its garbage").into());
        };
        shift_slots(self.words, slot, header.count(), 1);
        let entry =
            Entry { offset: offset as u16, suffix: suffix.len() as u16, value: value.len() as u16 };
        put_entry(self.words, slot, entry, suffix, value);
        header.heap = offset as u16;
        header.count += 1;
        header.store_counts(self.words);
        if compacted {
            return Ok(Dirty::range(0..self.words.len()));
        }
        Ok(Dirty([0..WORD, slot_at(slot)..header.slots_end(), offset..offset + size]))
    }

    /// Removes `slot`.
    pub(crate) fn remove(&self, slot: usize) -> Result<Dirty, Edit> {
        let mut header = self.header;
        let entry = self.checked_entry(slot)?;
        shift_slots(self.words, slot + 1, header.count(), -1);
        header.count -= 1;
        release(&mut header, entry);
        header.store_counts(self.words);
        Ok(Dirty([0..WORD, slot_at(slot)..self.header.slots_end(), 0..0]))
    }

    /// Replaces the value in `slot`.
    pub(crate) fn set_value(&self, slot: usize, value: &[u8]) -> Result<Dirty, Edit> {
        let entry = self.checked_entry(slot)?;
        if value.len() == entry.value_len() {
            self.words.write_bytes(entry.offset(), value);
            return Ok(Dirty::range(entry.offset()..entry.offset() + value.len()));
        }
        let size = entry_size(entry.suffix_len(), value.len());
        let mut header = self.header;
        let offset = if size <= entry.size() {
            add_garbage(&mut header, entry.size() - size);
            entry.offset()
        } else if size <= header.gap() {
            release(&mut header, entry);
            // `release` may have grown the gap at its upper end; allocate below either way.
            header.heap -= size as u16;
            header.heap()
        } else if size <= header.free() + entry.size() {
            self.rebuild(Some(Replace { slot, value }))?;
            return Ok(Dirty::range(0..self.words.len()));
        } else {
            return Err(Edit::Full);
        };
        // The rest of the suffix moves with its value, and the two places may overlap.
        let mut rest = Vec::new();
        let (rest_at, rest_len) = entry.rest();
        self.words.append_to(rest_at, rest_len, &mut rest);
        self.words.write_bytes(offset, value);
        self.words.write_bytes(offset + value.len(), &rest);
        let entry = Entry { offset: offset as u16, value: value.len() as u16, ..entry };
        self.words.set_u64(slot_at(slot) + WORD, entry.bits());
        header.store_counts(self.words);
        Ok(Dirty([0..WORD, slot_at(slot)..slot_at(slot + 1), offset..offset + size]))
    }

    /// The bytes of the value in `slot`, certain to lie inside the page.
    pub(crate) fn value_range(&self, slot: usize) -> Result<Range<usize>, Broken> {
        let entry = self.checked_entry(slot)?;
        Ok(entry.offset()..entry.offset() + entry.value_len())
    }

    /// The entry of `slot`, if it lies inside the heap: writes must not leave the page.
    pub(super) fn checked_entry(&self, slot: usize) -> Result<Entry, Broken> {
        let entry = self.entry(slot);
        let outside = entry.offset() < self.header.heap()
            || entry.offset() + entry.size() > self.words.len()
            || !entry.offset().is_multiple_of(WORD);
        // An entry without bytes lies nowhere.
        if slot >= self.header.count() || entry.size() > 0 && outside {
            return Err(Broken("an entry outside the heap"));
        }
        Ok(entry)
    }

    /// Writes the page anew without garbage.
    fn rebuild(&self, replace: Option<Replace<'_>>) -> Result<(), Broken> {
        let image = Image::new(self.words.len());
        let (low, high) = (self.low(), self.high());
        let mut to = Builder::new(image.words(), self.header.tag, self.header.level, &low, &high)?;
        let changed = replace.map(|replace| replace.slot);
        let count = self.header.count();
        self.copy_entries(0..changed.unwrap_or(count), &mut to)?;
        if let Some(Replace { slot, value }) = replace {
            if !to.push(&self.key(slot), value) {
                return Err(Broken("entries take more room than the page counts"));
            }
            self.copy_entries(slot + 1..count, &mut to)?;
        }
        to.finish(self.header.right);
        self.words.copy_from(image.words());
        Ok(())
    }

    /// Appends the entries of `slots` to `to`, whose fences may be narrower than this page's.
    pub(super) fn copy_entries(
        &self,
        slots: Range<usize>,
        to: &mut Builder<'_>,
    ) -> Result<(), Broken> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for slot in slots {
            let entry = self.checked_entry(slot)?;
            key.clear();
            value.clear();
            // The first slot of an inner page keeps its empty suffix under any prefix.
            if slot > 0 || self.header.is_leaf() {
                self.append_key(slot, &mut key);
            }
            self.words.append_to(entry.offset(), entry.value_len(), &mut value);
            if !to.push(&key, &value) {
                return Err(Broken("entries take more room than the page counts"));
            }
        }
        Ok(())
    }
}

fn slot_at(slot: usize) -> usize {
    HEADER + SLOT * slot
}

fn add_garbage(header: &mut Header, bytes: usize) {
    // More than a page of garbage only adds up in a damaged one.
    header.garbage = header.garbage.saturating_add(bytes as u16);
}

/// Gives an entry's heap bytes back.
fn release(header: &mut Header, entry: Entry) {
    if entry.offset == header.heap {
        header.heap += entry.size() as u16;
    } else {
        add_garbage(header, entry.size());
    }
}

/// Moves slots `from..to` by one, up or down.
fn shift_slots(words: Words<'_>, from: usize, to: usize, by: isize) {
    let to_slot = from.saturating_add_signed(by);
    words.move_words(slot_at(from)..slot_at(to), slot_at(to_slot));
}
