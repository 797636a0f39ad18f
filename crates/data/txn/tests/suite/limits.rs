//! A node locks at most a share of the lines of its cache. A transaction that alone needs more
//! locks gets an error. A transaction that finds the locks in use by other transactions is
//! repeated.

use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::{CoherentMemory, MemoryError};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{
    Conflict, Database, DatabaseId, NodeId, Schema, TransactionNode, TransactionSettings, TxnError,
};
use latchwork_verbs_sim::SimConfig;

const ROWS: u8 = 100;

async fn play(member: Member) {
    let memory = member.memory.clone();
    let _operation = memory.enter().await.expect("memory is in order");
    let node = TransactionNode::new(NodeId(0), None, TransactionSettings::default());
    let database = Database::create(memory.clone(), node, DatabaseId(1)).await.expect("room");
    let schema = Schema::builder("things")
        .column("id", ColumnType::U8)
        .column("amount", ColumnType::U8)
        .primary_key(["id"])
        .rows_per_line(1)
        .build();
    let table = database.create_table(schema.expect("a good schema")).await.expect("room");
    for key in 0..ROWS {
        let put = database.run(async |tx| tx.insert(&table, &[key], &[key]).await);
        put.await.expect("nobody is in the way");
    }
    let mut row = Vec::new();
    let mut alone = database.begin().await.expect("memory is in order");
    let mut locked = 0;
    let error = loop {
        assert!(locked < ROWS, "all rows do not fit");
        match alone.get(&table, &[locked], &mut row).await {
            Ok(found) => assert!(found),
            Err(error) => break error,
        }
        locked += 1;
    };
    let own = matches!(&error, TxnError::Memory(error) if matches!(**error, MemoryError::TooManyLocks { .. }));
    assert!(own && error.to_string().contains("lock-share"), "{error}");
    drop(alone);
    let mut large = database.begin().await.expect("memory is in order");
    for key in 0..locked - 2 {
        assert!(large.get(&table, &[key], &mut row).await.expect("as many as before"));
    }
    let small = async || {
        let mut small = database.begin().await.expect("memory is in order");
        for key in ROWS - 5..ROWS {
            small.get(&table, &[key], &mut Vec::new()).await?;
        }
        small.commit().await
    };
    let error = small().await.expect_err("the other has nearly all");
    assert_eq!(error.conflict(), Some(Conflict::Locked), "{error}");
    large.commit().await.expect("nobody is in the way");
    small().await.expect("there is room");
}

#[test]
fn a_transaction_that_is_in_the_way_of_others_is_no_error() {
    let config = ClusterConfig {
        compute_nodes: 1,
        memory_nodes: 1,
        workers: 1,
        inflight: 8,
        memory_bytes: 16 << 20,
        cache_bytes: Cache::footprint(64, 1024),
        line_size: 1024,
        chunk_size: 128 << 10,
        seed: 1,
        ..ClusterConfig::default()
    };
    let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
    cluster.run(Duration::from_secs(10), play).expect("it ends");
}
