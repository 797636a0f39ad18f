//! What the workers of a cluster do: in a world, or on threads.

pub(crate) mod buffered;
pub(crate) mod lines;
pub(crate) mod locks;
pub(crate) mod memory;
mod named;
pub(crate) mod tree;
pub(crate) mod ycsb;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use latchwork_blink::TreeStatistics;
use latchwork_cluster::Member;

use crate::checks::Judgement;
use crate::scenario::{Scenario, Workload};
use crate::world::{Observer, Process};

/// Something to await on a worker.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// How long a worker waits until another has made what it needs.
const FIND_LIMIT: Duration = Duration::from_secs(20);

/// A workload, shared by all tasks of one thread: all of a world, or those of one worker. Errors
/// are texts.
pub(crate) trait Load {
    /// Run by the first worker before anything goes wrong: makes what all need.
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// Tells other threads of what was made.
    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// Finds what another thread has made.
    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// All operations of one task.
    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// Run by each worker when all tasks have ended: gives back what it had in reserve.
    fn finish(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// Run by one worker of each node that lives, when all work is over: looks at everything.
    fn inspect(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// How many lines the workload's structures reach, if that is known once all work is over.
    fn lines_in_use(&self) -> Option<u64>;

    /// What was recorded.
    fn take(&self) -> Record;
}

/// What the tasks recorded.
pub(crate) enum Record {
    Lines(lines::LinesRecord),
    Buffered(buffered::BufferedRecord),
    Locks(locks::LocksRecord),
    Tree(tree::TreeRecord),
    Memory(memory::MemoryRecord),
    Ycsb(ycsb::YcsbRecord),
}

impl Record {
    /// What the tree was like in the end, if there was one.
    pub(crate) fn tree(&self) -> Option<TreeStatistics> {
        match self {
            Record::Tree(record) => record.statistics.clone(),
            Record::Ycsb(record) => record.statistics.clone(),
            Record::Lines(_) | Record::Buffered(_) | Record::Locks(_) | Record::Memory(_) => None,
        }
    }

    /// Adds what other threads recorded of the same workload.
    pub(crate) fn merge(&mut self, other: Record) {
        match (self, other) {
            (Record::Lines(all), Record::Lines(more)) => all.merge(more),
            (Record::Buffered(all), Record::Buffered(more)) => all.merge(more),
            (Record::Locks(all), Record::Locks(more)) => all.merge(more),
            (Record::Tree(all), Record::Tree(more)) => all.merge(more),
            (Record::Memory(all), Record::Memory(more)) => all.merge(more),
            (Record::Ycsb(all), Record::Ycsb(more)) => all.merge(more),
            _ => unreachable!("all threads have the same workload"),
        }
    }

    /// Whether what was recorded can be right.
    pub(crate) fn judge(&self) -> Judgement {
        match self {
            Record::Lines(record) => record.judge().map(|()| 0),
            Record::Buffered(record) => record.judge().map(|()| 0),
            Record::Locks(record) => record.judge().map(|()| 0),
            Record::Tree(record) => record.judge(),
            Record::Memory(record) => record.judge().map(|()| 0),
            Record::Ycsb(record) => record.judge(),
        }
    }
}

/// The workload of a scenario.
///
/// # Errors
/// What is wrong with the scenario.
pub(crate) fn load(scenario: &Scenario, observer: &Rc<Observer>) -> Result<Rc<dyn Load>, String> {
    Ok(match &scenario.workload {
        Workload::Lines(load) => Rc::new(lines::Lines::new(scenario, load, observer)),
        Workload::Buffered(load) => Rc::new(buffered::Buffered::new(scenario, load, observer)),
        Workload::Locks(load) => Rc::new(locks::Locks::new(scenario, load, observer)),
        Workload::Tree(load) => Rc::new(tree::TreeWork::new(scenario, load, observer)),
        Workload::Memory(load) => Rc::new(memory::Memory::new(scenario, load, observer)),
        Workload::Ycsb(load) => Rc::new(ycsb::Ycsb::new(scenario, load, observer)?),
    })
}

/// Some time passes, and everybody else has a turn. In virtual time nothing takes time unless it
/// says so, and a worker that never yields would do all its work at one instant.
pub(crate) async fn pass_time(member: &Member) {
    member.handle.charge(Duration::from_nanos(50 + member.handle.random_below(400)));
    member.handle.yield_now().await;
}
