//! [`PoolSettings`]: the settings of a compute node for its use of the pool.

use std::time::Duration;

/// A compute node's settings for its use of the pool. They may differ from node to node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolSettings {
    /// The interval at which an active node reads the cluster's epoch. Freed lines are reused after
    /// about three intervals, unless an operation takes longer.
    pub tick_interval: Duration,
    /// How long a worker has no operation before the worker rests ([`crate::epoch`]). Also how long
    /// a resting worker waits before it makes the node idle, if no worker is online.
    pub idle_after: Duration,
    /// How long an allocation waits for freed lines when no chunk is left.
    pub reuse_wait: Duration,
    /// The number of chunks from which a compute node takes lines in turn; 1 by default. The chunks
    /// are on as many memory nodes, if the pool has that many. More chunks spread even the few top
    /// pages of an index over the memory nodes. That helps because the NIC of each memory node has
    /// a limited rate of atomics. Each compute node claims this many chunks at its first claim.
    pub stripes: usize,
    /// The deadline of a wait for the fabric, or for another task of the node.
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
