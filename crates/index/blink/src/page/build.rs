//! Writing a page from its first entry to its last: new pages, halves of a split, compaction.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_verbs::{GlobalAddr, WORD, Words};

use super::{
    Broken, Entry, FIXED_VALUE_MAX, HEAD, HEADER, Header, Page, SLOT, Shape, Tag, entry_size,
    head_of,
};

/// A page in private memory, as long as a line's payload.
#[derive(Debug)]
pub(crate) struct Image(Box<[AtomicU64]>);

impl Image {
    /// An image of `bytes` (a multiple of 8) zero bytes.
    pub(crate) fn new(bytes: usize) -> Image {
        // Zeroed as a whole, and turned into what it is in place.
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

/// Fills a page with entries in ascending order. The page is one only after [`Builder::finish`].
///
/// It is a fixed page until an entry does not fit the shape. A slotted page's heads and cells are
/// put down at the end, when it is known how many there are.
///
/// Equal calls on zeroed words give equal words, on which the comparison of images rests.
#[derive(Debug)]
pub(crate) struct Builder<'a> {
    words: Words<'a>,
    header: Header,
    /// Heads and cells of a slotted page.
    slots: Vec<(u64, u64)>,
}

impl<'a> Builder<'a> {
    /// Starts a page with these fences (empty: infinite) in zeroed words.
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
        Ok(Builder { words, header, slots: Vec::new() })
    }

    /// Appends an entry, unless the page has no room for it: then returns false.
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
        self.header.count += 1;
        true
    }

    /// Appends a child.
    pub(crate) fn push_child(&mut self, key: &[u8], child: GlobalAddr) -> bool {
        self.push(key, &child.bits().to_le_bytes())
    }

    /// Chooses the shape after the first entry.
    fn choose(&mut self, suffix: &[u8], value: usize) {
        // Separators differ in length.
        let constant = Shape::constant(suffix.len().min(HEAD));
        let shape = if self.header.is_leaf() { constant } else { Shape::DERIVED };
        if value <= FIXED_VALUE_MAX && shape.holds(suffix) {
            self.be_fixed(shape, value as u16);
        }
    }

    fn be_fixed(&mut self, shape: Shape, width: u16) {
        self.header.shape = shape;
        self.header.width = width;
        self.header.cap = self.header.cap_max() as u16;
    }

    /// Whether the entry fits the shape, which it may have to change to another fixed one.
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

    /// Makes the page a slotted one, if it then has `more` bytes left.
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

    /// Appends an entry of a slotted page, which `put` writes to the heap.
    #[inline]
    fn push_slotted(
        &mut self,
        head: u64,
        suffix: usize,
        value: usize,
        put: impl FnOnce(Words<'a>, Entry),
    ) -> bool {
        let size = entry_size(suffix, value);
        let taken = HEADER + SLOT * (self.slots.len() + 1) + size;
        if taken > self.header.heap() {
            return false;
        }
        self.header.heap -= size as u16;
        let entry = Entry { offset: self.header.heap, suffix: suffix as u16, value: value as u16 };
        put(self.words, entry);
        self.slots.push((head, entry.bits()));
        self.header.count += 1;
        true
    }

    /// Appends the entries in `slots` of `page`, whose fences may be wider than this page's, unless
    /// the page has no room for them: then returns false. The first one of an inner page loses its
    /// suffix, for its key is the low fence.
    pub(super) fn take(&mut self, page: &Page<'_>, slots: Range<usize>) -> Result<bool, Broken> {
        let cut = self.header.prefix().checked_sub(page.header.prefix());
        let cut = cut.ok_or(Broken("the prefix is not that of the fences"))?;
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

    /// Takes the shape of `page`, if there is nothing here yet that has another.
    fn adopt(&mut self, page: &Page<'_>, cut: usize, count: usize) {
        let shape = page.header.shape.cut(cut);
        if self.header.count == 0 && count > 0 && (self.header.is_leaf() || shape == Shape::DERIVED)
        {
            self.be_fixed(shape, page.header.width);
        }
    }

    /// Whether a page that starts with the entries in `slots` of a slotted page may be a fixed one.
    fn may_be_fixed(&self, page: &Page<'_>, slots: Range<usize>) -> bool {
        let mut entries = slots.map(|slot| page.entry(slot));
        let value = entries.clone().next().map_or(0, |first| first.value);
        self.header.count == 0
            && entries.all(|entry| entry.value == value && entry.suffix_len() <= HEAD)
    }

    /// As [`take`](Builder::take), from a page of the same shape: all at once.
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
        true
    }

    /// As [`take`](Builder::take), from a slotted page with the same prefix to another such.
    fn take_slotted(&mut self, page: &Page<'_>, slots: Range<usize>) -> Result<bool, Broken> {
        for slot in slots {
            let entry = page.checked_entry(slot)?;
            let is_first = self.header.count == 0 && !self.header.is_leaf();
            let (head, suffix) =
                if is_first { (0, 0) } else { (page.head(slot), entry.suffix_len()) };
            let is_taken = self.push_slotted(head, suffix, entry.value_len(), |words, to| {
                let part = |offset| offset..offset + to.size();
                // An entry without bytes lies nowhere.
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

    /// As [`take`](Builder::take), from any page to any.
    fn take_each(&mut self, page: &Page<'_>, slots: Range<usize>) -> Result<bool, Broken> {
        let (mut key, mut value) = (Vec::new(), Vec::new());
        for slot in slots {
            let entry = page.checked_entry(slot)?;
            key.clear();
            value.clear();
            // The first slot of an inner page keeps its empty suffix under any prefix.
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

    /// Makes it a page.
    pub(crate) fn finish(mut self, right: GlobalAddr) {
        if self.header.shape.is_slotted() {
            self.put_slots();
        }
        self.header.right = right;
        self.header.store(self.words);
    }

    /// Puts heads and cells down, with room for as many more as will fill the heap meanwhile, if
    /// they are like these.
    fn put_slots(&mut self) {
        let count = self.slots.len();
        let heap = usize::from(self.header.high.offset) - self.header.heap();
        let average = heap.checked_div(count).unwrap_or(0);
        let free = self.header.heap() - HEADER - SLOT * count;
        let more = if count > 0 { free / (SLOT + average) } else { 0 };
        self.header.cap = (count + more) as u16;
        for (slot, &(head, cell)) in self.slots.iter().enumerate() {
            self.words.set_u64(Header::head_at(slot), head);
            self.words.set_u64(self.header.cell_at(slot), cell);
        }
    }
}

/// Makes a page of constant suffixes one of derived ones, if none of it, and neither `suffix`, ends
/// in zero.
pub(super) fn relax(header: &mut Header, words: Words<'_>, suffix: &[u8]) -> bool {
    let Some(len) = header.shape.constant_len() else { return false };
    let tells = |slot| Shape::DERIVED.suffix_len(words.u64(Header::head_at(slot))) == len;
    let relaxed = Shape::DERIVED.holds(suffix) && (0..header.count()).all(tells);
    if relaxed {
        header.shape = Shape::DERIVED;
    }
    relaxed
}
