//! Transactions that conflict with other transactions again and again, in virtual time. Each one
//! commits within a bound.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Protocol, Simulated};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_runtime::Time;
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{
    Database, DatabaseId, NodeId, Schema, Scheme, Table, Transaction, TransactionNode,
    TransactionSettings, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;

const LIMIT: Duration = Duration::from_secs(20);
/// All rows stand in lines of their own.
const KEYS: u32 = 24;
const NODES: usize = 4;
/// The number of tasks with short transactions of each node. The first node also has `LONG` tasks
/// with long transactions.
const SHORT: usize = 3;
const LONG: usize = 2;

/// The fate of a starving transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    /// The transaction is repeated until it commits.
    Lives,
    /// The transaction is dropped in the middle of an attempt, while other transactions wait for
    /// it, again and again.
    Dropped,
    /// The transaction is forgotten in the middle of an attempt, and never leaves the queue.
    Forgotten,
}

#[derive(Clone, Debug)]
struct Shape {
    protocol: Protocol,
    settings: TransactionSettings,
    fate: Fate,
    /// The time of the world.
    time: Duration,
}

/// The result of a world.
#[derive(Clone, Debug, Default)]
struct Report {
    /// The number of long transactions that committed.
    long: usize,
    /// The longest time of a long transaction, including one that had not committed at the end of
    /// the world.
    worst: Duration,
    /// The number of short transactions that committed.
    short: usize,
    /// The longest time in which no short transaction committed.
    gap: Duration,
    /// The time of the last commit of a short transaction.
    last: Option<Time>,
    /// The number of long transactions that were lost while they were aged.
    lost: usize,
}

struct World {
    shape: Shape,
    root: RefCell<Option<GlobalAddr>>,
    report: RefCell<Report>,
    ended: Cell<usize>,
}

fn schema() -> Schema {
    let schema = Schema::builder("hot")
        .column("id", ColumnType::U32)
        .column("amount", ColumnType::U64)
        .primary_key(["id"])
        .rows_per_line(1);
    schema.build().expect("a good schema")
}

impl Shape {
    fn new(scheme: Scheme, protocol: Protocol, elder_after: u32) -> Shape {
        let elder_for = Duration::from_millis(5);
        let settings = TransactionSettings {
            scheme,
            elder_after,
            elder_for,
            ..TransactionSettings::default()
        };
        let time = Duration::from_millis(60);
        Shape { protocol, settings, fate: Fate::Lives, time }
    }

    fn run(&self) -> Report {
        let mut config = ClusterConfig {
            compute_nodes: NODES,
            memory_nodes: 2,
            workers: 1,
            inflight: 16,
            memory_bytes: 16 << 20,
            cache_bytes: Cache::footprint(256, 1024),
            line_size: 1024,
            chunk_size: 128 << 10,
            seed: 7,
            ..ClusterConfig::default()
        };
        config.protocol = self.protocol;
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let world = Rc::new(World {
            shape: self.clone(),
            root: RefCell::default(),
            report: RefCell::default(),
            ended: Cell::new(0),
        });
        let body = {
            let world = world.clone();
            move |member| world.clone().work(member)
        };
        cluster.run(LIMIT, body).unwrap_or_else(|error| panic!("{self:?}: {error}"));
        world.report.take()
    }
}

impl World {
    async fn work(self: Rc<Self>, member: Member) {
        let memory = member.memory.clone();
        let _operation = memory.enter().await.expect("memory is in order");
        let handle = memory.handle().clone();
        let node =
            TransactionNode::new(NodeId(member.node as u8), None, self.shape.settings.clone());
        let database = self.open(memory, node, member.node == 0).await;
        let table = database.table("hot").await.expect("it is there");
        let end = handle.now() + self.shape.time;
        let mut tasks = Vec::new();
        for _ in 0..SHORT {
            let (world, database, table) = (self.clone(), database.clone(), table.clone());
            tasks.push(handle.spawn(async move {
                let handle = database.memory().handle().clone();
                while handle.now() < end {
                    short(&database, &table).await.expect("it gets through");
                    world.report.borrow_mut().short_has_committed(handle.now());
                }
            }));
        }
        for _ in 0..if member.node == 0 { LONG } else { 0 } {
            let (world, database, table) = (self.clone(), database.clone(), table.clone());
            tasks.push(handle.spawn(async move { world.long(&database, &table, end).await }));
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        // No node leaves before all have ended, because lines may be in the cache of any node.
        self.ended.set(self.ended.get() + 1);
        while self.ended.get() < NODES {
            handle.sleep(Duration::from_micros(50)).await;
        }
    }

    async fn open<M: LineLocks>(
        &self,
        memory: M,
        node: Arc<TransactionNode>,
        makes: bool,
    ) -> Database<M> {
        if makes {
            let database = Database::create(memory, node, DatabaseId(1)).await.expect("room");
            let table = database.create_table(schema()).await.expect("room");
            for key in 0..KEYS {
                let row = 0_u64.to_le_bytes();
                database.load(&table, &key.to_be_bytes(), &row).await.expect("room");
            }
            *self.root.borrow_mut() = Some(database.root());
            return database;
        }
        loop {
            let root = *self.root.borrow();
            if let Some(root) = root {
                break Database::open(memory, node, root).await.expect("it is there");
            }
            memory.handle().sleep(Duration::from_micros(20)).await;
        }
    }

    /// Runs long transactions one after the other.
    async fn long<M: LineLocks>(&self, database: &Database<M>, table: &Table<M>, end: Time) {
        let handle = database.memory().handle().clone();
        while handle.now() < end {
            let begin = handle.now();
            let mut retry = database.retry();
            loop {
                retry.turn().await;
                let adding = async |tx: &mut _| add(database, tx, table, 0..KEYS).await;
                let attempt = database.attempt(adding);
                if retry.is_aged() && self.shape.fate != Fate::Lives {
                    self.report.borrow_mut().lost += 1;
                    let until = handle.now() + Duration::from_micros(handle.random_below(100));
                    drop(handle.timeout(until, attempt).await);
                    if self.shape.fate == Fate::Forgotten {
                        std::mem::forget(retry);
                    }
                    break;
                }
                let ended = attempt.await;
                self.report.borrow_mut().long_was_at_it(handle.now() - begin, ended.is_ok());
                match ended {
                    Ok(_) => {
                        retry.end().await;
                        break;
                    }
                    Err(TxnError::Conflict(_)) if handle.now() >= end => return,
                    Err(TxnError::Conflict(conflict)) => {
                        retry.met(conflict).await.expect("the world does not last so long");
                    }
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
}

impl Report {
    fn long_was_at_it(&mut self, so_long: Duration, committed: bool) {
        self.long += usize::from(committed);
        self.worst = self.worst.max(so_long);
    }

    fn short_has_committed(&mut self, now: Time) {
        self.short += 1;
        let gap = self.last.map_or(Duration::ZERO, |last| now.max(last) - last);
        self.gap = self.gap.max(gap);
        self.last = self.last.max(Some(now));
    }
}

/// Adds one to some rows.
async fn add<M: LineLocks>(
    database: &Database<M>,
    tx: &mut Transaction<M>,
    table: &Table<M>,
    keys: impl IntoIterator<Item = u32>,
) -> Result<(), TxnError> {
    let handle = database.memory().handle();
    let mut row = Vec::new();
    for key in keys {
        let key = key.to_be_bytes();
        tx.get_for_update(table, &key, &mut row).await?;
        // Simulates a computation, so that time passes.
        handle.charge(Duration::from_nanos(500 + handle.random_below(1000)));
        handle.catch_up().await;
        let amount = u64::from_le_bytes(row[..8].try_into().expect("8 bytes"));
        tx.update_part(table, &key, 0, &(amount + 1).to_le_bytes()).await?;
    }
    Ok(())
}

async fn short<M: LineLocks>(database: &Database<M>, table: &Table<M>) -> Result<(), TxnError> {
    let handle = database.memory().handle();
    let key = || handle.random_below(KEYS.into()) as u32;
    let (one, two) = (key(), key());
    database.run(async |tx| add(database, tx, table, [one.min(two), one.max(two)]).await).await
}

fn all() -> impl Iterator<Item = (Scheme, Protocol)> {
    let protocols = [Protocol::Selcc, Protocol::Sel];
    Scheme::ALL.into_iter().flat_map(move |scheme| protocols.map(|protocol| (scheme, protocol)))
}

/// Sixteen attempts with pauses of up to a millisecond, and then a turn among two.
const BOUND: Duration = Duration::from_millis(12);

#[test]
fn a_long_transaction_gets_through_many_short_ones() {
    for (scheme, protocol) in all() {
        let report = Shape::new(scheme, protocol, 16).run();
        assert!(report.worst < BOUND && report.long > 10, "{scheme} {protocol:?}: {report:?}");
        // The long transactions do not commit by keeping all others away.
        assert!(report.short > 4000, "{scheme} {protocol:?}: {report:?}");
    }
}

/// The counter-test: a long transaction starves if no other transaction waits for it.
#[test]
fn it_starves_without_aged_transactions() {
    for (scheme, protocol) in all() {
        let report = Shape::new(scheme, protocol, 0).run();
        assert!(report.worst > 3 * BOUND, "{scheme} {protocol:?}: {report:?}");
    }
}

#[test]
fn an_aged_transaction_that_is_dropped_delays_no_other() {
    for (scheme, protocol) in all() {
        let shape = Shape { fate: Fate::Dropped, ..Shape::new(scheme, protocol, 16) };
        let report = shape.run();
        assert!(report.lost > 10, "{scheme} {protocol:?}: {report:?}");
        let most = shape.settings.elder_for / 2;
        assert!(report.gap < most, "{scheme} {protocol:?}: {report:?}");
    }
}

#[test]
fn the_wait_for_a_lost_aged_transaction_is_no_longer_than_its_limit() {
    for (scheme, protocol) in all() {
        let shape = Shape { fate: Fate::Forgotten, ..Shape::new(scheme, protocol, 16) };
        let report = shape.run();
        // The gap is one or two times the wait for a lost transaction. It is not exact, because
        // transactions in progress still commit.
        let (one, some) = (shape.settings.elder_for, Duration::from_millis(2));
        let waited = one - some..2 * one + some;
        let found = report.lost > 5 && waited.contains(&report.gap);
        assert!(found && report.short > 1000, "{scheme} {protocol:?}: {report:?}");
    }
}

#[test]
fn the_same_seed_is_the_same_world() {
    for (scheme, protocol) in all() {
        let shape = Shape::new(scheme, protocol, 4);
        assert_eq!(format!("{:?}", shape.run()), format!("{:?}", shape.run()));
    }
}
