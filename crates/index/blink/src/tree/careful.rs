//! The careful path: a plain function like the fast path, with a check of each page in full. So
//! pages in lines that were used before are no obstacle. Slow paths begin with it once the handle
//! has met such a page.

use latchwork_coherence::CoherentMemory;

use super::Tree;
use super::child::{ANY_LEVEL, Child};
use super::cursor::Found;
use super::recent::Beginning;
use crate::TreeValue;
use crate::leaf_stamp::Line;
use crate::page::{Dirty, Edit, Glance, Page, Place, Seek};

impl<M: CoherentMemory> Tree<M> {
    /// Like [`fast_leaf`](Tree::fast_leaf). `None` as long as the fast path suffices, too.
    #[cold]
    #[inline(never)]
    pub(super) fn careful_leaf(&self, key: &[u8]) -> Option<Child<'_>> {
        if !self.leaving.has_used.get() {
            return None;
        }
        let mut at = self.fast_root();
        while at.level > 0 {
            at = self.careful_step(at, key)?;
        }
        Some(at)
    }

    fn careful_step<'m>(&'m self, at: Child<'m>, key: &[u8]) -> Option<Child<'m>> {
        let read = self.memory.try_read_at(at.addr, at.hint).ok()?;
        let page = Page::open(self.page_words(read.line()), self.tag).ok()?;
        let level = page.header.level;
        let is_on_path = level == at.level || at.level == ANY_LEVEL;
        if !is_on_path || level == 0 || page.place(Seek::At(key)) != Ok(Place::Here) {
            return None;
        }
        let (slot, addr) = Glance::at(page.words, page.header.tag)?.child_for(key)?;
        let hints = self.memory.hints(&read).get(slot..).unwrap_or(&[]);
        let (hint, siblings) = hints.split_first().unwrap_or((&self.hints.spare, &[]));
        read.validate().then_some(Child { addr, hint, siblings, level: level - 1 })
    }

    /// The value of `key`, and the result of `seen` for its leaf.
    #[cold]
    #[inline(never)]
    pub(super) fn careful_get<R, S>(
        &self,
        key: &[u8],
        visit: &mut impl FnMut(TreeValue<'_>) -> R,
        seen: impl Fn(Line<'_>) -> S,
    ) -> Option<(Option<R>, S)> {
        let leaf = self.careful_leaf(key)?;
        self.fast_page(leaf, Seek::At(key), |page, line| {
            Ok((page.search(key).ok().map(|slot| visit(page.value(slot))), seen(line)))
        })
    }

    /// Applies `change` to the leaf of `key`.
    #[cold]
    #[inline(never)]
    pub(super) fn careful_change<R>(
        &self,
        key: &[u8],
        mut change: impl FnMut(&Page<'_>, Found, Line<'_>) -> Result<(R, Dirty), Edit>,
    ) -> Option<R> {
        let leaf = self.careful_leaf(key)?;
        let (result, added) = self.fast_change(leaf, key, None, &mut change)?;
        if let Some(next) = added {
            let start = Beginning::of(key);
            self.hints.recent.leaf(start).note(start, leaf.addr, leaf.hint, next);
        }
        Some(result)
    }
}
