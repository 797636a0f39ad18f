//! Transactions that stop before their commit.

use std::sync::Arc;
use std::time::Duration;

use latchwork_cache::Cache;
use latchwork_cluster::{ClusterConfig, Member, Simulated};
use latchwork_coherence::{CoherentMemory, LineLocks};
use latchwork_txn::schema::ColumnType;
use latchwork_txn::{
    Conflict, Database, DatabaseId, NodeId, Schema, Scheme, Table, Transaction, TransactionNode,
    TransactionSettings, TxnError,
};
use latchwork_verbs_sim::SimConfig;
use latchwork_wal::LogDirectory;
use latchwork_wal::storage::Torn;

async fn stocked<M: LineLocks>(memory: &M, scheme: Scheme) -> (Database<M>, Table<M>) {
    let settings = TransactionSettings { scheme, ..TransactionSettings::default() };
    let node = TransactionNode::new(NodeId(0), None, settings);
    let database = Database::create(memory.clone(), node, DatabaseId(1)).await.expect("room");
    let schema = Schema::builder("things")
        .column("id", ColumnType::U8)
        .column("amount", ColumnType::U8)
        .primary_key(["id"])
        .rows_per_line(1)
        .build();
    let table = database.create_table(schema.expect("a good schema")).await.expect("room");
    let fill = async |tx: &mut Transaction<_>| {
        for key in 0..8_u8 {
            tx.insert(&table, &[key], &[key]).await?;
        }
        Ok(())
    };
    database.run(fill).await.expect("nobody is in the way");
    (database, table)
}

fn each_scheme<F: Future<Output = ()> + 'static>(
    body: impl Fn(Member, Scheme) -> F + Copy + 'static,
) {
    for scheme in Scheme::ALL {
        let config = ClusterConfig {
            compute_nodes: 1,
            memory_nodes: 1,
            workers: 1,
            inflight: 8,
            memory_bytes: 16 << 20,
            cache_bytes: Cache::footprint(256, 1024),
            line_size: 1024,
            chunk_size: 128 << 10,
            seed: 1,
            ..ClusterConfig::default()
        };
        let cluster = Simulated::start(config, SimConfig::default()).expect("a good configuration");
        let limit = Duration::from_secs(10);
        cluster
            .run(limit, move |member| body(member, scheme))
            .unwrap_or_else(|e| panic!("{scheme}: {e}"));
    }
}

async fn is_there<M: LineLocks>(database: &Database<M>, table: &Table<M>, key: u8) -> Option<u8> {
    let mut row = Vec::new();
    let found = database.run(async |tx| tx.get(table, &[key], &mut row).await).await;
    found.expect("nobody is in the way").then(|| row[0])
}

/// Whether another transaction may read and write this row.
async fn is_free<M: LineLocks>(database: &Database<M>, table: &Table<M>, key: u8) -> bool {
    let mut tx = database.begin().await.expect("memory is in order");
    let written = match tx.update(table, &[key], &[77]).await {
        Ok(()) => match tx.prepare().await {
            Ok(prepared) => {
                prepared.abort().await;
                Ok(())
            }
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    };
    match written {
        Ok(()) => true,
        Err(error) => {
            assert!(error.conflict().is_some(), "{error}");
            false
        }
    }
}

async fn settle<M: LineLocks>(database: &Database<M>) {
    database.memory().handle().sleep(Duration::from_millis(1)).await;
}

#[test]
fn what_is_prepared_is_locked_until_it_is_decided() {
    each_scheme(|member, scheme| async move {
        let _operation = member.memory.enter().await.expect("memory is in order");
        let (database, table) = stocked(&member.memory, scheme).await;
        for commits in [true, false] {
            let mut tx = database.begin().await.expect("memory is in order");
            tx.update(&table, &[1], &[101]).await.expect("it is there");
            tx.delete(&table, &[2]).await.expect("it is there");
            tx.insert(&table, &[20], &[120]).await.expect("it is not there");
            let prepared = tx.prepare().await.expect("nobody is in the way");
            assert!(prepared.has_writes());
            let prepared = prepared.validate().await.expect("nobody is in the way");
            let proposed = prepared.propose().expect("a clock that goes");
            for key in [1, 2] {
                assert!(!is_free(&database, &table, key).await, "{scheme}: {key}");
            }
            match commits {
                false => prepared.abort().await,
                true => {
                    let cts = match scheme {
                        Scheme::TimestampOrdering => proposed,
                        _ => database.node().clock().draw(proposed).expect("a clock that goes"),
                    };
                    assert_eq!(prepared.commit(cts).await.expect("memory is in order"), cts);
                    let rows = [(1, Some(101)), (2, None), (20, Some(120))];
                    for (key, row) in rows {
                        assert_eq!(is_there(&database, &table, key).await, row, "{scheme}: {key}");
                    }
                    let undo = async |tx: &mut Transaction<_>| {
                        tx.update(&table, &[1], &[1]).await?;
                        tx.insert(&table, &[2], &[2]).await?;
                        tx.delete(&table, &[20]).await
                    };
                    database.run(undo).await.expect("nobody is in the way");
                }
            }
            for (key, row) in [(1, Some(1)), (2, Some(2)), (20, None)] {
                assert_eq!(is_there(&database, &table, key).await, row, "{scheme}: {key}");
            }
        }
    });
}

#[test]
fn dropping_aborts_until_it_is_sealed() {
    each_scheme(|member, scheme| async move {
        let _operation = member.memory.enter().await.expect("memory is in order");
        let (database, table) = stocked(&member.memory, scheme).await;
        for sealed in [false, true] {
            let mut tx = database.begin().await.expect("memory is in order");
            tx.update(&table, &[1], &[101]).await.expect("it is there");
            tx.insert(&table, &[20], &[120]).await.expect("it is not there");
            let prepared = tx.prepare().await.expect("nobody is in the way");
            if sealed {
                prepared.validate().await.expect("nobody is in the way").seal();
            } else {
                drop(prepared);
            }
            settle(&database).await;
            assert_eq!(is_free(&database, &table, 1).await, !sealed, "{scheme}");
            let health = database.node().health();
            assert_eq!(health.left_locked, usize::from(sealed), "{scheme}: {health}");
            assert_eq!(health.is_good(), !sealed, "{scheme}: {health}");
            let why = sealed.then_some("its worker ended first");
            assert_eq!(health.cause.as_deref(), why, "{scheme}");
            let mut tx = database.begin().await.expect("memory is in order");
            let mut row = Vec::new();
            let met = tx.get(&table, &[20], &mut row).await;
            let pending = matches!(met, Err(TxnError::Conflict(_)));
            assert_eq!(pending, sealed, "{scheme}: {met:?}");
        }
    });
}

#[test]
fn what_was_read_and_is_not_locked_has_to_be_validated() {
    each_scheme(|member, scheme| async move {
        let _operation = member.memory.enter().await.expect("memory is in order");
        let (database, table) = stocked(&member.memory, scheme).await;
        let mut row = Vec::new();
        // One row that the transaction only reads, and one that it reads and writes.
        let mut tx = database.begin().await.expect("memory is in order");
        tx.get(&table, &[1], &mut row).await.expect("it is there");
        let reads = tx.prepare().await.expect("nobody is in the way");
        assert_eq!(reads.needs_validation(), scheme == Scheme::Optimistic, "{scheme}");
        let mut tx = database.begin().await.expect("memory is in order");
        tx.get(&table, &[3], &mut row).await.expect("it is there");
        tx.update(&table, &[3], &[3]).await.expect("it is there");
        let writes = tx.prepare().await.expect("nobody is in the way");
        assert!(!writes.needs_validation(), "{scheme}");
        drop(writes);
        // A missing row needs validation under each scheme except timestamp ordering.
        let mut tx = database.begin().await.expect("memory is in order");
        assert!(!tx.get(&table, &[30], &mut row).await.expect("memory is in order"));
        let missing = tx.prepare().await.expect("nobody is in the way");
        assert_eq!(missing.needs_validation(), scheme != Scheme::TimestampOrdering, "{scheme}");
        if scheme != Scheme::Optimistic {
            return;
        }
        database.run(async |tx| tx.update(&table, &[1], &[9]).await).await.expect("free");
        database.run(async |tx| tx.insert(&table, &[30], &[9]).await).await.expect("free");
        for changed in [reads.validate().await, missing.validate().await] {
            assert!(changed.is_err_and(|error| error.conflict().is_some()));
        }
    });
}

/// A checkpoint waits for transactions that begin before its floor. A part with an earlier
/// timestamp that comes later would be neither in the checkpoint nor in the logs.
#[test]
fn a_part_that_comes_behind_a_checkpoint_with_an_earlier_timestamp_is_refused() {
    each_scheme(|member, scheme| async move {
        let _operation = member.memory.enter().await.expect("memory is in order");
        let (database, table) = stocked(&member.memory, scheme).await;
        let early = database.begin().await.expect("memory is in order").timestamp();
        database.begin_at(early).expect("there was no checkpoint").abort();
        // The floor is at least the timestamp of this commit.
        database.run(async |tx| tx.update(&table, &[2], &[9]).await).await.expect("free");
        let directory = LogDirectory::open(Arc::new(Torn::new(1)), DatabaseId(1)).expect("empty");
        let deadline = member.handle.now() + Duration::from_secs(1);
        let nodes = [database.node().clone()];
        let written = database.checkpoint(&nodes, &directory, deadline).await.expect("written");
        assert!(early <= written.floor, "{scheme}");
        match (database.begin_at(early), scheme) {
            (Err(TxnError::Conflict(Conflict::TooLate)), Scheme::TimestampOrdering) => {}
            // The given timestamp has no effect: the part draws a later one.
            (Ok(tx), Scheme::TwoPhaseLocking | Scheme::Optimistic) => tx.abort(),
            (other, _) => panic!("{scheme}: {:?}", other.err()),
        }
        let late = database.begin().await.expect("memory is in order").timestamp();
        let mut tx = database.begin_at(late).expect("it is above the floor");
        tx.update(&table, &[1], &[9]).await.expect("it is there");
        let cts = tx.commit().await.expect("nobody is in the way");
        assert!(cts > written.floor, "{scheme}");
    });
}
