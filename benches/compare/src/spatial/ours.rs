//! Our R-tree: coherent over two live compute nodes, with all its lines cached.

use std::ops::ControlFlow;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Embedded, Member, Worker};
use latchwork_rtree::{Entry, NewEntry, RTree, RTreeConfig, RTreeError, RTreeStatistics, Rect};
use latchwork_runtime::Clock;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_verbs::GlobalAddr;

use super::data::{Area, Data, Hits, NEIGHBOURS};
use super::subject::{Built, ENTRY_BYTES, Job, Structure, Subject, Work, wrong};
use crate::error::Failure;
use crate::timer::Timer;
use crate::workers::{self, Team};

type Tree = RTree<Worker, 2>;

/// Operations between two sweeps of the executor.
const SWEEP: usize = 64;

/// Our tree as a subject.
pub(crate) struct Ours {
    structure: Structure,
    line_size: u32,
    seed: u64,
    standing: Option<Standing>,
}

struct Standing {
    cluster: Embedded,
    root: GlobalAddr,
}

fn rect(area: &Area) -> Result<Rect<2>, RTreeError> {
    Rect::new(area.low, area.high)
}

impl Ours {
    pub(crate) fn new(structure: Structure, line_size: u32, seed: u64) -> Ours {
        Ours { structure, line_size, seed, standing: None }
    }

    fn standing(&self) -> &Standing {
        self.standing.as_ref().expect("a tree is filled before it is used")
    }

    fn config(&self, boxes: usize) -> ClusterConfig {
        let line_size = self.line_size as usize;
        // Lines of a tree whose pages are only half full.
        let lines = boxes * ENTRY_BYTES * 2 / (line_size - 192) + 4096;
        let default = ClusterConfig::default();
        ClusterConfig {
            // The region gets pages only when they are used, so an excess costs nothing.
            memory_bytes: (lines * line_size) as u64 * 9 / 8 + 64 * default.chunk_size,
            cache_bytes: Cache::footprint(lines, line_size),
            line_size: self.line_size,
            seed: self.seed,
            ..default
        }
    }

    /// Runs `body` on the working workers, together with the tree.
    fn workers<T: Send>(
        &self,
        threads: usize,
        body: impl AsyncFn(usize, Member, Tree) -> Result<T, Failure> + Sync,
    ) -> Result<Vec<T>, Failure> {
        let standing = self.standing();
        let across = self.structure == Structure::LatchworkTwo;
        let open = async |member: &Member| {
            let memory = member.memory.clone();
            let tree = Tree::open(memory, standing.root, RTreeConfig::default()).await?;
            if across {
                // Fetches all lines to this node.
                tree.count(&Rect::EVERYTHING).await?;
            }
            Ok::<Tree, RTreeError>(tree)
        };
        workers::run(&standing.cluster, Team { threads, across }, open, body)
    }

    /// Runs `body` on one worker.
    fn alone<T: Send>(
        &self,
        body: impl AsyncFn(Member, Tree) -> Result<T, Failure> + Sync,
    ) -> Result<T, Failure> {
        let ends = self.workers(1, async |_, member, tree| body(member, tree).await)?;
        Ok(ends.into_iter().next().expect("one worker has one end"))
    }

    async fn query(&self, tree: &Tree, job: &Job<'_>, at: usize) -> Result<(), Failure> {
        let good = match job.work {
            Work::NearestTen | Work::Nearest => {
                let kind = usize::from(job.work == Work::Nearest);
                let near = &job.data.near[kind];
                let near = &near[at % near.len()];
                let found = tree.nearest(near.point, NEIGHBOURS[kind]).await?;
                near.is(found.iter().map(|found| found.distance_squared).sum())
            }
            _ => {
                let windows = &job.data.windows[job.work as usize];
                let window = &windows[at % windows.len()];
                let mut hits = Hits::default();
                let visit = |entry: Entry<'_, 2>| {
                    hits.add(entry.id);
                    ControlFlow::Continue(())
                };
                tree.intersecting(&rect(&window.area)?, visit).await?;
                hits == window.hits
            }
        };
        if good { Ok(()) } else { Err(wrong(self.structure, job.work, at)) }
    }

    fn statistics(&self) -> Result<RTreeStatistics, Failure> {
        self.alone(async |_, tree| Ok(tree.validate().await?))
    }
}

impl Subject for Ours {
    fn structure(&self) -> Structure {
        self.structure
    }

    fn can(&self, _: Built) -> bool {
        true
    }

    fn fill(&mut self, built: Built, data: &Data, clock: Clock) -> Result<f64, Failure> {
        self.standing = None;
        let cluster = Embedded::start(self.config(data.boxes.len() + data.others.len()))?;
        let root = AtomicU64::new(GlobalAddr::NULL.bits());
        let created = cluster.run_on(1, async |member| {
            if member.index == 0 {
                let tree = Tree::create(member.memory.clone(), RTreeConfig::default()).await?;
                root.store(tree.root().bits(), Ordering::Release);
            }
            Ok::<(), RTreeError>(())
        })?;
        created.into_iter().collect::<Result<Vec<()>, _>>()?;
        let root = GlobalAddr::from_bits(root.into_inner());
        self.standing = Some(Standing { cluster, root });
        let boxes = || data.boxes.iter().zip(0..);
        let entries = boxes().map(|(area, id)| {
            let (rect, payload) = (rect(area)?, Vec::new());
            Ok(NewEntry { rect, id, payload })
        });
        let entries = entries.collect::<Result<Vec<NewEntry<2>>, RTreeError>>()?;
        let entries = std::sync::Mutex::new(entries);
        let time = self.alone(async |_, tree| {
            let entries = std::mem::take(&mut *entries.lock().expect("one worker"));
            let begin = clock.now();
            match built {
                Built::Packed => tree.bulk_load(entries).await?,
                Built::Grown => {
                    for entry in &entries {
                        tree.insert(&entry.rect, entry.id, &[]).await?;
                    }
                }
            }
            Ok(clock.now() - begin)
        })?;
        let statistics = self.statistics()?;
        if statistics.entries != data.boxes.len() as u64 {
            return Err(wrong(self.structure, Work::Load, 0));
        }
        Ok(data.boxes.len() as f64 / time.as_secs_f64().max(1e-9))
    }

    fn measure(&mut self, job: Job<'_>) -> Result<f64, Failure> {
        let counters = || self.standing().cluster.counters().cache_misses;
        let before = counters();
        let rates = self.workers(job.threads, async |thread, member, tree| {
            let mut timer = Timer::start(job.clock, job.time);
            let (batch, mut at) = (job.work.batch(), job.start_of(thread));
            loop {
                for _ in 0..batch {
                    self.query(&tree, &job, at).await?;
                    at += 1;
                }
                if !timer.go_on(batch) {
                    return Ok(timer.rate());
                }
                // A sweep: the other node's requests get an answer.
                member.handle.yield_now().await;
            }
        })?;
        let misses = counters() - before;
        if self.structure == Structure::Latchwork && misses > 0 {
            return Err(Failure::NotCached { misses });
        }
        Ok(rates.iter().sum())
    }

    fn churn(&mut self, data: &Data, clock: Clock) -> Result<(f64, f64), Failure> {
        let first = data.boxes.len() as u64;
        let others: Vec<Rect<2>> = data.others.iter().map(rect).collect::<Result<_, _>>()?;
        let (inserts, removes) = self.alone(async |member, tree| {
            let begin = clock.now();
            for chunk in others.iter().zip(first..).collect::<Vec<_>>().chunks(SWEEP) {
                for (rect, id) in chunk {
                    tree.insert(rect, *id, &[]).await?;
                }
                member.handle.yield_now().await;
            }
            let middle = clock.now();
            for chunk in others.iter().zip(first..).collect::<Vec<_>>().chunks(SWEEP) {
                for (rect, id) in chunk {
                    if !tree.remove(rect, *id).await? {
                        return Err(wrong(self.structure, Work::Remove, (id - first) as usize));
                    }
                }
                member.handle.yield_now().await;
            }
            Ok((middle - begin, clock.now() - middle))
        })?;
        let rate = |time: std::time::Duration| others.len() as f64 / time.as_secs_f64().max(1e-9);
        Ok((rate(inserts), rate(removes)))
    }

    fn memory(&self, data: &Data) -> Result<Option<f64>, Failure> {
        let pages = self.statistics()?.pages() * u64::from(self.line_size);
        Ok(Some(pages as f64 / (data.boxes.len() * ENTRY_BYTES) as f64))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn measured(ours: &mut Ours, data: &Data, work: Work) -> Result<f64, Failure> {
        let (time, clock) = (Duration::from_millis(5), Clock::start());
        let threads = if ours.structure == Structure::LatchworkTwo { 2 } else { 1 };
        ours.measure(Job { work, threads, data, start: 0, time, clock })
    }

    #[test]
    fn our_tree_answers_as_the_search_without_a_tree() {
        let mut data = Data::new(20_000, 1);
        for structure in [Structure::Latchwork, Structure::LatchworkTwo] {
            for built in [Built::Packed, Built::Grown] {
                let mut ours = Ours::new(structure, 2048, 1);
                ours.fill(built, &data, Clock::start()).expect("a tree");
                for work in Work::QUERIES {
                    let rate = measured(&mut ours, &data, work);
                    assert!(rate.as_ref().is_ok_and(|rate| *rate > 0.0), "{work:?}: {rate:?}");
                }
                ours.churn(&data, Clock::start()).expect("boxes come and go");
                assert!(ours.memory(&data).is_ok_and(|ratio| ratio.is_some_and(|r| r > 1.0)));
            }
        }
        let mut ours = Ours::new(Structure::Latchwork, 2048, 1);
        ours.fill(Built::Packed, &data, Clock::start()).expect("a tree");
        data.windows.iter_mut().flatten().for_each(|window| window.hits.sum ^= 1);
        data.near.iter_mut().flatten().for_each(|near| near.sum += 1.0);
        for work in Work::QUERIES {
            let end = measured(&mut ours, &data, work);
            assert!(matches!(end, Err(Failure::WrongAnswer { .. })), "{work:?}: {end:?}");
        }
    }
}
