//! Splitting a full page.
//!
//! A split writes a new page Q and then the full page P, which from that moment links to Q. Nobody
//! knows Q before, so all that matters is that Q holds P's upper half *as it is when P is cut*.
//!
//! When both lines are here, one step writes both. But an operation reserves one line at a time,
//! and with a protocol without a cache, or a cache of a few frames, it may never find both at once.
//! So the step that misses Q leaves behind the image of what Q should hold (*prepared*). A later
//! step fills Q from it; a yet later one, holding P, builds the image again: if it is equal, Q is
//! right, and P alone is left to write. If not, somebody changed P's upper half meanwhile, the
//! image is replaced and Q filled anew. An operation can therefore only be held up by others that
//! make progress; and since P is full, all inserts into it are such operations.
//!
//! The root keeps its address: its halves move into two new pages, and it becomes their parent.
//!
//! In a tree with stamps the page that was split has another structure than before: the left half,
//! and the root that became an inner page. New pages take over what else the stamp says, so that a
//! reader who depended on the page depends on them. Images hold the stamp, too: if it was raised
//! since Q was filled, Q is filled anew.

use latchwork_cache::WriteGuard;
use latchwork_coherence::CoherentMemory;
use latchwork_verbs::{GlobalAddr, LINE_HEADER, WORD, Words};

use super::Tree;
use super::descend::{Post, Stop};
use super::write::{Cursor, Progress};
use crate::page::{Broken, Builder, Image, LEVEL_MAX, Page, plan_split, write_halves};
use crate::stamp::{Leaf, Split, Stamp};

/// New pages that are still private, and what they should hold.
#[derive(Debug)]
pub(super) struct Prepared(Vec<NewPage>);

#[derive(Debug)]
struct NewPage {
    addr: GlobalAddr,
    image: Image,
    filled: bool,
}

impl Prepared {
    /// Takes over what `earlier` knows to be written already.
    fn inherit(&mut self, earlier: Option<Prepared>) {
        let Some(earlier) = earlier else { return };
        for (new, old) in self.0.iter_mut().zip(earlier.0) {
            new.filled = old.filled && new.addr == old.addr && new.image == old.image;
        }
    }
}

impl<M: CoherentMemory> Tree<M> {
    /// Writes prepared pages that are not written yet.
    pub(super) fn fill(&self, prepared: &mut Prepared) -> Result<(), Stop> {
        for page in prepared.0.iter_mut().filter(|page| !page.filled) {
            let mut guard = self.memory.try_write(page.addr).map_err(Stop::Need)?;
            guard.words().copy_from(page.image.words());
            guard.mark_dirty(0..page.image.words().len());
            page.filled = true;
        }
        Ok(())
    }

    /// Splits the page of `guard`, which the cursor found full.
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
        let (left, right) = (self.image(), self.image());
        let halves = (self.image_page(&left), self.image_page(&right));
        write_halves(&page, &split, right_addr, halves.0, halves.1).map_err(broken)?;
        let stamp = Stamp::load(guard.words());
        self.stamp_image(&right, stamp.inherited());

        let mut new = vec![NewPage { addr: right_addr, image: right, filled: false }];
        let rest = if is_root {
            let left_addr = cursor.spares[1].addr();
            self.stamp_image(&left, stamp.inherited());
            new.push(NewPage { addr: left_addr, image: left, filled: false });
            self.root_over(level + 1, left_addr, &split.separator, right_addr).map_err(broken)?
        } else {
            left
        };
        self.stamp_image(&rest, stamp.changed());
        let mut prepared = Prepared(new);
        prepared.inherit(cursor.prepared.take());
        if let Err(stop) = self.fill(&mut prepared) {
            cursor.prepared = Some(prepared);
            return Err(stop);
        }

        guard.words().copy_from(rest.words());
        guard.mark_dirty(0..rest.words().len());
        drop(guard);
        if level == 0 && self.config.stamped {
            let left_addr = if is_root { cursor.spares[1].addr() } else { addr };
            let left_stamp = if is_root { stamp.inherited() } else { stamp.changed() };
            cursor.split = Some(Split {
                before: Leaf { addr, stamp },
                halves: [
                    Leaf { addr: left_addr, stamp: left_stamp },
                    Leaf { addr: right_addr, stamp: stamp.inherited() },
                ],
            });
        }
        cursor.spares.drain(..wanted).for_each(|spare| spare.keep());
        if is_root {
            self.restart(cursor)?;
            return Ok(Progress::Split(None));
        }
        if cursor.key >= split.separator.as_slice() {
            cursor.at.turn(right_addr, Some(level));
        }
        let post = Post { level: level + 1, separator: split.separator, child: right_addr };
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

    /// A line's payload to fill: the page, in a stamped tree behind the stamp.
    pub(super) fn image(&self) -> Image {
        Image::new(self.memory.payload_len())
    }

    /// Where an image holds its page.
    pub(super) fn image_page<'i>(&self, image: &'i Image) -> Words<'i> {
        image.words().skip(self.page_at - LINE_HEADER / WORD)
    }

    /// Gives an image its stamp, if the tree has any.
    pub(super) fn stamp_image(&self, image: &Image, stamp: Stamp) {
        if self.config.stamped {
            stamp.store(image.words());
        }
    }
}
