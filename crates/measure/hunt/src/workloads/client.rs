//! [`Client`]: one task of any workload. It draws operations, and applies them one after the other.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use latchwork_blink::TreeStatistics;
use latchwork_cache::WriteGuard;
use latchwork_cluster::Member;
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_runtime::Time;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::distribution::{YCSB_THETA, Zipfian};
use latchwork_workload::random::WorkloadRandom;

use crate::WorldCheck;
use crate::checks::CheckResult;
use crate::scenario::{Scenario, SeededBug};
use crate::world::{Failing, Observer, Process};

/// A phase of a workload. Each runs on a worker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Makes what all tasks use, and publishes it for workers on other threads. The first worker
    /// runs this before faults begin.
    SetUp,
    /// Finds what a worker on another thread has published.
    Find,
    /// Runs all operations of one task.
    Task,
    /// Releases what the worker has in reserve, when all tasks have ended.
    Finish,
    /// Reads all data after all work. One worker of each live node runs this.
    Inspect,
}

/// A workload: the operations of its tasks, and the check of what they record. All tasks of one
/// thread share a value of this type.
pub(crate) trait Work: Sized + 'static {
    /// The first task's random stream. Task N has the stream `STREAM` + N.
    const STREAM: u64 = 0;
    /// Whether tasks of their own finish what faults have interrupted, for as long as it takes.
    const FINISHES: bool = false;
    /// Whether operations allocate or free lines. A death may then leave lines in no use, and may
    /// put lines back into use that the dead node has freed.
    const ALLOCATES: bool = false;
    /// What a task knows.
    type Task;
    /// A drawn operation.
    type Operation;
    /// The record of all tasks.
    type Record: Default + Send + 'static;

    /// Makes what all tasks use: the *roots*, which other threads find by their numbers. Without
    /// another definition, these are new lines.
    async fn set_up(client: &Client<Self>) -> Result<Vec<GlobalAddr>, String> {
        client.new_lines(client.of().roots()).await.map_err(|error| error.to_string())
    }

    /// Makes what a task knows in this phase: [`Phase::Task`], or [`Phase::Inspect`] if
    /// [`Work::inspect`] begins its client. `None` after an error, which the observer has.
    async fn begin(client: &Client<Self>, phase: Phase) -> Option<Self::Task>;

    /// Draws the next operation.
    fn draw(client: &Client<Self>) -> Self::Operation;

    /// Carries out an operation, and records it.
    async fn apply(client: &Client<Self>, operation: Self::Operation);

    /// Releases what the worker has in reserve. Each worker runs this when all tasks have ended.
    async fn finish(_client: &Client<Self>) {}

    /// Reads all data after all work. One worker of each live node runs this.
    async fn inspect(client: &Client<Self>);

    /// Completes the record. Nothing runs any more.
    fn end(_shared: &Shared<Self>) {}

    /// The number of roots.
    fn roots(&self) -> u64;

    /// The number of lines in use after all work. `None` if the number is not known.
    fn lines_in_use(&self, record: &Self::Record) -> Option<u64>;

    /// Whether transactions of a node have ended without their locks.
    fn keeps_locks(&self, _node: usize) -> bool {
        false
    }

    /// Adds the record of another thread.
    fn merge(record: &mut Self::Record, more: Self::Record);

    /// Drops what these nodes wrote last and no other node has seen. They have died at these times.
    /// Only in worlds that [recover](Scenario::recovers) lines.
    fn forget_unseen(record: &mut Self::Record, dead: &BTreeMap<usize, Time>) {
        let _ = (record, dead);
    }

    /// Checks the record. Returns the number of objects for which the check gave up.
    fn judge(&self, record: &Self::Record) -> CheckResult;

    /// The statistics of the tree at the end, if there was one.
    fn tree(_record: &Self::Record) -> Option<TreeStatistics> {
        None
    }
}

/// What all tasks of one thread share: all tasks of a world, or the tasks of one worker.
pub(crate) struct Shared<W: Work> {
    pub(super) work: W,
    pub(super) scenario: Scenario,
    pub(super) observer: Rc<Observer>,
    pub(super) roots: RefCell<Vec<GlobalAddr>>,
    pub(super) record: RefCell<W::Record>,
}

/// One task.
pub(crate) struct Client<W: Work> {
    pub(super) shared: Rc<Shared<W>>,
    pub(super) member: Member,
    pub(super) process: Process,
    random: RefCell<WorkloadRandom>,
    task: OnceCell<W::Task>,
}

impl<W: Work> Client<W> {
    pub(super) fn new(
        shared: &Rc<Shared<W>>,
        member: Member,
        process: Process,
        random: WorkloadRandom,
    ) -> Client<W> {
        let (shared, random) = (Rc::clone(shared), RefCell::new(random));
        Client { shared, member, process, random, task: OnceCell::new() }
    }

    /// Begins the task. False after an error, which the observer has.
    pub(super) async fn begin(&self, phase: Phase) -> bool {
        match W::begin(self, phase).await {
            Some(task) => self.task.set(task).is_ok(),
            None => false,
        }
    }

    /// Does all operations of the task.
    pub(super) async fn work(&self) {
        for _ in 0..self.shared.scenario.operations {
            W::apply(self, W::draw(self)).await;
            // All other tasks have a turn. Virtual time advances only on request: without this, a
            // worker would do all its work at one instant.
            let handle = &self.member.handle;
            handle.charge(Duration::from_nanos(50 + handle.random_below(400)));
            handle.yield_now().await;
        }
    }

    pub(super) fn of(&self) -> &W {
        &self.shared.work
    }

    /// What the task knows.
    pub(super) fn task(&self) -> &W::Task {
        self.task.get().expect("a task that has begun")
    }

    // ---- draws ----------------------------------------------------------------------------------

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.random.borrow_mut().below(bound)
    }

    pub(super) fn percent(&self, share: u64) -> bool {
        self.below(100) < share
    }

    /// Draws one of the kinds, each with its share of a hundred. `rest` has what is left.
    pub(super) fn kind<K: Copy>(&self, shares: &[(u64, K)], rest: K) -> K {
        let mut at = self.below(100);
        for (share, kind) in shares {
            if at < *share {
                return *kind;
            }
            at -= share;
        }
        rest
    }

    /// Draws one of `lines` lines: all have the same probability, or a few are popular.
    pub(super) fn any_line(&self, lines: u64, zipfian: Option<&Zipfian>) -> usize {
        let mut random = self.random.borrow_mut();
        match zipfian {
            Some(zipfian) => zipfian.draw(&mut random) as usize,
            None => random.below(lines) as usize,
        }
    }

    pub(super) fn has_bug(&self, bug: SeededBug) -> bool {
        self.shared.scenario.plant == Some(bug)
    }

    // ---- the world ------------------------------------------------------------------------------

    /// The time to record for a call.
    pub(super) fn now(&self) -> Time {
        self.shared.observer.time(&self.member.handle)
    }

    pub(super) fn root(&self, at: usize) -> GlobalAddr {
        self.shared.roots.borrow()[at]
    }

    pub(super) fn record(&self, add: impl FnOnce(&mut W::Record)) {
        add(&mut self.shared.record.borrow_mut());
    }

    /// Reports a failure of a check, with the name of the task.
    pub(super) fn wrong(&self, check: WorldCheck, text: impl std::fmt::Display) {
        self.shared.observer.fail(check, format!("{}: {text}", self.process));
    }

    /// Runs one operation: see [`Observer::operation`]. `accesses` is the most lines that it waits
    /// for, which may be an estimate.
    pub(super) async fn observed<T, E: Failing>(
        &self,
        what: &'static str,
        on: impl ToString,
        accesses: u32,
        work: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        let about = (what, on.to_string(), accesses);
        self.shared.observer.operation(self.process, about, Box::pin(work)).await
    }

    /// As [`Client::observed`], inside an operation of the memory.
    pub(super) async fn entered<T>(
        &self,
        what: &'static str,
        on: impl ToString,
        accesses: u32,
        work: impl Future<Output = Result<T, MemoryError>>,
    ) -> Option<T> {
        let work = Box::pin(work);
        let entered = async {
            let _operation = self.member.memory.enter().await?;
            work.await
        };
        self.observed(what, on, accesses, entered).await
    }

    /// Allocates lines, and fills them with zeros.
    pub(super) async fn new_lines(&self, count: u64) -> Result<Vec<GlobalAddr>, MemoryError> {
        let mut lines = Vec::new();
        for _ in 0..count {
            let line = self.member.memory.allocate().await?;
            let clear = |guard: &mut WriteGuard<'_>| {
                let end = guard.words().len();
                guard.words().clear(0..end);
                guard.mark_dirty(0..end);
            };
            self.member.memory.write(line, clear).await?;
            lines.push(line);
        }
        Ok(lines)
    }
}

/// The popularity of lines, if a few of them get most accesses.
pub(super) fn popular(zipfian: bool, lines: u64) -> Option<Zipfian> {
    zipfian.then(|| Zipfian::new(lines, YCSB_THETA).ok()).flatten()
}
