//! A node stops while other nodes wait for its aged transaction. The other nodes continue soon, on
//! rows that the stopped node does not own.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_runtime::Time;
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{
    Conflict, Database, DatabaseId, NodeId, Schema, Table, TransactionNode, TransactionSettings,
};
use latchwork_verbs::GlobalAddr;
use latchwork_verbs_sim::SimConfig;

const NODES: usize = 3;
const ELDER_FOR: Duration = Duration::from_millis(5);
const KEY: [u8; 4] = [0; 4];

#[derive(Default)]
struct World {
    root: RefCell<Option<GlobalAddr>>,
    ready: Cell<usize>,
    ended: Cell<usize>,
    gone: Cell<Option<Time>>,
    commits: Cell<usize>,
    /// The longest transaction of the other nodes since then.
    longest: Cell<Duration>,
}

fn schema(node: usize) -> Schema {
    let schema = Schema::builder(format!("rows of {node}"))
        .column("id", ColumnType::U32)
        .column("amount", ColumnType::U64)
        .primary_key(["id"]);
    schema.build().expect("a good schema")
}

impl World {
    /// Runs two nodes while the third stands still.
    fn run(has_place: bool) -> Rc<World> {
        let config = ClusterConfig {
            compute_nodes: NODES,
            workers: 1,
            inflight: 16,
            memory_bytes: 16 << 20,
            cache_bytes: Cache::footprint(256, 1024),
            line_size: 1024,
            chunk_size: 128 << 10,
            ..ClusterConfig::default()
        };
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let world = Rc::<World>::default();
        let body = {
            let world = world.clone();
            move |member| world.clone().work(member, has_place)
        };
        let paused = Cell::new(false);
        let watch = |cluster: &Simulated| {
            if world.gone.get().is_some() && !paused.replace(true) {
                cluster.pause(0, Duration::from_secs(60));
            }
        };
        cluster.run_watched(Duration::from_secs(200), body, watch).expect("it ends");
        world
    }

    async fn work(self: Rc<Self>, member: Member, has_place: bool) {
        let memory = member.memory.clone();
        let _operation = memory.enter().await.expect("memory is in order");
        let handle = memory.handle().clone();
        let settings =
            TransactionSettings { elder_for: ELDER_FOR, ..TransactionSettings::default() };
        let node = TransactionNode::new(NodeId(member.node as u8), None, settings);
        let database = self.open(memory, node, member.node == 0).await;
        let table = database.table(&format!("rows of {}", member.node)).await.expect("it is there");
        database.load(&table, &KEY, &[0; 8]).await.expect("room");
        // All nodes have read the queue of aged transactions, so each has a copy of its line.
        for _ in 0..20 {
            update(&database, &table).await;
        }
        self.ready.set(self.ready.get() + 1);
        while self.ready.get() < NODES {
            handle.sleep(Duration::from_micros(20)).await;
        }
        if member.node == 0 {
            let mut retry = database.retry();
            if has_place {
                while !retry.is_aged() {
                    retry.met(Conflict::Locked).await.expect("it is not tried for long");
                }
                handle.sleep(Duration::from_micros(300)).await;
            }
            self.gone.set(Some(handle.now()));
            while self.ended.get() < NODES - 1 {
                handle.sleep(Duration::from_millis(10)).await;
            }
            return;
        }
        while self.gone.get().is_none() {
            handle.sleep(Duration::from_micros(5)).await;
        }
        let end = handle.now() + Duration::from_millis(200);
        while handle.now() < end {
            let begin = handle.now();
            update(&database, &table).await;
            self.commits.set(self.commits.get() + 1);
            self.longest.set(self.longest.get().max(handle.now() - begin));
            handle.sleep(Duration::from_micros(5)).await;
        }
        self.ended.set(self.ended.get() + 1);
    }

    async fn open<M: LineLocks>(
        &self,
        memory: M,
        node: std::sync::Arc<TransactionNode>,
        makes: bool,
    ) -> Database<M> {
        if makes {
            let database = Database::create(memory, node, DatabaseId(1)).await.expect("room");
            for node in 0..NODES {
                database.create_table(schema(node)).await.expect("room");
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
}

async fn update<M: LineLocks>(database: &Database<M>, table: &Table<M>) {
    let updated = database.run(async |tx| tx.update(table, &KEY, &[1; 8]).await).await;
    updated.expect("nobody is in the way");
}

#[test]
fn a_stopped_node_with_an_aged_transaction_delays_no_other_node_for_long() {
    let (without, with) = (World::run(false), World::run(true));
    assert!(without.longest.get() < Duration::from_millis(1), "{:?}", without.longest);
    // One wait for the aged transaction of the stopped node, and one for the line that this node
    // owns.
    assert!(with.longest.get() < 3 * ELDER_FOR, "{:?}", with.longest);
    let (before, now) = (without.commits.get(), with.commits.get());
    assert!(now > before / 2, "{now} of {before}");
}
