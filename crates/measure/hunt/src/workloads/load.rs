//! [`Load`]: the interface of a workload to a world and to a run on threads.

use std::any::Any;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use latchwork_blink::TreeStatistics;
use latchwork_cluster::Member;
use latchwork_memnode::ObjectKind;
use latchwork_verbs::GlobalAddr;
use latchwork_workload::random::WorkloadRandom;

pub(crate) use super::client::Phase;
use super::client::{Client, Shared, Work};
use crate::WorldCheck;
use crate::checks::CheckResult;
use crate::scenario::Scenario;
use crate::world::{Observer, Process};

/// A future that runs on a worker.
pub(crate) type Running = Pin<Box<dyn Future<Output = ()>>>;

/// The record of a thread, for the check of all records.
pub(crate) type Record = Box<dyn Any + Send>;

/// A workload, shared by all tasks of one thread.
pub(crate) trait Load {
    /// Runs a phase. The observer gets its errors.
    fn run(self: Rc<Self>, phase: Phase, member: Member, process: Process) -> Running;

    /// The number of lines that the workload uses after all work. `None` if the number is not
    /// known.
    fn lines_in_use(&self) -> Option<u64>;

    /// Whether the faults of the world may keep a task from its end that finishes the work of
    /// another one.
    fn may_stay(&self) -> bool;

    /// Whether the faults of the world have made transactions of a node leave their locks.
    fn keeps_locks(&self, node: usize) -> bool;

    /// Takes the record of all tasks.
    fn take(&self) -> Record;

    /// Adds a record of the same workload.
    fn add(&self, record: Record);

    /// Checks the record. Returns the statistics of the tree at the end, if there was one, and the
    /// number of objects for which the check gave up.
    fn judge(&self) -> (Option<TreeStatistics>, CheckResult);
}

/// How long a worker waits for another worker to publish the roots.
const FIND_LIMIT: Duration = Duration::from_secs(20);

const ROOT: ObjectKind = ObjectKind(7);

fn name(root: u64) -> String {
    format!("root {root}")
}

impl<W: Work> Shared<W> {
    pub(super) fn load(work: W, scenario: &Scenario, observer: &Rc<Observer>) -> Rc<dyn Load> {
        Rc::new(Shared {
            work,
            scenario: scenario.clone(),
            observer: Rc::clone(observer),
            roots: RefCell::default(),
            record: RefCell::default(),
        })
    }

    /// Makes the roots, or finds those that a worker on another thread has published.
    async fn make_roots(&self, phase: Phase, client: &Client<W>) -> Result<(), String> {
        let (catalogue, handle) = (&client.member.catalogue, &client.member.handle);
        let port = client.member.memory.port();
        if phase == Phase::Find {
            let deadline = handle.now() + FIND_LIMIT;
            for at in 0..self.work.roots() {
                let found = catalogue.wait_for(port, handle, &name(at), deadline).await;
                let found = found.map_err(|error| error.to_string())?;
                self.roots.borrow_mut().push(GlobalAddr::from_bits(found.value));
            }
            return Ok(());
        }
        let roots = W::set_up(client).await?;
        *self.roots.borrow_mut() = roots.clone();
        let roots = if self.observer.sees_all() { Vec::new() } else { roots };
        for (root, at) in roots.iter().zip(0..) {
            let done = catalogue.register(port, &name(at), ROOT, root.bits()).await;
            done.map_err(|error| error.to_string())?;
        }
        Ok(())
    }
}

impl<W: Work> Load for Shared<W> {
    fn run(self: Rc<Self>, phase: Phase, member: Member, process: Process) -> Running {
        let random = match phase {
            Phase::Task => {
                let stream = u64::from(process.number) + W::STREAM;
                WorkloadRandom::for_stream(self.scenario.seed, stream)
            }
            _ => WorkloadRandom::new(0),
        };
        Box::pin(async move {
            let client = Client::new(&self, member, process, random);
            match phase {
                Phase::SetUp | Phase::Find => {
                    if let Err(text) = self.make_roots(phase, &client).await {
                        let text = format!("setting up failed: {text}");
                        self.observer.fail(WorldCheck::Error, text);
                    }
                }
                Phase::Task => {
                    if client.begin(phase).await {
                        client.work().await;
                    }
                }
                Phase::Finish => W::finish(&client).await,
                Phase::Inspect => W::inspect(&client).await,
            }
        })
    }

    fn lines_in_use(&self) -> Option<u64> {
        if W::ALLOCATES && self.scenario.recovers() && !self.observer.gone().is_empty() {
            return None;
        }
        self.work.lines_in_use(&self.record.borrow())
    }

    fn may_stay(&self) -> bool {
        self.scenario.may_fail_operations() && W::FINISHES
    }

    fn keeps_locks(&self, node: usize) -> bool {
        self.scenario.may_fail_operations() && self.work.keeps_locks(node)
    }

    fn take(&self) -> Record {
        W::end(self);
        Box::new(self.record.take())
    }

    fn add(&self, record: Record) {
        let more: Box<W::Record> = record.downcast().expect("all threads have the same workload");
        W::merge(&mut self.record.borrow_mut(), *more);
    }

    fn judge(&self) -> (Option<TreeStatistics>, CheckResult) {
        W::end(self);
        if self.scenario.recovers() {
            W::forget_unseen(&mut self.record.borrow_mut(), &self.observer.gone());
        }
        let record = self.record.borrow();
        (W::tree(&record), self.work.judge(&record))
    }
}
