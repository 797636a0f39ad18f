//! The entries nearest to a point: depth first, the nearest child first (Roussopoulos and others).
//!
//! A *probe* goes straight down to one leaf at the point, whose entries give a bound that is nearly
//! always close. So the search itself looks for boxes in the window around the bound, which is as
//! fast as any query, and computes distances only for the few that are there. A queue of all
//! children by distance (Hjaltason and Samet) would read a few pages less, but compute and order
//! hundreds of distances of children that are never visited.
//!
//! The tree may change between probe and search. If the search does not find as many entries within
//! the bound as it should, it begins again without one.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use latchwork_cache::Hint;
use latchwork_coherence::{AccessMode, CoherentMemory, Need};
use latchwork_verbs::GlobalAddr;

use super::RTree;
use super::drive::READS_MAX;
use super::moves::{Answer, Whole};
use super::seen::Seen;
use super::stop::Stop;
use crate::page::{Page, Record, Relation, Role};
use crate::{Neighbour, RTreeError, Rect};

/// The pages that are prefetched, of those that a page leads to.
const AHEAD: usize = 4;

/// A page that may have near entries.
#[derive(Clone, Copy)]
struct Candidate<'m> {
    distance: f64,
    addr: GlobalAddr,
    /// The sequence number that the parent expects; `None` for the root.
    expects: Option<u32>,
    hint: &'m Hint,
}

/// An entry of the page that was read last.
struct Near<const D: usize> {
    distance: f64,
    rect: Rect<D>,
    id: u64,
    payload: Vec<u8>,
    /// The entry moves, or has moved lately.
    record: Option<Record>,
}

/// One of the best entries so far. The farthest is the greatest.
struct Best<const D: usize>(Neighbour<D>);

impl<const D: usize> PartialEq for Best<D> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<const D: usize> Eq for Best<D> {}

impl<const D: usize> PartialOrd for Best<D> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<const D: usize> Ord for Best<D> {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_distance = self.0.distance_squared.total_cmp(&other.0.distance_squared);
        by_distance.then_with(|| self.0.id.cmp(&other.0.id))
    }
}

struct Search<'m, const D: usize> {
    point: [f64; D],
    count: usize,
    /// The square of a distance beyond which nothing matters.
    limit: f64,
    best: BinaryHeap<Best<D>>,
    /// The pages to visit: those of each page on the path are together.
    todo: Vec<Candidate<'m>>,
    /// The first page to visit of each page on the path.
    begins: Vec<usize>,
    /// The entries of the page that was read last.
    near: Vec<Near<D>>,
    /// The ids of the entries that were near enough when the search came to them.
    seen: Seen<u64>,
}

impl<'m, const D: usize> Search<'m, D> {
    fn new(point: [f64; D], count: usize, limit: f64) -> Search<'m, D> {
        let room = count.min(32);
        let (best, near) = (BinaryHeap::with_capacity(room), Vec::with_capacity(room));
        let (todo, begins) = (Vec::with_capacity(16), Vec::with_capacity(8));
        Search { point, count, limit, best, todo, begins, near, seen: Seen::default() }
    }

    fn farthest(&self) -> Option<f64> {
        let farthest = self.best.peek().filter(|_| self.best.len() == self.count);
        farthest.map(|farthest| farthest.0.distance_squared)
    }

    /// The square of the distance beyond which nothing matters now.
    fn bound(&self) -> f64 {
        self.farthest().map_or(self.limit, |farthest| farthest.min(self.limit))
    }

    /// Whether the search may have missed entries beyond its limit.
    fn is_cut_short(&self) -> bool {
        self.limit.is_finite() && self.farthest().is_none_or(|farthest| farthest > self.limit)
    }

    /// A box that meets every box whose squared distance is computed as at most `bound`.
    ///
    /// The relative error of the root of the square of a number is below two units in the last
    /// place. A square below the smallest normal number has any error, and its root is below the
    /// number that is added.
    fn window(&self, bound: f64) -> Rect<D> {
        let reach = bound.sqrt() * (1.0 + 4.0 * f64::EPSILON) + 1.5e-154;
        if reach == f64::INFINITY {
            // An infinite point less an infinite reach is not a number.
            return Rect::EVERYTHING;
        }
        Rect::from_parts(self.point.map(|at| at - reach), self.point.map(|at| at + reach))
    }

    /// Takes the nearest page to visit. Pages that are too far are forgotten.
    fn next(&mut self) -> Option<Candidate<'m>> {
        let bound = self.bound();
        while let Some(&begin) = self.begins.last() {
            let mut nearest: Option<(f64, usize)> = None;
            for (at, candidate) in self.todo.iter().enumerate().skip(begin) {
                let least = nearest.map_or(bound, |(least, _)| least);
                // A page at the bound itself may have an entry with a smaller id.
                if candidate.distance < least || nearest.is_none() && candidate.distance == bound {
                    nearest = Some((candidate.distance, at));
                }
            }
            match nearest {
                Some((_, at)) => return Some(self.todo.swap_remove(at)),
                None => {
                    self.todo.truncate(begin);
                    self.begins.pop();
                }
            }
        }
        None
    }

    /// Adds the entries of the page that was read last.
    fn take_near(&mut self) {
        for near in self.near.drain(..) {
            let Near { distance: distance_squared, rect, id, payload, record } = near;
            if record.is_none() && self.seen.was_elsewhere(&id) {
                continue;
            }
            self.seen.add(id);
            let next = Best(Neighbour { distance_squared, rect, id, payload });
            if self.best.len() < self.count {
                self.best.push(next);
            } else if let Some(mut farthest) = self.best.peek_mut()
                && next < *farthest
            {
                *farthest = next;
            }
        }
    }
}

impl<M: CoherentMemory, const D: usize> RTree<M, D> {
    /// The `count` entries nearest to `point`, or all if there are fewer, the nearest first.
    /// Distances are those between the point and the boxes. Entries at the same distance are in
    /// the order of their ids.
    ///
    /// # Errors
    /// [`RTreeError::NotANumber`], [`RTreeError::Corrupt`], and when memory fails.
    pub async fn nearest(
        &self,
        point: [f64; D],
        count: usize,
    ) -> Result<Vec<Neighbour<D>>, RTreeError> {
        Rect::point(point)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        let operation = match self.memory.try_enter() {
            Some(operation) => operation,
            None => self.memory.enter().await?,
        };
        let best = self.nearest_within(point, count, self.probe(&point, count)).await?;
        drop(operation);
        self.memory.handle().coop().await;
        Ok(best.into_sorted_vec().into_iter().map(|best| best.0).collect())
    }

    /// The nearest entries. A `limit` that is too small costs a second search.
    async fn nearest_within(
        &self,
        point: [f64; D],
        count: usize,
        limit: f64,
    ) -> Result<BinaryHeap<Best<D>>, RTreeError> {
        let mut search = Search::new(point, count, limit);
        self.search_near(&mut search).await?;
        if search.is_cut_short() {
            search = Search::new(point, count, f64::INFINITY);
            self.search_near(&mut search).await?;
        }
        Ok(search.best)
    }

    async fn search_near<'m>(&'m self, search: &mut Search<'m, D>) -> Result<(), RTreeError> {
        let hint = &self.hints.root;
        search.todo.push(Candidate { distance: 0.0, addr: self.root, expects: None, hint });
        search.begins.push(0);
        let mut _ticket = None;
        while let Some(next) = search.next() {
            loop {
                match self.visit_near(search, next) {
                    Ok(()) => break,
                    Err(Stop::Broken(page, broken)) => return Err(self.corrupt(page, broken.0)),
                    Err(Stop::Need(need)) => {
                        drop(_ticket.take());
                        _ticket = Some(self.memory.ensure(need).await?);
                    }
                }
            }
            if search.near.iter().any(|near| near.record.is_some()) {
                drop(_ticket.take());
                self.answer_near(next.addr, search).await?;
            }
            search.take_near();
        }
        Ok(())
    }

    /// Decides about the entries of the page that was read last which move or have moved lately.
    async fn answer_near(
        &self,
        page: GlobalAddr,
        search: &mut Search<'_, D>,
    ) -> Result<(), RTreeError> {
        for mut near in std::mem::take(&mut search.near) {
            if let Some(record) = near.record {
                match self.answer(page, &record).await? {
                    Answer::Counts => {}
                    Answer::Nothing => continue,
                    Answer::Elsewhere(Whole { rect, id, mut payload }) => {
                        payload.truncate(self.config.payload_len);
                        let distance = rect.distance_squared(&search.point);
                        near = Near { distance, rect, id, payload, record: Some(record) };
                    }
                }
                if !search.seen.is_new(near.id) {
                    continue;
                }
                if record.role == Role::Departed {
                    search.seen.add_elsewhere(near.id);
                }
            }
            search.near.push(near);
        }
        Ok(())
    }

    /// Reads a page: its near children or entries join the search.
    fn visit_near<'m>(
        &'m self,
        search: &mut Search<'m, D>,
        next: Candidate<'m>,
    ) -> Result<(), Stop> {
        let (begin, bound) = (search.todo.len(), search.bound());
        for _ in 0..READS_MAX {
            let seen = self.memory.try_read_at(next.addr, next.hint).map_err(Stop::Need)?;
            let opened = Page::<D>::open(seen.words(), &self.layout);
            let mut right = None;
            if let Ok(page) = &opened {
                let is_split = next.expects.is_some_and(|expects| expects != page.sequence());
                right = is_split.then(|| page.right());
                if next.expects.is_none() {
                    search.seen.begin(page.moves() > 0);
                }
                if page.level() == 0 {
                    self.near_entries(page, bound, search);
                } else {
                    let (hints, boxes) = (self.memory.hints(&seen), page.boxes());
                    boxes.select(Relation::Intersects, &search.window(bound), |slot| {
                        let distance = boxes.rect(slot).distance_squared(&search.point);
                        if distance <= bound {
                            let hint = hints.get(slot).unwrap_or(&self.hints.other);
                            let addr = GlobalAddr::from_bits(boxes.id(slot));
                            let expects = Some(boxes.link(slot).expects);
                            search.todo.push(Candidate { distance, addr, expects, hint });
                        }
                    });
                }
            }
            if seen.validate() {
                if let Some(addr) = right {
                    search.todo.push(Candidate { addr, hint: &self.hints.other, ..next });
                }
                if search.todo.len() > begin {
                    search.begins.push(begin);
                }
                for later in search.todo.iter().skip(begin).take(AHEAD) {
                    self.memory.prefetch(later.hint, 0..self.layout.ids_end());
                }
                return opened.map(drop).map_err(|broken| Stop::Broken(next.addr, broken));
            }
            search.todo.truncate(begin);
            search.near.clear();
        }
        Err(Stop::Need(Need { addr: next.addr, mode: AccessMode::Shared }))
    }

    /// Collects the entries of a leaf that are not farther than `bound`.
    fn near_entries(&self, page: &Page<'_, D>, bound: f64, search: &mut Search<'_, D>) {
        let (boxes, mut bound) = (page.boxes(), bound);
        let has_records = page.record_count() > 0;
        boxes.select(Relation::Intersects, &search.window(bound), |slot| {
            let rect = boxes.rect(slot);
            let distance = rect.distance_squared(&search.point);
            if distance > bound {
                return;
            }
            let record = if has_records { page.record_of(slot) } else { None };
            if search.count == 1 && record.is_none() {
                bound = distance;
            }
            let mut payload = Vec::new();
            page.append_payload(slot, &mut payload);
            payload.truncate(self.config.payload_len);
            search.near.push(Near { distance, rect, id: boxes.id(slot), payload, record });
        });
    }
}

#[cfg(test)]
mod tests {
    use latchwork_coherence::testing::{LocalNode, Settings, executor};

    use super::*;
    use crate::RTreeConfig;

    #[test]
    fn a_limit_that_is_not_true_any_more_loses_no_entry() {
        let mut executor = executor(1);
        let memory = LocalNode::new(Settings::CALM).worker(executor.handle());
        executor.block_on(async move {
            let tree = RTree::<_, 2>::create(memory, RTreeConfig::DEFAULT).await.expect("room");
            for id in 1..=9_u32 {
                let rect = Rect::point([f64::from(id), 0.0]).expect("a box");
                tree.insert(&rect, u64::from(id), &[]).await.expect("room");
            }
            for limit in [0.0, 1.0, 4.0, 81.0, f64::INFINITY] {
                for (count, last) in [(1, 1), (2, 2), (9, 9), (10, 9)] {
                    let near = tree.nearest_within([0.0; 2], count, limit).await.expect("found");
                    let ids: Vec<u64> =
                        near.into_sorted_vec().iter().map(|best| best.0.id).collect();
                    assert_eq!(ids, (1..=last).collect::<Vec<u64>>(), "{count} within {limit}");
                }
            }
        });
    }

    #[test]
    fn the_window_meets_every_box_within_the_bound_whatever_is_rounded() {
        let gaps = [0.0, 5e-324, 1e-200, 1e-162, 1e-154, 1e-8, 0.1, 1.0, 1e16, 1e150, 1e300];
        for at in [0.0, 1.0, -0.3, 1e9, -1e300] {
            let search = Search::new([at], 1, f64::INFINITY);
            for gap in gaps {
                for low in [at + gap, (at + gap).next_up(), (at + gap).next_down()] {
                    let rect = Rect::from_parts([low], [low]);
                    let window = search.window(rect.distance_squared(&[at]));
                    assert!(window.intersects(&rect), "{gap} from {at}");
                }
            }
        }
    }
}
