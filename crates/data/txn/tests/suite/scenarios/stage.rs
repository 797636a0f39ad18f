//! The stage of scenarios: a database on simulated nodes with one worker each, whose steps the test
//! controls.

use std::future::Future;
use std::ops::ControlFlow;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Simulated, SimulatedNode, Worker};
use latchwork_coherence::CoherentMemory;
use latchwork_peers::RecoveryStep;
use latchwork_runtime::{JoinHandle, VirtualWorker};
use latchwork_txn::schema::{ColumnType, Order};
use latchwork_txn::{
    Database, DatabaseId, Health, Key, NodeId, Prepared, Range, Schema, Scheme, Table, Timestamp,
    Transaction, TransactionNode, TransactionSettings, TxnError,
};
use latchwork_verbs::MemoryNodeId;
use latchwork_verbs_sim::SimConfig;

const LIMIT: Duration = Duration::from_secs(30);

pub(crate) type Tx = Transaction<Worker>;

pub(crate) struct Stage {
    pub(crate) cluster: Simulated,
    nodes: Vec<(VirtualWorker, Part)>,
}

/// The handles of a node.
#[derive(Clone)]
pub(crate) struct Part {
    pub(crate) memory: Worker,
    pub(crate) database: Database<Worker>,
    /// Rows with a code each, two in a line.
    pub(crate) table: Table<Worker>,
    /// Rows outside the checks, two in a line.
    others: Table<Worker>,
}

fn schema(name: &str) -> latchwork_txn::schema::SchemaBuilder {
    Schema::builder(name)
        .column("id", ColumnType::U32)
        .column("code", ColumnType::U32)
        .column("amount", ColumnType::U32)
        .primary_key(["id"])
        .rows_per_line(2)
}

pub(crate) fn row(code: u32, amount: u32) -> [u8; 8] {
    let bytes = u64::from(amount) << 32 | u64::from(code);
    bytes.to_le_bytes()
}

impl Stage {
    pub(crate) fn new(scheme: Scheme, nodes: usize) -> Stage {
        Stage::with(scheme, nodes, |_| {})
    }

    /// On nodes that recover from the death of another one.
    pub(crate) fn surviving(scheme: Scheme, nodes: usize) -> Stage {
        Stage::with(scheme, nodes, |config| config.selcc.survive = true)
    }

    fn with(scheme: Scheme, nodes: usize, change: impl Fn(&mut ClusterConfig)) -> Stage {
        let mut config = ClusterConfig {
            compute_nodes: nodes,
            memory_nodes: 1,
            workers: 1,
            inflight: 16,
            memory_bytes: 16 << 20,
            cache_bytes: Cache::footprint(256, 1024),
            line_size: 1024,
            chunk_size: 128 << 10,
            seed: 1,
            ..ClusterConfig::default()
        };
        change(&mut config);
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let mut stage = Stage { cluster, nodes: Vec::new() };
        let mut root = None;
        for node in 0..nodes {
            let (actor, member) = stage.cluster.start_worker((node, 0, node)).expect("it is there");
            let memory = member.memory;
            let part = actor.run(LIMIT, async move {
                let _operation = memory.enter().await.expect("memory is in order");
                let settings = TransactionSettings { scheme, ..TransactionSettings::default() };
                let node = TransactionNode::new(NodeId(node as u8), None, settings);
                let database = match root {
                    Some(root) => Database::open(memory.clone(), node, root).await,
                    None => Database::create(memory.clone(), node, DatabaseId(1)).await,
                };
                let database = database.expect("room");
                if root.is_none() {
                    let coded = schema("rows")
                        .unique_index("by_code", [("code", Order::Ascending)])
                        .build()
                        .expect("a good schema");
                    database.create_table(coded).await.expect("room");
                    let others = schema("others").build().expect("a good schema");
                    database.create_table(others).await.expect("room");
                }
                let table = database.table("rows").await.expect("it is there");
                let others = database.table("others").await.expect("it is there");
                Part { memory, database, table, others }
            });
            let part = part.expect("it ends");
            root = Some(part.database.root());
            stage.nodes.push((actor, part));
        }
        stage
    }

    /// Starts a task on a node.
    pub(crate) fn start<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        node: usize,
        body: impl FnOnce(Part) -> F + 'static,
    ) -> JoinHandle<T> {
        let (actor, part) = &self.nodes[node];
        let part = part.clone();
        actor.handle().spawn(async move {
            let _operation = part.memory.enter().await.expect("memory is in order");
            body(part.clone()).await
        })
    }

    /// Waits for the end of a task.
    pub(crate) fn end<T: 'static>(&self, task: JoinHandle<T>) -> T {
        let ended = latchwork_runtime::run_all(self.cluster.kernel(), LIMIT, [task]);
        ended.expect("it ends").pop().expect("one")
    }

    pub(crate) fn on<T: 'static, F: Future<Output = T> + 'static>(
        &self,
        node: usize,
        body: impl FnOnce(Part) -> F + 'static,
    ) -> T {
        self.end(self.start(node, body))
    }

    pub(crate) fn pass(&self, time: Duration) {
        self.cluster.settle(time);
    }

    /// Runs a transaction that meets no other.
    pub(crate) fn run(
        &self,
        node: usize,
        mut body: impl AsyncFnMut(&mut Tx, &Table<Worker>) -> Result<(), TxnError> + 'static,
    ) {
        self.on(node, async move |part: Part| {
            let ended = part.database.run(async |tx| body(tx, &part.table).await).await;
            ended.expect("nobody is in the way");
        });
    }

    /// Locks the line of a row by a transaction that is prepared to change the row.
    pub(crate) fn lock(&self, node: usize, others: bool, key: u32) -> Prepared<Worker> {
        self.on(node, async move |part: Part| {
            let table = if others { &part.others } else { &part.table };
            let (key, mut row) = (key.to_be_bytes(), Vec::new());
            let mut tx = part.database.begin().await.expect("memory is in order");
            assert!(tx.get_for_update(table, &key, &mut row).await.expect("nobody is in the way"));
            tx.update(table, &key, &row).await.expect("it was read");
            tx.prepare().await.expect("nobody is in the way")
        })
    }

    pub(crate) fn unlock(&self, node: usize, locked: Prepared<Worker>) {
        self.on(node, async move |_| locked.abort().await);
    }

    /// Commits a change on a node. The change leaves a purge piece for the line of row `beside`.
    /// The piece waits in the queue of the node, because `by` locks the line before the purge runs.
    /// Any further commit of the node runs the purge.
    pub(crate) fn commit_and_leave(
        &self,
        (node, by): (usize, usize),
        number: u32,
        beside: u32,
        body: impl AsyncFnOnce(&mut Tx, &Table<Worker>) -> Result<(), TxnError> + 'static,
    ) {
        let (commits, first) = self.commit_and_wait((node, by), number, body);
        let second = self.lock(by, false, beside);
        self.unlock(by, first);
        self.end(commits).expect("it was validated");
        self.unlock(by, second);
    }

    /// Begins a commit on a node that then waits to publish a row: `by` has locked the line of that
    /// row. `by` holds the lock until the returned value is [unlocked](Stage::unlock).
    pub(crate) fn commit_and_wait(
        &self,
        (node, by): (usize, usize),
        number: u32,
        body: impl AsyncFnOnce(&mut Tx, &Table<Worker>) -> Result<(), TxnError> + 'static,
    ) -> (JoinHandle<Result<Timestamp, TxnError>>, Prepared<Worker>) {
        let keys = [2 * number, 2 * number + 1];
        let prepared = self.on(node, async move |part: Part| {
            let (others, [one, two]) = (&part.others, keys.map(u32::to_be_bytes));
            let put = part.database.run(async |tx| tx.insert(others, &one, &row(0, 0)).await);
            put.await.expect("room");
            let mut tx = part.database.begin().await.expect("memory is in order");
            body(&mut tx, &part.table).await.expect("nobody is in the way");
            // Beside the first row. Its line is not locked.
            tx.insert(others, &two, &row(0, 0)).await.expect("room");
            tx.prepare().await.expect("nobody is in the way")
        });
        let first = self.lock(by, true, keys[0]);
        let commits = self.start(node, async move |_| {
            let prepared = prepared.validate().await?;
            let cts = prepared.propose()?;
            prepared.commit(cts).await
        });
        // The commit has unlocked the changed rows, and waits for the line of the added row.
        self.pass(Duration::from_micros(200));
        assert!(!commits.is_finished());
        (commits, first)
    }

    /// The number of rows with this code.
    pub(crate) fn count(&self, node: usize, code: u32) -> usize {
        self.on(node, async move |part: Part| {
            let (from, to) = (Key::new().u32(code).done(), Key::new().u32(code + 1).done());
            let mut found = 0;
            let looked = part.database.run(async |tx| {
                found = 0;
                tx.scan_index(&part.table, 0, Range::between(&from, &to), |_, _| {
                    found += 1;
                    ControlFlow::Continue(())
                })
                .await
            });
            looked.await.expect("nobody is in the way");
            found
        })
    }

    /// Replaces the worker of a node, which ends.
    pub(crate) fn replace_worker(&mut self, node: usize) {
        let other = self.on(node, async |part: Part| {
            let Part { memory, database, .. } = part;
            let root = database.root();
            let database = Database::open(memory.clone(), database.node().clone(), root).await;
            let database = database.expect("it is there");
            let table = database.table("rows").await.expect("it is there");
            let others = database.table("others").await.expect("it is there");
            Part { memory, database, table, others }
        });
        self.nodes[node].1 = other;
    }

    /// Kills a node. The others keep it out, and recover from its death.
    pub(crate) fn kill_and_recover(&self, dead: usize) {
        let living = || (0..self.nodes.len()).filter(|node| self.cluster.lives(*node));
        self.cluster.kill(dead);
        self.cluster.fence(SimulatedNode::Memory(MemoryNodeId(0)), dead);
        for node in living() {
            self.cluster.fence(SimulatedNode::Compute(node), dead);
            self.cluster.forget(node, dead);
        }
        for step in RecoveryStep::ALL {
            let recover = |node| self.cluster.recover(node, (step, dead), Duration::ZERO);
            let first = if step == RecoveryStep::Sweep { 1 } else { usize::MAX };
            let steps: Vec<_> = living().take(first).map(recover).collect();
            for taken in steps {
                assert!(self.end(taken.expect("a port")), "{step:?}");
            }
        }
        for node in living() {
            assert!(self.end(self.cluster.reclaim(node, dead).expect("a port")));
        }
    }

    /// The health of a node.
    pub(crate) fn health(&self, node: usize) -> Health {
        self.nodes[node].1.database.node().health()
    }

    /// Ends the workers without a graceful leave. Returns the health of a node.
    pub(crate) fn abandon(self, node: usize) -> Health {
        let state = self.nodes[node].1.database.node().clone();
        drop(self);
        state.health()
    }

    /// Lets the workers of living nodes leave, and ends the world.
    pub(crate) fn finish(self) {
        for (node, (actor, part)) in self.nodes.into_iter().enumerate() {
            if !self.cluster.lives(node) {
                continue;
            }
            let Part { memory, database, table, others } = part;
            drop((database, table, others));
            let left = actor.handle().spawn_service(memory.leave());
            let ended = latchwork_runtime::run_all(self.cluster.kernel(), LIMIT, [left]);
            ended.expect("it ends").pop().expect("one").expect("memory is in order");
        }
    }
}
