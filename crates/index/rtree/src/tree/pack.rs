//! The order in which a bulk load fills pages.
//!
//! Sort-tile-recursive packing follows Leutenegger and others, "STR: a simple and efficient
//! algorithm for R-tree packing".

use std::ops::Range;

use super::hilbert::Curve;
use crate::page::{Order, ordered};
use crate::{Packing, Rect};

/// Items in runs, one for each page: neighbours in space are neighbours in runs.
///
/// Slabs are sorted when their first run is asked for. So the items of a run are in the
/// processor's cache when the caller writes its page.
pub(super) struct Runs<'a, T, F, const D: usize> {
    items: &'a [T],
    rect: F,
    /// The most items of a run.
    max: usize,
    order: Order,
    /// Slabs that are not sorted yet, and the next axis of each. The next slab is the last one.
    slabs: Vec<(Range<usize>, usize)>,
    /// Runs of the last sorted slab. The next run is the last one.
    runs: Vec<Range<usize>>,
}

impl<'a, T, F: Fn(&T) -> Rect<D>, const D: usize> Runs<'a, T, F, D> {
    /// Cuts `items` into runs of at most `max`.
    pub(super) fn new(packing: Packing, items: &'a [T], max: usize, rect: F) -> Self {
        let (all, order) = (0..items.len(), Order::of(items.len()));
        let (slabs, runs) = (Vec::new(), Vec::new());
        let mut new = Runs { items, rect, max, order, slabs, runs };
        match packing {
            Packing::SortTileRecursive => new.slabs.push((all, 0)),
            Packing::Hilbert => {
                let curve = Curve::over(items.iter().map(&new.rect));
                new.order.sort(all.clone(), |number| curve.place(&(new.rect)(&items[number])));
                new.cut(all);
            }
        }
        new
    }

    /// Puts the next run into `run`. `false`: there is none.
    pub(super) fn next(&mut self, run: &mut Vec<&'a T>) -> bool {
        loop {
            if let Some(range) = self.runs.pop() {
                run.clear();
                run.extend(self.order.numbers(range).map(|number| &self.items[number]));
                return true;
            }
            let Some((slab, axis)) = self.slabs.pop() else { return false };
            self.tile(slab, axis);
        }
    }

    /// Tiles one slab.
    ///
    /// With `n` pages and `d` axes left, the items are sorted along the next axis and cut into
    /// slabs of `n` to the power of `(d - 1) / d` pages. Each slab is tiled along the axes that are
    /// left. A page never has items of two slabs: its box would be as long as both.
    fn tile(&mut self, slab: Range<usize>, axis: usize) {
        let (items, rect) = (self.items, &self.rect);
        self.order.sort(slab.clone(), |number| ordered(rect(&items[number]).middle(axis)));
        let left = D - axis;
        let pages = slab.len().div_ceil(self.max);
        if left <= 1 || pages <= 1 {
            return self.cut(slab);
        }
        let per_slab = (pages as f64).powf((left - 1) as f64 / left as f64).ceil().max(1.0);
        let step = per_slab as usize * self.max;
        let begins = slab.clone().step_by(step).rev();
        self.slabs.extend(begins.map(|at| (at..slab.end.min(at + step), axis + 1)));
    }

    /// Cuts a slab into runs of nearly the same length.
    fn cut(&mut self, slab: Range<usize>) {
        let pages = slab.len().div_ceil(self.max);
        let end = |page: usize| slab.start + slab.len() * page / pages.max(1);
        self.runs.extend((0..pages).rev().map(|page| end(page)..end(page + 1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_each_item_once_and_are_nearly_full() {
        for (packing, count) in [(Packing::SortTileRecursive, 1000), (Packing::Hilbert, 999)] {
            let point = |number: usize| [number * 7 % 101, number * 13 % 89, number % 3];
            let items: Vec<[usize; 3]> = (0..count).map(point).collect();
            let rect = |item: &[usize; 3]| Rect::point(item.map(|at| at as f64)).expect("a point");
            let mut runs = Runs::new(packing, &items, 10, rect);
            let (mut run, mut seen, mut pages) = (Vec::new(), Vec::new(), 0);
            while runs.next(&mut run) {
                assert!((1..=10).contains(&run.len()));
                pages += 1;
                seen.extend(run.iter().map(|item| std::ptr::from_ref(*item)));
            }
            seen.sort_unstable();
            assert!(seen.iter().copied().eq(items.iter().map(std::ptr::from_ref)));
            assert!(pages <= 130, "{packing:?}: {pages} pages");
        }
    }
}
