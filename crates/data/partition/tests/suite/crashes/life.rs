//! One life from a restart to a crash: recovery, transactions over the partitions of all nodes,
//! checkpoints.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::{CoherentMemory, LineLocks, UserMessages};
use latchwork_history::{RecordedOperation, Recorder, Recording};
use latchwork_partition::{
    Partitioned, PartitionedTransaction, Site, TransactionRows as _, resolve,
};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{
    Database, DatabaseId, NodeId, Range, Recovery, Schema, Scheme, Table, TransactionNode,
    TransactionSettings, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;
use latchwork_wal::storage::Torn;
use latchwork_wal::{CommitMode, Device, Log, LogDirectory, WalError};

use crate::crashes::judge::{Judge, Rows};

const LIMIT: Duration = Duration::from_secs(120);
const DATABASE: DatabaseId = DatabaseId(43);
const KEYS: u64 = 24;
/// More parts than any life has nodes, so that some nodes own several.
const PARTS: u32 = 4;
const TASKS: usize = 4;

pub(crate) struct Life {
    pub(crate) seed: u64,
    pub(crate) scheme: Scheme,
    pub(crate) mode: CommitMode,
    pub(crate) nodes: usize,
}

/// Counts of the situations that the tests met.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Tally {
    /// Transactions over several nodes that recoveries found committed, and those found aborted.
    pub(crate) committed: usize,
    pub(crate) aborted: usize,
    /// Checkpoints that were put in place, and segments that were removed then.
    pub(crate) checkpoints: usize,
    pub(crate) removed: usize,
}

/// The state that the workers of one life share.
struct Shared {
    life: Life,
    directory: Arc<LogDirectory>,
    recovery: Recovery,
    root: RefCell<Option<GlobalAddr>>,
    nodes: RefCell<Vec<Arc<TransactionNode>>>,
    sites: Vec<Arc<Site>>,
    judge: RefCell<Judge>,
    device: Torn,
    /// The storage that the crash left, once it has happened.
    left: RefCell<Option<Torn>>,
    /// Nodes that receive the messages of other nodes' transactions.
    started: Cell<usize>,
    at_work: Cell<usize>,
    /// The device is full, or has been.
    was_full: Cell<bool>,
}

/// The tables of one part. So no line has rows of two parts.
fn schema(part: u32) -> Schema {
    let schema = Schema::builder(format!("tagged{part}"))
        .column("id", ColumnType::U32)
        .column("tag", ColumnType::U64)
        .column("rest", ColumnType::Blob)
        .primary_key(["id"]);
    schema.build().expect("a good schema")
}

fn part_of(key: &[u8]) -> u32 {
    u32::from_be_bytes(key.try_into().expect("4 bytes")) % PARTS
}

impl Life {
    /// Runs until the power goes off; returns the storage that is left.
    pub(crate) fn run(self, device: &Torn, judge: &mut Judge, tally: &mut Tally) -> Torn {
        let Life { seed, mode, nodes, .. } = self;
        let directory = LogDirectory::open(Arc::new(device.clone()), DATABASE);
        let directory = directory.expect("what a crash leaves can be opened");
        let mut replayed = directory.replay(1).expect("and read");
        let resolved = resolve(&replayed.notes, directory.floor()).expect("records make sense");
        resolved.merge_into(&mut replayed);
        tally.committed += resolved.commits.len();
        tally.aborted += resolved.aborted;
        let config = ClusterConfig {
            compute_nodes: nodes,
            memory_nodes: 1,
            workers: 1,
            inflight: 32,
            memory_bytes: 16 << 20,
            cache_bytes: Cache::footprint(256, 1024),
            line_size: 1024,
            chunk_size: 128 << 10,
            seed,
            ..ClusterConfig::default()
        };
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let settings = latchwork_partition::PartitionSettings {
            again: Duration::from_micros(400),
            deadline: Duration::from_millis(4),
            idle: Duration::from_millis(8),
            ask: Duration::from_millis(1),
            tick: Duration::from_micros(200),
        };
        let taken = std::mem::replace(judge, Judge::new(mode));
        let shared = Rc::new(Shared {
            life: self,
            directory,
            recovery: Recovery::new(replayed),
            root: RefCell::default(),
            nodes: RefCell::default(),
            sites: (0..nodes).map(|_| Arc::new(Site::new(1, settings.clone()))).collect(),
            judge: RefCell::new(taken),
            device: device.clone(),
            left: RefCell::default(),
            started: Cell::new(0),
            at_work: Cell::new(nodes * TASKS),
            was_full: Cell::new(false),
        });
        let body = {
            let shared = shared.clone();
            move |member| shared.clone().work(member)
        };
        cluster.run(LIMIT, body).unwrap_or_else(|error| panic!("{seed}: {error}"));
        *judge = shared.judge.replace(Judge::new(mode));
        let left = shared.left.borrow_mut().take();
        left.expect("it has crashed")
    }
}

impl Shared {
    async fn work(self: Rc<Self>, member: Member) {
        let memory = member.memory.clone();
        let handle = member.handle.clone();
        let _operation = memory.enter().await.expect("memory is in order");
        let settings = latchwork_wal::LogSettings {
            mode: self.life.mode,
            segment_bytes: 4096,
            interval: Duration::from_micros(200),
            ..latchwork_wal::LogSettings::default()
        };
        let id = NodeId(member.node as u8);
        let log = Log::simulated(&self.directory, id, settings, &handle, Device::default());
        // After the crash the device never answers, so no task should wait for it for long.
        let log_deadline = Duration::from_millis(20);
        // Local transactions release early, and parts wait for what they depend on.
        let early_release = (self.life.seed / 10).is_multiple_of(2);
        let scheme = self.life.scheme;
        let settings = TransactionSettings {
            scheme,
            log_deadline,
            early_release,
            ..TransactionSettings::default()
        };
        let node = TransactionNode::new(id, Some(log.expect("it is closed")), settings);
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
        let tables = tables(&database).await;
        let (site, nodes) = (self.sites[member.node].clone(), self.life.nodes as u32);
        let owner = Rc::new(move |_: &Table<_>, key: &[u8]| Some((part_of(key) % nodes) as u8));
        let node = Partitioned::start(database, site, 0, tables.clone(), owner);
        let node = node.expect("a node of this cluster");
        self.started.set(self.started.get() + 1);
        while self.started.get() < self.life.nodes {
            handle.sleep(Duration::from_micros(20)).await;
        }
        for _ in 0..TASKS {
            let (shared, node, tables) = (self.clone(), node.clone(), tables.clone());
            // No task waits for these: they go on until the power is off.
            drop(handle.spawn(async move {
                while shared.left.borrow().is_none() {
                    shared.transaction(&node, &tables).await;
                }
                shared.at_work.set(shared.at_work.get() - 1);
            }));
        }
        if member.node == 0 {
            self.end(node.database()).await;
        }
        // This node stays until its transactions have ended, because they have parts on other
        // nodes.
        while self.at_work.get() > 0 {
            handle.sleep(Duration::from_micros(50)).await;
        }
    }

    /// Recovers, and has the result checked.
    async fn start<M: LineLocks>(&self, memory: M, node: Arc<TransactionNode>) -> Database<M> {
        let database = Database::create(memory, node, DATABASE).await.expect("room");
        self.recovery.run(&database).await.expect("room");
        for part in 0..PARTS {
            match database.table(schema(part).name()).await {
                Err(TxnError::NoTable { .. }) => {
                    drop(database.create_table(schema(part)).await.expect("room"));
                }
                there => drop(there.expect("memory is in order")),
            }
        }
        let found = rows(&database).await;
        self.judge.borrow_mut().judge(&found);
        *self.root.borrow_mut() = Some(database.root());
        database
    }

    /// Lets some time pass, with checkpoints, and then turns the power off.
    async fn end<M: LineLocks>(&self, database: &Database<M>) {
        let handle = database.memory().handle();
        let off = handle.now() + Duration::from_micros(200 + handle.random_below(4000));
        if handle.random_below(4) == 0 {
            // The device is full for a while: commits fail, and succeed again when there is room.
            self.was_full.set(true);
            self.device.set_capacity(handle.random_below(30_000));
            handle.sleep(Duration::from_micros(handle.random_below(1000))).await;
            self.device.set_capacity(u64::MAX);
        } else if handle.random_below(2) == 0 {
            handle.sleep(Duration::from_micros(handle.random_below(2000))).await;
            let nodes = self.nodes.borrow().clone();
            let writing = database.checkpoint(&nodes, &self.directory, off + LIMIT);
            // The power may go off during the checkpoint.
            let written = handle.timeout(off, writing).await;
            if let Ok(written) = written {
                let written = written.expect("the device is in order");
                let mut judge = self.judge.borrow_mut();
                judge.checkpoints += 1;
                judge.removed += written.segments_removed;
            }
        }
        handle.sleep_until(off).await;
        *self.left.borrow_mut() = Some(self.device.crash(self.life.seed));
    }

    async fn transaction<M: LineLocks + UserMessages>(
        &self,
        node: &Partitioned<M>,
        tables: &[Table<M>],
    ) {
        let handle = node.database().memory().handle();
        if handle.random_below(4) == 0 {
            return self.look(node, tables, handle.random_below(KEYS) as u32).await;
        }
        let keys: BTreeMap<u32, bool> = (0..1 + handle.random_below(4))
            .map(|_| (handle.random_below(KEYS) as u32, handle.random_below(4) > 0))
            .collect();
        let tag = self.judge.borrow_mut().begin();
        let long = handle.random_below(60) as usize;
        for attempt in 1.. {
            let ended = self.write(node, tables, &keys, tag, long).await;
            // An outcome after the crash is not reported to the check.
            if self.left.borrow().is_some() {
                return;
            }
            match ended {
                Ok(cts) => return self.judge.borrow_mut().acknowledge(tag, cts),
                Err(TxnError::Conflict(_)) => handle.sleep(node.database().pause(attempt)).await,
                // Another transaction has come in between, or the reads of this transaction are
                // inconsistent together.
                Err(TxnError::Exists | TxnError::NotFound) => {}
                // Another node commits it alone, and has not reported the outcome in time.
                Err(TxnError::NoAnswer { .. }) => return,
                Err(error) if self.was_full.get() && is_refused(&error) => {
                    self.judge.borrow_mut().refused += 1;
                    self.judge.borrow_mut().refuse(tag);
                    // A full device is not tried again without a pause.
                    return handle.sleep(Duration::from_micros(20)).await;
                }
                Err(error) => panic!("{}: {error}", self.life.seed),
            }
        }
    }

    async fn write<M: LineLocks + UserMessages>(
        &self,
        node: &Partitioned<M>,
        tables: &[Table<M>],
        keys: &BTreeMap<u32, bool>,
        tag: u64,
        long: usize,
    ) -> Result<u64, TxnError> {
        let mut row = tag.to_le_bytes().to_vec();
        row.resize(8 + long, 7);
        let mut tx = node.begin().await?;
        let done = change(&mut tx, tables, keys, &row).await?;
        self.judge.borrow_mut().commits(tag, done, Vec::new());
        Ok(tx.commit().await?.0)
    }

    /// Reads a row of any node, and reports what it read.
    async fn look<M: LineLocks + UserMessages>(
        &self,
        node: &Partitioned<M>,
        tables: &[Table<M>],
        id: u32,
    ) {
        let mut row = Vec::new();
        let looked = async {
            let mut tx = node.begin().await?;
            let table = &tables[(id % PARTS) as usize];
            let found = tx.get(table, &id.to_be_bytes(), &mut row).await?;
            // The commit timestamp of a read-only transaction is the highest that it has met.
            Ok::<_, TxnError>((found, tx.commit().await?))
        };
        let looked = looked.await;
        if self.left.borrow().is_some() {
            return;
        }
        match looked {
            Ok((found, cts)) => {
                let tag = found.then(|| u64::from_le_bytes(row[..8].try_into().expect("8 bytes")));
                self.judge.borrow_mut().saw(id, tag, cts.0);
            }
            Err(TxnError::Conflict(_) | TxnError::NoAnswer { .. }) => {}
            Err(error) => panic!("{}: {error}", self.life.seed),
        }
    }
}

/// Puts and deletes rows, and reports the writes.
async fn change<M: LineLocks + UserMessages>(
    tx: &mut PartitionedTransaction<M>,
    tables: &[Table<M>],
    keys: &BTreeMap<u32, bool>,
    row: &[u8],
) -> Result<BTreeMap<u32, bool>, TxnError> {
    let (mut done, mut old) = (keys.clone(), Vec::new());
    for (&id, &put) in keys {
        let (table, key) = (&tables[(id % PARTS) as usize], id.to_be_bytes());
        match (tx.get_for_update(table, &key, &mut old).await?, put) {
            (true, true) => tx.update(table, &key, row).await?,
            (false, true) => tx.insert(table, &key, row).await?,
            (true, false) => tx.delete(table, &key).await?,
            // A delete that finds nothing is no write.
            (false, false) => drop(done.remove(&id)),
        }
    }
    Ok(done)
}

async fn tables<M: LineLocks>(database: &Database<M>) -> Vec<Table<M>> {
    let mut tables = Vec::new();
    for part in 0..PARTS {
        tables.push(database.table(schema(part).name()).await.expect("it is there"));
    }
    tables
}

/// All rows of all parts.
async fn rows<M: LineLocks>(database: &Database<M>) -> Rows {
    let recording = Recording::memory(0);
    database.record(recording.recorder(), 0);
    let key_of = |key: &[u8]| u32::from_be_bytes(key.try_into().expect("4 bytes"));
    let mut tags = BTreeMap::new();
    for (part, table) in (0..).zip(tables(database).await) {
        let mut tx = database.begin().await.expect("memory is in order");
        let all = tx.scan(&table, Range::all(), |key, row| {
            assert_eq!(part_of(key), part);
            tags.insert(key_of(key), u64::from_le_bytes(row[..8].try_into().expect("8 bytes")));
            ControlFlow::Continue(())
        });
        all.await.expect("memory is in order");
        tx.commit().await.expect("nobody else is there");
    }
    database.record(Recorder::off(), 0);
    let mut versions = BTreeMap::new();
    for transaction in &recording.history().transactions {
        for operation in &transaction.operations {
            let RecordedOperation::Scan(scan) = operation else { continue };
            let with_version = scan.seen.iter().filter_map(|seen| Some((&seen.key, seen.version?)));
            let with_version = with_version.filter(|(key, _)| key.len() == 4);
            versions.extend(with_version.map(|(key, version)| (key_of(key), version)));
        }
    }
    tags.into_iter().map(|(key, tag)| (key, (tag, versions[&key]))).collect()
}

/// Whether a log has refused the commit and goes on.
fn is_refused(error: &TxnError) -> bool {
    match error {
        TxnError::NotLogged(error) => matches!(**error, WalError::Refused { .. }),
        error => matches!(error, TxnError::NotPrepared { .. }),
    }
}
