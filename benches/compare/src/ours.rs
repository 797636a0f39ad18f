//! Our tree: coherent over two live compute nodes, with all its lines cached.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Bound, ControlFlow};
use std::rc::Rc;
use std::sync::Arc;

use latchwork_blink::{Tree, TreeConfig, TreeError, TreeValue};
use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Embedded, Member, Worker};
use latchwork_runtime::Clock;
use latchwork_runtime::sync::{AtomicU64, Ordering};
use latchwork_verbs::GlobalAddr;

use crate::args::{Structure, Workload};
use crate::content::{Content, Seen, key};
use crate::draws::{BATCH, Draws, SCANNED, SCANS};
use crate::error::{Failure, Wrong};
use crate::map::ScanCheck;
use crate::subject::{Job, Subject, rate_of_spans};
use crate::timer::Timer;
use crate::workers::{self, Team, frames_used};

/// Point reads that one worker has in flight when it interleaves them.
const INTERLEAVED: usize = 16;

/// Our tree with values of `V`.
pub(crate) struct Ours<V> {
    structure: Structure,
    /// Threads work on both nodes. Otherwise the second node is alive and idle.
    across: bool,
    line_size: u32,
    seed: u64,
    /// Lines that fit the cache, if fewer than the tree can need.
    room: Option<usize>,
    standing: Option<Standing>,
    value: PhantomData<V>,
}

struct Standing {
    cluster: Embedded,
    root: GlobalAddr,
    used_before: usize,
}

impl<V: Content> Ours<V> {
    pub(crate) fn new(structure: Structure, line_size: u32, seed: u64) -> Ours<V> {
        let across = structure == Structure::LatchworkTwo;
        let (room, standing) = (None, None);
        Ours { structure, across, line_size, seed, room, standing, value: PhantomData }
    }

    fn standing(&self) -> &Standing {
        self.standing.as_ref().expect("a tree is prepared before it is used")
    }

    /// Lines of the tree if its pages are only half full.
    fn lines(&self, keys: u64) -> usize {
        let entry = 16 + V::LEN.next_multiple_of(8);
        let room = self.line_size as usize - 128;
        keys as usize * entry * 2 / room + 4096
    }

    fn config(&self, keys: u64) -> ClusterConfig {
        let (lines, line_size) = (self.lines(keys), self.line_size as usize);
        let default = ClusterConfig::default();
        ClusterConfig {
            inflight: INTERLEAVED,
            // The region gets pages only when they are used, so an excess costs nothing.
            memory_bytes: (lines * line_size) as u64 * 9 / 8 + 64 * default.chunk_size,
            cache_bytes: Cache::footprint(self.room.unwrap_or(lines), line_size),
            line_size: self.line_size,
            seed: self.seed,
            ..default
        }
    }

    /// Runs `body` on the working workers, together with the tree, from the moment when all of them
    /// are ready.
    fn workers<T: Send>(
        &self,
        standing: &Standing,
        threads: usize,
        body: impl AsyncFn(usize, Member, Tree<Worker>) -> Result<T, Failure> + Sync,
    ) -> Result<Vec<T>, Failure> {
        let team = Team { threads, across: self.across };
        let open = async |member: &Member| self.open(standing.root, member).await;
        workers::run(&standing.cluster, team, open, body)
    }

    /// Opens the tree. If this node works on lines of both nodes, the function first fetches all of
    /// them.
    async fn open(&self, root: GlobalAddr, member: &Member) -> Result<Tree<Worker>, TreeError> {
        let tree = Tree::open(member.memory.clone(), root, TreeConfig::default()).await?;
        if self.across {
            tree.count().await?;
        }
        Ok(tree)
    }

    fn wrong(&self, wrong: Wrong) -> Failure {
        Failure::Wrong { structure: crate::report::name(self.structure), wrong }
    }

    fn check(&self, key: u64, seen: Option<Seen>) -> Result<(), Failure> {
        match seen {
            Some(seen) if V::is_of(key, seen) => Ok(()),
            Some(_) => Err(self.wrong(Wrong::Value(key))),
            None => Err(self.wrong(Wrong::Missing(key))),
        }
    }

    /// One lookup: the plain function, and the asynchronous one if a line is not cached.
    #[inline]
    async fn read(&self, tree: &Tree<Worker>, key: u64) -> Result<(), Failure> {
        let bytes = key.to_be_bytes();
        let seen = match tree.try_get(&bytes, V::seen_in_page) {
            Ok(seen) => seen,
            Err(_need) => tree.get_with(&bytes, V::seen_in_page).await?,
        };
        self.check(key, seen)
    }

    async fn reads(&self, tree: &Tree<Worker>, draws: &Draws, n: usize) -> Result<(), Failure> {
        for &key in draws.points(n).0 {
            self.read(tree, key).await?;
        }
        Ok(())
    }

    async fn updates(&self, tree: &Tree<Worker>, draws: &Draws, n: usize) -> Result<(), Failure> {
        let (keys, coins) = draws.points(n);
        for (i, &key) in keys.iter().enumerate() {
            if coins >> i & 1 == 0 {
                self.read(tree, key).await?;
                continue;
            }
            let value = V::new(key, n as u16).bytes();
            match tree.update(&key.to_be_bytes(), value.as_ref()).await {
                Err(TreeError::NotFound) => return Err(self.wrong(Wrong::Missing(key))),
                done => done?,
            }
        }
        Ok(())
    }

    async fn scans(&self, tree: &Tree<Worker>, draws: &Draws, n: usize) -> Result<(), Failure> {
        for &range in draws.ranges(n) {
            let mut check = ScanCheck::new(range);
            let mut sized = true;
            let visit = |key: &[u8], value: &[u8]| {
                match (key.try_into(), V::seen_in_bytes(value)) {
                    (Ok(key), Some(seen)) => check.visit::<V>(u64::from_be_bytes(key), seen),
                    _ => sized = false,
                }
                ControlFlow::Continue(())
            };
            tree.scan_up(Bound::Included(&range.from.to_be_bytes()), SCANNED, visit).await?;
            let end = if sized { check.end() } else { Err(Wrong::Scan(range.from)) };
            end.map_err(|wrong| self.wrong(wrong))?;
        }
        Ok(())
    }

    /// Lookups, 16 keys in a call.
    async fn many(
        &self,
        tree: &Tree<Worker>,
        draws: &Draws,
        n: usize,
        found: &mut Vec<Option<Seen>>,
    ) -> Result<(), Failure> {
        for keys in draws.points(n).0.chunks(INTERLEAVED) {
            let mut bytes = [[0; 8]; INTERLEAVED];
            for (bytes, key) in bytes.iter_mut().zip(keys) {
                *bytes = key.to_be_bytes();
            }
            let visit = |_, value: TreeValue<'_>| V::seen_in_page(value);
            tree.get_many(&bytes[..keys.len()], visit, found).await?;
            for (seen, &key) in found.iter().zip(keys) {
                self.check(key, *seen)?;
            }
        }
        Ok(())
    }

    /// 16 tasks, each with one lookup in flight.
    async fn in_tasks(
        &self,
        member: &Member,
        tree: Tree<Worker>,
        job: &Job<'_>,
        draws: Arc<Draws>,
    ) -> Result<f64, Failure> {
        let timer = Rc::new(RefCell::new(Timer::start(job.clock, job.time)));
        let wrong = Rc::new(RefCell::new(None));
        let next = Rc::new(RefCell::new(job.start));
        let tasks: Vec<_> = (0..INTERLEAVED)
            .map(|_| {
                let (timer, wrong, next) = (timer.clone(), wrong.clone(), next.clone());
                let (tree, draws) = (tree.clone(), draws.clone());
                member.handle.spawn(async move {
                    while wrong.borrow().is_none() {
                        let n = next.replace_with(|n| *n + 1);
                        for &key in draws.points(n).0 {
                            let seen = tree.get_with(&key.to_be_bytes(), V::seen_in_page).await?;
                            match seen {
                                Some(seen) if V::is_of(key, seen) => {}
                                Some(_) => *wrong.borrow_mut() = Some(Wrong::Value(key)),
                                None => *wrong.borrow_mut() = Some(Wrong::Missing(key)),
                            }
                        }
                        if !timer.borrow_mut().go_on(BATCH) {
                            break;
                        }
                    }
                    Ok::<(), TreeError>(())
                })
            })
            .collect();
        for task in tasks {
            // A task ends before its executor does. Only a panic, which is reported, aborts a task.
            if let Ok(end) = task.await {
                end?;
            }
        }
        if let Some(wrong) = wrong.take() {
            return Err(self.wrong(wrong));
        }
        let rate = timer.borrow().rate();
        Ok(rate)
    }
}

impl<V: Content> Subject for Ours<V> {
    fn structure(&self) -> Structure {
        self.structure
    }

    fn can(&self, workload: Workload, threads: usize) -> bool {
        match workload {
            // The bytes per key are the same on both nodes.
            Workload::Memory => !self.across,
            _ => !self.across || threads.is_multiple_of(2),
        }
    }

    fn prepare(&mut self, keys: u64) -> Result<(), Failure> {
        self.clear();
        let cluster = Embedded::start(self.config(keys))?;
        let used_before = frames_used(&cluster);
        let root = AtomicU64::new(GlobalAddr::NULL.bits());
        let created = cluster.run_on(1, async |member| {
            if member.index == 0 {
                let tree = Tree::create(member.memory.clone(), TreeConfig::default()).await?;
                root.store(tree.root().bits(), Ordering::Release);
            }
            Ok::<(), TreeError>(())
        })?;
        created.into_iter().collect::<Result<Vec<()>, _>>()?;
        let root = GlobalAddr::from_bits(root.into_inner());
        self.standing = Some(Standing { cluster, root, used_before });
        Ok(())
    }

    fn load(&mut self, keys: u64, threads: usize, clock: Clock) -> Result<f64, Failure> {
        let spans = self.workers(self.standing(), threads, async |thread, member, tree| {
            let begin = clock.now();
            for key in (thread as u64..keys).step_by(threads).map(key) {
                let value = V::new(key, 0).bytes();
                match tree.insert(&key.to_be_bytes(), value.as_ref()).await {
                    Err(TreeError::Exists) => return Err(self.wrong(Wrong::Known(key))),
                    done => done?,
                }
            }
            let end = clock.now();
            drop(member);
            Ok((begin, end))
        })?;
        Ok(rate_of_spans(keys, &spans))
    }

    fn frame_bytes(&self) -> usize {
        self.standing.as_ref().map_or(0, |standing| {
            let used = frames_used(&standing.cluster) - standing.used_before;
            Cache::footprint(used, self.line_size as usize)
        })
    }

    fn measure(&self, job: &Job<'_>) -> Result<f64, Failure> {
        let standing = self.standing();
        let before = standing.cluster.counters().cache_misses;
        let rates = self.workers(standing, job.threads, async |thread, member, tree| {
            let draws = &job.draws[thread];
            if job.workload == Workload::Tasks {
                return self.in_tasks(&member, tree, job, draws.clone()).await;
            }
            let mut timer = Timer::start(job.clock, job.time);
            let mut batch = job.start;
            let mut found = Vec::with_capacity(INTERLEAVED);
            loop {
                let done = match job.workload {
                    Workload::Scan => {
                        self.scans(&tree, draws, batch).await?;
                        SCANS * SCANNED
                    }
                    Workload::Update => {
                        self.updates(&tree, draws, batch).await?;
                        BATCH
                    }
                    Workload::Interleaved => {
                        self.many(&tree, draws, batch, &mut found).await?;
                        BATCH
                    }
                    _ => {
                        self.reads(&tree, draws, batch).await?;
                        BATCH
                    }
                };
                if !timer.go_on(done) {
                    return Ok(timer.rate());
                }
                // A sweep: plain functions alone would leave the other node's requests without an
                // answer.
                member.handle.yield_now().await;
                batch += 1;
            }
        })?;
        let misses = standing.cluster.counters().cache_misses - before;
        if !self.across && misses > 0 {
            return Err(Failure::NotCached { misses });
        }
        Ok(rates.iter().sum())
    }

    fn clear(&mut self) {
        self.standing = None;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::args::Distribution;
    use crate::draws::Source;

    const KEYS: u64 = 20_000;

    fn loaded(room: Option<usize>) -> Ours<u64> {
        let ours = Ours::new(Structure::Latchwork, 2048, 1);
        let mut ours = Ours { room, ..ours };
        ours.prepare(KEYS).expect("an empty tree");
        ours.load(KEYS, 1, Clock::start()).expect("a loaded tree");
        ours
    }

    fn measured(ours: &Ours<u64>, workload: Workload) -> Result<f64, Failure> {
        let source = Source::new(KEYS, 1);
        let draws = [Arc::new(source.draws(Distribution::Uniform, 1, 0).expect("draws"))];
        let (time, clock) = (Duration::from_millis(20), Clock::start());
        ours.measure(&Job { workload, threads: 1, draws: &draws, start: 0, time, clock })
    }

    #[test]
    fn a_cache_that_is_too_small_is_noticed() {
        for workload in [Workload::Read, Workload::Scan, Workload::Interleaved, Workload::Tasks] {
            assert!(measured(&loaded(None), workload).is_ok_and(|rate| rate > 0.0));
        }
        let end = measured(&loaded(Some(100)), Workload::Read);
        assert!(matches!(end, Err(Failure::NotCached { misses: 1.. })), "{end:?}");
    }

    #[test]
    fn wrong_answers_of_our_tree_end_the_run() {
        let ours = loaded(None);
        let change = async |member: &Member, key: &[u8], value: Option<&[u8]>| {
            let root = ours.standing().root;
            let tree = Tree::open(member.memory.clone(), root, TreeConfig::default()).await?;
            match value {
                Some(value) => tree.update(key, value).await,
                None => tree.remove(key).await.map(|there| assert!(there)),
            }
        };
        let change_all = |value: Option<&[u8]>| {
            let ends = ours.standing().cluster.run(async |member| {
                for i in (0..KEYS).filter(|_| member.index == 0) {
                    change(&member, &key(i).to_be_bytes(), value).await.expect("a known key");
                }
            });
            ends.expect("workers that end in order");
        };
        let wrong = |workload| match measured(&ours, workload) {
            Err(Failure::Wrong { wrong, .. }) => Some(wrong),
            _ => None,
        };
        change_all(Some(&[7; 8]));
        assert!(matches!(wrong(Workload::Read), Some(Wrong::Value(_))));
        assert!(matches!(wrong(Workload::Scan), Some(Wrong::Scan(_))));
        assert!(matches!(wrong(Workload::Interleaved), Some(Wrong::Value(_))));
        assert!(matches!(wrong(Workload::Tasks), Some(Wrong::Value(_))));
        change_all(None);
        assert!(matches!(wrong(Workload::Read), Some(Wrong::Missing(_))));
        assert!(matches!(wrong(Workload::Interleaved), Some(Wrong::Missing(_))));
        assert!(matches!(wrong(Workload::Update), Some(Wrong::Missing(_))));
        assert!(matches!(wrong(Workload::Scan), Some(Wrong::Scan(_))));
    }
}
