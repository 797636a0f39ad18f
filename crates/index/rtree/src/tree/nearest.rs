//! The entries nearest to a point: depth first, the nearest child first (Roussopoulos and others).
//!
//! The first leaf gives a bound that is nearly always close, so one look at the other children of
//! each page on the path excludes most of them. A queue of all of them by distance (Hjaltason and
//! Samet) would read a few pages less, but order hundreds of children that are never visited.

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
use crate::page::{Page, Record, Role};
use crate::{Neighbour, RTreeError, Rect};

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
    /// The distance beyond which nothing matters.
    fn bound(&self) -> f64 {
        let farthest = self.best.peek().filter(|_| self.best.len() == self.count);
        farthest.map_or(f64::INFINITY, |farthest| farthest.0.distance_squared)
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
        let root =
            Candidate { distance: 0.0, addr: self.root, expects: None, hint: &self.hints.root };
        let (best, near) = (BinaryHeap::new(), Vec::new());
        let (todo, begins) = (vec![root], vec![0]);
        let seen = Seen::default();
        let mut search = Search { point, count, best, todo, begins, near, seen };
        let mut _ticket = None;
        while let Some(next) = search.next() {
            loop {
                match self.visit_near(&mut search, next) {
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
                self.answer_near(next.addr, &mut search).await?;
            }
            search.take_near();
        }
        drop(operation);
        self.memory.handle().coop().await;
        Ok(search.best.into_sorted_vec().into_iter().map(|best| best.0).collect())
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
                    let hints = self.memory.hints(&seen);
                    for (slot, rect) in page.boxes().iter().enumerate() {
                        let distance = rect.distance_squared(&search.point);
                        if distance <= bound {
                            let hint = hints.get(slot).unwrap_or(&self.hints.other);
                            let (addr, expects) = (page.child(slot), page.link(slot).expects);
                            let expects = Some(expects);
                            search.todo.push(Candidate { distance, addr, expects, hint });
                        }
                    }
                }
            }
            if seen.validate() {
                if let Some(addr) = right {
                    search.todo.push(Candidate { addr, hint: &self.hints.other, ..next });
                }
                if search.todo.len() > begin {
                    search.begins.push(begin);
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
        let mut bound = bound;
        let has_records = page.record_count() > 0;
        for (slot, rect) in page.boxes().iter().enumerate() {
            let distance = rect.distance_squared(&search.point);
            if distance > bound {
                continue;
            }
            let record = if has_records { page.record_of(slot) } else { None };
            if search.count == 1 && record.is_none() {
                bound = distance;
            }
            let mut payload = Vec::new();
            page.append_payload(slot, &mut payload);
            payload.truncate(self.config.payload_len);
            search.near.push(Near { distance, rect, id: page.id(slot), payload, record });
        }
    }
}
