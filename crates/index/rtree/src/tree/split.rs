//! The split of a full page.

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::frame::Frame;
use crate::page::{Half, Image, LEVEL_MAX, Link, Page, plan};
use crate::{RTreeError, Rect};

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Splits a page if it is full: without room for `room` more entries. `path` leads to its
    /// parent. If the page changes meanwhile, the call does nothing.
    pub(super) async fn split(
        &self,
        path: &[Frame<'_>],
        addr: GlobalAddr,
        room: usize,
    ) -> Result<(), RTreeError> {
        let old = self.snapshot(addr).await?;
        let is_root = addr == self.root;
        let page: Page<'_, D> = old.page(&self.layout);
        let (level, changes) = (page.level(), page.changes());
        if page.is_dead() || page.count() < self.max(level) && page.has_room(room) {
            return Ok(());
        }
        if level >= LEVEL_MAX {
            return Err(self.corrupt(addr, "more levels than any tree has"));
        }
        let Some(halves) = page.keep_records(plan(page.boxes())) else { return Ok(()) };
        let right = self.spare().await?;
        let left = if is_root { Some(self.spare().await?) } else { None };
        let [left_image, right_image] = halves.each_ref().map(|half| self.half(&page, half));
        // The root has no siblings, and its halves are posted.
        if !is_root {
            let new: Page<'_, D> = right_image.page(&self.layout);
            new.set_right(page.right());
            new.set_numbers(page.sequence(), 0);
        }
        self.fill(right.addr(), |page| page.replace(right_image.words())).await?;
        self.memory.persist(right.addr()).await?;
        let rest = match &left {
            Some(left) => {
                self.fill(left.addr(), |page| page.replace(left_image.words())).await?;
                self.memory.persist(left.addr()).await?;
                let root = self.root_over(level + 1, &halves, [left.addr(), right.addr()]);
                root.page::<D>(&self.layout).set_moves(page.moves());
                root
            }
            None => {
                let rest: Page<'_, D> = left_image.page(&self.layout);
                let one = u32::from(self.config.rules.splits_count);
                rest.set_numbers(page.sequence().wrapping_add(one), page.shrinks());
                rest.set_right(right.addr());
                left_image
            }
        };
        let cut = self.change(addr, |page| {
            if page.changes() != changes {
                return ControlFlow::Break(());
            }
            page.replace(rest.words());
            page.set_changes(changes);
            ControlFlow::Continue(())
        });
        if cut.await?.is_break() {
            return Ok(());
        }
        right.done();
        if let Some(left) = left {
            left.done();
            return Ok(());
        }
        if level == 0 {
            for image in [&rest, &right_image] {
                self.note_left(&image.page(&self.layout));
            }
        }
        Box::pin(self.post(path, addr)).await
    }

    /// A new page with some entries of `old`.
    fn half(&self, old: &Page<'_, D>, half: &Half<D>) -> Image {
        let image = Image::new(&self.layout, old.level(), &half.cover);
        let page = image.page(&self.layout);
        half.slots.iter().for_each(|&slot| page.push_copy(old, slot));
        image
    }

    /// A root with two children.
    fn root_over(&self, level: u8, halves: &[Half<D>; 2], children: [GlobalAddr; 2]) -> Image {
        let image = Image::new(&self.layout, level, &Rect::<D>::EVERYTHING);
        let page = image.page(&self.layout);
        for (half, child) in halves.iter().zip(children) {
            page.push_child(&half.cover, child, Link::new(FIRST));
        }
        image
    }
}

/// The sequence number of a new page that is posted from the beginning.
pub(super) const FIRST: u32 = 1;
