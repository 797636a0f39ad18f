//! [`PoolSize`]: the origin of the memory pool's size.

use latchwork_verbs_shm::MemoryRoom;

/// The origin of the memory pool's size.
#[derive(Clone, Debug, Default)]
pub enum PoolSize {
    /// A flag, or the memory nodes of other processes.
    #[default]
    Given,
    /// The estimate of the need.
    Estimated,
    /// The room that this machine has, which is less than the estimate.
    Room(MemoryRoom),
}
