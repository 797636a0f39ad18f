//! Rows that move in an index, and are deleted and added again, while their old entries wait for
//! the purge. Because of such entries, no transaction misses a row or finds a row that does not
//! exist.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{
    Database, DatabaseId, Key, NodeId, Range, Schema, Scheme, Table, TransactionNode,
    TransactionSettings, TxnError,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;

/// The keys to which rows move in the index, many leaves away from their first keys.
const FAR: u32 = 1_000_000;
const ROUNDS: u32 = 160;

#[derive(Default)]
struct Shared {
    scheme: Scheme,
    /// Whether deleted rows are added again in the same slots.
    again: bool,
    root: RefCell<Option<GlobalAddr>>,
    turn: Cell<u32>,
    too_late: Cell<u32>,
}

impl Shared {
    async fn wait(&self, member: &Member, turn: u32) {
        while self.turn.get() < turn {
            member.handle.sleep(Duration::from_micros(5)).await;
        }
    }
}

fn schema() -> Schema {
    let schema = Schema::builder("things")
        .column("id", ColumnType::U32)
        .column("place", ColumnType::U32)
        .primary_key(["id"])
        .rows_per_line(1)
        .index("by_place", [("place", Order::Ascending)]);
    schema.build().expect("a good schema")
}

async fn play(shared: Rc<Shared>, member: Member) {
    let memory = member.memory.clone();
    let _operation = memory.enter().await.expect("memory is in order");
    let settings = TransactionSettings { scheme: shared.scheme, ..TransactionSettings::default() };
    let node = TransactionNode::new(NodeId(member.node as u8), None, settings);
    if member.node == 0 {
        let database = Database::create(memory.clone(), node, DatabaseId(1)).await.expect("room");
        let table = database.create_table(schema()).await.expect("room");
        for id in 0..400_u32 {
            let place = if id < 200 { 1000 * id } else { FAR + 1000 * id };
            let put = database
                .run(async |tx| tx.insert(&table, &id.to_be_bytes(), &place.to_le_bytes()).await);
            put.await.expect("room");
        }
        *shared.root.borrow_mut() = Some(database.root());
        reader(&shared, &member, &database, &table).await;
    } else {
        while shared.root.borrow().is_none() {
            member.handle.sleep(Duration::from_micros(20)).await;
        }
        let root = shared.root.borrow().expect("made");
        let database = Database::open(memory.clone(), node, root).await.expect("it is there");
        let table = database.table("things").await.expect("it is there");
        writer(&shared, &member, &database, &table).await;
    }
}

/// Adds a row, and deletes it after it has moved.
async fn writer<M: LineLocks>(
    shared: &Shared,
    member: &Member,
    database: &Database<M>,
    table: &Table<M>,
) {
    for round in 0..ROUNDS {
        let (key, place) = ((5000 + round).to_be_bytes(), 1 + 1000 * (round % 200));
        // Now this node owns the leaf of that key.
        let put = database.run(async |tx| tx.insert(table, &key, &place.to_le_bytes()).await);
        put.await.expect("nobody is in the way");
        shared.turn.set(4 * round + 1);
        shared.wait(member, 4 * round + 2).await;
        let gone = database.run(async |tx| tx.delete(table, &key).await);
        gone.await.expect("nobody is in the way");
        shared.turn.set(4 * round + 3);
        if shared.again {
            let put = database.run(async |tx| tx.insert(table, &key, &place.to_le_bytes()).await);
            put.await.expect("it is not there");
        }
        shared.wait(member, 4 * round + 4).await;
        if shared.again {
            let mut found = 0;
            let (from, end) = (Key::new().u32(place).done(), Key::new().u32(place + 1).done());
            let looked = database.run(async |tx| {
                found = 0;
                tx.scan_index(table, 0, Range::between(&from, &end), |_, _| {
                    found += 1;
                    ControlFlow::Continue(())
                })
                .await
            });
            looked.await.expect("nobody is in the way");
            assert_eq!(found, 1, "{} round {round}", shared.scheme);
            let gone = database.run(async |tx| tx.delete(table, &key).await);
            gone.await.expect("nobody is in the way");
        }
    }
}

/// Begins a transaction, moves the row in another one that is dropped at some point of its commit,
/// and then looks for the row.
async fn reader<M: LineLocks>(
    shared: &Shared,
    member: &Member,
    database: &Database<M>,
    table: &Table<M>,
) {
    let handle = &member.handle;
    for round in 0..ROUNDS {
        shared.wait(member, 4 * round + 1).await;
        let (key, place) = ((5000 + round).to_be_bytes(), 1 + 1000 * (round % 200));
        let mut early = database.begin().await.expect("memory is in order");
        let mut moves = database.begin().await.expect("memory is in order");
        let to = FAR + 1 + 1000 * (200 + round % 200);
        moves.update(table, &key, &to.to_le_bytes()).await.expect("nobody is in the way");
        // A task finishes the commit, except for its purges.
        let soon = handle.now() + Duration::from_nanos(u64::from(round) * 100);
        let _ = handle.timeout(soon, moves.commit()).await;
        handle.sleep(Duration::from_micros(200)).await;
        shared.turn.set(4 * round + 2);
        shared.wait(member, 4 * round + 3).await;
        if shared.again {
            early.abort();
            // Any commit tries the waiting purges. This commit does so at about the same time as
            // the other node.
            handle.sleep(Duration::from_nanos(u64::from(round % 16) * 700)).await;
            let any = database.run(async |tx| {
                tx.update(table, &7_u32.to_be_bytes(), &7000_u32.to_le_bytes()).await
            });
            any.await.expect("nobody is in the way");
            handle.sleep(Duration::from_micros(100)).await;
            shared.turn.set(4 * round + 4);
            continue;
        }
        let mut found = 0;
        let (from, end) = (Key::new().u32(place).done(), Key::new().u32(place + 1).done());
        let range = Range::between(&from, &end);
        let looked = early.scan_index(table, 0, range, |_, _| {
            found += 1;
            ControlFlow::Continue(())
        });
        let ended = match looked.await {
            Ok(_) => early.commit().await,
            Err(error) => Err(error),
        };
        match ended {
            Err(TxnError::Conflict(_)) => shared.too_late.set(shared.too_late.get() + 1),
            Err(error) => panic!("{error}"),
            // The row existed when this transaction began.
            Ok(_) => assert_eq!(found, 1, "round {round}: a row is missing"),
        }
        shared.turn.set(4 * round + 4);
    }
}

fn run(shared: Shared) -> u32 {
    let config = ClusterConfig {
        compute_nodes: 2,
        memory_nodes: 1,
        workers: 1,
        inflight: 8,
        memory_bytes: 64 << 20,
        cache_bytes: Cache::footprint(2048, 1024),
        line_size: 1024,
        chunk_size: 128 << 10,
        seed: 1,
        ..ClusterConfig::default()
    };
    let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
    let shared = Rc::new(shared);
    let body = {
        let shared = shared.clone();
        move |member| play(shared.clone(), member)
    };
    cluster.run(Duration::from_secs(60), body).expect("it ends");
    shared.too_late.get()
}

/// Under timestamp ordering, a transaction with an earlier timestamp finds the row where it stood
/// then, or aborts.
#[test]
fn an_entry_that_waits_to_be_taken_away_hides_no_row_that_was_there() {
    let scheme = Scheme::TimestampOrdering;
    let too_late = run(Shared { scheme, ..Shared::default() });
    assert!(too_late > ROUNDS / 2, "{too_late} of {ROUNDS}");
}

#[test]
fn an_entry_that_waits_to_be_removed_hinders_no_transaction() {
    for scheme in Scheme::ALL {
        run(Shared { scheme, again: true, ..Shared::default() });
    }
}
