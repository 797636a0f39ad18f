//! The way of a hot descent through a page: as few loads and comparisons as lead on when all is
//! well.

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use latchwork_verbs::{GlobalAddr, WORD, Words};

use super::{CHILD, Entry, HEAD, HEADER, Header, Shape, Tag, head_behind};
use crate::Value;

/// Of so many heads not all are fetched before a search begins. Without branches no step begins
/// before the one before has its head, so on a page that is far away it would wait for each in
/// turn: it asks for the rest when fewer are left.
const LONG: usize = 128;

/// Pages from this level on are so few that they are in the processor's cache anyway.
const LEVEL_HOT: u8 = 2;

/// A page of which nothing was checked but its tag.
///
/// Whoever descends so relies on what holds for every page of the tree: a validated way leads to
/// pages that hold the key or have it to their right, and a page that carries the tag is in order.
/// What does not fit is answered with `None`: then the careful way ([`Page::open`],
/// [`Page::place`]) has to be taken, which finds out what it was. Reads stay inside the page on any
/// bytes, as everywhere here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance<'a> {
    words: Words<'a>,
    /// Word 0 of the header.
    counts: u64,
    /// Word 1.
    mark: u64,
}

/// Words of the header.
const HEADER_WORDS: usize = HEADER / WORD;

impl<'a> Glance<'a> {
    /// Which bytes of a page of `len` bytes a lookup looks at, most likely: header and heads.
    #[inline]
    pub(crate) fn likely(len: usize) -> Range<usize> {
        0..(len / 2).min(1024)
    }

    /// Looks at a page; `None` if it is none of the tree's.
    #[inline]
    pub(crate) fn at(words: Words<'a>, tag: Tag) -> Option<Glance<'a>> {
        let glance = Glance::of(words)?;
        (Tag(glance.mark >> 16) == tag).then_some(glance)
    }

    /// Looks at a page whose header was checked; `None` if it has none.
    #[inline]
    pub(super) fn of(words: Words<'a>) -> Option<Glance<'a>> {
        let header: &[_; HEADER_WORDS] = words.as_atomics().first_chunk()?;
        let [counts, mark] = [header[0].load(Relaxed), header[1].load(Relaxed)];
        Some(Glance { words, counts, mark })
    }

    #[inline]
    pub(crate) fn level(&self) -> u8 {
        self.counts as u8
    }

    #[inline]
    fn shape(&self) -> Shape {
        Shape((self.counts >> 8) as u8)
    }

    #[inline]
    pub(super) fn count(&self) -> usize {
        usize::from((self.counts >> 16) as u16)
    }

    #[inline]
    fn prefix(&self) -> usize {
        usize::from(self.mark as u16)
    }

    #[inline]
    fn cap(&self) -> usize {
        usize::from((self.words.word(3) >> 32) as u16)
    }

    /// Whether what a lookup in a leaf relies on fits together.
    #[inline]
    pub(crate) fn is_plausible(&self) -> bool {
        self.count() <= self.cap() && self.shape().0 <= Shape::MAX
    }

    /// Whether `key`, whose first 8 bytes are `head`, is below the high fence.
    #[inline]
    pub(crate) fn is_below_high(&self, key: &[u8], head: u64) -> bool {
        let high = self.words.word(2);
        head < high
            || (self.words.word(3) >> 16) as u16 == 0
            || head == high && is_below_high(self.words, key)
    }

    /// Slot and address of the child that leads to `key`; the page is inner.
    #[inline]
    pub(crate) fn child_for(&self, key: &[u8]) -> Option<(usize, GlobalAddr)> {
        let (slot, at) = if self.shape() == Shape::DERIVED {
            let heads = self.heads();
            // Equal heads are those of a separator and the same with zero bytes behind it.
            let head = head_behind(key, self.prefix());
            let above = match head.checked_add(1) {
                Some(next) => self.count_below(heads, next),
                None => heads.len(),
            };
            let slot = above.checked_sub(1)?;
            (slot, HEADER_WORDS + self.cap() + slot)
        } else {
            child_of_other_shape(self.words, key)?
        };
        let child = GlobalAddr::from_bits(self.words.word(at));
        (!child.is_null()).then_some((slot, child))
    }

    /// The slot of `key`, or where it would be inserted. The key lies within the fences.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        // Keys within the fences share the prefix; a shorter one can only be met on a torn page.
        let prefix = self.prefix();
        let head = head_behind(key, prefix);
        let heads = self.heads();
        let slot = self.count_below(heads, head);
        if heads.get(slot).is_none_or(|here| here.load(Relaxed) != head) {
            return Err(slot);
        }
        if self.shape().is_slotted() {
            return search_tie(self.words, slot, head, key.get(prefix..).unwrap_or(&[]));
        }
        // What is behind the shorter one are zero bytes.
        match self.shape().suffix_len(head).cmp(&key.len().saturating_sub(prefix)) {
            Ordering::Equal => Ok(slot),
            Ordering::Less => Err(slot + 1),
            Ordering::Greater => Err(slot),
        }
    }

    /// Bisects over whole suffixes from slot `low` on, the first whose head is `head`.
    fn search_tie(&self, mut low: usize, head: u64, suffix: &[u8]) -> Result<usize, usize> {
        let mut high = self.heads().len();
        // Usually the first comparison decides.
        let mut middle = low;
        while low < high {
            match self.compare_suffix(middle, head, suffix) {
                Ordering::Equal => return Ok(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
            middle = low + (high - low) / 2;
        }
        Err(low)
    }

    /// Compares the suffix in `slot` with `suffix`, whose head is `head`.
    fn compare_suffix(&self, slot: usize, head: u64, suffix: &[u8]) -> Ordering {
        self.head(slot).cmp(&head).then_with(|| {
            // With equal heads the rests decide; if there is none on either side, a zero byte of
            // the longer suffix equals the padding of the shorter one, which therefore comes first.
            let entry = self.entry(slot);
            let (rest, len) = entry.rest();
            self.words
                .compare(rest, len, suffix.get(HEAD..).unwrap_or(&[]))
                .then(entry.suffix_len().cmp(&suffix.len()))
        })
    }

    /// How many of `heads` are below `head`.
    #[inline]
    fn count_below(&self, heads: &[AtomicU64], head: u64) -> usize {
        if heads.len() < LONG {
            count_below(heads, head)
        } else {
            count_below_many(self.words, self.level(), heads, head)
        }
    }

    /// The heads of all slots, as far as there are any.
    #[inline]
    fn heads(&self) -> &'a [AtomicU64] {
        let behind = self.words.as_atomics().get(HEADER_WORDS..).unwrap_or(&[]);
        &behind[..self.count().min(behind.len())]
    }

    /// The head in `slot`.
    #[inline]
    pub(super) fn head(&self, slot: usize) -> u64 {
        self.words.u64(Header::head_at(slot))
    }

    /// Where the entry of `slot` is.
    #[inline]
    pub(super) fn entry(&self, slot: usize) -> Entry {
        let (cap, width) = (self.cap(), (self.words.word(3) >> 48) as u16);
        if self.shape().is_slotted() {
            return Entry::from_bits(self.words.word(HEADER_WORDS + cap + slot));
        }
        let stride = super::align(width.into());
        Entry {
            offset: (Header::head_at(cap) + stride * slot) as u16,
            suffix: self.shape().suffix_len(self.head(slot)) as u16,
            value: width,
        }
    }

    /// The value in `slot`.
    #[inline]
    pub(crate) fn value(&self, slot: usize) -> Value<'a> {
        let entry = self.entry(slot);
        Value::new(self.words, entry.offset(), entry.value_len())
    }
}

/// As [`Glance::is_below_high`], when the heads do not tell.
// Not a method, as the other rare ways: a glance that is borrowed has to be in memory.
#[cold]
fn is_below_high(words: Words<'_>, key: &[u8]) -> bool {
    let high = Header::load(words).high;
    words.compare(high.offset.into(), high.len.into(), key).is_gt()
}

/// As [`Glance::child_for`], in a page that is not derived; the child as an index of words.
#[inline(never)]
fn child_of_other_shape(words: Words<'_>, key: &[u8]) -> Option<(usize, usize)> {
    let glance = Glance::of(words)?;
    let slot = match glance.search(key) {
        Ok(slot) => slot,
        Err(slot) => slot.checked_sub(1)?,
    };
    let entry = glance.entry(slot);
    (entry.value_len() == CHILD).then_some((slot, entry.offset() / WORD))
}

/// As [`Glance::search`], in a slotted page where the head of `slot` is that of `suffix`.
#[inline(never)]
fn search_tie(words: Words<'_>, slot: usize, head: u64, suffix: &[u8]) -> Result<usize, usize> {
    Glance::of(words).ok_or(slot)?.search_tie(slot, head, suffix)
}

/// How many of `heads`, fewer than [`LONG`], are below `head`.
#[inline(never)]
fn count_below(heads: &[AtomicU64], head: u64) -> usize {
    match heads.len() {
        64.. => count_below_of::<64>(heads, head),
        32.. => count_below_of::<32>(heads, head),
        16.. => count_below_of::<16>(heads, head),
        _ => heads.iter().map(|here| usize::from(here.load(Relaxed) < head)).sum(),
    }
}

/// As [`count_below`], of many heads of a page of this level.
#[inline(never)]
fn count_below_many(words: Words<'_>, level: u8, heads: &[AtomicU64], head: u64) -> usize {
    let mut window = heads;
    while window.len() >= LONG {
        window = upper_or_lower(window, head);
    }
    let start = byte_offset(heads, window);
    if level < LEVEL_HOT {
        words.prefetch(HEADER + start..HEADER + start + size_of_val(window));
    }
    start / WORD + count_below(window, head)
}

/// As [`count_below`], of `N..2 * N` heads, where `N` is a power of two: bisects without a branch
/// or a check of bounds, three or four instructions a step.
#[inline]
fn count_below_of<const N: usize>(heads: &[AtomicU64], head: u64) -> usize {
    let (Some(first), Some(last)) = (heads.first_chunk::<N>(), heads.last_chunk::<N>()) else {
        return 0;
    };
    // With the first of the last `N` below, the answer is among these, else among the first `N`.
    let is_last = last[0].load(Relaxed) < head;
    let start = select_unpredictable(is_last, heads.len() - N, 0);
    let window = select_unpredictable(is_last, last, first);
    let (mut below, mut half) = (0, N / 2);
    while half > 0 {
        let middle = below + half;
        // A conditional move instead of a branch: the outcome is a coin toss. The mask changes
        // nothing.
        let is_above = window[(middle - 1) & (N - 1)].load(Relaxed) < head;
        below = select_unpredictable(is_above, middle, below);
        half /= 2;
    }
    start + below + usize::from(window[below & (N - 1)].load(Relaxed) < head)
}

/// The half of `window`, of at least two heads, in which the first one not below `head` is, or
/// before or behind which it is.
#[inline]
fn upper_or_lower(window: &[AtomicU64], head: u64) -> &[AtomicU64] {
    let half = window.len() / 2;
    let rest = window.len() - half;
    // A conditional move instead of a branch: the outcome is a coin toss.
    let is_above = window[half - 1].load(Relaxed) < head;
    select_unpredictable(is_above, &window[half..], &window[..rest])
}

/// Where `part` starts in `whole`.
#[inline]
fn byte_offset(whole: &[AtomicU64], part: &[AtomicU64]) -> usize {
    part.as_ptr().addr() - whole.as_ptr().addr()
}
