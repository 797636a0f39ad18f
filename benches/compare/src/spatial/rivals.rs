//! R-trees of other crates.

use std::ops::ControlFlow;
use std::sync::Barrier;
use std::thread;
use std::time::Duration;

use latchwork_runtime::Clock;
use rstar::primitives::{GeomWithData, Rectangle};
use rstar::{AABB, PointDistance};
use static_aabb2d_index::{Control, StaticAABB2DIndex, StaticAABB2DIndexBuilder};

use super::data::{Area, Data, Hits, NEIGHBOURS};
use super::subject::{Built, Job, Structure, Subject, Work, wrong};
use crate::error::Failure;
use crate::timer::{Timer, pin};

/// A tree that threads share for reading.
pub(crate) trait Tree: Sync + Sized {
    const STRUCTURE: Structure;
    /// The memory of a thread's queries.
    type Scratch: Default;

    /// Fills a tree. Returns it with the time of the crate's calls; `None` if the crate cannot
    /// build a tree like this.
    fn fill(built: Built, data: &Data, clock: Clock) -> Option<(Self, Duration)>;
    fn window(&self, scratch: &mut Self::Scratch, window: &Area) -> Hits;
    /// The sum of the squared distances of the nearest entries.
    fn near(&self, scratch: &mut Self::Scratch, point: [f64; 2], count: usize) -> f64;
    /// Returns whether the tree can do that.
    fn insert(&mut self, area: &Area, id: u64) -> bool;
    /// Returns whether the entry was there.
    fn remove(&mut self, area: &Area, id: u64) -> bool;
}

type Entry = GeomWithData<Rectangle<[f64; 2]>, u64>;
pub(crate) type Rstar = rstar::RTree<Entry>;

fn entry(area: &Area, id: u64) -> Entry {
    Entry::new(Rectangle::from_corners(area.low, area.high), id)
}

impl Tree for Rstar {
    const STRUCTURE: Structure = Structure::Rstar;
    type Scratch = ();

    fn fill(built: Built, data: &Data, clock: Clock) -> Option<(Rstar, Duration)> {
        let entries: Vec<Entry> = data.boxes.iter().zip(0..).map(|(a, id)| entry(a, id)).collect();
        let begin = clock.now();
        let tree = match built {
            Built::Packed => Rstar::bulk_load(entries),
            Built::Grown => {
                let mut tree = Rstar::new();
                entries.into_iter().for_each(|entry| tree.insert(entry));
                tree
            }
        };
        Some((tree, clock.now() - begin))
    }

    fn window(&self, _: &mut (), window: &Area) -> Hits {
        let mut hits = Hits::default();
        let envelope = AABB::from_corners(window.low, window.high);
        // Measured faster than the iterator.
        let _: ControlFlow<()> = self.locate_in_envelope_intersecting_int(&envelope, |entry| {
            hits.add(entry.data);
            ControlFlow::Continue(())
        });
        hits
    }

    fn near(&self, _: &mut (), point: [f64; 2], count: usize) -> f64 {
        if count == 1 {
            let nearest = self.nearest_neighbor(&point);
            return nearest.map_or(f64::NAN, |entry| entry.distance_2(&point));
        }
        let near = self.nearest_neighbor_iter_with_distance_2(&point);
        near.take(count).map(|(_, distance)| distance).sum()
    }

    fn insert(&mut self, area: &Area, id: u64) -> bool {
        rstar::RTree::insert(self, entry(area, id));
        true
    }

    fn remove(&mut self, area: &Area, id: u64) -> bool {
        rstar::RTree::remove(self, &entry(area, id)).is_some()
    }
}

pub(crate) type Static = StaticAABB2DIndex<f64>;

impl Tree for Static {
    const STRUCTURE: Structure = Structure::Static;
    type Scratch = Vec<usize>;

    fn fill(built: Built, data: &Data, clock: Clock) -> Option<(Static, Duration)> {
        if built == Built::Grown {
            return None;
        }
        let begin = clock.now();
        let mut builder = StaticAABB2DIndexBuilder::new(data.boxes.len());
        for Area { low, high } in &data.boxes {
            builder.add(low[0], low[1], high[0], high[1]);
        }
        let tree = builder.build().ok()?;
        Some((tree, clock.now() - begin))
    }

    fn window(&self, stack: &mut Vec<usize>, window: &Area) -> Hits {
        let mut hits = Hits::default();
        let Area { low, high } = window;
        let mut visit = |index: usize| hits.add(index as u64);
        self.visit_query_with_stack(low[0], low[1], high[0], high[1], &mut visit, stack);
        hits
    }

    fn near(&self, _: &mut Vec<usize>, point: [f64; 2], count: usize) -> f64 {
        let (mut left, mut sum) = (count, 0.0);
        let mut visit = |_: usize, distance: f64| {
            sum += distance;
            left -= 1;
            if left == 0 { Control::Break(()) } else { Control::Continue }
        };
        self.visit_neighbors(point[0], point[1], &mut visit);
        sum
    }

    fn insert(&mut self, _: &Area, _: u64) -> bool {
        false
    }

    fn remove(&mut self, _: &Area, _: u64) -> bool {
        false
    }
}

/// A tree of another crate as a subject.
pub(crate) struct Rival<T>(Option<T>);

impl<T> Rival<T> {
    pub(crate) fn new() -> Rival<T> {
        Rival(None)
    }
}

impl<T: Tree> Rival<T> {
    fn query(tree: &T, scratch: &mut T::Scratch, job: &Job<'_>, at: usize) -> Result<(), Failure> {
        let good = match job.work {
            Work::NearestTen | Work::Nearest => {
                let kind = usize::from(job.work == Work::Nearest);
                let near = &job.data.near[kind];
                let near = &near[at % near.len()];
                near.is(tree.near(scratch, near.point, NEIGHBOURS[kind]))
            }
            _ => {
                let windows = &job.data.windows[job.work as usize];
                let window = &windows[at % windows.len()];
                tree.window(scratch, &window.area) == window.hits
            }
        };
        if good { Ok(()) } else { Err(wrong(T::STRUCTURE, job.work, at)) }
    }

    fn run(tree: &T, job: &Job<'_>, thread: usize) -> Result<f64, Failure> {
        let mut timer = Timer::start(job.clock, job.time);
        let (batch, mut at) = (job.work.batch(), job.start_of(thread));
        let mut scratch = T::Scratch::default();
        loop {
            for _ in 0..batch {
                Rival::query(tree, &mut scratch, job, at)?;
                at += 1;
            }
            if !timer.go_on(batch) {
                return Ok(timer.rate());
            }
        }
    }
}

impl<T: Tree> Subject for Rival<T> {
    fn structure(&self) -> Structure {
        T::STRUCTURE
    }

    fn can(&self, built: Built) -> bool {
        built == Built::Packed || T::STRUCTURE != Structure::Static
    }

    fn fill(&mut self, built: Built, data: &Data, clock: Clock) -> Result<f64, Failure> {
        self.0 = None;
        pin(0);
        let Some((tree, time)) = T::fill(built, data, clock) else {
            return Err(wrong(T::STRUCTURE, Work::Load, 0));
        };
        self.0 = Some(tree);
        Ok(data.boxes.len() as f64 / time.as_secs_f64().max(1e-9))
    }

    fn measure(&mut self, job: Job<'_>) -> Result<f64, Failure> {
        let tree = self.0.as_ref().expect("a tree is filled before it is measured");
        let barrier = Barrier::new(job.threads);
        let (barrier, job) = (&barrier, &job);
        let rates = thread::scope(|scope| {
            let running: Vec<_> = (0..job.threads)
                .map(|thread| {
                    scope.spawn(move || {
                        pin(thread);
                        barrier.wait();
                        Rival::run(tree, job, thread)
                    })
                })
                .collect();
            let ends: Vec<_> = running.into_iter().map(|thread| thread.join()).collect();
            let structure = T::STRUCTURE.name();
            let end = |end: thread::Result<_>| end.unwrap_or(Err(Failure::Panicked { structure }));
            ends.into_iter().map(end).collect::<Result<Vec<f64>, Failure>>()
        })?;
        Ok(rates.iter().sum())
    }

    fn churn(&mut self, data: &Data, clock: Clock) -> Result<(f64, f64), Failure> {
        let tree = self.0.as_mut().expect("a tree is filled before it is measured");
        pin(0);
        let (first, count) = (data.boxes.len() as u64, data.others.len() as f64);
        let rate = |time: Duration| count / time.as_secs_f64().max(1e-9);
        let begin = clock.now();
        for (area, id) in data.others.iter().zip(first..) {
            if !tree.insert(area, id) {
                return Err(wrong(T::STRUCTURE, Work::Insert, 0));
            }
        }
        let middle = clock.now();
        for (area, id) in data.others.iter().zip(first..) {
            if !tree.remove(area, id) {
                return Err(wrong(T::STRUCTURE, Work::Remove, (id - first) as usize));
            }
        }
        Ok((rate(middle - begin), rate(clock.now() - middle)))
    }

    fn memory(&self, _: &Data) -> Result<Option<f64>, Failure> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured<T: Tree>(data: &Data, work: Work) -> Result<f64, Failure> {
        let clock = Clock::start();
        let mut rival = Rival::<T>::new();
        rival.fill(Built::Packed, data, clock)?;
        let time = Duration::from_millis(5);
        rival.measure(Job { work, threads: 2, data, start: 0, time, clock })
    }

    #[test]
    fn rivals_answer_as_the_search_without_a_tree() {
        let data = Data::new(20_000, 1);
        for work in Work::QUERIES {
            assert!(measured::<Rstar>(&data, work).is_ok_and(|rate| rate > 0.0), "{work:?}");
            assert!(measured::<Static>(&data, work).is_ok_and(|rate| rate > 0.0), "{work:?}");
        }
        let mut grown = Rival::<Rstar>::new();
        grown.fill(Built::Grown, &data, Clock::start()).expect("a grown tree");
        assert!(grown.churn(&data, Clock::start()).is_ok());
    }

    #[test]
    fn a_wrong_answer_ends_the_run() {
        let mut data = Data::new(20_000, 1);
        data.windows.iter_mut().flatten().for_each(|window| window.hits.sum ^= 1);
        data.near.iter_mut().flatten().for_each(|near| near.sum += 1.0);
        for work in Work::QUERIES {
            let end = measured::<Static>(&data, work);
            assert!(matches!(end, Err(Failure::WrongAnswer { .. })), "{work:?}: {end:?}");
        }
    }
}
