//! Lives of two nodes that take turns, and the state after a crash.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Simulated, Worker};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_runtime::Handle;
use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{
    Checkpoint, Database, DatabaseId, NodeId, Recovery, Schema, Scheme, Table, Timestamp,
    Transaction, TransactionNode, TransactionSettings, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;
use latchwork_wal::storage::Torn;
use latchwork_wal::storage::torn::StorageOperation;
use latchwork_wal::{Device, Log, LogDirectory};

const DATABASE: DatabaseId = DatabaseId(9);
const LIMIT: Duration = Duration::from_secs(30);

/// One life.
#[derive(Clone, Default)]
pub(crate) struct Stage {
    pub(crate) scheme: Scheme,
    /// The number of timestamps that a worker draws at once.
    pub(crate) block: u64,
    /// The log settings of each node.
    pub(crate) logs: [latchwork_wal::LogSettings; 2],
    /// Commits release their locks early. The table has an index of amounts.
    pub(crate) early: bool,
    /// The device of the logs. With another device than the default one, no transaction becomes
    /// aged.
    pub(crate) disk: Device,
    /// The seed for what a crash leaves of the data that was not synced.
    pub(crate) luck: u64,
}

struct Shared {
    stage: Stage,
    device: Torn,
    directory: Arc<LogDirectory>,
    recovery: Recovery,
    root: RefCell<Option<GlobalAddr>>,
    nodes: RefCell<Vec<Arc<TransactionNode>>>,
    turn: Cell<usize>,
}

/// The handles of one of the two nodes.
pub(crate) struct Part {
    shared: Rc<Shared>,
    pub(crate) node: usize,
    memory: Worker,
}

impl Stage {
    /// Like [`play`](Stage::play), with a value that all nodes get.
    pub(crate) fn play_with<T: Clone + 'static, F: Future<Output = ()> + 'static>(
        &self,
        device: &Torn,
        with: T,
        body: impl Fn(Part, T) -> F + Copy + 'static,
    ) -> Torn {
        self.run(device, move |part| body(part, with.clone()))
    }

    /// Runs a life on the content of `device`, and returns the device after a crash.
    pub(crate) fn play<F: Future<Output = ()> + 'static>(
        &self,
        device: &Torn,
        body: impl Fn(Part) -> F + Copy + 'static,
    ) -> Torn {
        self.run(device, body)
    }

    fn run<F: Future<Output = ()> + 'static>(
        &self,
        device: &Torn,
        body: impl Fn(Part) -> F + 'static,
    ) -> Torn {
        let directory = LogDirectory::open(Arc::new(device.clone()), DATABASE).expect("settled");
        let recovery = Recovery::new(directory.replay(1).expect("whole"));
        let (root, nodes, turn) = Default::default();
        let (stage, device, luck) = (self.clone(), device.clone(), self.luck);
        let shared = Shared { stage, device, directory, recovery, root, nodes, turn };
        let shared = Rc::new(shared);
        let config = ClusterConfig {
            compute_nodes: 2,
            memory_nodes: 1,
            workers: 1,
            inflight: 8,
            memory_bytes: 16 << 20,
            cache_bytes: Cache::footprint(256, 1024),
            line_size: 1024,
            chunk_size: 128 << 10,
            seed: 1,
            ..ClusterConfig::default()
        };
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let device = shared.device.clone();
        let play = move |member: latchwork_cluster::Member| {
            let (node, memory) = (member.node, member.memory.clone());
            let part = Part { shared: shared.clone(), node, memory };
            let body = body(part);
            async move {
                let _operation = member.memory.enter().await.expect("memory is in order");
                body.await;
            }
        };
        cluster.run(LIMIT, play).unwrap_or_else(|error| panic!("{}: {error}", self.scheme));
        device.crash(luck)
    }
}

impl Part {
    /// Waits until `turn` turns have ended.
    pub(crate) async fn wait(&self, turn: usize) {
        while self.shared.turn.get() < turn {
            self.memory.handle().sleep(Duration::from_micros(20)).await;
        }
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.memory.handle().sleep(duration).await;
    }

    /// Ends a turn.
    pub(crate) fn next(&self) {
        self.shared.turn.set(self.shared.turn.get() + 1);
    }

    /// Switches the power off.
    pub(crate) fn power_off(&self) {
        self.shared.device.power_off();
    }

    /// Makes the device full, or gives it unlimited room.
    pub(crate) fn is_full(&self, full: bool) {
        self.shared.device.set_capacity(if full { 0 } else { u64::MAX });
    }

    pub(crate) fn handle(&self) -> &Handle {
        self.memory.handle()
    }

    /// Makes the next sync of a file fail.
    pub(crate) fn fail_sync(&self) {
        self.shared.device.fail(StorageOperation::Sync, 0);
    }

    /// Opens the database, or tries to, as another node with another scheme.
    pub(crate) async fn open_as(&self, scheme: Scheme) -> Result<(), TxnError> {
        let node = TransactionNode::new(
            NodeId(7),
            None,
            TransactionSettings { scheme, ..TransactionSettings::default() },
        );
        let root = self.shared.root.borrow().expect("made");
        Database::open(self.memory.clone(), node, root).await.map(drop)
    }

    pub(crate) fn recovery(&self) -> &Recovery {
        &self.shared.recovery
    }

    /// Opens and recovers the database. Returns it with its table. Node 0 comes first.
    pub(crate) async fn open(&self) -> (Database<Worker>, Table<Worker>) {
        let (shared, handle) = (&self.shared, self.memory.handle());
        let (stage, id) = (&shared.stage, NodeId(self.node as u8));
        let settings = stage.logs[self.node].clone();
        let log = Log::simulated(&shared.directory, id, settings, handle, stage.disk);
        let elder_after = if stage.disk == Device::default() { 16 } else { 0 };
        let settings = TransactionSettings {
            scheme: stage.scheme,
            timestamp_block: stage.block,
            early_release: stage.early,
            elder_after,
            ..TransactionSettings::default()
        };
        let node = TransactionNode::new(id, Some(log.expect("closed")), settings);
        let memory = self.memory.clone();
        let database = if self.node == 0 {
            let database = Database::create(memory, node.clone(), DATABASE).await.expect("room");
            shared.recovery.run(&database).await.expect("room");
            if let Err(TxnError::NoTable { .. }) = database.table("things").await {
                database.create_table(schema(stage.early)).await.expect("room");
            }
            *shared.root.borrow_mut() = Some(database.root());
            database
        } else {
            while shared.root.borrow().is_none() {
                handle.sleep(Duration::from_micros(20)).await;
            }
            let root = shared.root.borrow().expect("made");
            Database::open(memory, node.clone(), root).await.expect("it is there")
        };
        shared.nodes.borrow_mut().push(node);
        let table = database.table("things").await.expect("it is there");
        (database, table)
    }

    pub(crate) async fn checkpoint(
        &self,
        database: &Database<Worker>,
    ) -> Result<Checkpoint, TxnError> {
        self.checkpoint_within(database, Duration::from_secs(5)).await
    }

    pub(crate) async fn checkpoint_within(
        &self,
        database: &Database<Worker>,
        wait: Duration,
    ) -> Result<Checkpoint, TxnError> {
        let nodes = self.shared.nodes.borrow().clone();
        let deadline = self.memory.handle().now() + wait;
        database.checkpoint(&nodes, &self.shared.directory, deadline).await
    }
}

fn schema(indexed: bool) -> Schema {
    let mut schema = Schema::builder("things")
        .column("id", ColumnType::U8)
        .column("amount", ColumnType::U8)
        .primary_key(["id"])
        .rows_per_line(1);
    if indexed {
        schema = schema.index("by_amount", [("amount", Order::Ascending)]);
    }
    schema.build().expect("a good schema")
}

/// Adds or changes a row, and returns the commit timestamp.
pub(crate) async fn put<M: LineLocks>(
    database: &Database<M>,
    table: &Table<M>,
    key: u8,
    amount: u8,
) -> Timestamp {
    let put = async |tx: &mut Transaction<M>| match tx.insert(table, &[key], &[amount]).await {
        Err(TxnError::Exists) => tx.update(table, &[key], &[amount]).await,
        other => other,
    };
    let mut attempts = 0;
    loop {
        match database.attempt(put).await {
            Ok(((), cts)) => return cts,
            Err(error) if error.conflict().is_some() && attempts < 1000 => attempts += 1,
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) async fn delete<M: LineLocks>(database: &Database<M>, table: &Table<M>, key: u8) {
    let deleted = database.run(async |tx| tx.delete(table, &[key]).await).await;
    deleted.expect("nobody is in the way");
}

pub(crate) async fn get<M: LineLocks>(
    database: &Database<M>,
    table: &Table<M>,
    key: u8,
) -> Option<u8> {
    let mut row = Vec::new();
    let found = database.run(async |tx| tx.get(table, &[key], &mut row).await).await;
    found.expect("nobody is in the way").then(|| row[0])
}
