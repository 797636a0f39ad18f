//! Commits whose callers drop them while other transactions are in the way. Each commit still ends.
//! Neither contention nor the end of a worker is a fault in the health of a node.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Simulated, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{
    Database, DatabaseId, Health, NodeId, Schema, Scheme, Table, TransactionNode,
    TransactionSettings, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;

const NODES: usize = 2;
const TASKS: u64 = 4;
const ROUNDS: usize = 60;
const KEYS: u64 = 12;

#[derive(Default)]
struct World {
    root: RefCell<Option<GlobalAddr>>,
    nodes: RefCell<Vec<Arc<TransactionNode>>>,
    dropped: RefCell<usize>,
}

/// Rows that are added, deleted and grow side by side, so that commits place new rows in lines that
/// other transactions lock.
fn schema() -> Schema {
    let schema = Schema::builder("rows")
        .column("id", ColumnType::U32)
        .column("text", ColumnType::Blob)
        .primary_key(["id"]);
    schema.build().expect("a good schema")
}

async fn open(world: &World, member: &Member, scheme: Scheme) -> (Database<Worker>, Table<Worker>) {
    let memory = member.memory.clone();
    let settings = TransactionSettings { scheme, ..TransactionSettings::default() };
    let node = TransactionNode::new(NodeId(member.node as u8), None, settings);
    world.nodes.borrow_mut().push(node.clone());
    if member.index == 0 {
        let database = Database::create(memory, node, DatabaseId(1)).await.expect("room");
        let table = database.create_table(schema()).await.expect("room");
        *world.root.borrow_mut() = Some(database.root());
        return (database, table);
    }
    let root = loop {
        let root = *world.root.borrow();
        match root {
            Some(root) => break root,
            None => memory.handle().sleep(Duration::from_micros(20)).await,
        }
    };
    let database = Database::open(memory, node, root).await.expect("it is there");
    let table = database.table("rows").await.expect("it is there");
    (database, table)
}

/// Writes two rows: adds, lengthens or deletes each.
async fn write(database: &Database<Worker>, table: &Table<Worker>) -> Result<(), TxnError> {
    let memory = database.memory();
    let handle = memory.handle();
    let mut tx = database.begin().await?;
    for _ in 0..2 {
        let (key, len) = (handle.random_below(KEYS) as u32, handle.random_below(300) as usize);
        let (key, mut row, text) = (key.to_be_bytes(), Vec::new(), vec![7; len]);
        let there = tx.get_for_update(table, &key, &mut row).await?;
        match (there, handle.random_below(3)) {
            (true, 0) => tx.delete(table, &key).await?,
            (true, _) => tx.update(table, &key, &text).await?,
            (false, _) => tx.insert(table, &key, &text).await?,
        }
        // Other transactions meet its locks.
        handle.sleep(Duration::from_nanos(handle.random_below(20_000))).await;
    }
    tx.commit().await.map(drop)
}

async fn work(world: Rc<World>, member: Member, scheme: Scheme) {
    let _operation = member.memory.enter().await.expect("memory is in order");
    let (database, table) = open(&world, &member, scheme).await;
    let tasks = (0..TASKS).map(|_| {
        let (world, database, table) = (world.clone(), database.clone(), table.clone());
        let handle = member.handle.clone();
        member.handle.spawn(async move {
            for _ in 0..ROUNDS {
                let patience = Duration::from_nanos(1 + handle.random_below(100_000));
                let ended = handle.timeout(handle.now() + patience, write(&database, &table)).await;
                match ended {
                    Err(_) => *world.dropped.borrow_mut() += 1,
                    Ok(
                        Ok(()) | Err(TxnError::Conflict(_) | TxnError::Exists | TxnError::NotFound),
                    ) => {}
                    Ok(Err(error)) => panic!("{error}"),
                }
            }
        })
    });
    for task in tasks.collect::<Vec<_>>() {
        task.await.expect("it is not aborted");
    }
    // The worker ends while the last dropped commit is in progress.
}

fn play(scheme: Scheme, seed: u64) -> (Vec<Health>, usize) {
    let config = ClusterConfig {
        compute_nodes: NODES,
        workers: 1,
        inflight: 16,
        memory_bytes: 16 << 20,
        cache_bytes: Cache::footprint(256, 1024),
        line_size: 1024,
        chunk_size: 128 << 10,
        seed,
        ..ClusterConfig::default()
    };
    let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
    let world = Rc::<World>::default();
    let body = {
        let world = world.clone();
        move |member| work(world.clone(), member, scheme)
    };
    cluster
        .run(Duration::from_secs(60), body)
        .unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let health = world.nodes.borrow().iter().map(|node| node.health()).collect();
    let dropped = *world.dropped.borrow();
    (health, dropped)
}

#[test]
fn dropped_commits_are_ended_under_contention_and_health_stays_good() {
    let (mut retries, mut all_dropped) = (0, 0);
    for scheme in Scheme::ALL {
        // Contention holds up an end in about one world of twenty.
        for seed in 0..80 {
            let (health, dropped) = play(scheme, seed);
            all_dropped += dropped;
            for health in health {
                assert!(health.is_good(), "{scheme}, seed {seed}: {health}");
                assert!(
                    !health.last.iter().any(|last| last.contains("has failed before")),
                    "{scheme}, seed {seed}: {health}"
                );
                retries += health.retries;
            }
        }
    }
    assert!(all_dropped > 1000, "{all_dropped} commits were dropped");
    assert!(retries > 0, "contention held up no end: the test tries nothing");
}
