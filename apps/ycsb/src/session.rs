//! The state that all phases of one run of the program share and do not change.

use std::sync::Arc;

use latchwork_blink::TreeError;
use latchwork_coherence::MemoryError;
use latchwork_harness::AppError;
use latchwork_harness::ClusterFlags;
use latchwork_harness::outcome::{say, say_folded};
use latchwork_workload::ycsb::CoreWorkload;

use crate::settings::Settings;

/// The settings, and the values that workers derive from them.
pub(crate) struct Session {
    pub(crate) settings: Settings,
    pub(crate) workload: Arc<CoreWorkload>,
    /// The table's name in the catalogue.
    pub(crate) table: String,
}

impl Session {
    pub(crate) fn new(settings: Settings, table: String) -> Session {
        let workload = Arc::new(settings.workload.clone());
        Session { settings, workload, table }
    }

    /// Workers of all compute nodes.
    pub(crate) fn workers(&self) -> usize {
        self.settings.cluster.compute_nodes * self.settings.cluster.workers
    }

    /// Prints a line about the coming run for people, and the settings that have no effect.
    pub(crate) fn headline(&self) {
        let settings = &self.settings;
        for warning in &settings.warnings {
            say(&format!("ycsb: {warning}"));
        }
        say_folded(&format!(
            "ycsb {}{}: workload {}, {} records of up to {} bytes; {}",
            settings.command.name(),
            settings.fabric.nic().map_or(String::new(), |nic| format!(" on simulated {nic}")),
            settings.sources.join(" "),
            self.workload.record_count(),
            self.workload.layout.len_max(),
            ClusterFlags::in_words(&settings.cluster),
        ));
    }

    /// The error for a full memory pool.
    pub(crate) fn out_of_memory(&self, when: &str) -> AppError {
        let (given, enough) =
            (self.settings.cluster.memory_bytes, self.settings.memory_bytes_enough());
        let (small, large) = self.settings.fabric.memory_in_words(given, enough);
        AppError::Failed(format!("memory exhausted {when}: {small} is too small; {large}"))
    }

    /// The error that ends a run when the table fails.
    pub(crate) fn tree_error(&self, error: &TreeError) -> AppError {
        match error {
            TreeError::Memory(MemoryError::OutOfMemory(_)) => self.out_of_memory("during the run"),
            error => AppError::Failed(format!("the table failed: {error}")),
        }
    }
}
