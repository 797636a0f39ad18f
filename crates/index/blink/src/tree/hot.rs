//! The hot way: what an operation does when every line that it meets is cached here and nobody is
//! in its way, which is nearly always. Whatever is unusual ends it: a line that is elsewhere or
//! being written, a split that the level above does not know of, a page that is none of the tree's.
//! Nothing has happened then, and the careful way, which can wait and tells what is wrong, goes on
//! at the page where that was.
//!
//! Readers trust a page that carries the tree's tag, but for what they would trip over; writers
//! check its header and its fences in full, so that they do no damage where somebody else has.

use latchwork_cache::Hint;
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use super::descend::Descent;
use super::recent::Recent;
use super::write::Found;
use crate::Value;
use crate::page::{Broken, Dirty, Edit, Glance, LEVEL_MAX, Page, Place, Seek, head_of};
use crate::stamp::Line;

/// A page on the way, and where it probably is.
#[derive(Clone, Copy)]
pub(super) struct Child<'m> {
    pub(super) addr: GlobalAddr,
    pub(super) hint: &'m Hint,
    /// Where its siblings to the right probably are, as far as they have the same parent.
    pub(super) siblings: &'m [Hint],
    pub(super) level: u8,
}

impl Child<'_> {
    /// The careful way from here: keys only move to the right, so a page that was on the way to one
    /// leads to it for ever.
    #[inline]
    pub(super) fn descent(self) -> Descent {
        Descent::new(self.addr, (self.level != ANY_LEVEL).then_some(self.level))
    }
}

/// Bytes that a processor fetches at once.
const CACHE_LINE: usize = 64;

/// Hints that no page holds.
#[derive(Debug, Default)]
pub(super) struct Hints {
    root: Hint,
    pub(super) recent: Recent,
    /// For children of pages that have no hints for them: mostly wrong, and corrected in vain.
    spare: Hint,
}

/// In the place of the level of the root, which alone may be on any.
const ANY_LEVEL: u8 = LEVEL_MAX + 1;

impl<M: CoherentMemory> Tree<M> {
    /// Where every way begins.
    #[inline]
    pub(super) fn hot_root(&self) -> Child<'_> {
        Child { addr: self.root, hint: &self.hints.root, siblings: &[], level: ANY_LEVEL }
    }

    /// From the page `at`, which is not a leaf, to its child for `key`, whose first 8 bytes are
    /// `head`.
    ///
    /// Inlined wherever it is used: a child that is handed back through memory costs as much as the
    /// search, since it is stored in words and loaded in pairs of them.
    #[inline(always)]
    pub(super) fn hot_step<'m>(
        &'m self,
        at: Child<'m>,
        key: &[u8],
        head: u64,
    ) -> Option<Child<'m>> {
        let read = self.memory.try_read_at(at.addr, at.hint).ok()?;
        let page = Glance::at(self.page_words(read.line()), self.tag)?;
        let level = page.level();
        if level != at.level && at.level != ANY_LEVEL || !page.is_below_high(key, head) {
            return None;
        }
        let below = level.checked_sub(1)?;
        let (slot, addr) = page.child_for(key)?;
        let hints = self.memory.hints(&read).get(slot..).unwrap_or(&[]);
        let (hint, siblings) = hints.split_first().unwrap_or((&self.hints.spare, &[]));
        let child = Child { addr, hint, siblings, level: below };
        read.validate().then_some(child)
    }

    /// The leaf that the level above has for `key`, without a look at it.
    ///
    /// # Errors
    /// The page where the careful way is to go on: also a root that is a leaf.
    #[inline(always)]
    pub(super) fn hot_leaf(&self, key: &[u8], head: u64) -> Result<Child<'_>, Child<'_>> {
        let mut at = self.hot_root();
        // Each step goes down by a level.
        while at.level > 0 {
            at = self.hot_step(at, key, head).ok_or(at)?;
            // The pages above are so few that they are in the processor's cache anyway.
            if at.level == 1 {
                self.memory.prefetch(at.hint, Glance::likely(self.memory.payload_len()));
            }
        }
        Ok(at)
    }

    /// The right sibling of a leaf, at `addr`.
    #[inline]
    pub(super) fn hot_sibling<'m>(&'m self, leaf: Child<'m>, addr: GlobalAddr) -> Child<'m> {
        let (hint, siblings) = leaf.siblings.split_first().unwrap_or((&self.hints.spare, &[]));
        Child { addr, hint, siblings, level: 0 }
    }

    /// Reads a leaf where `seek` leads.
    #[inline]
    pub(super) fn hot_page<R>(
        &self,
        leaf: Child<'_>,
        seek: Seek<'_>,
        read: impl FnOnce(&Page<'_>, Line<'_>) -> Result<R, Broken>,
    ) -> Option<R> {
        let seen = self.memory.try_read_at(leaf.addr, leaf.hint).ok()?;
        let page = Page::open(self.page_words(seen.line()), self.tag).ok()?;
        if !page.header.is_leaf() || page.place(seek) != Ok(Place::Here) {
            return None;
        }
        let line = Line::new(leaf.addr, seen.line());
        read(&page, line).ok().filter(|_| seen.validate())
    }

    /// What [`try_get`](Tree::try_get) finds, and what `seen` makes of the leaf's line; or where
    /// the careful way is to go on.
    #[inline]
    pub(super) fn hot_get<R, S>(
        &self,
        key: &[u8],
        visit: &mut impl FnMut(Value<'_>) -> R,
        seen: impl FnOnce(Line<'_>) -> S,
    ) -> Result<(Option<R>, S), Descent> {
        let head = head_of(key);
        let leaf = self.hot_leaf(key, head).map_err(Child::descent)?;
        self.memory.prefetch(leaf.hint, Glance::likely(self.memory.payload_len()));
        self.hot_visit(leaf, key, head, visit, seen).ok_or_else(|| leaf.descent())
    }

    /// Looks a key up in its leaf.
    #[inline]
    pub(super) fn hot_visit<R, S>(
        &self,
        leaf: Child<'_>,
        key: &[u8],
        head: u64,
        visit: &mut impl FnMut(Value<'_>) -> R,
        seen: impl FnOnce(Line<'_>) -> S,
    ) -> Option<(Option<R>, S)> {
        let read = self.memory.try_read_at(leaf.addr, leaf.hint).ok()?;
        let page = Glance::at(self.page_words(read.line()), self.tag)?;
        if page.level() != 0 || !page.is_plausible() || !page.is_below_high(key, head) {
            return None;
        }
        let found = page.search(key).ok().map(|slot| visit(page.value(slot)));
        let seen = seen(Line::new(leaf.addr, read.line()));
        read.validate().then_some((found, seen))
    }

    /// Applies `change` to the leaf where `key` belongs, or says where the careful way is to go on.
    ///
    /// Everything is looked up before the latch is taken, which then has to wait for nothing and is
    /// held for as long as the change takes. No operation is begun, which might have to wait: see
    /// [`try_get`](Tree::try_get).
    #[inline]
    pub(super) fn hot_write<R>(
        &self,
        key: &[u8],
        change: &mut impl FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit>,
    ) -> Result<R, Descent> {
        let leaf = self.hot_leaf(key, head_of(key)).map_err(Child::descent)?;
        self.fetch_to_change(leaf);
        let changed = self.hot_change(leaf, key, None, change);
        changed.map(|(result, _)| result).ok_or_else(|| leaf.descent())
    }

    /// Asks the processor for what is looked at of a leaf that is to be changed.
    #[inline(always)]
    pub(super) fn fetch_to_change(&self, leaf: Child<'_>) {
        let len = self.memory.payload_len();
        self.memory.prefetch(leaf.hint, Glance::likely(len));
        // A reader that was misled finds nothing or something else, a writer would do damage: so
        // the low fence is looked at, too, which stands at the end.
        self.memory.prefetch(leaf.hint, len - CACHE_LINE..len);
    }

    /// Applies `change` to the leaf `leaf`, if `key` belongs there, probably into the slot `next`.
    /// If entries were added then, the second result is the slot behind them.
    #[inline(always)]
    pub(super) fn hot_change<R>(
        &self,
        leaf: Child<'_>,
        key: &[u8],
        next: Option<usize>,
        change: &mut impl FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit>,
    ) -> Option<(R, Option<usize>)> {
        let seen = self.memory.try_read_at(leaf.addr, leaf.hint).ok()?;
        let page = Page::open(self.page_words(seen.line()), self.tag).ok()?;
        if !page.header.is_leaf() || page.place(Seek::At(key)) != Ok(Place::Here) {
            return None;
        }
        let found = match next {
            Some(slot) if page.is_place(slot, key) => Err(slot),
            _ => page.search(key),
        };
        let mut guard = self.memory.try_latch(seen).ok()?;
        let (result, dirty) = change(&page, found, Line::new(leaf.addr, seen.line())).ok()?;
        self.mark_changed(&mut guard, dirty, 0);
        Some((result, page.slot_behind(found)))
    }

    /// Makes room among the hints of the inner page at `addr`, which got a new child in `slot`: the
    /// children behind it would not be found where their hints are.
    pub(super) fn shift_hints(&self, addr: GlobalAddr, slot: usize) {
        let Ok(read) = self.memory.try_read(addr) else { return };
        let Ok(page) = Page::open(self.page_words(read.line()), self.tag) else { return };
        let hints = self.memory.hints(&read);
        let hints = &hints[..hints.len().min(page.header.count())];
        let behind = hints.get(slot..).unwrap_or(&[]);
        for pair in behind.windows(2).rev() {
            pair[1].copy_from(&pair[0]);
        }
    }
}
