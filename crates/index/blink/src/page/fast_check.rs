//! The fast path of lookups in a page. It trusts a page with the right tag and does not check for
//! damage. In a damaged page a lookup may give a wrong result, but stays inside the page.

use std::cmp::Ordering;
use std::hint::select_unpredictable;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use latchwork_strict::strict_assert;
use latchwork_verbs::{GlobalAddr, WORD, Words};

use super::{CHILD, Entry, HEAD, HEADER, Header, Shape, Tag, head_behind};
use crate::TreeValue;

/// A search over at least this number of heads prefetches the remaining heads once fewer than
/// `LONG` remain.
///
/// A bisection without branches cannot load ahead: each step needs the outcome of the step before.
/// On a page that is not in the processor's cache, every step would wait for memory. The prefetch
/// of [`Glance::likely`], before the search, covers the heads of a shorter page only.
const LONG: usize = 128;

/// From this level on, searches do not prefetch. There are few such pages, so the processor's cache
/// probably has them.
const LEVEL_HOT: u8 = 2;

/// A page as the fast path reads it: of its header, only the tag was checked.
///
/// A descent by glances relies on two facts:
///
/// 1. The address of each page on the path comes from a validated read of a parent or sibling. So
///    the key belongs to that page, or to a page to its right, unless the line has had another life
///    since. Then its page has the mark *later*, and a glance finds no page of the tree.
/// 2. A page with the tree's tag is assumed to be undamaged.
///
/// A method returns `None` where the page contradicts these facts, for example because a writer
/// changes the page. The slow path ([`Page::open`], [`Page::place`]) then finds the cause. On any
/// bytes, reads stay inside the page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance<'a> {
    words: Words<'a>,
    /// Word 0 of the header.
    counts: u64,
    /// Word 1 of the header.
    mark: u64,
}

/// The words of the header.
const HEADER_WORDS: usize = HEADER / WORD;
const _: () = assert!(HEADER.is_multiple_of(WORD), "heads begin at a word");
const _: () =
    assert!(LONG.is_power_of_two() && LONG > 64, "a search of many heads ends with one of 64");

impl<'a> Glance<'a> {
    /// The bytes that a lookup most likely reads in a page of `len` bytes: header and heads.
    #[inline]
    pub(crate) fn likely(len: usize) -> Range<usize> {
        0..(len / 2).min(1024)
    }

    /// Glances at a page. `None` if the page is not of this tree.
    #[inline]
    pub(crate) fn at(words: Words<'a>, tag: Tag) -> Option<Glance<'a>> {
        let glance = Glance::of(words)?;
        (Tag(glance.mark >> 16) == tag).then_some(glance)
    }

    /// Glances at a page without a check of its tag: the caller has checked the header. `None` if
    /// the page is too short for a header.
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

    /// Whether the fields on which a lookup in a leaf relies are consistent.
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

    /// The slot and the address of the child that leads to `key`. The page is inner.
    #[inline]
    pub(crate) fn child_for(&self, key: &[u8]) -> Option<(usize, GlobalAddr)> {
        let (slot, at) = if self.shape() == Shape::DERIVED {
            let heads = self.heads();
            // In a derived page a separator has at most the 8 bytes of its head. So a key with the
            // same head is the separator or an extension of it, and belongs to its child.
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

    /// The slot of `key`, or the slot where it would be inserted. The key lies within the fence
    /// keys.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        // Keys within the fence keys begin with the prefix. A page that is being written may show
        // a longer prefix than the key; validation then fails.
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
        // The heads are equal, so the two suffixes differ at most in their count of zero bytes at
        // the end. The shorter one comes first.
        match self.shape().suffix_len(head).cmp(&key.len().saturating_sub(prefix)) {
            Ordering::Equal => Ok(slot),
            Ordering::Less => Err(slot + 1),
            Ordering::Greater => Err(slot),
        }
    }

    /// Bisects over whole suffixes from slot `low` on. `low` is the first slot with the head
    /// `head`.
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
            // With equal heads, the rests behind the heads decide. Suffixes of 8 bytes or fewer
            // have no rest: they differ at most in their count of zero bytes at the end, and the
            // shorter one comes first.
            let entry = self.entry(slot);
            let (rest, len) = entry.rest();
            self.words
                .compare(rest, len, suffix.get(HEAD..).unwrap_or(&[]))
                .then(entry.suffix_len().cmp(&suffix.len()))
        })
    }

    /// The number of `heads` below `head`.
    #[inline]
    fn count_below(&self, heads: &[AtomicU64], head: u64) -> usize {
        if heads.len() < LONG {
            count_below(heads, head)
        } else {
            count_below_many(self.words, self.level(), heads, head)
        }
    }

    /// The heads of all slots inside the page.
    #[inline]
    fn heads(&self) -> &'a [AtomicU64] {
        let behind = self.words.as_atomics().get(HEADER_WORDS..).unwrap_or(&[]);
        &behind[..self.count().min(behind.len())]
    }

    #[inline]
    pub(super) fn head(&self, slot: usize) -> u64 {
        self.words.u64(Header::head_at(slot))
    }

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

    #[inline]
    pub(crate) fn value(&self, slot: usize) -> TreeValue<'a> {
        let entry = self.entry(slot);
        TreeValue::new(self.words, entry.offset(), entry.value_len())
    }
}

/// Like [`Glance::is_below_high`], for equal heads.
// The rare cases are free functions. A method would borrow the glance, and the compiler would have
// to keep the glance in memory instead of in registers.
#[cold]
fn is_below_high(words: Words<'_>, key: &[u8]) -> bool {
    let high = Header::load(words).high;
    words.compare(high.offset.into(), high.len.into(), key).is_gt()
}

/// Like [`Glance::child_for`], for a page of another shape than [`Shape::DERIVED`]. Returns the
/// slot and the index of the word that holds the child's address.
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

/// Like [`Glance::search`], for a slotted page in which the head of `slot` equals the head of
/// `suffix`.
#[inline(never)]
fn search_tie(words: Words<'_>, slot: usize, head: u64, suffix: &[u8]) -> Result<usize, usize> {
    Glance::of(words).ok_or(slot)?.search_tie(slot, head, suffix)
}

/// The number of `heads` below `head`. There are fewer than [`LONG`] heads.
#[inline(never)]
fn count_below(heads: &[AtomicU64], head: u64) -> usize {
    match heads.len() {
        64.. => count_below_of::<64>(heads, head),
        32.. => count_below_of::<32>(heads, head),
        16.. => count_below_of::<16>(heads, head),
        _ => heads.iter().map(|here| usize::from(here.load(Relaxed) < head)).sum(),
    }
}

/// Like [`count_below`], for at least [`LONG`] heads of a page of this level.
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

/// Like [`count_below`], for `N..2 * N` heads, where `N` is a power of two. Bisects without a
/// branch and without a bounds check, in three or four instructions per step.
#[inline]
fn count_below_of<const N: usize>(heads: &[AtomicU64], head: u64) -> usize {
    let (Some(first), Some(last)) = (heads.first_chunk::<N>(), heads.last_chunk::<N>()) else {
        strict_assert!(heads.len() >= N, "a window of {N} heads in {}", heads.len());
        return 0;
    };
    // If the first of the last `N` heads is below `head`, the answer is among the last `N` heads,
    // otherwise among the first `N`.
    let is_last = last[0].load(Relaxed) < head;
    let start = select_unpredictable(is_last, heads.len() - N, 0);
    let window = select_unpredictable(is_last, last, first);
    let (mut below, mut half) = (0, N / 2);
    while half > 0 {
        let middle = below + half;
        // A conditional move instead of a branch, because the outcome is random. The mask does not
        // change the index; it spares the bounds check.
        let is_above = window[(middle - 1) & (N - 1)].load(Relaxed) < head;
        below = select_unpredictable(is_above, middle, below);
        half /= 2;
    }
    start + below + usize::from(window[below & (N - 1)].load(Relaxed) < head)
}

/// The half of `window` that contains, or borders on, the first head that is not below `head`.
/// `window` has at least two heads.
#[inline]
fn upper_or_lower(window: &[AtomicU64], head: u64) -> &[AtomicU64] {
    let half = window.len() / 2;
    let rest = window.len() - half;
    // A conditional move instead of a branch, because the outcome is random.
    strict_assert!(half > 0 && half + rest == window.len(), "a half loses heads");
    let is_above = window[half - 1].load(Relaxed) < head;
    select_unpredictable(is_above, &window[half..], &window[..rest])
}

/// The position of `part` in `whole`, in bytes.
#[inline]
fn byte_offset(whole: &[AtomicU64], part: &[AtomicU64]) -> usize {
    strict_assert!(part.len() <= whole.len(), "a part is longer than the whole");
    part.as_ptr().addr() - whole.as_ptr().addr()
}
