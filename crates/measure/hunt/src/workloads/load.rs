//! [`Load`]: the interface of a workload to a world and to a run on threads.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::Member;

use super::record::Record;
use crate::world::Process;

/// A future that runs on a worker.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// How long a worker waits for another worker to publish the lines.
pub(super) const FIND_LIMIT: Duration = Duration::from_secs(20);

/// A workload, shared by all tasks of one thread: all tasks of a world, or the tasks of one worker.
/// Errors are texts.
pub(crate) trait Load {
    /// Makes the lines or the tree that all tasks use. The first worker runs this before faults
    /// begin.
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// Publishes the lines or the tree for workers on other threads.
    fn publish(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// Finds the lines or the tree that a worker on another thread has published.
    fn find(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// Runs all operations of one task.
    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// Releases the lines that a worker has in reserve. Each worker runs this when all tasks have
    /// ended.
    fn finish(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// Reads all data after all work. One worker of each live node runs this.
    fn inspect(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// The number of lines that the workload uses after all work. `None` if the number is not
    /// known.
    fn lines_in_use(&self) -> Option<u64>;

    /// The record of all tasks.
    fn take(&self) -> Record;
}

/// Lets time pass, so that all other tasks have a turn. Virtual time advances only on request:
/// without this, a worker would do all its work at one instant.
pub(crate) async fn pass_time(member: &Member) {
    member.handle.charge(Duration::from_nanos(50 + member.handle.random_below(400)));
    member.handle.yield_now().await;
}
