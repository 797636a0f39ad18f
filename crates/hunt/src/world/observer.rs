//! [`Observer`]: what the workload tells of what it does, and what was found wrong.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;

use latchwork_cluster::{Member, Simulated};
use latchwork_fabric::Fabric;
use latchwork_simulation::{Kernel, Time};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{FaultCounts, Faults};

use crate::checks::listed;
use crate::{Check, Failure, Scenario, Trace};

/// A task, which does one operation after the other.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Process {
    /// Of all tasks of the world, from 1.
    pub(crate) number: u32,
    pub(crate) node: usize,
    pub(crate) worker: usize,
    pub(crate) task: usize,
}

impl Process {
    pub(super) fn new(member: &Member, task: usize, tasks: usize) -> Process {
        let number = 1 + (member.index * tasks + task) as u32;
        Process { number, node: member.node, worker: member.worker, task }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Process { number, node, worker, .. } = self;
        // Nodes are named as the latch words name them.
        write!(f, "task {number} (node {}, worker {worker})", node + 1)
    }
}

/// An operation that has not ended.
struct Open {
    what: &'static str,
    line: GlobalAddr,
    since: Time,
}

/// What the workload tells of what it does, and what was found wrong. Shared by all in one world.
pub(crate) struct Observer {
    seed: u64,
    may_fail: bool,
    kernel: OnceCell<Kernel>,
    fabric: OnceCell<Fabric>,
    trace: Option<Trace>,
    failure: RefCell<Option<Failure>>,
    open: RefCell<BTreeMap<Process, Open>>,
    operations: Cell<u64>,
    clean_errors: Cell<u64>,
}

impl Observer {
    pub(super) fn new(scenario: &Scenario, trace: Option<Trace>) -> Observer {
        Observer {
            seed: scenario.seed,
            may_fail: scenario.faults.may_fail_operations(),
            kernel: OnceCell::new(),
            fabric: OnceCell::new(),
            trace,
            failure: RefCell::default(),
            open: RefCell::default(),
            operations: Cell::new(0),
            clean_errors: Cell::new(0),
        }
    }

    pub(super) fn attach(&self, cluster: &Simulated) {
        let _ = self.kernel.set(cluster.kernel().clone());
        let _ = self.fabric.set(cluster.fabric().clone());
        if let Some(trace) = &self.trace {
            trace.attach(cluster);
        }
    }

    fn now(&self) -> Time {
        self.kernel.get().map_or(Time::ZERO, Kernel::now)
    }

    /// Something is wrong. The first counts.
    pub(crate) fn fail(&self, check: Check, text: String) {
        let at = self.now();
        self.failure.borrow_mut().get_or_insert(Failure { check, text, at });
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    pub(super) fn first_failure(&self) -> Option<Failure> {
        self.failure.borrow().clone()
    }

    /// Runs one operation of a task.
    pub(crate) async fn operation<E: fmt::Display>(
        &self,
        process: Process,
        what: &'static str,
        line: GlobalAddr,
        work: impl Future<Output = Result<(), E>>,
    ) {
        self.open.borrow_mut().insert(process, Open { what, line, since: self.now() });
        self.note(process, || format!("{what} {line}"));
        let end = work.await;
        self.open.borrow_mut().remove(&process);
        match end {
            Ok(()) => {
                self.operations.set(self.operations.get() + 1);
                self.note(process, || format!("{what} {line}: done"));
            }
            Err(error) => {
                self.note(process, || format!("{what} {line}: {error}"));
                if self.may_fail {
                    self.clean_errors.set(self.clean_errors.get() + 1);
                } else {
                    self.fail(Check::Error, format!("{process}: {what} {line}: {error}"));
                }
            }
        }
    }

    /// Tells the trace, if there is one.
    pub(crate) fn note(&self, process: Process, text: impl FnOnce() -> String) {
        if let Some(trace) = &self.trace {
            trace.note(self.now(), process.node, process.worker, text());
        }
    }

    /// What the tasks are at, for people.
    pub(super) fn open_operations(&self) -> String {
        let open = self.open.borrow();
        listed(
            open.iter().map(|(process, Open { what, line, since })| {
                format!("{process}: {what} {line} since {since}")
            }),
            20,
        )
    }

    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    pub(super) fn operations(&self) -> u64 {
        self.operations.get()
    }

    pub(super) fn clean_errors(&self) -> u64 {
        self.clean_errors.get()
    }

    /// The event hash, the events, the verbs, the time.
    pub(super) fn totals(&self) -> (u64, u64, u64, Time) {
        match self.kernel.get() {
            Some(kernel) => (kernel.event_hash(), kernel.events(), 0, kernel.now()),
            None => (0, 0, 0, Time::ZERO),
        }
    }

    pub(super) fn set_faults(&self, faults: Faults) {
        if let Some(Fabric::Sim(fabric)) = self.fabric.get() {
            fabric.set_faults(faults);
        }
    }

    pub(super) fn fault_counts(&self) -> FaultCounts {
        match self.fabric.get() {
            Some(Fabric::Sim(fabric)) => fabric.fault_counts(),
            _ => FaultCounts::default(),
        }
    }
}
