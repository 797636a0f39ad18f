//! [`ExecutorConfig`]: the settings of one executor.

use std::time::Duration;

/// The settings of one executor.
#[derive(Clone, Debug)]
pub struct ExecutorConfig {
    /// How many spawned tasks may be in flight; more wait. At least 1. 64 by default.
    pub depth: usize,
    /// Tasks may wait for others that have not started. So when no task has started for this time
    /// although some wait to, as many start beyond the depth as are in flight. 1 s by default.
    pub start_within: Duration,
    /// Idle sweeps in a row before the core is offered to others between sweeps. 64 by default,
    /// which is a few microseconds: about what a wake through the kernel costs.
    pub spin_sweeps: u32,
    /// Further idle sweeps, each after offering the core to others, before parking. 64 by default.
    pub yield_sweeps: u32,
    /// Offering the core may take this long. After a longer time other threads want the core for
    /// themselves, and the executor parks without offering it, for 20 ms to 1 s. 1 ms by default:
    /// less than a time slice of the kernel, and more than a few sweeps of workers that share the
    /// core.
    pub yield_limit: Duration,
    /// How many calls of [`crate::Handle::coop`] a task may make before one of them yields. At
    /// least
    /// 1. 32 by default.
    pub coop_budget: u32,
    /// Tasks that one sweep polls at most, at least 1; the rest waits for the next ones. No limit
    /// by default: one doorbell then serves all that the ready tasks post. Where a doorbell costs
    /// next to nothing, a few are better: peers wait for what was posted first while the last tasks
    /// still run, and what they ask meanwhile is not seen before the next sweep.
    pub sweep_tasks: usize,
    /// Seed of [`crate::Handle::random`]. 0 by default; give every worker its own.
    pub seed: u64,
    /// Virtual CPU time of a sweep that made progress, on top of what its tasks charge. 100 ns by
    /// default. Means nothing on the real driver.
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
