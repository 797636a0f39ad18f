//! Bulk loading: a full tree from all its entries.
//!
//! Sort-tile-recursive packing follows Leutenegger and others, "STR: a simple and efficient
//! algorithm for R-tree packing".

use std::ops::{ControlFlow, Range};

use latchwork_coherence::CoherentMemory;
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::hilbert::Curve;
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
        mut entries: Vec<NewEntry<D>>,
        packing: Packing,
    ) -> Result<(), RTreeError> {
        for entry in &entries {
            self.check_entry(&entry.rect, &entry.payload)?;
        }
        let operation = self.memory.enter().await?;
        let (mut lines, mut children) = (Vec::new(), Vec::new());
        let mut level = 0;
        let mut image = Image::new(&self.layout, 0, &Rect::<D>::EVERYTHING);
        let runs = pack(packing, &mut entries, self.max(0), &|entry| entry.rect);
        let is_root = runs.len() <= 1;
        for run in runs.into_iter().map(|run| &entries[run]) {
            image = self.leaf(run);
            let addr = if is_root { None } else { Some(self.place(&image, &mut lines).await?) };
            children.extend(addr.map(|addr| (cover(run, |entry| entry.rect), addr)));
        }
        while !children.is_empty() {
            level += 1;
            if level > LEVEL_MAX {
                return Err(self.corrupt(self.root, "more levels than any tree has"));
            }
            let runs = pack(packing, &mut children, self.max(level), &|child| child.0);
            let is_root = runs.len() == 1;
            let mut above = Vec::new();
            for run in runs.into_iter().map(|run| &children[run]) {
                let cover = cover(run, |child| child.0);
                image = self.inner(level, &cover, run);
                let addr = if is_root { None } else { Some(self.place(&image, &mut lines).await?) };
                above.extend(addr.map(|addr| (cover, addr)));
            }
            children = above;
        }
        let root: Page<'_, D> = image.page(&self.layout);
        root.set_cover(&Rect::EVERYTHING);
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
        image: &Image,
        lines: &mut Vec<Listed>,
    ) -> Result<GlobalAddr, RTreeError> {
        let line = self.spare().await?;
        self.fill(line.addr(), image).await?;
        let addr = line.addr();
        lines.push(line);
        self.memory.handle().coop().await;
        Ok(addr)
    }

    fn leaf(&self, entries: &[NewEntry<D>]) -> Image {
        let image = Image::new(&self.layout, 0, &cover(entries, |entry| entry.rect));
        let page: Page<'_, D> = image.page(&self.layout);
        for NewEntry { rect, id, payload } in entries {
            page.push_entry(rect, *id, payload);
        }
        image
    }

    fn inner(&self, level: u8, cover: &Rect<D>, children: &[(Rect<D>, GlobalAddr)]) -> Image {
        let image = Image::new(&self.layout, level, cover);
        let page: Page<'_, D> = image.page(&self.layout);
        for (rect, child) in children {
            page.push_child(rect, *child, Link::new(FIRST));
        }
        image
    }
}

fn cover<T, const D: usize>(run: &[T], rect: impl Fn(&T) -> Rect<D>) -> Rect<D> {
    run.iter().fold(Rect::NOTHING, |so_far, one| so_far.union(&rect(one)))
}

/// Orders items so that neighbours in space are neighbours, and cuts them into runs of at most
/// `max` items: one for each page.
fn pack<T, const D: usize>(
    packing: Packing,
    items: &mut [T],
    max: usize,
    rect: &impl Fn(&T) -> Rect<D>,
) -> Vec<Range<usize>> {
    let mut runs = Vec::new();
    match packing {
        Packing::SortTileRecursive => tile_slab(items, 0, (0, max), rect, &mut runs),
        Packing::Hilbert => {
            let curve = Curve::over(items.iter().map(rect));
            items.sort_by_cached_key(|item| curve.place(&rect(item)));
            cut(0, items.len(), max, &mut runs);
        }
    }
    runs
}

/// Cuts `count` items from number `at` on into runs of nearly the same length, at most `max`.
fn cut(at: usize, count: usize, max: usize, runs: &mut Vec<Range<usize>>) {
    let pages = count.div_ceil(max);
    let end = |page: usize| at + count * page / pages.max(1);
    runs.extend((0..pages).map(|page| end(page)..end(page + 1)));
}

/// Tiles the items of one slab, which begin at number `at.0`.
///
/// With `n` pages and `d` axes left, the items are sorted along the next axis and cut into slabs of
/// `n` to the power of `(d - 1) / d` pages. Each slab is tiled along the axes that are left. A page
/// never has items of two slabs: its box would be as long as both.
fn tile_slab<T, const D: usize>(
    items: &mut [T],
    axis: usize,
    (at, max): (usize, usize),
    rect: &impl Fn(&T) -> Rect<D>,
    runs: &mut Vec<Range<usize>>,
) {
    items.sort_by(|a, b| rect(a).middle(axis).total_cmp(&rect(b).middle(axis)));
    let (count, left) = (items.len(), D - axis);
    let pages = count.div_ceil(max);
    if left <= 1 || pages <= 1 {
        cut(at, count, max, runs);
        return;
    }
    let per_slab = (pages as f64).powf((left - 1) as f64 / left as f64).ceil().max(1.0) as usize;
    let mut begin = at;
    for slab in items.chunks_mut(per_slab * max) {
        tile_slab(slab, axis + 1, (begin, max), rect, runs);
        begin += slab.len();
    }
}
