//! Checkpoints: copies of all rows, written while transactions continue, so that old log segments
//! can be removed.
//!
//! ```text
//!   floor F: what clocks show ──► clocks above F ──► new generation ──► the old one has ended
//!                                                                           │ all commits up to F are installed
//!   every log begins a segment ◄──────────────────────────────────────────┘
//!   rows of all tables, as they come by ──► parts ──► logs durable ──► in place ──► old segments go
//!                                                    each begins a segment
//! ```
//!
//! - A row has its own timestamp, so the time at which it is read does not matter. Replay takes the
//!   later of the row and of its versions in the logs above the floor.
//! - A row that was committed up to the floor and deleted above it is in the logs as deleted.
//! - Loaded rows are in no log, and become durable with the first checkpoint.

use std::sync::Arc;

use latchwork_coherence::LineLocks;
use latchwork_runtime::Time;
use latchwork_strict::strict_assert;
use latchwork_wal::{CheckpointWriter, Log, LogDirectory, LogEntry, NodeId, PartWriter};

use crate::heap::SeenRow;
use crate::{Database, Table, Timestamp, TransactionNode, TxnError};

/// The result of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Checkpoint {
    /// The checkpoint covers all commits up to this timestamp.
    pub floor: Timestamp,
    /// The number of rows that were written.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The number of log segments that were removed.
    pub segments_removed: usize,
}

impl<M: LineLocks> Database<M> {
    /// Writes a checkpoint, and removes the log segments that it makes unnecessary. `nodes` are all
    /// nodes of the database, whose logs are in `directory`. Transactions continue meanwhile.
    ///
    /// # Errors
    /// [`TxnError::Busy`] when a transaction does not end by `deadline`; [`TxnError::LeftLocked`];
    /// [`TxnError::ClockExhausted`]; [`TxnError::Log`]; memory failures; errors of reads of the
    /// table definitions. After an error the previous checkpoint stays in place, with one
    /// exception: an error of the removal of old segments comes after the new checkpoint is in
    /// place.
    pub async fn checkpoint(
        &self,
        nodes: &[Arc<TransactionNode>],
        directory: &Arc<LogDirectory>,
        deadline: Time,
    ) -> Result<Checkpoint, TxnError> {
        let handle = self.memory().handle();
        let floor = self.draw_floor(nodes).await?;
        for node in nodes {
            node.quiesce(handle, deadline).await?;
        }
        let logs: Vec<&Log> = nodes.iter().filter_map(|node| node.log()).collect();
        let mut continues = Vec::new();
        for log in &logs {
            continues.push((log.node(), log.rotate(handle, deadline).await?));
        }
        strict_assert!(continues.len() == logs.len(), "a log has no segment to continue in");
        let writer = CheckpointWriter::begin(directory, floor, continues)?;
        let mut part = writer.part()?;
        let mut rows = self.write_rows(self.definitions(), &mut part).await?;
        for name in self.table_names().await? {
            let table = self.table(&name).await?;
            rows += self.write_rows(&table, &mut part).await?;
        }
        let bytes = part.bytes();
        part.finish()?;
        for log in &logs {
            // The log is made durable, in whole segments. So a log that loses its last segment has
            // lost nothing that the checkpoint contains, and the loss can be accepted.
            log.flush(handle, deadline).await?;
            log.rotate(handle, deadline).await?;
        }
        writer.publish()?;
        let mut segments_removed = 0;
        for (node, _) in directory.segments() {
            segments_removed += directory.remove_through(node, floor)?;
        }
        tracing::info!(floor = floor.0, rows, bytes, segments_removed, "a checkpoint was written");
        Ok(Checkpoint { floor, rows, bytes, segments_removed })
    }

    /// Draws a floor. All transactions of generations that begin after its return commit above the
    /// floor. Transactions of the present generation may commit below it, with timestamps that were
    /// drawn before.
    async fn draw_floor(&self, nodes: &[Arc<TransactionNode>]) -> Result<Timestamp, TxnError> {
        // The clocks are above all commits so far. Timestamps that were drawn but have not
        // committed need not be up to the floor, because the logs have all commits above it.
        let clocks = nodes.iter().map(|node| node.clock().now().counter());
        let counter = clocks.max().unwrap_or(0);
        // The highest timestamp of any node with this counter.
        let last = NodeId(Timestamp::NODES_MAX - 1);
        let floor = Timestamp::new(counter, last).ok_or(TxnError::ClockExhausted)?;
        for node in nodes {
            node.clock().raise(floor);
            node.set_floor(floor);
        }
        self.raise_clocks(floor).await?;
        Ok(floor)
    }

    async fn write_rows(&self, table: &Table<M>, part: &mut PartWriter) -> Result<u64, TxnError> {
        let mut rows = 0;
        let write = |key: &[u8], seen: SeenRow, value: &[u8]| {
            let SeenRow::Live(timestamp) = seen else { return Ok(()) };
            rows += 1;
            part.put(LogEntry { timestamp, table: table.id(), key, value: Some(value) })
        };
        table.each(write).await?;
        Ok(rows)
    }
}
