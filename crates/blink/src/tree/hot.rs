//! The hot way: what an operation does when every line that it meets is cached here and nobody is in its
//! way, which is nearly always. Whatever is unusual ends it with `None`: a line that is elsewhere or being
//! written, a split that the level above does not know of, a page that is damaged. Nothing has happened
//! then, and the careful way, which can wait and tells what is wrong, begins anew from the root.

use latchwork_cache::{Hint, OptimisticRead};
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::Tree;
use crate::Value;
use crate::page::{Dirty, Edit, Glance, Page, Place, Seek, head_of};

/// A page and where it probably is.
#[derive(Clone, Copy)]
pub(super) struct Child<'m> {
    pub(super) addr: GlobalAddr,
    pub(super) hint: Option<&'m Hint>,
    pub(super) level: u8,
}

impl<M: CoherentMemory> Tree<M> {
    #[inline]
    pub(super) fn hot_read(&self, child: Child<'_>) -> Option<OptimisticRead<'_>> {
        let read = match child.hint {
            Some(hint) => self.memory.try_read_at(child.addr, hint),
            None => self.memory.try_read(child.addr),
        };
        read.ok()
    }

    /// The child of the page of `read` that leads to `key`, whose first 8 bytes are `head`. The page is
    /// known to be consistent, and an inner one.
    #[inline]
    pub(super) fn hot_child<'m>(
        &'m self,
        read: &OptimisticRead<'m>,
        page: Glance<'_>,
        key: &[u8],
        head: u64,
    ) -> Option<Child<'m>> {
        if !page.is_below_high(key, head) {
            return None;
        }
        let level = page.level().checked_sub(1)?;
        let (slot, addr) = page.child_for(key)?;
        let hint = self.memory.hints(read).get(slot);
        read.validate().then_some(Child { addr, hint, level })
    }

    /// The root, if it is an inner page.
    #[inline]
    pub(super) fn hot_root(&self) -> Option<(OptimisticRead<'_>, Glance<'_>)> {
        let read = self.memory.try_read_at(self.root, &self.root_hint).ok()?;
        let page = Glance::at(read.words(), self.tag)?;
        (page.level() > 0).then_some((read, page))
    }

    /// The leaf that the level above has for `key`, without a look at it.
    #[inline]
    pub(super) fn hot_leaf(&self, key: &[u8], head: u64) -> Option<Child<'_>> {
        let (read, page) = self.hot_root()?;
        let mut child = self.hot_child(&read, page, key, head)?;
        while child.level > 0 {
            let read = self.hot_read(child)?;
            let page = Glance::at(read.words(), self.tag)?;
            if page.level() != child.level {
                return None;
            }
            child = self.hot_child(&read, page, key, head)?;
        }
        Some(child)
    }

    /// What [`try_get`](Tree::try_get) finds.
    #[inline]
    pub(super) fn hot_get<R>(
        &self,
        key: &[u8],
        visit: &mut impl FnMut(Value<'_>) -> R,
    ) -> Option<Option<R>> {
        let head = head_of(key);
        let leaf = self.hot_leaf(key, head)?;
        let read = self.hot_read(leaf)?;
        Page::fetch_leaf(read.words());
        self.hot_visit(&read, key, head, visit)
    }

    /// Looks a key up in its leaf.
    #[inline]
    pub(super) fn hot_visit<R>(
        &self,
        read: &OptimisticRead<'_>,
        key: &[u8],
        head: u64,
        visit: &mut impl FnMut(Value<'_>) -> R,
    ) -> Option<Option<R>> {
        let page = Glance::at(read.words(), self.tag)?;
        if page.level() != 0 || !page.is_below_high(key, head) {
            return None;
        }
        let found = page.search(key).ok().map(|slot| visit(page.value(slot)));
        read.validate().then_some(found)
    }

    /// Applies `change` to the leaf where `key` belongs; `None` if it was not applied.
    ///
    /// No operation is begun, which might have to wait: see [`try_get`](Tree::try_get).
    #[inline]
    pub(super) fn hot_write<R>(
        &self,
        key: &[u8],
        change: &mut impl FnMut(&Page<'_>) -> Result<(R, Dirty), Edit>,
    ) -> Option<R> {
        let leaf = self.hot_leaf(key, head_of(key))?;
        let guard = match leaf.hint {
            Some(hint) => self.memory.try_write_at(leaf.addr, hint),
            None => self.memory.try_write(leaf.addr),
        };
        let mut guard = guard.ok()?;
        Page::fetch_leaf(guard.words());
        let page = Page::open(guard.words(), self.tag).ok()?;
        if !page.header.is_leaf() || page.place(Seek::At(key)) != Ok(Place::Here) {
            return None;
        }
        let (result, dirty) = change(&page).ok()?;
        dirty.ranges().for_each(|range| guard.mark_dirty(range));
        Some(result)
    }
}
