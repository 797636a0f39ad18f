//! The front door on nodes with their own fabrics and memberships, like processes. All nodes are
//! threads of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use latchwork::cluster::{MemoryHost, Transport};
use latchwork::membership::{Joining, Membership, MemoryStore, Role};
use latchwork::txn::{Schema, schema::ColumnType};
use latchwork::verbs_shm::HugePages;
use latchwork::{Cluster, ClusterWorker, Error, Result};

use crate::config;
use crate::ends_with;

/// Longer than any machine stalls.
const LONG: Duration = Duration::from_secs(60);
const NODES: usize = 3;

fn join(store: &Arc<MemoryStore>, role: Role) -> Membership {
    let joining = Joining { ttl: LONG, ..Joining::new(role) };
    Membership::join(store.clone(), "test", joining).expect("a free id")
}

/// Runs a program on three nodes, and returns its results.
fn on_all<T: Send>(program: impl Fn(Cluster) -> T + Sync) -> Vec<T> {
    let directory = tempfile::tempdir().expect("a directory");
    let place = Some(directory.path().join("shm"));
    let transport = Transport::Shm { directory: place, huge_pages: HugePages::Never };
    let (config, store) = (config(NODES, 2, 1), Arc::default());
    let bytes = config.memory_bytes;
    let memory =
        MemoryHost::start(&transport, join(&store, Role::Memory { bytes, chip_bytes: 0 }), false);
    let memory = memory.expect("memory");
    let node = || {
        let membership = join(&store, Role::Compute);
        let cluster = Cluster::join(config.clone(), &transport, membership, LONG);
        program(cluster.expect("it joins"))
    };
    let ends = thread::scope(|scope| {
        let threads: Vec<_> = (0..NODES).map(|_| scope.spawn(node)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    });
    let wait = memory.membership().wait(LONG, |view| view.compute().next().is_none());
    wait.expect("no node uses the memory");
    let dead = memory.membership().view().dead().count();
    assert_eq!(dead, 0, "every node has left gracefully");
    assert!(memory.leave(LONG).expect("it leaves"), "no node uses the memory");
    ends
}

fn rows() -> Schema {
    let schema = Schema::builder("rows")
        .column("id", ColumnType::U32)
        .column("value", ColumnType::U64)
        .primary_key(["id"]);
    schema.build().expect("a good schema")
}

/// Adds one to a row of the database and inserts a key into the tree. Waits until all workers have
/// done so, and returns both counts.
async fn meet(worker: ClusterWorker) -> Result<(u64, u64)> {
    let everyone = 2 * NODES as u64;
    let tree = worker.tree("tree").await?;
    let bank = worker.database("bank")?;
    let rows = bank.table("rows").await?;
    let key = 0_u32.to_be_bytes();
    let value = async |add: u64| {
        let sum = bank.run(async |tx| {
            let mut row = Vec::new();
            if tx.get_for_update(&rows, &key, &mut row).await? {
                let value = u64::from_le_bytes(row[..].try_into().expect("a row")) + add;
                tx.update(&rows, &key, &value.to_le_bytes()).await?;
                return Ok(value);
            }
            tx.insert(&rows, &key, &add.to_le_bytes()).await?;
            Ok(add)
        });
        sum.await.map_err(Error::from)
    };
    value(1).await?;
    tree.insert(&(worker.index as u64).to_be_bytes(), b"was here").await?;
    let deadline = worker.handle.now() + LONG;
    loop {
        let counts = (value(0).await?, tree.count().await?);
        if counts == (everyone, everyone) || worker.handle.now() > deadline {
            return Ok(counts);
        }
        worker.handle.sleep(Duration::from_millis(2)).await;
    }
}

#[test]
fn nodes_of_several_processes_share_trees_and_databases_by_their_names() {
    for forgets in [false, true] {
        let ended = AtomicUsize::new(0);
        let ends = on_all(|cluster| {
            let cluster = cluster.with_patience(LONG);
            cluster.database("bank").table(rows()).open().expect("made once, or found");
            let counts = cluster.run(meet).expect("memory has room");
            // An access of a transaction may fail when another node leaves (docs/guides/cluster.md,
            // Limits), so nodes leave only when all transactions are over.
            ended.fetch_add(1, Ordering::SeqCst);
            let deadline = cluster.now() + LONG;
            while ended.load(Ordering::SeqCst) < NODES && cluster.now() < deadline {
                thread::park_timeout(Duration::from_millis(1));
            }
            if !forgets {
                cluster.close().expect("it leaves");
            }
            counts
        });
        let everyone = 2 * NODES as u64;
        for counts in ends.into_iter().flatten() {
            assert_eq!(counts, (everyone, everyone));
        }
    }
}

#[test]
fn a_log_of_several_processes_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let ends = on_all(|cluster| {
        let bank = cluster.database("bank").directory(directory.path()).table(rows());
        let error = bank.open().expect_err("one log cannot have it");
        cluster.close().expect("it leaves");
        error
    });
    for error in ends {
        assert!(matches!(error, Error::LogOfProcesses { .. }), "{error:?}");
        assert!(error.to_string().contains("Cluster::start"), "{error}");
    }
}

#[test]
fn an_exchange_waits_for_all_processes_and_fails_when_one_has_left() {
    let ends = on_all(|cluster| {
        let node = cluster.run(async |worker| Ok(worker.node)).expect("it runs")[0];
        let values = cluster.exchange("nodes", &[node as u8]).expect("all come");
        assert_eq!(values, [[0], [1], [2]]);
        ends_with(cluster.exchange("no name", b""), &["is no name of a"]);
        let again = (node > 0).then(|| cluster.exchange("again", b""));
        cluster.close().expect("it leaves");
        again
    });
    for again in ends.into_iter().flatten() {
        ends_with(again, &["C1 left before it gave its value"]);
    }
    let alone = Cluster::start(config(2, 1, 1)).expect("a cluster");
    assert_eq!(alone.exchange("nodes", b"all").expect("nothing to wait for"), [b"all"]);
}
