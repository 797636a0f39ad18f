//! [`Recovery`]: the reconstruction of tables and indexes from checkpoint and logs.
//!
//! ```text
//!   Replayed: partitions of keys ──► tables ──► rows into heaps, by all workers ──► indexes in bulk, by all workers
//!                                    (one)      partition by partition              tree by tree
//! ```
//!
//! Recovery has three steps: tables, rows, indexes. No worker may begin a step before all workers
//! have ended the previous step. The caller ensures this order, for example with a barrier.
//!
//! In a partitioned database each node restores its own rows ([`rows_of`](Recovery::rows_of)). So
//! no line has rows of two nodes, which one lock would lock together.

use std::collections::BTreeMap;
use std::rc::Rc;

use latchwork_coherence::LineLocks;
use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_strict::strict_assert;
use latchwork_wal::{LatestValue, Replayed, TableId};

use crate::database::{definition, read_definition};
use crate::page::{New, State};
use crate::{Database, Table, Timestamp, TxnError};

/// The fill factor of the pages of rebuilt indexes.
const FILL: f64 = 0.8;
const _: () = assert!(FILL > 0.1 && FILL <= 1.0, "a page is filled in part");

/// Entries of an index: keys, and the bits of row ids.
type Entries = Vec<(Box<[u8]>, u64)>;

/// A recovery in progress, shared by all workers that take part.
pub struct Recovery {
    replayed: Replayed,
    /// The number of the next partition to restore. If each node restores its own rows, each node
    /// has a counter; otherwise all workers use the first counter.
    next_partition: [AtomicUsize; Timestamp::NODES_MAX as usize],
    /// The entries that the workers have collected, for each table and index.
    entries: Mutex<BTreeMap<(TableId, usize), Entries>>,
    skipped: AtomicUsize,
}

impl Recovery {
    /// A recovery from the result of [`LogDirectory::replay`](latchwork_wal::LogDirectory::replay).
    pub fn new(replayed: Replayed) -> Recovery {
        let (entries, skipped) = Default::default();
        let next_partition = std::array::from_fn(|_| AtomicUsize::new(0));
        Recovery { replayed, next_partition, entries, skipped }
    }

    /// Runs all steps on one worker.
    ///
    /// # Errors
    /// Those of the steps.
    pub async fn run<M: LineLocks>(&self, database: &Database<M>) -> Result<(), TxnError> {
        self.tables(database).await?;
        self.rows(database).await?;
        self.indexes(database).await
    }

    /// The number of keys whose table has no definition. A crash can have this result under
    /// asynchronous logs, when the definition of the table is lost and later rows are not.
    pub fn skipped(&self) -> usize {
        self.skipped.load(Ordering::Relaxed)
    }

    /// The first step, by one worker: makes the tables in an empty database.
    ///
    /// # Errors
    /// [`TxnError::Unresolved`] when the replay has records that the layer above has not resolved;
    /// [`TxnError::Definition`] and [`TxnError::Schema`] for a damaged definition; memory that
    /// fails or is full.
    pub async fn tables<M: LineLocks>(&self, database: &Database<M>) -> Result<(), TxnError> {
        if let Some(note) = self.replayed.notes.first() {
            let (notes, node, segment) = (self.replayed.notes.len(), note.node.0, note.segment);
            return Err(TxnError::Unresolved { notes, node, segment });
        }
        let definitions = database.definitions();
        // The numbers of tables with a lost definition count, too: rows in the logs must not become
        // rows of another table.
        let mut reserved = self.replayed.keys().map(|(table, _)| table.0).max().unwrap_or(0);
        for (_, latest) in self.replayed.keys().filter(|(table, _)| *table == definitions.id()) {
            let Some(row) = &latest.value else { continue };
            let (id, _, schema) = read_definition(definitions.schema(), row)?;
            // The table may have no rows yet.
            reserved = reserved.max(id.0);
            let memory = database.memory().clone();
            let table = Table::create(memory, id, Rc::new(schema)).await?;
            let (key, row) = definition(&table)?;
            definitions.load(&key, &row, latest.timestamp).await?;
        }
        let (entries, highest) = (self.replayed.entries, self.replayed.highest.0);
        tracing::info!(entries, highest, "tables are made, rows follow");
        database.reserve_tables(reserved).await?;
        database.raise_clocks(self.replayed.highest).await
    }

    /// The second step, by all workers at once: writes rows into heaps. Keys without a table are
    /// skipped and [counted](Recovery::skipped).
    ///
    /// # Errors
    /// [`TxnError::Schema`] for a row that does not match its table; [`TxnError::RowTooLong`];
    /// memory that fails or is full.
    pub async fn rows<M: LineLocks>(&self, database: &Database<M>) -> Result<(), TxnError> {
        self.restore_rows(database, 0, |_, _| true).await
    }

    /// Replaces [`rows`](Recovery::rows) in a partitioned database. Each node reads all rows, and
    /// restores those that it owns. `owner` must be the same on all nodes, and must name only nodes
    /// that take part.
    ///
    /// # Errors
    /// As [`rows`](Recovery::rows).
    pub async fn rows_of<M: LineLocks>(
        &self,
        database: &Database<M>,
        owner: impl Fn(TableId, &[u8]) -> u8,
    ) -> Result<(), TxnError> {
        let node = database.node().clock().node().0;
        self.restore_rows(database, node, |table, key| owner(table, key) == node).await
    }

    async fn restore_rows<M: LineLocks>(
        &self,
        database: &Database<M>,
        node: u8,
        is_mine: impl Fn(TableId, &[u8]) -> bool,
    ) -> Result<(), TxnError> {
        // Step `tables` has raised the counter of all nodes. Here each node raises its own clock.
        database.node().clock().raise(self.replayed.highest);
        strict_assert!(
            database.node().clock().now().counter() >= self.replayed.highest.counter(),
            "a clock is below a recovered row"
        );
        let mut tables = BTreeMap::new();
        for name in database.table_names().await? {
            let table = database.table(&name).await?;
            tables.insert(table.id(), table);
        }
        let mut mine: BTreeMap<(TableId, usize), Entries> = BTreeMap::new();
        let mut lost = 0;
        let definitions = database.definitions().id();
        loop {
            // Relaxed: the counter only gives out numbers. The partitions exist before the workers
            // share this value.
            let at = self.next_partition[usize::from(node)].fetch_add(1, Ordering::Relaxed);
            let Some(partition) = self.replayed.partitions.get(at) else { break };
            for (&id, keys) in partition.tables.iter().filter(|(id, _)| **id != definitions) {
                let Some(table) = tables.get(&id) else {
                    // With asynchronous logs, a commit may be durable although the commit that made
                    // its table is lost.
                    let mine = keys.iter().filter(|latest| is_mine(id, &latest.key));
                    let count = mine.count();
                    self.skipped.fetch_add(count, Ordering::Relaxed);
                    lost += count;
                    continue;
                };
                for latest in keys.iter().filter(|latest| is_mine(id, &latest.key)) {
                    self.restore(table, latest, &mut mine).await?;
                }
            }
        }
        if lost > 0 {
            tracing::warn!(node, lost, "rows of tables that the log had not written are left out");
        }
        let mut all = self.entries.lock();
        for (index, entries) in mine {
            all.entry(index).or_default().extend(entries);
        }
        Ok(())
    }

    async fn restore<M: LineLocks>(
        &self,
        table: &Table<M>,
        latest: &LatestValue,
        entries: &mut BTreeMap<(TableId, usize), Entries>,
    ) -> Result<(), TxnError> {
        let (key, cts) = (&latest.key, latest.timestamp);
        let Some(value) = &latest.value else { return Ok(()) };
        let new = New { state: State::Live, cts, key, value };
        let mut placed = table.heap().place(new).await?;
        let Some(id) = placed.keep() else { return Ok(()) };
        entries.entry((table.id(), 0)).or_default().push((key.clone(), id.bits()));
        strict_assert!(id.bits() != 0, "a row location of 0 stands for none");
        let mut entry = Vec::new();
        for index in 1..=table.secondaries() {
            table.index_key(index, key, value, &mut entry)?;
            let entry = entry.as_slice().into();
            entries.entry((table.id(), index)).or_default().push((entry, id.bits()));
        }
        Ok(())
    }

    /// The third step, by all workers at once: builds the indexes.
    ///
    /// # Errors
    /// Memory that fails or is full.
    pub async fn indexes<M: LineLocks>(&self, database: &Database<M>) -> Result<(), TxnError> {
        let mut tables = BTreeMap::new();
        for name in database.table_names().await? {
            let table = database.table(&name).await?;
            tables.insert(table.id(), table);
        }
        loop {
            let next = self.entries.lock().pop_first();
            let Some(((id, index), mut entries)) = next else { return Ok(()) };
            let Some(table) = tables.get(&id) else { continue };
            entries.sort_unstable();
            let entries = entries.iter().map(|(key, id)| (key, id.to_le_bytes()));
            table.tree(index).bulk_load(entries, FILL).await?;
        }
    }
}
