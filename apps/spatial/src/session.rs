//! The constant state of one run of the program, across all phases.

use latchwork_cluster::ClusterConfig;
use latchwork_coherence::MemoryError;
use latchwork_harness::{AppError, FabricChoice, LoopTime, RunCluster};
use latchwork_rtree::RTreeError;

use crate::settings::memory_bytes;

/// What workers of all phases need.
pub(crate) struct Session {
    pub(crate) cluster: ClusterConfig,
    pub(crate) fabric: FabricChoice,
    /// How operations follow time.
    pub(crate) time: LoopTime,
    /// Entries that are expected in all trees, for errors.
    pub(crate) entries: u64,
}

impl Session {
    pub(crate) fn new(cluster: &RunCluster, fabric: &FabricChoice, entries: u64) -> Session {
        let (config, time) = (cluster.config().clone(), cluster.loop_time());
        Session { cluster: config, fabric: fabric.clone(), time, entries }
    }

    /// Workers of all compute nodes.
    pub(crate) fn workers(&self) -> usize {
        self.cluster.compute_nodes * self.cluster.workers
    }

    /// The error that ends a run when a tree fails.
    pub(crate) fn tree_error(&self, error: &RTreeError) -> AppError {
        AppError::Failed(match error {
            RTreeError::Memory(MemoryError::OutOfMemory(_)) => {
                let given = self.cluster.memory_bytes;
                let enough = memory_bytes(self.entries, &self.cluster).max(2 * given);
                let (small, large) = self.fabric.memory_in_words(given, enough);
                format!("memory exhausted: {small} is too small; {large}")
            }
            error => format!("the tree failed: {error}"),
        })
    }
}
