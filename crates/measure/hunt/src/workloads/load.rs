//! [`Load`]: a workload, as the runner of a world or of threads sees it.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cluster::Member;

use super::record::Record;
use crate::world::Process;

/// A future that runs on a worker.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// How long a worker waits for lines of another worker.
pub(super) const FIND_LIMIT: Duration = Duration::from_secs(20);

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

/// Lets time pass, so that all other tasks have a turn. Virtual time advances only on request. A
/// worker that never yields would do all its work at one instant.
pub(crate) async fn pass_time(member: &Member) {
    member.handle.charge(Duration::from_nanos(50 + member.handle.random_below(400)));
    member.handle.yield_now().await;
}
