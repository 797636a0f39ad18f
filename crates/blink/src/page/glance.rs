//! The way of a hot descent through a page: as few loads and comparisons as lead on when all is well.

use std::ops::Range;

use latchwork_verbs::{GlobalAddr, Words};

use super::{Header, Page, Tag};
use crate::Value;

/// A page of which nothing was checked but its tag.
///
/// Whoever descends so relies on what holds for every page of the tree: a validated way leads to pages
/// that hold the key or have it to their right, and a page that carries the tag is in order. What does not
/// fit is answered with `None`: then the careful way ([`Page::open`], [`Page::place`]) has to be taken,
/// which finds out what it was. Reads stay inside the page on any bytes, as everywhere here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Glance<'a>(Page<'a>);

impl<'a> Glance<'a> {
    /// Which bytes of a page of `len` bytes a lookup looks at, most likely: header and slots.
    #[inline]
    pub(crate) fn likely(len: usize) -> Range<usize> {
        0..(len / 2).min(1024)
    }

    #[inline]
    pub(crate) fn at(words: Words<'a>, tag: Tag) -> Option<Glance<'a>> {
        let header = Header::load(words);
        (header.tag == tag).then_some(Glance(Page { words, header }))
    }

    #[inline]
    pub(crate) fn level(&self) -> u8 {
        self.0.header.level
    }

    /// Whether `key`, whose first 8 bytes are `head`, is below the high fence.
    #[inline]
    pub(crate) fn is_below_high(&self, key: &[u8], head: u64) -> bool {
        let high = self.0.header.high;
        high.len == 0 || self.0.compare_fence(high, key, head).is_gt()
    }

    /// Slot and address of the child that leads to `key`; the page is inner.
    #[inline]
    pub(crate) fn child_for(&self, key: &[u8]) -> Option<(usize, GlobalAddr)> {
        let slot = match self.0.search(key) {
            Ok(slot) => slot,
            Err(slot) => slot.checked_sub(1)?,
        };
        let child = GlobalAddr::from_bits(self.0.words.u64(self.0.entry(slot).offset()));
        (!child.is_null()).then_some((slot, child))
    }

    /// The slot of `key`, or where it would be inserted; the page is a leaf.
    #[inline]
    pub(crate) fn search(&self, key: &[u8]) -> Result<usize, usize> {
        self.0.search(key)
    }

    /// The value in `slot`.
    #[inline]
    pub(crate) fn value(&self, slot: usize) -> Value<'a> {
        self.0.value(slot)
    }
}
