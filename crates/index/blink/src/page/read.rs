//! Lookups in a page, safe on any bytes.

use std::cmp::Ordering;
use std::ops::Bound;

use latchwork_verbs::{GlobalAddr, Words};

use super::{Broken, CHILD, Entry, Glance, HEAD, Header, Span, Tag, head_behind, head_of};
use crate::TreeValue;

/// The length in bytes up to which a leaf is prefetched as a whole, before any read of it. The leaf
/// is probably not in the processor's cache, and the processor cannot guess which part a lookup
/// needs.
const FETCHED_WHOLE: usize = 2048;

/// The bytes of a longer leaf to prefetch: at its start (header and heads) and at its end (fence
/// keys).
const FETCHED_ENDS: (usize, usize) = (256, 64);

/// The key to which a descent leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Seek<'k> {
    /// The position of this key. The empty key means the start of the tree.
    At(&'k [u8]),
    /// The position of the largest key strictly below this key. This key is not empty.
    Below(&'k [u8]),
    /// The end of the tree.
    Last,
}

/// The position of the sought key relative to a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Place {
    /// Between the fence keys.
    Here,
    /// Behind the high fence. The value is the right link.
    Right(GlobalAddr),
}

/// A page whose header was checked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    pub(crate) words: Words<'a>,
    pub(crate) header: Header,
}

impl<'a> Page<'a> {
    /// Prefetches a page that is probably a leaf, before the page is opened.
    #[inline]
    pub(crate) fn fetch_leaf(words: Words<'a>) {
        if words.len() <= FETCHED_WHOLE {
            words.prefetch(0..words.len());
        } else {
            words.prefetch(0..FETCHED_ENDS.0);
            words.prefetch(words.len() - FETCHED_ENDS.1..words.len());
        }
    }

    /// Reads and checks the header.
    #[inline]
    pub(crate) fn open(words: Words<'a>, tag: Tag) -> Result<Page<'a>, Broken> {
        let header = Header::load(words);
        header.verify(tag)?;
        Ok(Page { words, header })
    }

    /// Compares the sought key with the fence keys.
    #[inline]
    pub(crate) fn place(&self, seek: Seek<'_>) -> Result<Place, Broken> {
        let (low, high) = (self.header.low, self.header.high);
        let (left, right) = match seek {
            Seek::At(key) => {
                let head = head_of(key);
                // Fence keys are padded with zeros, like heads.
                let low_head = self.words.u64(low.offset.into()).swap_bytes();
                let high_head = self.header.high_head;
                (
                    low.len > 0 && self.compare_fence(low, low_head, key, head).is_gt(),
                    high.len > 0 && self.compare_fence(high, high_head, key, head).is_le(),
                )
            }
            Seek::Below(key) => (
                low.len > 0 && self.compare_span(low, key).is_ge(),
                high.len > 0 && self.compare_span(high, key).is_lt(),
            ),
            Seek::Last => (false, high.len > 0),
        };
        if left {
            return Err(Broken("the low fence is above a key that led here"));
        }
        if !right {
            return Ok(Place::Here);
        }
        if self.header.right.is_null() {
            return Err(Broken("a high fence but no right sibling"));
        }
        Ok(Place::Right(self.header.right))
    }

    /// The number of entries up to the bound `to`, which may lie outside the fence keys.
    pub(crate) fn end_of(&self, to: Bound<&[u8]>) -> usize {
        let (Bound::Included(key) | Bound::Excluded(key)) = to else { return self.header.count() };
        match self.place(Seek::At(key)) {
            Ok(Place::Here) => match self.search(key) {
                Ok(slot) => slot + usize::from(matches!(to, Bound::Included(_))),
                Err(slot) => slot,
            },
            Ok(Place::Right(_)) => self.header.count(),
            // Below the low fence.
            Err(_) => 0,
        }
    }

    /// Whether this inner page, or the page from which it was split, has lost a child.
    pub(crate) fn has_lost(&self) -> bool {
        Header::has_lost(self.words)
    }

    /// The child that leads to the sought key. The page is inner, and the key lies between its
    /// fence keys.
    #[inline]
    pub(crate) fn child_for(&self, seek: Seek<'_>) -> Result<GlobalAddr, Broken> {
        let slot = match seek {
            Seek::At(key) => match self.search(key) {
                Ok(slot) => Some(slot),
                Err(slot) => slot.checked_sub(1),
            },
            Seek::Below(key) => self.search(key).unwrap_or_else(|slot| slot).checked_sub(1),
            Seek::Last => self.header.count().checked_sub(1),
        };
        self.child(slot.ok_or(Broken("no child below its first separator"))?)
    }

    #[inline]
    pub(crate) fn child(&self, slot: usize) -> Result<GlobalAddr, Broken> {
        let entry = self.entry(slot);
        let child = GlobalAddr::from_bits(self.words.u64(entry.offset()));
        if entry.value_len() != CHILD || child.is_null() {
            return Err(Broken("a separator without a child"));
        }
        Ok(child)
    }

    /// The slot of `key`, or the slot where it would be inserted. The key lies within the fence
    /// keys.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        Glance::of(self.words).map_or(Err(0), |page| page.search(key))
    }

    /// Whether the heads prove that `key` belongs between the entry before `slot` and the entry in
    /// `slot`. The key lies within the fence keys. Never true without an entry before `slot`.
    #[inline]
    pub(crate) fn is_place(&self, slot: usize, key: &[u8]) -> bool {
        let Some(before) = slot.checked_sub(1) else { return false };
        let (head, count) = (head_behind(key, self.header.prefix()), self.header.count());
        slot <= count && self.head(before) < head && (slot == count || head < self.head(slot))
    }

    /// The slot behind the entries that a change has just added at the position `found` of a
    /// search. `None` if no entry was added. `self` has the header from before the change.
    #[inline]
    pub(crate) fn slot_behind(&self, found: Result<usize, usize>) -> Option<usize> {
        let slot = found.err()?;
        let count = Glance::of(self.words).map_or(0, |page| page.count());
        count.checked_sub(self.header.count()).filter(|&new| new > 0).map(|new| slot + new)
    }

    #[inline]
    pub(crate) fn head(&self, slot: usize) -> u64 {
        self.words.u64(Header::head_at(slot))
    }

    #[inline]
    pub(crate) fn entry(&self, slot: usize) -> Entry {
        let none = Entry { offset: 0, suffix: 0, value: 0 };
        Glance::of(self.words).map_or(none, |page| page.entry(slot))
    }

    pub(crate) fn value(&self, slot: usize) -> TreeValue<'a> {
        let entry = self.entry(slot);
        TreeValue::new(self.words, entry.offset(), entry.value_len())
    }

    /// Whether the value in `slot` is exactly `bytes`.
    pub(crate) fn value_is(&self, slot: usize, bytes: &[u8]) -> bool {
        let entry = self.entry(slot);
        self.words.compare(entry.offset(), entry.value_len(), bytes).is_eq()
    }

    /// Appends the whole key in `slot` to `to`.
    pub(crate) fn append_key(&self, slot: usize, to: &mut Vec<u8>) {
        let entry = self.entry(slot);
        self.words.append_to(usize::from(self.header.low.offset), self.header.prefix(), to);
        let end = to.len() + entry.suffix_len().min(HEAD);
        // A head is one store. Removing its surplus bytes is cheap.
        to.extend_from_slice(&self.head(slot).to_be_bytes());
        to.truncate(end);
        let (rest, len) = entry.rest();
        self.words.append_to(rest, len, to);
    }

    /// The whole key in `slot`.
    pub(crate) fn key(&self, slot: usize) -> Vec<u8> {
        let mut key = Vec::new();
        self.append_key(slot, &mut key);
        key
    }

    /// The low fence; empty for minus infinity.
    pub(crate) fn low(&self) -> Vec<u8> {
        self.bytes(self.header.low)
    }

    /// The high fence; empty for plus infinity.
    pub(crate) fn high(&self) -> Vec<u8> {
        self.bytes(self.header.high)
    }

    /// Appends the high fence to `to`.
    pub(crate) fn append_high(&self, to: &mut Vec<u8>) {
        let high = self.header.high;
        self.words.append_to(usize::from(high.offset), usize::from(high.len), to);
    }

    /// Whether the low fence is exactly `key`.
    pub(crate) fn low_is(&self, key: &[u8]) -> bool {
        self.compare_span(self.header.low, key).is_eq()
    }

    fn bytes(&self, span: Span) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.words.append_to(usize::from(span.offset), usize::from(span.len), &mut bytes);
        bytes
    }

    /// Compares a non-empty fence key with `key`. The heads of both, `first` and `head`, usually
    /// decide.
    #[inline]
    fn compare_fence(&self, fence: Span, first: u64, key: &[u8], head: u64) -> Ordering {
        if first != head {
            return first.cmp(&head);
        }
        self.compare_span(fence, key)
    }

    fn compare_span(&self, span: Span, key: &[u8]) -> Ordering {
        self.words.compare(usize::from(span.offset), usize::from(span.len), key)
    }
}
