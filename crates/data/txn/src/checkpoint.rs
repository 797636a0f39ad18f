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
//! - Each row has its own timestamp, so the time at which the checkpoint reads the row does not
//!   matter. Replay compares the row with its versions in the logs above the floor, and takes the
//!   latest.
//! - If a row was committed up to the floor and deleted above it, the logs contain the deletion.
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
    /// The timestamp up to which the checkpoint covers all commits.
    pub floor: Timestamp,
    /// The number of rows that were written.
    pub rows: u64,
    /// The number of bytes that were written.
    pub bytes: u64,
    /// The number of log segments that were removed.
    pub segments_removed: usize,
}

impl<M: LineLocks> Database<M> {
    /// Writes a checkpoint, and removes the log segments that it makes unnecessary. `nodes` are all
    /// nodes of the database, whose logs are in `directory`. Other transactions continue during the
    /// call.
    ///
    /// # Errors
    /// [`TxnError::Busy`] when a transaction does not end by `deadline`; [`TxnError::LeftLocked`];
    /// [`TxnError::ClockExhausted`]; [`TxnError::Log`]; memory failures; errors of reads of the
    /// table definitions. After an error the previous checkpoint stays in place, with one
    /// exception: if the removal of old segments fails, the new checkpoint is in place already.
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
        let mut writer = CheckpointWriter::begin(directory, floor, continues)?;
        let mut part = writer.part()?;
        let mut rows = self.write_rows(self.definitions(), &mut part).await?;
        for name in self.table_names().await? {
            let table = self.table(&name).await?;
            rows += self.write_rows(&table, &mut part).await?;
        }
        let bytes = part.bytes();
        part.finish()?;
        writer.settle(&logs, handle, deadline).await?;
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
        // No commit up to now is above the highest clock. A transaction in progress may have a
        // timestamp above the floor. Its commit is not lost, because the logs keep all commits
        // above the floor.
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
