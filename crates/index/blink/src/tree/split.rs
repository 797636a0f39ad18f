//! The split of a full page P into P and a new page Q.
//!
//! A split writes Q first and P second. The write of P cuts P and links P to Q. No other operation
//! can reach Q before that write. So the one condition is that Q holds P's upper half *as it is
//! when P is cut*.
//!
//! When both lines are here, one step writes both pages. But an operation reserves one line at a
//! time. Under a protocol without a cache, or with a cache of a few frames, the operation may never
//! have both lines at once. In this case the split takes these steps:
//!
//! 1. The step that misses Q stores the image of Q's future content (*prepared*).
//! 2. A later step fills Q from the image.
//! 3. A step after that holds P and builds the image again. If both images are equal, Q is right,
//!    and the step writes only P.
//! 4. If the images differ, another operation has changed P or its leaf stamp. The new image
//!    replaces the old one, and the split continues at step 2.
//! 5. So only an operation that has succeeded can delay a split: a change of an entry of P, a raise
//!    of its leaf stamp, or another split of P.
//!
//! In steps 2 and 3, Q lies filled in memory before P is cut. No operation may meet Q then. That
//! holds for the first life of a line. In a later life, an operation may still have Q's address
//! from an earlier page, and would take Q for a page of the tree. So in a line that was used
//! before, Q is written only under the guard of P, in the step that cuts P.
//!
//! So a split into used lines needs two frames at a time, and three for the root. A cache whose
//! frames transactions have all locked but one or two cannot split there.
//!
//! The root keeps its address: its halves move into two new pages, and it becomes their parent.
//!
//! # Where a death may take what a node has written
//!
//! With [`persists`](CoherentMemory::persists), each line may return to any older version since it
//! was last persisted. So Q is persisted before P is cut, and P before Q is posted: steps 2 and 3
//! above with a persist between them. `docs/internals/trees.md` has the argument. No page leaves
//! such a tree, so Q may be written early in a line that was used before, too.
//!
//! In a tree with leaf stamps, the page P gets a new structure number. P is then the left half, or
//! the root that became an inner page. New pages inherit the timestamps of P. So the timestamps of
//! readers stay with the keys. An image contains the leaf stamp. If the leaf stamp of P was raised
//! since Q was filled, the images differ, and Q is filled again.

use latchwork_cache::WriteGuard;
use latchwork_coherence::{CoherentMemory, life};
use latchwork_strict::{strict_assert, strict_assert_ne};
use latchwork_verbs::{GlobalAddr, LINE_HEADER, WORD, Words};

use super::Tree;
use super::cursor::{Cursor, Progress};
use super::descent::{Post, Stop};
use super::prepared::{NewPage, Prepared};
use crate::leaf_stamp::{Leaf, LeafStamp, Split};
use crate::page::{Broken, Builder, Image, LEVEL_MAX, Page, plan_split, write_halves};

impl<M: CoherentMemory> Tree<M> {
    /// Writes the prepared pages that are not written yet, in lines that were not used before.
    pub(super) fn fill(&self, prepared: &mut Prepared) -> Result<(), Stop> {
        self.guards_of_used(prepared).map(drop)
    }

    /// Like [`fill`](Tree::fill), and returns the write guards of the pages in lines that were used
    /// before.
    fn guards_of_used(&self, prepared: &mut Prepared) -> Result<Vec<WriteGuard<'_>>, Stop> {
        let mut used = Vec::new();
        for page in prepared.0.iter_mut().filter(|page| !page.filled) {
            let mut guard = self.memory.try_write(page.addr).map_err(Stop::Need)?;
            // Where no page leaves the tree, no operation has the address of a new page.
            page.life = if self.unlinks() { life(guard.line()) } else { 1 };
            if page.life > 1 {
                used.push(guard);
            } else {
                self.write_new(page, &mut guard);
            }
        }
        Ok(used)
    }

    /// Writes a new page, with the marks of its line's life.
    fn write_new(&self, page: &mut NewPage, guard: &mut WriteGuard<'_>) {
        strict_assert!(page.life > 0, "a line without a life");
        let (words, tag) = (guard.words(), self.tag);
        words.copy_from(page.image.words());
        let tag = if page.life > 1 { tag.later() } else { tag };
        tag.store(self.page_words(guard.line()));
        if self.config.stamped {
            LeafStamp::load(words).in_life(page.life).store_structure(words);
        }
        guard.mark_dirty(0..page.image.words().len());
        page.filled = true;
    }

    /// Splits the page of `guard`, which is full for the cursor's change.
    pub(super) fn split<R>(
        &self,
        cursor: &mut Cursor<'_>,
        mut guard: WriteGuard<'_>,
    ) -> Result<Progress<R>, Stop> {
        let addr = guard.addr();
        let is_root = addr == self.root;
        let wanted = if is_root { 2 } else { 1 };
        if cursor.spares.len() < wanted {
            return Ok(Progress::Spares(wanted));
        }
        let broken = |broken| Stop::Broken(addr, broken);
        let page = Page::open(self.page_words(guard.line()), self.tag).map_err(broken)?;
        let level = page.header.level;
        if level >= LEVEL_MAX {
            return Err(broken(Broken("more levels than any tree has")));
        }
        let is_next = |slot| level == 0 && self.hints.recent.is_next(cursor.key, addr, slot);
        let split = plan_split(&page, cursor.key, is_next).map_err(broken)?;
        let right_addr = cursor.spares[0].addr();
        strict_assert_ne!(right_addr, addr, "a page is its own right sibling");
        let (left, right) = (self.image(), self.image());
        let halves = (self.image_page(&left), self.image_page(&right));
        write_halves(&page, &split, right_addr, halves.0, halves.1).map_err(broken)?;
        let stamp = LeafStamp::load(guard.words());
        self.stamp_image(&right, stamp.inherited());

        let mut new = vec![NewPage {
            addr: right_addr,
            image: right,
            filled: false,
            persisted: false,
            life: 0,
        }];
        let rest = if is_root {
            let left_addr = cursor.spares[1].addr();
            strict_assert_ne!(left_addr, right_addr, "two halves in one line");
            self.stamp_image(&left, stamp.inherited());
            new.push(NewPage {
                addr: left_addr,
                image: left,
                filled: false,
                persisted: false,
                life: 0,
            });
            self.root_over(level + 1, left_addr, &split.separator, right_addr).map_err(broken)?
        } else {
            left
        };
        self.stamp_image(&rest, stamp.changed());
        let mut prepared = Prepared(new);
        prepared.inherit(cursor.prepared.take());
        let mut used = match self.guards_of_used(&mut prepared) {
            Ok(used) => used,
            Err(stop) => {
                cursor.prepared = Some(prepared);
                return Err(stop);
            }
        };
        if self.memory.persists() && prepared.0.iter().any(|page| !page.persisted) {
            cursor.prepared = Some(prepared);
            return Ok(Progress::Persist);
        }
        for guard in &mut used {
            let page = prepared.0.iter_mut().find(|page| page.addr == guard.addr());
            page.into_iter().for_each(|page| self.write_new(page, guard));
        }
        strict_assert!(
            prepared.0.iter().all(|page| page.filled),
            "the tree leads to a page that is not written"
        );

        guard.words().copy_from(rest.words());
        guard.mark_dirty(0..rest.words().len());
        drop(guard);
        drop(used);
        if level == 0 && self.config.stamped {
            let new = |page: &NewPage| Leaf { addr: page.addr, stamp: stamp.in_life(page.life) };
            let rest = Leaf { addr, stamp: stamp.changed() };
            let left = prepared.0.get(1).map_or(rest, new);
            let halves = [left, new(&prepared.0[0])];
            cursor.split = Some(Split { before: Leaf { addr, stamp }, halves });
        }
        cursor.spares.drain(..wanted).for_each(|spare| spare.keep());
        strict_assert!(cursor.prepared.is_none(), "a split that is done is prepared");
        if is_root {
            self.restart(cursor)?;
            return Ok(Progress::Split(None));
        }
        if cursor.key >= split.separator.as_slice() {
            cursor.at.turn(right_addr, Some(level));
        }
        let (level, separator, child) = (level + 1, split.separator, right_addr);
        let post = Post { level, separator, child, cut: addr };
        Ok(Progress::Split(Some(post)))
    }

    /// A root with two children.
    fn root_over(
        &self,
        level: u8,
        left: GlobalAddr,
        separator: &[u8],
        right: GlobalAddr,
    ) -> Result<Image, Broken> {
        let image = self.image();
        let mut root = Builder::new(self.image_page(&image), self.tag, level, &[], &[])?;
        if !root.push_child(&[], left) || !root.push_child(separator, right) {
            return Err(Broken("a root without room for two children"));
        }
        root.finish(GlobalAddr::NULL);
        Ok(image)
    }

    /// A zeroed image of a line's payload. In a stamped tree the page comes behind the leaf stamp.
    pub(super) fn image(&self) -> Image {
        Image::new(self.memory.payload_len())
    }

    /// The page in an image.
    pub(super) fn image_page<'i>(&self, image: &'i Image) -> Words<'i> {
        image.words().skip(self.page_at - LINE_HEADER / WORD)
    }

    /// Writes the leaf stamp into an image, if the tree has leaf stamps.
    pub(super) fn stamp_image(&self, image: &Image, stamp: LeafStamp) {
        if self.config.stamped {
            stamp.store(image.words());
        }
    }
}
