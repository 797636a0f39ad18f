//! Writes a page from its first to its last entry: new pages, halves of a split, rebuilt pages.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, WORD, Words};

use super::{
    Broken, Entry, FIXED_VALUE_MAX, HEAD, HEADER, Header, Page, SLOT, Shape, Tag, entry_size,
    head_of,
};

/// A page in private memory with the length of a line's payload.
#[derive(Debug)]
pub(crate) struct Image(Box<[AtomicU64]>);

impl Image {
    /// An image of `bytes` zero bytes. `bytes` is a multiple of 8.
    pub(crate) fn new(bytes: usize) -> Image {
        strict_assert!(bytes.is_multiple_of(WORD) && bytes > HEADER, "a page of {bytes} bytes");
        // The allocation is zeroed as a whole, and then converted in place.
        Image(vec![0; bytes / WORD].into_iter().map(AtomicU64::new).collect())
    }

    pub(crate) fn words(&self) -> Words<'_> {
        Words::new(&self.0)
    }
}

impl PartialEq for Image {
    fn eq(&self, other: &Image) -> bool {
        let load = |word: &AtomicU64| word.load(Ordering::Relaxed);
        self.0.iter().map(load).eq(other.0.iter().map(load))
    }
}

/// Fills a page with entries in ascending order. The page is valid only after [`Builder::finish`].
///
/// The page is fixed until an entry does not fit the shape. The heads and cells of a slotted page
/// are written at the end, when their number is known.
///
/// Equal calls on zeroed words give equal words. The comparison of images in a split relies on
/// this.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    words: Words<'a>,
    header: Header,
    /// The heads and cells of a slotted page.
    slots: Vec<(u64, u64)>,
    /// Whether the page, an inner one, has lost a child.
    has_lost: bool,
}

impl<'a> Builder<'a> {
    /// Starts a page with these fence keys in zeroed words. An empty fence key means infinity.
    pub(crate) fn new(
        words: Words<'a>,
        tag: Tag,
        level: u8,
        low: &[u8],
        high: &[u8],
    ) -> Result<Builder<'a>, Broken> {
        let header = Header::new(words.len(), tag, level, low, high)
            .ok_or(Broken("fences longer than the page"))?;
        words.write_bytes(header.low.offset.into(), low);
        words.write_bytes(header.high.offset.into(), high);
        strict_assert!(
            header.heap() >= HEADER && header.heap() <= words.len(),
            "the heap is outside the page"
        );
        Ok(Builder { words, header, slots: Vec::new(), has_lost: false })
    }

    /// Appends an entry. Returns false if the page has no room for it.
    ///
    /// `key` starts with the page's prefix, or is empty for the first slot of an inner page.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) -> bool {
        let suffix = key.get(self.header.prefix()..).unwrap_or(&[]);
        if self.header.count == 0 {
            self.choose(suffix, value.len());
        } else if !self.fits(suffix, value.len())
            && !self.convert(SLOT + entry_size(suffix.len(), value.len()))
        {
            return false;
        }
        if self.header.shape.is_slotted() {
            return self.push_slotted(
                head_of(suffix),
                suffix.len(),
                value.len(),
                |words, entry| {
                    words.write_bytes(entry.offset(), value);
                    words.write_bytes(entry.rest().0, suffix.get(HEAD..).unwrap_or(&[]));
                },
            );
        }
        let slot = self.header.count();
        if slot >= usize::from(self.header.cap) {
            return false;
        }
        self.words.set_u64(Header::head_at(slot), head_of(suffix));
        self.words.write_bytes(self.header.cell_at(slot), value);
        strict_assert!(
            self.header.cell_at(slot) + value.len() <= self.header.heap(),
            "a cell runs into the fences"
        );
        self.header.count += 1;
        strict_assert!(self.header.count <= self.header.cap, "more entries than slots");
        true
    }

    pub(crate) fn push_child(&mut self, key: &[u8], child: GlobalAddr) -> bool {
        self.push(key, &child.bits().to_le_bytes())
    }

    /// Chooses the shape by the first entry.
    fn choose(&mut self, suffix: &[u8], value: usize) {
        // In an inner page the lengths of suffixes differ, so its shape is derived, not constant.
        let constant = Shape::constant(suffix.len().min(HEAD));
        let shape = if self.header.is_leaf() { constant } else { Shape::DERIVED };
        if value <= FIXED_VALUE_MAX && shape.holds(suffix) {
            self.be_fixed(shape, value as u16);
        }
    }

    fn be_fixed(&mut self, shape: Shape, width: u16) {
        self.header.shape = shape;
        strict_assert!(usize::from(width) <= FIXED_VALUE_MAX, "cells of {width} bytes");
        self.header.width = width;
        self.header.cap = self.header.cap_max() as u16;
        strict_assert!(
            self.header.cells_end() <= self.header.heap(),
            "the cells run into the fences"
        );
    }

    /// Whether the entry fits the shape. May change the shape to another fixed shape.
    fn fits(&mut self, suffix: &[u8], value: usize) -> bool {
        let header = &mut self.header;
        if header.shape.is_slotted() {
            return true;
        }
        if usize::from(header.width) != value {
            return false;
        }
        header.shape.holds(suffix) || relax(header, self.words, suffix)
    }

    /// Makes the page slotted, if the slotted page has `more` bytes of room.
    fn convert(&mut self, more: usize) -> bool {
        let (count, old) = (self.header.count(), self.header);
        let (width, size) = (usize::from(old.width), old.stride());
        if HEADER + count * (SLOT + size) + more > old.heap() {
            return false;
        }
        let mut values = Vec::with_capacity(count * size);
        self.words.append_to(old.cell_at(0), count * size, &mut values);
        let heads: Vec<u64> =
            (0..count).map(|slot| self.words.u64(Header::head_at(slot))).collect();
        self.words.clear(HEADER..old.heap());
        self.header = Header { shape: Shape::SLOTTED, width: WORD as u16, cap: 0, count: 0, ..old };
        heads.into_iter().enumerate().all(|(slot, head)| {
            let value = values.get(slot * size..slot * size + width).unwrap_or(&[]);
            let suffix = old.shape.suffix_len(head);
            self.push_slotted(head, suffix, width, |words, entry| {
                words.write_bytes(entry.offset(), value);
            })
        })
    }

    /// Appends an entry of a slotted page. `put` writes the entry to the heap.
    #[inline]
    fn push_slotted(
        &mut self,
        head: u64,
        suffix: usize,
        value: usize,
        put: impl FnOnce(Words<'a>, Entry),
    ) -> bool {
        let size = entry_size(suffix, value);
        strict_assert!(self.header.shape.is_slotted(), "a fixed page has no heap of entries");
        let taken = HEADER + SLOT * (self.slots.len() + 1) + size;
        strict_assert!(self.slots.len() == self.header.count(), "each entry has a slot");
        if taken > self.header.heap() {
            return false;
        }
        self.header.heap -= size as u16;
        strict_assert!(
            self.header.heap() >= HEADER + SLOT * (self.slots.len() + 1),
            "the heap runs into the slots"
        );
        let entry = Entry { offset: self.header.heap, suffix: suffix as u16, value: value as u16 };
        put(self.words, entry);
        self.slots.push((head, entry.bits()));
        self.header.count += 1;
        strict_assert!(self.header.heap().is_multiple_of(WORD), "entries begin at words");
        true
    }

    /// Appends the entries in `slots` of `page`. The fence keys of `page` may be wider or narrower
    /// than those of this page. Returns false if this page has no room. The first entry of an inner
    /// page loses its suffix, because its key is the low fence.
    pub(super) fn take(&mut self, page: &Page<'_>, slots: Range<usize>) -> Result<bool, Broken> {
        self.has_lost |= page.has_lost();
        // The fence keys of this page are wider only if it takes over the keys of a neighbour.
        let Some(cut) = self.header.prefix().checked_sub(page.header.prefix()) else {
            return self.take_each(page, slots);
        };
        if page.header.shape.is_slotted() {
            let is_fixed = self.header.count > 0 && !self.header.shape.is_slotted();
            if cut == 0 && !is_fixed && !self.may_be_fixed(page, slots.clone()) {
                return self.take_slotted(page, slots);
            }
        } else {
            self.adopt(page, cut, slots.len());
            let shape = page.header.shape.cut(cut);
            if self.header.shape == shape && self.header.width == page.header.width {
                return Ok(self.take_fixed(page, cut, slots));
            }
        }
        self.take_each(page, slots)
    }

    /// Takes the shape of `page`, if this page has no entries yet.
    fn adopt(&mut self, page: &Page<'_>, cut: usize, count: usize) {
        let shape = page.header.shape.cut(cut);
        if self.header.count == 0 && count > 0 && (self.header.is_leaf() || shape == Shape::DERIVED)
        {
            self.be_fixed(shape, page.header.width);
        }
    }

    /// Whether a page that starts with the entries in `slots` of a slotted page may be fixed.
    fn may_be_fixed(&self, page: &Page<'_>, slots: Range<usize>) -> bool {
        let mut entries = slots.map(|slot| page.entry(slot));
        let value = entries.clone().next().map_or(0, |first| first.value);
        self.header.count == 0
            && entries.all(|entry| entry.value == value && entry.suffix_len() <= HEAD)
    }

    /// Like [`take`](Builder::take), from a page of the same shape: copies all entries at once.
    fn take_fixed(&mut self, page: &Page<'_>, cut: usize, slots: Range<usize>) -> bool {
        let (from, to) = (self.header.count(), self.header.count() + slots.len());
        if to > usize::from(self.header.cap) || slots.end > usize::from(page.header.cap) {
            return false;
        }
        let heads = |start, end| Header::head_at(start)..Header::head_at(end);
        let new_heads = self.words.slice(heads(from, to));
        let old_heads = page.words.slice(heads(slots.start, slots.end));
        if cut == 0 {
            new_heads.copy_from(old_heads);
        } else {
            for slot in 0..slots.len() {
                let head = old_heads.word(slot).checked_shl(8 * cut as u32);
                new_heads.set_word(slot, head.unwrap_or(0));
            }
        }
        if from == 0 && !self.header.is_leaf() {
            self.words.set_u64(Header::head_at(0), 0);
        }
        let cells = |header: &Header, start, end| header.cell_at(start)..header.cell_at(end);
        let old_cells = page.words.slice(cells(&page.header, slots.start, slots.end));
        self.words.slice(cells(&self.header, from, to)).copy_from(old_cells);
        self.header.count = to as u16;
        strict_assert!(self.header.count <= self.header.cap, "more entries than slots");
        true
    }

    /// Like [`take`](Builder::take), from a slotted page to a slotted page with the same prefix.
    fn take_slotted(&mut self, page: &Page<'_>, slots: Range<usize>) -> Result<bool, Broken> {
        for slot in slots {
            let entry = page.checked_entry(slot)?;
            let is_first = self.header.count == 0 && !self.header.is_leaf();
            let (head, suffix) =
                if is_first { (0, 0) } else { (page.head(slot), entry.suffix_len()) };
            let is_taken = self.push_slotted(head, suffix, entry.value_len(), |words, to| {
                let part = |offset| offset..offset + to.size();
                // An entry without bytes has no position.
                if to.size() > 0 {
                    words
                        .slice(part(to.offset()))
                        .copy_from(page.words.slice(part(entry.offset())));
                }
            });
            if !is_taken {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Like [`take`](Builder::take), from any page to any page.
    fn take_each(&mut self, page: &Page<'_>, slots: Range<usize>) -> Result<bool, Broken> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for slot in slots {
            let entry = page.checked_entry(slot)?;
            key.clear();
            value.clear();
            // The first slot of an inner page has an empty suffix under any prefix.
            if self.header.count > 0 || self.header.is_leaf() {
                page.append_key(slot, &mut key);
            }
            page.words.append_to(entry.offset(), entry.value_len(), &mut value);
            if !self.push(&key, &value) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Notes that a child of this page may have left the tree.
    pub(crate) fn loses_child(&mut self) {
        self.has_lost = true;
    }

    /// Completes the page.
    pub(crate) fn finish(mut self, right: GlobalAddr) {
        if self.header.shape.is_slotted() {
            self.put_slots();
        }
        strict_assert!(self.header.count <= self.header.cap, "more entries than slots");
        strict_assert!(
            self.header.cells_end() <= self.header.heap(),
            "the cells run into the heap"
        );
        self.header.right = right;
        self.header.store(self.words);
        if self.has_lost {
            Header::store_lost(self.words);
        }
    }

    /// Writes the heads and cells of a slotted page. Chooses the capacity so that the arrays and
    /// the heap become full together, if later entries are like these.
    fn put_slots(&mut self) {
        let count = self.slots.len();
        strict_assert!(self.slots.len() == self.header.count(), "each entry has a slot");
        let heap = usize::from(self.header.high.offset) - self.header.heap();
        let average = heap.checked_div(count).unwrap_or(0);
        let free = self.header.heap() - HEADER - SLOT * count;
        let more = if count > 0 { free / (SLOT + average) } else { 0 };
        self.header.cap = (count + more) as u16;
        strict_assert!(usize::from(self.header.cap) >= count, "a slot of an entry is lost");
        strict_assert!(
            self.header.cells_end() <= self.header.heap(),
            "the cells run into the heap"
        );
        for (slot, &(head, cell)) in self.slots.iter().enumerate() {
            self.words.set_u64(Header::head_at(slot), head);
            self.words.set_u64(self.header.cell_at(slot), cell);
        }
    }
}

/// Makes a constant page derived, if the page can then hold `suffix`: neither `suffix` nor a suffix
/// of the page ends in a zero byte. Returns whether it did.
pub(super) fn relax(header: &mut Header, words: Words<'_>, suffix: &[u8]) -> bool {
    let Some(len) = header.shape.constant_len() else { return false };
    let tells = |slot| Shape::DERIVED.suffix_len(words.u64(Header::head_at(slot))) == len;
    let relaxed = Shape::DERIVED.holds(suffix) && (0..header.count()).all(tells);
    if relaxed {
        strict_assert!(
            (0..header.count())
                .all(|slot| Shape::DERIVED.suffix_len(words.u64(Header::head_at(slot))) == len),
            "a relaxed page loses a key's length"
        );
        header.shape = Shape::DERIVED;
    }
    relaxed
}
