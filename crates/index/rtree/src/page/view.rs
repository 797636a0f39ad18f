//! [`Page`]: a view of a page in shared memory or in an image.

use std::sync::atomic::{AtomicU64, Ordering};

use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, WORD, Words};

use super::boxes::low_column;
use super::layout::HEADER;
use super::{Boxes, Broken, LEVEL_MAX, Layout, Link};
use crate::Rect;

/// A view of a page. Functions that change the page need the write guard of its line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a, const D: usize> {
    words: Words<'a>,
    layout: &'a Layout,
}

const DEAD: u64 = 1 << 48;

impl<'a, const D: usize> Page<'a, D> {
    /// The page in `words`, if a page of this tree is there.
    #[inline]
    pub(crate) fn open(words: Words<'a>, layout: &'a Layout) -> Result<Page<'a, D>, Broken> {
        let page = Page { words, layout };
        let (first, second) = (words.word(0), words.word(1));
        if first & ((1 << Layout::TAG_BITS) - 1) != layout.tag {
            return Err(Broken::FOREIGN);
        }
        // The next user of a line may leave the first word of a page that has died.
        let broken = |what| Err(if page.is_dead() { Broken::FOREIGN } else { Broken(what) });
        let payload_words = (second >> 16 & 0xffff) as usize;
        if (first >> 56) as usize != D || payload_words != layout.payload_words {
            return broken("a page of a tree with other dimensions or payloads");
        }
        let level = page.level();
        if level > LEVEL_MAX || !page.has_room(0) {
            return broken("the header contradicts itself");
        }
        Ok(page)
    }

    /// The page in `words`, whatever is there.
    pub(crate) fn unchecked(words: Words<'a>, layout: &'a Layout) -> Page<'a, D> {
        Page { words, layout }
    }

    pub(super) fn words(&self) -> Words<'a> {
        self.words
    }

    pub(super) fn layout(&self) -> &'a Layout {
        self.layout
    }

    /// Makes an empty page.
    pub(crate) fn format(&self, level: u8, cover: &Rect<D>) {
        strict_assert!(level <= LEVEL_MAX, "a page above the highest level");
        let first = self.layout.tag | u64::from(level) << 40 | (D as u64) << 56;
        self.words.set_word(0, first);
        self.words.set_word(1, (self.layout.payload_words as u64) << 16);
        self.set_numbers(1, 0);
        self.words.set_word(3, 0);
        self.set_right(GlobalAddr::NULL);
        self.words.set_word(5, 0);
        self.set_cover(cover);
    }

    // ---- the header ----------------------------------------------------------------------------

    #[inline]
    pub(crate) fn level(&self) -> u8 {
        (self.words.word(0) >> 40) as u8
    }

    /// Whether the page is empty for ever and about to leave the tree.
    #[inline]
    pub(crate) fn is_dead(&self) -> bool {
        self.words.word(0) & DEAD != 0
    }

    pub(crate) fn set_dead(&self) {
        strict_assert!(self.count() == 0, "a page with entries is about to leave the tree");
        self.words.set_word(0, self.words.word(0) | DEAD);
    }

    pub(crate) fn set_level(&self, level: u8) {
        strict_assert!(self.count() == 0, "entries change their level");
        self.words.set_word(0, self.words.word(0) & !(0xff << 40) | u64::from(level) << 40);
    }

    /// Overwrites the whole page.
    pub(crate) fn replace(&self, with: Words<'_>) {
        self.words.slice(0..self.layout.bytes()).copy_from(with);
    }

    /// The number of entries, never above the capacity of any page.
    #[inline]
    pub(crate) fn count(&self) -> usize {
        (self.words.word(1) & 0xffff) as usize
    }

    fn set_count(&self, count: usize) {
        strict_assert!(count <= self.layout.cap(self.level()), "more entries than have room");
        self.words.set_word(1, self.words.word(1) & !0xffff | count as u64);
    }

    #[inline]
    pub(crate) fn sequence(&self) -> u32 {
        self.words.word(2) as u32
    }

    #[inline]
    pub(crate) fn shrinks(&self) -> u32 {
        (self.words.word(2) >> 32) as u32
    }

    pub(crate) fn set_numbers(&self, sequence: u32, shrinks: u32) {
        self.words.set_word(2, u64::from(sequence) | u64::from(shrinks) << 32);
    }

    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.words.word(3)
    }

    /// Counts a write of the page.
    pub(crate) fn count_change(&self) {
        self.set_changes(self.changes().wrapping_add(1));
    }

    pub(crate) fn set_changes(&self, changes: u64) {
        self.words.set_word(3, changes);
    }

    #[inline]
    pub(crate) fn right(&self) -> GlobalAddr {
        GlobalAddr::from_bits(self.words.word(4))
    }

    pub(crate) fn set_right(&self, right: GlobalAddr) {
        self.words.set_word(4, right.bits());
    }

    /// The number of records of a leaf, never above the capacity.
    #[inline]
    pub(crate) fn record_count(&self) -> usize {
        (self.words.word(5) & 0xffff) as usize
    }

    pub(super) fn set_record_count(&self, count: usize) {
        self.words.set_word(5, self.words.word(5) & !0xffff | count as u64);
    }

    /// In the root: since when entries may move between leaves. 0: they may not.
    #[inline]
    pub(crate) fn moves(&self) -> u64 {
        self.words.word(5) >> 16
    }

    pub(crate) fn set_moves(&self, moves: u64) {
        self.words.set_word(5, self.words.word(5) & 0xffff | moves << 16);
    }

    #[inline]
    pub(crate) fn cover(&self) -> Rect<D> {
        let at = |d: usize| f64::from_bits(self.words.word(HEADER + d));
        Rect::from_parts(std::array::from_fn(at), std::array::from_fn(|d| at(D + d)))
    }

    pub(crate) fn set_cover(&self, cover: &Rect<D>) {
        let corners = cover.low().into_iter().chain(cover.high());
        corners.enumerate().for_each(|(d, at)| self.words.set_word(HEADER + d, at.to_bits()));
    }

    /// Makes the cover smaller.
    pub(crate) fn shrink_cover(&self, cover: &Rect<D>) {
        strict_assert!(self.cover().contains(cover), "a cover that shrinks becomes larger");
        self.set_cover(cover);
        self.set_numbers(self.sequence(), self.shrinks().wrapping_add(1));
    }

    /// Makes the cover as small as its entries permit, after a box has left the page. Returns the
    /// cover if it has become smaller.
    ///
    /// A box inside of the cover does not matter for it. A cover may be too large for other
    /// reasons, of which some of the calls take care.
    pub(crate) fn shrink_without(&self, gone: &Rect<D>) -> Option<Rect<D>> {
        const OTHERS: u64 = 8;
        let cover = self.cover();
        if !gone.has_side_of(&cover) && !self.changes().is_multiple_of(OTHERS) {
            return None;
        }
        let union = self.union();
        if union == cover {
            return None;
        }
        self.shrink_cover(&union);
        Some(union)
    }

    // ---- the entries ---------------------------------------------------------------------------

    #[inline]
    fn at(&self, column: usize, slot: usize) -> usize {
        self.layout.column(self.level(), column) + slot
    }

    /// The words of a column, one for each entry.
    #[inline]
    pub(crate) fn column(&self, column: usize) -> &'a [AtomicU64] {
        self.part(self.at(column, 0), self.count())
    }

    /// The words from `from` on, or none if they are not all in the page.
    #[inline]
    fn part(&self, from: usize, count: usize) -> &'a [AtomicU64] {
        self.words.as_atomics().get(from..from + count).unwrap_or(&[])
    }

    /// The boxes of all entries.
    ///
    /// Level and count are read once. A writer on another thread may change both between two reads,
    /// and then the columns would have different lengths.
    #[inline]
    pub(crate) fn boxes(&self) -> Boxes<'a, D> {
        let columns = self.words.as_atomics().get(self.layout.columns()..).unwrap_or(&[]);
        let level = self.level();
        Boxes::new(columns, level > 0, (self.layout.cap(level), self.count()))
    }

    /// Appends the boxes and the ids of a leaf to `to`, as [`copied`](super::copied) reads them.
    /// Returns their number.
    #[inline]
    pub(crate) fn append_columns(&self, to: &mut Vec<u8>) -> usize {
        let columns = self.layout.columns() * WORD..self.layout.ids_end();
        self.words.append_to(columns.start, columns.len(), to);
        self.count().min(self.layout.cap(0))
    }

    #[inline]
    pub(crate) fn rect(&self, slot: usize) -> Rect<D> {
        let at = |column: usize| f64::from_bits(self.words.word(self.at(column, slot)));
        Rect::from_parts(
            std::array::from_fn(|d| at(low_column::<D>(d))),
            std::array::from_fn(|d| at(low_column::<D>(d) + 1)),
        )
    }

    pub(crate) fn set_rect(&self, slot: usize, rect: &Rect<D>) {
        let (low, high) = (rect.low(), rect.high());
        for d in 0..D {
            let column = low_column::<D>(d);
            self.words.set_word(self.at(column, slot), low[d].to_bits());
            self.words.set_word(self.at(column + 1, slot), high[d].to_bits());
        }
    }

    /// The id of a leaf's entry.
    #[inline]
    pub(crate) fn id(&self, slot: usize) -> u64 {
        self.words.word(self.at(2 * D, slot))
    }

    /// The child of an inner page's entry.
    #[inline]
    pub(crate) fn child(&self, slot: usize) -> GlobalAddr {
        GlobalAddr::from_bits(self.id(slot))
    }

    #[inline]
    pub(crate) fn link(&self, slot: usize) -> Link {
        Link::from_bits(self.words.word(self.at(2 * D + 1, slot)))
    }

    pub(crate) fn set_link(&self, slot: usize, link: Link) {
        self.words.set_word(self.at(2 * D + 1, slot), link.bits());
    }

    /// Appends the payload of a leaf's entry to `to`, padded to whole words.
    #[inline]
    pub(crate) fn append_payload(&self, slot: usize, to: &mut Vec<u8>) {
        let words = self.layout.payload_words;
        if words > 0 {
            self.words.append_to(self.layout.row(slot) * WORD, words * WORD, to);
        }
    }

    /// The slots of all entries of a leaf with this box and id.
    pub(crate) fn slots_of(&self, rect: &Rect<D>, id: u64) -> impl Iterator<Item = usize> {
        let all = self.column(2 * D).iter().enumerate();
        let same = all.filter(move |(slot, word)| {
            word.load(Ordering::Relaxed) == id && self.rect(*slot) == *rect
        });
        same.map(|(slot, _)| slot)
    }

    /// The slot of a child in an inner page.
    pub(crate) fn find_child(&self, child: GlobalAddr) -> Option<usize> {
        let mut children = self.column(2 * D).iter();
        children.position(|word| word.load(Ordering::Relaxed) == child.bits())
    }

    /// The union of the boxes of all entries.
    pub(crate) fn union(&self) -> Rect<D> {
        self.boxes().union()
    }

    /// Adds an entry to a leaf.
    pub(crate) fn push_entry(&self, rect: &Rect<D>, id: u64, payload: &[u8]) {
        strict_assert!(self.level() == 0, "an entry in an inner page");
        let slot = self.push(rect, id);
        self.set_payload(slot, payload);
    }

    /// Overwrites an entry of a leaf.
    pub(crate) fn set_entry(&self, slot: usize, rect: &Rect<D>, payload: &[u8]) {
        strict_assert!(self.level() == 0 && slot < self.count(), "no entry of a leaf");
        self.set_rect(slot, rect);
        self.set_payload(slot, payload);
    }

    /// Overwrites the payload of an entry of a leaf.
    pub(crate) fn set_payload(&self, slot: usize, payload: &[u8]) {
        if self.layout.payload_words > 0 {
            // The rest of the last word is zero.
            let at = self.layout.row(slot) + self.layout.payload_words - 1;
            self.words.set_word(at, 0);
            self.words.write_bytes(self.layout.row(slot) * WORD, payload);
        }
    }

    /// Adds a child to an inner page.
    pub(crate) fn push_child(&self, rect: &Rect<D>, child: GlobalAddr, link: Link) {
        strict_assert!(self.level() > 0, "a child in a leaf");
        strict_assert!(!child.is_null(), "an entry without a child");
        let slot = self.push(rect, child.bits());
        self.set_link(slot, link);
    }

    /// Adds entries without their payloads or links. Ids are those of a leaf, or the bits of the
    /// children of an inner page.
    pub(crate) fn extend(&self, entries: impl Iterator<Item = (Rect<D>, u64)>) {
        let (level, from) = (self.level(), self.count());
        let column = |column: usize| {
            let cap = self.layout.cap(level);
            &self.part(self.layout.column(level, column), cap)[from..]
        };
        let low: [_; D] = std::array::from_fn(|d| column(low_column::<D>(d)));
        let high: [_; D] = std::array::from_fn(|d| column(low_column::<D>(d) + 1));
        let ids = column(2 * D);
        let mut count = 0;
        for (rect, id) in entries {
            for d in 0..D {
                low[d][count].store(rect.low()[d].to_bits(), Ordering::Relaxed);
                high[d][count].store(rect.high()[d].to_bits(), Ordering::Relaxed);
            }
            ids[count].store(id, Ordering::Relaxed);
            count += 1;
        }
        self.set_count(from + count);
    }

    fn push(&self, rect: &Rect<D>, id: u64) -> usize {
        let slot = self.count();
        self.extend(std::iter::once((*rect, id)));
        slot
    }

    /// Removes an entry: the last one takes its place.
    pub(crate) fn remove(&self, slot: usize) {
        let last = self.count() - 1;
        if slot != last {
            self.copy_entry(last, self, slot);
        }
        self.set_count(last);
        self.records_follow(slot, last);
    }

    /// Copies an entry into a slot of a page of the same level.
    fn copy_entry(&self, from: usize, to: &Page<'_, D>, slot: usize) {
        let (level, layout) = (self.level(), self.layout);
        let columns = 2 * D + if level > 0 { 2 } else { 1 };
        for column in (0..columns).map(|column| layout.column(level, column)) {
            to.words.set_word(column + slot, self.words.word(column + from));
        }
        if level == 0 {
            for word in 0..self.layout.payload_words {
                let value = self.words.word(self.layout.row(from) + word);
                to.words.set_word(to.layout.row(slot) + word, value);
            }
        }
    }

    /// Adds an entry of another page of the same level.
    pub(crate) fn push_copy(&self, from: &Page<'_, D>, slot: usize) {
        strict_assert!(self.level() == from.level(), "an entry changes its level");
        let to = self.count();
        self.set_count(to + 1);
        from.copy_entry(slot, self, to);
        self.copy_record(from, slot, to);
    }

    /// Asserts what holds of a page between two writes.
    pub(crate) fn check(&self) {
        assert!(self.count() <= self.layout.cap(self.level()), "more entries than have room");
        assert!(!self.is_dead() || self.count() == 0, "a dead page has entries");
        if self.level() == 0 {
            self.check_records();
        }
        assert!(
            self.count() == 0 || self.cover().contains(&self.union()),
            "an entry is outside of the cover of its page"
        );
    }
}
