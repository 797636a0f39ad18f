//! [`PoolSettings`]: a compute node's constants.

use std::time::Duration;

/// A compute node's settings for its use of the pool. They may differ from node to node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSettings {
    /// How often an active node looks at the cluster's epoch. Freed lines are reused about three of
    /// these later.
    pub tick_interval: Duration,
    /// How long all workers rest before the node publishes that it is idle.
    pub idle_after: Duration,
    /// How long an allocation waits for freed lines once no chunk is left.
    pub reuse_wait: Duration,
    /// From how many chunks, on as many memory nodes where there are so many, a compute node takes
    /// lines by turns; 1 by default. More spread even the few pages on top of an index over the
    /// memory nodes, where each NIC can do only so many atomics. Each compute node takes that many
    /// chunks as soon as it takes one.
    pub stripes: usize,
    /// After how long waiting for the fabric, or for another task of the node, is given up.
    pub deadline: Duration,
}

impl Default for PoolSettings {
    fn default() -> Self {
        PoolSettings {
            tick_interval: Duration::from_millis(1),
            idle_after: Duration::from_millis(10),
            reuse_wait: Duration::from_millis(100),
            stripes: 1,
            deadline: Duration::from_secs(10),
        }
    }
}
