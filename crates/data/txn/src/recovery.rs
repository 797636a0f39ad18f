//! [`Recovery`]: tables and indexes anew, from what logs and checkpoint come to.
//!
//! ```text
//!   Replayed: partitions of keys ──► tables ──► rows into heaps, by all workers ──► indexes in bulk, by all workers
//!                                    (one)      partition by partition              tree by tree
//! ```
//!
//! The three steps follow one another, on all workers: nobody begins one before all have ended the
//! one before.
//!
//! Where rows are dealt out to nodes, each node restores its own: no line then has rows of two of
//! them, whose locks would be one ([`rows_of`](Recovery::rows_of)).

use std::collections::BTreeMap;
use std::rc::Rc;

use latchwork_coherence::LineLocks;
use latchwork_runtime::sync::{AtomicUsize, Mutex, Ordering};
use latchwork_wal::{Latest, Replayed, TableId};

use crate::database::{definition, read_definition};
use crate::page::{New, State};
use crate::{Database, Table, Timestamp, TxnError};

/// How full the pages of rebuilt indexes are.
const FILL: f64 = 0.8;

/// Entries of an index: keys, and the bits of names.
type Entries = Vec<(Box<[u8]>, u64)>;

/// A recovery under way, shared by all workers that take part in it.
pub struct Recovery {
    replayed: Replayed,
    /// Which partition is next: for each node, where each restores its own rows; else the first is
    /// for all.
    next_partition: [AtomicUsize; Timestamp::NODES_MAX as usize],
    /// Of each table and index, what the workers have collected.
    entries: Mutex<BTreeMap<(TableId, usize), Entries>>,
    rows: AtomicUsize,
    skipped: AtomicUsize,
}

impl Recovery {
    /// A recovery from what [`LogDirectory::replay`](latchwork_wal::LogDirectory::replay) has read.
    pub fn new(replayed: Replayed) -> Recovery {
        let (entries, rows, skipped) = Default::default();
        let next_partition = std::array::from_fn(|_| AtomicUsize::new(0));
        Recovery { replayed, next_partition, entries, rows, skipped }
    }

    /// Does all of it by one worker.
    ///
    /// # Errors
    /// As the steps.
    pub async fn run<M: LineLocks>(&self, database: &Database<M>) -> Result<(), TxnError> {
        self.tables(database).await?;
        self.rows(database).await?;
        self.indexes(database).await
    }

    /// Rows that were restored.
    pub fn restored(&self) -> usize {
        self.rows.load(Ordering::Relaxed)
    }

    /// Keys whose table is not there: its definition was younger than what an asynchronous log had
    /// written.
    pub fn skipped(&self) -> usize {
        self.skipped.load(Ordering::Relaxed)
    }

    /// First, by one worker: makes the tables, in a database that is empty.
    ///
    /// # Errors
    /// [`TxnError::Unresolved`] when there are records that the layer above has not made commits
    /// of; [`TxnError::Definition`]; when memory fails or is full.
    pub async fn tables<M: LineLocks>(&self, database: &Database<M>) -> Result<(), TxnError> {
        if let Some(note) = self.replayed.notes.first() {
            let (notes, node, segment) = (self.replayed.notes.len(), note.node.0, note.segment);
            return Err(TxnError::Unresolved { notes, node, segment });
        }
        let definitions = database.definitions();
        // Also those that were lost: what the logs have of their rows must not become another
        // table's.
        let mut reserved = self.replayed.keys().map(|(table, _)| table.0).max().unwrap_or(0);
        for (_, latest) in self.replayed.keys().filter(|(table, _)| *table == definitions.id()) {
            let Some(row) = &latest.value else { continue };
            let (id, _, schema) = read_definition(definitions.schema(), row)?;
            // No row of it may be there yet.
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

    /// Second, by all workers at once: puts rows into heaps. Keys of tables that are not there are
    /// left out and [counted](Recovery::skipped).
    ///
    /// # Errors
    /// [`TxnError::Schema`] for a row that is none of its table's; when memory fails or is full.
    pub async fn rows<M: LineLocks>(&self, database: &Database<M>) -> Result<(), TxnError> {
        self.restore_rows(database, 0, |_, _| true).await
    }

    /// In place of [`rows`](Recovery::rows), where rows are dealt out to nodes: each node restores
    /// those whose owner it is, and reads all to find them. `owner` is the same on all nodes, and
    /// names none that does not take part.
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
        // Each node has a clock of its own.
        database.node().clock().raise(self.replayed.highest);
        let mut tables = BTreeMap::new();
        for name in database.table_names().await? {
            let table = database.table(&name).await?;
            tables.insert(table.id(), table);
        }
        let mut mine: BTreeMap<(TableId, usize), Entries> = BTreeMap::new();
        let mut lost = 0;
        let definitions = database.definitions().id();
        loop {
            // Relaxed: it deals out numbers, and what they name was there before.
            let at = self.next_partition[usize::from(node)].fetch_add(1, Ordering::Relaxed);
            let Some(partition) = self.replayed.partitions.get(at) else { break };
            for (&id, keys) in partition.tables.iter().filter(|(id, _)| **id != definitions) {
                let Some(table) = tables.get(&id) else {
                    // With logs that are written later a commit may last without the one that made
                    // its table.
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
        latest: &Latest,
        entries: &mut BTreeMap<(TableId, usize), Entries>,
    ) -> Result<(), TxnError> {
        let (key, cts) = (&latest.key, latest.timestamp);
        let Some(value) = &latest.value else { return Ok(()) };
        let new = New { state: State::Live, cts, key, value };
        let mut placed = table.heap().place(new).await?;
        let Some(id) = placed.keep() else { return Ok(()) };
        entries.entry((table.id(), 0)).or_default().push((key.clone(), id.bits()));
        let mut entry = Vec::new();
        for index in 1..=table.secondaries() {
            table.index_key(index, key, value, &mut entry)?;
            let entry = entry.as_slice().into();
            entries.entry((table.id(), index)).or_default().push((entry, id.bits()));
        }
        self.rows.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Third, by all workers at once: builds the indexes.
    ///
    /// # Errors
    /// When memory fails or is full.
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
