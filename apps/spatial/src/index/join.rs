//! The pairs of near entries of two trees, in any space.
//!
//! Both trees are descended together. Each worker descends from the roots in the same way until
//! there are several pairs of pages for each worker, and then takes its share of these pairs. So
//! workers need not talk to each other. This needs trees that do not change meanwhile.

use latchwork_rtree::{NewEntry, PageLink, RTreeError, TreeWalk, WalkedPage};

use super::{Contents, Index};
use crate::geometry::{Area, Space};

/// Pairs of pages for each worker, so that the shares are about equal.
const PAIRS_OF_WORKER: usize = 16;

/// A pair of a join: an entry of each tree, and their distance.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Pair {
    pub(crate) left: u64,
    pub(crate) right: u64,
    pub(crate) distance: f64,
}

/// A worker's part of a join.
pub(crate) struct Pairs<'t> {
    pub(crate) space: Space,
    /// The greatest distance of a pair.
    pub(crate) within: f64,
    pub(crate) left: &'t Index,
    pub(crate) right: &'t Index,
    /// The worker, and the number of workers.
    pub(crate) share: (usize, usize),
}

/// A page of each tree with the box of each.
type Step<'t> = [(Area, PageLink<'t>); 2];

type Walks<'t> = [TreeWalk<'t, latchwork_cluster::Worker, 2>; 2];

impl<'t> Pairs<'t> {
    /// Visits the pairs of this worker until `visit` returns false.
    pub(crate) async fn visit(
        &self,
        mut visit: impl FnMut(Pair) -> bool,
    ) -> Result<Contents, RTreeError> {
        let walks = [self.left.walk().await?, self.right.walk().await?];
        let mut contents = Contents::default();
        let mut todo = self.share_of_work(&walks).await?;
        while let Some(step) = todo.pop() {
            match self.read(&walks, step).await? {
                Below::Steps(steps) => todo.extend(steps),
                Below::Leaves(left, right) => {
                    for entry in left.iter().chain(&right) {
                        contents.check(&entry.rect, entry.id, &entry.payload);
                    }
                    for (one, two) in self.near(&left, &right) {
                        let distance = self.space.distance(&one.rect, &two.rect);
                        let pair = Pair { left: one.id, right: two.id, distance };
                        if distance <= self.within && !visit(pair) {
                            return Ok(contents);
                        }
                    }
                }
            }
        }
        Ok(contents)
    }

    /// The pairs of pages at which this worker begins.
    async fn share_of_work(&self, walks: &Walks<'t>) -> Result<Vec<Step<'t>>, RTreeError> {
        let (worker, workers) = self.share;
        let everywhere = Area::EVERYTHING;
        let mut all: Vec<Step<'t>> =
            vec![[(everywhere, walks[0].root()), (everywhere, walks[1].root())]];
        while all.len() < PAIRS_OF_WORKER * workers {
            let mut below = Vec::new();
            let mut is_deeper = false;
            for step in all {
                match self.read(walks, step).await? {
                    Below::Steps(steps) => {
                        is_deeper = true;
                        below.extend(steps);
                    }
                    Below::Leaves(..) => below.push(step),
                }
            }
            all = below;
            if !is_deeper {
                break;
            }
        }
        Ok(all.into_iter().skip(worker).step_by(workers).collect())
    }

    /// What is below a pair of pages, as far as it is near enough.
    async fn read(&self, walks: &Walks<'t>, step: Step<'t>) -> Result<Below<'t>, RTreeError> {
        let [(left_area, left), (right_area, right)] = step;
        let pages = (walks[0].read(left).await?, walks[1].read(right).await?);
        let is_near = |a: &Area, b: &Area| self.space.bound(a, b) <= self.within;
        Ok(match pages {
            (WalkedPage::Leaf(left), WalkedPage::Leaf(right)) => Below::Leaves(left, right),
            (
                WalkedPage::Inner { children: left, .. },
                WalkedPage::Inner { children: right, .. },
            ) => {
                let cover = Below::cover(right.iter().map(|(area, _)| area), right_area);
                let left = left.into_iter().filter(|(area, _)| is_near(area, &cover));
                let pairs = left.flat_map(|one| right.iter().map(move |two| [one, *two]));
                Below::Steps(pairs.filter(|[one, two]| is_near(&one.0, &two.0)).collect())
            }
            // The trees have different heights.
            (WalkedPage::Inner { children, .. }, WalkedPage::Leaf(entries)) => {
                let cover = Below::cover(entries.iter().map(|entry| &entry.rect), right_area);
                let near = children.into_iter().filter(|(area, _)| is_near(area, &cover));
                Below::Steps(near.map(|child| [child, (cover, right)]).collect())
            }
            (WalkedPage::Leaf(entries), WalkedPage::Inner { children, .. }) => {
                let cover = Below::cover(entries.iter().map(|entry| &entry.rect), left_area);
                let near = children.into_iter().filter(|(area, _)| is_near(&cover, area));
                Below::Steps(near.map(|child| [(cover, left), child]).collect())
            }
        })
    }

    /// The pairs of entries of two leaves, without many that are too far.
    fn near<'e>(
        &self,
        left: &'e [NewEntry<2>],
        right: &'e [NewEntry<2>],
    ) -> impl Iterator<Item = (&'e NewEntry<2>, &'e NewEntry<2>)> {
        let (space, within) = (self.space, self.within);
        let cover = Below::cover(right.iter().map(|entry| &entry.rect), Area::EVERYTHING);
        let left = left.iter().filter(move |entry| space.bound(&entry.rect, &cover) <= within);
        left.flat_map(move |one| right.iter().map(move |two| (one, two)))
    }
}

/// What is below a pair of pages.
enum Below<'t> {
    Steps(Vec<Step<'t>>),
    Leaves(Vec<NewEntry<2>>, Vec<NewEntry<2>>),
}

impl Below<'_> {
    /// The box around all boxes, or `otherwise` without any.
    fn cover<'a>(areas: impl Iterator<Item = &'a Area>, otherwise: Area) -> Area {
        areas.copied().reduce(|a, b| a.union(&b)).unwrap_or(otherwise)
    }
}
