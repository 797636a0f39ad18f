//! A cluster with a database, workers that run transactions, and the checks at the end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Protocol, Simulated};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_history::{CheckOptions, RecordedOperation, Recording, TransactionOutcome};
use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{
    Database, DatabaseId, NodeId, Range, Schema, Scheme, Table, TransactionNode,
    TransactionSettings, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;
use latchwork_wal::storage::Torn;
use latchwork_wal::{Device, Log, LogDirectory};

use crate::worlds::mix::{self, Tables};

const LIMIT: Duration = Duration::from_secs(120);

/// The parameters of a world.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) scheme: Scheme,
    pub(crate) protocol: Protocol,
    pub(crate) nodes: usize,
    /// The number of tasks of each node.
    pub(crate) tasks: usize,
    /// The number of transactions of each task.
    pub(crate) transactions: usize,
    /// The number of keys: few, so that transactions meet.
    pub(crate) keys: u32,
    /// The maximum number of rows in a line, if there is one.
    pub(crate) rows_per_line: Option<u16>,
    pub(crate) network: SimConfig,
    /// Commits wait for logs, and release their locks early.
    pub(crate) early: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            seed: 0,
            scheme: Scheme::default(),
            protocol: Protocol::Selcc,
            nodes: 2,
            tasks: 3,
            transactions: 40,
            keys: 12,
            rows_per_line: None,
            network: SimConfig::default(),
            early: false,
        }
    }
}

/// The result of a world.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Report {
    pub(crate) commits: usize,
    pub(crate) aborts: usize,
    /// The number of commits that were dropped in the middle.
    pub(crate) unknown: usize,
    /// The number of reads, writes and scans of committed transactions.
    pub(crate) operations: usize,
}

/// A table of things, with an index of buckets and ids, and a unique index of codes.
pub(crate) fn schema(rows_per_line: Option<u16>) -> Schema {
    let mut builder = Schema::builder("things")
        .column("id", ColumnType::U32)
        .column("amount", ColumnType::U64)
        .column("bucket", ColumnType::U8)
        .column("code", ColumnType::U16)
        .column("note", ColumnType::Blob)
        .primary_key(["id"])
        .index("by_bucket", [("bucket", Order::Ascending)])
        .unique_index("by_code", [("code", Order::Ascending)]);
    if let Some(rows) = rows_per_line {
        builder = builder.rows_per_line(rows);
    }
    builder.build().expect("a good schema")
}

/// A table of lines without a secondary index.
fn lines(rows_per_line: Option<u16>) -> Schema {
    let mut builder = Schema::builder("lines")
        .column("id", ColumnType::U32)
        .column("amount", ColumnType::U64)
        .column("note", ColumnType::Blob)
        .primary_key(["id"]);
    if let Some(rows) = rows_per_line {
        builder = builder.rows_per_line(rows);
    }
    builder.build().expect("a good schema")
}

pub(crate) struct World {
    shape: Shape,
    root: RefCell<Option<GlobalAddr>>,
    settings: TransactionSettings,
    logs: Arc<LogDirectory>,
    recording: Recording,
    /// The number of tasks that have not ended.
    busy: RefCell<usize>,
}

impl World {
    pub(crate) fn run(shape: &Shape) -> Report {
        let mut config = ClusterConfig {
            compute_nodes: shape.nodes,
            memory_nodes: 2,
            workers: 1,
            inflight: 32,
            memory_bytes: 16 << 20,
            cache_bytes: Cache::footprint(256, 1024),
            line_size: 1024,
            chunk_size: 128 << 10,
            seed: shape.seed,
            ..ClusterConfig::default()
        };
        config.protocol = shape.protocol;
        let cluster =
            Simulated::start(config, shape.network.clone()).expect("a good configuration");
        // Some worlds have aged transactions all the time, some have none.
        let elder_after = [16, 2, 0][shape.seed as usize % 3];
        let read_lease = [4096, 5, 0][shape.seed as usize / 3 % 3];
        let scheme = shape.scheme;
        let extend_timestamps = shape.seed % 4 != 1;
        let settings = TransactionSettings {
            scheme,
            elder_after,
            read_lease,
            extend_timestamps,
            early_release: shape.early,
            ..TransactionSettings::default()
        };
        let device = Arc::new(Torn::new(shape.seed));
        let logs = LogDirectory::open(device, DatabaseId(shape.seed)).expect("empty");
        let world = Rc::new(World {
            shape: shape.clone(),
            root: RefCell::default(),
            settings,
            logs,
            recording: Recording::memory(0),
            busy: RefCell::new(shape.nodes * shape.tasks),
        });
        cluster
            .run(LIMIT, {
                let world = world.clone();
                move |member| world.clone().work(member)
            })
            .unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        world.report()
    }

    async fn work(self: Rc<Self>, member: Member) {
        let first = member.node == 0;
        let memory = member.memory.clone();
        let _operation = memory.enter().await.expect("memory is in order");
        let id = NodeId(member.node as u8);
        let log = self.shape.early.then(|| {
            let (settings, handle) = (latchwork_wal::LogSettings::default(), memory.handle());
            Log::simulated(&self.logs, id, settings, handle, Device::default()).expect("closed")
        });
        let node = TransactionNode::new(id, log, self.settings.clone());
        let database = match first {
            true => {
                let id = DatabaseId(self.shape.seed);
                let database = Database::create(memory.clone(), node, id).await.expect("room");
                database.record(self.recording.recorder(), 0);
                database.create_table(schema(self.shape.rows_per_line)).await.expect("room");
                database.create_table(lines(self.shape.rows_per_line)).await.expect("room");
                *self.root.borrow_mut() = Some(database.root());
                database
            }
            false => loop {
                let root = *self.root.borrow();
                if let Some(root) = root {
                    break Database::open(memory.clone(), node, root).await.expect("it is there");
                }
                memory.handle().sleep(Duration::from_micros(20)).await;
            },
        };
        database.record(self.recording.recorder(), 1);
        let tables = Tables {
            things: database.table("things").await.expect("it is there"),
            lines: database.table("lines").await.expect("it is there"),
        };
        let tasks: Vec<_> = (0..self.shape.tasks)
            .map(|_| {
                let (world, database, tables) = (self.clone(), database.clone(), tables.clone());
                memory.handle().spawn(async move {
                    for _ in 0..world.shape.transactions {
                        mix::transaction(&database, &tables, world.shape.keys).await;
                    }
                    *world.busy.borrow_mut() -= 1;
                })
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic");
        }
        while *self.busy.borrow() > 0 {
            memory.handle().sleep(Duration::from_micros(50)).await;
        }
        if first {
            self.settle(&database, &tables).await;
        }
    }

    /// Checks that the rows equal the history and that the indexes lead to all of them, after all
    /// tasks have ended.
    async fn settle<M: LineLocks>(&self, database: &Database<M>, tables: &Tables<M>) {
        let lines = &tables.lines;
        let mut keys = Vec::new();
        let read: Result<usize, TxnError> = database
            .run(async |tx| {
                keys.clear();
                tx.scan(lines, Range::all(), |key, _| {
                    keys.push(key.to_vec());
                    ControlFlow::Continue(())
                })
                .await
            })
            .await;
        read.expect("nobody else is at work");
        let (expected, certain) = self.expected(lines);
        assert!(!certain || keys == expected, "{:?}: {keys:?}, not {expected:?}", self.shape);

        let table = &tables.things;
        let (expected, certain) = self.expected(table);
        let (mut rows, mut by_bucket, mut codes) = (Vec::new(), Vec::new(), Vec::new());
        let read: Result<(), TxnError> = database
            .run(async |tx| {
                rows.clear();
                by_bucket.clear();
                codes.clear();
                tx.scan(table, Range::all(), |key, row| {
                    rows.push((row[8], key.to_vec(), row.to_vec()));
                    ControlFlow::Continue(())
                })
                .await?;
                tx.scan_index(table, 0, Range::all(), |key, row| {
                    by_bucket.push((row[8], key.to_vec(), row.to_vec()));
                    ControlFlow::Continue(())
                })
                .await?;
                tx.scan_index(table, 1, Range::all(), |key, row| {
                    codes.push((u16::from_le_bytes([row[9], row[10]]), key.to_vec()));
                    ControlFlow::Continue(())
                })
                .await?;
                Ok(())
            })
            .await;
        read.expect("nobody else is at work");
        let keys: Vec<_> = rows.iter().map(|(_, key, _)| key.clone()).collect();
        if certain {
            assert_eq!(keys, expected, "{:?}", self.shape);
        }
        assert!(codes.is_sorted_by(|one, two| one.0 < two.0), "{:?}: {codes:?}", self.shape);
        let mut coded: Vec<_> = codes.into_iter().map(|(_, key)| key).collect();
        coded.sort_unstable();
        assert_eq!(keys, coded, "every row has its code; {:?}", self.shape);
        rows.sort_unstable();
        assert_eq!(rows, by_bucket, "the index is another order of the rows; {:?}", self.shape);
    }

    /// The keys that a table has according to the history, and whether they are certain.
    fn expected<M: LineLocks>(&self, table: &Table<M>) -> (Vec<Vec<u8>>, bool) {
        let mut expected: BTreeMap<Vec<u8>, (u64, bool)> = BTreeMap::new();
        let mut certain = true;
        for transaction in &self.recording.history().transactions {
            certain &= !matches!(transaction.outcome, TransactionOutcome::Unknown { .. });
            let TransactionOutcome::Committed { cts } = transaction.outcome else { continue };
            for operation in &transaction.operations {
                let RecordedOperation::Write { table: of, key, change } = operation else {
                    continue;
                };
                if *of == table.id().0 {
                    let latest = expected.entry(key.to_vec()).or_default();
                    *latest = (*latest).max((cts, change.is_put()));
                }
            }
        }
        let live = expected.into_iter().filter(|(_, (_, live))| *live);
        (live.map(|(key, _)| key).collect(), certain)
    }

    fn report(&self) -> Report {
        let history = self.recording.history();
        let options = CheckOptions { is_strict: true, ..CheckOptions::default() };
        let verdict = latchwork_history::check(&history, options);
        assert!(verdict.is_serializable(), "{:?}\n{verdict}", self.shape);
        let certain = verdict.unknown > 0 || verdict.undecided == 0;
        assert!(certain, "{:?}\n{verdict}", self.shape);
        let mut report = Report::default();
        for transaction in &history.transactions {
            match transaction.outcome {
                TransactionOutcome::Committed { .. } => {
                    report.commits += 1;
                    report.operations += transaction.operations.len();
                }
                TransactionOutcome::Aborted { .. } => report.aborts += 1,
                TransactionOutcome::Unknown { .. } => report.unknown += 1,
            }
        }
        report
    }
}
