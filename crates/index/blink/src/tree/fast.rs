//! The fast path: succeeds when every line on the path is cached here and no other operation
//! interferes, which is the usual case. Anything unusual ends the fast path:
//!
//! - a line that is not here, or that another worker writes;
//! - a split that the level above does not contain yet;
//! - a page that does not belong to the tree;
//! - a page in a line that was used before (see `careful`).
//!
//! In each case the fast path has changed nothing in the tree. The slow path continues at the page
//! at which the fast path ended. The slow path can wait, and reports errors.
//!
//! A reader trusts a page with the tree's tag, and checks only its level, its high fence and its
//! counts. A writer checks the header and the fence keys in full, so that it adds no damage to a
//! damaged page.

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use super::child::{ANY_LEVEL, Child};
use super::cursor::Found;
use super::descent::Descent;
use super::recent::Beginning;
use crate::TreeValue;
use crate::leaf_stamp::Line;
use crate::page::{Broken, Dirty, Edit, Glance, Page, Place, Seek, head_of};

/// The size in bytes of a line of the processor's cache.
const CACHE_LINE: usize = 64;

impl<M: CoherentMemory> Tree<M> {
    /// The root, at which every path of the fast path starts.
    #[inline]
    pub(super) fn fast_root(&self) -> Child<'_> {
        Child { addr: self.root, hint: &self.hints.root, siblings: &[], level: ANY_LEVEL }
    }

    /// Steps from the inner page `at` to its child for `key`. `head` is the first 8 bytes of `key`.
    ///
    /// Always inlined. If the child is returned through memory, its loads in pairs of words wait
    /// for stores in single words. That costs as much as the search.
    #[inline(always)]
    pub(super) fn fast_step<'m>(
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

    /// The leaf to which the level above leads for `key`, without a read of the leaf.
    ///
    /// # Errors
    /// The page at which the slow path continues. A root that is a leaf is such a page, too: its
    /// level is unknown here.
    #[inline(always)]
    pub(super) fn fast_leaf(&self, key: &[u8], head: u64) -> Result<Child<'_>, Child<'_>> {
        let mut at = self.fast_root();
        // Each step goes down by one level.
        while at.level > 0 {
            at = self.fast_step(at, key, head).ok_or(at)?;
            // The pages of higher levels are so few that they are probably in the processor's
            // cache.
            if at.level == 1 {
                self.memory.prefetch(at.hint, Glance::likely(self.memory.payload_len()));
            }
        }
        Ok(at)
    }

    /// The right sibling of a leaf, at `addr`.
    #[inline]
    pub(super) fn fast_sibling<'m>(&'m self, leaf: Child<'m>, addr: GlobalAddr) -> Child<'m> {
        let (hint, siblings) = leaf.siblings.split_first().unwrap_or((&self.hints.spare, &[]));
        Child { addr, hint, siblings, level: 0 }
    }

    /// Reads the leaf to which `seek` leads.
    #[inline]
    pub(super) fn fast_page<R>(
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

    /// The result of [`try_get`](Tree::try_get), and the result of `seen` for the leaf's line. The
    /// error is the page at which the slow path continues.
    #[inline]
    pub(super) fn fast_get<R, S>(
        &self,
        key: &[u8],
        visit: &mut impl FnMut(TreeValue<'_>) -> R,
        seen: impl FnOnce(Line<'_>) -> S,
    ) -> Result<(Option<R>, S), Descent> {
        let head = head_of(key);
        let leaf = self.fast_leaf(key, head).map_err(Child::descent)?;
        self.memory.prefetch(leaf.hint, Glance::likely(self.memory.payload_len()));
        self.fast_visit(leaf, key, head, visit, seen).ok_or_else(|| leaf.descent())
    }

    /// Looks up a key in its leaf.
    #[inline]
    pub(super) fn fast_visit<R, S>(
        &self,
        leaf: Child<'_>,
        key: &[u8],
        head: u64,
        visit: &mut impl FnMut(TreeValue<'_>) -> R,
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

    /// Applies `change` to the leaf of `key`. The error is the page at which the slow path
    /// continues.
    ///
    /// All lookups come before the latch. So the latch is held only during the change. Unlike the
    /// slow path, this function does not enter an operation of the memory, because to enter may
    /// wait. `try_get_slow` says why that is safe.
    #[inline]
    pub(super) fn fast_write<R>(
        &self,
        key: &[u8],
        change: &mut impl FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit>,
    ) -> Result<R, Descent> {
        let leaf = self.fast_leaf(key, head_of(key)).map_err(Child::descent)?;
        self.fetch_to_change(leaf);
        let changed = self.fast_change(leaf, key, None, change);
        changed.map(|(result, _)| result).ok_or_else(|| leaf.descent())
    }

    /// Prefetches the parts of a leaf that a change reads.
    #[inline(always)]
    pub(super) fn fetch_to_change(&self, leaf: Child<'_>) {
        let len = self.memory.payload_len();
        self.memory.prefetch(leaf.hint, Glance::likely(len));
        // On a wrong page a reader finds nothing or a wrong entry, but a writer would do damage. So
        // a writer also checks the low fence, which is at the end of the page.
        self.memory.prefetch(leaf.hint, len - CACHE_LINE..len);
    }

    /// Applies `change` to `leaf`, if `key` belongs there. `next` is the probable slot of the key.
    /// If entries were added, the second result is the slot behind them.
    #[inline(always)]
    pub(super) fn fast_change<R>(
        &self,
        leaf: Child<'_>,
        key: &[u8],
        next: Option<usize>,
        change: &mut impl FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit>,
    ) -> Option<(R, Option<usize>)> {
        let seen = self.memory.try_read_at(leaf.addr, leaf.hint).ok()?;
        let page = Page::open(self.page_words(seen.line()), self.tag).ok()?;
        if !page.header.is_leaf() || page.place(Seek::At(key)) != Ok(Place::Here) {
            // A checker may break the rule that a remembered leaf is checked in full.
            let is_trusted = !self.config.rules.checks_remembered && next.is_some();
            if !is_trusted || !page.header.is_leaf() || page.place(Seek::At(key)).is_ok() {
                return None;
            }
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

    /// Makes room among the hints of the inner page at `addr` for a new child in `slot`. Otherwise
    /// the hints of the children in later slots would be wrong.
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

    /// Closes the gap among the hints of the inner page at `addr` that the child in `slot` has
    /// left.
    pub(super) fn close_hints(&self, addr: GlobalAddr, slot: usize) {
        let Ok(read) = self.memory.try_read(addr) else { return };
        for pair in self.memory.hints(&read).get(slot..).unwrap_or(&[]).windows(2) {
            pair[0].copy_from(&pair[1]);
        }
    }

    /// Like [`fast_write`](Tree::fast_write), for a change that probably adds the key. First tries
    /// the leaf to which the last key with the same prefix was added.
    #[inline]
    pub(super) fn fast_add<R>(
        &self,
        key: &[u8],
        change: &mut impl FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit>,
    ) -> Result<R, Descent> {
        let start = Beginning::of(key);
        let last = self.hints.recent.leaf(start);
        if let Some((leaf, next)) = last.likely(start)
            && let Some((result, added)) = self.fast_change(leaf, key, Some(next), change)
        {
            if let Some(next) = added {
                last.went_on(next);
            }
            return Ok(result);
        }
        let leaf = self.fast_leaf(key, head_of(key)).map_err(Child::descent)?;
        self.fetch_to_change(leaf);
        let changed = self.fast_change(leaf, key, None, change);
        let (result, added) = changed.ok_or_else(|| leaf.descent())?;
        if let Some(next) = added {
            last.note(start, leaf.addr, leaf.hint, next);
        }
        Ok(result)
    }
}
