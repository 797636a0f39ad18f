//! [`ExecutorConfig`]: the settings of one executor.

use std::time::Duration;

/// The settings of one executor.
#[derive(Clone, Debug)]
pub struct ExecutorConfig {
    /// The number of tasks of [`crate::Handle::spawn`] that may be in flight. Further tasks wait
    /// for their start. At least 1. 64 by default.
    pub depth: usize,
    /// The longest time without a start while tasks wait for their start. After that time, up to as
    /// many waiting tasks start beyond the depth as are in flight. The reason: tasks in flight may
    /// wait for tasks that have not started. 1 s by default.
    pub start_within: Duration,
    /// The idle sweeps in a row before the executor offers its core to other threads between
    /// sweeps. 64 by default. That is a few microseconds: about the cost of a wake through the
    /// kernel.
    pub spin_sweeps: u32,
    /// Further idle sweeps before parking. The executor offers its core before each of them. 64 by
    /// default.
    pub yield_sweeps: u32,
    /// The longest yield after which the core does not count as contended. After a longer yield the
    /// executor parks where it would have yielded, for 20 ms to 1 s. 1 ms by default: less than a
    /// time slice of the kernel, and more than a few sweeps of workers that share the core.
    pub yield_limit: Duration,
    /// The number of the call of [`crate::Handle::coop`] that yields, counted in each poll of a
    /// task. At least 1. 32 by default.
    pub coop_budget: u32,
    /// The most tasks that one sweep polls, at least 1. The remaining tasks wait for the next
    /// sweeps. No limit by default: one doorbell then serves all that the ready tasks post. Where a
    /// doorbell is cheap, a low limit is better. In a long sweep, peers wait for the first posts
    /// while the last tasks still run. Requests of the peers are also not seen before the next
    /// sweep.
    pub sweep_tasks: usize,
    /// The seed of [`crate::Handle::random`]. 0 by default. Each worker needs its own seed.
    pub seed: u64,
    /// The virtual CPU time of a sweep that made progress, in addition to what its tasks charge.
    /// 100 ns by default. No effect on the real driver.
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
