//! Runs a world: starts its cluster, drives it from the first event to the end, and makes the
//! report.
//!
//! ```text
//!   start ─► set up ─► work ───────────────────► inspect ─► leave ─► settle ─► check
//!                      │ faults happen │ healed  │           │         │         │
//!                      0            until        │           │         │         │
//!   after every event: owners, values            │           └─ leaks ─┘         └ histories, tree
//!   in between: no operation takes too long      └ every live node reads all data
//! ```

mod deaths;
mod injected_faults;
mod observer;
mod order;
mod survivors;

pub(crate) use observer::{Failing, Observer, Process};

use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::time::Duration;

use latchwork_blink::TreeStatistics;
use latchwork_cluster::{ClusterError, Member, Simulated};
use latchwork_coherence::MemoryError;
use latchwork_runtime::{JoinHandle, VirtualWorker};
use latchwork_simulation::{RunEnd, Time};
use latchwork_verbs::VerbError;
use latchwork_verbs_sim::Faults;

use crate::checks::{Verdict, leaks, steps::Steps};
use crate::workloads;
use crate::workloads::load::{Load, Phase, Running};
use crate::{
    Checks, NodeFaults, Scenario, SeededBug, Trace, WorldCheck, WorldFailure, WorldReport,
};
use deaths::{Agenda, Coming, Deaths, Reaction};
use injected_faults::{Strike, strikes};

/// Runs a world to its end, or to its first failure. A panic inside the world is a failure of the
/// report.
pub fn run(scenario: &Scenario) -> WorldReport {
    drive(scenario, None)
}

/// As [`run`], and records the events in `trace`.
pub fn run_traced(scenario: &Scenario, trace: &mut Trace) -> WorldReport {
    drive(scenario, Some(trace.clone()))
}

fn drive(scenario: &Scenario, trace: Option<Trace>) -> WorldReport {
    if let Err(error) = scenario.check() {
        let failure =
            WorldFailure { check: WorldCheck::Scenario, text: error.to_string(), at: Time::ZERO };
        return WorldReport { failure: Some(failure), ..WorldReport::of_seed(scenario.seed) };
    }
    let observer = Rc::new(Observer::new(scenario, trace));
    let place = RefCell::new(None);
    let work = || match World::start(scenario, &observer) {
        Ok(world) => {
            *place.borrow_mut() = Some(world.clone());
            if let Err((check, text)) = world.run() {
                observer.fail(check, text);
            }
        }
        Err(text) => observer.fail(WorldCheck::Scenario, text),
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
        observer.fail(WorldCheck::Panic, panic_text(&*panic));
        // After a panic the world may be in any state. Dropping the world could panic again and end
        // the whole program. So the world is leaked. Worlds that panic are few.
        std::mem::forget(place.borrow_mut().take());
    }
    let world = place.into_inner();
    let node_faults = world.as_ref().map(|world| world.node_faults.get());
    let tree = world.as_ref().and_then(|world| world.tree.take());
    let undecided = world.as_ref().map_or(0, |world| world.undecided.get());
    WorldReport { undecided, ..observer.report(node_faults.unwrap_or_default(), tree) }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
    text.unwrap_or_else(|| "a panic without a text".to_owned())
}

/// The limit for the set-up of the workload, in virtual time.
const SET_UP_LIMIT: Duration = Duration::from_secs(60);

/// The interval, in virtual time, of the check for operations that take too long.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Virtual time at the end in which messages in flight arrive.
const SETTLE: Duration = Duration::from_millis(50);

/// The maximum number of events of a world is this number, plus an allowance for each operation. A
/// world with more events counts as one without progress. Measured worlds need less than a third of
/// the maximum.
///
/// Worlds that lose messages have the most events. After a lost message, a node may request a line
/// in vain until its deadline. In ten milliseconds, the node repeats the request about three
/// hundred times. Each request has about ten events for each receiver.
const EVENTS_MAX: u64 = 1_000_000;
const EVENTS_PER_OPERATION_MAX: u64 = 4_000;

/// The number of bytes that READs and WRITEs copy when payloads are elided. The memory pool and the
/// headers of lines need these bytes.
const ELIDED: u32 = 512;

/// The error of a step after the observer has recorded a failure.
struct Failed;

struct World {
    scenario: Scenario,
    observer: Rc<Observer>,
    load: Rc<dyn Load>,
    cluster: Simulated,
    steps: RefCell<Steps>,
    workers: RefCell<Vec<(VirtualWorker, Member)>>,
    /// The workers of nodes that others have replaced.
    replaced: RefCell<Vec<(VirtualWorker, Member)>>,
    /// The tasks of the nodes that have replaced others.
    late: RefCell<Vec<(usize, JoinHandle<()>)>>,
    node_faults: Cell<NodeFaults>,
    deaths: Deaths,
    /// For each node, the number of lost frames at the time when all nodes had been notified. A
    /// lost frame waits for an answer of a lost node.
    lost_frames: RefCell<Vec<usize>>,
    tree: RefCell<Option<TreeStatistics>>,
    /// Keys for which the check of linearizability gave up.
    undecided: Cell<u64>,
}

impl World {
    fn start(scenario: &Scenario, observer: &Rc<Observer>) -> Result<Rc<World>, String> {
        let mut network = scenario.network.config().map_err(|error| error.to_string())?;
        network.payload_max = scenario.elide_payloads.then_some(ELIDED);
        network.whole_write = scenario.whole_write();
        network.tells_unsent = scenario.tells_unsent();
        network.strands = scenario.plant == Some(SeededBug::StrandsBatches);
        let cluster = Simulated::start(scenario.config(), network).map_err(|e| e.to_string())?;
        observer.attach(&cluster);
        let mut workers = Vec::new();
        for node in 0..scenario.compute_nodes {
            for worker in 0..scenario.workers {
                let place = (node, worker, node * scenario.workers + worker);
                workers.push(cluster.start_worker(place).map_err(|error| error.to_string())?);
            }
        }
        Ok(Rc::new(World {
            scenario: scenario.clone(),
            observer: observer.clone(),
            load: workloads::load(scenario, observer)?,
            steps: RefCell::new(Steps::new(&cluster)),
            cluster,
            workers: RefCell::new(workers),
            replaced: RefCell::default(),
            late: RefCell::default(),
            node_faults: Cell::default(),
            deaths: Deaths::new(scenario),
            lost_frames: RefCell::default(),
            tree: RefCell::default(),
            undecided: Cell::new(0),
        }))
    }

    fn run(&self) -> Verdict {
        // The observer has the failure.
        if self.live().is_err() {
            return Ok(());
        }
        self.go_on(self.now() + SETTLE, &|| false).ok();
        if self.scenario.checks == Checks::None {
            return Ok(());
        }
        self.check_rest()?;
        let (tree, judged) = self.load.judge();
        self.tree.replace(tree);
        self.undecided.set(judged?);
        Ok(())
    }

    fn live(&self) -> Result<(), Failed> {
        self.set_up()?;
        self.work()?;
        self.finish()?;
        self.inspect()?;
        if self.has_survivors() {
            self.press()?;
            // A lost memory node cannot be written, so this check cannot succeed.
            if !self.scenario.loses_memory() {
                self.check_epochs()?;
            }
        }
        self.leave()
    }

    // ---- phases ---------------------------------------------------------------------------------

    fn set_up(&self) -> Result<(), Failed> {
        let member = self.workers.borrow()[0].1.clone();
        let process = Process::new(&member, 0, &self.scenario);
        let set_up = self.phase(Phase::SetUp, member.clone(), process);
        let task = member.handle.spawn_service(set_up);
        match self.step_until(self.now() + SET_UP_LIMIT, &|| task.is_finished())? {
            RunEnd::Done => Ok(()),
            end => self.failed(WorldCheck::Error, format!("setting up failed: {end:?}")),
        }
    }

    fn work(&self) -> Result<(), Failed> {
        let tasks =
            self.spawn(|_| true, |member, process| self.phase(Phase::Task, member, process));
        let plan = &self.scenario.faults;
        let begin = self.now();
        if plan.any() {
            self.cluster.network().set_faults(plan.by_chance());
            let strikes = strikes(&self.scenario);
            let mut agenda = Agenda::new();
            for (at, strike) in &strikes {
                deaths::add(&mut agenda, *at, Coming::Strike(*strike));
            }
            // Reactions to faults may come after the last fault, so the agenda is followed to its
            // end.
            self.follow(begin, &mut agenda, plan.until())?;
            self.go_on(begin + plan.until(), &|| false)?;
            self.cluster.network().set_faults(Faults::NONE);
            strikes.into_iter().for_each(|(_, strike)| strike.heal(&self.cluster));
            self.follow(begin, &mut agenda, Duration::MAX)?;
            self.all_notified()?;
        }
        self.all_end(&tasks)?;
        self.all_end(&self.late.take())?;
        self.reclaim()
    }

    /// Runs the world, and carries out all entries of the agenda before `until`. Times count from
    /// `begin`.
    fn follow(&self, begin: Time, agenda: &mut Agenda, until: Duration) -> Result<(), Failed> {
        while let Some(next) = agenda.first_entry() {
            let (at, _) = *next.key();
            if at >= until {
                break;
            }
            let coming = next.remove();
            self.go_on(begin + at, &|| false)?;
            match coming {
                Coming::Strike(strike) => self.strike(at, strike, agenda),
                Coming::Reaction(reaction) => self.react(at, reaction, agenda)?,
            }
        }
        Ok(())
    }

    fn strike(&self, at: Duration, strike: Strike, agenda: &mut Agenda) {
        let mut counts = self.node_faults.get();
        strike.hit(&self.cluster, &mut counts);
        self.node_faults.set(counts);
        let (node, text) = strike.notified();
        self.observer.note_of_node(node, text);
        if let Strike::LostMemory { node } = strike {
            self.observer.is_lost(node);
        }
        if let Some(node) = strike.loses_node() {
            self.observer.is_gone(node, !self.cluster.is_dead(node));
            if self.scenario.recovers() {
                // Lines may return to what other nodes last knew.
                self.steps.borrow().lines().for_each(|line| self.observer.tell(line, None));
            }
            if self.scenario.has_compute_homes() {
                self.observer.is_lost(node);
            }
            self.deaths.gone(&self.cluster, at, node, agenda);
        }
    }

    fn react(&self, at: Duration, reaction: Reaction, agenda: &mut Agenda) -> Result<(), Failed> {
        let reclaims = matches!(reaction, Reaction::Reclaim { .. });
        if reclaims && self.scenario.plant == Some(SeededBug::BuriesNobody) {
            return Ok(());
        }
        if self.deaths.react(&self.cluster, at, reaction, agenda) {
            let (node, text) = reaction.notified();
            self.observer.note_of_node(node, text);
            if let Reaction::Replace { dead } = reaction {
                return self.replace(dead);
            }
        }
        Ok(())
    }

    /// Starts another node under the id of a dead one, with the same work.
    fn replace(&self, dead: usize) -> Result<(), Failed> {
        let wrong = |error: ClusterError| {
            self.observer.fail(WorldCheck::Error, format!("C{} joins: {error}", dead + 1));
            Failed
        };
        self.observer.is_replaced(dead);
        let mut counts = self.node_faults.get();
        counts.replacements += 1;
        self.node_faults.set(counts);
        // The nodes with which the world has started have the epoch 1.
        let building = self.cluster.replace(dead, 1 + counts.replacements).map_err(wrong)?;
        // A node ends when its connection fails while it joins, so no batch fails meanwhile.
        let network = self.cluster.network();
        let faults = network.faults();
        network.set_faults(Faults { fail_one_in: 0, ..faults });
        let built = self.go_on(Time::MAX, &|| building.is_over());
        network.set_faults(faults);
        built?;
        self.cluster.join(dead, building).map_err(wrong)?;
        self.steps.borrow_mut().replace(dead, self.cluster.node(dead));
        self.observer.replaces(dead, self.cluster.node(dead));
        self.deaths.joins(&self.cluster, dead);
        let number = self.scenario.compute_nodes + counts.replacements as usize - 1;
        let mut workers = self.workers.borrow_mut();
        let is_old = |(_, member): &mut (VirtualWorker, Member)| member.node == dead;
        self.replaced.borrow_mut().extend(workers.extract_if(.., is_old));
        let begin = workers.len();
        for worker in 0..self.scenario.workers {
            let place = (dead, worker, number * self.scenario.workers + worker);
            workers.push(self.cluster.start_worker(place).map_err(wrong)?);
        }
        let started: Vec<_> = workers[begin..].iter().map(|(_, member)| member.clone()).collect();
        drop(workers);
        let body = |member, process| self.phase(Phase::Task, member, process);
        self.late.borrow_mut().extend(self.spawn_on(&started, |_| true, body));
        Ok(())
    }

    /// Waits until all reclaims of lost nodes have ended, and counts them.
    fn reclaim(&self) -> Result<(), Failed> {
        let over = || self.deaths.are_over(&self.cluster);
        if !self.go_on(Time::MAX, &over)? {
            return self.failed(WorldCheck::Starvation, "a reclaim has no end".to_owned());
        }
        // A lost memory node cannot be written, so this check cannot succeed.
        if self.scenario.loses_memory() || self.scenario.plant == Some(SeededBug::BuriesNobody) {
            return Ok(());
        }
        match self.deaths.reclaimed(&self.cluster) {
            Ok(reclaims) => {
                self.node_faults.set(NodeFaults { reclaims, ..self.node_faults.get() });
                Ok(())
            }
            Err(text) => self.failed(WorldCheck::Leak, text),
        }
    }

    fn finish(&self) -> Result<(), Failed> {
        let first = |process: Process| process.task == 0;
        let tasks = self.spawn(first, |member, process| self.phase(Phase::Finish, member, process));
        self.all_end(&tasks)
    }

    fn inspect(&self) -> Result<(), Failed> {
        let first = |process: Process| process.worker == 0 && process.task == 0;
        let tasks =
            self.spawn(first, |member, process| self.phase(Phase::Inspect, member, process));
        self.all_end(&tasks)
    }

    /// Ends each worker as a program does: the worker leaves the cluster, and runs no more.
    fn leave(&self) -> Result<(), Failed> {
        // After the loss of a memory node, no node can publish its epoch, and each attempt fails at
        // its deadline.
        let lost = self.scenario.loses_memory();
        let first = |process: Process| process.task == 0;
        let observer = self.observer.clone();
        let may_stay = self.load.may_stay();
        // A transaction that faults keep from its end goes on in an operation of its own.
        let stays = move |member: &Member| lost || may_stay && member.handle.finishers() > 0;
        let tasks = self.spawn(first, move |member, process| {
            let observer = observer.clone();
            async move {
                match member.memory.clone().leave().await {
                    Ok(()) => {}
                    Err(MemoryError::Stuck { .. }) if stays(&member) => {}
                    // The node has lost its lease, so its verbs fail.
                    Err(MemoryError::Fabric(VerbError::SelfFenced))
                        if observer.has_lapsed(member.node) => {}
                    // No other error is permitted here.
                    Err(error) => observer.fail(WorldCheck::Leak, format!("{process}: {error}")),
                }
            }
        });
        let mut workers = self.workers.take();
        workers.retain(|(_, member)| !self.cluster.is_dead(member.node));
        let leaving: Vec<_> = tasks.into_iter().map(|(_, task)| task).zip(workers).collect();
        let leaving = RefCell::new(leaving);
        let all_gone = || {
            // A worker that has left still runs until it has nothing in flight, because no other
            // worker could take its completions. With all memory nodes, the check waits until the
            // worker's futures have taken their results, one sweep after the completion.
            leaving.borrow_mut().retain(|(task, (_, member))| {
                let (port, stays) = (member.memory.port(), stays(member));
                let open = if stays { port.in_flight() } else { port.operations() };
                let gone = task.is_finished() && open == 0;
                if let (true, Err((check, text))) = (gone && !stays, leaks::check_worker(member)) {
                    self.observer.fail(check, text);
                }
                !gone
            });
            leaving.borrow().is_empty()
        };
        if self.go_on(Time::MAX, &all_gone)? {
            return Ok(());
        }
        for (task, (_, member)) in leaving.borrow().iter() {
            if let (true, Err((check, text))) = (task.is_finished(), leaks::check_worker(member)) {
                self.failed(check, text)?;
            }
        }
        self.failed(WorldCheck::Starvation, "workers do not leave, and nothing happens".to_owned())
    }

    /// Checks nodes, owners and lines after all workers have left.
    fn check_rest(&self) -> Verdict {
        for at in (0..self.cluster.nodes().len()).filter(|at| !self.cluster.is_dead(*at)) {
            // A node without a lease finishes no transaction.
            let keeps = self.load.keeps_locks(at) || self.cluster.has_lapsed(at);
            leaks::check_node(&self.cluster.node(at), keeps)?;
        }
        if self.scenario.may_fail_operations() {
            return Ok(());
        }
        leaks::check_owners(&self.cluster)?;
        self.load
            .lines_in_use()
            .map_or(Ok(()), |known| leaks::check_lines(self.cluster.nodes(), known))
    }

    // ---- time -----------------------------------------------------------------------------------

    fn now(&self) -> Time {
        self.cluster.kernel().now()
    }

    fn failed(&self, check: WorldCheck, text: String) -> Result<(), Failed> {
        self.observer.fail(check, text);
        Err(Failed)
    }

    /// Runs the world until `deadline` or until `done` returns true. Runs the checks after every
    /// event, if the scenario wants them.
    fn step_until(&self, deadline: Time, done: &dyn Fn() -> bool) -> Result<RunEnd, Failed> {
        let mut steps = self.steps.borrow_mut();
        let kernel = self.cluster.kernel();
        let every_step = self.scenario.checks == Checks::All;
        let end = kernel.run_until(deadline, || {
            if every_step && let Err((check, text)) = steps.check(&self.cluster, &self.observer) {
                self.observer.fail(check, text);
            }
            self.deaths.go_on(&self.cluster, &|node, text| self.observer.note_of_node(node, text));
            self.observer.has_failed() || done()
        });
        if self.observer.has_failed() {
            return Err(Failed);
        }
        Ok(end)
    }

    /// As [`step_until`](World::step_until). Fails also when an operation takes too long, and when
    /// the world has too many events. Returns whether `done` returned true.
    fn go_on(&self, deadline: Time, done: &dyn Fn() -> bool) -> Result<bool, Failed> {
        let operations = self.scenario.total_operations();
        let events_max = EVENTS_MAX + operations * EVENTS_PER_OPERATION_MAX;
        loop {
            let end = self.step_until(deadline.min(self.now() + LOOK_EVERY), done)?;
            if let Some(text) =
                self.observer.overdue(self.now(), |node| !self.observer.is_over(node))
            {
                self.failed(WorldCheck::Starvation, text)?;
            }
            let events = self.cluster.kernel().events();
            match end {
                RunEnd::Done => return Ok(true),
                RunEnd::Quiet => return Ok(done()),
                _ if self.now() >= deadline => return Ok(false),
                RunEnd::Deadline if events < events_max => {}
                _ => {
                    let open = self.observer.open_operations();
                    let text = format!("{events} events, and no end:{open}");
                    self.failed(WorldCheck::Starvation, text)?;
                }
            }
        }
    }

    fn all_end(&self, tasks: &[(usize, JoinHandle<()>)]) -> Result<(), Failed> {
        let open = Cell::new(0);
        let all = || {
            let ended = |(node, task): &(usize, JoinHandle<()>)| {
                task.is_finished() || self.observer.is_over(*node)
            };
            while tasks.get(open.get()).is_some_and(ended) {
                open.set(open.get() + 1);
            }
            open.get() == tasks.len()
        };
        if self.go_on(Time::MAX, &all)? {
            return Ok(());
        }
        let open = self.observer.open_operations();
        self.failed(WorldCheck::Starvation, format!("nothing happens any more:{open}"))
    }

    fn phase(&self, phase: Phase, member: Member, process: Process) -> Running {
        self.load.clone().run(phase, member, process)
    }

    /// Spawns a future for each chosen task of the live nodes.
    fn spawn<F: Future<Output = ()> + 'static>(
        &self,
        which: impl Fn(Process) -> bool,
        body: impl Fn(Member, Process) -> F,
    ) -> Vec<(usize, JoinHandle<()>)> {
        let workers = self.workers.borrow();
        let living = workers.iter().map(|(_, member)| member);
        let living = living.filter(|member| !self.cluster.is_dead(member.node));
        let living: Vec<_> = living.cloned().collect();
        drop(workers);
        self.spawn_on(&living, which, body)
    }

    /// As [`spawn`](World::spawn), on these workers. Returns each task with the number of its node.
    fn spawn_on<F: Future<Output = ()> + 'static>(
        &self,
        members: &[Member],
        which: impl Fn(Process) -> bool,
        body: impl Fn(Member, Process) -> F,
    ) -> Vec<(usize, JoinHandle<()>)> {
        let process = |member, task| Process::new(member, task, &self.scenario);
        let mut spawned = Vec::new();
        for member in members {
            for process in (0..self.scenario.tasks).map(|task| process(member, task)) {
                if which(process) {
                    let task = member.handle.spawn(body(member.clone(), process));
                    spawned.push((process.node, task));
                }
            }
        }
        spawned
    }
}

impl Observer {
    fn report(&self, node_faults: NodeFaults, tree: Option<TreeStatistics>) -> WorldReport {
        let (hash, events, now) = self.totals();
        let (verbs, faults) = self.network_counts();
        WorldReport {
            seed: self.seed(),
            hash,
            events,
            verbs,
            virtual_time: now - Time::ZERO,
            operations: self.operations(),
            clean_errors: self.clean_errors(),
            undecided: 0,
            faults,
            node_faults,
            tree,
            failure: self.first_failure(),
        }
    }
}
