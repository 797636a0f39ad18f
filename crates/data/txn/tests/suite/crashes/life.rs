//! A life from a restart to a crash: recovery, transactions of all nodes, checkpoints.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Protocol, Simulated};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_runtime::{Handle, Time};
use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{
    Database, DatabaseId, NodeId, Recovery, Schema, TransactionNode, TransactionSettings, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;
use latchwork_wal::storage::Torn;
use latchwork_wal::storage::torn::StorageOperation;
use latchwork_wal::{Device, Log, LogDirectory};

use crate::crashes::habits::{Fate, Habits};
use crate::crashes::judge::Judge;
use crate::crashes::rows::rows;

const LIMIT: Duration = Duration::from_secs(120);
const DATABASE: DatabaseId = DatabaseId(42);
const TASKS: usize = 4;

/// A gate that opens again when this value is dropped.
struct Gate<'a>(&'a Cell<bool>);

impl Drop for Gate<'_> {
    fn drop(&mut self) {
        self.0.set(false);
    }
}

/// The state that the workers of one life share.
pub(crate) struct Life {
    pub(crate) habits: Habits,
    directory: Arc<LogDirectory>,
    recovery: Recovery,
    root: RefCell<Option<GlobalAddr>>,
    /// The nodes that have opened the database.
    nodes: RefCell<Vec<Arc<TransactionNode>>>,
    /// The number of times that a node has ended a step of the recovery.
    arrived: Cell<usize>,
    /// Whether the database is recovered and checked.
    begun: Cell<bool>,
    /// Closed while a node starts or a checkpoint is written. The two exclude each other, because a
    /// checkpoint needs all nodes.
    gate: Cell<bool>,
    pub(crate) judge: RefCell<Judge>,
    pub(crate) device: Torn,
    /// The state of the device after the crash.
    pub(crate) left: RefCell<Option<Torn>>,
    at_work: Cell<usize>,
    /// Whether the device is full, was full, or has failed.
    pub(crate) faulty: Cell<bool>,
}

fn schema() -> Schema {
    let schema = Schema::builder("tagged")
        .column("id", ColumnType::U32)
        .column("tag", ColumnType::U64)
        .column("group", ColumnType::U8)
        .column("rest", ColumnType::Blob)
        .primary_key(["id"])
        .index("by_group", [("group", Order::Descending)]);
    schema.build().expect("a good schema")
}

impl Life {
    /// Runs until the power goes off. Returns the state of the device then.
    pub(crate) fn run(habits: Habits, device: &Torn, judge: &mut Judge) -> Torn {
        let looked = LogDirectory::open_to_read(Arc::new(device.clone()), DATABASE);
        let looked = looked.and_then(|directory| directory.replay(1));
        let looked = looked.expect("what a crash leaves can be read");
        let directory = LogDirectory::open(Arc::new(device.clone()), DATABASE);
        let directory = directory.expect("what a crash leaves can be opened");
        let replayed = directory.replay(1).expect("and read");
        assert_eq!(looked, replayed, "who only looks sees the same");
        let mut config = ClusterConfig {
            compute_nodes: habits.nodes,
            memory_nodes: 1,
            workers: 1,
            inflight: 32,
            memory_bytes: 16 << 20,
            cache_bytes: Cache::footprint(256, 1024),
            line_size: 1024,
            chunk_size: 128 << 10,
            seed: habits.seed,
            ..ClusterConfig::default()
        };
        config.protocol = Protocol::Selcc;
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let nobody = Judge::new(habits.mode);
        let life = Rc::new(Life {
            directory,
            recovery: Recovery::new(replayed),
            root: RefCell::default(),
            nodes: RefCell::default(),
            arrived: Cell::new(0),
            begun: Cell::new(false),
            gate: Cell::new(false),
            judge: RefCell::new(std::mem::replace(judge, nobody)),
            device: device.clone(),
            left: RefCell::default(),
            at_work: Cell::new(habits.nodes * TASKS),
            faulty: Cell::new(false),
            habits,
        });
        let body = {
            let life = life.clone();
            move |member| life.clone().work(member)
        };
        cluster.run(LIMIT, body).unwrap_or_else(|error| panic!("{:?}: {error}", life.habits));
        *judge = life.judge.replace(Judge::new(life.habits.mode));
        let left = life.left.borrow_mut().take();
        left.expect("it has crashed")
    }

    async fn work(self: Rc<Self>, member: Member) {
        let memory = member.memory.clone();
        let handle = member.handle.clone();
        let _operation = memory.enter().await.expect("memory is in order");
        let first = member.node == 0;
        let late = self.habits.late && member.node + 1 == self.habits.nodes;
        let mut gate = None;
        if late {
            self.until(&handle, || self.begun.get()).await;
            handle.sleep(Duration::from_micros(handle.random_below(2000))).await;
            gate = Some(self.enter(&handle).await);
            if self.left.borrow().is_some() {
                self.at_work.set(self.at_work.get() - TASKS);
                return;
            }
        }
        let node = self.node(member.node, &handle);
        let together = self.habits.together && !late;
        let database = if first {
            let database = Database::create(memory, node.clone(), DATABASE).await.expect("room");
            if !together {
                self.recovery.run(&database).await.expect("room");
                self.begin(&database).await;
            }
            *self.root.borrow_mut() = Some(database.root());
            database
        } else {
            self.until(&handle, || self.root.borrow().is_some()).await;
            let root = self.root.borrow().expect("it is there");
            Database::open(memory, node.clone(), root).await.expect("it is there")
        };
        self.nodes.borrow_mut().push(node);
        drop(gate);
        if together {
            self.recover(&database, first).await;
        }
        self.until(&handle, || self.begun.get()).await;
        let table = database.table("tagged").await.expect("it is there");
        for _ in 0..TASKS {
            let (life, database, table) = (self.clone(), database.clone(), table.clone());
            // No task waits for these transactions: they run until the power goes off.
            drop(handle.spawn(async move {
                life.transactions(&database, &table).await;
                life.at_work.set(life.at_work.get() - 1);
            }));
        }
        if first {
            self.end(&database).await;
        }
        self.until(&handle, || self.at_work.get() == 0).await;
    }

    fn node(&self, number: usize, handle: &Handle) -> Arc<TransactionNode> {
        let settings = latchwork_wal::LogSettings {
            mode: self.habits.mode,
            segment_bytes: 4096,
            interval: Duration::from_micros(200),
            ..latchwork_wal::LogSettings::default()
        };
        let id = NodeId(number as u8);
        let disk = Device { sync: self.habits.sync, ..Device::default() };
        let log = Log::simulated(&self.directory, id, settings, handle, disk);
        let log = log.expect("it is closed");
        let timestamp_block = self.habits.block;
        let settings = TransactionSettings {
            scheme: self.habits.scheme,
            timestamp_block,
            early_release: self.habits.early,
            ..TransactionSettings::default()
        };
        TransactionNode::new(id, Some(log), settings)
    }

    async fn until(&self, handle: &Handle, mut what: impl FnMut() -> bool) {
        while !what() {
            handle.sleep(Duration::from_micros(20)).await;
        }
    }

    async fn enter(&self, handle: &Handle) -> Gate<'_> {
        self.until(handle, || !self.gate.get()).await;
        self.gate.set(true);
        Gate(&self.gate)
    }

    /// Runs the steps of the recovery together with the other nodes.
    async fn recover<M: LineLocks>(&self, database: &Database<M>, first: bool) {
        let handle = database.memory().handle();
        let all = self.habits.nodes - usize::from(self.habits.late);
        let step = async |number: usize| {
            self.arrived.set(self.arrived.get() + 1);
            self.until(handle, || self.arrived.get() >= number * all).await;
        };
        step(1).await;
        if first {
            self.recovery.tables(database).await.expect("room");
        }
        step(2).await;
        self.recovery.rows(database).await.expect("room");
        step(3).await;
        self.recovery.indexes(database).await.expect("room");
        step(4).await;
        if first {
            self.begin(database).await;
        }
    }

    /// Checks the recovered rows.
    async fn begin<M: LineLocks>(&self, database: &Database<M>) {
        let table = match database.table("tagged").await {
            Ok(table) => table,
            Err(TxnError::NoTable { .. }) => database.create_table(schema()).await.expect("room"),
            Err(error) => panic!("{error}"),
        };
        let found = rows(database, &table).await;
        self.judge.borrow_mut().judge(&found);
        self.begun.set(true);
    }

    /// Lets some time pass, with checkpoints, and then switches the power off.
    async fn end<M: LineLocks>(&self, database: &Database<M>) {
        let handle = database.memory().handle();
        let there = self.habits.nodes - usize::from(self.habits.late);
        self.until(handle, || self.nodes.borrow().len() >= there).await;
        let off = handle.now() + Duration::from_micros(200 + handle.random_below(4000));
        // A node can start only while the device has no fault.
        let all_there = || self.nodes.borrow().len() == self.habits.nodes;
        self.checkpoints(database, off, || !all_there()).await;
        match self.habits.fate {
            Fate::Full if all_there() => {
                // Commits fail, and continue when there is room again.
                self.faulty.set(true);
                self.device.set_capacity(handle.random_below(30_000));
                let until = handle.now() + Duration::from_micros(handle.random_below(1000));
                self.checkpoints(database, until, || true).await;
                self.device.set_capacity(u64::MAX);
            }
            Fate::Off if all_there() => {
                self.faulty.set(true);
                self.device.power_off_after(handle.random_below(60));
            }
            Fate::Sync if all_there() => {
                self.faulty.set(true);
                self.device.fail(StorageOperation::Sync, handle.random_below(20));
            }
            _ => {}
        }
        self.checkpoints(database, off, || true).await;
        *self.left.borrow_mut() = Some(self.device.crash(self.habits.seed));
    }

    /// Writes checkpoints at random times until `until`, or while `wanted` is true. The time may
    /// end in the middle of a checkpoint.
    async fn checkpoints<M: LineLocks>(
        &self,
        database: &Database<M>,
        until: Time,
        wanted: impl Fn() -> bool,
    ) {
        let handle = database.memory().handle();
        while wanted() && handle.now() < until {
            let pause = self.habits.checkpoints.unwrap_or(Duration::from_micros(100));
            let next = Duration::from_nanos(handle.random_below(pause.as_nanos() as u64));
            handle.sleep_until(until.min(handle.now() + next)).await;
            if self.habits.checkpoints.is_none() || handle.now() >= until {
                continue;
            }
            let writing = async {
                let _gate = self.enter(handle).await;
                let nodes = self.nodes.borrow().clone();
                database.checkpoint(&nodes, &self.directory, until + LIMIT).await
            };
            match handle.timeout(until, writing).await {
                Ok(Ok(written)) => {
                    let mut judge = self.judge.borrow_mut();
                    judge.checkpoints += 1;
                    judge.removed += written.segments_removed;
                }
                Ok(Err(error)) if !self.faulty.get() => panic!("{error}"),
                // The device has failed, or the time was over.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }
}
