//! From a restart to a crash: recovery, transactions of all nodes, checkpoints.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Protocol, Simulated};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_history::{Operation, Recording};
use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{
    Database, DatabaseId, Node, NodeId, Range, Recovery, Schema, Scheme, Settings, Table,
    Transaction, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;
use latchwork_wal::storage::Torn;
use latchwork_wal::{Device, Log, LogDirectory, Mode, WalError};

use crate::judge::{Judge, Rows};

const LIMIT: Duration = Duration::from_secs(120);
const DATABASE: DatabaseId = DatabaseId(42);
const KEYS: u64 = 20;
const TASKS: usize = 4;

pub(crate) struct Life {
    pub(crate) seed: u64,
    pub(crate) scheme: Scheme,
    pub(crate) mode: Mode,
    pub(crate) nodes: usize,
}

/// What the workers of one life share.
struct Shared {
    scheme: Scheme,
    mode: Mode,
    directory: Arc<LogDirectory>,
    recovery: Recovery,
    root: RefCell<Option<GlobalAddr>>,
    nodes: RefCell<Vec<Arc<Node>>>,
    count: usize,
    judge: RefCell<Judge>,
    device: Torn,
    /// What the crash left, once it has been.
    left: RefCell<Option<Torn>>,
    at_work: Cell<usize>,
    /// The device is full, or has been.
    was_full: Cell<bool>,
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
    /// Lives until the power goes off; what the device has then.
    pub(crate) fn run(&self, device: &Torn, judge: &mut Judge) -> Torn {
        let directory = LogDirectory::open(Arc::new(device.clone()), DATABASE);
        let directory = directory.expect("what a crash leaves can be opened");
        let replayed = directory.replay(1).expect("and read");
        let mut config = ClusterConfig {
            compute_nodes: self.nodes,
            memory_nodes: 1,
            workers: 1,
            inflight: 32,
            memory_bytes: 16 << 20,
            cache_bytes: Cache::footprint(256, 1024),
            line_size: 1024,
            chunk_size: 128 << 10,
            seed: self.seed,
            ..ClusterConfig::default()
        };
        config.node.policy = Protocol::Selcc.policy();
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let taken = std::mem::replace(judge, Judge::new(self.mode));
        let shared = Rc::new(Shared {
            scheme: self.scheme,
            mode: self.mode,
            directory,
            recovery: Recovery::new(replayed),
            root: RefCell::default(),
            nodes: RefCell::default(),
            count: self.nodes,
            judge: RefCell::new(taken),
            device: device.clone(),
            left: RefCell::default(),
            at_work: Cell::new(self.nodes * TASKS),
            was_full: Cell::new(false),
        });
        let seed = self.seed;
        let body = {
            let shared = shared.clone();
            move |member| shared.clone().work(member, seed)
        };
        cluster.run(LIMIT, body).unwrap_or_else(|error| panic!("{seed}: {error}"));
        *judge = shared.judge.replace(Judge::new(self.mode));
        let left = shared.left.borrow_mut().take();
        left.expect("it has crashed")
    }
}

impl Shared {
    async fn work(self: Rc<Self>, member: Member, seed: u64) {
        let memory = member.memory.clone();
        let handle = member.handle.clone();
        let _operation = memory.enter().await.expect("memory is in order");
        let settings = latchwork_wal::Settings {
            mode: self.mode,
            segment_bytes: 4096,
            interval: Duration::from_micros(200),
            ..latchwork_wal::Settings::default()
        };
        let id = NodeId(member.node as u8);
        let log = Log::simulated(&self.directory, id, settings, &handle, Device::default());
        let settings = Settings { scheme: self.scheme, ..Settings::default() };
        let node = Node::new(id, Some(log.expect("it is closed")), settings);
        self.nodes.borrow_mut().push(node.clone());
        let database = match member.node {
            0 => self.start(memory, node).await,
            _ => loop {
                let root = *self.root.borrow();
                if let Some(root) = root {
                    break Database::open(memory, node, root).await.expect("it is there");
                }
                handle.sleep(Duration::from_micros(20)).await;
            },
        };
        let table = database.table("tagged").await.expect("it is there");
        for _ in 0..TASKS {
            let (shared, database, table) = (self.clone(), database.clone(), table.clone());
            // Nobody waits for them: they go on until the power is off.
            drop(handle.spawn(async move {
                while shared.left.borrow().is_none() {
                    shared.transaction(&database, &table).await;
                }
                shared.at_work.set(shared.at_work.get() - 1);
            }));
        }
        if member.node == 0 {
            self.end(&database, seed).await;
        }
        while self.at_work.get() > 0 {
            handle.sleep(Duration::from_micros(50)).await;
        }
    }

    /// Recovers, and has it judged.
    async fn start<M: LineLocks>(&self, memory: M, node: Arc<Node>) -> Database<M> {
        let database = Database::create(memory, node, DATABASE).await.expect("room");
        self.recovery.run(&database).await.expect("room");
        let table = match database.table("tagged").await {
            Ok(table) => table,
            Err(TxnError::NoTable { .. }) => database.create_table(schema()).await.expect("room"),
            Err(error) => panic!("{error}"),
        };
        let found = rows(&database, &table).await;
        self.judge.borrow_mut().judge(&found);
        *self.root.borrow_mut() = Some(database.root());
        database
    }

    /// Lets some time pass, with checkpoints, and then the power goes off.
    async fn end<M: LineLocks>(&self, database: &Database<M>, seed: u64) {
        let handle = database.memory().handle();
        while self.nodes.borrow().len() < self.count {
            handle.sleep(Duration::from_micros(20)).await;
        }
        let off = handle.now() + Duration::from_micros(200 + handle.random_below(4000));
        if handle.random_below(4) == 0 {
            // Full for a while: commits fail, and go on when there is room again.
            self.was_full.set(true);
            self.device.set_capacity(handle.random_below(30_000));
            handle.sleep(Duration::from_micros(handle.random_below(1000))).await;
            self.device.set_capacity(u64::MAX);
        } else if handle.random_below(2) == 0 {
            handle.sleep(Duration::from_micros(handle.random_below(2000))).await;
            let nodes = self.nodes.borrow().clone();
            let writing = database.checkpoint(&nodes, &self.directory, off + LIMIT);
            // It may be cut short by the end of the power.
            let written = handle.timeout(off, writing).await;
            if let Ok(written) = written {
                written.expect("the device is in order");
            }
        }
        handle.sleep_until(off).await;
        *self.left.borrow_mut() = Some(self.device.crash(seed));
    }

    async fn transaction<M: LineLocks>(&self, database: &Database<M>, table: &Table<M>) {
        let handle = database.memory().handle();
        let keys: BTreeMap<u32, bool> = (0..1 + handle.random_below(4))
            .map(|_| (handle.random_below(KEYS) as u32, handle.random_below(4) > 0))
            .collect();
        let tag = self.judge.borrow_mut().begin();
        let long = handle.random_below(60) as usize;
        for attempt in 1.. {
            let ended = self.write(database, table, &keys, tag, long).await;
            // What comes behind the crash is told to nobody.
            if self.left.borrow().is_some() {
                return;
            }
            match ended {
                Ok(cts) => return self.judge.borrow_mut().acknowledge(tag, cts),
                Err(TxnError::Conflict(_)) => handle.sleep(database.pause(attempt)).await,
                Err(TxnError::NotLogged(WalError::Refused { .. })) if self.was_full.get() => {
                    let mut judge = self.judge.borrow_mut();
                    judge.refused += 1;
                    return judge.refuse(tag);
                }
                Err(error) => panic!("{error}"),
            }
        }
    }

    async fn write<M: LineLocks>(
        &self,
        database: &Database<M>,
        table: &Table<M>,
        keys: &BTreeMap<u32, bool>,
        tag: u64,
        long: usize,
    ) -> Result<u64, TxnError> {
        let (mut row, mut old) = (tag.to_le_bytes().to_vec(), Vec::new());
        row.push((tag % 5) as u8);
        row.resize(9 + long, 7);
        let body = async |tx: &mut Transaction<M>| {
            let mut done = keys.clone();
            for (&id, &put) in keys {
                let key = id.to_be_bytes();
                match (tx.get_for_update(table, &key, &mut old).await?, put) {
                    (true, true) => tx.update(table, &key, &row).await?,
                    (false, true) => tx.insert(table, &key, &row).await?,
                    (true, false) => tx.delete(table, &key).await?,
                    // To find nothing is no write.
                    (false, false) => drop(done.remove(&id)),
                }
            }
            self.judge.borrow_mut().commits(tag, done);
            Ok(())
        };
        Ok(database.attempt(body).await?.1.0)
    }
}

/// All rows, by the primary index and by the other one, which have to be the same.
async fn rows<M: LineLocks>(database: &Database<M>, table: &Table<M>) -> Rows {
    let recording = Recording::memory(0);
    database.record(recording.recorder(), 0);
    let mut tx = database.begin().await.expect("memory is in order");
    let (mut tags, mut others) = (BTreeMap::new(), BTreeMap::new());
    let tag_of = |row: &[u8]| u64::from_le_bytes(row[..8].try_into().expect("8 bytes"));
    let on = std::ops::ControlFlow::Continue(());
    let key_of = |key: &[u8]| u32::from_be_bytes(key.try_into().expect("4 bytes"));
    let all = tx.scan(table, Range::all(), |key, row| {
        tags.insert(key_of(key), tag_of(row));
        on
    });
    all.await.expect("memory is in order");
    let all = tx.scan_index(table, 0, Range::all(), |key, row| {
        others.insert(key_of(key), tag_of(row));
        on
    });
    all.await.expect("memory is in order");
    tx.commit().await.expect("nobody else is there");
    database.record(latchwork_history::Recorder::off(), 0);
    assert_eq!(tags, others, "the indexes lead to the same rows");
    let mut versions = BTreeMap::new();
    for transaction in &recording.history().transactions {
        for operation in &transaction.operations {
            let Operation::Scan(scan) = operation else { continue };
            let with_version = scan.seen.iter().filter_map(|seen| Some((&seen.key, seen.version?)));
            versions.extend(with_version.map(|(key, version)| (key_of(key), version)));
        }
    }
    tags.into_iter().map(|(key, tag)| (key, (tag, versions[&key]))).collect()
}
