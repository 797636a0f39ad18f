//! Bulk loading: a full tree from all its entries.

use std::ops::ControlFlow;

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::pack::Runs;
use super::spares::Listed;
use super::split::FIRST;
use crate::page::{Image, LEVEL_MAX, Link, Page};
use crate::{NewEntry, Packing, RTreeError, Rect};

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// Fills an empty tree. Neighbours in space become neighbours in pages, and all pages but the
    /// last ones are full. The tree appears at once, when all its pages are written.
    ///
    /// # Errors
    /// [`RTreeError::NotEmpty`], [`RTreeError::NotFinite`], [`RTreeError::PayloadLength`], and when
    /// memory fails or is full. After an error the tree is empty, or it is as another writer left
    /// it.
    pub async fn bulk_load(&self, entries: Vec<NewEntry<D>>) -> Result<(), RTreeError> {
        self.bulk_load_by(entries, Packing::default()).await
    }

    /// Like [`bulk_load`](RTree::bulk_load), with the order in which entries fill pages.
    ///
    /// # Errors
    /// As [`bulk_load`](RTree::bulk_load).
    pub async fn bulk_load_by(
        &self,
        entries: Vec<NewEntry<D>>,
        packing: Packing,
    ) -> Result<(), RTreeError> {
        for entry in &entries {
            self.check_entry(&entry.rect, &entry.payload)?;
        }
        let operation = self.memory.enter().await?;
        let image = Image::new(&self.layout, 0, &Rect::<D>::EVERYTHING);
        let (mut lines, mut children) = (Vec::new(), Vec::new());
        let mut runs = Runs::new(packing, &entries, self.max(0), |entry| entry.rect);
        let (mut run, is_root) = (Vec::new(), entries.len() <= self.max(0));
        while runs.next(&mut run) {
            let cover = cover(run.iter().map(|entry| entry.rect));
            let write = |page: &Page<'_, D>| {
                page.format(0, &cover);
                page.extend(run.iter().map(|entry| (entry.rect, entry.id)));
                run.iter().enumerate().for_each(|(at, entry)| page.set_payload(at, &entry.payload));
            };
            if is_root {
                write(&image.page(&self.layout));
            } else {
                children.push((cover, self.place(write, &mut lines).await?));
            }
        }
        let mut level = 0;
        while !children.is_empty() {
            level += 1;
            if level > LEVEL_MAX {
                return Err(self.corrupt(self.root, "more levels than any tree has"));
            }
            let max = self.max(level);
            let mut runs = Runs::new(packing, &children, max, |child| child.0);
            let (mut run, is_root) = (Vec::new(), children.len() <= max);
            let mut above = Vec::new();
            while runs.next(&mut run) {
                let cover = cover(run.iter().map(|child| child.0));
                let write = |page: &Page<'_, D>| {
                    page.format(level, &cover);
                    page.extend(run.iter().map(|child| (child.0, child.1.bits())));
                    (0..run.len()).for_each(|slot| page.set_link(slot, Link::new(FIRST)));
                };
                if is_root {
                    write(&image.page(&self.layout));
                } else {
                    above.push((cover, self.place(write, &mut lines).await?));
                }
            }
            children = above;
        }
        let root: Page<'_, D> = image.page(&self.layout);
        root.set_cover(&Rect::EVERYTHING);
        // D1.
        for line in &lines {
            self.memory.persist(line.addr()).await?;
        }
        let loaded = self.change(self.root, |page| {
            if page.count() > 0 || page.level() > 0 {
                return ControlFlow::Break(());
            }
            let (changes, moves) = (page.changes(), page.moves());
            page.replace(image.words());
            page.set_moves(moves);
            page.set_changes(changes);
            ControlFlow::Continue(())
        });
        if loaded.await?.is_break() {
            return Err(RTreeError::NotEmpty);
        }
        lines.into_iter().for_each(Listed::done);
        drop(operation);
        Ok(())
    }

    /// Writes a page into a new line, which joins `lines`.
    async fn place(
        &self,
        write: impl Fn(&Page<'_, D>),
        lines: &mut Vec<Listed>,
    ) -> Result<GlobalAddr, RTreeError> {
        let line = self.spare().await?;
        let addr = line.addr();
        self.fill(addr, write).await?;
        lines.push(line);
        if lines.len().is_multiple_of(TURN) {
            self.memory.handle().coop().await;
        }
        Ok(addr)
    }
}

/// The pages that a load writes before it lets other tasks have a turn.
const TURN: usize = 32;

fn cover<const D: usize>(rects: impl Iterator<Item = Rect<D>>) -> Rect<D> {
    rects.fold(Rect::NOTHING, |so_far, rect| so_far.union(&rect))
}
