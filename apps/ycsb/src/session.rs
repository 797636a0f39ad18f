//! What stays the same through all phases of one run of the program.

use crate::settings::Settings;
use latchwork_blink::TreeError;
use latchwork_coherence::MemoryError;
use latchwork_harness::AppError;
use latchwork_harness::ClusterFlags;
use latchwork_workload::ycsb::CoreWorkload;
use std::sync::Arc;

/// The settings, and what they mean for workers.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    pub(crate) workload: Arc<CoreWorkload>,
}

impl Session {
    pub(crate) fn new(settings: Settings) -> Session {
        let workload = Arc::new(settings.workload.clone());
        Session { settings, workload }
    }

    /// Workers of all compute nodes.
    pub(crate) fn workers(&self) -> usize {
        self.settings.cluster.compute_nodes * self.settings.cluster.workers
    }

    /// What is about to be done, for people.
    pub(crate) fn headline(&self) -> String {
        let settings = &self.settings;
        format!(
            "ycsb {}{}: workload {}, {} records of up to {} bytes; {}",
            settings.command.name(),
            settings.fabric.nic().map_or(String::new(), |nic| format!(" on simulated {nic}")),
            settings.sources.join(" "),
            self.workload.record_count(),
            self.workload.layout.len_max(),
            ClusterFlags::in_words(&settings.cluster),
        )
    }

    /// The error for a full memory pool.
    pub(crate) fn out_of_memory(&self, when: &str) -> AppError {
        let (given, enough) = (self.settings.memory_mb(), self.settings.memory_mb_enough());
        AppError::Failed(format!(
            "memory exhausted {when}: --memory-mb {given} is too small; use --memory-mb {enough}"
        ))
    }

    /// The error that ends a run when the table fails.
    pub(crate) fn tree_error(&self, error: &TreeError) -> AppError {
        match error {
            TreeError::Memory(MemoryError::OutOfMemory(_)) => self.out_of_memory("during the run"),
            error => AppError::Failed(format!("the table failed: {error}")),
        }
    }
}
