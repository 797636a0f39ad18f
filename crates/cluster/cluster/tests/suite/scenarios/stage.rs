//! The stage of the scenarios: a simulated cluster that is stepped by hand.
//!
//! A scenario starts accesses on chosen nodes, holds chosen messages and operations at gates, and
//! runs the world until an event has happened. After every event the stage checks two invariants. A
//! writer is alone with its line. A latch word changes only as the word discipline permits.

use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::{FrameState, Ownership, ReadVersion, WriteGuard};
use latchwork_cluster::{ClusterConfig, Member, Node, Simulated, Ticket};
use latchwork_coherence::{AccessMode, CoherentMemory, MemoryError, Need, Upgrade};
use latchwork_fabric::AnyFabric;
use latchwork_latch::LatchWord;
use latchwork_runtime::{JoinHandle, Time, VirtualWorker};
use latchwork_simulation::RunEnd;
use latchwork_verbs::{GlobalAddr, Words};
use latchwork_verbs_sim::{Gate, Leg, SimConfig};

use crate::common::small;
pub(crate) use crate::scenarios::acts::*;
use crate::scenarios::invariants::{check_at_rest, check_step};

/// The longest virtual time that a scenario waits for an event.
const LIMIT: Duration = Duration::from_secs(1);

/// A time in which everything in flight arrives, and every back-off ends.
pub(crate) const A_WHILE: Duration = Duration::from_micros(300);

/// Runs a scenario in several worlds. In every second world the network is rough: any message may
/// overtake others.
pub(crate) fn in_every_world(scenario: impl Fn(u64)) {
    (0..8).for_each(scenario);
}

/// All posts about watched lines, in the order of their times.
type Log = Rc<RefCell<Vec<(Time, GlobalAddr, usize, Act)>>>;

pub(crate) struct Stage {
    pub(crate) cluster: Simulated,
    pub(crate) seed: u64,
    workers: Vec<Option<(VirtualWorker, Member)>>,
    lines: Lines,
    log: Log,
    _spy: Gate,
}

impl Stage {
    /// Nodes with one worker each, and room for sixteen lines.
    pub(crate) fn new(nodes: usize, seed: u64) -> Stage {
        Stage::with(nodes, 16, seed)
    }

    /// Like [`Stage::new`], but without takeover: sharers release their copies for a writer.
    pub(crate) fn releasing(nodes: usize, seed: u64) -> Stage {
        let mut config = small(nodes, 1, 16, seed);
        config.selcc.takeover = false;
        Stage::on(config)
    }

    /// Like [`Stage::new`], with hand-overs that write back.
    pub(crate) fn surviving(nodes: usize, seed: u64) -> Stage {
        let mut config = small(nodes, 1, 16, seed);
        config.selcc.survive = true;
        Stage::on(config)
    }

    /// Nodes with one worker each, and room for about `frames` lines.
    pub(crate) fn with(nodes: usize, frames: usize, seed: u64) -> Stage {
        Stage::on(small(nodes, 1, frames, seed))
    }

    /// A cluster of any configuration, with one worker on each node.
    pub(crate) fn on(config: ClusterConfig) -> Stage {
        let calm = config.seed.is_multiple_of(2);
        Stage::over(config, if calm { SimConfig::default() } else { SimConfig::rough() })
    }

    /// Like [`Stage::on`], on this network.
    pub(crate) fn over(config: ClusterConfig, network: SimConfig) -> Stage {
        let (seed, nodes) = (config.seed, config.compute_nodes);
        let cluster = Simulated::start(config, network).expect("a good configuration");
        let (lines, log) = (Lines::default(), Log::default());
        let spy = {
            let (lines, log) = (lines.clone(), Rc::clone(&log));
            let kernel = cluster.kernel().clone();
            fabric(&cluster).gate(move |passing| {
                if passing.leg == Leg::There
                    && let Some((line, from, act)) = read(&lines, passing)
                {
                    log.borrow_mut().push((kernel.now(), line, from, act));
                }
                false
            })
        };
        let mut stage = Stage { cluster, seed, workers: Vec::new(), lines, log, _spy: spy };
        (0..nodes).for_each(|node| _ = stage.add_worker(node));
        stage
    }

    /// Starts one more worker of a node. Returns its number for [`Stage::start`]. The first worker
    /// of node `n` has number `n`.
    pub(crate) fn add_worker(&mut self, node: usize) -> usize {
        let index = self.workers.len();
        let place = (node, index, index);
        self.workers.push(Some(self.cluster.start_worker(place).expect("a node of the cluster")));
        index
    }

    /// Lets a worker leave, as at the end of its thread, and ends the worker with all its tasks.
    pub(crate) fn leave(&mut self, worker: usize) {
        let (actor, member) = self.take_worker(worker);
        let left = actor.handle().spawn_service(member.memory.leave());
        drop(member.handle);
        self.end(left).expect("nothing is in its way");
    }

    /// Removes a worker from the stage. The worker runs until the caller drops it.
    pub(crate) fn take_worker(&mut self, worker: usize) -> (VirtualWorker, Member) {
        self.workers[worker].take().expect("not gone yet")
    }

    pub(crate) fn member(&self, worker: usize) -> &Member {
        let (_, member) = self.workers[worker].as_ref().expect("not gone yet");
        member
    }

    pub(crate) fn node(&self, node: usize) -> &Node {
        &self.cluster.nodes()[node]
    }

    pub(crate) fn sim(&self) -> latchwork_verbs_sim::SimFabric {
        fabric(&self.cluster)
    }

    fn takeover(&self) -> bool {
        self.cluster.config().selcc.takeover
    }

    // ---- events ---------------------------------------------------------------------------------

    /// Starts a task on a worker.
    pub(crate) fn start<T: 'static, F>(
        &self,
        worker: usize,
        body: impl FnOnce(Member) -> F,
    ) -> JoinHandle<T>
    where
        F: Future<Output = T> + 'static,
    {
        let member = self.member(worker).clone();
        let handle = member.handle.clone();
        handle.spawn(body(member))
    }

    /// A new line of zeros without owners, which the stage watches from now on.
    pub(crate) fn line(&self) -> GlobalAddr {
        let line = self.run(A, async |member| {
            let line = member.memory.allocate().await.expect("a pool with room");
            member.memory.write(line, |guard| fill(guard, 0)).await.expect("a new line");
            line
        });
        let latch = self.geometry().latch_addr(line);
        let word = self.word_at(latch);
        self.lines.borrow_mut().insert(latch, Watched { line, words: vec![word] });
        self.evict(A, line);
        self.until("the new line is free", || self.word(line) == LatchWord::FREE);
        self.until("its frame is free", || self.frame(A, line).is_none());
        self.forget();
        line
    }

    /// Deletes the log and the recorded values of words.
    pub(crate) fn forget(&self) {
        self.log.borrow_mut().clear();
        for watched in self.lines.borrow_mut().values_mut() {
            watched.words.drain(..watched.words.len() - 1);
        }
    }

    /// Runs a task to its end.
    pub(crate) fn run<T: 'static, F>(&self, worker: usize, body: impl FnOnce(Member) -> F) -> T
    where
        F: Future<Output = T> + 'static,
    {
        self.end(self.start(worker, body))
    }

    /// Starts to read a line.
    pub(crate) fn reads(&self, worker: usize, line: GlobalAddr) -> JoinHandle<u64> {
        self.start(worker, async move |member| {
            member.memory.read(line, value).await.expect("no error")
        })
    }

    /// Starts to write a line. The task returns the previous value.
    pub(crate) fn writes(&self, worker: usize, line: GlobalAddr, new: u64) -> JoinHandle<u64> {
        self.start(worker, async move |member| {
            let write = member.memory.write(line, |guard| {
                let old = value(guard.words());
                fill(guard, new);
                old
            });
            write.await.expect("no error")
        })
    }

    /// Starts to wait for a line. The task's result keeps the line.
    pub(crate) fn takes(
        &self,
        worker: usize,
        line: GlobalAddr,
        mode: AccessMode,
    ) -> JoinHandle<Result<Ticket, MemoryError>> {
        self.start(worker, async move |member| {
            member.memory.ensure(Need { addr: line, mode }).await
        })
    }

    pub(crate) fn read(&self, worker: usize, line: GlobalAddr) -> u64 {
        self.end(self.reads(worker, line))
    }

    pub(crate) fn write(&self, worker: usize, line: GlobalAddr, value: u64) -> u64 {
        self.end(self.writes(worker, line, value))
    }

    /// Waits for a line. The returned ticket keeps the line.
    pub(crate) fn take(&self, worker: usize, line: GlobalAddr, mode: AccessMode) -> Ticket {
        self.end(self.takes(worker, line, mode)).expect("no error")
    }

    /// Reads a line, and returns the value with the identity of the copy.
    pub(crate) fn sees(&self, worker: usize, line: GlobalAddr) -> (u64, ReadVersion) {
        self.read(worker, line);
        // No task runs between two events, so the copy does not change.
        let read = self.node(self.member(worker).node).cache().try_read(line);
        let read = read.expect("just read");
        (value(read.words()), read.version())
    }

    /// Starts to upgrade a copy.
    pub(crate) fn upgrades(
        &self,
        worker: usize,
        seen: ReadVersion,
    ) -> JoinHandle<(Upgrade, Option<Ticket>)> {
        self.start(worker, async move |member| {
            member.memory.upgrade(seen, None).await.expect("no error")
        })
    }

    /// Starts to evict a line. Returns whether that was possible.
    pub(crate) fn evict(&self, worker: usize, line: GlobalAddr) -> bool {
        self.run(worker, async move |member| member.memory.evict(line))
    }

    /// Evicts a line, and waits until the eviction is complete.
    pub(crate) fn evict_now(&self, worker: usize, line: GlobalAddr) {
        assert!(self.evict(worker, line), "the line is not in use");
        let node = self.member(worker).node;
        self.until("the line is given up", || self.node(node).lines_in_flight() == 0);
    }

    /// Makes node A evict a line, and waits until the line's frame is free. Other operations may be
    /// in flight.
    pub(crate) fn evict_now_beside(&self, line: GlobalAddr) {
        assert!(self.evict(A, line), "the line is not in use");
        self.until("its frame is free", || self.frame(A, line).is_none());
    }

    /// Drops a value that only its own worker may touch, in a task of that worker.
    pub(crate) fn drop_on<T: 'static>(&self, worker: usize, value: T) {
        self.run(worker, async move |_| drop(value));
    }

    // ---- time -----------------------------------------------------------------------------------

    /// Runs the world until `happened` is true.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, mut happened: impl FnMut() -> bool) {
        let kernel = self.cluster.kernel();
        let end = kernel.run_until(kernel.now() + LIMIT, || {
            self.look();
            happened()
        });
        assert_eq!(end, RunEnd::Done, "seed {}: {what}: never\n{}", self.seed, self.tell());
    }

    /// Runs the world until a task has ended.
    #[track_caller]
    pub(crate) fn end<T: 'static>(&self, task: JoinHandle<T>) -> T {
        self.until("the task ends", || task.is_finished());
        let result = task.take().expect("just ended");
        result.unwrap_or_else(|_| panic!("seed {}: nobody aborted the task", self.seed))
    }

    /// Runs `events` events, or fewer if `enough` is true earlier.
    pub(crate) fn steps(&self, events: usize, mut enough: impl FnMut() -> bool) {
        for _ in 0..events {
            if enough() || !self.cluster.kernel().step() {
                return;
            }
            self.look();
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.cluster.kernel().now()
    }

    /// Runs the world for `time`.
    pub(crate) fn pass(&self, time: Duration) {
        let kernel = self.cluster.kernel();
        kernel.run_until(kernel.now() + time, || {
            self.look();
            false
        });
    }

    // ---- gates ----------------------------------------------------------------------------------

    /// Holds posts about `line` on this leg if `chosen` selects them.
    pub(crate) fn hold(
        &self,
        leg: Leg,
        line: GlobalAddr,
        chosen: impl Fn(usize, &Act) -> bool + 'static,
    ) -> Gate {
        let lines = self.lines.clone();
        self.sim().gate(move |passing| {
            passing.leg == leg
                && read(&lines, passing)
                    .is_some_and(|(about, from, act)| about == line && chosen(from, &act))
        })
    }

    // ---- records --------------------------------------------------------------------------------

    /// The posts about `line` so far that `chosen` selects.
    pub(crate) fn posted(
        &self,
        line: GlobalAddr,
        chosen: impl Fn(usize, &Act) -> bool,
    ) -> Vec<(usize, Act)> {
        let log = self.log.borrow();
        let entries =
            log.iter().filter(|(_, about, from, act)| *about == line && chosen(*from, act));
        entries.map(|(_, _, from, act)| (*from, act.clone())).collect()
    }

    /// The number of posts about `line` that `chosen` selects.
    pub(crate) fn count(&self, line: GlobalAddr, chosen: impl Fn(usize, &Act) -> bool) -> usize {
        self.posted(line, chosen).len()
    }

    /// The latch word of `line`.
    pub(crate) fn word(&self, line: GlobalAddr) -> LatchWord {
        self.word_at(self.geometry().latch_addr(line))
    }

    /// All values of the latch word of `line`, in order.
    pub(crate) fn words(&self, line: GlobalAddr) -> Vec<LatchWord> {
        self.lines.borrow()[&self.geometry().latch_addr(line)].words.clone()
    }

    /// The payload of `line` in its memory node.
    pub(crate) fn memory(&self, line: GlobalAddr) -> Vec<u64> {
        let memory = self.cluster.fabric().memory(line.node()).expect("a memory node");
        let start = line.offset() as usize;
        let payload = start + latchwork_cache::LINE_HEADER..start + 512;
        let words = memory.words().slice(payload);
        (0..words.len() / 8).map(|i| words.word(i)).collect()
    }

    /// The state of a node's frame for `line`.
    pub(crate) fn frame(&self, node: usize, line: GlobalAddr) -> Option<FrameState> {
        let cache = self.node(node).cache();
        cache.find(line).map(|id| cache.frame(id).state())
    }

    /// The ownership of a node for `line`.
    pub(crate) fn owns(&self, node: usize, line: GlobalAddr) -> Ownership {
        self.frame(node, line).map_or(Ownership::Invalid, FrameState::ownership)
    }

    pub(crate) fn geometry(&self) -> latchwork_memnode::Geometry {
        self.cluster.config().check().expect("checked before")
    }

    fn word_at(&self, latch: GlobalAddr) -> LatchWord {
        let memory = self.cluster.fabric().memory(latch.node()).expect("a memory node");
        LatchWord::from_bits(memory.words().u64(latch.offset() as usize))
    }

    /// Checks the invariants after every event.
    fn look(&self) {
        check_step(&self.cluster, self.seed);
        for (latch, watched) in self.lines.borrow_mut().iter_mut() {
            let (old, new) = (*watched.words.last().expect("at least one"), self.word_at(*latch));
            if old != new {
                let seed = self.seed;
                let by_pledge = self.takeover() && is_taken_over(old, new);
                assert!(
                    is_legal(old, new) || by_pledge,
                    "seed {seed}: {} went {old:?} -> {new:?}",
                    watched.line
                );
                watched.words.push(new);
            }
        }
    }

    fn tell(&self) -> String {
        let mut text = String::new();
        for watched in self.lines.borrow().values() {
            text += &format!("{}: {:?}\n", watched.line, watched.words);
        }
        for (at, line, from, act) in self.log.borrow().iter() {
            let node = (b'A' + *from as u8) as char;
            text += &format!("  {at:?} {line} {node}: {act:?}\n");
        }
        text
    }

    /// Ends a scenario in which a node was lost, so that some lines stay in progress. The workers
    /// of living nodes leave. Workers of dead nodes do not run any more.
    pub(crate) fn abandon(mut self) {
        for worker in 0..self.workers.len() {
            let place = self.workers[worker].as_ref().map(|(_, member)| member.node);
            if place.is_some_and(|node| !self.cluster.is_dead(node)) {
                self.leave(worker);
            }
        }
    }

    /// Ends a scenario: the workers leave, and all operations end. Checks that the caches agree
    /// with the words.
    pub(crate) fn finish(self) {
        let mut stage = self;
        for worker in 0..stage.workers.len() {
            if stage.workers[worker].is_some() {
                stage.leave(worker);
            }
        }
        stage.pass(Duration::from_millis(20));
        check_at_rest(&stage.cluster, stage.seed);
        for watched in stage.lines.borrow().values() {
            let nodes = (0..stage.cluster.nodes().len()).map(|node| {
                let word = match stage.owns(node, watched.line) {
                    Ownership::Invalid => LatchWord::FREE,
                    Ownership::Shared => LatchWord::shared_by(id(node)),
                    Ownership::Exclusive => LatchWord::exclusively(id(node)),
                };
                word.bits()
            });
            let held = nodes.fold(LatchWord::FREE, LatchWord::plus);
            assert_eq!(stage.word(watched.line), held, "seed {}: {}", stage.seed, watched.line);
        }
        for node in stage.cluster.nodes() {
            for (line, _) in node.cache().lines() {
                let frame = node.cache().find(line).expect("listed");
                assert!(!node.cache().frame(frame).is_reserved(), "{line} is still reserved");
            }
        }
    }
}

fn fabric(cluster: &Simulated) -> latchwork_verbs_sim::SimFabric {
    match cluster.fabric() {
        AnyFabric::Sim(fabric) => fabric.clone(),
        _ => unreachable!("a simulated cluster"),
    }
}

// ---- bytes --------------------------------------------------------------------------------------

/// Writes `value` into every word of the line.
pub(crate) fn fill(guard: &mut WriteGuard<'_>, value: u64) {
    let words = guard.words();
    let len = words.len();
    (0..len / 8).for_each(|i| words.set_word(i, value));
    guard.mark_dirty(0..len);
}

/// The value of every word of the line.
pub(crate) fn value(words: Words<'_>) -> u64 {
    let first = words.word(0);
    (1..words.len() / 8).find(|&i| words.word(i) != first).map_or(first, |_| u64::MAX)
}
