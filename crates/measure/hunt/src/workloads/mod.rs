//! The workloads of a cluster, in a world or on threads.

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

use crate::checks::CheckResult;
use crate::scenario::{Scenario, Workload};
use crate::world::{Observer, Process};

/// A future that runs on a worker.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// How long a worker waits for lines of another worker.
const FIND_LIMIT: Duration = Duration::from_secs(20);

/// A workload, shared by all tasks of one thread: all tasks of a world, or the tasks of one worker.
/// Errors are texts.
pub(crate) trait Load {
    /// Makes what all tasks need. The first worker runs this before faults begin.
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// Publishes the lines for other threads.
    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// Finds the lines of another thread.
    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// Runs all operations of one task.
    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// Releases the reserve of a worker. Each worker runs this when all tasks have ended.
    fn finish(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// Reads all data after all work. One worker of each live node runs this.
    fn inspect(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// The number of lines that the workload's structures reach, if it is known after all work.
    fn lines_in_use(&self) -> Option<u64>;

    /// The record of all tasks.
    fn take(&self) -> Record;
}

/// The record of the tasks.
pub(crate) enum Record {
    Lines(lines::LinesRecord),
    Buffered(buffered::BufferedRecord),
    Locks(locks::LocksRecord),
    Tree(tree::TreeRecord),
    Memory(memory::MemoryRecord),
    Ycsb(ycsb::YcsbRecord),
}

impl Record {
    /// The statistics of the tree at the end, if there was one.
    pub(crate) fn tree(&self) -> Option<TreeStatistics> {
        match self {
            Record::Tree(record) => record.statistics.clone(),
            Record::Ycsb(record) => record.statistics.clone(),
            Record::Lines(_) | Record::Buffered(_) | Record::Locks(_) | Record::Memory(_) => None,
        }
    }

    /// Adds the record of other threads of the same workload.
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

    /// Checks the record.
    pub(crate) fn judge(&self) -> CheckResult {
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
/// The mistake in the scenario.
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

/// Lets time pass, so that all other tasks have a turn. Virtual time advances only on request. A
/// worker that never yields would do all its work at one instant.
pub(crate) async fn pass_time(member: &Member) {
    member.handle.charge(Duration::from_nanos(50 + member.handle.random_below(400)));
    member.handle.yield_now().await;
}
