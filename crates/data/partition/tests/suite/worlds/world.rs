//! A cluster of nodes with a part of the rows each, and the checks at its end.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::{CoherentMemory, LineLocks, UserMessages};
use latchwork_history::{CheckOptions, RecordedOperation, Recording, TransactionOutcome};
use latchwork_partition::{
    PartitionSettings, Partitioned, PrepareCollector, Site, Stats, TransactionRows,
};
use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{
    Database, DatabaseId, NodeId, Range, Schema, Scheme, Table, TransactionNode, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::{Faults, SimConfig};
use latchwork_wal::storage::Torn;
use latchwork_wal::{Device, Log, LogDirectory};

use crate::worlds::mix;

const LIMIT: Duration = Duration::from_secs(120);

/// The parameters of a world.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) seed: u64,
    pub(crate) scheme: Scheme,
    pub(crate) nodes: usize,
    /// Tasks of each node.
    pub(crate) tasks: usize,
    /// Transactions of each task.
    pub(crate) transactions: usize,
    /// Keys of each part: few, so that transactions conflict.
    pub(crate) keys: u8,
    pub(crate) logged: bool,
    /// All transactions read a row of one part and write a row of another part.
    pub(crate) skew: bool,
    /// Nodes stop now and then for longer than the other nodes wait.
    pub(crate) pauses: bool,
    pub(crate) network: SimConfig,
    /// The faults while transactions run.
    pub(crate) faults: Faults,
}

impl Default for Shape {
    fn default() -> Self {
        Shape {
            seed: 0,
            scheme: Scheme::default(),
            nodes: 2,
            tasks: 3,
            transactions: 25,
            keys: 6,
            logged: false,
            skew: false,
            pauses: false,
            network: SimConfig::default(),
            faults: Faults::NONE,
        }
    }
}

/// The counts of a world.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct Report {
    pub(crate) commits: usize,
    pub(crate) aborts: usize,
    pub(crate) stats: Stats,
}

/// The tables of one part. Each part has its own tables, so no leaf of an index has rows of two
/// parts.
fn schema(part: usize) -> Schema {
    let schema = Schema::builder(format!("things{part}"))
        .column("part", ColumnType::U8)
        .column("id", ColumnType::U8)
        .column("amount", ColumnType::U64)
        .column("copy", ColumnType::U8)
        .column("bucket", ColumnType::U8)
        .primary_key(["part", "id"])
        .index("by_bucket", [("copy", Order::Ascending), ("bucket", Order::Ascending)])
        .rows_per_line(2);
    schema.build().expect("a good schema")
}

pub(crate) struct World {
    shape: Shape,
    root: RefCell<Option<GlobalAddr>>,
    directory: Arc<LogDirectory>,
    sites: Vec<Arc<Site>>,
    recording: Recording,
    /// Tasks that have not ended.
    busy: RefCell<usize>,
    /// Nodes that have not begun.
    starting: RefCell<usize>,
    /// Nodes that have work in progress.
    restless: RefCell<usize>,
}

impl World {
    pub(crate) fn run(shape: &Shape) -> Report {
        let config = ClusterConfig {
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
        let cluster =
            Simulated::start(config, shape.network.clone()).expect("a good configuration");
        let settings = PartitionSettings {
            again: Duration::from_micros(400),
            deadline: Duration::from_millis(4),
            idle: Duration::from_millis(8),
            ask: Duration::from_millis(1),
            tick: Duration::from_micros(200),
        };
        let gathering = Arc::new(PrepareCollector::default());
        let site = |_| Site::new(1, settings.clone()).prepare_collector(gathering.clone());
        let device = Torn::new(shape.seed);
        let directory = LogDirectory::open(Arc::new(device), DatabaseId(shape.seed));
        let world = Rc::new(World {
            shape: shape.clone(),
            root: RefCell::default(),
            directory: directory.expect("an empty device"),
            sites: (0..shape.nodes).map(site).map(Arc::new).collect(),
            recording: Recording::memory(0),
            busy: RefCell::new(shape.nodes * shape.tasks),
            starting: RefCell::new(shape.nodes),
            restless: RefCell::new(shape.nodes),
        });
        let (mut next_pause, mut faulty) = (0, false);
        let body = {
            let world = world.clone();
            move |member| world.clone().work(member)
        };
        let watch = |cluster: &Simulated| {
            let at_work = *world.starting.borrow() == 0 && *world.busy.borrow() > 0;
            if at_work != faulty {
                faulty = at_work;
                cluster.network().set_faults(if faulty { shape.faults } else { Faults::NONE });
            }
            // A node is away for six milliseconds, every now and then.
            let now = cluster.kernel().now().as_nanos() / 1_000_000;
            if shape.pauses && now >= next_pause && *world.busy.borrow() > 0 {
                next_pause = now + 9;
                let node = cluster.kernel().random_below(shape.nodes as u64) as usize;
                cluster.pause(node, Duration::from_millis(6));
            }
        };
        cluster
            .run_watched(LIMIT, body, watch)
            .unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        for node in cluster.nodes() {
            assert_eq!(node.locked_lines(), 0, "{shape:?}: a lock was forgotten");
        }
        world.report()
    }

    async fn work(self: Rc<Self>, member: Member) {
        let memory = member.memory.clone();
        let handle = member.handle.clone();
        let _operation = memory.enter().await.expect("memory is in order");
        let id = NodeId(member.node as u8);
        let log = self.shape.logged.then(|| {
            let settings = latchwork_wal::LogSettings::default();
            let log = Log::simulated(&self.directory, id, settings, &handle, Device::default());
            log.expect("it is closed")
        });
        let scheme = self.shape.scheme;
        let settings = latchwork_txn::TransactionSettings {
            scheme,
            ..latchwork_txn::TransactionSettings::default()
        };
        let node = TransactionNode::new(id, log, settings);
        let database = match member.node {
            0 => {
                let id = DatabaseId(self.shape.seed);
                let database = Database::create(memory.clone(), node, id).await.expect("room");
                database.record(self.recording.recorder(), 0);
                for part in 0..self.shape.nodes {
                    database.create_table(schema(part)).await.expect("room");
                }
                *self.root.borrow_mut() = Some(database.root());
                database
            }
            _ => loop {
                let root = *self.root.borrow();
                if let Some(root) = root {
                    break Database::open(memory.clone(), node, root).await.expect("it is there");
                }
                handle.sleep(Duration::from_micros(20)).await;
            },
        };
        let mut tables = Vec::new();
        for part in 0..self.shape.nodes {
            tables.push(database.table(&format!("things{part}")).await.expect("it is there"));
        }
        let owner = Rc::new(|_: &Table<_>, key: &[u8]| Some(key[0]));
        let site = self.sites[member.node].clone();
        let started = Partitioned::start(database, site.clone(), 0, tables.clone(), owner);
        let node = started.expect("a node of this cluster");
        node.record(self.recording.recorder(), 1);
        // Before that, no worker takes the node's user messages.
        *self.starting.borrow_mut() -= 1;
        while *self.starting.borrow() > 0 {
            handle.sleep(Duration::from_micros(20)).await;
        }
        for _ in 0..self.shape.tasks {
            let (world, node, tables) = (self.clone(), node.clone(), tables.clone());
            drop(handle.spawn(async move {
                let Shape { keys, skew, .. } = world.shape;
                for _ in 0..world.shape.transactions {
                    mix::transaction(&node, &tables, keys, skew).await;
                }
                *world.busy.borrow_mut() -= 1;
            }));
        }
        // The other nodes need this node until all have finished.
        while *self.busy.borrow() > 0 || node.participants() > 0 || site.open() > 0 {
            handle.sleep(Duration::from_micros(50)).await;
        }
        *self.restless.borrow_mut() -= 1;
        while *self.restless.borrow() > 0 {
            handle.sleep(Duration::from_micros(50)).await;
        }
        if member.node == 0 {
            self.settle(&node, &tables).await;
            *self.root.borrow_mut() = None;
        }
        while self.root.borrow().is_some() {
            handle.sleep(Duration::from_micros(50)).await;
        }
    }

    /// When everything is quiet: the rows are what the history states, and the index leads to all
    /// of them.
    async fn settle<M: LineLocks + UserMessages>(
        &self,
        node: &Partitioned<M>,
        tables: &[Table<M>],
    ) {
        let mut expected: BTreeMap<Vec<u8>, (u64, bool)> = BTreeMap::new();
        for transaction in &self.recording.history().transactions {
            let TransactionOutcome::Committed { cts } = transaction.outcome else { continue };
            for operation in &transaction.operations {
                let RecordedOperation::Write { table: of, key, change } = operation else {
                    continue;
                };
                if tables.iter().any(|table| *of == table.id().0) {
                    let latest = expected.entry(key.to_vec()).or_default();
                    *latest = (*latest).max((cts, change.is_put()));
                }
            }
        }
        expected.retain(|_, (_, live)| *live);
        let (mut rows, mut by_bucket) = (Vec::new(), Vec::new());
        let read: Result<(), TxnError> = node
            .run(async |tx| {
                rows.clear();
                by_bucket.clear();
                for (part, table) in (0..).zip(tables) {
                    let (from, to) = ([part], [part + 1]);
                    tx.scan(table, Range::between(&from, &to), |key, row| {
                        rows.push((row[8], row[9], key.to_vec(), row.to_vec()));
                        ControlFlow::Continue(())
                    })
                    .await?;
                    tx.scan_index(table, 0, Range::between(&from, &to), |key, row| {
                        by_bucket.push((row[8], row[9], key.to_vec(), row.to_vec()));
                        ControlFlow::Continue(())
                    })
                    .await?;
                }
                Ok(())
            })
            .await;
        read.expect("nobody else is at work");
        let keys: Vec<_> = rows.iter().map(|(_, _, key, _)| key.clone()).collect();
        assert_eq!(keys, expected.keys().cloned().collect::<Vec<_>>(), "{:?}", self.shape);
        rows.sort_unstable();
        assert_eq!(rows, by_bucket, "the index is another order of the rows; {:?}", self.shape);
    }

    fn report(&self) -> Report {
        let history = self.recording.history();
        let options = CheckOptions { is_strict: true, ..CheckOptions::default() };
        let verdict = latchwork_history::check(&history, options);
        assert!(verdict.is_serializable(), "{:?}\n{verdict}", self.shape);
        assert_eq!(verdict.undecided, 0, "{:?}\n{verdict}", self.shape);
        let mut report = Report::default();
        for transaction in &history.transactions {
            match transaction.outcome {
                TransactionOutcome::Committed { .. } => report.commits += 1,
                TransactionOutcome::Aborted { .. } => report.aborts += 1,
                TransactionOutcome::Unknown { .. } => panic!("{:?}: all have heard", self.shape),
            }
        }
        for site in &self.sites {
            report.stats = report.stats + site.stats();
        }
        report
    }
}
