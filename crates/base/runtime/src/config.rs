//! [`ExecutorConfig`]: the settings of one executor.

use std::time::Duration;

/// The settings of one executor.
#[derive(Clone, Debug)]
pub struct ExecutorConfig {
    /// The number of tasks of [`crate::Handle::spawn`] that may be in flight. Further tasks wait
    /// for their start. At least 1. 64 by default.
    pub depth: usize,
    /// The longest time without a start while tasks wait for their start. After this time, some
    /// waiting tasks start beyond the depth: at most as many as are in flight, and at least one.
    /// The reason is that tasks in flight may wait for tasks that have not started. 1 s by default.
    pub start_within: Duration,
    /// The number of idle sweeps in a row before the executor offers its core to other threads
    /// between sweeps. 64 by default. These sweeps take a few microseconds, which is about the cost
    /// of a wake through the kernel.
    pub spin_sweeps: u32,
    /// The number of further idle sweeps before the executor parks. The executor offers its core to
    /// other threads before each of these sweeps. 64 by default.
    pub yield_sweeps: u32,
    /// The longest yield after which the core does not count as contended. After a longer yield,
    /// for 20 ms to 1 s, the executor parks where it would have yielded. 1 ms by default: less than
    /// a time slice of the kernel, and more than a few sweeps of workers that share the core.
    pub yield_limit: Duration,
    /// In each poll of a task, the call of [`crate::Handle::coop`] with this number yields. At
    /// least 1. 32 by default.
    pub coop_budget: u32,
    /// The largest number of tasks that one sweep polls, at least 1. The remaining tasks wait for
    /// the next sweeps. There is no limit by default, so that one doorbell serves everything that
    /// the ready tasks post. If a doorbell is cheap, a low limit is better. In a long sweep, the
    /// first posts wait for the last tasks, and messages of peers wait for the next sweep.
    pub sweep_tasks: usize,
    /// The seed of [`crate::Handle::random`]. 0 by default. Each worker needs a seed of its own, or
    /// workers draw the same numbers.
    pub seed: u64,
    /// The virtual CPU time of a sweep that made progress, in addition to the time that its tasks
    /// charge. 100 ns by default. No effect on the real driver.
    pub sweep_cost: Duration,
}

impl Default for ExecutorConfig {
    fn default() -> Self {
        ExecutorConfig {
            depth: 64,
            start_within: Duration::from_secs(1),
            spin_sweeps: 64,
            yield_sweeps: 64,
            yield_limit: Duration::from_millis(1),
            coop_budget: 32,
            sweep_tasks: usize::MAX,
            seed: 0,
            sweep_cost: Duration::from_nanos(100),
        }
    }
}
