//! What a node writes to the memory nodes so that others can recover from its death.

use latchwork_engine::Node;
use latchwork_fabric::Port;
use latchwork_memnode::{Journal, PoolError};

use crate::ClusterConfig;

/// The handler, and the worker with which a node leaves.
const EXTRA_WORKERS: usize = 2;

/// Gives a node its journal slots if the death of the node can tear a write-back, and marks in its
/// chunks. To be called before the node's first worker starts.
///
/// # Errors
/// Those of [`Journal::claim`].
pub(crate) async fn give_journal(
    node: &Node,
    port: &Port,
    config: &ClusterConfig,
) -> Result<(), PoolError> {
    let settings = &config.selcc;
    // Under a protocol with homes no compute node writes a line back by itself.
    let survives = !config.protocol.has_homes() && settings.survive;
    if survives {
        node.allocator().mark_chunks();
    }
    if survives && settings.journal && port.whole_write() < config.line_size {
        let workers = config.workers + EXTRA_WORKERS;
        node.set_journal(Journal::claim(node.epochs(), port, workers).await?);
    }
    Ok(())
}
