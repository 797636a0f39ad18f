//! [`Observer`]: receives the reports of the workload, and keeps the first failure.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use latchwork_blink::TreeError;
use latchwork_cluster::{Member, Node, Simulated, agent};
use latchwork_coherence::MemoryError;
use latchwork_rtree::RTreeError;
use latchwork_runtime::Handle;
use latchwork_simulation::{Kernel, Time};
use latchwork_txn::TxnError;
use latchwork_verbs::{GlobalAddr, MemoryNodeId, Target, VerbError};
use latchwork_verbs_sim::{FaultCounts, SimFabric};

use crate::checks::listed;
use crate::{Checks, FaultPlan, Scenario, Trace, WorldCheck, WorldFailure};

/// A task of the workload, which executes one operation after the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Process {
    /// The number of the task among all tasks of the world, from 1.
    pub(crate) number: u32,
    /// The node. One that has replaced another one under its id has a number above those of all
    /// nodes with which the world has started.
    pub(crate) node: usize,
    /// The index of the node in the cluster.
    pub(crate) place: usize,
    pub(crate) worker: usize,
    pub(crate) task: usize,
}

impl Process {
    pub(crate) fn new(member: &Member, task: usize, scenario: &Scenario) -> Process {
        let number = 1 + (member.index * scenario.tasks + task) as u32;
        let node = member.index / scenario.workers;
        Process { number, node, place: member.node, worker: member.worker, task }
    }

    /// A task of the first worker of a node that reads all data after the work. This task has the
    /// number of the node's first task.
    pub(crate) fn looking(member: &Member, scenario: &Scenario) -> Process {
        let node = member.index / scenario.workers;
        let number = 1 + (node * scenario.workers * scenario.tasks) as u32;
        Process { number, node, place: member.node, worker: 0, task: 0 }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Process { number, place: node, worker, .. } = self;
        // Messages count nodes from 1, like latch words.
        write!(f, "task {number} (node {}, worker {worker})", node + 1)
    }
}

/// What the observer needs to know about an error of an operation.
pub(crate) trait Failing: fmt::Display {
    /// The error of the memory that caused this error, if there is one.
    fn of_memory(&self) -> Option<&MemoryError>;

    /// Whether others were faster for too long.
    fn is_starved(&self) -> bool;

    /// Whether a deadline has passed.
    fn is_timeout(&self) -> bool {
        self.is_starved() || matches!(self.of_memory(), Some(MemoryError::Timeout { .. }))
    }

    /// Whether an operation may end with this error in a world that loses nodes, messages or
    /// connections. For an error of the fabric, a lost node must also explain it.
    fn is_clean(&self) -> bool {
        self.is_timeout()
            || matches!(self.of_memory(), Some(MemoryError::Pool(_) | MemoryError::Fabric(_)))
    }

    /// Whether the index itself is at fault, and not what is below it.
    fn is_of_index(&self) -> bool {
        self.of_memory().is_none()
    }

    /// The error of the fabric that caused this error, if there is one.
    fn of_fabric(&self) -> Option<VerbError> {
        match self.of_memory() {
            Some(MemoryError::Fabric(error)) => Some(*error),
            _ => None,
        }
    }
}

impl Failing for MemoryError {
    fn of_memory(&self) -> Option<&MemoryError> {
        Some(self)
    }

    fn is_starved(&self) -> bool {
        false
    }
}

macro_rules! error_of_index {
    ($error:ident) => {
        impl Failing for $error {
            fn of_memory(&self) -> Option<&MemoryError> {
                if let $error::Memory(error) = self { Some(error) } else { None }
            }

            fn is_starved(&self) -> bool {
                matches!(self, $error::Starved { .. })
            }
        }
    };
}

error_of_index!(TreeError);
error_of_index!(RTreeError);

impl Failing for TxnError {
    fn of_memory(&self) -> Option<&MemoryError> {
        self.memory()
    }

    fn is_starved(&self) -> bool {
        match self {
            TxnError::Contended { .. } | TxnError::Starved { .. } => true,
            TxnError::Tree(error) => error.is_starved(),
            _ => false,
        }
    }
}

/// An operation in progress.
struct Open {
    what: &'static str,
    on: String,
    since: Time,
    limit: Duration,
}

/// Receives the reports of the workload, and keeps the first failure. All tasks of one world share
/// the observer.
pub(crate) struct Observer {
    seed: u64,
    may_fail: bool,
    /// The locks of a dead node end.
    ends_locks: bool,
    checks: Checks,
    deadline: Duration,
    /// The time that an operation may take beyond its deadlines.
    margin: Duration,
    kernel: OnceCell<Kernel>,
    network: OnceCell<SimFabric>,
    trace: Option<Trace>,
    failure: RefCell<Option<WorldFailure>>,
    open: RefCell<BTreeMap<Process, Open>>,
    notified: RefCell<Vec<(GlobalAddr, Option<u64>)>>,
    operations: Cell<u64>,
    clean_errors: Cell<u64>,
    /// The lost nodes. Verbs to a lost node may fail.
    gone: RefCell<Gone>,
    /// The function to call after every successful operation.
    on_end: RefCell<Option<OnEnd>>,
}

type OnEnd = Box<dyn Fn(Process)>;

/// The lost nodes. Verbs to a lost node may fail.
#[derive(Default)]
struct Gone {
    compute: Vec<usize>,
    memory: Vec<usize>,
    /// The compute nodes that run without a lease.
    lapsed: Vec<usize>,
    /// The time of each loss of a compute node.
    since: BTreeMap<usize, Time>,
}

impl Gone {
    /// Whether lost nodes explain this error of the fabric in an operation of a task on `node`.
    fn explains(&self, node: usize, error: VerbError) -> bool {
        let is_lapsed = self.lapsed.contains(&node);
        match error {
            VerbError::SelfFenced => is_lapsed,
            // Any other node may have fenced this node.
            VerbError::Disconnected { .. } if is_lapsed => true,
            VerbError::Disconnected { target } | VerbError::Unreachable { target } => {
                match target {
                    Target::Compute(id, _) => {
                        // The agent of a memory node is lost with it.
                        let is_agent =
                            |memory: &usize| agent(MemoryNodeId(*memory as u16)) == Some(id);
                        self.compute.contains(&id.index()) || self.memory.iter().any(is_agent)
                    }
                    Target::Memory(id) => self.memory.contains(&usize::from(id.0)),
                }
            }
            VerbError::Ambiguous { .. } => true,
            _ => false,
        }
    }
}

impl Observer {
    pub(crate) fn new(scenario: &Scenario, trace: Option<Trace>) -> Observer {
        Observer {
            seed: scenario.seed,
            may_fail: scenario.may_fail_operations(),
            ends_locks: scenario.protocol.has_homes() || scenario.recovers(),
            checks: scenario.checks,
            deadline: Duration::from_micros(scenario.deadline_us),
            margin: margin(&scenario.faults),
            kernel: OnceCell::new(),
            network: OnceCell::new(),
            trace,
            failure: RefCell::default(),
            open: RefCell::default(),
            notified: RefCell::default(),
            operations: Cell::new(0),
            clean_errors: Cell::new(0),
            gone: RefCell::default(),
            on_end: RefCell::default(),
        }
    }

    pub(super) fn attach(&self, cluster: &Simulated) {
        let _ = self.kernel.set(cluster.kernel().clone());
        let _ = self.network.set(cluster.network().clone());
        if let Some(trace) = &self.trace {
            trace.attach(cluster);
        }
    }

    fn now(&self) -> Time {
        self.kernel.get().map_or(Time::ZERO, Kernel::now)
    }

    /// The time to record for a call. In a world this is the world's time, because it orders all
    /// effects. A worker's own clock is ahead of it by the cost of the worker's polling.
    pub(crate) fn time(&self, handle: &Handle) -> Time {
        self.kernel.get().map_or_else(|| handle.now(), Kernel::now)
    }

    /// Whether all workers of the cluster report to this observer. So it is in a world, and not on
    /// threads.
    pub(crate) fn sees_all(&self) -> bool {
        self.kernel.get().is_some()
    }

    /// Whether the node is dead and its locks may have ended without its knowledge.
    pub(crate) fn outlives_locks_of(&self, node: usize) -> bool {
        self.ends_locks && self.gone.borrow().compute.contains(&node)
    }

    // ---- failures -------------------------------------------------------------------------------

    /// Records a failure. The first failure counts.
    pub(crate) fn fail(&self, check: WorldCheck, text: String) {
        // Such a world may have elided payloads, so these two checks would fail without a bug.
        if self.checks == Checks::None && matches!(check, WorldCheck::Values | WorldCheck::Leak) {
            return;
        }
        let at = self.now();
        self.failure.borrow_mut().get_or_insert(WorldFailure { check, text, at });
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub(crate) fn first_failure(&self) -> Option<WorldFailure> {
        self.failure.borrow().clone()
    }

    // ---- reports of the workload ----------------------------------------------------------------

    /// Runs one operation of a task. The operation waits for at most `accesses` lines, which gives
    /// its time limit. `what` and `on` describe it in messages. Returns the answer, or `None` after
    /// an error. An error that is not permitted becomes the failure.
    pub(crate) async fn operation<T, E: Failing>(
        &self,
        process: Process,
        (what, on, accesses): (&'static str, String, u32),
        work: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        self.note(process, || format!("{what} {on}"));
        let (since, limit) = (self.now(), self.deadline * accesses + self.margin);
        self.open.borrow_mut().insert(process, Open { what, on, since, limit });
        let end = work.await;
        let Some(Open { on, .. }) = self.open.borrow_mut().remove(&process) else {
            unreachable!("a task does one operation at a time")
        };
        match end {
            Ok(answer) => {
                self.operations.set(self.operations.get() + 1);
                self.note(process, || format!("{what} {on}: done"));
                if let Some(told) = &*self.on_end.borrow() {
                    told(process);
                }
                Some(answer)
            }
            Err(error) => {
                self.note(process, || format!("{what} {on}: {error}"));
                let explained = error.of_fabric().is_none_or(|error| {
                    !self.sees_all() || self.gone.borrow().explains(process.node, error)
                });
                let may_fail = self.may_fail || self.has_lapsed(process.node);
                if may_fail && explained && error.is_clean() {
                    self.clean_errors.set(self.clean_errors.get() + 1);
                } else {
                    let check =
                        if error.is_timeout() { WorldCheck::Starvation } else { WorldCheck::Error };
                    self.fail(check, format!("{process}: {what} {on}: {error}"));
                }
                None
            }
        }
    }

    /// Records the loss of a compute node. With `runs` the node has lost its lease and keeps
    /// running.
    pub(super) fn is_gone(&self, node: usize, runs: bool) {
        let (now, mut gone) = (self.now(), self.gone.borrow_mut());
        gone.compute.push(node);
        gone.since.insert(node, now);
        gone.lapsed.extend(runs.then_some(node));
    }

    /// The time at which a compute node died or lost its lease.
    pub(crate) fn gone_since(&self, node: usize) -> Option<Time> {
        self.gone.borrow().since.get(&node).copied()
    }

    /// The compute nodes that have died or lost their lease, and when.
    pub(crate) fn gone(&self) -> BTreeMap<usize, Time> {
        self.gone.borrow().since.clone()
    }

    /// Records that another node has the id of this one, so nothing of this one runs any more.
    pub(super) fn is_replaced(&self, node: usize) {
        self.gone.borrow_mut().lapsed.retain(|other| *other != node);
    }

    /// Shows the copies of this node in the trace, in place of those of a dead one.
    pub(super) fn replaces(&self, at: usize, node: Arc<Node>) {
        if let Some(trace) = &self.trace {
            trace.replace(at, node);
        }
    }

    /// Whether nothing of this node runs any more.
    pub(super) fn is_over(&self, node: usize) -> bool {
        let gone = self.gone.borrow();
        gone.compute.contains(&node) && !gone.lapsed.contains(&node)
    }

    /// Whether a compute node has lost its lease.
    pub(crate) fn has_lapsed(&self, node: usize) -> bool {
        self.gone.borrow().lapsed.contains(&node)
    }

    /// Records the loss of a memory node.
    pub(super) fn is_lost(&self, memory: usize) {
        self.gone.borrow_mut().memory.push(memory);
    }

    /// Whether a memory node is lost.
    pub(super) fn has_lost_memory(&self) -> bool {
        !self.gone.borrow().memory.is_empty()
    }

    /// Sets the function to call after every successful operation.
    pub(crate) fn on_end(&self, told: impl Fn(Process) + 'static) {
        *self.on_end.borrow_mut() = Some(Box::new(told));
    }

    /// Reports the value that both ends of a line have from now on, in every readable copy. `None`
    /// means that the ends need not be equal any more. The writer calls this while it holds the
    /// local latch.
    pub(crate) fn tell(&self, line: GlobalAddr, ends: Option<u64>) {
        // On threads no check runs after every event.
        if self.checks == Checks::All && self.sees_all() {
            self.notified.borrow_mut().push((line, ends));
        }
    }

    /// As [`tell`](Observer::tell), by a task. What a node without a lease writes does not count.
    pub(crate) fn tell_by(&self, process: Process, line: GlobalAddr, ends: u64) {
        let counts = self.gone_since(process.node).is_none();
        self.tell(line, counts.then_some(ends));
    }

    pub(crate) fn take_notifications(&self) -> Vec<(GlobalAddr, Option<u64>)> {
        if self.notified.borrow().is_empty() { Vec::new() } else { self.notified.take() }
    }

    /// Writes a note to the trace, if there is one.
    pub(crate) fn note(&self, process: Process, text: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace.note(self.now(), process.place, process.worker, text());
        }
    }

    /// Writes a note about a whole node to the trace.
    pub(super) fn note_of_node(&self, node: usize, text: String) {
        if let Some(trace) = &self.trace {
            trace.note(self.now(), node, 0, text);
        }
    }

    // ---- results --------------------------------------------------------------------------------

    /// The text about an operation that takes too long. Operations of dead nodes do not count.
    pub(super) fn overdue(&self, now: Time, lives: impl Fn(usize) -> bool) -> Option<String> {
        let open = self.open.borrow();
        let (process, Open { what, on, since, limit }) =
            open.iter().find(|(process, o)| lives(process.node) && o.since + o.limit < now)?;
        Some(format!(
            "{process}: {what} {on} began at {since}, and has not ended after {limit:?}:{}",
            self.open_operations()
        ))
    }

    /// The operations in progress, for messages.
    pub(super) fn open_operations(&self) -> String {
        let open = self.open.borrow();
        listed(
            open.iter().map(|(process, Open { what, on, since, .. })| {
                format!("{process}: {what} {on} since {since}")
            }),
            20,
        )
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn operations(&self) -> u64 {
        self.operations.get()
    }

    pub(super) fn clean_errors(&self) -> u64 {
        self.clean_errors.get()
    }

    /// The event hash, the number of events, and the time.
    pub(super) fn totals(&self) -> (u64, u64, Time) {
        match self.kernel.get() {
            Some(kernel) => (kernel.event_hash(), kernel.events(), kernel.now()),
            None => (0, 0, Time::ZERO),
        }
    }

    /// The number of verbs, and the number of faults of batches and messages.
    pub(super) fn network_counts(&self) -> (u64, FaultCounts) {
        let network = self.network.get();
        network.map_or((0, FaultCounts::default()), |n| (n.verbs(), n.fault_counts()))
    }
}

/// The time that an operation may take beyond the deadlines of its accesses: pauses and delays
/// extend it.
fn margin(plan: &FaultPlan) -> Duration {
    let pauses = Duration::from_micros(plan.pause_us) * plan.pauses;
    let late = Duration::from_micros(plan.delay_us) * 4;
    Duration::from_millis(1) + pauses + late
}
