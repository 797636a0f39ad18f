//! Simulated nodes with one row each, for tests of single transactions.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Simulated, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_partition::{PartitionSettings, Partitioned, Site, Stats, TransactionRows};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{Database, DatabaseId, NodeId, Schema, Table, Transaction, TransactionNode};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;
use latchwork_wal::storage::Torn;
use latchwork_wal::{Device, Log, LogDirectory};

const LIMIT: Duration = Duration::from_secs(100);

/// The state that the nodes share.
pub(crate) struct Nodes {
    pub(crate) sites: Vec<Arc<Site>>,
    directory: Arc<LogDirectory>,
    root: RefCell<Option<GlobalAddr>>,
    /// Nodes that have finished. Each node stays until all have.
    done: Cell<usize>,
    /// Rows of each node.
    rows: u8,
    pub(crate) transactions: latchwork_txn::TransactionSettings,
}

/// One node.
pub(crate) struct Started {
    pub(crate) node: Partitioned<Worker>,
    /// One table for each node. A key is the number of the node and the number of the row.
    pub(crate) tables: Vec<Table<Worker>>,
    pub(crate) log: Log,
}

/// Runs `body` on each node, with a log on each of these devices, until all nodes have finished.
pub(crate) fn run<F: Future<Output = ()>>(
    nodes: &Rc<Nodes>,
    device: impl Fn(usize) -> Device + 'static,
    body: impl Fn(Member, Rc<Started>) -> F + 'static,
) {
    run_watched(nodes, device, body, |_| {});
}

/// Like [`run`], and calls `watch` after every event.
pub(crate) fn run_watched<F: Future<Output = ()>>(
    nodes: &Rc<Nodes>,
    device: impl Fn(usize) -> Device + 'static,
    body: impl Fn(Member, Rc<Started>) -> F + 'static,
    watch: impl FnMut(&Simulated),
) {
    let shared = Rc::new((nodes.clone(), device, body));
    let on_node = move |member: Member| {
        let shared = shared.clone();
        async move {
            let (nodes, device, body) = &*shared;
            let _operation = member.memory.enter().await.expect("memory is in order");
            let started = Rc::new(nodes.join(&member, device(member.node)).await);
            body(member.clone(), started.clone()).await;
            nodes.leave(&member).await;
            assert_eq!(started.node.participants(), 0);
        }
    };
    let cluster = start(nodes.sites.len());
    cluster.run_watched(LIMIT, on_node, watch).expect("it ends");
}

fn start(nodes: usize) -> Simulated {
    let config = ClusterConfig {
        compute_nodes: nodes,
        memory_nodes: 1,
        workers: 1,
        inflight: 32,
        memory_bytes: 16 << 20,
        cache_bytes: Cache::footprint(256, 1024),
        line_size: 1024,
        chunk_size: 128 << 10,
        seed: 1,
        ..ClusterConfig::default()
    };
    Simulated::start(config, SimConfig::default()).expect("a good configuration")
}

impl Nodes {
    pub(crate) fn new(nodes: usize, rows: u8, settings: &PartitionSettings) -> Rc<Nodes> {
        let directory = LogDirectory::open(Arc::new(Torn::new(1)), DatabaseId(1)).expect("empty");
        let sites = (0..nodes).map(|_| Arc::new(Site::new(1, settings.clone()))).collect();
        // Only a log is slow here.
        let log_deadline = Duration::from_millis(10);
        let transactions = latchwork_txn::TransactionSettings {
            log_deadline,
            ..latchwork_txn::TransactionSettings::default()
        };
        let (root, done) = Default::default();
        Rc::new(Nodes { sites, directory, root, done, rows, transactions })
    }

    /// Starts a node with a log on this device.
    pub(crate) async fn join(&self, member: &Member, device: Device) -> Started {
        let (handle, memory) = (&member.handle, member.memory.clone());
        let id = NodeId(member.node as u8);
        let settings = latchwork_wal::LogSettings::default();
        let log = Log::simulated(&self.directory, id, settings, handle, device).expect("closed");
        let node = TransactionNode::new(id, Some(log.clone()), self.transactions.clone());
        let count = self.sites.len();
        let database = if member.node == 0 {
            let database = Database::create(memory, node, DatabaseId(1)).await.expect("room");
            for part in 0..count as u8 {
                let schema = Schema::builder(format!("rows{part}"))
                    .column("part", ColumnType::U8)
                    .column("number", ColumnType::U8)
                    .column("amount", ColumnType::U64)
                    .primary_key(["part", "number"])
                    .rows_per_line(1);
                let schema = schema.build().expect("a good schema");
                let table = database.create_table(schema).await.expect("room");
                let fill = async |tx: &mut Transaction<_>| {
                    for number in 0..self.rows {
                        tx.insert(&table, &[part, number], &[0; 8]).await?;
                    }
                    Ok(())
                };
                database.run(fill).await.expect("nobody is in the way");
            }
            *self.root.borrow_mut() = Some(database.root());
            database
        } else {
            while self.root.borrow().is_none() {
                handle.sleep(Duration::from_micros(20)).await;
            }
            let at = self.root.borrow().expect("it is there");
            Database::open(memory, node, at).await.expect("it is there")
        };
        let mut tables = Vec::new();
        for part in 0..count {
            tables.push(database.table(&format!("rows{part}")).await.expect("it is there"));
        }
        let owner = Rc::new(|_: &Table<_>, key: &[u8]| Some(key[0]));
        let site = self.sites[member.node].clone();
        let node = Partitioned::start(database, site, 0, tables.clone(), owner).expect("fits");
        handle.sleep(Duration::from_millis(5)).await;
        Started { node, tables, log }
    }

    /// Waits for the other nodes.
    pub(crate) async fn leave(&self, member: &Member) {
        self.done.set(self.done.get() + 1);
        while self.done.get() < self.sites.len() {
            member.handle.sleep(Duration::from_micros(50)).await;
        }
    }

    /// The counts of all nodes together.
    pub(crate) fn stats(&self) -> Stats {
        self.sites.iter().fold(Stats::default(), |sum, site| sum + site.stats())
    }

    /// Transactions that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.sites.iter().map(|site| site.open()).sum()
    }
}

impl Started {
    /// Writes row 0 of these nodes.
    pub(crate) async fn write(
        &self,
        tx: &mut latchwork_partition::PartitionedTransaction<Worker>,
        parts: &[u8],
        value: u64,
    ) -> Result<(), latchwork_txn::TxnError> {
        for &part in parts {
            tx.update(&self.tables[usize::from(part)], &[part, 0], &value.to_le_bytes()).await?;
        }
        Ok(())
    }

    pub(crate) async fn read(&self, part: u8, number: u8) -> u64 {
        let (table, mut row) = (&self.tables[usize::from(part)], Vec::new());
        let read =
            self.node.run(async |tx| tx.get(table, &[part, number], &mut row).await.map(drop));
        read.await.expect("nobody is in the way");
        u64::from_le_bytes(row[..8].try_into().expect("8 bytes"))
    }
}
