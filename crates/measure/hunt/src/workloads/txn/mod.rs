//! The workload `txn`: transactions over a small table, on all nodes and workers, under one scheme
//! of concurrency control.
//!
//! ```text
//!   a task:   steps, drawn once ──► attempt ──► attempt ──► .. ──► commit, abort, or no answer
//!                                     └──────────┬──────────────────────┘
//!   recorder of the crate `txn`: versions and ranges        task: the contents of rows
//!                                     └───────────────┬───────────────┘
//!   judge:    one serial order of all that committed, in real time; no lost write, no stray value
//! ```
//!
//! The check of versions is that of the crate `latchwork-history`, phantoms included. It knows
//! nothing of contents, which [`contents`] checks.

mod contents;
mod judge;
mod operation;
mod rows;
mod split;
mod steps;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cluster::Worker;
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_history::Recording;
use latchwork_runtime::Time;
use latchwork_txn::{
    Database, DatabaseId, NodeId, Table, TransactionNode, TransactionRules, TransactionSettings,
    TxnError,
};
use latchwork_verbs::{GlobalAddr, VerbError};

use super::client::{Client, Phase, Shared, Work};
use crate::checks::CheckResult;
use crate::scenario::{Scenario, SeededBug, TxnLoad};
use contents::Contents;
use judge::TxnRecord;
use operation::Operation;
use rows::Content;

/// Maximum number of waits for a line in one operation. This is an estimate: a transaction runs
/// again after a conflict.
const ACCESSES_MAX: u32 = 1_000;

/// The numbers of the recorders that are of no task, above the number of any worker.
const SETS_UP: u16 = 1_000;
const INSPECTS: u16 = 1_001;

/// The number of rows that one transaction adds while the table is set up.
const LOADED_AT_ONCE: usize = 4;

/// The workload.
pub(super) struct Txn {
    load: TxnLoad,
    settings: TransactionSettings,
    /// `None` after the end of the record.
    recording: RefCell<Option<Recording>>,
    /// What the workers of a compute node share. On threads each worker has a node of its own.
    nodes: RefCell<BTreeMap<usize, Arc<TransactionNode>>>,
    handles: RefCell<BTreeMap<usize, Opened>>,
}

/// A worker's handles on the database and on its table.
#[derive(Clone)]
pub(super) struct Opened {
    database: Database<Worker>,
    table: Table<Worker>,
}

/// What a task knows.
pub(super) struct Task {
    opened: Opened,
    next_id: Cell<u64>,
}

impl Txn {
    pub(super) fn new(scenario: &Scenario, load: &TxnLoad) -> Txn {
        let defaults = TransactionSettings::default();
        // Rows that a dead node has locked stay locked, and more attempts would only take time.
        let retry_for = match scenario.plant {
            Some(SeededBug::KeepsAbandonedRows) => Duration::from_millis(20),
            _ if scenario.may_fail_operations() => Duration::from_micros(scenario.deadline_us),
            _ => defaults.retry_for,
        };
        let settings = TransactionSettings {
            scheme: load.scheme,
            elder_after: load.elder_after as u32,
            retry_for,
            rules: rules(scenario.plant),
            ..defaults
        };
        Txn {
            load: load.clone(),
            settings,
            recording: RefCell::new(Some(Recording::memory(0))),
            nodes: RefCell::default(),
            handles: RefCell::default(),
        }
    }
}

impl Work for Txn {
    const FINISHES: bool = true;
    type Task = Task;
    type Operation = Operation;
    type Record = TxnRecord;

    async fn set_up(client: &Client<Self>) -> Result<Vec<GlobalAddr>, String> {
        let made = client.make_table().await;
        made.map(|root| vec![root]).map_err(|error| error.to_string())
    }

    async fn begin(client: &Client<Self>, phase: Phase) -> Option<Task> {
        let open = async {
            loop {
                match client.open(phase).await {
                    Err(error) if client.is_unanswered(&error) => {}
                    opened => break opened,
                }
            }
        };
        let opened = client.observed("open", "the table", ACCESSES_MAX, open).await?;
        let next_id = Cell::new(u64::from(client.process.number) << 32);
        Some(Task { opened, next_id })
    }

    fn draw(client: &Client<Self>) -> Operation {
        client.draw_operation()
    }

    async fn apply(client: &Client<Self>, operation: Operation) {
        client.transaction(operation).await;
    }

    /// Drops this worker's handle, so that the worker can leave.
    async fn finish(client: &Client<Self>) {
        client.of().handles.borrow_mut().remove(&client.member.index);
    }

    async fn inspect(client: &Client<Self>) {
        if client.begin(Phase::Inspect).await {
            let look = async {
                match client.look_at_all().await {
                    Err(error) if client.is_unanswered(&error) => Ok(()),
                    looked => looked,
                }
            };
            client.observed("read", "the whole table", ACCESSES_MAX, look).await;
        }
    }

    fn end(shared: &Shared<Self>) {
        let recording = shared.work.recording.take();
        let transactions = recording.map(|recording| recording.history().transactions);
        let gone = |node: usize| shared.observer.gone_since(node);
        let mut record = shared.record.borrow_mut();
        record.end(transactions.unwrap_or_default(), gone);
        if !shared.scenario.may_fail_operations() {
            let nodes = shared.work.nodes.take().into_iter();
            let nodes = nodes.filter(|(node, _)| shared.observer.gone_since(*node).is_none());
            let health = nodes.map(|(_, node)| node.health());
            record.ill.extend(health.filter(|health| !health.is_good()).map(|h| h.to_string()));
        }
    }

    fn roots(&self) -> u64 {
        1
    }

    /// Lines of rows are never freed, and which of them are in use the table does not tell.
    fn lines_in_use(&self, _record: &TxnRecord) -> Option<u64> {
        None
    }

    fn keeps_locks(&self, node: usize) -> bool {
        self.nodes.borrow().get(&node).is_some_and(|node| node.health().left_locked > 0)
    }

    fn merge(record: &mut TxnRecord, more: TxnRecord) {
        record.merge(more);
    }

    fn forget_unseen(record: &mut TxnRecord, dead: &BTreeMap<usize, Time>) {
        record.may_be_undone(dead);
    }

    fn judge(&self, record: &TxnRecord) -> CheckResult {
        record.judge()
    }
}

impl Client<Txn> {
    fn opened(&self) -> &Opened {
        &self.task().opened
    }

    /// The state that this worker shares with the workers of its node.
    fn node(&self) -> Arc<TransactionNode> {
        let sees_all = self.shared.observer.sees_all();
        let at = if sees_all { self.process.node } else { self.member.index };
        let id = NodeId(u8::try_from(at).unwrap_or(u8::MAX));
        let mut nodes = self.of().nodes.borrow_mut();
        let made = || TransactionNode::new(id, None, self.of().settings.clone());
        nodes.entry(at).or_insert_with(made).clone()
    }

    fn record_as(&self, database: &Database<Worker>, worker: u16) {
        if let Some(recording) = &*self.of().recording.borrow() {
            database.record(recording.recorder(), worker);
        }
    }

    /// Evicts a line of global atomics from this node's cache. From here on only global atomics
    /// use the line, so no cache may have it.
    async fn evict(&self, line: GlobalAddr) {
        let (memory, node) = (&self.member.memory, self.member.memory.node());
        while node.cache().find(line).is_some() || node.is_in_flight(line) {
            memory.evict(line);
            self.member.handle.sleep(Duration::from_micros(10)).await;
        }
    }

    /// Whether a global atomic, such as the draw of a timestamp, has ended without an answer. In a
    /// world with failing batches this is permitted.
    fn is_unanswered(&self, error: &TxnError) -> bool {
        let is_ambiguous =
            matches!(error.memory(), Some(MemoryError::Fabric(VerbError::Ambiguous { .. })));
        is_ambiguous && self.shared.scenario.faults.fail_one_in > 0
    }

    /// Makes the database and its table, with half of the keys. Returns the root of the database.
    async fn make_table(&self) -> Result<GlobalAddr, TxnError> {
        let memory = self.member.memory.clone();
        let _operation = memory.enter().await?;
        let id = DatabaseId(self.shared.scenario.seed);
        let database = Database::create(memory.clone(), self.node(), id).await?;
        self.record_as(&database, SETS_UP);
        self.evict(database.counters()).await;
        let table = database.create_table(rows::schema(self.of().load.rows_per_line)?).await?;
        let loaded: Vec<u64> = (0..self.of().load.keys).step_by(2).collect();
        for keys in loaded.chunks(LOADED_AT_ONCE) {
            let load = database.run(async |tx| {
                let mut contents = Contents::default();
                for &n in keys {
                    let content = Content::unique(u64::MAX - n);
                    tx.insert(&table, &rows::key(n), &content.encode()).await?;
                    contents.wrote(n, Some(content));
                }
                Ok(contents)
            });
            let contents = load.await?;
            self.record(|record| {
                record.drawn.extend(keys.iter().map(|&n| (u64::MAX - n, n)));
            });
            self.has_committed(contents);
        }
        Ok(database.root())
    }

    /// This worker's handle. All tasks of the worker share the handle. A task that reads everything
    /// at the end has a handle of its own.
    async fn open(&self, phase: Phase) -> Result<Opened, TxnError> {
        let (handles, worker) = (&self.of().handles, self.member.index);
        let known = handles.borrow().get(&worker).filter(|_| phase == Phase::Task).cloned();
        if let Some(opened) = known {
            return Ok(opened);
        }
        let memory = self.member.memory.clone();
        let _operation = memory.enter().await?;
        let database = Database::open(memory.clone(), self.node(), self.root(0)).await?;
        let inspects = phase != Phase::Task;
        self.record_as(&database, if inspects { INSPECTS } else { self.member.worker as u16 });
        let table = database.table(rows::TABLE).await?;
        let opened = Opened { database, table };
        if inspects {
            return Ok(opened);
        }
        // If another task has opened the table meanwhile, its handle counts.
        Ok(handles.borrow_mut().entry(worker).or_insert(opened).clone())
    }
}

/// The rules of the schemes, without the one that a seeded bug turns off.
fn rules(plant: Option<SeededBug>) -> TransactionRules {
    let all = TransactionRules::ALL;
    match plant {
        Some(SeededBug::OverlooksPhantoms) => TransactionRules { leaves_count: false, ..all },
        Some(SeededBug::SkipsRowValidation) => {
            TransactionRules { rows_are_validated: false, ..all }
        }
        Some(SeededBug::DropsReadLocks) => TransactionRules { keeps_read_locks: false, ..all },
        Some(SeededBug::KeepsAbandonedRows) => TransactionRules { abandoned_rows_go: false, ..all },
        Some(SeededBug::IgnoresReadTimestamps) => {
            TransactionRules { read_timestamps_count: false, ..all }
        }
        _ => all,
    }
}
