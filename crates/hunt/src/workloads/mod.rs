//! What the workers of a world do.

pub(crate) mod lines;

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

use latchwork_cluster::Member;

use crate::checks::Verdict;
use crate::scenario::{Scenario, Workload};
use crate::world::{Observer, Process};

/// Something to await on a worker.
pub(crate) type Work<T> = Pin<Box<dyn Future<Output = T>>>;

/// A workload of one world, shared by all its tasks.
pub(crate) trait Load {
    /// Run by one worker before anything goes wrong: makes what the others find. An error is a text.
    fn set_up(self: Rc<Self>, member: Member) -> Work<Result<(), String>>;

    /// All operations of one task.
    fn task(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// Run by one worker of each node that lives, when all work is over: looks at everything.
    fn inspect(self: Rc<Self>, member: Member, process: Process) -> Work<()>;

    /// How many lines the workload's structures reach, if that is known once all work is over.
    fn lines_in_use(&self) -> Option<u64>;

    /// Judges what was recorded.
    fn judge(&self) -> Verdict;
}

/// The workload of a scenario.
pub(crate) fn load(scenario: &Scenario, observer: &Rc<Observer>) -> Rc<dyn Load> {
    match &scenario.workload {
        Workload::Lines(load) => Rc::new(lines::Lines::new(scenario, load, observer)),
    }
}
